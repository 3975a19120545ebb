"""What an audit will cost, and the trial that it rests on."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file

from scotoma.config import default_config, parse_config
from scotoma.costs import child
from scotoma.costs.child import sizes
from scotoma.costs.steps import StepCost, audit_steps, total_time, variant_costs
from scotoma.costs.trial import Span, Trial, read_trial, try_network
from scotoma.errors import ConfigError, DataError
from scotoma.predictions import Predictions
from scotoma.quantization.compressing import compress
from scotoma.quantization.graphs import export_graph
from scotoma.training.engine import Member, Training
from scotoma.training.models import build_model
from scotoma.training.task import Task
from tests.costs import IMAGES, SIZE, TRIAL

pytestmark = pytest.mark.slow

ELSEWHERE = """\
source:
  kind: onnx
  models: models
  images: pictures
  attributes: table.csv
  split: {column: part, train: train, test: test}
label: {column: face}
groups: {sex: {column: sex}}
variants: [dense, {onnx: [small], paired: true, bits: 8}]
population: {models: 2}
tracking: {uri: "off"}
"""


def foreign_model(path: Path) -> str:
    """A model made elsewhere, for two classes and images of 8x12 pixels."""
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0),
            helper.make_node("MatMul", ["mean", "weight"], ["scores"]),
        ],
        "mean",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ("n", 3, 8, 12))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ("n", 2))],
        [
            numpy_helper.from_array(np.array([2, 3], np.int64), "axes"),
            numpy_helper.from_array(np.ones((3, 2), np.float32), "weight"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(model, path)
    return str(path)


# --- costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["tiny-convnet", "resnet8", "resnet18"])
def test_the_size_of_a_trained_member_is_that_of_its_file(model: str, tmp_path: Path) -> None:
    (trained,) = Training(
        [Member("dense", 0, 0)],
        np.zeros((4, 3, 64, 64), np.uint8),
        np.arange(4),
        model=model,
        task=Task(7),
        recipe=default_config().source.recipe.model_copy(update={"steps": 1, "batch_size": 2}),
        backend="loop",
    ).run()
    path = tmp_path / "member.safetensors"
    save_file({name: value.contiguous() for name, value in trained.state.items()}, path)
    assert sizes(build_model(model, 7, 0))["member_bytes"] == path.stat().st_size


CONFIG = """\
label: {column: digit}
groups: {style: {column: style}}
variants: [dense, {prune: [0.5, 0.9]}, {int8: [dynamic, static]}, {float16: true}, {int4: true}]
population: {models: 4}
tracking: {uri: "off"}
"""


def test_the_sizes_of_compressed_members_are_estimated_to_a_fifth(tmp_path: Path) -> None:
    config = parse_config(CONFIG, "a.yaml")
    model = build_model("tiny-convnet", 10, 0)
    images = np.zeros((4, 3, 8, 8), np.float32)
    graph = export_graph(model, torch.from_numpy(images[:2]))
    estimated = {v.name: v for v in variant_costs(config, SIZE, IMAGES, TRIAL)}
    for variant in config.resolved_variants:
        if variant.derived_from:
            path = tmp_path / f"{variant.name}.onnx"
            compress(graph.graph, path, variant, images)
            expected = estimated[variant.name].weights_bytes
            assert expected == pytest.approx(4 * path.stat().st_size, rel=0.2), variant.name


def test_predictions_take_no_more_than_is_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = tuple(f"{row:08d}" for row in range(SIZE.test))
    predicted = rng.integers(0, 10, (SIZE.test, 4)).astype(np.uint8)  # nothing to compress
    path = tmp_path / "dense.parquet"
    Predictions(
        variant="dense",
        example_ids=ids,
        members=tuple(range(4)),
        classes=tuple("0123456789"),
        predicted=predicted,
    ).write(path)
    config = parse_config(CONFIG, "a.yaml")
    said = variant_costs(config, SIZE, IMAGES, TRIAL)[0].predictions_bytes
    header = 2500  # of a Parquet file, which thousands of rows outweigh
    assert path.stat().st_size <= said / 2 + header


def costs(**changes: Any) -> dict[str, StepCost]:
    config = parse_config(CONFIG, "a.yaml")
    size = replace(SIZE, **{k: v for k, v in changes.items() if k in vars(SIZE)})
    trial = replace(TRIAL, **{k: v for k, v in changes.items() if k in vars(TRIAL)})
    return {step.step: step for step in audit_steps(config, size, IMAGES, trial)}


def seconds(step: StepCost) -> float:
    assert step.time is not None
    return step.time.middle


def test_training_takes_the_rounds_that_cores_leave_to_chunks_of_members() -> None:
    # 4 members of 400 steps of 10 ms each, one chunk a variant of up to 5 members.
    start = 0.12 * 4.0 + 0.5 * 4.0
    decoding = 200 * (60e-6 + 8e-9 * 192)
    assert seconds(costs(together=4)["train"]) == pytest.approx(16 + start + decoding)
    assert seconds(costs(together=4)["prune"]) == pytest.approx(16 + start + decoding)
    one_core = costs(together=4, cores=1)
    assert seconds(one_core["prune"]) == pytest.approx(32 + start + decoding)
    alone = costs(together=1)
    assert seconds(alone["train"]) == pytest.approx(8 + start + decoding)


@given(st.floats(1e-4, 10.0), st.integers(1, 64))
def test_no_step_gets_cheaper_where_a_training_step_takes_longer(slow: float, cores: int) -> None:
    quick, late = costs(cores=cores), costs(cores=cores, step=Span(0.01 + slow, 0.01, 20.0, 9))
    assert seconds(late["train"]) > seconds(quick["train"])
    assert seconds(late["prune"]) > seconds(quick["prune"])
    assert seconds(late["predict"]) == seconds(quick["predict"])


def test_the_whole_is_the_sum_of_its_steps_and_unknown_with_one_of_them() -> None:
    steps = list(costs().values())
    total = total_time(steps)
    assert total is not None
    assert total.middle == pytest.approx(sum(map(seconds, steps)))
    assert total.low < total.middle < total.high
    assert total_time(costs(step=None).values()) is None


def test_steps_that_measure_run_side_by_side_on_two_cores() -> None:
    steps = costs()
    alone, beside = total_time(steps.values()), total_time(steps.values(), 2)
    assert alone is not None
    assert beside is not None
    others = seconds(steps["divergence"]) + seconds(steps["bias"])
    assert alone.middle - beside.middle == pytest.approx(min(seconds(steps["slices"]), others))


# --- the trial ------------------------------------------------------------------------------------


def told(batch: int, taken: float, memory: int = 10**9) -> dict[str, Any]:
    return {"batch": batch, "step_s": taken, "peak_bytes": memory}


@given(st.floats(0.001, 1), st.floats(0.001, 1), st.integers(65, 500))
def test_a_step_is_carried_on_along_the_line_through_the_batches_tried(
    fixed: float, image: float, batch: int
) -> None:
    lines = [told(size, fixed + size * image, 1000 + size) for size in (2, 4, 8, 64)]
    found = read_trial(lines, batch)
    assert found.step is not None
    assert found.step.middle == pytest.approx(fixed + batch * image)
    assert found.step.low == pytest.approx(found.step.middle / 2)
    assert found.step.high == pytest.approx(found.step.middle * 2)
    assert (found.tried, found.worker_bytes) == (64, 1000 + batch)


def test_a_step_of_members_as_one_is_shared_by_them() -> None:
    found = read_trial([{"together": 5}, told(64, 0.5), told(64, 0.7), told(64, 0.9)], 64)
    assert found.step is not None
    times = (found.step.middle, found.step.low, found.step.high)
    assert times == pytest.approx((0.14, 0.1, 0.18))


def test_a_prediction_that_did_not_end_in_time_takes_a_third_of_a_step() -> None:
    found = read_trial([told(64, 0.6)], 64)
    assert found.image is not None
    assert found.image.middle == pytest.approx(0.6 / 64 / 3)


def test_a_trial_in_which_nothing_ended_says_so() -> None:
    assert read_trial([{"start_s": 1.0}], 64).reason.startswith("nothing ended within the time")


@pytest.fixture(scope="module")
def real() -> Trial:
    return try_network(default_config(), 10, (8, 8), 898, seconds=4.0)


def test_a_real_trial_measures_steps_predictions_and_memory(real: Trial) -> None:
    assert real.reason == ""
    assert real.member_bytes == 199_040
    assert real.step is not None
    assert 0 < real.step.low <= real.step.middle <= real.step.high
    assert 1 <= real.tried <= real.batch == 64
    assert real.image is not None
    assert real.alone is not None
    assert real.worker_bytes is not None
    assert real.worker_bytes > 10**8


def test_a_trial_ends_in_time_whatever_a_step_takes() -> None:
    config = default_config()
    recipe = config.source.recipe.model_copy(update={"batch_size": 256})
    source = config.source.model_copy(update={"model": "wrn-28-10", "recipe": recipe})
    ticks: list[float] = []
    began = time.monotonic()
    found = try_network(
        config.model_copy(update={"source": source}), 10, (64, 64), 898, seconds=0.5,
        tick=ticks.append,
    )  # fmt: skip
    assert found.start_s is not None
    assert time.monotonic() - began < found.start_s + 10
    assert found.step is None or found.tried < 256
    assert ticks == sorted(ticks)


def asked(monkeypatch: pytest.MonkeyPatch, **request: Any) -> list[dict[str, Any]]:
    """What the child tells, in this process."""
    given = {
        "config": default_config().model_dump_json(),
        "classes": 10,
        "shape": None,
        "batch": 64,
        "seconds": 0,
        "files": None,
        "asked": time.monotonic(),
    }
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(given | request)))
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        child.main()
    return [json.loads(line) for line in told.getvalue().splitlines()]


def test_an_unknown_network_is_refused_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = asked(monkeypatch, model="resnet")
    with pytest.raises(ConfigError, match=r"^source.model 'resnet' is neither one of"):
        read_trial(lines, 64)


def test_only_sizes_are_told_where_no_time_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = asked(monkeypatch, model="resnet8", shape=[32, 32])
    assert (line["parameters"], line["layers"]) == (78_042, 10)


def test_a_model_made_elsewhere_is_run_on_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = parse_config(ELSEWHERE, "a.yaml")
    model = foreign_model(tmp_path / "dense" / "0.onnx")
    request = {"config": config.model_dump_json(), "files": {"dense": model}, "classes": 2}
    start, line = asked(monkeypatch, **request, shape=[8, 12], seconds=0.2)
    assert start["start_s"] >= 0
    assert (line["variant"], line["at_once"]) == ("dense", 256)
    found = read_trial([start, line], 0)
    assert found.images["dense"] == found.image
    assert found.reason == ""


def test_a_model_that_does_not_take_these_images_is_refused_with_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = parse_config(ELSEWHERE, "a.yaml")
    model = foreign_model(tmp_path / "dense" / "0.onnx")
    request = {"config": config.model_dump_json(), "files": {"dense": model}, "classes": 2}
    lines = asked(monkeypatch, **request, shape=[32, 32])
    with pytest.raises(DataError, match=r"dense/0.onnx takes images of"):
        read_trial(lines, 0)
