"""What does a gate ask about classes? Of each its loss; of many, how much the losses differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scotoma.audit import Audit
from scotoma.audit.groups import ClassRow
from scotoma.config.gate import ClassesRule, GateRules
from scotoma.numbers import Estimate, heterogeneity, undefined
from scotoma.verdict.evidence import difference_alone, known, read_estimate, read_variance
from scotoma.verdict.margins import clearing_margin, why_too_small
from scotoma.verdict.question import Question

__all__ = ["class_questions"]

MANY_CLASSES = 20  # above it classes are judged by the spread of their losses


def class_questions(
    audit: Audit, variant: str, rule: ClassesRule, rules: GateRules
) -> list[Question]:
    """Ask for the recall that each class loses beyond the accuracy lost.

    Of more than 20 classes no single one has to be cleared, though each can fail: the spread of
    their true losses is judged, which is the first question.
    """
    members = min(v.members for v in audit.variants if v.name in ("dense", variant))
    rows = audit.classes[variant]
    classes = [_class(rule, row, rules) for row in rows]
    if len(rows) <= MANY_CLASSES:
        return classes
    together = f"judged with the other {len(rows) - 1:,} classes by the spread of their losses"
    return [
        _spread(rule, rows, members),
        *(replace(one, not_judged=together, too_small=False) for one in classes),
    ]


def _class(rule: ClassesRule, row: ClassRow, rules: GateRules) -> Question:
    """Ask for the recall lost beyond the accuracy lost, a fraction."""
    loss = read_estimate(row.loss)
    change = difference_alone(rule.metric, "all", loss, read_variance(row.loss_variance))
    where = f"recall loss of class {row.class_name} beyond accuracy's"
    missed = 1 - known(row.dense_recall)
    small = why_too_small(missed, loss.n, margin=rule.margin, coarsest=rules.coarsest)
    return Question(
        rule.id, rule.metric, "all", row.class_name, where, None, rule.margin, change,
        clearing=clearing_margin(missed, loss.n, rule.margin),
        not_judged=small, too_small=bool(small),
    )  # fmt: skip


def _spread(rule: ClassesRule, rows: Sequence[ClassRow], members: int) -> Question:
    """Ask how much the true losses of many classes differ: their standard deviation, tau."""
    where = f"spread of the recall losses of {len(rows):,} classes beyond accuracy's"
    sized = [row for row in rows if row.loss.n > 1 and row.loss.value is not None]
    missed = [1 - (known(r.dense_recall) + known(r.compressed_recall)) / 2 for r in sized]
    # By binomial shares, with one error and one hit more, so that no class has none.
    expected = [
        (row.loss.n * p + 1) / (row.loss.n + 2) for row, p in zip(sized, missed, strict=True)
    ]
    tau: Estimate
    n = sum(row.loss.n for row in sized)
    if len(sized) > MANY_CLASSES:
        tau = heterogeneity(
            [known(row.loss.value) for row in sized],
            [_by_chance(row) for row in sized],
            [p * (1 - p) / row.loss.n for row, p in zip(sized, expected, strict=True)],
            n=n,
            members=members,
        )
    else:
        tau = undefined(f"{len(sized)} classes have examples enough", n=n, members=members)
    change = difference_alone(rule.metric, "all", tau)
    return Question(rule.id, rule.metric, "all", None, where, None, rule.margin, change)


def _by_chance(row: ClassRow) -> float:
    """The variance of a class's loss, a fraction squared, without its floor."""
    spread = read_variance(row.loss_variance)
    whole = spread.examples + spread.members - spread.residual
    return float(max(whole, spread.examples, spread.members))
