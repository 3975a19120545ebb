"""What `scotoma show` shows of studies and corrected labels: what their files hold, no more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from scotoma.audit.findings import Beside, Findings, People, read_reviewed
from scotoma.audit.study import read_study
from scotoma.document import Interval, Section, show
from scotoma.review.section import reviewed_section
from scotoma.run import Run, checksums
from scotoma.study.section import study_section
from tests.helpers.audits import whole
from tests.helpers.commands import scotoma
from tests.helpers.sections import table, texts
from tests.review.test_review import reviewed
from tests.study.answering import answered, result
from tests.study.conftest import VARIANT, new_study

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(seen_run: Run, planned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished audit with an answered study beside it; tests copy it."""
    root = shutil.copytree(seen_run.root, tmp_path_factory.mktemp("finished") / "run")
    study = shutil.copytree(planned, root / "studies" / VARIANT)
    checksums.seal(Run.open(root).mirror)
    code, _, err = scotoma("study", "result", study, *answered(study, 3))
    assert (code, err.count(f"; scotoma show {root} shows it\n")) == (0, 1)
    return root


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Run:
    return Run.open(shutil.copytree(finished, tmp_path / "run"))


def drawn(run: Run) -> bytes:
    code, _, err = scotoma("show", run.root, "--quiet")
    assert (code, err) == (0, "")
    return run.path("report.html").read_bytes()


def of_studies(run: Run) -> Section:
    """The section on the studies of a run."""
    paths = sorted(run.path("studies").glob("*/result.json"))
    people = People(tuple((path.parent.name, read_study(path)) for path in paths))
    made = study_section(Findings(whole({}), beside=Beside(people=people)))
    assert made is not None
    return made


def of_reviews(run: Run) -> Section:
    """The section on the corrected labels of a run."""
    people = People(reviewed=read_reviewed(run.path("reviewed", "audit.json")))
    groups = [{"key": "all", "name": "everyone"}, {"key": "side=left", "name": "left"}]
    made = reviewed_section(Findings(whole({"groups": groups}), beside=Beside(people=people)))
    assert made is not None
    return made


def points(value: Any) -> str:
    return str(show(Interval(value.value, value.low, value.high, 0, value.reason), "points"))


def test_without_studies_the_page_names_none(seen_run: Run, tmp_path: Path) -> None:
    root = shutil.copytree(seen_run.root, tmp_path / "run")
    page = drawn(Run.open(root))
    assert b'id="study"' not in page
    assert b'id="reviewed"' not in page


def test_a_study_is_on_the_page_as_its_file_has_it_and_the_seal_holds(run: Run) -> None:
    page = drawn(run)
    found = read_study(run.path("studies", VARIANT, "result.json"))
    made = of_studies(run)
    rows = texts(table(made, "study"))
    assert len(rows) == 12
    effects = [e for one in found.questions for _, e in sorted(one.effects.items())]
    for row, effect in zip(rows, effects, strict=True):
        assert row[4] == points(effect)
        assert row[6:] == ["8 / 8", "3"]
        assert row[3] == " / ".join(show(share, "rate").value for share in effect.shares)
    assert ["primary outcome" in row[1] for row in rows] == [False, True] + 10 * [False]
    checks = texts(table(made, "study-checks"))
    assert len(checks) == 12
    odds = found.questions[0].odds["A-B"]
    assert odds.value is not None
    assert checks[0][-1].startswith(f"{odds.value:.3f} [")
    agreement = texts(table(made, "agreement"))
    assert len(agreement) == 18
    arms = [arm for one in found.questions for arm in one.arms]
    for row, arm in zip(agreement, arms, strict=True):
        assert row[3:6] == [str(arm.yes), str(arm.no), str(arm.cant_tell)]
        assert row[-4].startswith(f"{arm.ac1.value:.3f}".replace("-", "−"))
        assert [row[-3], row[-1]] == [str(arm.alpha.n), str(arm.items)]
        assert ("arm C is matched" in row[-2]) == (arm.arm == "C")
    blinding = texts(table(made, "blinding"))
    assert [row[1] for row in blinding] == 2 * ["Machine, AUC"] + 3 * ["Bang’s index"] + [
        "James’s index"
    ]
    assert [row[4] for row in blinding[:2]] == ["16 images", "16 images"]
    assert blinding[-1][3].startswith("0.000 (guesses too alike")
    assert blinding[-1][4] == "18 guesses"
    balance = texts(table(made, "balance"))
    assert balance[0][1:] == ["All images", "8", "8", "8"]
    assert [float(cell) for cell in balance[-1][2:]] == pytest.approx(
        [100 * found.balance.agreement[arm] for arm in "ABC"], abs=0.005
    )
    people = texts(table(made, "annotators"))
    assert [row[1] for row in people] == ["1", "2", "3"]
    assert [row[4] for row in people] == [str(one.equal.n) for one in found.flow.people]
    assert found.plan_sha256.encode() in page
    assert found.deviations[0].encode() in page
    assert drawn(run) == page
    assert scotoma("verify", run.root)[0] == 0


