"""The variance command: runs of several techniques in one long table, their spread and tests."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from scotoma.answers.values import tidy
from scotoma.document import Cell, Column, Document, Section, Table
from scotoma.document.jsonable import jsonable
from scotoma.document.text import document_text
from scotoma.errors import ConfigError, DataError
from scotoma.numbers import undefined
from scotoma.numbers.inputs import StatisticsProtocol
from scotoma.printable import listed, quoted
from scotoma.readers.columns import column, numbers, texts
from scotoma.readers.tables import read_table
from scotoma.runs import THIS_TEST_SET, RunFinding, compare_runs, finding_rows, run_sets, spread
from scotoma.runs.finding import SIGN_WORDS
from scotoma.runs.table import RunSet

__all__ = ["canonical_table", "run_variance", "spread_document"]

NAMES = (Column("technique", "technique"), Column("metric", "metric"))
KNOWN = (THIS_TEST_SET, "takes the runs as normal")  # the page says it once
NOT_COMPARED = "not compared (the base has no runs of this metric)"


def run_variance(
    path: Path,
    base: str | None,
    columns: Mapping[str, str],
    *,
    protocol: str,
    level: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print how far identical runs lie apart, and which techniques differ from the base.

    Args:
        path: CSV or Parquet, one row per run and metric (and class).
        base: The technique that the others are compared with; None compares nothing.
        columns: `technique`, `metric`, `run`, `value`, and `class` where values are of classes, to
            the columns of the table.
        protocol: `sound` or `published`.
        level: Coverage of the intervals, a fraction in (0, 1).
        as_json: Print JSON instead of the tables.
        quiet: Write nothing to stderr.

    Raises:
        ScotomaError: The options or the table do not fit together.
    """
    if protocol not in ("sound", "published"):
        raise ConfigError(
            f"--protocol must be sound or published, got {quoted(protocol)}: choose one"
        )
    base = base and tidy(base)
    frame = canonical_table(read_table(path).frame, columns)
    techniques = frame["technique"].unique(maintain_order=True).to_list()
    if base is not None and base not in techniques:
        raise ConfigError(
            f"--base must be one of the techniques, got {quoted(base)}: choose among "
            f"{listed(techniques)}"
        )
    sets = run_sets(frame)
    spreads = _spreads(sets, level)
    found = _comparisons(sets, base, "published" if protocol == "published" else "sound", level)
    if not quiet and base is None:
        sys.stderr.write("no --base: spreads are shown, nothing is compared\n")
    if as_json:
        rows = finding_rows({"spread": spreads, "comparison": [one for one, _ in found]})
        content = {"protocol": protocol, "level": level, "base": base, "rows": rows.to_dicts()}
        sys.stdout.write(json.dumps(jsonable(content), indent=1, allow_nan=False) + "\n")
    else:
        sys.stdout.write(document_text(spread_document(path.name, spreads, found, level)) + "\n")


def canonical_table(table: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    """Take the columns of a table under the names that `run_sets` reads.

    Args:
        table: The table.
        names: Those names to the table's.

    Raises:
        ConfigError: A column that the table has not.
        DataError: A value that is missing or no number.
    """
    for role, name in names.items():
        column(table, name, f"--{role}")
    keys = {role: texts(table, name).tolist() for role, name in names.items() if role != "value"}
    return pl.DataFrame(keys, schema=dict.fromkeys(keys, pl.String)).with_columns(
        value=pl.Series(numbers(table, names["value"]))
    )


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
    tables = [
        Table(
            "spread", "",
            [*NAMES, Column("runs", "runs", "count"), Column("reach", "max diff", "score"),
             Column("std", "std", "score"), Column("sigma", "sigma", "score")],
            [{"technique": one.technique, "metric": one.metric, "runs": one["sigma"].n,
              "reach": one.value("MaxDiff"), "std": one.value("STDEV"), "sigma": one["sigma"]}
             for one in spreads],
            stub=2, known=KNOWN,
        )
    ]  # fmt: skip
    if classes := [one for one in spreads if one.class_name]:
        tables.append(Table(
            "classes", "",
            [*NAMES, Column("class", "class moving most"), Column("runs", "runs", "count"),
             Column("reach", "max diff", "score"), Column("std", "std", "score")],
            [{"technique": one.technique, "metric": one.metric, "class": one.class_name,
              "runs": one["sigma"].n, "reach": one.value("MaxDiff of class"),
              "std": one.value("STDEV of class")} for one in classes],
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
        [{"technique": one.technique, "metric": one.metric, "runs": runs,
          "ratio": one[f"{form} spread"], "p": one[f"{test} p"] if one[f"{test} p"].reason
          else one.p(test), "moves": SIGN_WORDS[one.spread_moves]}
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
    start: dict[str, Cell] = {"technique": one.technique, "metric": one.metric, "runs": runs}
    start["difference"] = one["difference"]
    if "U p" not in one.numbers:
        return start
    effect = "" if math.isnan(one.value("Cohen's d")) else one.effect
    moves = "; ".join(filter(None, [SIGN_WORDS[one.moves("mean")], effect]))
    return start | {"effect": one["Cohen's d"], "p": one.p("U"), "moves": moves}
