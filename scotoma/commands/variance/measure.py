"""The variance command: runs of several techniques in one long table, their spread and tests."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from scotoma.answers.values import tidy
from scotoma.commands.shared.tables import aside, column, number, numbers, shown, texts
from scotoma.document.lines import cropped_text, table_lines, wrapped
from scotoma.errors import ConfigError, DataError
from scotoma.inputs import StatisticsProtocol
from scotoma.jsonable import jsonable
from scotoma.numbers import Estimate, undefined
from scotoma.printable import listed, quoted
from scotoma.readers.tables import read_table
from scotoma.runs import THIS_TEST_SET, RunFinding, compare_runs, finding_rows, run_sets, spread
from scotoma.runs.finding import SIGN_WORDS
from scotoma.runs.table import RunSet

__all__ = ["canonical_table", "run_variance"]

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
        sys.stdout.write("\n".join(_page(path.name, spreads, found, level)) + "\n")


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


def _page(
    name: str,
    spreads: list[RunFinding],
    found: list[tuple[RunFinding, str]],
    level: float,
) -> Iterator[str]:
    yield cropped_text(f"{name}: spread over identical runs, intervals {100 * level:g}%")
    yield from wrapped(
        "All numbers are about training runs on this test set; sigma assumes normally "
        "distributed runs."
    )
    yield from _table(
        ["technique", "metric", "runs", "max diff", "std", "sigma"], 2,
        [[one.technique, one.metric, str(one["sigma"].n), _four(one["MaxDiff"]),
          _four(one["STDEV"]), shown(one["sigma"], significant=True),
          aside([one["sigma"]], THIS_TEST_SET, "takes the runs")] for one in spreads],
    )  # fmt: skip
    yield from _table(
        ["technique", "metric", "class moving most", "runs", "max diff", "std"], 3,
        [[one.technique, one.metric, one.class_name, str(one["sigma"].n),
          _four(one["MaxDiff of class"]), _four(one["STDEV of class"]), ""]
         for one in spreads if one.class_name],
    )  # fmt: skip
    if not found:
        return
    first, _ = found[0]
    several = "Benjamini-Hochberg" if first.protocol == "sound" else "none"
    tested = sum("U p" in one.numbers for one, _ in found)
    yield ""
    yield from wrapped(
        f"Means and variances against {quoted(first.base)}: protocol {first.protocol}, "
        f"{tested} comparison{'s' * (tested != 1)}, correction {several}"
    )
    yield from _table(
        ["technique", "metric", "runs", "difference", "Cohen's d", "U p", "mean"], 2,
        [_mean(*one) for one in found],
    )  # fmt: skip
    yield from _table(
        ["technique", "metric", "runs", "ratio of standard deviations", "Levene p", "variance"], 2,
        [_variance(*one) for one in found if "U p" in one[0].numbers],
    )  # fmt: skip


def _table(header: list[str], right: int, rows: list[list[str]]) -> list[str]:
    return ["", *table_lines(header, rows, right=right)] if rows else []


def _mean(one: RunFinding, runs: str) -> list[str]:
    start = [one.technique, one.metric, runs]
    if "U p" not in one.numbers:
        return [*start, "", "", "", "", one["difference"].reason]
    effects = [one["difference"], one["Cohen's d"]]
    effect = "" if math.isnan(effects[1].value) else one.effect
    return [
        *start, shown(effects[0], sign="+", significant=True), shown(effects[1], digits=1),
        _p(one.p("U")), SIGN_WORDS[one.moves("mean")],
        "; ".join(filter(None, [effect, aside(effects, THIS_TEST_SET)])),
    ]  # fmt: skip


def _variance(one: RunFinding, runs: str) -> list[str]:
    form = "relative" if one.protocol == "published" else "raw"
    ratio, test = one[f"{form} spread"], f"{form} Levene"
    return [
        one.technique, one.metric, runs, shown(ratio, digits=2), _p(one.p(test)),
        SIGN_WORDS[one.spread_moves], one[f"{test} p"].reason or aside([ratio], THIS_TEST_SET),
    ]  # fmt: skip


def _four(estimate: Estimate) -> str:
    return number(estimate.value, 4, significant=True)


def _p(p: float) -> str:
    if math.isnan(p):
        return "undefined"
    return f"{p:.3f}" if p >= 0.001 else "<0.001"
