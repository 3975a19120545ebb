"""What changes once people have corrected labels? As a section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scotoma.audit.findings import Findings, ReviewedAudit, ReviewedVariant
from scotoma.document import Cell, Column, Facts, Interval, Section, Table

MOST_ROWS = 24


def reviewed_section(findings: Findings) -> Section | None:
    """Flips and errors before and after correction; None where nobody corrected labels."""
    people = findings.beside.people
    reviewed = people.reviewed
    if reviewed is None:
        return None
    made = recounted(reviewed, findings.audit.group_names)
    if people.outdated:
        warning = (
            "These labels were measured for another audit.json. Run scotoma audit --step bias "
            "--labels reviewed again."
        )
        made = replace(made, answer=(), parts=(), warnings=[warning])
    return replace(made, folded=True)


def recounted(reviewed: ReviewedAudit, names: Mapping[str, str]) -> Section:
    """Flips and errors before and after correction.

    Args:
        reviewed: What was measured.
        names: Of groups, by key.
    """
    changes = _changes(names, reviewed.variants, reviewed.level)
    return Section(
        "reviewed",
        "With corrected labels",
        [
            f"Reviewed by {', '.join(reviewed.reviewers)}. The sealed numbers and the gate stay as "
            "they are."
        ],
        [
            _flips(reviewed.variants),
            *([changes] if changes.rows else []),
            Facts([(one.name, _counted(one)) for one in reviewed.variants]),
        ],
        about="what changes once people have corrected labels",
        link="Corrected labels",
    )


def _counted(one: ReviewedVariant) -> str:
    """How many examples of a variant were reviewed, and why no rates follow from them."""
    parts = [
        f"{counts.reviewed:,} of {counts.examples:,} {kind} examples reviewed, "
        f"{counts.corrected:,} labels corrected, {counts.ambiguous:,} ambiguous."
        for kind, counts in (("changed", one.changed), ("unchanged", one.unchanged))
    ]
    return " ".join([*parts, *filter(None, [one.reason])])


def _flips(variants: tuple[ReviewedVariant, ...]) -> Table:
    return Table(
        "reviewed",
        "Reviewed examples that change",
        (
            Column("variant", "Variant"),
            Column("labels", "Labels"),
            Column("n", "n", "count"),
            Column("wrong", "Became wrong", "count"),
            Column("right", "Became right", "count"),
            Column("either", "Wrong either way", "count"),
            Column("no_answer", "No right answer", "count"),
        ),
        [
            {
                "variant": one.name,
                "labels": title,
                "n": one.changed.reviewed,
                "wrong": flips.became_wrong,
                "right": flips.became_right,
                "either": flips.wrong_either_way,
                "no_answer": flips.no_answer,
            }
            for one in variants
            for title, flips in (("as they were", one.before), ("corrected", one.after))
        ],
        stub=2,
    )


def _changes(
    names: Mapping[str, str], variants: tuple[ReviewedVariant, ...], level: float
) -> Table:
    rows: list[dict[str, Cell]] = [
        {
            "variant": one.name,
            "group": names.get(row.group, row.group),
            "n": row.n,
            "before": row.before,
            "after": Interval(row.change, row.low, row.high, row.n, row.reason),
        }
        for one in variants
        for row in one.rates
        if not one.reason
    ]
    return Table(
        "corrected",
        "Change of the error, before and after correction",
        (
            Column("variant", "Variant"),
            Column("group", "Group"),
            Column("n", "n", "count"),
            Column("before", "Labels as they were, points", "points"),
            Column("after", "Corrected, points", "points", drawn=True),
        ),
        rows,
        f"With {100 * level:.0f}% intervals; that of the change before correction stands in the "
        "table of groups. Reviewed examples drawn at random stand for those that nobody reviewed.",
        stub=2,
        most=MOST_ROWS,
    )
