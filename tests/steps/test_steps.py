from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.config import default_config, parse_config
from scotoma.datasets import AuditedExamples
from scotoma.datasets.select_examples import examples_from_source
from scotoma.errors import ConfigError, DataError, MissingExtra, ScotomaError
from scotoma.predictions import Predictions
from scotoma.run import Run, read_json, write_json
from scotoma.run.shards import Shard, shards
from scotoma.steps.runner import execute
from scotoma.steps.table import STEPS, Leaves, Step, when_due
from scotoma.storage.files import file_digest

# --- shards ---------------------------------------------------------------------------------------


@given(index=st.integers(0, 10**6), first=st.integers(0, 10**6), length=st.integers(1, 10**6))
def test_a_shard_is_read_as_it_was_written(index: int, first: int, length: int) -> None:
    shard = Shard(index, range(first, first + length))
    assert Shard.parse(str(shard)) == shard


@pytest.mark.parametrize(
    "text", ["", "1", "1:2", "1:2-", "1:2-3-4", "a:1-2", "1:-2-3", " 1:2-3", "1:2-3\n", "1:3-2"]
)
def test_text_that_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        Shard.parse(text)
    assert repr(text) in str(caught.value)


@given(members=st.integers(1, 300), count=st.integers(1, 400))
def test_shards_cover_every_member_once_and_are_of_nearly_one_size(
    members: int, count: int
) -> None:
    found = shards(members, count)
    assert [member for shard in found for member in shard.members] == list(range(members))
    assert [shard.index for shard in found] == list(range(min(count, members)))
    sizes = [len(shard.members) for shard in found]
    assert 1 <= min(sizes) <= max(sizes) <= min(sizes) + 1


# --- one step of the pipeline ---------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", default_config())


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., list[Path]]], None]:
    """Puts a function in the place of the step `make`."""

    def put(function: Callable[..., list[Path]]) -> None:
        monkeypatch.setitem(sys.modules, "invented_stage", SimpleNamespace(make=function))
        monkeypatch.setitem(STEPS, "make", Step("make", "", "", module="invented_stage"))

    return put


def leave_two_files(run: Run) -> list[Path]:
    write_json(run.path("out", "a.json"), 1)
    write_json(run.path("b.json"), 2)
    return [run.path("out", "a.json"), run.path("b.json")]


def fail_if_called(run: Run) -> list[Path]:
    raise AssertionError


def test_a_step_leaves_a_pointer_to_its_files_with_their_checksums(
    run: Run, tmp_path: Path, stage: Callable[..., None]
) -> None:
    stage(leave_two_files)
    execute("make", str(run.root), str(tmp_path / "kfp" / "pointer"))
    assert read_json(tmp_path / "kfp" / "pointer") == {
        "run_uri": str(run.root),
        "files": {
            "out/a.json": file_digest(run.path("out", "a.json")),
            "b.json": file_digest(run.path("b.json")),
        },
    }
    assert not run.path("error.json").exists()


def test_a_step_runs_after_steps_whose_files_are_whole(
    run: Run, tmp_path: Path, stage: Callable[..., None]
) -> None:
    stage(leave_two_files)
    execute("make", str(run.root), str(tmp_path / "first"))
    execute("make", str(run.root), str(tmp_path / "next"), after=[str(tmp_path / "first")])
    assert (tmp_path / "next").exists()


def test_a_fanned_out_step_gets_its_shard(
    run: Run, tmp_path: Path, stage: Callable[..., None]
) -> None:
    seen = []

    def note(run: Run, shard: Shard) -> list[Path]:
        seen.append(shard)
        return []

    stage(note)
    execute("make", str(run.root), str(tmp_path / "pointer"), shard="1:4-6")
    assert seen == [Shard(1, range(4, 7))]


def test_a_step_works_while_it_is_due_and_tells_later_steps_of_its_files(run: Run) -> None:
    worked, source = [], run.path("source.txt")

    @when_due
    def copy(run: Run) -> Iterator[Leaves]:
        target, beside = run.path("copy.txt"), run.path("beside.txt")
        yield Leaves([target], [source], "by hand", [target, beside])
        worked.append(source.read_text())
        target.write_text(source.read_text())

    for content in ("a", "a", "b"):
        source.write_text(content)
        assert copy(run) == [run.path("copy.txt"), run.path("beside.txt")]
    assert worked == ["a", "b"]
    record = read_json(run.path("steps", "copy.json"))
    assert record["outputs"] == {"copy.txt": file_digest(run.path("copy.txt"))}


