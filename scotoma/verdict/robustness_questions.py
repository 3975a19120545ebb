"""What does a gate ask about corrupted pictures? How much more each group loses on them."""

from __future__ import annotations

from scotoma.audit import Audit
from scotoma.audit.robustness import ALL_KINDS, LossRow
from scotoma.config.gate_robustness import RobustnessRule
from scotoma.verdict.evidence import difference_alone, read_estimate, read_variance
from scotoma.verdict.question import Question

__all__ = ["NO_PICTURES", "robustness_questions"]

FEWEST = 50  # corrupted examples of a group that is judged
NO_PICTURES = "the audit ran no model on corrupted pictures; add robustness to its configuration"


def robustness_questions(
    audit: Audit, variant: str, rule: RobustnessRule, must: frozenset[str]
) -> list[Question]:
    """Ask how much more than dense a variant loses, on the scale that the rule declares.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
        rule: The rule.
        must: Keys of groups that are judged however small.

    Returns:
        A question a group and family; none where no picture was corrupted.
    """
    if audit.robustness is None:
        return []
    rows = [
        row
        for row in audit.robustness.losses[variant]
        if row.metric == "error"
        and (row.family != ALL_KINDS if rule.kinds is None else row.family in rule.kinds)
        and (row.group == "all") is (rule.over == "all")
    ]
    return [_question(audit, rule, row, row.group in must) for row in rows]


def _question(audit: Audit, rule: RobustnessRule, row: LossRow, must: bool) -> Question:
    relative = rule.scale == "relative"
    loss, variance = (
        (row.relative, row.relative_variance) if relative else (row.absolute, row.absolute_variance)
    )
    change = difference_alone(rule.metric, row.group, read_estimate(loss), read_variance(variance))
    robustness = "relative robustness" if relative else "accuracy"
    family = "corruption" if row.family == ALL_KINDS else row.family
    where = f"{robustness} lost under {family} by {audit.group_names[row.group]}"
    small = ""
    if loss.n < FEWEST and not must:
        small = f"{loss.n} corrupted examples, {FEWEST} are needed"
    return Question(
        rule.id, rule.metric, row.group, None, where, None, rule.max_increase.points / 100, change,
        not_judged=small, too_small=bool(small),
    )  # fmt: skip
