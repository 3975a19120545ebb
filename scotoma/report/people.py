"""What do the sections on what people said show? Rows of studies and of corrected labels."""

from __future__ import annotations

from dataclasses import dataclass

from scotoma.audit import Audit
from scotoma.audit.findings import People
from scotoma.audit.reviewed import ReviewedRate, ReviewedVariant
from scotoma.audit.study import AnnotatorFlow, ArmAnswers, Effect, QuestionResult, StudyResult
from scotoma.document.cells import Interval
from scotoma.report.marks import Scale, scale_of
from scotoma.report.readable import in_names

__all__ = [
    "AgreementRow",
    "EffectRow",
    "ShownReview",
    "ShownStudy",
    "shown_reviews",
    "shown_studies",
]

MOST_CLASSES = 20  # of a study that are all shown; of more, those in which arms differ


@dataclass(frozen=True)
class EffectRow:
    """One question in one contrast.

    Attributes:
        question: The question.
        contrast: `A-B` or `A-C`.
        primary: It is the primary outcome.
        effect: What was found.
        difference: The difference of shares, a fraction.
    """

    question: QuestionResult
    contrast: str
    primary: bool
    effect: Effect
    difference: Interval


@dataclass(frozen=True)
class AgreementRow:
    """Answers to one question in one arm, and how far annotators agree.

    Attributes:
        answers: Of the arm.
        alpha: Krippendorff's.
        ac1: Gwet's.
        population: Share of the counted answer among all examples of the arm's kind.
    """

    answers: ArmAnswers
    alpha: Interval
    ac1: Interval
    population: Interval


@dataclass(frozen=True)
class CheckRow:
    """The same difference by other methods.

    Attributes:
        question: The question.
        contrast: `A-B` or `A-C`.
        treatments: Differences by treatment, in the order of the first row.
        odds: Odds ratio of the mixed model.
    """

    question: QuestionResult
    contrast: str
    treatments: tuple[Interval, ...]
    odds: Interval


@dataclass(frozen=True)
class GroupRow:
    """A difference within one group.

    Attributes:
        question: The question.
        contrast: `A-B` or `A-C`.
        group: The group.
        within: The difference among its items.
        apart: That minus the difference among all others; None where another row says it.
        p: Of `apart`, after Holm; None where undefined.
    """

    question: QuestionResult
    contrast: str
    group: str
    within: Interval
    apart: Interval | None
    p: float | None


@dataclass(frozen=True)
class ShownStudy:
    """The tables of one study.

    Attributes:
        name: Of its folder.
        result: What it found.
        effects: Every question in every contrast.
        scale: The axis of their drawings.
        treatments: Titles of the columns of `checks`.
        checks: Every effect by other methods.
        groups: Differences within groups; empty unless planned.
        agreement: Every question with its arms.
        machine: AUC of telling the arms apart without pixels, by contrast.
        bang: Bang's index by arm; empty without guesses.
        james: James's index; None without guesses.
        classes: Classes with their images by arm: all, or of many those in which arms differ.
        annotators: How each annotator took part, with the consistency of their answers.
    """

    name: str
    result: StudyResult
    effects: tuple[EffectRow, ...]
    scale: Scale | None
    treatments: tuple[str, ...]
    checks: tuple[CheckRow, ...]
    groups: tuple[GroupRow, ...]
    agreement: tuple[tuple[QuestionResult, tuple[AgreementRow, ...]], ...]
    machine: tuple[tuple[str, Interval], ...]
    bang: tuple[tuple[str, Interval], ...]
    james: Interval | None
    classes: tuple[tuple[str, dict[str, int]], ...]
    annotators: tuple[tuple[AnnotatorFlow, Interval], ...]


@dataclass(frozen=True)
class ShownReview:
    """The table of one variant with corrected labels.

    Attributes:
        variant: What was counted and measured.
        rates: Rates of groups, each with the change of the error after correction.
        scale: The axis of their drawings.
    """

    variant: ReviewedVariant
    rates: tuple[tuple[ReviewedRate, Interval], ...]
    scale: Scale | None


def shown_studies(people: People) -> tuple[ShownStudy, ...]:
    """Put the results of studies into rows."""
    return tuple(_study(name, result) for name, result in people.studies)


