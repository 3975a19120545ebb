"""What does a gate ask about corrupted pictures? How much worse than dense each group fares."""

from __future__ import annotations

from collections.abc import Iterator

from scotoma.audit import Audit, Quantity
from scotoma.audit.robustness import ALL_KINDS, LossRow, RobustnessReport
from scotoma.config.robustness import PicturesRule, RobustnessRule
from scotoma.verdict.evidence import difference_alone, read_estimate, read_variance
from scotoma.verdict.question import Question

__all__ = ["NOT_ASKED", "NO_PICTURES", "NO_TOP5", "pictures_questions", "robustness_questions"]

FEWEST = 50  # corrupted examples of a group that is judged
NO_PICTURES = (
    "the audit ran no model on corrupted pictures; add robustness to its configuration, and repeat "
    "the whole audit"
)
NO_TOP5 = "the audit does not know the five best classes; top: 5 is for more than ten classes"
WHERE = {
    "overconfidence": "confidence less accuracy",
    "unnoticed_pictures": "corrupted pictures that pass as familiar",
}
NOT_ASKED = {
    "overconfidence": "add confidence: true to robustness",
    "unnoticed_pictures": "add confidence: true to robustness",
}


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
        for row in audit.robustness.losses.get(variant, ())
        if row.metric == ("top5" if rule.top == 5 else "error")
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
    robustness = f"{'top-5 ' * (rule.top == 5)}{'relative robustness' if relative else 'accuracy'}"
    family = "corruption" if row.family == ALL_KINDS else row.family
    where = f"{robustness} lost under {family} by {audit.group_names[row.group]}"
    small = ""
    if loss.n < FEWEST and not must:
        small = f"{loss.n} corrupted examples, {FEWEST} are needed"
    return Question(
        rule.id, rule.metric, row.group, None, where, None, rule.max_increase.points / 100, change,
        not_judged=small, too_small=bool(small),
    )  # fmt: skip


def pictures_questions(
    audit: Audit, variant: str, rule: PicturesRule, must: frozenset[str]
) -> list[Question]:
    """Ask how much worse than dense a variant gets on corrupted pictures.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
        rule: The rule.
        must: Keys of groups that are judged however small.

    Returns:
        A question a group and family; none where that was not measured.
    """
    if audit.robustness is None:
        return []
    questions = []
    for group, family, rise in _rises(audit.robustness, variant, rule):
        if (group == "all") is not (rule.over == "all"):
            continue
        small = ""
        if rise.n < FEWEST and group not in must:
            small = f"{rise.n} corrupted examples, {FEWEST} are needed"
        of = f" of {audit.group_names[group]}" if group != "all" else ""
        change = difference_alone(rule.metric, group, read_estimate(rise))
        questions.append(
            Question(
                rule.id,
                rule.metric,
                group,
                None,
                f"{WHERE[rule.metric]}{of} under {family}",
                None,
                rule.max_increase.points / 100,
                change,
                not_judged=small,
                too_small=bool(small),
            )
        )
    return questions


def _rises(
    report: RobustnessReport, variant: str, rule: PicturesRule
) -> Iterator[tuple[str, str, Quantity]]:
    """Yield group, family in words, and how much worse the variant gets."""

    def asked(family: str) -> bool:
        if rule.kinds is None:
            return family not in (ALL_KINDS, "clean")
        return family in rule.kinds

    def words(family: str) -> str:
        return "corruption" if family == ALL_KINDS else family

    if report.confidence is None:
        return
    if rule.metric == "unnoticed_pictures":
        for seen in report.confidence.detection:
            counts = seen.measure == "confidence" and not seen.other_set and asked(seen.pictures)
            if counts and seen.variant == variant and seen.auroc_change is not None:
                yield seen.group, words(seen.pictures), _negative(seen.auroc_change)
    else:
        for sure in report.confidence.rows:
            if sure.gap_change is not None and sure.variant == variant and asked(sure.family):
                yield sure.group, words(sure.family), sure.gap_change


def _negative(quantity: Quantity) -> Quantity:
    """The same number with the other sign."""
    value, low, high = (
        None if one is None else -one for one in (quantity.value, quantity.high, quantity.low)
    )
    return quantity.model_copy(update={"value": value, "low": low, "high": high})
