"""The step from trained members to compressed ones, on members that nothing has trained."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import load_file, save_file

from scotoma.config import parse_config
from scotoma.datasets import AuditedExamples, decode_images
from scotoma.errors import DataError
from scotoma.predictions import Predictions
from scotoma.processes import worker_pool
from scotoma.quantization.architecture import Architecture
from scotoma.quantization.calibration import calibration_images
from scotoma.run import Run, read_json, write_json
from scotoma.run.shards import shards
from scotoma.steps import quantize as quantize_step
from scotoma.steps.measures import pairs as measures
from scotoma.steps.measures.gallery import parity
from scotoma.steps.predict import predict, predict_shard
from scotoma.steps.prepare import prepare
from scotoma.steps.quantize import quantize
from scotoma.storage.files import file_digest
from scotoma.training.engine import normalise
from scotoma.training.models import build_model

pytestmark = pytest.mark.slow

CONFIG = """
label: {column: digit}
groups: {style: {column: style}}
variants:
  - dense
  - {prune: [0.5], then: [int8-static, float16]}
  - int8: [static, dynamic]
  - float16: true
population: {models: 2, seed: 3}
tracking: {uri: "off"}
"""
(SHARD,) = shards(2, 1)


def untrained(seed: int) -> dict[str, torch.Tensor]:
    """Weights of a network whose batch normalisation has seen something."""
    model = build_model("tiny-convnet", 10, seed)
    with torch.no_grad():
        model(torch.randn(64, 3, 8, 8, generator=torch.Generator().manual_seed(seed)))
    return dict(model.eval().state_dict())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run.create(tmp_path_factory.mktemp("compression") / "run", parse_config(CONFIG, "test"))
    prepare(run)
    for number, variant in enumerate(("dense", "prune-0.5")):
        for index in SHARD.members:
            path = run.member(variant, index)
            path.parent.mkdir(parents=True, exist_ok=True)
            save_file(untrained(10 * number + index), path)
            record = {"seed": 100 * number + index, "bytes": 1, "sha256": file_digest(path)}
            write_json(path.with_suffix(".json"), record | {"index": index})
    quantize(run, SHARD)
    predict(run, SHARD)
    return run


def test_every_member_is_made_of_the_one_it_is_paired_with(run: Run) -> None:
    for variant, base in {
        "prune-0.5+int8-static": "prune-0.5",
        "prune-0.5+float16": "prune-0.5",
        "int8-static": "dense",
        "float16": "dense",
    }.items():
        for index in SHARD.members:
            record = read_json(run.member(variant, index).with_suffix(".json"))
            of = run.member(base, index)
            assert record["paired_with"] == {"variant": base, "sha256": file_digest(of)}
            assert record["seed"] == read_json(of.with_suffix(".json"))["seed"]
            assert record["sha256"] == file_digest(run.member(variant, index))
            assert 0 <= record["export"]["largest_difference"] < 1e-4
        assert Predictions.read(run.predictions(variant, 0), rows=0).paired_with == base


def test_compressed_members_say_what_those_they_are_made_of_say(run: Run) -> None:
    said = {
        name: Predictions.read(run.predictions(name, 0)).predicted
        for name in ("dense", "prune-0.5", "int8-dynamic", "prune-0.5+int8-static")
    }
    for variant, base, another in (
        ("prune-0.5+int8-static", "prune-0.5", "dense"),
        ("int8-dynamic", "dense", "prune-0.5"),
    ):
        own, other = ((said[variant] == said[name]).mean() for name in (base, another))
        assert own > 0.8 > other


def compared(run: Run) -> dict[str, Any]:
    """What the audit says of every exported variant, all groups together."""
    examples = measures.read_test_examples(run)
    rows = {}
    for variant in run.config.resolved_variants:
        predictions = Predictions.read(run.predictions(variant.name, 0))
        if row := parity(run, examples, predictions):
            rows[variant.name] = (row["network"], row["groups"][0])
    return rows


def test_exported_models_are_compared_with_the_network_they_were_exported_from(run: Run) -> None:
    rows = compared(run)
    assert {name: network for name, (network, _) in rows.items()} == {
        "dense": "dense", "prune-0.5": "prune-0.5", "prune-0.5+int8-static": "prune-0.5",
        "prune-0.5+float16": "prune-0.5", "int8-static": "dense", "int8-dynamic": "dense",
        "float16": "dense",
    }  # fmt: skip
    pixels = decode_images(AuditedExamples.read(run.examples, split="test"))
    model = build_model("tiny-convnet", 10, 0)
    model.load_state_dict(load_file(run.member("dense", 0)))
    with torch.inference_mode():
        labels = model.eval()(normalise(torch.from_numpy(pixels))).argmax(dim=1).numpy()
    for name in ("dense", "int8-static", "float16"):
        exported = Predictions.read(run.predictions(name, 0)).predicted[:, 0]
        assert abs(rows[name][1].differ - (labels != exported).sum()) <= 2  # ties to the last bit
    assert rows["dense"][1].differ <= 2
    assert rows["int8-static"][1].differ > 2


def test_a_trained_variant_that_torch_predicted_with_is_not_compared_with_itself(run: Run) -> None:
    examples = measures.read_test_examples(run)
    on_gpu = {
        name: replace(Predictions.read(run.predictions(name, 0)), runtimes=("torch, cuda",))
        for name in ("dense", "int8-static")
    }
    assert parity(run, examples, on_gpu["dense"]) is None
    assert parity(run, examples, on_gpu["int8-static"]) is not None


def test_an_export_that_lost_a_weight_is_seen(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run.root, tmp_path / "run")
    again = Run.open(tmp_path / "run")
    path = again.path("shards", "000", "graph.onnx")
    with_weights = Architecture.with_weights

    def without_bias(self: Architecture, weights: dict[str, Any]) -> onnx.ModelProto:
        name = [name for name in weights if name.endswith("bias")][-1]
        return with_weights(self, weights | {name: np.float32(-9) * (weights[name] > 0)})

    monkeypatch.setattr(Architecture, "with_weights", without_bias)
    predict_shard(again, SHARD, path)
    assert compared(run)["dense"][1].low < 0.01 < compared(again)["dense"][1].low


def test_the_first_member_names_the_layers_that_stay_in_float32(run: Run) -> None:
    first, second = (
        read_json(run.member("int8-dynamic", k).with_suffix(".json")) for k in SHARD.members
    )
    assert {layers["operator"] for layers in first["float32_layers"]} == {"Relu", "AveragePool"}
    assert "float32_layers" not in second
    assert first["calibration_images"] == 0
    static = read_json(run.member("int8-static", 0).with_suffix(".json"))
    assert static["calibration_images"] == 100
    assert static["float32_layers"] == []


def test_members_that_are_there_are_not_made_again(run: Run) -> None:
    variants = [v for v in run.config.resolved_variants if v.derived_from]
    kept, gone = run.member("int8-static", 0), run.member("int8-static", 1)
    before, content = kept.stat().st_mtime_ns, gone.read_bytes()
    gone.unlink()
    quantize_step.quantize_shard(run, variants, SHARD, run.path("graph.onnx"))
    assert kept.stat().st_mtime_ns == before
    assert gone.read_bytes() == content  # and made again they are the same


def test_a_member_of_other_weights_is_made_again(run: Run) -> None:
    variants = [v for v in run.config.resolved_variants if v.derived_from]
    dense, made = run.member("dense", 0), run.member("float16", 0)
    before = made.read_bytes()
    held = {path: path.read_bytes() for path in run.path("populations").rglob("member-000.*")}
    try:
        save_file(untrained(77), dense)
        quantize_step.quantize_shard(run, variants, SHARD, run.path("graph.onnx"))
        assert made.read_bytes() != before
        weight = next(i for i in onnx.load(made).graph.initializer if i.name == "8.weight")
        found = torch.from_numpy(onnx.numpy_helper.to_array(weight).copy()).float()
        torch.testing.assert_close(found, load_file(dense)["8.weight"], rtol=1e-3, atol=1e-5)
    finally:
        for path, content in held.items():
            path.write_bytes(content)


@pytest.mark.thorough
def test_workers_write_what_one_process_writes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("int8-static", "float16", "prune-0.5+int8-static")
    variants = [v for v in run.config.resolved_variants if v.name in names]
    paths = [run.member(v.name, k) for v in variants for k in SHARD.members]
    before = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    monkeypatch.setattr(quantize_step, "WORTH_S", -1.0)
    monkeypatch.setattr(quantize_step, "cores", lambda: 2)
    begun: list[int] = []

    def pool(workers: int, *given: Any) -> Any:
        begun.append(workers)
        return worker_pool(workers, *given)

    monkeypatch.setattr(quantize_step, "worker_pool", pool)
    quantize_step.quantize_shard(run, variants, SHARD, run.path("graph.onnx"))
    assert begun == [1, 2]
    assert [path.read_bytes() for path in paths] == before


def test_calibration_images_are_a_seeded_choice_of_the_training_rows(run: Run) -> None:
    first = calibration_images(run, 20)
    again = calibration_images(run, 5)
    assert (first[:5] == again).all()
    assert first.shape == (20, 3, 8, 8)
    table = AuditedExamples.read(run.examples).table
    held = table["split"].to_list()
    assert "calibrate" not in held


def test_published_calibration_takes_the_first_training_rows_as_they_stand(run: Run) -> None:
    rows = AuditedExamples.read(run.examples).split("train")
    found = calibration_images(run, 20, protocol="published")
    assert (found == decode_images(rows)[:20]).all()
    assert not (found == calibration_images(run, 20)).all()


def test_rows_set_aside_for_calibration_are_used_instead(run: Run, tmp_path: Path) -> None:
    import polars as pl

    other = Run.create(tmp_path / "other", run.config)
    examples = AuditedExamples.read(run.examples)
    marked = examples.table.with_columns(
        pl.when(pl.int_range(pl.len()) < 3)
        .then(pl.lit("calibrate"))
        .otherwise(pl.col("split"))
        .alias("split")
    )
    AuditedExamples(marked, examples.classes, examples.attributes, examples.intersections).write(
        other.examples
    )
    assert len(calibration_images(other, 20)) == 3
    assert len(calibration_images(other, 20, protocol="published")) == 20


def test_a_member_whose_scores_are_no_numbers_is_named(run: Run, tmp_path: Path) -> None:
    variants = [v for v in run.config.resolved_variants if v.name == "float16"]
    dense = run.member("dense", 1)
    held = dense.read_bytes()
    try:
        state = untrained(1)
        state["8.bias"][0] = torch.nan
        save_file(state, dense)
        with pytest.raises(DataError) as caught:
            quantize_step.quantize_shard(run, variants, SHARD, run.path("graph.onnx"))
    finally:
        dense.write_bytes(held)
    assert str(caught.value) == (
        "dense member 1 must give finite scores, got nan or infinity; train with a smaller "
        "source.recipe.learning_rate"
    )
