"""What an audit will cost, and the few steps that the estimate rests on."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from scotoma.config import Config, default_config, parse_config
from scotoma.costs.estimate import WITHIN, AuditShape, StepCost, measuring_cost, step_costs
from scotoma.costs.measure import NetworkCost, measure_models, measure_training
from scotoma.errors import ConfigError, DataError
from scotoma.inference.members import network_of
from scotoma.predictions import Predictions
from scotoma.quantization.compress import compress
from scotoma.quantization.graphs import export_graph
from scotoma.training.engine import Member, Training
from scotoma.training.models import build_model
from scotoma.training.task import TrainingTask
from tests.helpers.external_models import EXTERNAL, external_model
from tests.helpers.network_cost import NETWORK, SIZE

pytestmark = pytest.mark.slow

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
    source = default_config().source.model_copy(update={"model": model})
    config = default_config().model_copy(update={"source": source})
    cost = measure_training(config, 7, 4, (64, 64), seconds=0)
    assert cost.member_bytes == path.stat().st_size


HEAD = """\
label: {column: digit}
groups: {style: {column: style}}
population: {models: 4}
tracking: {uri: "off"}
"""
VARIANTS = "[dense, {prune: [0.5, 0.9]}, {int8: [dynamic, static]}, {float16: true}]"
CONFIG = parse_config(f"{HEAD}variants: {VARIANTS}", "a.yaml")


def steps(config: Config, **changes: Any) -> dict[str, StepCost]:
    return step_costs(config, SIZE, 50_000, replace(NETWORK, **changes))


def test_every_score_of_every_member_counts_as_four_bytes() -> None:
    plain = steps(CONFIG)["predict"].disk_bytes
    every = steps(parse_config(f"{HEAD}variants: {VARIANTS}\nkeep_scores: full\n", "a.yaml"))
    files = len(CONFIG.resolved_variants) * 4
    assert plain is not None
    kept_best = len(CONFIG.resolved_variants) * 4 * SIZE.test * 2  # float16 in predictions
    assert every["predict"].disk_bytes == plain + kept_best + files * (SIZE.test * 40 + 800)
    heads = parse_config(
        f"{HEAD}variants: {VARIANTS}\nmitigation: {{technique: DI2, attribute: style}}\n", "a.yaml"
    )
    of_groups = step_costs(heads, replace(SIZE, outputs=20), 50_000, NETWORK)["predict"]
    assert of_groups.disk_bytes == plain + files * (SIZE.test * 80 + 800)


@pytest.mark.parametrize("variant", ["int8: [dynamic]", "int8: [static]", "float16: true"])
def test_the_sizes_of_compressed_members_are_estimated_within_a_sixth(
    variant: str, tmp_path: Path
) -> None:
    config = parse_config(f"{HEAD}variants: [dense, {{{variant}}}]", "a.yaml")
    (compressed,) = config.resolved_variants[1:]
    images = np.zeros((4, 3, 8, 8), np.float32)
    graph = export_graph(build_model("tiny-convnet", 10, 0), torch.from_numpy(images[:2]))
    path = tmp_path / "member.onnx"
    compress(graph.graph, path, compressed, images)
    written = 4 * path.stat().st_size
    assert steps(config)["quantize"].disk_bytes == pytest.approx(written, rel=1 / 6)


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
    most = steps(CONFIG)["gather"].disk_bytes
    assert most is not None
    header = 2500  # of a Parquet file, which thousands of rows outweigh
    assert path.stat().st_size <= most / len(CONFIG.resolved_variants) + header


def seconds(step: StepCost) -> float:
    assert step.seconds is not None
    return step.seconds


def test_training_takes_the_rounds_that_workers_leave_to_chunks_of_members() -> None:
    # 4 members of 400 steps of 10 ms each, one chunk a variant of up to 5 members.
    assert seconds(steps(CONFIG, together=4)["train"]) == pytest.approx(16)
    assert seconds(steps(CONFIG, together=4)["prune"]) == pytest.approx(16)
    assert seconds(steps(CONFIG, together=4, workers=1)["prune"]) == pytest.approx(32)
    assert seconds(steps(CONFIG, together=1)["train"]) == pytest.approx(8)


def test_prediction_takes_the_measured_time_of_every_image() -> None:
    # 6 variants of 4 members predict 100 images each, on two workers.
    assert seconds(steps(CONFIG)["predict"]) == pytest.approx(6 * 4 * 100 * 1e-4 / 2)


def test_no_step_has_a_time_where_none_was_measured() -> None:
    untimed = steps(CONFIG, step_s=None, image_s={})
    assert {step.seconds for step in untimed.values()} == {None}


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
    assert set(cost.image_s) == {v.name for v in default_config().resolved_variants}
    assert 0 < max(cost.image_s.values()) < 0.1


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
    assert (cost.weights, cost.step_s, cost.image_s) == (77_360, None, {})


def external_cost(folder: Path, shape: tuple[int, int]) -> NetworkCost:
    config: Config = parse_config(EXTERNAL, "a.yaml")
    model = external_model(folder / "dense" / "0.onnx")
    return measure_models(network_of(config, 2), shape, {"dense": model})


def test_an_external_model_is_run_on_noise(tmp_path: Path) -> None:
    cost = external_cost(tmp_path, (8, 12))
    assert 0 <= cost.image_s["dense"] < 0.1
    config = parse_config(EXTERNAL, "a.yaml")
    size = replace(SIZE, models_bytes={"dense": 1000, "small": 500})
    cost = replace(cost, image_s={"dense": 0.01, "small": 0.02}, workers=1)
    costs = step_costs(config, size, 50_000, cost)
    assert costs["predict"].seconds == pytest.approx(2 * 100 * 0.03)
    assert costs["import_models"] == StepCost(None, 1500)
    assert costs["train"] == costs["prune"] == StepCost(0.0, 0)


def test_an_external_model_that_does_not_take_these_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"dense/0.onnx takes images of"):
        external_cost(tmp_path, (32, 32))


# Of benchmarks/RESULTS.md: 5 models a side and one compressed variant; CPU seconds of the core that
# `relative_speed` compares with, GiB and MB.
MEASURED = [
    (AuditShape(2_000, 5, 1, 10, 6, 5, 3, True), 5.8, 0.42, 0.71),
    (AuditShape(10_000, 5, 1, 200, 41, 40, 3, True), 8.5, 0.71, 2.11),
    (AuditShape(50_000, 5, 1, 10, 11, 10, 3, True), 7.1, 0.82, 1.18),
    (AuditShape(20_000, 5, 1, 1_000, 21, 20, 3, True), 9.0, 0.69, 3.28),
    (AuditShape(20_000, 5, 1, 100, 41, 20, 1_561, True, 20), 14.9, 0.87, 2.95),
    (AuditShape(200_000, 5, 1, 10, 9, 8, 3, True), 14.1, 1.18, 1.01),
    (AuditShape(10_000, 5, 1, 10, 401, 200, 201, True, 200), 21.5, 1.12, 25.73),
    (AuditShape(50_000, 5, 1, 1_000, 201, 200, 3, True), 25.6, 0.82, 9.68),
    (AuditShape(20_000, 5, 1, 400, 101, 100, 3, True), 12.2, 0.95, 4.71),
]


@pytest.mark.parametrize(("shape", "seconds", "gib", "megabytes"), MEASURED)
def test_what_measuring_takes_is_within_the_factor_that_is_stated(
    shape: AuditShape, seconds: float, gib: float, megabytes: float
) -> None:
    cost = measuring_cost(shape)
    assert seconds / WITHIN < cost.seconds < seconds * WITHIN
    assert gib / WITHIN < cost.memory_bytes / 2**30 < gib * WITHIN
    assert megabytes / WITHIN < cost.audit_json_bytes / 1e6 < megabytes * WITHIN
