"""What does a gate ask about corrupted pictures? How much worse than dense each group fares."""

from __future__ import annotations

from collections.abc import Iterator

from scotoma.audit import Audit, Quantity
from scotoma.audit.robustness import ALL_KINDS, LossRow, RobustnessReport
from scotoma.config.gate_robustness import PicturesRule, RobustnessRule
from scotoma.verdict.evidence import difference_alone, read_estimate, read_variance
from scotoma.verdict.question import Question

__all__ = ["NOT_ASKED", "NO_PICTURES", "NO_TOP5", "pictures_questions", "robustness_questions"]

FEWEST = 50  # corrupted examples of a group that is judged
NO_PICTURES = (
    "the audit ran no model on corrupted pictures; add robustness to its configuration, and repeat "
    "the whole audit"
)
NO_TOP5 = "the audit does not know the five best classes; top: 5 is for more than ten classes"
NO_RANGES = "this variant has no fixed ranges of int8"
WHERE = {
    "overconfidence": "confidence less accuracy",
    "tempered_overconfidence": "confidence less accuracy at the temperature of clean pictures",
    "unnoticed_pictures": "corrupted pictures that pass as familiar",
    "sequence_flips": "flips within sequences",
    "activations_beyond": "activations beyond the ranges of int8",
}
NOT_ASKED = {
    "overconfidence": "add confidence: true to robustness",
    "tempered_overconfidence": "add confidence: true to robustness; it needs all scores",
    "unnoticed_pictures": "add confidence: true to robustness",
    "sequence_flips": "add frames: 10 to robustness",
    "activations_beyond": "add activation_ranges: true to robustness; static int8 alone has ranges",
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
    """Ask how much worse than dense a variant gets on corrupted pictures and sequences.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
        rule: The rule.
        must: Keys of groups that are judged however small.

    Returns:
        A question a group and family (or condition); none where that was not measured.
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
        under = f" under {family}" if family else ""
        change = difference_alone(rule.metric, group, read_estimate(rise))
        questions.append(
            Question(
                rule.id,
                rule.metric,
                group,
                None,
                f"{WHERE[rule.metric]}{of}{under}",
                None,
                rule.max_increase.points / 100,
                change,
                not_judged=small,
                too_small=bool(small),
            )
        )
    return questions


def has_no_ranges(audit: Audit, variant: str, rule: PicturesRule) -> bool:
    """Tell whether a rule asks for ranges that other variants have and this one does not.

    Args:
        audit: The audit.
        variant: Name of a compressed variant.
        rule: The rule.
    """
    if audit.robustness is None or rule.metric != "activations_beyond":
        return False
    watched = {row.variant for row in audit.robustness.activation_ranges}
    return bool(watched) and variant not in watched


def _rises(
    report: RobustnessReport, variant: str, rule: PicturesRule
) -> Iterator[tuple[str, str, Quantity]]:
    """Yield group, what is done to the pictures in words, and how much worse the variant gets."""

    def asked(family: str) -> bool:
        if rule.kinds is None:
            return family not in (ALL_KINDS, "clean")
        return family in rule.kinds

    def words(family: str) -> str:
        return "corruption" if family == ALL_KINDS else family

    if rule.metric == "sequence_flips":
        for flips in report.sequences:
            if flips.variant == variant and flips.kind == ALL_KINDS and flips.change is not None:
                yield flips.group, "", flips.change
    elif rule.metric == "activations_beyond":
        families = {one.kind: one.family for one in report.corruptions}
        for row in report.activation_ranges:
            if row.variant == variant and row.rise is not None:
                family = families[row.kind]
                if rule.kinds is None or ALL_KINDS in rule.kinds or family in rule.kinds:
                    name = row.kind.replace("_", " ")
                    yield "all", f"{name} at severity {row.severity}", row.rise
    elif report.confidence is not None and rule.metric == "unnoticed_pictures":
        for seen in report.confidence.detection:
            counts = seen.measure == "confidence" and not seen.other_set and asked(seen.pictures)
            if counts and seen.variant == variant and seen.auroc_change is not None:
                yield seen.group, words(seen.pictures), _negative(seen.auroc_change)
    elif report.confidence is not None:
        for sure in report.confidence.rows:
            change = sure.gap_change
            if rule.metric == "tempered_overconfidence":
                change = sure.tempered_gap_change
            if change is not None and sure.variant == variant and asked(sure.family):
                yield sure.group, words(sure.family), change


def _negative(quantity: Quantity) -> Quantity:
    """The same number with the other sign."""
    value, low, high = (
        None if one is None else -one for one in (quantity.value, quantity.high, quantity.low)
    )
    return quantity.model_copy(update={"value": value, "low": low, "high": high})
