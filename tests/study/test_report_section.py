"""What `scotoma report` shows of studies and corrected labels: what their files hold, no more."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from scotoma.audit.study import read_study
from scotoma.document.cells import Interval, points
from scotoma.run import Run, checksums
from tests.commands import scotoma
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
    assert (code, err.count(f"; scotoma report {root} shows it\n")) == (0, 1)
    return root


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Run:
    return Run.open(shutil.copytree(finished, tmp_path / "run"))


def drawn(run: Run) -> bytes:
    code, _, err = scotoma("report", run.root, "--quiet")
    assert (code, err) == (0, "")
    return run.path("report.html").read_bytes()


def rows_of(page: bytes, caption: str) -> list[list[str]]:
    """Cells of the body of one table, as text."""
    (table,) = (
        one for one in re.findall(r"(?s)<table.*?</table>", page.decode()) if caption in one
    )
    body = table.partition("</thead>")[2]
    return [
        [
            " ".join(html.unescape(re.sub(r"<[^>]+>", " ", cell)).split())
            for cell in re.findall(r"(?s)<t[hd]\b.*?</t[hd]>", row)
        ]
        for row in re.findall(r"(?s)<tr>.*?</tr>", body)
    ]


def test_without_studies_the_page_names_none(seen_run: Run, tmp_path: Path) -> None:
    root = shutil.copytree(seen_run.root, tmp_path / "run")
    page = drawn(Run.open(root))
    assert b'id="study"' not in page
    assert b'id="reviewed"' not in page


def test_a_study_is_on_the_page_as_its_file_has_it_and_the_seal_holds(run: Run) -> None:
    page = drawn(run)
    found = read_study(run.path("studies", VARIANT, "result.json"))
    rows = rows_of(page, "Share of the counted answer")
    assert len(rows) == 12
    effects = [e for one in found.questions for _, e in sorted(one.effects.items())]
    for row, effect in zip(rows, effects, strict=True):
        shown = points(Interval(effect.value, effect.low, effect.high))
        assert row[3] == f"{shown.value} [{shown.low}, {shown.high}]"
        assert row[6:] == ["8 / 8", "3"]
    assert [row[0].endswith("primary outcome") for row in rows] == [False, True] + 10 * [False]
    checks = rows_of(page, "The same by other methods")
    assert len(checks) == 12
    odds = found.questions[0].odds["A-B"]
    assert odds.value is not None
    assert checks[0][-1].startswith(f"{odds.value:.3f} [")
    agreement = rows_of(page, "how far people agree")
    assert len(agreement) == 18
    arms = [arm for one in found.questions for arm in one.arms]
    for row, arm in zip(agreement, arms, strict=True):
        assert row[-4].startswith(f"{arm.ac1:.3f}".replace("-", "−"))
        assert [row[-3], row[-1]] == [str(arm.pairable), str(arm.items)]
        assert ("arm C is matched" in row[-2]) == (arm.arm == "C")
    blinding = rows_of(page, "Could the arms be told apart?")
    assert [row[0] for row in blinding] == 2 * ["Machine, AUC"] + 3 * ["Bang’s index"] + [
        "James’s index"
    ]
    assert blinding[-1][2].startswith("0.000 guesses too alike")
    assert blinding[-1][3] == "18 guesses"
    balance = rows_of(page, "How alike are the arms?")
    assert balance[0] == ["All images", "8", "8", "8"]
    assert sum(int(row[1]) for row in balance if row[0].startswith("Class ")) == 8
    people = rows_of(page, "How people took part")
    assert [row[0] for row in people] == ["1", "2", "3"]
    assert [row[3] for row in people] == [str(one.repeats) for one in found.flow.people]
    assert found.plan_sha256.encode() in page
    assert found.deviations[0].encode() in page
    assert drawn(run) == page
    assert scotoma("verify", run.root)[0] == 0


def test_groups_of_a_study_are_on_the_page(seen_run: Run, tmp_path: Path) -> None:
    run = Run.open(shutil.copytree(seen_run.root, tmp_path / "run"))
    study = run.path("studies", "sides")
    new_study(run, study, "--group", "side")
    result(study, *answered(study, 3))
    rows = rows_of(drawn(run), "The same within groups of side")
    found = read_study(study / "result.json")
    assert [row[2] for row in rows] == 12 * ["side=left", "side=right"]
    for row, one in zip(rows, found.questions[0].groups["A-B"], strict=False):
        shown = points(Interval(one.effect.value, one.effect.low, one.effect.high))
        assert row[3].startswith(shown.value)
        assert row[6] == str(sum(one.effect.items))


def test_corrected_labels_are_on_the_page_before_and_after(run: Run) -> None:
    reviewed(run, unchanged=40)
    command = ("audit", "--step", "bias", "--labels", "reviewed", "--out", run.root)
    assert scotoma(*command)[0] == 0
    content: Any = json.loads(run.path("reviewed", "audit.json").read_text())
    page = drawn(run)
    rates = rows_of(page, "before and after correction")
    assert [row[0] for row in rates] == ["all", "left", "right"]
    for row, rate in zip(rates, content["variants"][0]["rates"], strict=True):
        assert float(row[1].replace("−", "-")) == pytest.approx(100 * rate["before"], abs=0.006)
        shown = points(Interval(rate["change"], rate["low"], rate["high"]))
        assert row[2] == f"{shown.value} [{shown.low}, {shown.high}]"
    flips = rows_of(page, "Reviewed examples: ")
    assert [row[0] for row in flips] == ["as they were", "corrected"]
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
    code, _, err = scotoma("report", run.root)
    assert code == 4
    assert "run scotoma study result again" in err
    assert err.count("\n") == 1


def test_names_from_a_result_are_text(run: Run) -> None:
    path = run.path("studies", VARIANT, "result.json")
    content = json.loads(path.read_text())
    hostile = "<script>alert(1)</script>"
    path.write_text(json.dumps(content | {"conclusion": hostile, "variant": hostile}))
    assert hostile.encode() not in drawn(run)
