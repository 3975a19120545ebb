"""The page of a tournament: what it says, and what a browser makes of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scotoma.document import Chart, Document, Section, Table, show
from scotoma.document.html import html_page
from scotoma.document.text import document_text
from scotoma.numbers import Estimate
from scotoma.runs import (
    RunFinding,
    RunSets,
    Tournament,
    compare_one_seed,
    compare_paired,
    compare_techniques,
    equal_accuracy,
    survival,
)
from scotoma.runs.effects import bare
from scotoma.runs.section import TournamentResult, tournament_document
from tests.helpers.sections import kept
from tests.report.reading import HOSTILE
from tests.report.test_browser import opened

LONG = f"{HOSTILE} {60 * 'b'}"
METRICS = ("DP", "BA")


def runs(bias: float, accuracy: float, name: str, sd: float = 0.01) -> RunSets:
    rng = np.random.default_rng(7)
    values = bias + sd * rng.standard_normal((8, 2))
    own = {(name, metric): column for metric, column in zip(METRICS, values.T, strict=True)}
    return own | {(name, "accuracy"): accuracy + 0.001 * rng.standard_normal(8)}


NAMES = ["S-Base", f"S-{LONG}", "S-costly", "S-worse", "S-same"]
RUNS = {
    **runs(0.3, 0.9, NAMES[0]), **runs(0.1, 0.9, NAMES[1]), **runs(0.2, 0.8, NAMES[2]),
    **runs(0.4, 0.9, NAMES[3]), **runs(0.3, 0.9, NAMES[4], 0.05),
}  # fmt: skip


MINORITY = RunFinding(
    "S-costly", "CIEs in minority cells",
    {
        "CIEs": bare(34.0, 500), "in minority cells": bare(30.0, 500),
        "share of CIEs": bare(30 / 34, 500), "share of test set": bare(0.5, 500),
        "change": Estimate(0.765, 0.54, 1.03, 500, 8, 30.0, 7.0),
    },
    variant="int8",
)  # fmt: skip


@pytest.fixture(scope="module")
def tournament() -> Tournament:
    return compare_techniques(RUNS, dict.fromkeys(NAMES[1:], "S-Base"))


def result(tournament: Tournament, **shown: Any) -> TournamentResult:
    nothing = {"beside": {}, "published": None, "aims": {}, "remarks": [], "failed": {}}
    return TournamentResult(**{"title": "x", "tournament": tournament, **nothing, **shown})


@pytest.fixture(scope="module")
def whole(tournament: Tournament) -> Document:
    """Everything that a tournament can show; under LONG the baseline loses 10 points."""
    sets = {}
    for (name, metric), own in RUNS.items():
        sets[name, "dense", metric] = own
        lost = {"S-Base": 0.8, "S-worse": 0.85}.get(name, 0.9)
        sets[name, LONG, metric] = np.full(8, lost) if metric == "accuracy" else 0.1 * own + 0.2
    beside = {
        "survival": survival(sets, base="S-Base", dense="dense"),
        "equal accuracy": equal_accuracy(sets, base="S-Base"),
        "shared runs": compare_paired(RUNS, [NAMES[1:3]]),
        "minority": [MINORITY],
        "one seed": compare_one_seed(RUNS, {key: own * 1 for key, own in RUNS.items()}),
    }
    return tournament_document(
        result(
            tournament, title=LONG, aims={"S|BA": "*"}, published={"cells": 154}, beside=beside,
            remarks=[LONG], failed={"S-lost": "no memory"},
        )
    )  # fmt: skip


def chart(document: Document, name: str) -> Chart:
    return next(
        part
        for section in document.sections
        for part in section.parts
        if isinstance(part, Chart) and part.id == name
    )


def table(document: Document, name: str) -> Table:
    return next(one for one in document.tables() if one.id == name)


def shown(document: Document, name: str, *keys: str) -> dict[str, str]:
    """Cells of the row that begins with `keys`, by title."""
    one = table(document, name)
    for row, cells in zip(one.rows, one.cells(), strict=True):
        if tuple(row[column.key] for column in one.columns[: len(keys)]) == keys:
            return {c.title: str(cell) for c, cell in zip(one.columns, cells, strict=True)}
    raise KeyError(keys)


def test_cells_say_in_letters_what_they_say_in_colour(whole: Document) -> None:
    drawn = chart(whole, "bias")
    rows = [row for row in drawn.table.rows if row["metric"] == "DP"]
    assert {row["x"] for row in drawn.table.rows} == {"DP", "BA *"}
    assert {row["technique"]: (row["tone"], row["letters"]) for row in rows} == {
        NAMES[1]: ("better", "\N{MINUS SIGN}H"), "S-costly": ("better", "\N{MINUS SIGN}H"),
        "S-worse": ("worse", "+H"), "S-same": ("neither", "·"),
    }  # fmt: skip
    costly = [row for row in chart(whole, "accuracy").table.rows if row["technique"] == "S-costly"]
    assert [(row["x"], row["tone"], row["letters"]) for row in costly] == [
        ("accuracy", "worse", "\N{MINUS SIGN}"),
        ("its raw spread", "neither", "·"),
        ("its relative spread", "neither", "·"),
    ]
    wider = chart(whole, "spread").table.rows
    same = [row for row in wider if row["technique"] == "S-same"]
    assert [row["letters"] for row in same] == ["+X" if row["p"] <= 0.05 else "X" for row in same]
    assert {row["letters"] for row in same} == {"+X", "X"}


def test_every_cell_has_its_numbers(tournament: Tournament, whole: Document) -> None:
    """Against the runs themselves: differences of means, shares of pairs, ratios."""
    for technique in NAMES[1:]:
        cells = shown(whole, "bias", technique, "DP")
        own, base = RUNS[technique, "DP"], RUNS["S-Base", "DP"]
        moved = show(float(own.mean() - base.mean()), "points").value
        assert cells["Difference, points"].startswith(f"{moved} [")
        ratio = show(float(own.std() / base.std()), "ratio").value
        assert shown(whole, "spread", technique, "DP", "raw")["Ratio"].startswith(f"{ratio} [")
        assert cells["Runs"] == "16"
    costly = shown(whole, "bias", "S-costly", "DP")
    assert costly["Verdict"] == "better at a cost: accuracy down"
    assert re.match(
        r"\N{MINUS SIGN}10\.00 \[\N{MINUS SIGN}1\d\.\d\d, ", costly["Difference, points"]
    )
    assert shown(whole, "accuracy", "S-costly", "accuracy")["Difference, points"].startswith(
        "\N{MINUS SIGN}10.0"
    )
    assert shown(whole, "totals", "cells") == {
        "Cells": "cells", "Here": "8", "Qian et al. 2021, as published, 154 cells": "154",
    }  # fmt: skip


def test_what_compression_leaves_is_told_with_the_loss_of_the_baseline(whole: Document) -> None:
    cells = shown(whole, "survival", "S-costly", f"{LONG} †", "DP")
    # 0.1 bias + 0.2 leaves a tenth of every difference: I is nine tenths of a gain of 10 points.
    assert cells["I, points"].startswith("+9.00 (interval not estimable")
    assert cells["S"].startswith("0.10")
    lost = float(RUNS["S-Base", "accuracy"].mean() - 0.8)
    assert cells["Accuracy that the baseline loses"] == show(lost, "rate").value
    gain = float(RUNS["S-Base", "BA"].mean() - 0.1 * RUNS["S-costly", "BA"].mean() - 0.2)
    assert shown(whole, "equal", "S-costly", LONG)["Gain, points"].startswith(
        f"{show(gain, 'points').value} ["
    )
    assert shown(whole, "equal", "S-worse", LONG)["Gain, points"] == "none so accurate"
    assert shown(whole, "seeds", "S-Base", "DP")["Ratio of variances"].startswith("1.00 [")
    drawn = chart(whole, "survival").table.rows
    tones = {row["technique"]: row["tone"] for row in drawn if row["metric"] == "DP"}
    assert tones == {NAMES[1]: "worse", "S-costly": "worse", "S-worse": "better",
                     "S-same": tones["S-same"]}  # fmt: skip


SECTIONS = (
    "totals", "bias", "spread", "accuracy", "survival", "seeds", "shared", "metrics", "runs",
)  # fmt: skip


@pytest.mark.parametrize("name", SECTIONS)
def test_it_says_what_a_reviewer_has_read(whole: Document, name: str) -> None:
    assert tuple(section.id for section in whole.sections) == SECTIONS
    [section] = [section for section in whole.sections if section.id == name]
    said, read = kept(section, "tournament-")
    assert said == read


def test_marks_are_those_that_a_reviewer_has_read(whole: Document) -> None:
    lines = [
        f"{one}: {row['choice'] if one != 'survival' else row['metric']}, {row['technique']}, "
        f"{row['x']}: {row['tone']} {row['strength']} {row['letters']}"
        for one in ("bias", "spread", "accuracy", "survival")
        for row in chart(whole, one).table.rows
    ]
    said, read = kept(Section("marks", "", lines), "tournament-")
    assert said == read


def test_published_tests_and_verdicts_are_named(tournament: Tournament) -> None:
    published = compare_techniques(RUNS, dict.fromkeys(NAMES[1:], "S-Base"), protocol="published")
    made = tournament_document(result(published))
    [bias] = [section for section in made.sections if section.id == "bias"]
    assert "one-sided in the direction that the data show" in bias.answer[0]
    [spread] = [section for section in made.sections if section.id == "spread"]
    assert spread.answer[0].endswith("Verdicts take the relative spread.")


def test_the_page_repeats_itself_and_shows_names_as_text(
    tournament: Tournament, whole: Document
) -> None:
    again = tournament_document(result(tournament))
    assert html_page(again) == html_page(tournament_document(result(tournament)))
    assert "as published" not in html_page(again)
    assert "<script>alert" not in html_page(whole)
    assert "no memory" in document_text(whole)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(390, "dark"), pytest.param(1440, "light", marks=pytest.mark.thorough)],
)
def test_browser_finds_no_fault(
    browser: Any, axe: str, whole: Document, tmp_path: Path, width: int, scheme: str
) -> None:
    """Console, policy, network, overflow and axe, everything unfolded."""
    file = tmp_path / "tournament.html"
    file.write_text(html_page(whole), encoding="utf-8")
    with opened(browser, file.as_uri(), width, color_scheme=scheme) as found:
        page = found.page
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("figure.figure .still svg").count() >= 5
        page.evaluate(axe)
        faults = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']})"
            ".then(found => found.violations.map(f => [f.id, f.nodes.length, f.nodes[0].html]))"
        )
    assert faults == []
    assert found.complaints == []
    assert [url for url in found.requests if not url.startswith("data:")] == [file.as_uri()]
