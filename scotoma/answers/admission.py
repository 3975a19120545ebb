"""May these answers be judged? The rules of admission, and the notes that they leave."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from scotoma.answers.natural import natural_order
from scotoma.answers.note import AdmissionNote
from scotoma.answers.values import number_in
from scotoma.errors import DataError
from scotoma.numbers import Estimate, Units, undefined
from scotoma.numbers.inputs import Codes, Floats, cluster_ids
from scotoma.printable import listed, quoted

MOST_CLASSES, EXAMPLES_A_CLASS = 100, 5  # beyond which answers are free text
MOST_STRANGE = 0.05  # of the answers of a side, that are no label
SHOWN = 3  # values in a message
NO_ANSWER = "(no answer)"  # the class of a missing answer, behind those of the labels
NO_LABEL = " (no label)"  # ends the name of an answer that is no class, behind them, too
SMALL = 0.2  # a skill that may be larger was measured on too few examples
ROUNDING = 1e-12  # a skill below it is none
WAY_OUT = "write both with the same names"
CAUSES = "preprocessing, class order or labels are probably wrong"


def class_skill(
    answers: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    strata: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> Estimate:
    """Cohen's kappa of answers and labels, averaged over models.

    0 says that the answers are right as often as they would be if they were dealt to other
    examples, 1 that all are right. The interval is over examples and, from five models on, over
    training runs, with the floor of a change: four examples more that turn.

    Args:
        answers: Class ids, integers of at least 0, shape (N, K).
        labels: True class ids, shape (N,).
        clusters: Integer id of each row's cluster, shape (N,); None where each row is its own.
        strata: Which label each row is about, where examples have several, shape (N,): answers are
            dealt to other rows of the same label only. None for one label.
        level: Coverage of the interval, a fraction.

    Returns:
        Kappa; undefined where every label is the same.

    References:
        Cohen (1960), Educational and Psychological Measurement 20:37-46; Fleiss, Cohen and Everitt
        (1969), Psychological Bulletin 72:323-327, the variance.

    >>> labels = np.arange(200) % 2
    >>> right = np.where(np.arange(200) % 10 < 2, 1 - labels, labels)
    >>> kappa = class_skill(right[:, None], labels)
    >>> round(kappa.value, 2), round(kappa.low, 2), round(kappa.high, 2)
    (0.6, 0.48, 0.72)
    """
    a, y = np.asarray(answers), np.asarray(labels)
    n, k = a.shape
    of_stratum = np.zeros(n, np.int64) if strata is None else np.asarray(strata, np.int64)
    if not n or len(np.unique(y)) < 2:
        reason = "undefined (every label is the same)" if n else "undefined (no examples)"
        return _undefined(reason, n, k, level)
    width = int(max(a.max(), y.max())) + 1
    cells = of_stratum * width
    size = int(of_stratum.max() + 1) * width
    sizes = np.bincount(of_stratum)[of_stratum]
    label_share = np.bincount(cells + y, minlength=size)
    values, columns, chances = [], [], []
    for member in range(k):
        own = a[:, member].astype(np.int64)
        answer_share = np.bincount(cells + own, minlength=size)
        # Of a dealt answer: how often its label, and of a label: how often its answer is dealt.
        hit = (label_share[cells + own] + answer_share[cells + y]) / sizes
        dealt = np.bincount(of_stratum, hit / 2)[of_stratum] / sizes  # of the row's own stratum
        right, chance = own == y, float(hit.mean() / 2)
        share = float(right.mean())
        if chance == 1:
            return _undefined("undefined (every answer is the same)", n, k, level)
        values.append((share - chance) / (1 - chance))
        move = (right - share) * (1 - chance) - (1 - share) * (hit - dealt - chance)
        columns.append(move / (1 - chance) ** 2)
        chances.append(chance)
    unit = 1 / (1 - float(np.mean(chances)))
    return _mean_over_models(values, columns, clusters, unit=unit, level=level)


def number_skill(
    answers: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> Estimate:
    """Pearson's correlation of predicted and true numbers, averaged over models.

    The mean squared error is smaller than that of the same answers dealt to other examples exactly
    where it is above 0.

    Args:
        answers: Predicted numbers, shape (N, K).
        truth: True numbers, shape (N,).
        clusters: As for `class_skill`.
        level: Coverage of the interval, a fraction.

    Returns:
        The correlation; undefined where the truth or an answer never varies.

    >>> truth = np.arange(100.0)
    >>> skill = number_skill(np.stack([truth + 20 * np.sin(truth)], 1), truth)
    >>> round(skill.value, 2), skill.low > 0.8
    (0.9, True)
    """
    a, y = np.asarray(answers, np.float64), np.asarray(truth, np.float64)
    n, k = a.shape
    if n < 2 or not np.ptp(y) > 0:
        return _undefined("undefined (every true number is the same)", n, k, level)
    z = (y - y.mean()) / y.std()
    values, columns = [], []
    for member in range(k):
        own = a[:, member]
        if not np.ptp(own) > 0:
            return _undefined("undefined (every predicted number is the same)", n, k, level)
        w = (own - own.mean()) / own.std()
        r = float((z * w).mean())
        values.append(r)
        columns.append(z * w - r * (z**2 + w**2) / 2)
    return _mean_over_models(values, columns, clusters, unit=1.0, level=level)


def chance_note(skill: Estimate, right: str) -> AdmissionNote | None:
    """Refuse a PASS where the baseline is not shown to be better than guessing.

    Args:
        skill: From `class_skill` or `number_skill`.
        right: How good its answers are, in words: "right on 20%".

    Returns:
        The note; None where the whole interval lies above 0, or nothing can be guessed.

    >>> labels = np.arange(400) % 4
    >>> chance_note(class_skill(labels[:, None], labels), "right on 100%") is None
    True
    >>> print(chance_note(class_skill((labels[:, None] + 1) % 4, labels), "right on 0%").sentence)
    dense is right on 0%, no better than its answers dealt at random: preprocessing, class order \
