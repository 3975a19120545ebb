"""The page of a tournament: what it says, and what a browser makes of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scotoma.report.figures.tournament import tournament_figures
from scotoma.report.tournament import render_tournament
from scotoma.report.tournament_tables import TournamentResult
from scotoma.runs import RunSets, Tournament, compare_paired, compare_techniques, survival
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


@pytest.fixture(scope="module")
def tournament() -> Tournament:
    return compare_techniques(RUNS, dict.fromkeys(NAMES[1:], "S-Base"))


def result(tournament: Tournament, **shown: Any) -> TournamentResult:
    nothing = {"beside": {}, "published": None, "aims": {}, "remarks": [], "failed": {}}
    return TournamentResult(**{"title": "x", "tournament": tournament, **nothing, **shown})


@pytest.fixture(scope="module")
def page(tournament: Tournament) -> str:
    sets = {}
    for (name, metric), own in RUNS.items():
        sets[name, "dense", metric] = own
        lost = 0.8 if name == "S-Base" else 0.9
        sets[name, LONG, metric] = np.full(8, lost) if metric == "accuracy" else 0.1 * own + 0.2
    beside = {
        "survival": survival(sets, base="S-Base", dense="dense"),
        "shared runs": compare_paired(RUNS, [NAMES[1:3]]),
    }
    return render_tournament(
        result(
            tournament, title=LONG, aims={"S|BA": "*"}, published={"cells": 154}, beside=beside,
            remarks=[LONG],
        )
    )  # fmt: skip


def test_cells_say_in_letters_what_they_say_in_colour(tournament: Tournament) -> None:
    figures = tournament_figures(result(tournament, aims={"S|BA": "*"}))
    assert list(figures) == ["bias", "spread", "accuracy", "runs"]
    [panel] = figures["bias"].spec["concat"]
    cells = {(row["c0"], row["c1"]): row for row in panel["data"]["values"]}
    assert {name for _, name in cells} == {"DP", "BA *"}
    shown = {key[0]: (row["c2"], row["c5"]) for key, row in cells.items() if key[1] == "DP"}
    assert shown == {
        NAMES[1]: ("better", "\N{MINUS SIGN}H"), "S-costly": ("better", "\N{MINUS SIGN}H"),
        "S-worse": ("worse", "+H"), "S-same": ("neither", "·"),
    }  # fmt: skip
    row = next(r for r in figures["bias"].table.rows if r[:2] == ("S-costly", "DP"))
    assert row[2] == "better at a cost: accuracy down"
    assert row[3] == "16"
    assert re.match(r"\N{MINUS SIGN}10\.00 \[\N{MINUS SIGN}1\d\.\d\d, ", row[4])


def test_the_page_repeats_itself_and_shows_names_as_text(tournament: Tournament, page: str) -> None:
    again = render_tournament(result(tournament))
    assert again == render_tournament(result(tournament))
    assert "as published" not in again
    assert '<td class="number">154</td>' in page
    shown = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert HOSTILE not in shown
    assert "<script>alert" not in page


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(390, "dark"), pytest.param(1440, "light", marks=pytest.mark.thorough)],
)
def test_browser_finds_no_fault(
    browser: Any, axe: str, page: str, tmp_path: Path, width: int, scheme: str
) -> None:
    """Console, policy, network, overflow and axe, everything unfolded."""
    file = tmp_path / "tournament.html"
    file.write_text(page, encoding="utf-8")
    with opened(browser, file.as_uri(), width, color_scheme=scheme) as found:
        shown = found.page
        shown.wait_for_selector("html[data-figures=live]", state="attached")
        shown.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.locator("figure.figure .live svg").count() == 5
        shown.evaluate(axe)
        faults = shown.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']})"
            ".then(found => found.violations.map(f => [f.id, f.nodes.length, f.nodes[0].html]))"
        )
    assert faults == []
    assert found.complaints == []
    assert [url for url in found.requests if not url.startswith("data:")] == [file.as_uri()]
