"""What the bias command prints: rates by group, Clarify's metrics, the seven of the study."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from scotoma.commands.tables import aside, quoted, shown
from scotoma.commands.text_table import crop, table_lines
from scotoma.uncertainty import ONE_RUN

SAID_ONCE = (ONE_RUN, "upper bound only", "not computed")  # at the head, not in every row

Row = dict[str, Any]


def format_bias(name: str, found: dict[str, Any]) -> Iterator[str]:
    """Lines of at most 100 columns.

    Args:
        name: What the table is called.
        found: From `measure_bias`.
    """
    yield from _head(name, found)
    yield ""
    yield from _rates(found)
    if found["baseline_models"]:
        yield ""
        yield from _changes(found)
    if not found["clarify"]:
        return
    yield ""
    yield "The 21 metrics of Clarify: disadvantaged d, advantaged a; distances have upper bounds."
    for (column, d, a), rows in groupby(
        found["clarify"], lambda row: (row["column"], row["disadvantaged"], row["advantaged"])
    ):
        yield ""
        yield crop(f"{column}: d = {d}, a = {a}")
        yield from _clarify(list(rows))
    yield ""
    what = "of the positive class" if found["positive"] is not None else "mean over the classes"
    yield f"Metrics of the fixed-seed study, {what}: absolute values, so upper bounds only."
    for column, rows in groupby(found["fairness"], lambda row: row["column"]):
        kept = list(rows)
        yield ""
        yield crop(f"{column}: {', '.join(kept[0]['groups'])}")
        yield from _fairness(kept)
        yield from _signed(kept)


def _head(name: str, found: dict[str, Any]) -> Iterator[str]:
    models, before = found["models"], found["baseline_models"]
    parts = [f"{found['examples']:,} examples"]
    if found["clusters"] != found["examples"]:
        parts.append(f"{found['clusters']:,} clusters")
    parts.append(_models(models) + (f" against {_models(before)}" if before else ""))
    if found["paired"]:
        parts.append("paired")
    if found["positive"] is not None:
        parts.append(f"positive {quoted(found['positive'])}")
    parts.append(f"intervals {100 * found['level']:g}%")
    yield crop(f"{name}: {', '.join(parts)}")
    if models == 1 or before == 1:
        yield "One training run: intervals speak of another test set, not of the next training run."
    else:
        yield "Intervals speak of another training run and another test set."


def _models(count: int) -> str:
    return f"{count} model{'' if count == 1 else 's'}"


def _metric(row: Row) -> str:
    return row["metric"] if row["class"] is None else f"{row['metric']} of {row['class']}"


def _rates(found: dict[str, Any]) -> list[str]:
    populations = ["baseline", "predicted"] if found["baseline_models"] else ["predicted"]
    cells = [
        [row["group"], _metric(row), f"{row['predicted'].n:,}"]
        + [shown(row[part], factor=100, digits=2) for part in populations]
        + [aside((row[part] for part in populations), *SAID_ONCE)]
        for row in found["subgroups"]
    ]
    titles = [f"{part} %" for part in populations]
    return table_lines(["group", "rate", "n", *titles], cells, right=2)


def _changes(found: dict[str, Any]) -> list[str]:
    cells = [
        [
            row["group"],
            _metric(row),
            f"{row['absolute'].n:,}",
            shown(row["absolute"], factor=100, digits=2, sign="+"),
            shown(row["relative"], digits=1, sign="+"),
            aside([row["absolute"], row["relative"]], *SAID_ONCE),
        ]
        for row in found["subgroups"]
    ]
    return table_lines(["group", "rate", "n", "change, points", "relative, %"], cells, right=2)


def _clarify(rows: list[Row]) -> list[str]:
    populations = [part for part in ("baseline", "predicted", "change") if part in rows[-1]]
    cells = []
    for row in rows:
        have = [row[part] for part in populations if part in row]
        n = "" if row["lacks"] else f"{have[-1].n:,}"
        lacking = f"not computed (no {row['lacks']})" if row["lacks"] else ""
        texts = [
            "" if part not in row or lacking else shown(row[part], sign="+" * (part == "change"))
            for part in populations
        ]
        said = lacking or aside(have, *SAID_ONCE)
        if len(populations) == 1:
            cells.append([row["metric"], row["title"], n, *texts, said])
        else:
            cells.append([row["metric"], n, *texts, said])
    if len(populations) == 1:
        return table_lines(["metric", "", "n", "value"], cells, right=2)
    return table_lines(["metric", "n", *populations], cells, right=1)


def _fairness(rows: list[Row]) -> list[str]:
    parts = [part for part in ("baseline", "predicted") if part in rows[0]]
    cells = [
        [
            row["metric"],
            f"{row['predicted'].n:,}",
            *(shown(row[part]) for part in parts),
            aside((row[part] for part in parts), *SAID_ONCE),
        ]
        for row in rows
    ]
    return table_lines(["metric", "n", *parts], cells, right=1)


def _signed(rows: list[Row]) -> Iterator[str]:
    """What stands behind absolute differences of two groups, with its sign."""
    kept = [row for row in rows if "predicted_signed" in row]
    if not kept:
        return
    parts = [part for part in ("baseline", "predicted") if f"{part}_signed" in kept[0]]
    cells = [
        [row["metric"], f"{row['predicted_signed'].n:,}"]
        + [shown(row[f"{part}_signed"], sign="+") for part in parts]
        + [aside((row[f"{part}_signed"] for part in parts), *SAID_ONCE)]
        for row in kept
    ]
    yield crop(f"signed: rate of {kept[0]['groups'][0]} minus that of {kept[0]['groups'][1]}")
    yield from table_lines(["metric", "n", *parts], cells, right=1)