def _study(name: str, result: StudyResult) -> ShownStudy:
    effects = tuple(
        EffectRow(
            question,
            contrast,
            (question.key, contrast) == result.primary,
            effect,
            _interval(effect),
        )
        for question in result.questions
        for contrast, effect in sorted(question.effects.items())
    )
    blinding, classes = result.blinding, result.balance.classes.values()
    sizes = {
        contrast: sum(arms.get(arm, 0) for arms in classes for arm in contrast.split("-"))
        for contrast in blinding.machine
    }
    return ShownStudy(
        name=name,
        result=result,
        effects=effects,
        scale=scale_of(row.difference for row in effects),
        treatments=(treatments := _treatments(result)),
        checks=tuple(_check(row, treatments) for row in effects),
        groups=tuple(
            GroupRow(
                question,
                contrast,
                one.group,
                _interval(one.effect),
                None if one.interaction is None else _interval(one.interaction),
                None if one.interaction is None else one.interaction.adjusted_p,
            )
            for question in result.questions
            for contrast, rows in sorted(question.groups.items())
            for one in rows
        ),
        agreement=tuple((one, tuple(map(_agreement, one.arms))) for one in result.questions),
        machine=tuple(
            (contrast, Interval(*leak, sizes[contrast]))
            for contrast, leak in sorted(blinding.machine.items())
        ),
        bang=tuple(
            (arm, Interval(*index)) for arm, index in sorted(blinding.bang.items()) if index
        ),
        james=_james(blinding.james),
        classes=_classes(result.balance.classes),
        annotators=tuple(
            (
                one,
                Interval(
                    one.consistency,
                    one.low,
                    one.high,
                    one.repeats,
                    "" if one.repeats else "no image was answered twice",
                ),
            )
            for one in result.flow.people
        ),
    )


def _james(index: tuple[float, float | None, float | None, int] | None) -> Interval | None:
    if index is None:
        return None
    reason = "" if index[1] is not None else "guesses too alike, or people too few, for an interval"
    return Interval(*index, reason)


def _classes(classes: dict[str, dict[str, int]]) -> tuple[tuple[str, dict[str, int]], ...]:
    rows = sorted(classes.items())
    if len(rows) > MOST_CLASSES:
        rows = [(name, arms) for name, arms in rows if len(set(arms.values())) > 1]
    return tuple(rows)


def _interval(effect: Effect) -> Interval:
    return Interval(effect.value, effect.low, effect.high, sum(effect.items), effect.reason)


def _treatments(result: StudyResult) -> tuple[str, ...]:
    """Every treatment that some effect has, in their order."""
    every = [row for one in result.questions for rows in one.sensitivity.values() for row in rows]
    return tuple(dict.fromkeys(row.treatment for row in every))


def _check(row: EffectRow, treatments: tuple[str, ...]) -> CheckRow:
    found = {one.treatment: one for one in row.question.sensitivity[row.contrast]}
    odds = row.question.odds[row.contrast]
    return CheckRow(
        row.question,
        row.contrast,
        tuple(
            Interval(one.value, one.low, one.high, sum(row.effect.items), row.effect.reason)
            if (one := found.get(name))
            else Interval(None, None, None, 0, row.effect.reason)
            for name in treatments
        ),
        Interval(odds.value, odds.low, odds.high, sum(row.effect.items), odds.reason),
    )


def _agreement(arm: ArmAnswers) -> AgreementRow:
    return AgreementRow(
        arm,
        Interval(arm.alpha, arm.alpha_low, arm.alpha_high, arm.pairable, arm.reason),
        Interval(
            arm.ac1,
            arm.ac1_low,
            arm.ac1_high,
            arm.pairable,
            "" if arm.ac1_low is not None else arm.reason,
        ),
        Interval(
            arm.population_share,
            arm.population_low,
            arm.population_high,
            arm.items,
            arm.population_reason,
        ),
    )


def shown_reviews(people: People, audit: Audit) -> tuple[ShownReview, ...]:
    """Put measures with corrected labels into rows, groups by their names.

    Args:
        people: What people said; outdated measures give no rows.
        audit: The audit, for the names of its groups.
    """
    if people.reviewed is None or people.outdated:
        return ()
    return tuple(_review(one) for one in in_names(audit, people.reviewed).variants)


def _review(variant: ReviewedVariant) -> ShownReview:
    rates = tuple(
        (one, Interval(one.change, one.low, one.high, one.n, one.reason)) for one in variant.rates
    )
    return ShownReview(variant, rates, scale_of(change for _, change in rates))
