"""What does a table of predictions show: who is worse off, by how much, what disagrees?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from scotoma.document import show
from scotoma.numbers import FEW_EVENTS, Estimate

# Metrics of one worry each, and the side of fairness on which d is worse off.
WORSE_FOR_D = {
    "DPPL": 1, "DI": -1, "RD": 1, "DAR": 1, "DRR": -1, "CDDPL": 1, "FT": 1,
}  # fmt: skip
NAMED = 4  # groups listed in a sentence

Row = dict[str, Any]


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
