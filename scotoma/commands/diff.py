"""The diff command: what got better, worse, or cannot be told apart between two audits."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scotoma.bias import amplification
from scotoma.commands.examples import open_run
from scotoma.commands.tables import lines, shown
from scotoma.datasets import Examples
from scotoma.errors import DataError
from scotoma.jsonable import jsonable
from scotoma.predictions import Predictions
from scotoma.printable import printable
from scotoma.runs import Run
from scotoma.uncertainty import Estimate, holm

__all__ = ["Difference", "compare_runs", "run_diff"]

ALPHA = 0.05
WORDS = {"error": "error", "fpr": "FPR", "fnr": "FNR"}


@dataclass(frozen=True)
class Difference:
    """One rate of one variant in two audits.

    Attributes:
        variant: The variant.
        metric: `error`, `fpr` or `fnr`.
        group: Name of the group.
        before: The rate in the first run, a fraction.
        after: The rate in the second run, a fraction.
        change: after - before, on the examples that both have, with its pointwise interval.
        p: Two-sided p-value of no change; nan where there is none.
        p_adjusted: The same, adjusted by Holm over the whole table.
        verdict: `better`, `worse` or `undecided`.
    """

    variant: str
    metric: str
    group: str
    before: Estimate
    after: Estimate
    change: Estimate
    p: float
    p_adjusted: float = np.nan
    verdict: str = "undecided"


def run_diff(first: str, second: str, *, as_json: bool, quiet: bool) -> None:
    """Print what changed from one audit to another.

    Args:
        first: Folder of the earlier run, or its `s3://BUCKET/PREFIX`.
        second: That of the later one.
        as_json: Print JSON instead of the tables.
        quiet: No messages.

    Raises:
        ScotomaError: A run is not one, or they share no example, class or variant.
    """
    runs = open_run(first), open_run(second)
    rows, facts = compare_runs(*runs)
    if as_json:
        found = {"version": 1, "runs": [first, second], **facts, "rows": rows}
        sys.stdout.write(json.dumps(jsonable(found), indent=1, ensure_ascii=False) + "\n")
        return
    sys.stdout.write("\n".join(_page(rows, facts)) + "\n")
    if not quiet:
        for note in facts["notes"]:
            sys.stderr.write(f"note    {printable(note)}\n")


def compare_runs(first: Run, second: Run) -> tuple[list[Difference], dict[str, Any]]:
    """Every rate of every variant that two audits share, on the examples that both have.

    Both populations are asked the same examples, so that the change is tested as that between a
    dense and a compressed population is: over examples and training runs, crossed. Members of two
    audits are taken as independent. One family over the table: Holm.

    Args:
        first: The earlier audit, finished.
        second: The later one.

    Returns:
        Rows, variants in the order of the first run; and what both share: `examples`, `classes`,
        `level`, `alpha`, `notes`.

    Raises:
        DataError: They share no example or no variant, or disagree on labels or classes.
    """
    tests = [_test(run) for run in (first, second)]
    ids, places = _shared(tests)
    kept = [
        Examples(
            test.table[rows], test.classes, test.attributes, test.intersections
        )
        for test, rows in zip(tests, places, strict=True)
    ]  # fmt: skip
    if kept[0].table["label"].to_list() != kept[1].table["label"].to_list():
        raise DataError(
            "both runs must label their shared examples alike, got different labels; audit both on "
            "one table of examples"
        )
    if kept[0].classes != kept[1].classes:
        raise DataError(
            "both runs must have the same classes, got "
            f"{len(kept[0].classes)} and {len(kept[1].classes)} that differ; audit both on one "
            "table of examples"
        )
    names = [v.name for v in first.config.resolved_variants]
    common = [n for n in names if n in [v.name for v in second.config.resolved_variants]]
    notes = _notes(tests, ids, names, common, second)
    rows = [
        row
        for name in common
        for row in _changes(name, kept[0], (first, second), places, first.config.label.positive)
    ]
    return _judged(rows), {
        "examples": len(ids), "classes": kept[0].classes, "level": 0.95, "alpha": ALPHA,
        "notes": notes,
    }  # fmt: skip


def _test(run: Run) -> Examples:
    run.fetch(run.examples)
    if not run.examples.exists():
        raise DataError(f"{run.place} has no examples.parquet; let scotoma audit end first")
    return Examples.read(run.examples, images=False, split="test")


def _shared(tests: list[Examples]) -> tuple[list[str], list[list[int]]]:
    """Ids that both have, in the order of the first, and their rows in each."""
    where = [{example: row for row, example in enumerate(test.ids)} for test in tests]
    ids = [example for example in tests[0].ids if example in where[1]]
    if not ids:
        raise DataError(
            f"both runs must have test examples in common, got none (such as {tests[0].ids[0]!r} "
            f"and {tests[1].ids[0]!r}); audit both on one table of examples"
        )
    return ids, [[rows[example] for example in ids] for rows in where]


def _notes(
    tests: list[Examples], ids: list[str], names: list[str], common: list[str], second: Run
) -> list[str]:
    notes = []
    if lost := sum(len(test.ids) - len(ids) for test in tests):
        notes.append(f"{lost:,} test examples are in one run only and were left out")
    others = {v.name for v in second.config.resolved_variants} ^ set(names)
    if others:
        notes.append(f"in one run only: {', '.join(sorted(others))}")
    if tests[0].attributes != tests[1].attributes:
        notes.append("groups are those of the first run")
    return notes


def _changes(
    name: str,
    test: Examples,
    runs: tuple[Run, Run],
    places: list[list[int]],
    positive: str | int | None,
) -> Iterator[Difference]:
    said = []
    for run, rows in zip(runs, places, strict=True):
        run.fetch(run.predictions(name))
        said.append(Predictions.read(run.predictions(name)).predicted[rows])
    groups = test.partition()
    found = amplification(
        test.labels, said[0], said[1], groups.masks, groups.names,
        positive=None if positive is None else test.classes.index(str(positive)),
        n_classes=len(test.classes), clusters=test.clusters,
    )  # fmt: skip
    for row in found:
        if row.class_id is None or positive is not None:
            change = row.absolute
            p = min(1.0, 2 * min(change.p_above(0.0), change.p_below(0.0)))
            yield Difference(
                name, row.metric, row.group, row.dense, row.compressed, change,
                np.nan if np.isnan(change.low) else p,
            )  # fmt: skip


def _judged(rows: list[Difference]) -> list[Difference]:
    from dataclasses import replace

    adjusted = holm(np.array([row.p for row in rows]))
    found = []
    for row, p in zip(rows, adjusted, strict=True):
        decided = p <= ALPHA  # nan compares false
        word = ("worse" if row.change.value > 0 else "better") if decided else "undecided"
        found.append(replace(row, p_adjusted=float(p), verdict=word))
    return found


def _page(rows: list[Difference], facts: dict[str, Any]) -> list[str]:
    level = f"{100 * facts['level']:g}%"
    page = [f"{facts['examples']:,} test examples in both runs; rates in %, changes in points"]
    for word in ("worse", "better"):
        mine = [row for row in rows if row.verdict == word]
        page += ["", f"{word}: {len(mine)} of {len(rows)} rates (Holm, {facts['alpha']:g})"]
        if mine:
            header = ("variant", "where", "before", "after", f"change [{level}]", "")
            page += lines(header, [_cells(row) for row in mine], right=2)
    undecided = [row for row in rows if row.verdict == "undecided"]
    page += ["", f"undecided: {len(undecided)}; the widest change that cannot be excluded:"]
    known = [row for row in undecided if not np.isnan(row.change.high)]
    widest = sorted(known, key=lambda row: -row.change.high)[:5]
    header = ("variant", "where", "before", "after", f"change [{level}]", "")
    return [*page, *(lines(header, [_cells(row) for row in widest], right=2) if widest else [])]


def _cells(row: Difference) -> tuple[str, ...]:
    where = f"{WORDS[row.metric]} {row.group}"
    return (
        row.variant,
        where,
        f"{100 * row.before.value:.2f}",
        f"{100 * row.after.value:.2f}",
        shown(row.change, factor=100, digits=2, sign="+"),
        "",
    )
