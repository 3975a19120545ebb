"""What did people say of the changed examples? result.json of a study, as a type."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from scotoma.audit.base import Part
from scotoma.audit.reading import read_part


class Told(Part):
    """A number of a study, as a cell of a table.

    Attributes:
        value: The number; None where undefined.
        low: Lower limit.
        high: Upper limit.
        n: Images that it rests on; guesses, where people guessed.
        reason: Why something is undefined; empty otherwise.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: str = ""

    @property
    def note(self) -> str:
        """What stands beside a number of an audit; nothing here."""
        return ""


class Effect(Told):
    """A difference of two shares, or of two such differences, with its interval.

    Attributes:
        p: Two-sided p-value of no difference.
        adjusted_p: The same after Holm over its family; None where undefined.
        df: Satterthwaite's degrees of freedom.
        shares: Share of the counted answer in each arm; of two differences, in all four.
        items: Items with an answer in each arm.
        annotators: Annotators with an answer in every arm.
    """

    p: float | None = None
    adjusted_p: float | None = None
    df: float | None = None
    shares: tuple[float | None, ...]
    items: tuple[int, ...]
    annotators: int


class OddsRatio(Told):
    """Of a logistic mixed model, in which items and annotators are random: a check on `Effect`.

    Attributes:
        sd_items: Standard deviation of items, log odds.
        sd_annotators: Standard deviation of annotators, log odds.
    """

    sd_items: float | None = None
    sd_annotators: float | None = None


class GroupEffect(Part):
    """The difference within one group, where the plan asks for groups.

    Attributes:
        group: The group, such as `side=left`.
        effect: The difference among its items.
        interaction: That minus the difference among all other items; None for the second of two
            groups, where it is the first one's with the opposite sign.
    """

    group: str
    effect: Effect
    interaction: Effect | None


class ArmAnswers(Part):
    """Answers to one question in one arm.

    Attributes:
        arm: A, B or C.
        yes: How many.
        no: How many.
        cant_tell: How many.
        population: Share of the counted answer, weighted to all examples of the arm's kind, items
            and annotators random; undefined in an arm that is matched.
        items: Items with an answer.
        alpha: Krippendorff's, nominal, of the items with two answers or more.
        ac1: Gwet's.
        raw: Share of agreeing pairs.
    """

    arm: str
    yes: int
    no: int
    cant_tell: int
    population: Told
    items: int
    alpha: Told
    ac1: Told
    raw: float | None


class QuestionResult(Part):
    """One question.

    Attributes:
        key: `q1` to `q6`.
        text: As it was asked.
        counted: The answer whose share is compared.
        title: What that answer says, in a few words.
        bucket: Group of the PIE paper; empty where it stands alone.
        remark: What limits its meaning; empty for nothing.
        effects: By contrast, `A-B` and `A-C`.
        sensitivity: By contrast: the difference under other treatments of what is uncertain.
        odds: A logistic mixed model, by contrast.
        groups: Differences within groups, by contrast; empty unless planned.
        arms: Answers by arm.
    """

    key: str
    text: str
    counted: Literal["yes", "no"]
    title: str
    bucket: str
    remark: str
    effects: dict[str, Effect]
    sensitivity: dict[str, dict[str, Told]]
    odds: dict[str, OddsRatio]
    groups: dict[str, tuple[GroupEffect, ...]]
    arms: tuple[ArmAnswers, ...]


class Blinding(Part):
    """Whether the arms could be told apart.

    Attributes:
        machine: AUC by contrast, from all that is shown but pixels.
        bang: Bang's index by arm; undefined without guesses.
        james: James's index of arm A against the others; without limits where guesses or
            annotators are too alike or too few, undefined without guesses.
        flagged: What a reader should know, in words; empty for nothing.
    """

    machine: dict[str, Told]
    bang: dict[str, Told]
    james: Told
    flagged: tuple[str, ...]


class Balance(Part):
    """How alike the arms are.

    Attributes:
        classes: Items by class and arm.
        agreement: Mean agreement of models by arm.
        imbalance: Standardised mean difference of agreement between arms A and C.
        rules: What named third labels, by arm.
    """

    classes: dict[str, dict[str, int]]
    agreement: dict[str, float]
    imbalance: float
    rules: dict[str, dict[str, int]]


class AnnotatorFlow(Part):
    """How one annotator took part.

    Attributes:
        annotator: Number.
        images: Images with an answer, repeats left out.
        equal: Share of equal answers to repeated images, which are its n.
        median_s: Median seconds from an image to its first answer; None without answers.
        screened: Left out of the second result, because a screen of the plan says so.
    """

    annotator: int
    images: int
    equal: Told
    median_s: float | None
    screened: bool


class StudyFlow(Part):
    """What became of the items.

    Attributes:
        sampled: Items in all arms.
        annotators: Annotators with an answer.
        shown: Items that were answered or skipped, over annotators.
        answered: Answers to questions that count.
        cant_tell: "can't tell" among them.
        skipped: Items skipped, over annotators.
        fast: Answers given within 300 ms of the image, which count.
        people: Every annotator with an answer.
    """

    sampled: int
    annotators: int
    shown: int
    answered: int
    cant_tell: int
    skipped: int
    fast: int
    people: tuple[AnnotatorFlow, ...]


class StudyResult(Part):
    """What a blind study found. The gate never depends on it.

    Attributes:
        version: Of this format.
        variant: Whose changed examples were judged.
        group: Attribute by whose values arms are stratified; empty for none.
        plan_sha256: Hash of the plan.
        labels: Rule of the labels beside images.
        primary: Question and contrast of the primary outcome.
        level: Confidence level.
        conclusion: One sentence about the primary outcome.
        scope: To whom it applies.
        still_cie: Share of arm A that the other half of the members changes too; None unless asked.
        questions: Every question.
        blinding: Whether the arms could be told apart.
        balance: How alike they are.
        flow: What became of the items.
        deviations: What was not done as planned.
    """

    version: Literal[2] = 2
    variant: str
    group: str
    plan_sha256: str
    labels: Literal["pooled", "paper", "true"]
    primary: tuple[str, str]
    level: float
    conclusion: str
    scope: str
    still_cie: float | None
    questions: tuple[QuestionResult, ...]
    blinding: Blinding
    balance: Balance
    flow: StudyFlow
    deviations: tuple[str, ...]


def read_study(path: Path) -> StudyResult:
    """Read the result.json of a study.

    Raises:
        DataError: It is none.
    """
    return read_part(path, StudyResult, way_out="run scotoma study result again")
