"""What do two audits say beside each other? Which verdicts and which rates changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scotoma.audit import Audit, GateResult
from scotoma.document import Cell, Column, Document, Section, Table, show
from scotoma.numbers import FEW_RUNS, Estimate, few_runs
from scotoma.verdict.section import variant_cells, variant_columns

__all__ = ["Difference", "changed_verdicts", "diff_document", "sides_section"]

WORDS = {"error": "error", "fpr": "FPR", "fnr": "FNR", "cie_share_excess": "CIE excess"}
CAPTIONS = {
    "worse": "Worse",
    "better": "Better",
    "undecided": "Undecided, the widest change that cannot be excluded first",
}
MOST_UNDECIDED = 5  # rows shown


@dataclass(frozen=True)
class Difference:
    """One rate of one variant in two audits.

    Attributes:
        variant: The variant.
        metric: `error`, `fpr` or `fnr`; without shared examples `cie_share_excess` too.
        group: Name of the group.
        before: The rate in the first run, a fraction.
        after: The rate in the second run, a fraction.
        change: after - before, with its pointwise interval.
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
    p_adjusted: float
    verdict: str


def changed_verdicts(
    first: GateResult | None, second: GateResult | None, renamed: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """Name the variants whose verdict is another one, with the earlier and the later word.

    Args:
        first: The verdict on the earlier audit; None where nobody judged it.
        second: That on the later one.
        renamed: Variants of the earlier audit to what the later one calls them.
    """
    if first is None or second is None:
        return []
    later = {variant.name: variant.verdict for variant in second.variants}
    return [
        (_both(variant.name, renamed), variant.verdict, later[name])
        for variant in first.variants
        if later.get(name := renamed.get(variant.name, variant.name), variant.verdict)
        != variant.verdict
    ]


def diff_document(
    titles: tuple[str, str],
    turned: Sequence[tuple[str, str, str]],
    rows: Sequence[Difference],
    shared: int,
    notes: Sequence[str],
    alpha: float,
    sides: Section | None = None,
) -> Document:
    """Make the document of two audits.

    Args:
        titles: What they are called.
        turned: From `changed_verdicts`.
        rows: Every rate that was compared.
        shared: Test examples that both have.
        notes: What to read with the rows.
        alpha: Level of the tests, adjusted by Holm over all rows.
        sides: From `sides_section`, for a page; None leaves it out.
    """
    lead = f"Rates are compared on {show(shared, 'count').value} test examples that both hold."
    if not shared:
        lead = "No test example is in both: each rate is measured on its own test set."
    many = "verdict" if len(turned) == 1 else "verdicts"
    verdicts = Section(
        "verdicts",
        f"{len(turned) or 'No'} {many} changed",
        [f"{name}: {before} became {after}." for name, before, after in turned],
        link="Verdicts",
    )
    rates = Section(
        "rates", "Rates that changed",
        [f"{_counted(rows)} of {show(len(rows), 'count').value} rates, tested together (Holm, "
         f"{alpha:g})."],
        [table for word in CAPTIONS if (table := _rates(word, rows)).rows],
        warnings=[f"{note[:1].upper()}{note[1:]}." for note in notes],
        link="Rates",
    )  # fmt: skip
    sections = [verdicts, *([sides] if sides else []), rates]
    return Document(
        f"{titles[0]} and {titles[1]}", lead, sections, kind="Scotoma, two audits side by side"
    )


def _counted(rows: Sequence[Difference]) -> str:
    counts = Counter(row.verdict for row in rows)
    return ", ".join(f"{show(counts[word], 'count').value} {word}" for word in CAPTIONS)


def _rates(word: str, rows: Sequence[Difference]) -> Table:
    judged = [row for row in rows if row.verdict == word]
    if word == "undecided":
        judged.sort(key=lambda row: -math.inf if math.isnan(row.change.high) else row.change.high,
                    reverse=True)  # fmt: skip
    cells: list[dict[str, Cell]] = [
        {
            "variant": row.variant, "rate": WORDS[row.metric], "group": row.group,
            "before": row.before.value, "after": row.after.value, "change": row.change,
            "n": row.change.n,
        }
        for row in judged
    ]  # fmt: skip
    return Table(
        word,
        CAPTIONS[word],
        [
            Column("variant", "Variant"), Column("rate", "Rate"), Column("group", "Group"),
            Column("before", "First", "rate"), Column("after", "Second", "rate"),
            Column("change", "Change, points", "points"), Column("n", "n", "count"),
        ],
        cells, stub=3, known=FEW_RUNS, most=MOST_UNDECIDED if word == "undecided" else None,
    )  # fmt: skip


def sides_section(
    audits: tuple[Audit, Audit],
    gates: tuple[GateResult | None, GateResult | None],
    renamed: Mapping[str, str],
) -> Section:
    """Each variant in both audits, a row an audit; what the later one calls otherwise is joined."""
    names = {_both(variant.name, renamed): variant.name for variant in audits[0].compressed}
    for variant in audits[1].compressed:
        if variant.name not in renamed.values():
            names.setdefault(variant.name, variant.name)
    rows: list[dict[str, Cell]] = []
    for shown, name in names.items():
        sides = zip(("first", "second"), audits, gates, (name, renamed.get(name, name)),
                    strict=True)  # fmt: skip
        for which, audit, gate, own in sides:
            there = any(variant.name == own for variant in audit.compressed)
            cells = variant_cells(audit, gate, own) if there else {"flips": "not in this audit"}
            rows.append({**cells, "variant": shown, "audit": which})
    both = min(audits, key=lambda audit: audit.labelled)  # what one lacks has no column
    first, *others = variant_columns(both, judged=any(gates))
    few = few_runs(min(one.members for audit in audits for one in audit.variants))
    return Section(
        "sides",
        "Each variant in both audits",
        parts=[
            Table(
                "variants", "Each variant in both audits",
                [first, Column("audit", "Audit"),
                 *(column for column in others if column.key != "do")],
                rows, "Intervals are those of each audit alone; the tables below test the change.",
                stub=2, known=FEW_RUNS, cards=True,
            )
        ],
        warnings=[f"{few[:1].upper()}{few[1:]}."] if few else (),
    )  # fmt: skip


def _both(name: str, renamed: Mapping[str, str]) -> str:
    return ", then ".join(dict.fromkeys((name, renamed.get(name, name))))
