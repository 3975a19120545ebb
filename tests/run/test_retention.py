"""Old audits give up what is large, never the last, the last that passed or one at work."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma import storage
from scotoma.audit import write_part
from scotoma.config import parse_config
from scotoma.config.sections import Keep
from scotoma.run import Run, checksums, read_json, write_json
from scotoma.run.lock import locked
from scotoma.steps.retention import (
    StoredAudit,
    audits_of,
    delete_unkept,
    plan_deletion,
    sorted_out,
)  # fmt: skip
from tests.faults.made import predictions_made_elsewhere
from tests.helpers.audits import gate_file
from tests.helpers.commands import measured, scotoma
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

CONFIG = """\
project: {project}
variants: [dense, {{prune: [0.9]}}]
tracking: {{uri: "off"}}
retraining: {{cron: "0 0 6 1 * *", keep: {keep}}}
"""
LARGE = (
    "populations/dense/member-000.safetensors", "populations/int8/member-000.onnx",
    "predictions/dense.parquet", "shards/000/predictions/dense.parquet", "examples.parquet",
    "divergence.parquet",
)  # fmt: skip
SMALL = (
    "audit.json", "report.html", "summary.md", "populations/dense/manifest.json",
    "shards/000/costs.json", "thumbnails.parquet", "sections/bias.json", "previous.json",
)  # fmt: skip
NOW = datetime.datetime(2027, 3, 1, tzinfo=datetime.UTC)


def left(place: str, month: int, verdict: str, project: str = "faces", *, ends: bool = True) -> Run:
    """A run's folder as its audit leaves it, in so far as it matters here."""
    run = Run.create(
        place, parse_config(CONFIG.format(project=project, keep="{audits: 2}"), "test")
    )
    for name in (*LARGE, *SMALL):
        run.path(name).parent.mkdir(parents=True, exist_ok=True)
        run.path(name).write_bytes(b"x" * 1000)
        run.publish(run.path(name))
    judged = gate_file({"verdict": verdict, "as_of": f"2021-{month:02d}-01"})
    write_part(run.path("gate.json"), judged)
    write_json(run.path("measurements.json"), {"ended": f"2021-{month:02d}-01T07:00:00+00:00"})
    run.publish(run.path("gate.json"), run.path("measurements.json"))
    if ends:
        checksums.seal(run.mirror)
    return run


def delete(root: str, keep: Keep) -> tuple[list[StoredAudit], list[str]]:
    return delete_unkept(plan_deletion("faces", root, keep), keep, None)


