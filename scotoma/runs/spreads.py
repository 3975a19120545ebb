"""How far do identical runs lie apart, and which techniques differ beyond that?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scotoma.document import Cell, Column, Document, Section, Table
from scotoma.errors import ConfigError, DataError
from scotoma.numbers import undefined
from scotoma.numbers.inputs import StatisticsProtocol
from scotoma.printable import listed, quoted
from scotoma.runs.comparing import compare_runs, spread
from scotoma.runs.effects import THIS_TEST_SET
from scotoma.runs.finding import SIGN_WORDS, RunFinding, finding_rows
from scotoma.runs.table import RunSet

NAMES = (Column("technique", "technique"), Column("metric", "metric"))
STILL = "interval not estimable (nothing varies"
KNOWN = (THIS_TEST_SET, "takes the runs as normal")  # the page says it once
NOT_COMPARED = "not compared (the base has no runs of this metric)"


def compare_spreads(
    sets: Mapping[tuple[str, str], RunSet],
    base: str | None,
    *,
    title: str,
    protocol: StatisticsProtocol = "sound",
    level: float = 0.95,
) -> tuple[Document, dict[str, Any]]:
    """Say how far identical runs lie apart, and which techniques differ from the base.

    Args:
        sets: Runs of two or more trainings by technique and metric, from `read_runs`.
        base: The technique that the others are compared with; None compares nothing.
        title: What the runs are of.
        protocol: `sound` or `published`.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        What people read, and what `--json` prints.

    Raises:
        ConfigError: The base is no technique.
        DataError: Techniques have values of different classes.
    """
    techniques = list(dict.fromkeys(name for name, _ in sets))
    if base is not None and base not in techniques:
        raise ConfigError(
            f"--base must be one of the techniques, got {quoted(base)}: choose among "
            f"{listed(techniques)}"
        )
    spreads = _spreads(sets, level)
    found = _comparisons(sets, base, protocol, level)
    rows = finding_rows({"spread": spreads, "comparison": [one for one, _ in found]})
    content = {"protocol": protocol, "level": level, "base": base, "rows": rows.to_dicts()}
    return spread_document(title, spreads, found, level), content


def _spreads(sets: Mapping[tuple[str, str], RunSet], level: float) -> list[RunFinding]:
    """The spread of each set, and of the class that moves most."""
    found = []
    for key, own in sets.items():
        moved, worst = spread(own.values, level=level)
        found.append(
            RunFinding(*key, moved, class_name=own.classes[worst or 0] if own.classes else "")
        )
    return found


def _comparisons(
    sets: Mapping[tuple[str, str], RunSet],
    base: str | None,
    protocol: StatisticsProtocol,
    level: float,
) -> list[tuple[RunFinding, str]]:
    """What differs from the base, as one family, each with the numbers of runs a side."""
    if base is None:
        return []
    pairs = {}
    keys = [key for key in sets if key[0] != base]
    for technique, metric in keys:
        own, before = sets[technique, metric], sets.get((base, metric))
        if before is None:
            continue
        if set(before.classes) != set(own.classes):
            raise DataError(
                f"technique {quoted(technique)}, metric {quoted(metric)} has other classes "
                "than the base: compare means over the same classes"
            )
        pairs[technique, metric] = before.overall, own.overall
    compared = compare_runs(pairs, level=level)
    found = []
    for key in keys:
        sizes = dict.fromkeys(map(len, pairs[key][::-1] if key in pairs else [sets[key].values]))
        lacking = {"difference": undefined(NOT_COMPARED, n=sum(sizes), members=0)}
        numbers = compared.get(key, lacking)
        found.append(
            (RunFinding(*key, numbers, base, protocol=protocol), ", ".join(map(str, sizes)))
        )
    return found


def spread_document(
    name: str, spreads: list[RunFinding], found: list[tuple[RunFinding, str]], level: float
) -> Document:
    """Lay out how far runs lie apart, and what differs from the base.

    Args:
        name: What the runs are of.
        spreads: What `spread` finds of each technique and metric.
        found: Comparisons, each with the numbers of runs a side.
        level: Coverage of the intervals, a fraction.
    """
    about = (
        "All numbers are about training runs on this test set; sigma assumes normally distributed "
        "runs."
    )
    still = all(one["sigma"].reason.startswith(STILL) for one in spreads)
    tables = [
        Table(
            "spread", "",
            [*NAMES, Column("runs", "runs", "count"), Column("reach", "max diff", "score"),
             Column("std", "std", "score"), Column("sigma", "sigma", "score")],
            [one.cells(reach="MaxDiff", std="STDEV", sigma="sigma") | {"runs": one["sigma"].n}
             for one in spreads],
            "Nothing varies, so no interval can be estimated." if still else "",
            stub=2, known=(*KNOWN, STILL) if still else KNOWN,
        )
    ]  # fmt: skip
    if classes := [one for one in spreads if one.class_name]:
        tables.append(Table(
            "classes", "",
            [*NAMES, Column("class", "class moving most"), Column("runs", "runs", "count"),
             Column("reach", "max diff", "score"), Column("std", "std", "score")],
            [one.cells(reach="MaxDiff of class", std="STDEV of class")
             | {"class": one.class_name, "runs": one["sigma"].n} for one in classes],
            stub=3,
        ))  # fmt: skip
    title = f"{name}: spread over identical runs, intervals {100 * level:g}%"
    sections = [Section("spread", "", [about], tables)]
    return Document(title, sections=[*sections, *_compared(found)])


def _compared(found: list[tuple[RunFinding, str]]) -> list[Section]:
    if not found:
        return []
    first, _ = found[0]
    several = "Benjamini-Hochberg" if first.protocol == "sound" else "none"
    tested = sum("U p" in one.numbers for one, _ in found)
    form = "relative" if first.protocol == "published" else "raw"
    test = f"{form} Levene"
    means = Table(
        "means", "",
        [*NAMES, Column("runs", "runs", "text"), Column("difference", "difference", "score_change"),
         Column("effect", "Cohen's d", "effect"), Column("p", "U p", "p"), Column("moves", "mean")],
        [_mean(one, runs) for one, runs in found], stub=2, known=KNOWN,
    )  # fmt: skip
    variances = Table(
        "variances", "",
        [*NAMES, Column("runs", "runs", "text"),
         Column("ratio", "ratio of standard deviations", "ratio"), Column("p", "Levene p", "p"),
         Column("moves", "variance")],
        [one.cells(ratio=f"{form} spread") | {
            "runs": runs, "p": one[f"{test} p"] if one[f"{test} p"].reason else one.p(test),
            "moves": SIGN_WORDS[one.spread_moves]}
         for one, runs in found if "U p" in one.numbers],
        stub=2, known=KNOWN,
    )  # fmt: skip
    return [
        Section(
            "comparison",
            f"Means and variances against {quoted(first.base)}: protocol {first.protocol}, "
            f"{tested} comparison{'s' * (tested != 1)}, correction {several}",
            parts=[table for table in (means, variances) if table.rows],
        )
    ]


def _mean(one: RunFinding, runs: str) -> dict[str, Cell]:
    start = one.cells(difference="difference") | {"runs": runs}
    if "U p" not in one.numbers:
        return start
    effect = "" if math.isnan(one.value("Cohen's d")) else one.effect
    moves = "; ".join(filter(None, [SIGN_WORDS[one.moves("mean")], effect]))
    return start | one.cells(effect="Cohen's d") | {"p": one.p("U"), "moves": moves}
