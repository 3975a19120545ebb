"""Who is affected? The rates of every group before and after compression, as a section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scotoma.audit import Audit
from scotoma.audit.base import At, Row, cells_at
from scotoma.audit.findings import Findings
from scotoma.document import Cell, Chart, Column, Noted, Section, Table, show
from scotoma.document.parts import Part
from scotoma.impact.worst_change import (
    affected_words,
    gap_words,
    highest_error,
    most_changed,
    shown_gaps,
    worst_change,
)
from scotoma.numbers import FEW_RUNS

DRAWN = 24  # groups drawn, those whose change lies highest
MOST_ROWS = 24  # on the page; the CSV file has all
GAPS = 1  # gaps named in the answer
CHANGE = (
    Column("n", "n", "count"),
    Column("dense", "Dense", "rate"),
    Column("compressed", "Compressed", "rate"),
    Column("change", "Change, points", "points", drawn=True),
    Column("relative", "Change, relative", "percent"),
)


def groups_section(findings: Findings) -> Section | None:
    """The rates of every group, drawn and as a table; None without labels."""
    audit = findings.audit
    if not audit.labelled:
        return None
    answer = whom(findings)
    if len(audit.groups) == 1:
        answer = [*answer, "The configuration names no groups, so all examples stand together."]
    by_class = class_rates_table(findings)
    chart = _chart(findings)
    parts: list[Part] = [
        *([chart] if chart.table.rows else []),
        *([by_class] if by_class.rows else []),
    ]
    return Section("groups", f"Who is affected by {findings.focus}?", answer, parts, link="Who")


def whom(findings: Findings) -> list[str]:
    """Name the highest error, the most affected group and the surest gap.

    Without labels it names the group whose predictions change most.
    """
    audit, variant = findings.audit, findings.focus
    if not audit.labelled:
        return [_whose_labels(audit, variant)]
    sentences = []
    if highest := highest_error(audit, variant):
        rate = highest["compressed"].number
        sentences.append(
            f"Highest error after compression: {findings.name(str(highest['compressed'].group))}, "
            f"{show(rate, 'rate').number}, n {show(rate.n).value}."
        )
    if worst := worst_change(audit, variant):
        rise = worst["absolute"].number
        sentences.append(
            f"Most affected: {affected_words(audit, worst)}, "
            f"{show(rise, 'points').number} points, n {show(rise.n).value}."
        )
    words = [gap_words(audit, gap) for gap in shown_gaps(audit, variant)]
    more = f", and {len(words) - GAPS:,} more gaps are shown" if len(words) > GAPS else ""
    sentences += [f"{text[:1].upper()}{text[1:]}{more}." for text in words[:GAPS]]
    if not sentences:
        return ["No group's rise can be estimated; the table gives the reasons."]
    judged = findings.gate and next(v for v in findings.gate.variants if v.name == variant)
    if judged and all(test.verdict != "FAIL" for test in judged.tests):
        sentences[0] = f"No harm beyond a margin is shown. {sentences[0]}"
    return sentences


def _whose_labels(audit: Audit, variant: str) -> str:
    """Name the group that changes most, and what that says of its error."""
    row = most_changed(audit, variant)
    changed, name = row.number, audit.group_names[str(row.group)]
    high = changed.high
    most = "" if high is None else (
        f", so that its error rises by at most {show(float(high), 'rate').value}"
    )  # fmt: skip
    return (
        f"{name}: {show(changed, 'rate').number} of its predictions change{most}. Whether for "
        "better or worse only labels can tell."
    )


def _chart(findings: Findings) -> Chart:
    audit = findings.audit
    changes = audit.numbers("rates", what="absolute", class_name=None)
    names = list(dict.fromkeys(str(row.variant) for row in changes))
    names.sort(key=lambda name: name != findings.focus)
    kept = _highest(audit, changes)
    metrics = list(dict.fromkeys(str(row.metric) for row in changes))
    rows = [
        row
        for name in names
        for metric in metrics
        for row in _rows(findings, name, metric, kept, several=len(metrics) > 1)
    ]
    drawn = f" Drawn: {len(kept)} of {len(audit.groups)} groups, those that change most."
    positive = audit.examples.positive
    aside = ["Share of wrong predictions." if len(metrics) == 1 else "Shares."]
    if positive is not None:
        aside.append(
            f"False positives are other examples that are called {positive}; false negatives are "
            f"{positive} called otherwise; n counts the examples at risk."
        )
    aside.append("Last: how much more it rises than in the reference group, which is named.")
    table = Table(
        "groups",
        "Rates of each group, dense and compressed",
        (
            Column("variant", "Variant"),
            Column("group", "Group"),
            *([Column("rate", "Rate")] if len(metrics) > 1 else []),
            *CHANGE,
            *(
                [Column("beyond", "Beyond its reference, points", "points")]
                if audit.labelled
                else []
            ),
        ),
        rows,
        " ".join(aside),
        stub=2,
        known=FEW_RUNS,
        most=min(MOST_ROWS, len(audit.groups) * len(metrics)),
    )
    return Chart(
        "rates",
        "Rates of each group before and after compression",
        f"Rings: dense; diamonds: compressed; lines: {100 * audit.level:g}% intervals; right: the "
        "change in points." + drawn * (len(kept) < len(audit.groups)),
        table,
        "rates",
        by="choice",
    )


def _rows(
    findings: Findings, variant: str, metric: str, kept: set[str], *, several: bool
) -> Iterator[dict[str, Cell]]:
    gaps = {
        (gap["gap"].metric, gap["gap"].fact("group_b")): gap
        for gap in findings.audit.at("gaps", variant)
    }
    name = _metric(findings.audit, metric)
    for at in findings.audit.at("rates", variant, metric=metric, class_name=None):
        group = str(at["absolute"].group)
        yield {
            "variant": variant,
            "group": findings.name(group),
            "rate": name,
            **_change(at),
            "beyond": _beyond(findings, gaps.get((metric, group))),
            "choice": f"{variant}: {name}" if several else variant,
            "drawn": group in kept,
        }


def _metric(audit: Audit, metric: str) -> str:
    """What a rate is called; with a positive class by who is called what.

    Args:
        audit: The audit.
        metric: `error`, `fpr` or `fnr`.
    """
    positive = audit.examples.positive
    if metric == "error" or positive is None:
        return {"error": "error", "fpr": "false positives", "fnr": "false negatives"}[metric]
    others = [name for name in audit.examples.classes if name != positive]
    other = others[0] if len(others) == 1 else "others"
    return f"{other} called {positive}" if metric == "fpr" else f"{positive} called {other}"


def _change(at: At) -> dict[str, Cell]:
    rise = at["absolute"].number
    return {**cells_at(at), "n": rise.n, "change": rise}


def _beyond(findings: Findings, gap: At | None) -> Cell:
    """How much more the rate rises than in the reference group, which is named."""
    if gap is None:
        return None
    row, adjusted = gap["gap"], gap["p_adjusted"].number.value
    few = "; too few to show harm" * (row.number.value is not None and adjusted is None)
    return Noted(row.number, f"than {findings.name(row.fact('group_a'))}{few}")


def _highest(audit: Audit, changes: Sequence[Row]) -> set[str]:
    """Keys of everyone and of the groups whose change lies highest in any variant."""
    keys = [group.key for group in audit.groups]
    highest = dict.fromkeys(keys, float("-inf"))
    for row in changes:
        if row.number.low is not None:
            highest[str(row.group)] = max(highest[str(row.group)], row.number.low)
    return {keys[0], *sorted(keys[1:], key=lambda key: -highest[key])[: DRAWN - 1]}


def class_rates_table(findings: Findings) -> Table:
    """False positives and false negatives of each class against the rest, for the CSV file."""
    audit = findings.audit
    return Table(
        "class_rates",
        "False positives and false negatives of each class against the rest, by group",
        (
            Column("variant", "Variant"),
            Column("class", "Class"),
            Column("rate", "Rate"),
            Column("group", "Group"),
            *CHANGE,
        ),
        [
            {
                "variant": at["absolute"].variant,
                "class": at["absolute"].class_name,
                "rate": at["absolute"].metric,
                "group": findings.name(str(at["absolute"].group)),
                **_change(at),
            }
            for at in audit.at("rates")
            if at["absolute"].class_name is not None
        ],
        stub=4,
        most=0,
    )
