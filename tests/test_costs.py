"""What an audit will cost, and the few steps that the estimate rests on."""

from __future__ import annotations

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

from scotoma.config import Config, default_config, parse_config
from scotoma.costs.estimate import StepCost, audit_steps, variant_costs
from scotoma.costs.measure import NetworkCost, measure_models, measure_training, network_sizes
from scotoma.errors import ConfigError, DataError
from scotoma.predictions import Predictions
from scotoma.quantization.compress import compress
from scotoma.quantization.graphs import export_graph
from scotoma.stages.external.models import network_of
from scotoma.training.engine import Member, Training
from scotoma.training.models import build_model
from scotoma.training.task import TrainingTask
from tests.network_cost import IMAGES, NETWORK, SIZE

pytestmark = pytest.mark.slow

EXTERNAL = """\
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


def external_model(path: Path) -> Path:
    """An external model, for two classes and images of 8x12 pixels."""
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
    return path


# --- costs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["tiny-convnet", "resnet8", "resnet18"])
def test_the_size_of_a_trained_member_is_that_of_its_file(model: str, tmp_path: Path) -> None:
    (trained,) = Training(
        [Member("dense", 0, 0)],
        np.zeros((4, 3, 64, 64), np.uint8),
        np.arange(4),
        model=model,
        task=TrainingTask(7),
        recipe=default_config().source.recipe.model_copy(update={"steps": 1, "batch_size": 2}),
        backend="loop",
    ).run()
    path = tmp_path / "member.safetensors"
    save_file({name: value.contiguous() for name, value in trained.state.items()}, path)
    assert network_sizes(build_model(model, 7, 0)).member_bytes == path.stat().st_size


CONFIG = """\
label: {column: digit}
groups: {style: {column: style}}
variants: [dense, {prune: [0.5, 0.9]}, {int8: [dynamic, static]}, {float16: true}, {int4: true}]
population: {models: 4}
tracking: {uri: "off"}
"""


def test_the_sizes_of_compressed_members_are_estimated_within_a_sixth(tmp_path: Path) -> None:
    config = parse_config(CONFIG, "a.yaml")
    model = build_model("tiny-convnet", 10, 0)
    images = np.zeros((4, 3, 8, 8), np.float32)
    graph = export_graph(model, torch.from_numpy(images[:2]))
    estimated = {v.name: v for v in variant_costs(config, SIZE, NETWORK)}
    for variant in config.resolved_variants:
        if variant.derived_from:
            path = tmp_path / f"{variant.name}.onnx"
            compress(graph.graph, path, variant, images)
            expected = estimated[variant.name].weights_bytes
            assert expected == pytest.approx(4 * path.stat().st_size, rel=1 / 6), variant.name


def test_predictions_take_no_more_than_the_estimate(tmp_path: Path) -> None:
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
    most = variant_costs(config, SIZE, NETWORK)[0].predictions_bytes
    header = 2500  # of a Parquet file, which thousands of rows outweigh
    assert path.stat().st_size <= most / 2 + header


def steps(**changes: Any) -> dict[str, StepCost]:
    config = parse_config(CONFIG, "a.yaml")
    network = replace(NETWORK, **changes)
    return {step.step: step for step in audit_steps(config, SIZE, IMAGES, network)}


def seconds(step: StepCost) -> float:
    assert step.seconds is not None
    return step.seconds


def test_training_takes_the_rounds_that_workers_leave_to_chunks_of_members() -> None:
    # 4 members of 400 steps of 10 ms each, one chunk a variant of up to 5 members; a start of 2 s.
    assert seconds(steps(together=4)["train"]) == pytest.approx(16 + 2)
    assert seconds(steps(together=4)["prune"]) == pytest.approx(16 + 2)
    assert seconds(steps(together=4, workers=1)["prune"]) == pytest.approx(32 + 2)
    assert seconds(steps(together=1)["train"]) == pytest.approx(8 + 2)


def test_prediction_takes_a_third_of_the_training_step_an_image() -> None:
    # 7 variants of 4 members predict 100 images each, on two workers.
    assert seconds(steps()["predict"]) == pytest.approx(7 * 4 * 100 * 0.01 / 64 / 3 / 2 + 2)
    assert seconds(steps()["bias"]) == 2


@given(st.floats(1e-4, 10.0), st.integers(1, 64))
def test_every_step_that_trains_or_predicts_takes_longer_on_a_slower_machine(
    slower: float, workers: int
) -> None:
    quick, late = steps(workers=workers), steps(workers=workers, step_s=0.01 + slower)
    for step in ("train", "prune", "predict"):
        assert seconds(late[step]) > seconds(quick[step])
    assert seconds(late["bias"]) == seconds(quick["bias"])


def test_no_step_has_a_time_where_none_was_measured() -> None:
    times = {name: step.seconds for name, step in steps(step_s=None).items()}
    assert times.pop("log") == 0.0  # it has nothing to do
    assert {*times.values()} == {None}


# --- what is measured -----------------------------------------------------------------------------


def test_steps_and_sizes_of_a_real_network_are_measured() -> None:
    cost = measure_training(default_config(), 10, 898, (8, 8), seconds=2.0)
    assert cost.reason == ""
    assert cost.member_bytes == 199_040
    assert (cost.batch, cost.tried) == (64, 64)
    assert cost.step_s is not None
    assert 0 < cost.step_s < 1
    assert cost.peak_bytes is not None
    assert cost.peak_bytes > 10**8


def test_a_network_too_slow_for_its_batch_is_timed_on_fewer_images() -> None:
    config = default_config()
    recipe = config.source.recipe.model_copy(update={"batch_size": 256})
    source = config.source.model_copy(update={"model": "cifar-resnet18", "recipe": recipe})
    began = time.monotonic()
    slow = config.model_copy(update={"source": source})
    cost = measure_training(slow, 10, 898, (64, 64), seconds=0.1)
    assert time.monotonic() - began < 20
    assert cost.tried < cost.batch == 256
    assert cost.step_s is not None
    assert cost.step_s > 1
    assert cost.peak_bytes is None


def test_a_batch_larger_than_the_noise_is_timed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, ...]] = []
    batch_of = Training._batch

    def noted(training: Training, step: int, pixels_of: Any) -> Any:
        batch = batch_of(training, step, pixels_of)
        shapes.append(batch.images.shape)
        return batch

    monkeypatch.setattr(Training, "_batch", noted)
    config = default_config()
    recipe = config.source.recipe.model_copy(update={"batch_size": 800})
    source = config.source.model_copy(update={"recipe": recipe})
    cost = measure_training(
        config.model_copy(update={"source": source}), 10, 898, (8, 8), seconds=20.0
    )
    assert cost.tried == 800
    assert shapes[-1][1] == 800


def test_torch_keeps_its_threads() -> None:
    before = torch.get_num_threads()
    measure_training(default_config(), 10, 898, (8, 8), seconds=0.1)
    assert torch.get_num_threads() == before


def test_an_unknown_network_is_refused() -> None:
    config = default_config()
    source = config.source.model_copy(update={"model": "resnet"})
    with pytest.raises(ConfigError, match=r"^source.model 'resnet' is neither one of"):
        measure_training(config.model_copy(update={"source": source}), 10, 898, (8, 8))


@pytest.mark.parametrize(("shape", "time_s"), [(None, 5.0), ((8, 8), 0.0)])
def test_only_sizes_are_measured_without_images_or_time(
    shape: tuple[int, int] | None, time_s: float
) -> None:
    config = default_config()
    source = config.source.model_copy(update={"model": "resnet8"})
    resnet8 = config.model_copy(update={"source": source})
    cost = measure_training(resnet8, 10, 898, shape, seconds=time_s)
    assert (cost.parameters, cost.step_s) == (78_042, None)


def external_cost(folder: Path, shape: tuple[int, int]) -> NetworkCost:
    config: Config = parse_config(EXTERNAL, "a.yaml")
    model = external_model(folder / "dense" / "0.onnx")
    return measure_models(network_of(config, 2), shape, {"dense": model})


def test_an_external_model_is_run_on_noise(tmp_path: Path) -> None:
    cost = external_cost(tmp_path, (8, 12))
    assert 0 <= cost.image_s["dense"] < 0.1
    config = parse_config(EXTERNAL, "a.yaml")
    size = replace(SIZE, models_bytes={"dense": 1000, "small": 500})
    cost = replace(cost, image_s={"dense": 0.01, "small": 0.02}, start_s=1.0, workers=1)
    costs = {step.step: step for step in audit_steps(config, size, IMAGES, cost)}
    assert costs["predict"].seconds == pytest.approx(2 * 100 * 0.03 + 1)
    assert (costs["train"].seconds, costs["train"].disk_bytes) == (1.0, 1500)
    assert costs["train"].does == "check external models"


def test_an_external_model_that_does_not_take_these_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"dense/0.onnx takes images of"):
        external_cost(tmp_path, (32, 32))
