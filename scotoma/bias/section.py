"""Who gets the favourable outcome, and who gets no answer? As sections."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from scotoma.audit.base import At, cells_at
from scotoma.audit.findings import Findings
from scotoma.bias.clarify import METRICS
from scotoma.bias.clarify.guide import GUIDE, Concern
from scotoma.bias.four_fifths import STANDINGS, shown_ratio, standing
from scotoma.document import Cell, Column, Facts, Section, Table
from scotoma.document.cells import is_ranged
from scotoma.numbers import FEW_RUNS

BOUND = "upper bound only: a distance is never negative, so no interval around it can hold 0"
MOST_ROWS = 24  # of a table on the page; the CSV file holds all
NUMBERS = ("value", "dense", "compressed", "change")


def clarify_section(findings: Findings) -> Section | None:
    """Who is selected, and every metric by its question; None without pairs of groups."""
    rows = list(_rows(findings))
    if not rows:
        return None
    measured = {row["metric"] for row in rows}
    concerns = [concern for concern in GUIDE if concern.start in measured]
    metrics = _metrics(findings, rows, {concern.start for concern in concerns})
    selection = _selection(findings)
    silent = _silent(rows)
    return Section(
        "clarify",
        "Who gets the favourable outcome",
        [
            "Each metric compares a disadvantaged group d with an advantaged group a. Below, each "
            "question has the metric to start with, and what its sign means.",
            *([silent] if silent else []),
        ],
        [
            *([selection] if selection.rows else []),
            *([metrics] if metrics.most else []),
            Facts([(concern.question, _guide(concern, measured)) for concern in concerns]),
        ],
        folded=True,
        about="the 21 Clarify metrics",
        link="Clarify metrics",
    )


def _guide(concern: Concern, measured: Collection[Cell]) -> str:
    """Which metric to start with, what its sign means, and which others there are."""
    others = [name for name in concern.also if name in measured]
    also = f" Also {', '.join(others)}." if others else ""
    return f"{concern.start} ({METRICS[concern.start].sign}): {concern.why}.{also}"


def _selection(findings: Findings) -> Table:
    """The four-fifths rule, group by group and variant by variant."""
    every = [at for at in findings.audit.at("clarify") if "ratio" in at]
    groups = list(dict.fromkeys(map(_whom, every)))
    every.sort(key=lambda at: groups.index(_whom(at)))
    return Table(
        "selection",
        "The four-fifths rule: who is selected",
        (
            Column("group", "Group"),
            Column("variant", "Variant"),
            Column("n", "n", "count"),
            Column("rate", "Selected", "rate"),
            Column("ratio", "Ratio", "number"),
            Column("standing", "Four fifths"),
        ),
        [
            {
                "attribute": at["ratio"].fact("attribute"),
                "group": findings.name(at["ratio"].group or ""),
                "variant": at["ratio"].variant,
                "n": round(at["examples"].number.value or 0),
                "rate": at["rate"].number,
                "ratio": shown_ratio(at["ratio"].number),
                "standing": STANDINGS[standing(at["ratio"].number)] or "kept",
            }
            for at in every
        ],
        "Ratio: a group\N{RIGHT SINGLE QUOTATION MARK}s selection rate over that of the group "
        "selected most, which its interval treats as chosen beforehand. The rule of thumb asks for "
        "at least 4/5; a ratio below it is not a legal finding. Predictions count, not labels.",
        stub=2,
        most=MOST_ROWS,
    )


def _whom(at: At) -> tuple[str, str | None]:
    return at["ratio"].fact("attribute"), at["ratio"].group


def _metrics(
    findings: Findings, rows: Sequence[Mapping[str, Cell]], starts: Collection[str]
) -> Table:
    """Every metric of every pair of groups; the page shows those to start with."""

    def shown(row: Mapping[str, Cell]) -> bool:
        return row["metric"] in starts and _known(row)

    ranked = sorted(
        rows,
        key=lambda row: (not shown(row), row["of"] != findings.focus and "change" in row),
    )
    of_models = any("change" in row for row in rows if _known(row))
    numbers = (
        Column("dense", "Dense", "number"),
        Column("compressed", "Compressed", "number"),
        Column("change", "Change", "change", drawn=True),
    )
    return Table(
        "clarify",
        "The metric to start with for each question",
        (
            Column("metric", "Metric"),
            Column("disadvantaged", "d"),
            Column("advantaged", "against a"),
            Column("of", "Of"),
            Column("n", "n", "count"),
            Column("value", "Labels", "number"),
            *(numbers if of_models else ()),
        ),
        ranked,
        "Compression does not change the labels. Distances have an upper bound only. All metrics "
        "are in the CSV file.",
        stub=4,
        known=(*FEW_RUNS, BOUND),
        most=min(MOST_ROWS, sum(map(shown, rows))),
    )


def _rows(findings: Findings) -> Iterator[dict[str, Cell]]:
    """Metrics in the order of their questions, of the labels before those of the models."""
    metrics: dict[str, list[dict[str, Cell]]] = {}
    measured = findings.audit.at("clarify")
    for at in sorted(measured, key=lambda at: "labels" not in at):
        row = next(iter(at.values()))
        own = at["labels"] if "labels" in at else at.get("change")
        if own is not None:
            cells: dict[str, Cell] = {
                "metric": row.metric,
                "disadvantaged": findings.name(row.fact("disadvantaged")),
                "advantaged": findings.name(row.fact("advantaged")),
                "of": row.variant or f"{row.fact('split')} labels",
                "n": own.number.n,
            }
            names = {"labels": "value"}
            cells |= {names.get(what, what): one.number for what, one in at.items()}
            metrics.setdefault(str(row.metric), []).append(cells)
    for concern in GUIDE:
        for name in (concern.start, *concern.also):
            yield from metrics.get(name, ())


def _known(row: Mapping[str, Cell]) -> bool:
    return any(getattr(row.get(key), "value", None) is not None for key in NUMBERS)


def _silent(rows: Sequence[Mapping[str, Cell]]) -> str:
    """Which metrics are nowhere estimated, and why; empty where each is somewhere."""
    known = {row["metric"] for row in rows if _known(row)}
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for cell in (row.get(key) for key in NUMBERS):
            if row["metric"] not in known and is_ranged(cell):
                names = reasons.setdefault(getattr(cell, "reason", ""), [])
                names += [] if row["metric"] in names else [str(row["metric"])]
    return " ".join(f"{', '.join(names)}: {reason}." for reason, names in reasons.items())


def unanswered_section(findings: Findings) -> Section | None:
    """Share of each group without an answer; None where everything has one."""
    audit = findings.audit
    ats = audit.at("unanswered")
    if not ats:
        return None
    ats.sort(key=lambda at: at["absolute"].variant != findings.focus)
    counts = "wrong" if audit.labelled else "changed"
    return Section(
        "unanswered",
        "Who gets no answer?",
        [f"An example without an answer counts as {counts}."],
        [
            Table(
                "unanswered",
                f"Share without an answer beside {audit.dense.name}",
                (
                    Column("variant", "Variant"),
                    Column("group", "Group"),
                    Column("n", "n", "count"),
                    Column("dense", "Dense", "rate"),
                    Column("compressed", "Compressed", "rate"),
                    Column("change", "Change, points", "points", drawn=True),
                ),
                [
                    {
                        **cells_at(at),
                        "variant": at["absolute"].variant,
                        "group": findings.name(str(at["absolute"].group)),
                        "n": at["absolute"].number.n,
                        "change": at["absolute"].number,
                    }
                    for at in ats
                ],
                stub=2,
                known=FEW_RUNS,
                most=MOST_ROWS,
            )
        ],
        link="No answer",
    )
