"""What do the files that Hugging Face leaves beside a model say of its pictures and classes?

An image processor is a class and its settings. What the classes do differently is in the tables
below; `transformers` 5.24 was read for them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotoma import storage
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.storage.files import file_digest, open_regular

PROCESSOR, CONFIG = "preprocessor_config.json", "config.json"
MOST_BYTES = 4_000_000  # of such a file: 21,000 class names take half a megabyte

FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # numbers of Pillow
# Classes by the name before `ImageProcessor`. A size of one number is the shorter side of these:
SHORTER_SIDE = {"bit", "chineseclip", "clip", "convnext", "levit", "mobilenetv1", "mobilenetv2"}
SHORTER_SIDE |= {"mobilevit", "poolformer", "textnet"}
BILINEAR = {"mobilenetv1", "mobilenetv2", "segformer", "swin", "textnet", "vit"}  # by default
NEVER_NORMALIZED = {"mobilevit"}
CROPS_FIRST = {"perceiver"}  # which is not followed
SQUASHED_FROM = 384  # ConvNeXt's shorter side, from which on nothing is cut off
READ = {
    "crop_pct", "crop_size", "do_center_crop", "do_flip_channel_order", "do_normalize",
    "do_rescale", "do_resize", "feature_extractor_type", "image_mean", "image_processor_type",
    "image_std", "include_top", "resample", "rescale_factor", "rescale_offset", "size",
}  # fmt: skip
# They change no pixel of a picture: names of classes, tensors, and what is said of labels.
SILENT = {
    "_processor_class", "_valid_processor_keys", "auto_map", "data_format", "default_to_square",
    "device", "do_convert_rgb", "do_reduce_labels", "disable_grouping", "input_data_format",
    "image_seq_length", "processor_class", "reduce_labels", "return_tensors",
}  # fmt: skip


@dataclass(frozen=True)
class ImageSettings:
    """What an image processor makes of a picture; None where its settings do not say.

    Attributes:
        size: Height and width, pixels.
        fit: `middle` keeps proportions and cuts the middle out, `squash` does not.
        crop: Share of the resized sides that is kept.
        resample: One of `FILTERS`.
        channels: `RGB` or `BGR`.
        pixels: `scale`, `mean` and `std` of (pixel / scale - mean) / std; empty where not said.
        unread: Settings that no picture here is changed by.
    """

    size: list[int] | None = None
    fit: str | None = None
    crop: float | None = None
    resample: str | None = None
    channels: str | None = None
    pixels: Mapping[str, Any] | None = None
    unread: tuple[str, ...] = ()

    @property
    def geometry(self) -> dict[str, Any]:
        """Size, fit, crop and resample, as far as they are said."""
        named = ("size", "fit", "crop", "resample")
        return {key: value for key in named if (value := getattr(self, key)) is not None}


def file_beside(models: str, name: str) -> str | None:
    """Find a file beside the dense models, or else in the place of all; None without one."""
    places = storage.join(models, "dense", name), storage.join(models, name)
    return next(filter(storage.exists, places), None)


def read_beside(models: str, name: str) -> Mapping[str, Any]:
    """Read a file of `file_beside`; empty where there is none.

    Raises:
        DataError: It is no JSON.
    """
    place = file_beside(models, name)
    return {} if place is None else read_json_file(place)


def read_json_file(place: str | Path) -> Mapping[str, Any]:
    """Read one of the files; empty where it is not there.

    Raises:
        DataError: It is no JSON.
    """
    place = str(place)
    if not storage.exists(place):
        return {}
    try:
        with storage.at_hand(place) as path, open_regular(path) as file:
            content = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        key = "source.preprocessing" if place.endswith(PROCESSOR) else "source.classes"
        raise DataError(
            f"{printable(place)} must be JSON; correct or remove it, and set {key}"
        ) from error
    return content if isinstance(content, dict) else {}


def digest_beside(models: str) -> str:
    """Digest of both files; empty where there is neither."""
    digests = []
    for name in (PROCESSOR, CONFIG):
        if place := file_beside(models, name):
            with storage.at_hand(place) as path:
                digests.append(f"{name} {file_digest(path)}")
    return " ".join(digests)


def image_settings(content: Mapping[str, Any]) -> ImageSettings:
    """Read the settings of an image processor.

    >>> image_settings({"size": {"height": 48, "width": 48}, "resample": 3}).geometry
    {'size': [48, 48], 'fit': 'squash', 'resample': 'bicubic'}
    """
    kind = str(content.get("image_processor_type") or content.get("feature_extractor_type") or "")
    kind = re.sub(r"(ImageProcessor(Fast|Pil)?|FeatureExtractor)$", "", kind).lower()
    unread = [key for key, value in content.items() if value and key not in READ | SILENT]
    geometry, unused = _geometry(content, kind)
    number = content.get("resample", 2 if not kind or kind in BILINEAR else 3)
    if geometry and isinstance(number, int) and 0 <= number < len(FILTERS):
        geometry["resample"] = FILTERS[number]
    flipped = content.get("do_flip_channel_order")
    return ImageSettings(
        **geometry,
        channels=None if flipped is None else "BGR" if flipped else "RGB",
        pixels=_pixels(content, kind),
        unread=tuple(map(printable, (*unread, *unused))),
    )


def _geometry(content: Mapping[str, Any], kind: str) -> tuple[dict[str, Any], list[str]]:
    """Size, fit and crop, and what of them cannot be followed."""
    cropped = bool(content.get("do_center_crop", "crop_size" in content))
    kept = _sides(content.get("crop_size")) if cropped else None
    size = content.get("size")
    square = _sides(size)
    shorter = size.get("shortest_edge") if isinstance(size, Mapping) else None
    if isinstance(size, int) and kind in SHORTER_SIDE:
        square, shorter = None, size
    if not content.get("do_resize", True) or kind in CROPS_FIRST:
        return {}, ["crop_size"] if kept else []
    longest = ["size.longest_edge"] if isinstance(size, Mapping) and "longest_edge" in size else []
    share = content.get("crop_pct")
    share = share if isinstance(share, int | float) and 0 < share <= 1 else None
    if kind == "convnext" and isinstance(shorter, int):
        if shorter >= SQUASHED_FROM:
            return {"size": [shorter] * 2, "fit": "squash"}, longest
        kept, shorter = [shorter] * 2, int(shorter / (share or 224 / 256))
    elif share and (shorter or square) and kept:
        square, shorter = None, int((shorter or min(square or [0])) / share)
    elif kind == "levit" and isinstance(shorter, int):
        shorter = int(256 / 224 * shorter)
    if isinstance(shorter, int) and kept and kept[0] == kept[1] and 0 < kept[0] <= shorter:
        return {"size": kept, "fit": "middle", "crop": kept[0] / shorter}, longest
    if square and not kept:
        return {"size": square, "fit": "squash"}, longest
    if square and kept and 0 < kept[0] <= square[0] and kept[0] * square[1] == kept[1] * square[0]:
        return {"size": kept, "fit": "squash", "crop": kept[0] / square[0]}, longest
    return {}, [key for key in ("size", "crop_size") if content.get(key)]


def _sides(value: Any) -> list[int] | None:
    """Height and width; None where two are not said."""
    if isinstance(value, Mapping):
        value = [value.get("height"), value.get("width")]
    value = [value, value] if isinstance(value, int) and not isinstance(value, bool) else value
    return list(value) if _are_numbers(value, 2, int) else None


def _pixels(content: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """Scale, mean and std; None where nothing is said."""
    if not {"image_mean", "rescale_factor", "do_rescale"} & content.keys():
        return None
    factor = content.get("rescale_factor", 1 / 255)
    rescaled = content.get("do_rescale", True) and isinstance(factor, int | float) and factor > 0
    pixels: dict[str, Any] = {"scale": round(1 / factor, 9) if rescaled else 1.0}
    mean, std = (_three(content.get(key)) for key in ("image_mean", "image_std"))
    if content.get("do_normalize", True) and kind not in NEVER_NORMALIZED and mean and std:
        pixels |= {"mean": mean, "std": std}
    if content.get("rescale_offset"):  # EfficientNet's pixel * factor - 1
        pixels["mean"] = [1 + one for one in pixels.get("mean", [0.0] * 3)]
    if kind == "efficientnet" and content.get("include_top", True) and std:
        again = pixels.get("std", [1.0] * 3)  # it divides by the deviation once more
        pixels["std"] = [one * other for one, other in zip(again, std, strict=True)]
    return pixels


def _three(value: Any) -> list[float] | None:
    value = [value] * 3 if isinstance(value, int | float) else value
    return list(value) if _are_numbers(value, 3, int | float) else None


def _are_numbers(value: Any, count: int, kind: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(one, kind) and not isinstance(one, bool) for one in value)
    )


def class_names(content: Mapping[str, Any]) -> list[str]:
    """List the classes of `id2label` in the order of the scores; empty where it says none.

    >>> class_names({"id2label": {"1": "cat", "0": "dog"}})
    ['dog', 'cat']
    """
    named = content.get("id2label")
    if not isinstance(named, Mapping) or {*named} != {str(k) for k in range(len(named))}:
        return []
    return [str(named[str(k)]) for k in range(len(named))]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip().casefold()


def in_words_of_labels(names: Sequence[str], labels: Collection[str]) -> list[str] | None:
    """Spell class names as labels do: as they stand, without regard to case, or as numbers.

    Args:
        names: Classes, in the order of the scores.
        labels: Values of the labels.

    Returns:
        A class for each name, unique, every label among them; None where some label is none.

    >>> in_words_of_labels(["Dog", "Cat"], {"cat", "dog"})
    ['dog', 'cat']
    >>> in_words_of_labels(["dog", "cat", "bird"], {"2", "0"})
    ['0', '1', '2']
    """
    numbers = [str(number) for number in range(len(names))]
    if {*labels} <= {*numbers} and not {*labels} <= {*names}:
        return numbers
    for spelled in (str, _folded):
        places: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            places.setdefault(spelled(name), []).append(place)
        own = {label: places.get(spelled(label), []) for label in labels}
        if all(len(where) == 1 for where in own.values()) and len(
            {where[0] for where in own.values()}
        ) == len(own):
            classes = [
                name if len(places[spelled(name)]) == 1 else f"{name} ({place})"
                for place, name in enumerate(names)
            ]
            for label, (place,) in own.items():
                classes[place] = label
            return classes
    return None
