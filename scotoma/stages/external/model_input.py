"""Which images does an external model take: what its file and the files beside it say of that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scotoma import storage
from scotoma.config import Config, OnnxSource
from scotoma.errors import DataError
from scotoma.extras import needs
from scotoma.printable import printable
from scotoma.readers.hugging_face import (
    PROCESSOR,
    file_beside,
    image_settings,
    read_beside,
)
from scotoma.run.copies import folder_here
from scotoma.storage.regular import open_regular

__all__ = ["with_model_input"]

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
        Size and layout as the first dense model takes them; fit, crop, resample, channels, mean,
        std and scale from a `preprocessor_config.json` beside it or in `source.models`, or from
        ONNX's metadata of images. Where nothing is said, the configuration as it is.

    Raises:
        DataError: The metadata ask for pixels that cannot be made here.
    """
    source = config.source
    if not isinstance(source, OnnxSource) or source.registered is not None:
        return config
    models = source.models
    names = storage.list_names(storage.join(models, "dense"), folders=False)
    first = min((name for name in names if name.endswith(".onnx")), default="")
    if not first:
        return config  # refused where models are looked for
    needs("onnx", "train", "source.kind onnx")  # before a model is brought here for nothing
    copy = folder_here(storage.StampedFiles(models, (f"dense/{first}",))) / "dense" / first
    size, layout, metadata = _of_model(copy)
    said = image_settings(read_beside(models, PROCESSOR))
    ready = source.preprocessing
    own: dict[str, Any] = {"layout": layout, "channels": said.channels}
    own = {k: v for k, v in own.items() if v is not None and k not in ready.model_fields_set}
    if not {"scale", "mean", "std"} & ready.model_fields_set:
        pixels = _pixel_range(metadata, first) if said.pixels is None else said.pixels
        own = {**pixels, **own}
    found: dict[str, Any] = {"preprocessing": ready.model_copy(update=own)}
    geometry = said.geometry | ({} if size is None else {"size": size})
    found |= {k: v for k, v in geometry.items() if k not in source.model_fields_set}
    try:
        filled = OnnxSource.model_validate(source.model_copy(update=found).model_dump())
    except ValidationError as error:
        fault = error.errors()[0]
        key, value = ".".join(one for one in fault["loc"] if isinstance(one, str)), fault["input"]
        says = file_beside(models, PROCESSOR) or storage.join(models, "dense", first)
        raise DataError(
            f"{printable(says)} must describe images, got {printable(repr(value))[:40]} for {key}; "
            f"correct it, or set source.{key}"
        ) from error
    return config.model_copy(update={"source": filled})


def _of_model(path: Path) -> tuple[list[int] | None, str | None, dict[str, str]]:
    """Height and width, layout and metadata of a model; nothing of a file that is none."""
    onnx = needs("onnx", "train", "source.kind onnx")
    try:
        with open_regular(path) as file:
            model = onnx.load_model_from_string(file.read())
    except Exception:  # of protobuf's own classes; the file is refused where it is run
        return None, None, {}
    from scotoma.inference.external import image_input

    metadata = {entry.key.lower(): entry.value for entry in model.metadata_props}
    dtype, shape = image_input(model) or ("", [])
    if dtype == "uint8":  # its graph scales pixels
        metadata.setdefault("image.nominalpixelrange", "nominalrange_0_255")
    if len(shape) != 4 or 3 not in (shape[1], shape[3]):
        return None, None, metadata
    layout = "NCHW" if shape[1] == 3 else "NHWC"
    sides = [side or 0 for side in (shape[2:] if layout == "NCHW" else shape[1:3])]
    return (sides if min(sides) > 0 else None), layout, metadata


def _pixel_range(metadata: Mapping[str, str], name: str) -> dict[str, Any]:
    """Scale, mean and order of ONNX's metadata of images; empty where they say nothing."""
    pixels, order = metadata.get("image.nominalpixelrange"), metadata.get("image.bitmappixelformat")
    channels = {"rgb8": "RGB", "rgba8": "RGB", "bgr8": "BGR", "bgra8": "BGR"}
    if order is not None and order.lower() not in channels:
        raise DataError(
            f"{printable(name)} says that it takes {printable(order)} pixels; export it for "
            "Rgb8 or Bgr8, or set source.preprocessing.scale if it takes RGB all the same"
        )
    if pixels is not None and pixels.lower() not in RANGES:
        raise DataError(
            f"{printable(name)} says that it takes pixels as {printable(pixels)}; set scale, "
            "mean and std in source.preprocessing"
        )
    ordered = {} if order is None else {"channels": channels[order.lower()]}
    return ordered | ({} if pixels is None else RANGES[pixels.lower()])