or labels are probably wrong
    """
    if math.isnan(skill.value) and "label" in skill.reason:
        return unasked_chance("every label is the same")
    if math.isnan(skill.value) and "true number" in skill.reason:
        return unasked_chance("every true number is the same")
    if skill.low > 0:
        return None
    sentence = f"dense is {right}, no better than its answers dealt at random: {CAUSES}"
    if skill.value > ROUNDING and skill.high > SMALL:
        sentence = (
            f"dense is {right}, not surely better than its answers dealt at random: "
            f"{skill.n:,} examples are too few to tell, or {CAUSES}"
        )
    return AdmissionNote(rule="chance", subject="dense", sentence=sentence, blocks_pass=True)


def share_words(share: float) -> str:
    """Write a share of examples in per cent.

    >>> share_words(0.2), share_words(0.0384), share_words(0.9996)
    ('20%', '3.8%', '99.96%')
    """
    digits = 1 if share < 0.999 or share == 1 else 2
    return f"{100 * share:.{digits}f}".removesuffix(".0") + "%"


def unanswered_note(
    silent: npt.NDArray[np.bool_], subject: str, *, variant: str = "", labelled: bool = True
) -> tuple[AdmissionNote, ...]:
    """Tell how many answers are missing, and what they count as (rule 3).

    Args:
        silent: Where a model gave no answer, shape (N, K).
        subject: What messages call the models: a variant or a column.
        variant: The variant that it is about.
        labelled: Whether the examples have labels.

    Returns:
        The note; none where every example has an answer.

    >>> (note,) = unanswered_note(np.array([[True], [False], [False]]), "int8")
    >>> note.sentence
    'int8 gives no answer to 1 of 3 examples: it counts as wrong'
    """
    count, (n, k) = int(silent.sum()), silent.shape
    if not count:
        return ()
    of = f"{n:,} examples" if k == 1 else f"{n * k:,} questions ({n:,} examples, {k} models)"
    what = "wrong" if labelled else "changed, unless the other side gives none either"
    verb = "it counts" if count == 1 else "they count"
    sentence = f"{subject} gives no answer to {count:,} of {of}: {verb} as {what}"
    return (AdmissionNote(rule="unanswered", subject=subject, sentence=sentence, variant=variant),)


def unasked_chance(reason: str) -> AdmissionNote:
    """Say that nobody asked whether the baseline is better than guessing.

    >>> unasked_chance("the examples have no labels").sentence
    'whether dense is better than guessing was not asked: the examples have no labels'
    """
    sentence = f"whether dense is better than guessing was not asked: {reason}"
    return AdmissionNote(rule="chance", subject="dense", sentence=sentence)


def _undefined(reason: str, n: int, k: int, level: float) -> Estimate:
    return undefined(reason, n=n, members=k, level=level)


def _mean_over_models(
    values: list[float],
    influences: list[Floats],
    clusters: npt.ArrayLike | None,
    *,
    unit: float,
    level: float,
) -> Estimate:
    """The mean of a number of each model, with the crossed variance of its influences.

    Args:
        values: The number of each model.
        influences: Of each row on it, shape (N,) each, their mean 0.
        clusters: Ids of the rows' clusters.
        unit: Influence of an answer that turns.
        level: Coverage.
    """
    codes = cluster_ids(clusters, len(influences[0]))
    # Their means are the numbers themselves, so that these differ between models as they do.
    table = np.stack([_by_cluster(own, codes) for own in influences], axis=1) + values
    number = Units(len(table)).mean(table, flip=None).floored(unit)
    return replace(number, value=float(np.mean(values))).estimate(level=level)


def _by_cluster(influence: Floats, codes: Codes | None) -> Floats:
    if codes is None or not codes.size:
        return influence
    sums = np.bincount(codes, influence)
    return np.asarray(sums * len(sums) / len(influence))


def is_label(name: str) -> bool:
    """Whether the name of a class is no stand-in for a missing or an unknown answer.

    >>> [is_label(name) for name in ("cat", "fox (no label)", "(no answer)")]
    [True, False, False]
    """
    return name != NO_ANSWER and not name.endswith(NO_LABEL)


class Translation(NamedTuple):
    """How one side's answers are written in the language of the labels.

    Attributes:
        labels: Each label that is written otherwise, to how all write it.
        answers: The same of answers.
        how: `numbers`, or `case`, which tells what was folded; empty where nothing was.
    """

    labels: dict[str, str]
    answers: dict[str, str]
    how: Literal["", "numbers", "case"] = ""


def translate(labels: Iterable[str], answers: Iterable[str]) -> Translation:
    """Find how answers are written in the language of the labels (rule 1).

    Values are compared as numbers where both sides are wholly numbers or truth values. Case is
    folded where the sides share no value and folding merges none of either side.

    Args:
        labels: Distinct labels, and classes that models know beside them.
        answers: Distinct answers of one side.

    >>> translate(["0", "1"], ["0.0", "True"]).answers
    {'0.0': '0', 'True': '1'}
    >>> translate(["cat", "dog"], ["Cat", "DOG"])
    Translation(labels={}, answers={'Cat': 'cat', 'DOG': 'dog'}, how='case')
    >>> translate(["cat", "dog"], ["cat", "DOG"]).how
    ''
    """
    names, answer_values = natural_order(labels), natural_order(answers)
    numbers = {one: number_in(one) for one in (*names, *answer_values)}
    if None not in numbers.values():
        written: dict[float | None, str] = {}
        for name in sorted(names, key=len):
            written.setdefault(numbers[name], name)
        for one in sorted(answer_values, key=len):
            written.setdefault(numbers[one], one)
        own = {name: way for name in names if (way := written[numbers[name]]) != name}
        theirs = {one: way for one in answer_values if (way := written[numbers[one]]) != one}
        return Translation(own, theirs, "numbers" if own or theirs else "")
    if answer_values and not set(names) & set(answer_values):
        folded = {name.casefold(): name for name in names}
        apart = len(folded) == len(names) and len({one.casefold() for one in answer_values}) == len(
            answer_values
        )
        theirs = {one: folded[one.casefold()] for one in answer_values if one.casefold() in folded}
        if apart and theirs:
            return Translation({}, theirs, "case")
    return Translation({}, {})


def speak_of_classes(labels: int, examples: int) -> bool:
    """Whether answers with so many distinct labels are classes, and not free text."""
    return labels <= min(MOST_CLASSES, max(2, examples // EXAMPLES_A_CLASS))


def check_language(
    subject: str,
    labels: Sequence[str],
    answers: Mapping[str, int],
    *,
    way_out: str = WAY_OUT,
) -> tuple[Translation, tuple[AdmissionNote, ...]]:
    """Admit the answers of one side, if they speak the language of the labels (rule 1).

    Args:
        subject: What messages call the side, such as `column 'int8'`.
        labels: Distinct labels, and classes that models know beside them.
        answers: Distinct answers to how many rows have each.
        way_out: The end of a refusal.

    Returns:
        How answers are translated, and notes on what was folded and what is no label.

    Raises:
        DataError: None of the answers is a label.

    >>> check_language("int8", ["no", "yes"], {"no": 90, "perhaps": 10})[1][0].sentence
    "int8: 10.0% of its answers are no label ('perhaps'); they count as wrong, and no PASS is given"
    """
    translation = translate(labels, answers)
    known = set(labels)
    strange = {
        one: rows for one, rows in answers.items() if translation.answers.get(one, one) not in known
    }
    numbers = [number_in(one) for one in strange]
    scores = None not in (*numbers, *map(number_in, labels)) and any(
        one % 1 for one in numbers if one is not None
    )
    if answers and (len(strange) == len(answers) or scores):
        raise DataError(_refusal(subject, labels, answers, way_out))
    notes = []
    if translation.how:
        pairs = list((translation.answers or translation.labels).items())
        shown = ", ".join(f"{quoted(one)} as {quoted(way)}" for one, way in pairs[:3])
        more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
        what = "numbers are compared" if translation.how == "numbers" else "case is folded"
        sentence = f"{subject}: {what}: {shown}{more}"
        notes.append(AdmissionNote(rule="language", subject=subject, sentence=sentence))
    if strange:
        rows, every = sum(strange.values()), sum(answers.values())
        most = sorted(strange, key=lambda one: (-strange[one], one))[:SHOWN]
        blocks = rows > MOST_STRANGE * every
        sentence = (
            f"{subject}: {rows / every:.1%} of its answers are no label ({listed(most)}); they "
            f"count as wrong{', and no PASS is given' if blocks else ''}"
        )
        notes.append(
            AdmissionNote(rule="language", subject=subject, sentence=sentence, blocks_pass=blocks)
        )
    return translation, tuple(notes)


def _refusal(subject: str, labels: Sequence[str], answers: Mapping[str, int], way_out: str) -> str:
    answer_values, names = natural_order(set(answers) - set(labels)), natural_order(labels)
    numbers = [number_in(one, truths=False) for one in answer_values]
    known = [one for one in numbers if one is not None]
    if len(known) == len(answer_values) and any(one % 1 for one in known):
        way_out = "turn scores into labels with a threshold"
    elif len(known) == len(answer_values) and any(number_in(name) is None for name in names):
        way_out = "these are numbers of classes: write their names instead"
    return (
        f"{subject} must answer with labels, but {listed(answer_values[:SHOWN])} "
        f"{'is' if len(answer_values) == 1 else 'are'} not among {listed(names[:SHOWN])}; {way_out}"
    )