def test_a_shard_has_a_record_of_its_own_and_refuses_a_run_without_examples(run: Run) -> None:
    @when_due
    def make(run: Run, shard: Shard) -> Iterator[Leaves]:
        path = run.path(f"made-{shard.members.start}.txt")
        yield Leaves([path])
        path.write_text("made")

    with pytest.raises(DataError, match=r"examples\.parquet.*is missing"):
        make(run, Shard(0, range(4)))
    run.examples.write_text("")
    for shard in (Shard(0, range(4)), Shard(1, range(4, 7))):
        assert make(run, shard) == [run.path(f"made-{shard.members.start}.txt")]
    names = sorted(path.name for path in run.path("steps").iterdir())
    assert names == ["make-000.json", "make-001.json"]


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_a_step_refuses_files_that_are_missing_or_were_changed_since(
    run: Run, tmp_path: Path, stage: Callable[..., None], damage: str
) -> None:
    stage(leave_two_files)
    execute("make", str(run.root), str(tmp_path / "first"))
    spoilt = run.path("out", "a.json")
    spoilt.unlink() if damage == "removed" else spoilt.write_text("2")
    stage(fail_if_called)
    with pytest.raises(DataError) as caught:
        execute("make", str(run.root), str(tmp_path / "next"), after=[str(tmp_path / "first")])
    sentence = f"{spoilt} is missing or was changed since its step ended; run the audit again"
    assert str(caught.value) == sentence
    assert read_json(run.path("error.json")) == {"message": sentence, "exit_code": 4}
    assert not (tmp_path / "next").exists()


