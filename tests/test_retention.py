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
from scotoma.config.retraining import Keep
from scotoma.run import Run, checksums, read_json, write_json
from scotoma.run.lock import locked
from scotoma.stages.retention import StoredAudit, audits_of, delete_unkept, sorted_out
from tests.audits import gate_file
from tests.commands import measured, scotoma

pytestmark = pytest.mark.slow

CONFIG = """\
project: {project}
variants: [dense, {{prune: [0.9]}}]
tracking: {{uri: "off"}}
retraining: {{cron: "0 0 6 1 * *", keep: {{audits: 2}}}}
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
    run = Run.create(place, parse_config(CONFIG.format(project=project), "test"))
    for name in (*LARGE, *SMALL):
        run.path(name).parent.mkdir(parents=True, exist_ok=True)
        run.path(name).write_bytes(b"x" * 1000)
        run.publish(run.path(name))
    judged = gate_file({"verdict": verdict, "as_of": f"2027-{month:02d}-01"})
    write_part(run.path("gate.json"), judged)
    write_json(run.path("measurements.json"), {"ended": f"2027-{month:02d}-01T07:00:00+00:00"})
    run.publish(run.path("gate.json"), run.path("measurements.json"))
    if ends:
        checksums.seal(run.mirror)
    return run


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
    gone, notes = delete_unkept("faces", root, Keep(audits=2), None)
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
    assert delete_unkept("faces", root, Keep(audits=2), None) == ([], [])


def test_without_a_rule_all_are_kept(tmp_path: Path) -> None:
    for month in (1, 2):
        left(str(tmp_path / f"m{month}"), month, "FAIL")
    assert delete_unkept("faces", str(tmp_path), Keep(), None) == ([], [])
    assert audits_of("faces", str(tmp_path / "nowhere")) == []


def test_an_audit_that_is_locked_is_left_alone(tmp_path: Path) -> None:
    for month in (1, 2, 3):
        left(str(tmp_path / f"m{month}"), month, "FAIL")
    with locked(tmp_path / "m1"):
        gone, notes = delete_unkept("faces", str(tmp_path), Keep(audits=1), None)
    assert [Path(one.place).name for one in gone] == ["m2"]
    assert len(notes) == 1
    assert "m1 is left alone: output folder" in notes[0]
    assert (tmp_path / "m1" / LARGE[0]).exists()


def test_the_command_says_first_and_does_then(tmp_path: Path) -> None:
    for month, verdict in enumerate(("FAIL", "PASS", "FAIL", "FAIL", "FAIL"), start=1):
        left(str(tmp_path / "runs" / f"m{month}"), month, verdict)
    config = tmp_path / "audit.yaml"
    config.write_text(CONFIG.format(project="faces"))
    command = ("tidy", config, "--runs", tmp_path / "runs")
    listed = measured(*command, "--dry-run")
    assert [one["kept"] for one in listed["audits"]] == [
        "the last audit", "one of the last 2", "", "the last audit that passed", "",
    ]  # fmt: skip
    assert (tmp_path / "runs" / "m1" / LARGE[0]).exists()
    code, out, err = scotoma(*command)
    assert (code, err) == (0, "note    0.0 MB deleted\n")
    assert [line.split()[-1] for line in out.splitlines()[1:]] == ["deleted", "deleted"]
    assert not (tmp_path / "runs" / "m1" / LARGE[0]).exists()
    config.write_text("variants: [dense, {prune: [0.9]}]")
    code, out, err = scotoma(*command)
    assert code == 2
    assert "has no retraining.keep" in err


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
