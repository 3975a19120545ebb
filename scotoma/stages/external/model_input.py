"""Which images does an external model take: what its file and the files beside it say of that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scotoma.config import Config, OnnxSource
from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.printable import printable
from scotoma.storage.regular import open_regular

__all__ = ["with_model_input"]

BESIDE = "preprocessor_config.json"  # as Hugging Face's image processors leave it
MOST_BYTES = 100_000  # of that file
RANGES: dict[str, dict[str, Any]] = {  # of ONNX's metadata of images
    "nominalrange_0_255": {"scale": 1.0},
    "normalized_0_1": {"scale": 255.0},
    "normalized_1_1": {"scale": 127.5, "mean": [1.0, 1.0, 1.0]},
}


def with_model_input(config: Config) -> Config:
    """Fill in what `source.kind: onnx` leaves open: size, crop and preprocessing of the images.

    Args:
        config: What it sets stays. Models of a registry are not looked at: they are not here yet.

    Returns:
        Size and layout as the first dense model takes them; crop, mean, std and scale from a
        `preprocessor_config.json` beside it or in `source.models`, or from ONNX's metadata of
        images. Where nothing is said, the configuration as it is.

    Raises:
        DataError: The metadata ask for pixels that cannot be made here.
    """
    source = config.source
    if not isinstance(source, OnnxSource) or source.registered is not None:
        return config
    folder = Path(source.models)
    files = sorted(folder.glob("dense/*.onnx"))
    if not files:
        return config  # refused where models are looked for
    size, layout, metadata = _of_model(files[0])
    beside = _beside((files[0].parent / BESIDE, folder / BESIDE))
    ready = source.preprocessing
    own = {} if layout is None or "layout" in ready.model_fields_set else {"layout": layout}
    if not {"scale", "mean", "std"} & ready.model_fields_set:
        own |= _pixels(beside) or _pixel_range(metadata, files[0])
    found: dict[str, Any] = {"preprocessing": ready.model_copy(update=own)}
    known = {"size": size or _sides(beside), "crop": _crop(beside)}
    found |= {
        key: value
        for key, value in known.items()
        if value is not None and key not in source.model_fields_set
    }
    filled = OnnxSource.model_validate(source.model_copy(update=found).model_dump())
    return config.model_copy(update={"source": filled})


def _of_model(path: Path) -> tuple[list[int] | None, str | None, dict[str, str]]:
    """Height and width, layout and metadata of a model; nothing of a file that is none."""
    onnx = needs("onnx", "train", "source.kind onnx")
    try:
        with open_regular(path) as file:
            model = onnx.load_model_from_string(file.read())
    except Exception:  # of protobuf's own classes; the file is refused where it is run
        return None, None, {}
    held = {initializer.name for initializer in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in held]
    metadata = {entry.key.lower(): entry.value for entry in model.metadata_props}
    shape = [side.dim_value for side in inputs[0].type.tensor_type.shape.dim] if inputs else []
    if len(shape) != 4 or 3 not in (shape[1], shape[3]):
        return None, None, metadata
    layout = "NCHW" if shape[1] == 3 else "NHWC"
    sides = shape[2:] if layout == "NCHW" else shape[1:3]
    return (sides if min(sides) > 0 else None), layout, metadata


def _beside(places: tuple[Path, ...]) -> Mapping[str, Any]:
    """The settings of an image processor; empty where there is none."""
    place = next((path for path in places if path.is_file()), None)
    if place is None:
        return {}
    try:
        with open_regular(place) as file:
            content = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"{printable(str(place))} must be JSON; correct or remove it, and set "
            "source.preprocessing"
        ) from error
    return content if isinstance(content, dict) else {}


def _sides(beside: Mapping[str, Any]) -> list[int] | None:
    """Height and width that an image processor makes."""
    cropped = beside.get("do_center_crop", "crop_size" in beside)
    value = beside.get("crop_size") if cropped else beside.get("size")
    if isinstance(value, dict):
        value = (
            [value["height"], value["width"]]
            if {"height", "width"} <= value.keys()
            else value.get("shortest_edge")
        )
    if isinstance(value, int):
        value = [value, value]
    return value if _are_numbers(value, 2) else None


def _crop(beside: Mapping[str, Any]) -> float | None:
    """The share of the shorter side that an image processor keeps; None where it says nothing."""
    if not beside.get("do_center_crop", "crop_size" in beside):
        return None
    kept, resized = _sides(beside), beside.get("size")
    if isinstance(resized, dict):
        resized = resized.get("shortest_edge") or resized.get("height")
    if not kept or not isinstance(resized, int) or not 0 < min(kept) <= resized:
        return None
    return min(kept) / resized


def _pixels(beside: Mapping[str, Any]) -> dict[str, Any]:
    """Scale, mean and std of an image processor; empty where it says nothing."""
    if not {"image_mean", "rescale_factor", "do_rescale"} & beside.keys():
        return {}
    factor = beside.get("rescale_factor", 1 / 255)
    rescaled = beside.get("do_rescale", True) and isinstance(factor, int | float) and factor > 0
    pixels: dict[str, Any] = {"scale": round(1 / factor, 9) if rescaled else 1.0}
    if beside.get("do_normalize", True):
        named = {"mean": beside.get("image_mean"), "std": beside.get("image_std")}
        pixels |= {key: value for key, value in named.items() if _are_numbers(value, 3)}
    return pixels


def _are_numbers(value: Any, count: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(one, int | float) and not isinstance(one, bool) for one in value)
    )


def _pixel_range(metadata: Mapping[str, str], path: Path) -> dict[str, Any]:
    """Scale and mean of ONNX's metadata of images; empty where it says nothing."""
    name, order = metadata.get("image.nominalpixelrange"), metadata.get("image.bitmappixelformat")
    if order is not None and order.lower() not in ("rgb8", "rgba8"):
        raise DataError(
            f"{printable(path.name)} says that it takes {printable(order)} pixels, and it is given "
            "RGB; export it for RGB, or set source.preprocessing.scale if it takes RGB all the same"
        )
    if name is not None and name.lower() not in RANGES:
        raise DataError(
            f"{printable(path.name)} says that it takes pixels as {printable(name)}; set scale, "
            "mean and std in source.preprocessing"
        )
    return {} if name is None else RANGES[name.lower()]
