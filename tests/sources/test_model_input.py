"""What external models take, read from their files and from what lies beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from scotoma.config import Config, parse_config
from scotoma.datasets import decode_images
from scotoma.datasets.image_size import ImageSize
from scotoma.errors import ConfigError, DataError
from scotoma.sources.onnx import OnnxSource
from scotoma.sources.reading import load_examples

CONFIG = """\
source:
  kind: onnx
  models: {home}/models
  images: {home}/images
  attributes: {home}/table.csv
label: {{column: face}}
groups: {{sex: {{column: sex}}}}
variants: [dense, {{onnx: [int8]}}]
population: {{models: 1}}
"""
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CROPPED: dict[str, Any] = {
    "do_center_crop": True, "crop_size": {"height": 8, "width": 8}, "size": {"shortest_edge": 10},
    "do_rescale": True, "rescale_factor": 0.00392156862745098, "do_normalize": True, **IMAGENET,
}  # fmt: skip


def model(folder: Path, shape: tuple[Any, ...], metadata: dict[str, str] | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["images"], ["scores"])],
        "one",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    helper.set_model_props(made, metadata or {})
    onnx.save_model(made, folder / "a.onnx")


def completed(home: Path, more: str = "") -> tuple[OnnxSource, Config]:
    text = CONFIG.format(home=home).replace("  images:", f"{more}  images:", 1)
    config = parse_config(text, "audit.yaml").completed()
    assert isinstance(config.source, OnnxSource)
    return config.source, config


def test_images_of_mixed_sizes_become_what_the_model_takes(tmp_path: Path) -> None:
    model(tmp_path / "models" / "dense", ("n", 6, 9, 3))
    (tmp_path / "images").mkdir()
    rows = ["image,face,sex"]
    for at, (width, height) in enumerate([(9, 6), (40, 30), (13, 31), (300, 20)]):
        wide = np.linspace(0, 255, width).astype(np.uint8)
        pixels = np.broadcast_to(wide[None, :, None], (height, width, 3))
        Image.fromarray(np.ascontiguousarray(pixels)).save(tmp_path / "images" / f"{at}.png")
        rows.append(f"{at}.png,{at % 2},{'fm'[at // 2]}")
    (tmp_path / "table.csv").write_text("\n".join(rows) + "\n")

    source, config = completed(tmp_path)
    assert (source.size, source.preprocessing.layout) == ([6, 9], "NHWC")
    examples = load_examples(config)
    pixels = decode_images(examples)
    assert pixels.shape == (4, 3, 6, 9)
    # Of its own size an image keeps its pixels; of the widest 30 of 300 columns are kept, whose
    # values differ by a tenth of 255.
    assert (pixels[0, 0, 0] == np.linspace(0, 255, 9).astype(np.uint8)).all()
    assert 100 < pixels[3].min() < pixels[3].max() < 155
    assert examples.notes == (
        "models see the middle of each image at 9x6 pixels, as (pixel / 255 - [0, 0, 0]) / [1, 1, "
        "1]",
    )
    assert [note.sentence for note in examples.admission] == [
        "the models' scores are read in the order 0, 1 (the labels by value)"
    ]


def test_the_middle_is_what_torchvision_cuts_out() -> None:
    torchvision = pytest.importorskip("torchvision")
    across, down = np.meshgrid(np.linspace(0, 200, 320), np.linspace(0, 55, 256))
    image = Image.fromarray(np.repeat((across + down)[..., None], 3, 2).astype(np.uint8))
    transforms = torchvision.transforms
    theirs = transforms.CenterCrop(224)(transforms.Resize(256)(image))
    ours = ImageSize(224, 224, 0.875).applied(image)
    np.testing.assert_allclose(np.asarray(ours, int), np.asarray(theirs, int), atol=1)


def test_the_settings_of_an_image_processor_are_taken(tmp_path: Path) -> None:
    model(tmp_path / "models" / "dense", ("n", 3, "h", "w"))
    (tmp_path / "models" / "preprocessor_config.json").write_text(json.dumps(CROPPED))
    source, _ = completed(tmp_path)
    assert (source.size, source.crop) == ([8, 8], 0.8)
    ready = source.preprocessing
    assert (ready.mean, ready.std, ready.scale) == (*IMAGENET.values(), 255.0)
    # What the configuration sets stays: its scale stands with its own mean and std.
    own, _ = completed(tmp_path, "  crop: 1\n  size: [4, 5]\n  preprocessing: {scale: 127.5}\n")
    assert (own.size, own.crop, own.preprocessing.scale) == ([4, 5], 1.0, 127.5)
    assert own.preprocessing.mean == [0.0, 0.0, 0.0]
    # A second look changes nothing: a run keeps what it began with.
    again = completed(tmp_path)[1].completed()
    assert again == completed(tmp_path)[1]


@pytest.mark.parametrize(
    ("content", "crop", "scale"),
    [
        ({**CROPPED, "do_center_crop": False, "size": {"height": 9, "width": 9}}, 1.0, 255.0),
        ({**CROPPED, "crop_size": 8, "size": 8, "do_rescale": False}, 1.0, 1.0),
        ({"rescale_factor": 1 / 127.5, "do_normalize": False}, 1.0, 127.5),
        ({"crop_size": {"width": 8}, "image_mean": "half"}, 1.0, 255.0),
    ],
)
def test_settings_may_say_less(
    content: dict[str, Any], crop: float, scale: float, tmp_path: Path
) -> None:
    model(tmp_path / "models" / "dense", ("n", 3, 12, 12))
    beside = tmp_path / "models" / "dense" / "preprocessor_config.json"
    beside.write_text(json.dumps(content))
    source, _ = completed(tmp_path)
    assert (source.size, source.crop, source.preprocessing.scale) == ([12, 12], crop, scale)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"size": {"height": -5, "width": 8}}, "got -5 for size; correct it, or set source.size"),
        ({"rescale_factor": 1e12}, "got 0.0 for preprocessing.scale; correct it, or set source."),
        ({"image_mean": [0.5] * 3, "image_std": [0.0] * 3}, "got 0.0 for preprocessing.std; corr"),
    ],
)
def test_settings_that_describe_no_image_are_refused(
    content: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    model(tmp_path / "models" / "dense", ("n", 3, "h", "w"))
    (tmp_path / "models" / "preprocessor_config.json").write_text(json.dumps(content))
    with pytest.raises(DataError) as refused:
        completed(tmp_path)
    assert f"preprocessor_config.json must describe images, {sentence}" in str(refused.value)


def test_onnx_metadata_of_images_are_taken(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "dense"
    model(folder, (1, 3, 8, 8), {"Image.NominalPixelRange": "Normalized_1_1"})
    ready = completed(tmp_path)[0].preprocessing
    # (pixel / 127.5 - 1) / 1 takes 0 to -1 and 255 to 1.
    assert (ready.scale, ready.mean, ready.std) == (127.5, [1.0] * 3, [1.0] * 3)
    model(folder, (1, 3, 8, 8), {"Image.NominalPixelRange": "NominalRange_16_235"})
    with pytest.raises(DataError, match="takes pixels as NominalRange_16_235; set scale"):
        completed(tmp_path)
    model(folder, (1, 3, 8, 8), {"Image.BitmapPixelFormat": "Bgr8"})
    assert completed(tmp_path)[0].preprocessing.channels == "BGR"
    model(folder, (1, 3, 8, 8), {"Image.BitmapPixelFormat": "Gray8"})
    with pytest.raises(DataError, match="takes Gray8 pixels; export it for Rgb8 or Bgr8"):
        completed(tmp_path)


def test_what_says_nothing_changes_nothing(tmp_path: Path) -> None:
    for shape in (("n", 192), ("n", 1, 8, 8), ("n", "c", "h", "w")):
        model(tmp_path / "models" / "dense", shape)
        assert completed(tmp_path)[0].size is None
    (tmp_path / "models" / "dense" / "a.onnx").write_bytes(b"no model")
    assert completed(tmp_path)[0].size is None
    (tmp_path / "models" / "preprocessor_config.json").write_text("{")
    with pytest.raises(DataError, match=r"preprocessor_config\.json must be JSON"):
        completed(tmp_path)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("size: 0", "source.size.0 must be at least 1, got 0"),
        ("size: [8]", "source.size should have at least 2 items, got [8]"),
        ("size: big", "source.size should be a valid array, got 'big'"),
        ("crop: 1.5", "source.crop must be at most 1.0, got 1.5"),
    ],
)
def test_a_size_that_is_none_is_refused_where_it_stands(
    line: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        completed(tmp_path, f"  {line}\n")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("audit.yaml:4 ")