@pytest.mark.parametrize(
    ("kind", "code"), [(ConfigError, 2), (MissingExtra, 2), (DataError, 4), (ScotomaError, 5)]
)
def test_what_a_step_refuses_is_left_for_the_command_with_its_exit_code(
    run: Run, tmp_path: Path, stage: Callable[..., None], kind: type[ScotomaError], code: int
) -> None:
    def refuse(run: Run) -> list[Path]:
        raise kind('no "é" here; take another')

    stage(refuse)
    with pytest.raises(kind):
        execute("make", str(run.root), str(tmp_path / "pointer"))
    assert read_json(run.path("error.json")) == {
        "message": 'no "é" here; take another',
        "exit_code": code,
    }
    assert not (tmp_path / "pointer").exists()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            ZeroDivisionError(),
            "the step make ended with an internal error (ZeroDivisionError); its traceback is in "
            "logs/pipeline.log of the run, or in the log of the step",
        ),
        (
            OSError(28, "No space left on device"),
            "the step make stopped: the disk is full, or a limit on files is reached; free some "
            "of it, and repeat the command to resume",
        ),
        (
            MemoryError(),
            "the step make stopped: there is no memory left; free some, and repeat the command "
            "to resume",
        ),
        (
            PermissionError(13, "Permission denied", "audit.json"),
            "the step make stopped: [Errno 13] Permission denied: 'audit.json'; free the path, "
            "and repeat the command to resume",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_stops_a_step_is_named_and_no_refusal(
    run: Run, tmp_path: Path, stage: Callable[..., None], fault: Exception, message: str
) -> None:
    def break_down(run: Run) -> list[Path]:
        raise fault

    stage(break_down)
    with pytest.raises(type(fault)):
        execute("make", str(run.root), str(tmp_path / "pointer"))
    assert read_json(run.path("error.json")) == {"message": message, "exit_code": 5}
    assert not (tmp_path / "pointer").exists()


def test_every_stage_has_its_function() -> None:

    for step in STEPS.values():
        assert callable(step.function)


def test_the_first_step_writes_the_examples_and_is_skipped_when_repeated(
    run: Run, tmp_path: Path
) -> None:
    execute("prepare", str(run.root), str(tmp_path / "pointer"))
    assert list(read_json(tmp_path / "pointer")["files"]) == [
        "examples.json",
        "examples.parquet",
        "sources.json",
    ]
    assert len(AuditedExamples.read(run.examples).split("test").ids) == 1798
    written_at = run.examples.stat().st_mtime_ns
    execute("prepare", str(run.root), str(tmp_path / "pointer"))
    assert run.examples.stat().st_mtime_ns == written_at


# --- shards put together, groups set against each other -------------------------------------------

INVENTED = """\
project: invented
label: {column: digit}
groups:
  age: {column: age}
  age.kind: {column: kind}
  colour: {column: colour}
variants: [dense, {prune: [0.5]}]
population: {models: 3}
"""


@pytest.fixture
def invented(tmp_path: Path) -> Run:
    """A run with examples and predictions made up, as if members had been trained."""
    run = Run.create(tmp_path / "invented", parse_config(INVENTED, "audit.yaml"))
    rng, n = np.random.default_rng(5), 60
    table = pl.DataFrame(
        {
            "example_id": [f"{row}" for row in range(2 * n)],
            "split": ["train"] * n + ["test"] * n,
            "digit": rng.choice(["0", "1", "2"], 2 * n),
            "age": rng.choice(["young & free", "old"], 2 * n),
            "kind": rng.choice(["x", "y"], 2 * n),
            "colour": rng.choice(["red", "green", "blue"], 2 * n),
            "image": [{"bytes": b"", "path": ""}] * (2 * n),
        }
    )
    examples_from_source(table, run.config, "table.csv").write(run.examples)
    test = AuditedExamples.read(run.examples).split("test")
    for variant in ("dense", "prune-0.5"):
        run.population(variant).mkdir(parents=True)
        predicted = rng.integers(0, 3, (n, 3)).astype(np.uint16)
        for index in range(3):
            write_json(run.member(variant, index).with_suffix(".json"), {"index": index})
        for shard in shards(3, 2):
            path = run.predictions(variant, shard.index)
            path.parent.mkdir(parents=True, exist_ok=True)
            Predictions(
                variant,
                predicted[:, list(shard.members)],
                tuple(test.ids),
                tuple(shard.members),
                test.classes,
            ).write(path)
    return run


def gathered(run: Run) -> dict[str, tuple[int, ...]]:
    from scotoma.steps.gather import gather

    gather(run)
    return {
        variant: Predictions.read(run.predictions(variant)).members
        for variant in ("dense", "prune-0.5")
    }


def test_members_of_all_shards_are_gathered_with_a_manifest(invented: Run) -> None:
    assert gathered(invented) == {"dense": (0, 1, 2), "prune-0.5": (0, 1, 2)}
    manifest = read_json(invented.population("prune-0.5") / "manifest.json")
    assert manifest["variant"] == "prune-0.5"
    assert manifest["dataset_sha256"] == file_digest(invented.examples)
    assert [member["index"] for member in manifest["members"]] == [0, 1, 2]


def test_shards_left_by_an_earlier_cut_are_not_gathered_twice(invented: Run) -> None:
    for variant in ("dense", "prune-0.5"):
        # The same run taken up with one shard: it holds all members; shard 1 is of the past.
        paths = [invented.predictions(variant, index) for index in (0, 1)]
        Predictions.gather([Predictions.read(path) for path in paths]).write(paths[0])
    assert gathered(invented) == {"dense": (0, 1, 2), "prune-0.5": (0, 1, 2)}


def test_values_of_an_attribute_are_set_against_each_other_whatever_their_names(
    invented: Run,
) -> None:
    from scotoma.steps.bias import bias

    gathered(invented)
    bias(invented)
    found: dict[str, Any] = read_json(invented.section("bias"))
    assert [
        tuple(row["facts"].values())
        for row in found["rows"]["gaps"]
        if row["variant"] == "prune-0.5" and row["what"] == "gap"
    ] == [
        ("age", "age=old", "age=young & free"),
        ("age.kind", "age.kind=x", "age.kind=y"),
        ("colour", "the rest", "colour=blue"),
        ("colour", "the rest", "colour=green"),
        ("colour", "the rest", "colour=red"),
    ]
