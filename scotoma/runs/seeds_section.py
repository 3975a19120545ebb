"""How much do seeds alone change? Members, the one-model trap and fairness over training runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from scotoma.audit.findings import Findings
from scotoma.document import Cell, Chart, Column, Interval, Noted, Section, Table, show
from scotoma.runs.comparing import NO_POWER
from scotoma.runs.effects import ALONE, THIS_TEST_SET

FOUR_FIFTHS = 0.2  # of DI, 1 - the ratio of the rates: beyond it the 80% rule is broken
MOST_ROWS = 5  # of the table of fairness on the page
MOST_ATTRIBUTES = 6  # drawn, those whose DI moves most from member to member
NOT_COMPARED = "not compared (fewer than two members a side, or a member without a value)"
VARIANT = Column("variant", "Variant")


def seeds_section(findings: Findings) -> Section | None:
    """What models of other seeds differ by; None without labels and without groups."""
    audit = findings.audit
    if not audit.labelled and not audit.numbers("fairness"):
        return None
    members, trap, fairness = _members(findings), _trap(findings), _fairness(findings)
    several = [row for row in members.rows if row["deviation"] is not None]
    answer = [
        "The same recipe with another seed gives another model. Part of what one pair of models "
        "shows is due to its seeds."
    ]
    if several:
        widest = max(several, key=_spread)
        answer.append(
            f"Members of {widest['variant']} differ by up to "
            f"{show(_spread(widest), 'points').value[1:]} points of accuracy "
            f"({widest['members']} members)."
        )
    answer += _most_often(findings)
    parts: list[Table | Chart] = []
    if several:
        parts.append(
            Chart(
                "members",
                "Top-1 accuracy of every member",
                "Each tick is a member, the diamond their mean.",
                members,
                "members",
            )
        )
    elif members.rows:
        parts.append(members)
    parts += [trap] if trap.rows else []
    if any(row["values"] for row in fairness.rows):
        parts.append(_fairness_chart(fairness))
    return Section(
        "variance",
        "How much seeds alone change",
        answer,
        parts,
        folded=True,
        about="the one-model trap",
        link="Seeds",
    )


def _spread(row: Mapping[str, Cell]) -> float:
    high, low = row["highest"], row["lowest"]
    assert isinstance(high, float)
    assert isinstance(low, float)
    return high - low


def _members(findings: Findings) -> Table:
    audit = findings.audit
    rows: list[dict[str, Cell]] = []
    for variant in audit.variants if audit.labelled else ():
        tops = audit.accuracies(variant.name)
        mean = sum(tops) / len(tops)
        squares = sum((top - mean) ** 2 for top in tops)
        rows.append(
            {
                "variant": variant.name,
                "members": len(tops),
                "mean": mean,
                "deviation": math.sqrt(squares / (len(tops) - 1)) if len(tops) > 1 else None,
                "lowest": min(tops),
                "highest": max(tops),
                "values": _joined([100 * top for top in tops]),
            }
        )
    return Table(
        "members",
        "Top-1 accuracy of the members",
        (
            VARIANT,
            Column("members", "Members", "count"),
            Column("mean", "Mean", "rate"),
            Column("deviation", "Standard deviation", "rate"),
            Column("lowest", "Lowest", "rate"),
            Column("highest", "Highest", "rate"),
        ),
        rows,
        "These members alone: no intervals.",
    )


def _joined(values: Sequence[float | None]) -> str:
    """Numbers as one text: what a chart draws a tick for each of."""
    return " ".join(f"{value:.6g}" for value in values if value is not None)


def _trap(findings: Findings) -> Table:
    """How often a few models a side contradict all of them, a column a number of models."""
    trap = findings.audit.one_model
    drawn = {
        variant.name: {row.members: row for row in trap.variants.get(variant.name, ())}
        for variant in findings.audit.compressed
    }
    sizes = sorted({few for rows in drawn.values() for few in rows})
    rows: list[dict[str, Cell]] = []
    for name, own in drawn.items() if sizes else ():
        cells: dict[str, Cell] = {"variant": name}
        for few in sizes:
            one = own.get(few)
            if one is None or one.wrong is None:
                cells[f"wrong_{few}"] = Interval(None, reason="not drawn (too few members)")
            else:
                cells[f"wrong_{few}"] = Noted(one.wrong, f"of {one.draws:,} draws")
        rows.append(cells)
    return Table(
        "trap",
        "The one-model trap: how often a few models contradict all of them",
        (
            VARIANT,
            *(
                Column(f"wrong_{few}", f"{few} {'model' if few == 1 else 'models'} a side", "rate")
                for few in sizes
            ),
        ),
        rows,
        f"Does the error of some group rise by more than {show(trap.relative, 'rate').value} and "
        f"{show(trap.absolute, 'points').value} points? The share of draws whose answer differs "
        "from that of all models. No interval: the same models appear in many draws.",
    )


def _most_often(findings: Findings) -> Iterator[str]:
    """In which variant one pair of models misleads most often; a sentence."""
    if not findings.audit.labelled:
        return
    first = {
        name: rows[0]
        for name, rows in findings.audit.one_model.variants.items()
        if rows and rows[0].wrong is not None
    }
    if not first:
        yield "There are too few members to show how often one pair of models contradicts all."
        return
    worst = max(first, key=lambda name: first[name].wrong or 0.0)
    yield (
        f"Of {worst}, one dense and one compressed model contradict all models in "
        f"{show(first[worst].wrong, 'rate').value} of {first[worst].draws:,} draws."
    )


def _fairness(findings: Findings) -> Table:
    """Metrics of the fixed-seed study, the variant in focus first."""
    audit = findings.audit
    order = [variant.name for variant in audit.variants]
    names = sorted(order, key=lambda name: name != findings.focus)
    attributes = [*dict.fromkeys(row.fact("attribute") for row in audit.numbers("fairness"))]
    rows: list[dict[str, Cell]] = []
    for name in names:
        for at in audit.at("fairness", name):
            if "mean" not in at:  # of the class that moves most
                continue
            one = at["mean"]
            attribute, several = one.fact("attribute"), len(one.models) > 1
            cells: dict[str, Cell] = {
                "variant": name,
                "attribute": findings.name(str(attribute)),
                "metric": f"fairness.{one.metric}",
                "members": len(one.models),
                "mean": one.number if one.number.value is None else one.number.value,
                "max_diff": at["MaxDiff"].number.value,
                "sigma": at["sigma"].number,
                "values": _joined(one.models) if several else "",
                "place": attributes.index(attribute) * len(order) + order.index(name),
            }
            if "difference" in at:
                cells |= {
                    "difference": at["difference"].number,
                    "d": at["Cohen's d"].number,
                    "p": at["U p, adjusted"].number.value,
                    "ratio": at["raw spread"].number,
                    "p_spread": at["raw Levene p, adjusted"].number.value,
                }
            elif name != audit.dense.name:
                said = one.number.reason
                reason = NOT_COMPARED if said in ("", ALONE) else said
                cells["difference"] = Interval(None, reason=reason)
            rows.append(cells)
    drawn = _most_moved(rows)
    for cells in rows:
        cells["drawn"] = int(cells["attribute"] in drawn)
        cells["rule"] = FOUR_FIFTHS if cells["metric"] == "fairness.DI" else None
    return Table(
        "fairness",
        "Does compression move a fairness metric, or its spread?",
        (
            VARIANT,
            Column("attribute", "Attribute"),
            Column("metric", "Metric"),
            Column("members", "Members", "count"),
            Column("mean", "Mean", "number"),
            Column("max_diff", "MaxDiff", "number"),
            Column("sigma", "Standard deviation", "number"),
            Column("difference", "Change of the mean", "change"),
            Column("d", "Cohen\N{RIGHT SINGLE QUOTATION MARK}s d", "change"),
            Column("p", "p", "p"),
            Column("ratio", "Ratio of spreads", "number"),
            Column("p_spread", "p of spreads", "p"),
        ),
        rows,
        "Fractions; 0 is fair. Tests and intervals are about training runs on these examples, "
        "taken as normal; p is adjusted over the table. With fewer than five members a side the "
        "test of spreads has no power.",
        stub=3,
        known=(
            THIS_TEST_SET,
            NO_POWER,
            f"{THIS_TEST_SET}; takes the runs as normal",
            "takes the runs as normal",
        ),
        most=MOST_ROWS,
    )


def _most_moved(rows: Sequence[Mapping[str, Cell]]) -> list[str]:
    """The attributes whose DI moves most from member to member."""
    moved: dict[str, float] = {}
    for row in rows:
        name, most = str(row["attribute"]), row["max_diff"]
        moved.setdefault(name, 0.0)
        if row["metric"] == "fairness.DI" and isinstance(most, float):
            moved[name] = max(most, moved[name])
    return sorted(moved, key=lambda name: -moved[name])[:MOST_ATTRIBUTES]


def _fairness_chart(table: Table) -> Chart:
    values = [
        (row, [float(one) for one in str(row["values"]).split()])
        for row in table.rows
        if row["values"]
    ]
    widest, own = max(values, key=lambda pair: max(pair[1]) - min(pair[1]))
    di = [one for row, own in values if row["metric"] == "fairness.DI" for one in own]
    beyond = sum(one > FOUR_FIFTHS for one in di)
    rule = f" Dashed: the 80% rule; {beyond} of {len(di)} members and attributes lie beyond it."
    return Chart(
        "fairness",
        "Fairness of models that differ only in their seed",
        f"Each tick is a member, the diamond their mean; 0 is fair. The widest: {widest['metric']} "
        f"of {widest['attribute']} in {widest['variant']}, from {min(own):.3f} to {max(own):.3f} "
        f"over {len(own)} members.{rule if di else ''}",
        table,
        "fairness",
        by="metric",
        first="fairness.DI",
    )
