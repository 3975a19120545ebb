"""Four-fifths tables against worked examples of public guidance."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scotoma.bias.four_fifths import STANDINGS, impact_ratios, standing
from scotoma.errors import DataError
from tests.helpers.commands import measured, stderr_of, stdout_of

# Questions and answers on the Uniform Guidelines on Employee Selection Procedures (1979): hiring
# rates; the impact ratios and the adverse impact that the agencies read from them.
HIRED = {"White": 0.60, "American Indian": 0.45, "Hispanic": 0.48, "Black": 0.51}
RATIOS = {"White": 1.0, "American Indian": 0.75, "Hispanic": 0.80, "Black": 0.85}
ADVERSE = ["American Indian"]


@pytest.fixture
def applicants(tmp_path: Path) -> Path:
    """The guidance's rates in groups of 200 to 1,000, a small group, and 30 of unknown race."""
    sizes = {"White": 1_000, "American Indian": 200, "Hispanic": 500, "Black": 600}
    rows = [
        (race, "m" if row % 2 else "f", "yes" if row < round(HIRED[race] * n) else "no")
        for race, n in sizes.items()
        for row in range(n)
    ]
    rows += [("Other", "f", "yes" if row < 30 else "no") for row in range(40)]
    rows += [(None, "m", "yes" if row < 12 else "no") for row in range(30)]
    table = pl.DataFrame(rows, schema=["race", "sex", "hired"], orient="row")
    path = tmp_path / "applicants.csv"
    table.with_columns(label=pl.col("hired")).write_csv(path)
    return path


def asked(table: Path, *more: str) -> tuple[str | Path, ...]:
    options = ("--label", "label", "--predicted", "hired", "--positive", "yes", "--four-fifths")
    return ("compare", table, *options, "--group", "race", *more)


def test_the_ratios_are_those_of_the_guidance(applicants: Path) -> None:
    (table,) = measured(*asked(applicants, "--json"))["tables"]
    rows = {row["group"].removeprefix("race="): row for row in table["groups"]}
    judged = {name: row for name, row in rows.items() if row["ratio"] is not None}
    assert {name: row["ratio"]["value"] for name, row in judged.items()} == pytest.approx(RATIOS)
    assert [name for name, row in rows.items() if row["standing"] == "below"] == ADVERSE
    # 75% of 200 against 1,000: log ratio -.288, standard error sqrt(.55/90 + .4/600).
    indians = rows["American Indian"]["ratio"]
    half = 1.96 * np.sqrt(0.55 / 90 + 0.4 / 600)
    ends = np.exp(np.log(0.75) + np.array([-half, half]))
    assert (indians["low"], indians["high"]) == pytest.approx(tuple(ends), abs=0.003)
    # The small group is selected most, is counted, and nobody is compared with it.
    assert (rows["Other"]["standing"], rows["Other"]["n"]) == ("too small", 40)
    assert rows["Other"]["rate"]["value"] == pytest.approx(0.75)
    assert table["unknown"] == {"examples": 30, "selected": 12.0}


def test_the_page_shows_counts_intersections_and_the_unknown(applicants: Path) -> None:
    out = stdout_of(*asked(applicants, "--group", "sex", "--intersections"))
    assert "race and sex" in out
    assert "race=Black,sex=f" in out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    half = 1.96 / np.sqrt(1000 * 0.6 * 0.4)  # of log(.6 / .4)
    low, high = 100 / (1 + np.exp(-np.log(1.5) + np.array([half, -half])))
    white = r"race=White 1,000 600 60\.00% \[([\d.]+), ([\d.]+)\] 1 selected most"
    found = re.search(white, " ".join(lines))
    assert found is not None
    assert [float(end) for end in found.groups()] == pytest.approx([low, high], abs=0.02)
    assert any(line.startswith("unknown 30 12 40.00%") for line in lines)
    assert "under 2% of the examples: not judged" in " ".join(lines)


def test_without_the_selected_label_it_says_what_it_needs(applicants: Path) -> None:
    options = ("--label", "label", "--predicted", "hired", "--group", "race", "--four-fifths")
    err = stderr_of("compare", applicants, *options, code=2)
    assert "--four-fifths needs --positive" in err


def test_several_models_are_averaged_and_nobody_selected_is_no_ratio() -> None:
    groups = {"a": np.arange(100) < 50, "b": np.arange(100) >= 50}
    selected = np.zeros((100, 2), bool)
    assert {standing(row.ratio)[0] for row in impact_ratios(selected, groups)} == {"no selection"}
    selected[:40] = True
    selected[50:70, 0] = selected[50:90, 1] = True  # .5 and 1 times as often as in a
    _, b = impact_ratios(selected, groups)
    assert (b.selected, b.ratio.value) == (30.0, pytest.approx(0.75))
    assert standing(b.ratio)[0] == "below"
    with pytest.raises(DataError, match="share no example"):
        impact_ratios(selected, {"a": groups["a"], "all": groups["a"] | groups["b"]})


def test_a_group_of_which_one_model_selects_nobody_stands_nowhere_for_certain() -> None:
    """The ratio of that model has no denominator, so that the mean over models has no value."""
    selected = np.zeros((400, 2), bool)
    selected[:200, 0], selected[200:300, 0] = True, True
    groups = {"a": np.arange(400) < 200, "b": np.arange(400) >= 200}
    rows = impact_ratios(selected, groups)
    assert [standing(row.ratio) for row in rows] == [
        ("highest", False),
        ("no selection", False),
    ]
    assert all(standing(row.ratio) in STANDINGS for row in rows)