def test_groups_of_a_study_are_on_the_page(seen_run: Run, tmp_path: Path) -> None:
    run = Run.open(shutil.copytree(seen_run.root, tmp_path / "run"))
    study = run.path("studies", "sides")
    new_study(run, study, "--group", "side")
    result(study, *answered(study, 3))
    rows = texts(table(of_studies(run), "study-groups"))
    found = read_study(study / "result.json")
    assert [row[3] for row in rows] == 12 * ["side=left", "side=right"]
    for row, one in zip(rows, found.questions[0].groups["A-B"], strict=False):
        assert row[5] == points(one.effect)
        assert row[4] == str(sum(one.effect.items))


def test_corrected_labels_are_on_the_page_before_and_after(run: Run) -> None:
    reviewed(run, unchanged=40)
    command = ("audit", "--step", "bias", "--labels", "reviewed", "--out", run.root)
    assert scotoma(*command)[0] == 0
    content: Any = json.loads(run.path("reviewed", "audit.json").read_text())
    page = drawn(run)
    made = of_reviews(run)
    rates = texts(table(made, "corrected"))
    assert [row[1] for row in rates] == ["everyone", "left", "side=right"]
    for row, rate in zip(rates, content["variants"][0]["rates"], strict=True):
        assert row[2] == str(rate["n"])
        assert row[3] == show(rate["before"], "points").value
        assert row[4] == str(show(Interval(rate["change"], rate["low"], rate["high"]), "points"))
    flips = texts(table(made, "reviewed"))
    before, after = (content["variants"][0][key] for key in ("before", "after"))
    assert [row[1] for row in flips] == ["as they were", "corrected"]
    for row, counts in zip(flips, (before, after), strict=True):
        keys = ("became_wrong", "became_right", "wrong_either_way", "no_answer")
        assert row[3:] == [str(counts[key]) for key in keys]
    assert drawn(run) == page
    assert scotoma("verify", run.root)[0] == 0


def test_flips_alone_say_why_there_are_no_rates(run: Run) -> None:
    reviewed(run, unchanged=0)
    assert scotoma("audit", "--step", "bias", "--labels", "reviewed", "--out", run.root)[0] == 0
    page = drawn(run)
    assert b"Rates need the first 20 unchanged examples of the random order" in page
    assert b"before and after correction" not in page


def test_corrected_labels_of_another_audit_are_called_outdated(run: Run) -> None:
    reviewed(run, unchanged=40)
    assert scotoma("audit", "--step", "bias", "--labels", "reviewed", "--out", run.root)[0] == 0
    path = run.path("reviewed", "audit.json")
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"audit_sha256": "0" * 64}))
    page = drawn(run)
    assert b"were measured for another audit.json" in page
    assert b"before and after correction" not in page


@pytest.mark.parametrize("content", ["", "{}", "[" * 100_000, '{"version": 2}'])
def test_a_damaged_result_is_one_sentence(run: Run, content: str) -> None:
    run.path("studies", VARIANT, "result.json").write_text(content)
    code, _, err = scotoma("show", run.root)
    assert code == 4
    assert "run scotoma study result again" in err
    assert err.count("\n") == 1


def test_names_from_a_result_are_text(run: Run) -> None:
    path = run.path("studies", VARIANT, "result.json")
    content = json.loads(path.read_text())
    hostile = "<script>alert(1)</script>"
    path.write_text(json.dumps(content | {"conclusion": hostile, "variant": hostile}))
    assert hostile.encode() not in drawn(run)
