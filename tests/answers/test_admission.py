"""What stops an answer from being judged, and what is told of it."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.metrics import cohen_kappa_score

from scotoma.answers import AdmissionNote
from scotoma.answers.admission import chance_note, class_skill, number_skill


def test_a_note_keeps_its_words() -> None:
    note = AdmissionNote(rule="language", subject="label", sentence="Case differs", variant="int8")
    assert AdmissionNote.model_validate_json(note.model_dump_json()) == note
    with pytest.raises(ValidationError):
        note.sentence = "Something else"  # type: ignore[misc]


def test_a_note_names_one_of_the_rules() -> None:
    with pytest.raises(ValidationError):
        AdmissionNote(rule="hearsay", subject="label", sentence="x")  # type: ignore[arg-type]


def drawn(
    n: int, models: int, right: float, classes: int = 4, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Labels that are not equally frequent, and answers of which some are right."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, n, p=np.arange(1, classes + 1) / sum(range(1, classes + 1)))
    guesses = rng.choice(classes, (n, models), p=np.full(classes, 1 / classes))
    return np.where(rng.random((n, models)) < right, labels[:, None], guesses), labels


def test_the_skill_is_cohens_kappa_as_scikit_learn_has_it() -> None:
    answers, labels = drawn(300, 3, 0.4)
    each = [cohen_kappa_score(labels, answers[:, k]) for k in range(3)]
    assert class_skill(answers, labels).value == pytest.approx(np.mean(each))


@pytest.mark.parametrize("right", [0.05, 0.3, 0.9])
def test_the_interval_is_that_of_a_bootstrap_over_examples(right: float) -> None:
    answers, labels = drawn(500, 1, right)
    rng = np.random.default_rng(1)
    draws = []
    for _ in range(600):
        rows = rng.integers(0, 500, 500)
        draws.append(class_skill(answers[rows], labels[rows]).value)
    assert class_skill(answers, labels).se == pytest.approx(np.std(draws), rel=0.12)


def test_rows_of_one_cluster_count_once() -> None:
    answers, labels = drawn(200, 1, 0.3)
    alone = class_skill(answers, labels)
    twice = class_skill(
        np.repeat(answers, 2, axis=0), np.repeat(labels, 2), clusters=np.repeat(np.arange(200), 2)
    )
    assert (twice.n, twice.value) == (200, pytest.approx(alone.value))
    assert twice.se == pytest.approx(alone.se)
    assert class_skill(np.repeat(answers, 2, axis=0), np.repeat(labels, 2)).se < 0.8 * alone.se


def test_answers_are_dealt_within_their_own_label() -> None:
    """Whoever knows only how frequent each of several labels is has no skill."""
    rng = np.random.default_rng(0)
    of_label = np.tile([0, 1], 500)
    labels = (rng.random(1000) < np.where(of_label == 0, 0.9, 0.1)).astype(int)
    answers = (rng.random((1000, 1)) < np.where(of_label == 0, 0.9, 0.1)[:, None]).astype(int)
    clusters = np.repeat(np.arange(500), 2)
    assert class_skill(answers, labels, clusters=clusters).low > 0.5
    within = class_skill(answers, labels, clusters=clusters, strata=of_label)
    assert within.low < 0 < within.high
    each = [(answers[of_label == k, 0], labels[of_label == k]) for k in (0, 1)]
    dealt = np.mean([sum((a == c).mean() * (y == c).mean() for c in (0, 1)) for a, y in each])
    share = (answers[:, 0] == labels).mean()
    assert within.value == pytest.approx((share - dealt) / (1 - dealt))


def test_more_models_are_crossed_with_the_examples() -> None:
    """Five models that agree know no more of other examples than one of them."""
    answers, labels = drawn(400, 1, 0.3)
    same = class_skill(np.repeat(answers, 5, axis=1), labels)
    assert same.se == pytest.approx(class_skill(answers, labels).se)
    apart, labels = drawn(400, 5, 0.3)
    assert class_skill(apart, labels).se < 0.7 * same.se


@pytest.mark.parametrize(
    ("answers", "labels", "words"),
    [
        ([0, 0, 0, 0] * 50, [0, 1, 2, 3] * 50, "no better than its answers dealt at random"),
        ([1, 0] * 100, [0, 1] * 100, "no better than its answers dealt at random"),
        ([0, 1, 1], [0, 1, 1], "3 examples are too few to tell"),
        ([0, 1, 1, 0, 1], [1, 1, 1, 1, 1], "every label is the same"),
    ],
)
def test_who_is_not_better_than_guessing_is_named(
    answers: list[int], labels: list[int], words: str
) -> None:
    note = chance_note(class_skill(np.array(answers)[:, None], np.array(labels)), "right on 25%")
    assert note is not None
    assert words in note.sentence
    assert note.blocks_pass == ("every label" not in words)


def test_a_baseline_that_is_always_right_is_admitted() -> None:
    labels = np.arange(10) % 2
    assert chance_note(class_skill(labels[:, None], labels), "right on 100%") is None


def test_numbers_are_better_than_dealt_ones_where_they_correlate() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=300)
    good = truth[:, None] + rng.normal(size=(300, 2))
    skill = number_skill(good, truth)
    each = [np.corrcoef(truth, good[:, k])[0, 1] for k in range(2)]
    assert skill.value == pytest.approx(np.mean(each))
    # Dealt to other examples, the answers are farther off by twice the covariance.
    dealt = np.mean([(good[:, 0] - np.roll(truth, k)) ** 2 for k in range(300)])
    own = np.mean((good[:, 0] - truth) ** 2)
    assert dealt - own == pytest.approx(2 * np.cov(truth, good[:, 0], bias=True)[0, 1])
    assert chance_note(skill, "off by 0.8") is None
    note = chance_note(number_skill(rng.permutation(good), truth), "off by 1.4 on average")
    assert note is not None
    assert note.blocks_pass
    bent = number_skill(np.stack([3 - truth], 1), truth)
    assert "no better than" in (chance_note(bent, "off by 3") or note).sentence
