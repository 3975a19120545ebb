"""What the bias command prints: rates by group, Clarify's metrics, the seven of the study."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from scotoma.commands.bias.conclusions import conclude
from scotoma.commands.shared.tables import aside, shown
from scotoma.document.lines import cropped_text, table_lines, wrapped
from scotoma.numbers import FEW_RUNS, FEWEST_RUNS
from scotoma.printable import quoted

DECISIONS = ("fnr", "fpr", "selected")  # what a favourable outcome is about, before the error
NAMES = {"fnr": "FNR", "fpr": "FPR"}
SAID_ONCE = (*FEW_RUNS, "upper bound only", "not computed")  # at the head, not in every row

Row = dict[str, Any]


def format_bias(name: str, measures: dict[str, Any], *, everything: bool) -> Iterator[str]:
    """Format the measures as lines of at most 80 columns, which end with the conclusions.

    Args:
        name: What the table is called.
        measures: From `measure_bias`.
        everything: Print every rate and metric, not only the errors of the groups.
    """
    yield from _head(name, measures)
    yield ""
    rows = _printed(measures, everything)
    yield from _rates(measures, rows)
    if measures["baseline_models"]:
        yield ""
        yield from _changes(rows)
    if everything and measures["clarify"]:
        yield from _metrics(measures)
    yield ""
    for sentence in conclude(measures):
        yield from wrapped(sentence, later="  ")
    if not everything:
        yield ""
        yield "--all prints every rate and metric."


def _metrics(measures: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield from wrapped(
        "The 21 metrics of Clarify: disadvantaged d, advantaged a; distances have upper bounds."
    )
    for (column, d, a), rows in groupby(
        measures["clarify"], lambda row: (row["column"], row["disadvantaged"], row["advantaged"])
    ):
        yield ""
        yield cropped_text(f"{column}: d = {d}, a = {a}")
        yield from _clarify(list(rows))
    yield ""
    what = "of the positive class" if measures["positive"] is not None else "mean over the classes"
    yield from wrapped(
        f"Metrics of the fixed-seed study, {what}: absolute values, so upper bounds only."
    )
    for column, rows in groupby(measures["fairness"], lambda row: row["column"]):
        table = list(rows)
        yield ""
        yield cropped_text(f"{column}: {', '.join(table[0]['groups'])}")
        yield from _fairness(table)
        yield from _signed(table)


def _head(name: str, measures: dict[str, Any]) -> Iterator[str]:
    models, before = measures["models"], measures["baseline_models"]
    parts = [f"{measures['examples']:,} examples"]
    if measures["clusters"] != measures["examples"]:
        parts.append(f"{measures['clusters']:,} clusters")
    parts.append(_models(models) + (f" against {_models(before)}" if before else ""))
    if measures["paired"]:
        parts.append("paired")
    if measures["positive"] is not None:
        parts.append(f"positive {quoted(measures['positive'])}")
    parts.append(f"intervals {100 * measures['level']:g}%")
    yield from wrapped(f"{name}: {', '.join(parts)}")
    if min(models, before or models) < FEWEST_RUNS:
        yield "Few training runs: intervals cover another test set, not another training run."
    else:
        yield "Intervals cover another training run and another test set."


def _models(count: int) -> str:
    return f"{count} model{'' if count == 1 else 's'}"


def _plain(row: Row) -> bool:
    return row["metric"] == "error" and row["class"] is None


def _printed(measures: dict[str, Any], everything: bool) -> list[Row]:
    """The rows that are printed; of decisions FNR, FPR and selection of every group come first."""
    rows: list[Row] = measures["subgroups"]
    if measures["positive"] is None:
        return [row for row in rows if everything or _plain(row)]
    order = (*DECISIONS, "error")
    return sorted(rows, key=lambda row: order.index(row["metric"]))


def _metric(row: Row) -> str:
    metric = str(NAMES.get(row["metric"], row["metric"]))
    return metric if row["class"] is None else f"{metric} of {row['class']}"


def _rates(measures: dict[str, Any], rows: list[Row]) -> list[str]:
    populations = ["baseline", "predicted"] if measures["baseline_models"] else ["predicted"]
    cells = [
        [row["group"], _metric(row), f"{row['predicted'].n:,}"]
        + [shown(row[part], factor=100, digits=2) for part in populations]
        + [aside((row[part] for part in populations), *SAID_ONCE)]
        for row in rows
    ]
    titles = [f"{part} %" for part in populations]
    return table_lines(["group", "rate", "n", *titles], cells, right=2)


def _changes(rows: list[Row]) -> list[str]:
    cells = [
        [
            row["group"],
            _metric(row),
            f"{row['absolute'].n:,}",
            shown(row["absolute"], factor=100, digits=2, sign="+"),
            shown(row["relative"], digits=1, sign="+"),
            aside([row["absolute"], row["relative"]], *SAID_ONCE),
        ]
        for row in rows
    ]
    return table_lines(["group", "rate", "n", "change, points", "relative, %"], cells, right=2)


def _clarify(rows: list[Row]) -> list[str]:
    populations = [part for part in ("baseline", "predicted", "change") if part in rows[-1]]
    cells = []
    for row in rows:
        estimates = [row[part] for part in populations if part in row]
        n = "" if row["lacks"] else f"{estimates[-1].n:,}"
        lacking = f"not computed (no {row['lacks']})" if row["lacks"] else ""
        texts = [
            "" if part not in row or lacking else shown(row[part], sign="+" * (part == "change"))
            for part in populations
        ]
        note = lacking or aside(estimates, *SAID_ONCE)
        if len(populations) == 1:
            cells.append([row["metric"], row["title"], n, *texts, note])
        else:
            cells.append([row["metric"], n, *texts, note])
    if len(populations) == 1:
        return table_lines(["metric", "", "n", "value"], cells, right=2)
    return table_lines(["metric", "n", *populations], cells, right=1)


def _fairness(rows: list[Row]) -> list[str]:
    parts = [part for part in ("baseline", "predicted") if part in rows[0]]
    cells = [
        [
            f"fairness.{row['metric']}",  # Clarify has a DI, too
            f"{row['predicted'].n:,}",
            *(shown(row[part]) for part in parts),
            aside((row[part] for part in parts), *SAID_ONCE),
        ]
        for row in rows
    ]
    return table_lines(["metric", "n", *parts], cells, right=1)


def _signed(rows: list[Row]) -> Iterator[str]:
    """What stands behind absolute differences of two groups, with its sign."""
    signed = [row for row in rows if "predicted_signed" in row]
    if not signed:
        return
    parts = [part for part in ("baseline", "predicted") if f"{part}_signed" in signed[0]]
    cells = [
        [f"fairness.{row['metric']}", f"{row['predicted_signed'].n:,}"]
        + [shown(row[f"{part}_signed"], sign="+") for part in parts]
        + [aside((row[f"{part}_signed"] for part in parts), *SAID_ONCE)]
        for row in signed
    ]
    yield cropped_text(
        f"signed: rate of {signed[0]['groups'][0]} minus that of {signed[0]['groups'][1]}"
    )
    yield from table_lines(["metric", "n", *parts], cells, right=1)
