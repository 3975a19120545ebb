"""Activations of external int8 models beyond their ranges, in a process of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import polars as pl
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from scotoma.audit import read_audit
from scotoma.config.limits import LIMITS
from scotoma.corruptions import corrupt, profile
from scotoma.errors import DataError
from scotoma.inference import Network, Preprocessing
from scotoma.quantization.beyond_range import ranges, watched
from scotoma.stages.members.activation_ranges import shares_beyond_ranges
from scotoma.stages.robustness import step
from tests.commands import scotoma
from tests.external_models import EXTERNAL, external_model
from tests.steps import steps_in_this_process

pytestmark = pytest.mark.slow

N = 60
STEP, ZERO = np.float32(1 / 300), np.uint8(0)  # of a range that ends at 0.85
ROBUST = """\
robustness: {profile: scaled, severities: [5], kinds: [brightness], examples: 50, activation_ranges: true}
"""  # noqa: E501


def quantized(path: Path) -> None:
    """The same model, its means rounded to bytes whose range calibration fixed."""
    model = onnx.load(external_model(path))
    for name, value in (("step", STEP), ("zero", ZERO)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    model.graph.node.insert(1, helper.make_node("QuantizeLinear", ["mean", "step", "zero"], ["q"]))
    model.graph.node.insert(2, helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["d"]))
    model.graph.node[3].input[0] = "d"
    onnx.save_model(model, path)


def test_an_external_model_is_watched_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "int8.onnx"
    quantized(path)
    images = np.random.default_rng(0).integers(0, 256, (9, 3, 8, 12)).astype(np.uint8)
    images[:4] = 255
    network = Network("onnx", 2, Preprocessing(255, (0, 0, 0)), limits=LIMITS)
    (shares,) = shares_beyond_ranges([path], [0], images, network).T
    assert shares.tolist() == [1] * 4 + [0] * 5


@pytest.mark.thorough
def test_external_int8_models_are_watched_and_float_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's mean by NumPy, clean and brighter; severity 5 leaves the range more often."""
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 256, (N, 1, 1, 3)) + rng.integers(-20, 20, (N, 8, 12, 3))
    pixels = pixels.clip(0, 255).astype(np.uint8)
    (tmp_path / "pictures").mkdir()
    names = [f"p{row:02d}.png" for row in range(N)]
    for name, own in zip(names, pixels, strict=True):
        Image.fromarray(own).save(tmp_path / "pictures" / name)
    pl.DataFrame(
        {"image": names, "part": ["train"] * 4 + ["test"] * (N - 4),
         "face": ["yes", "no"] * (N // 2), "sex": ["f", "f", "m", "m"] * (N // 4)}
    ).write_csv(tmp_path / "table.csv")  # fmt: skip
    for model in ("0", "1"):
        external_model(tmp_path / "models" / "dense" / f"{model}.onnx")
        quantized(tmp_path / "models" / "small" / f"{model}.onnx")
    (tmp_path / "audit.yaml").write_text(EXTERNAL + ROBUST)
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", "audit.yaml", "--out", "run")
    assert code == 0, err
    report = read_audit(tmp_path / "run" / "audit.json").robustness
    assert report is not None
    assert {row.variant for row in report.activation_ranges} == {"small"}
    ids = pl.read_parquet(tmp_path / "run" / "robustness" / "brightness-5.parquet")["example_id"]
    order = [names.index(f"{Path(one).stem}.png") for one in ids]
    worse = corrupt(pixels[order], ids.to_list(), "brightness", 5, profile("scaled", 8), seed=0)
    end = float(STEP) * 255.5
    beyond = [(own.mean(axis=(1, 2)) / 255 > end).mean() for own in (pixels[order], worse)]
    clean, bright = report.activation_ranges
    assert (clean.kind, bright.kind, bright.severity) == ("clean", "brightness", 5)
    assert clean.share.value == pytest.approx(beyond[0])
    assert bright.share.value == pytest.approx(beyond[1])
    assert bright.rise is not None
    assert bright.rise.value == pytest.approx(beyond[1] - beyond[0])
    assert beyond[1] > beyond[0] > 0

    monkeypatch.setattr(step, "watched_places", lambda *_: ())  # as of float models alone
    with steps_in_this_process(tmp_path):
        again = ("audit", "audit.yaml", "--out", "run", "--step", "robustness")
        code, _, err = scotoma(*again)
    assert code == 4
    assert "needs models that round activations to fixed ranges" in err


def test_ranges_that_are_no_whole_activations_are_left_out(tmp_path: Path) -> None:
    external_model(tmp_path / "float.onnx")
    floating = onnx.load(tmp_path / "float.onnx")
    assert ranges(floating) == []
    with pytest.raises(DataError, match="quantize it statically"):
        watched(floating)
    quantized(tmp_path / "int8.onnx")
    model = onnx.load(tmp_path / "int8.onnx")
    ((tensor, scale, zero),) = ranges(model)
    assert (tensor, float(scale), int(zero)) == ("mean", float(STEP), 0)
    by_channel = np.full(3, STEP)
    for one in model.graph.initializer:
        if one.name == "step":
            one.CopyFrom(numpy_helper.from_array(by_channel, "step"))
    assert ranges(model) == []
    model.graph.input.append(helper.make_tensor_value_info("step", TensorProto.FLOAT, []))
    del model.graph.initializer[-2]
    assert ranges(model) == []
