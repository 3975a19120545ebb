"""What do the CIE paper's tables of labels and groups say about my run?"""

from __future__ import annotations

import numpy as np

from scotoma import published
from scotoma.audit import Audit
from scotoma.audit.base import At
from scotoma.audit.groups import RATE_NAMES
from scotoma.datasets import AuditedExamples
from scotoma.document import Section
from scotoma.impact.worst_change import affected_words, gap_groups, turned_gaps, worst_change
from scotoma.papers.table import Cell, paper_table
from scotoma.papers.words import in_percent, quantity_text, under
from scotoma.predictions.finished import FinishedAudit

NO_GROUPS = (
    "the audit has no groups; name attributes under groups in the configuration and audit again"
)
NO_POSITIVE = (
    "No FPR and FNR: the audit has no positive class; name it as label.positive and audit again."
)
MOST = 60  # rows of labels and groups


def label_shares(finished: FinishedAudit) -> Section:
    """Figure 1."""
    if not finished.test.attributes:
        return paper_table("cie", "Figure 1", missing=NO_GROUPS)
    splits = [_counted(examples) for examples in (finished.training, finished.test)]
    names = finished.audit.group_names
    rows: list[tuple[Cell, ...]] = []
    for label in finished.test.classes:
        for key in list(names)[1:]:
            cells: list[Cell] = []
            for counts, total in splits:
                count = counts.get((label, key), 0)
                cells += [100 * count / total, count] if total else [None, None]
            rows.append((label, names[key], *cells))
    shown = rows
    if len(rows) > MOST:
        rare = sorted(range(len(rows)), key=lambda at: (rows[at][3] or 0, rows[at][5] or 0))
        shown = [rows[at] for at in sorted(rare[:MOST])]
    left_out = len(rows) - len(shown)
    return paper_table(
        "cie",
        "Figure 1",
        shown,
        notes=[f"The {MOST} rarest are shown; {left_out:,} more are left out."] if left_out else [],
        conclusion="these are counts of the data: no model and no chance is in them.",
    )


def _counted(examples: AuditedExamples) -> tuple[dict[tuple[str, str], int], int]:
    """Examples of each label and group, and of all."""
    if not examples.table.height:
        return {}, 0
    groups, labels = examples.partition(), examples.labels
    classes = examples.classes
    return {
        (classes[place], key): int(count)
        for key, mask in zip(groups.keys[1:], groups.masks[1:], strict=True)
        for place, count in enumerate(np.bincount(labels[mask], minlength=len(classes)))
    }, examples.table.height


def normalised_rates(finished: FinishedAudit) -> Section:
    """Tables 3 and 4."""
    return _rate_table(
        finished,
        "Tables 3 and 4",
        _rows(finished, "normalized"),
        _gaps(finished.audit),
    )


def absolute_rates(finished: FinishedAudit) -> Section:
    """Table 5."""
    audit = finished.audit
    sound = {}
    for variant in finished.compressed:
        worst = worst_change(audit, variant)
        sound[variant] = "no rise can be estimated" if worst is None else (
            f"{affected_words(audit, worst)} {quantity_text(worst['absolute'].number, 'points')}"
        )  # fmt: skip
    return _rate_table(
        finished,
        "Table 5",
        _rows(finished, "compressed"),
        f"the largest rise, not adjusted for selecting the worst group: {under(sound)}.",
    )


def _rate_table(
    finished: FinishedAudit,
    name: str,
    rows: list[tuple[Cell, ...]],
    conclusion: str,
) -> Section:
    audit = finished.audit
    if len(audit.groups) < 2:
        return paper_table("cie", name, missing=NO_GROUPS)
    groups = ("aggregate", *(group.name for group in audit.groups[1:]))
    return paper_table(
        "cie",
        name,
        rows,
        columns=("models", "rate", *groups),
        conclusion=conclusion,
        notes=[*_of_classes(audit), published.load("cie").notes[0]],
    )


def _of_classes(audit: Audit) -> list[str]:
    positive = audit.examples.positive
    if positive is None:
        return [NO_POSITIVE]
    if len(audit.examples.classes) > 2:
        return [f"Error: {positive} taken for another class, or another for it."]
    return []


def _rows(finished: FinishedAudit, part: str) -> list[tuple[Cell, ...]]:
    """The rates of dense, then a part of the rates of every variant."""
    rows: list[tuple[Cell, ...]] = []
    for variant in finished.compressed:
        rates = _rates(finished.audit, variant)
        if not rows:
            rows += [("dense", *row) for row in _cells(rates, "dense")]
        rows += [(variant, *row) for row in _cells(rates, part)]
    return rows


def _rates(audit: Audit, variant: str) -> dict[tuple[str, str], At]:
    """Rates of the error and of the positive class, by metric and group."""
    return {
        (str(at["dense"].metric), str(at["dense"].group)): at
        for at in audit.at("rates", variant, class_name=None)
    }


def _cells(rates: dict[tuple[str, str], At], part: str) -> list[tuple[Cell, ...]]:
    """A row a metric: its name, and its number in every group, per cent."""
    groups = list(dict.fromkeys(group for _, group in rates))
    rows: list[tuple[Cell, ...]] = []
    for metric, name in RATE_NAMES.items():
        if (metric, groups[0]) not in rates:
            continue
        rows.append((name, *(_percent(rates[metric, group], part) for group in groups)))
    return rows


def _percent(rate: At, part: str) -> float | None:
    """A rate, or as the paper has it the difference over the dense rate, however few the events."""
    before, after = rate["dense"].number.value, rate["compressed"].number.value
    if part == "normalized":
        return 100 * (after - before) / before if before and after is not None else None
    return in_percent(before if part == "dense" else after)


def _gaps(audit: Audit) -> str:
    tested = [
        (p, gap)
        for variant in audit.compressed
        for gap in turned_gaps(audit, variant.name)
        if (p := gap["p_adjusted"].number.value) is not None
    ]
    shown = [
        "{} rises {} more for {} than for {} under {}".format(
            RATE_NAMES[gap["gap"].metric or ""],
            quantity_text(gap["gap"].number, "points"),
            *gap_groups(audit, gap),
            gap["gap"].variant,
        )
        for p, gap in tested
        if p <= 1 - audit.level
    ]
    family = f"(Holm over {len(tested)} gaps between groups)"
    return f"{'; '.join(shown) or 'no group loses more than another'} {family}."