@pytest.fixture(params=["folder", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs of five months, one that is at work, and one of another project."""
    place = str(tmp_path / "runs")
    if request.param == "s3":
        monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
        place = request.getfixturevalue("s3").uri("runs")
    for month, verdict in enumerate(("UNSURE", "PASS", "FAIL", "UNSURE", "FAIL"), start=1):
        left(storage.join(place, f"m{month}"), month, verdict)
    left(storage.join(place, "m6"), 6, "PASS", ends=False)
    left(storage.join(place, "other"), 1, "FAIL", "another project")
    return place


def test_old_audits_give_up_what_is_large_and_keep_what_a_trend_needs(root: str) -> None:
    before = storage.list_files(root)
    gone, notes = delete(root, Keep(audits=2))
    after = storage.list_files(root)
    assert [Path(one.place).name for one in gone] == ["m3", "m1"]  # m2 passed last
    assert notes == []
    assert before.keys() - after.keys() == {f"{run}/{n}" for run in ("m1", "m3") for n in LARGE}
    assert after.keys() - before.keys() - {"m1/.lock", "m3/.lock"} == {
        f"{run}/retention.json" for run in ("m1", "m3")
    }
    run = Run.open(storage.join(root, "m1"))
    assert checksums.compare_checksums(run.mirror).intact
    run.fetch(run.path("retention.json"))
    record = read_json(run.path("retention.json"))
    assert (record["files"], record["bytes"]) == (len(LARGE), 1000 * len(LARGE))
    assert record["why"] == "retraining.keep: audits 2"
    assert delete(root, Keep(audits=2)) == ([], [])


def test_without_a_rule_all_are_kept(tmp_path: Path) -> None:
    for month in (1, 2):
        left(str(tmp_path / f"m{month}"), month, "FAIL")
    assert delete(str(tmp_path), Keep()) == ([], [])
    assert audits_of("faces", str(tmp_path / "nowhere")) == []


def test_an_audit_that_is_locked_is_left_alone(tmp_path: Path) -> None:
    for month in (1, 2, 3):
        left(str(tmp_path / f"m{month}"), month, "FAIL")
    with locked(tmp_path / "m1"):
        gone, notes = delete(str(tmp_path), Keep(audits=1))
    assert [Path(one.place).name for one in gone] == ["m2"]
    assert len(notes) == 1
    assert "m1 is left alone: output folder" in notes[0]
    assert (tmp_path / "m1" / LARGE[0]).exists()


def test_the_command_says_what_it_deletes(tmp_path: Path) -> None:
    for month, verdict in enumerate(("FAIL", "PASS", "FAIL", "FAIL", "FAIL"), start=1):
        left(str(tmp_path / "runs" / f"m{month}"), month, verdict)
    config = tmp_path / "audit.yaml"
    config.write_text(CONFIG.format(project="faces", keep="{audits: 2}"))
    command = ("tidy", config, "--runs", tmp_path / "runs")
    listed = measured(*command, "--dry-run")
    assert [one["kept"] for one in listed["audits"]] == [
        "the last audit", "one of the last 2", "", "the last audit that passed", "",
    ]  # fmt: skip
    assert (tmp_path / "runs" / "m1" / LARGE[0]).exists()
    code, out, err = scotoma(*command)
    assert (code, err) == (0, "note    0.0 MB deleted\n")
    rows = [line for line in out.splitlines() if line.startswith("m")]
    assert [line.split()[0] for line in rows] == ["m3", "m1"]
    assert all(line.endswith("deleted") for line in rows)
    assert not (tmp_path / "runs" / "m1" / LARGE[0]).exists()
    config.write_text("variants: [dense, {prune: [0.9]}]")
    code, out, err = scotoma(*command)
    assert code == 2
    assert "has no retraining.keep" in err


def test_a_clock_that_jumped_ahead_deletes_nothing(tmp_path: Path) -> None:
    """The earlier audits ended in 2021, so this machine's clock is years ahead of them."""
    runs = tmp_path / "runs"
    for month in range(1, 6):
        left(str(runs / f"m{month}"), month, "FAIL", "killed")
    before = storage.list_files(str(runs))
    config = predictions_made_elsewhere(tmp_path)
    keep = 'retraining: {cron: "0 0 6 1 * *", keep: {days: 365}}\n'
    config.write_text(config.read_text() + keep)
    code, out, err = scotoma("tidy", config, "--runs", runs)
    assert (code, out) == (2, "")
    assert (
        "is more than 60 days past the end of the last audit (2021-05-01); nothing is deleted: if "
        "the clock is right, run scotoma tidy --as-of 20"
    ) in err
    for seed in ("1", "2"):  # the second finds the first, which ended by the clock that jumped
        with steps_in_this_process(tmp_path):
            code, _, err = scotoma(
                "audit", config, "--seed", seed, "--out", runs / f"seed {seed}", "--quiet"
            )
        assert code == 0, err
    assert before.items() <= storage.list_files(str(runs)).items()
    listed = measured("tidy", config, "--runs", runs, "--dry-run", "--as-of", "2021-05-02")
    assert [one["kept"] for one in listed["audits"]] == [
        *2 * ["ended after now, by the clock of this machine"],
        "the last audit",
        *4 * ["ended within 365 days"],
    ]
    code, out, err = scotoma("tidy", config, "--runs", runs, "--as-of", "2099-01-01")
    assert code == 0
    assert not (runs / "m5" / LARGE[0]).exists()


def test_an_audit_says_what_it_deletes(tmp_path: Path) -> None:
    for month in (1, 2):
        left(str(tmp_path / "runs" / f"m{month}"), month, "FAIL", "killed")
    config = predictions_made_elsewhere(tmp_path)
    config.write_text(config.read_text() + 'retraining: {cron: "0 0 6 1 * *", keep: {audits: 2}}\n')
    with steps_in_this_process(tmp_path):
        code, _, err = scotoma("audit", config, "--out", tmp_path / "runs" / "m3")
    assert code == 0, err
    assert (
        f"keep    deleting models and predictions of {tmp_path}/runs/m1, which ended 2021-01-01 "
        "(0.0 MB)\n"
    ) in err
    assert not (tmp_path / "runs" / "m1" / LARGE[0]).exists()
    assert (tmp_path / "runs" / "m2" / LARGE[0]).exists()


@given(
    months=st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(0, 3000)), st.sampled_from(["PASS", "UNSURE", "FAIL"])
        ),
        max_size=12,
    ),
    audits=st.one_of(st.none(), st.integers(1, 5)),
    days=st.one_of(st.none(), st.integers(1, 2000)),
)
def test_what_must_stay_stays(
    months: list[tuple[int | None, str]], audits: int | None, days: int | None
) -> None:
    """By a count of one's own: newest first, the first, the first PASS, so many, so recent."""
    made: Callable[[int | None], Any] = lambda age: (  # noqa: E731
        None if age is None else NOW - datetime.timedelta(days=age, seconds=1)
    )
    every = [
        StoredAudit(f"{place}", made(age), verdict, ("x",), 1)
        for place, (age, verdict) in enumerate(months)
    ]
    found = sorted_out(every, Keep(audits=audits, days=days), NOW)
    assert sorted(one.place for one in found) == sorted(one.place for one in every)
    ended = [one for one in found if one.ended is not None]
    assert [one.ended for one in ended] == sorted((one.ended for one in ended), reverse=True)
    assert all(one.kept for one in found if one.ended is None)
    assert all(one.kept for one in ended[:1])
    assert all(one.kept for one in [one for one in ended if one.verdict == "PASS"][:1])
    if audits is None and days is None:
        assert all(one.kept for one in found)
        return
    rest = [one for one in ended[1:] if one is not next(
        (one for one in ended if one.verdict == "PASS"), None)]  # fmt: skip
    for one in rest:
        assert one.ended is not None
        among = ended.index(one) < (audits or 0)
        recent = days is not None and (NOW - one.ended).total_seconds() <= days * 86400
        assert bool(one.kept) == (among or recent)
