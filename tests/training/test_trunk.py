"""Pruned members that go on from the dense ones: the same weights, fewer steps."""

from __future__ import annotations

from typing import Any

import pytest
import safetensors.torch
import torch
from safetensors.torch import load_file

from scotoma.config import Config, parse_config
from scotoma.datasets import AuditedExamples, store_images
from scotoma.errors import ConfigError
from scotoma.run import Run, read_json
from scotoma.steps.prepare import prepare
from scotoma.storage.files import file_digest
from scotoma.training import engine, population
from scotoma.training.checkpoints import checkpoint_path
from scotoma.training.state import trunk_path

AUDIT = """
source: {{kind: digits-s, recipe: {{steps: 20, batch_size: 16, prune_begin: 0.4}}}}
label: {{column: digit}}
variants: [dense, {{prune: [0.5, 0.9], then: int8-static}}, {{int8: [dynamic]}}]
population: {{models: 2, forked: {forked}}}
robustness: {{profile: scaled, checkpoints: 2}}
"""


def config(*, forked: bool = True) -> Config:
    return parse_config(AUDIT.format(forked=str(forked).lower()), "test")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> population.Trainer:
    """A worker; the pool is what a test can do without."""
    folder = tmp_path_factory.mktemp("forked")
    run = Run.create(folder / "run", config())
    prepare(run)
    labels = AuditedExamples.read(run.examples, images=False).split("train").labels
    images = store_images(run.examples, "train", folder)
    worker = population.Trainer(run, images, labels, 10, file_digest(run.examples))
    for name in ("dense", "prune-0.5", "prune-0.9"):
        train(worker, name)
    return worker


@pytest.fixture(scope="module")
def run(worker: population.Trainer) -> Run:
    return worker.run


def train(worker: population.Trainer, name: str) -> None:
    worker.train(name, [0, 1], "stacked", "test")


def test_every_variant_is_paired_with_dense_or_says_so() -> None:
    assert [(v.name, v.paired) for v in config().resolved_variants] == [
        ("dense", False),
        ("prune-0.5", True),
        ("prune-0.9", True),
        ("prune-0.5+int8-static", True),
        ("prune-0.9+int8-static", True),
        ("int8-dynamic", True),
    ]
    independent = [v.name for v in config(forked=False).resolved_variants[1:] if not v.paired]
    assert independent == [
        "prune-0.5", "prune-0.9", "prune-0.5+int8-static", "prune-0.9+int8-static"
    ]  # fmt: skip


def test_models_made_elsewhere_cannot_be_forked() -> None:
    text = """
source: {kind: onnx, models: m, images: i, attributes: a.csv,
         split: {column: s, train: 0, test: 1}}
label: {column: y}
variants: [dense, {onnx: [small]}]
population: {forked: true}
"""
    with pytest.raises(ConfigError, match=r"population\.forked is for networks that .* is onnx"):
        parse_config(text, "test")


def test_members_of_one_index_have_one_seed(run: Run) -> None:
    seeds = [
        [read_json(run.member(name, k).with_suffix(".json"))["seed"] for k in range(2)]
        for name in ("dense", "prune-0.5", "prune-0.9")
    ]
    assert seeds[0] == seeds[1] == seeds[2]
    assert seeds[0][0] != seeds[0][1]


def test_trunks_are_those_of_the_first_update_and_named_by_the_dense_members(run: Run) -> None:
    for k in range(2):
        record = read_json(run.member("dense", k).with_suffix(".json"))
        assert record["trunk_sha256"] == file_digest(trunk_path(run, k))
        assert int(load_file(trunk_path(run, k))["step"]) == 8


@pytest.mark.parametrize("fault", ["absent", "damaged", "of another recipe"])
def test_without_its_trunk_a_member_is_trained_from_the_start_to_the_same_bytes(
    worker: population.Trainer, run: Run, fault: str
) -> None:
    names = ["prune-0.5", "prune-0.9"]
    expected = [file_digest(run.member(name, k)) for name in names for k in range(2)]
    trunk, record = trunk_path(run, 1), run.member("dense", 1).with_suffix(".json")
    whole, written = trunk.read_bytes(), record.read_text()
    try:
        if fault == "absent":
            trunk.unlink()
        elif fault == "damaged":
            trunk.write_bytes(whole[:-4] + b"\xff" * 4)
        else:
            record.write_text(written.replace('"learning_rate": 0.02', '"learning_rate": 0.03'))
            assert record.read_text() != written
        for name in names:
            for path in run.population(name).iterdir():
                path.unlink()
            train(worker, name)
    finally:
        trunk.write_bytes(whole)
        record.write_text(written)
    assert [file_digest(run.member(name, k)) for name in names for k in range(2)] == expected


def test_forked_members_do_the_steps_after_the_first_update_alone(
    worker: population.Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    advance = engine.Training.advance
    monkeypatch.setattr(
        engine.Training,
        "advance",
        lambda self, state, *rest, **named: (
            begun.append(state.step) or advance(self, state, *rest, **named)
        ),
    )
    train(worker, "prune-0.9")
    assert begun == [8]


def test_a_finished_member_of_a_chunk_is_not_written_again(worker: population.Trainer) -> None:
    run = worker.run
    finished, due = run.member("dense", 0), run.member("dense", 1)
    before, content = finished.stat().st_mtime_ns, due.read_bytes()
    due.unlink()
    train(worker, "dense")
    assert finished.stat().st_mtime_ns == before
    assert due.read_bytes() == content


def test_dense_members_leave_their_state_on_the_way_and_end_as_without(
    worker: population.Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = worker.run
    early, late = (checkpoint_path(run, step, 1) for step in (11, 18))
    content, due = late.read_bytes(), run.member("dense", 1)
    before, seen = due.read_bytes(), {}
    assert {path.name for path in run.path("populations").iterdir()} == {
        "dense", "dense-step-11", "dense-step-18", "prune-0.5", "prune-0.9"
    }  # fmt: skip
    advance = engine.Training.advance

    def watched(*args: Any, **named: Any) -> engine.TrainingState:
        state = advance(*args, **named)
        seen[state.step] = state
        return state

    for steps in ((18,), ()):
        for path in (due, early, late):
            path.unlink(missing_ok=True)
        with monkeypatch.context() as patched:
            patched.setattr(population, "checkpoint_steps", lambda *_, kept=steps: kept)
            patched.setattr(engine.Training, "advance", watched)
            train(worker, "dense")
        assert due.read_bytes() == before
        assert not early.exists()
        if steps:
            assert late.read_bytes() == content
    for name, value in seen[18].parameters.items():
        assert torch.equal(safetensors.torch.load(content)[name], value[-1])
