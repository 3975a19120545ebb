"""What the bias command shows: rates by group, Clarify's metrics, the seven of the study."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from scotoma.document import Column, Document, Section, Table, Unit, show
from scotoma.numbers import FEW_EVENTS, FEW_RUNS, FEWEST_RUNS, Estimate
from scotoma.printable import quoted

DECISIONS = ("fnr", "fpr", "selected")  # what a favourable outcome is about, before the error
NAMES = {"fnr": "FNR", "fpr": "FPR"}
SAID_ONCE = (*FEW_RUNS, "upper bound only", "not computed")  # at the head, not in every row
N = Column("n", "n", "count")

Row = dict[str, Any]


def bias_document(name: str, measures: dict[str, Any], *, everything: bool) -> Document:
    """Lay out the measures; the document ends with the conclusions.

    Args:
        name: What the table is called.
        measures: From `measure_bias`.
        everything: Show every rate and metric, not only the errors of the groups.
    """
    rows = _chosen(measures, everything)
    sections = [Section("rates", "", parts=[_rates(measures, rows)])]
    if measures["baseline_models"]:
        sections.append(Section("changes", "", parts=[_changes(rows)]))
    if everything and measures["clarify"]:
        sections += _metrics(measures)
    sections.append(Section("conclusions", "", conclude(measures)))
    if not everything:
        sections.append(Section("more", "", ["--all prints every rate and metric."]))
    return Document(*_head(name, measures), sections)


def _metrics(measures: dict[str, Any]) -> Iterator[Section]:
    from scotoma.bias.clarify import METRICS

    pairs = groupby(
        measures["clarify"], lambda row: (row["column"], row["disadvantaged"], row["advantaged"])
    )
    yield Section(
        "clarify",
        f"The {len(METRICS)} metrics of Clarify: disadvantaged d, advantaged a; distances have "
        "upper bounds.",
        parts=[_clarify(*pair, list(rows)) for pair, rows in pairs],
    )
    what = "of the positive class" if measures["positive"] is not None else "mean over the classes"
    columns = groupby(measures["fairness"], lambda row: row["column"])
    yield Section(
        "fairness",
        f"Metrics of the fixed-seed study, {what}: absolute values, so upper bounds only.",
        parts=[table for column, rows in columns for table in _fairness(column, list(rows))],
    )


def _head(name: str, measures: dict[str, Any]) -> tuple[str, str]:
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
    few = min(models, before or models) < FEWEST_RUNS
    return f"{name}: {', '.join(parts)}", (
        "Few training runs: intervals cover another test set, not another training run."
        if few
        else "Intervals cover another training run and another test set."
    )


def _models(count: int) -> str:
    return f"{count} model{'' if count == 1 else 's'}"


def _chosen(measures: dict[str, Any], everything: bool) -> list[Row]:
    """The rows that are shown; of decisions FNR, FPR and selection of every group come first."""
    rows: list[Row] = measures["subgroups"]
    if measures["positive"] is None:
        plain = [row for row in rows if row["metric"] == "error" and row["class"] is None]
        return rows if everything else plain
    order = (*DECISIONS, "error")
    return sorted(rows, key=lambda row: order.index(row["metric"]))


def _named(row: Row, of: str) -> Row:
    metric = str(NAMES.get(row["metric"], row["metric"]))
    metric += "" if row["class"] is None else f" of {row['class']}"
    return row | {"rate": metric, "n": row[of].n}


def _populations(rows: Sequence[Row], unit: Unit, end: str = "") -> list[Column]:
    parts = [part for part in ("baseline", "predicted") if f"{part}{end}" in rows[-1]]
    return [Column(f"{part}{end}", part, unit) for part in parts]


def _rates(measures: dict[str, Any], rows: list[Row]) -> Table:
    columns = [Column("group", "group"), Column("rate", "rate"), N, *_populations(rows, "rate")]
    named = [_named(row, "predicted") for row in rows]
    return Table("rates", "", columns, named, stub=2, known=SAID_ONCE)


def _changes(rows: list[Row]) -> Table:
    columns = (
        Column("group", "group"),
        Column("rate", "rate"),
        N,
        Column("absolute", "change, points", "points"),
        Column("relative", "relative", "percent"),
    )
    named = [_named(row, "absolute") for row in rows]
    return Table("changes", "", columns, named, stub=2, known=SAID_ONCE)


def _clarify(column: str, d: str, a: str, rows: list[Row]) -> Table:
    columns = _populations(rows, "number")
    if "change" in rows[-1]:
        columns.append(Column("change", "change", "change"))
    last = columns[-1].key
    shown = [
        {"metric": row["metric"], "title": row["title"]}
        | (
            {"why": f"not computed (no {row['lacks']})"}
            if row["lacks"]
            else row | {"n": (row.get(last) or row["predicted"]).n}
        )
        for row in rows
    ]
    titles = [Column("title", "")] if len(columns) == 1 else []
    return Table(
        f"clarify-{column}-{d}-{a}",
        f"{column}: d = {d}, a = {a}",
        [Column("metric", "metric"), *titles, N, *columns, Column("why", "")],
        shown,
        stub=1 + len(titles),
        known=SAID_ONCE,
    )


def _fairness(column: str, rows: list[Row]) -> Iterator[Table]:
    """The metrics of a column, and what stands behind absolute differences of two groups."""
    head = [Column("name", "metric"), N]
    named = [row | {"name": f"fairness.{row['metric']}"} for row in rows]  # Clarify has a DI, too
    yield Table(
        f"fairness-{column}",
        f"{column}: {', '.join(rows[0]['groups'])}",
        [*head, *_populations(rows, "number")],
        [row | {"n": row["predicted"].n} for row in named],
        known=SAID_ONCE,
    )
    if signed := [row for row in named if "predicted_signed" in row]:
        first, second = rows[0]["groups"]
        yield Table(
            f"signed-{column}",
            f"signed: rate of {first} minus that of {second}",
            [*head, *_populations(signed, "change", "_signed")],
            [row | {"n": row["predicted_signed"].n} for row in signed],
            known=SAID_ONCE,
        )


# Metrics of one worry each, and the side of fairness on which d is worse off.
WORSE_FOR_D = {
    "DPPL": 1, "DI": -1, "RD": 1, "DAR": 1, "DRR": -1, "CDDPL": 1, "FT": 1,
}  # fmt: skip
NAMED = 4  # groups listed in a sentence


def conclude(measures: dict[str, Any]) -> list[str]:
    """Say in at most six sentences what the tables show; of decisions who is selected first.

    Args:
        measures: From `measure_bias`.
    """
    rates = [row for row in measures["subgroups"] if _plain(row) and _known(row["predicted"])]
    sentences = list(_decisions(measures["subgroups"]))
    if len(rates) < 2:
        return [
            *sentences, "No group has an error rate with an interval: name a column with --group.",
        ]  # fmt: skip
    everyone, *groups = rates
    worst = max(groups, key=lambda row: row["predicted"].low)
    percent = f"{100 * measures['level']:g}%"
    sentences += [
        f"{worst['group']} is worst off: {_rate(worst['predicted'])}, n "
        f"{worst['predicted'].n:,}; all examples: {_rate(everyone['predicted'])}."
    ]
    pair = _pair(measures["clarify"], worst["group"])
    sentences += _gap(pair, percent, len(groups))
    if measures["baseline_models"]:
        sentences.append(_rise(groups))
    sentences += _otherwise(pair)
    few = [row["group"] for row in groups if FEW_EVENTS in row["predicted"].note]
    if few:
        more = f" and {len(few) - NAMED} more" if len(few) > NAMED else ""
        sentences.append(f"Fewer than 10 errors, take as a hint: {', '.join(few[:NAMED])}{more}.")
    return sentences


def _decisions(rows: Sequence[Row]) -> Iterator[str]:
    """Say which group is refused, admitted and selected wrongly or seldom; nothing elsewhere."""
    words = {
        "fnr": "FNR is highest for",
        "fpr": "FPR for",
        "selected": "the selection rate is lowest for",
    }
    if not any(row["metric"] == "selected" for row in rows):
        return
    parts = []
    for metric, what in words.items():
        groups = [row for row in rows if row["metric"] == metric and _known(row["predicted"])][1:]
        if not groups:
            continue
        extreme = min if metric == "selected" else max
        row = extreme(groups, key=lambda one: one["predicted"].value)
        one = row["predicted"]
        parts.append(f"{what} {row['group']}, {show(one, 'rate').number}, n {one.n:,}")
    if parts:
        yield f"{'; '.join(parts)}."


def _plain(row: Row) -> bool:
    return row["metric"] == "error" and row["class"] is None


def _known(estimate: Estimate) -> bool:
    return not any(map(math.isnan, (estimate.value, estimate.low, estimate.high)))


def _rate(estimate: Estimate) -> str:
    return f"error {show(estimate, 'rate').number}"


def _points(change: Estimate) -> str:
    shown = show(change, "points")
    return f"{shown.value} points [{shown.low}, {shown.high}]"


def _pair(clarify: Sequence[Row], group: str) -> dict[str, Row]:
    """Metrics by name of the pair whose disadvantaged facet is the group."""
    return {
        row["metric"]: row
        for row in clarify
        if f"{row['column']}={row['disadvantaged']}" == group and not row["lacks"]
    }


def _gap(pair: dict[str, Row], percent: str, groups: int) -> Iterator[str]:
    if "AD" not in pair or not _known(pair["AD"]["predicted"]):
        return
    gap, against = pair["AD"]["predicted"], pair["AD"]["advantaged"]
    sure = (
        f"shown at {percent}, not adjusted for choosing among {groups} groups"
        if gap.low > 0
        else f"not shown at {percent}, the interval includes 0"
    )
    yield (f"Its error is {_points(gap)} above that of {against} (AD, n {gap.n:,}): {sure}.")


def _rise(groups: Sequence[Row]) -> str:
    known = [row for row in groups if _known(row["absolute"])]
    if not known:
        return "No group's change against the baseline can be estimated."
    row = max(known, key=lambda row: row["absolute"].low)
    change = row["absolute"]
    shown = "" if change.low > 0 else "; a rise is not shown"
    return (
        f"Against the baseline, error rises most surely for {row['group']}: {_points(change)}"
        f", n {change.n:,}{shown}."
    )


def _otherwise(pair: dict[str, Row]) -> Iterator[str]:
    """Name the metric that surest sees the same group better off, and the question it answers."""
    from scotoma.bias.clarify import METRICS

    asked = 0
    contrary: list[tuple[float, str, Estimate]] = []
    for name, side in WORSE_FOR_D.items():
        if name not in pair or not _known(pair[name]["predicted"]):
            continue
        asked += 1
        one, neutral = pair[name]["predicted"], METRICS[name].neutral
        nearest = (neutral - one.high) if side > 0 else (one.low - neutral)
        if nearest > 0:
            contrary.append((nearest, name, one))
    if not asked:
        return
    if not contrary:
        yield f"None of {asked} metrics of outcomes shows the contrary."
        return
    _, name, one = max(contrary)
    metric = METRICS[name]
    yield (
        f"{name} says otherwise, {show(one, 'number').number}, since it asks: {metric.question} "
        f"({metric.sign})"
    )
