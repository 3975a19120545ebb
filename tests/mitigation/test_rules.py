"""The rules of S-DD and S-DI against slow twins in the study's notation, and their files."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scotoma.config.mitigation import Mitigation
from scotoma.config.techniques import RULES
from scotoma.errors import ConfigError, DataError
from scotoma.mitigation import decide
from scotoma.mitigation.decide import NotBalancedWarning, ReduceAmplification

MARGIN = 0.05


def scored(
    seed: int, n: int, groups: int, classes: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Scores (N, G * C) that know something of label and group; every cell has an example."""
    random = np.random.default_rng(seed)
    cells = np.concatenate([np.arange(groups * classes), random.integers(groups * classes, size=n)])
    group, label = np.divmod(cells, classes)
    scores = random.normal(size=(len(cells), groups * classes))
    scores[np.arange(len(cells)), cells] += 1.5
    return scores, label, group


def p(row: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(row) / np.exp(row).sum()


def twin(name: str, s: NDArray[np.float64], a: int, n: NDArray[np.int64]) -> int:
    """One example's class as the study's table writes the decision; n[g, y] training counts."""
    G, C = n.shape
    joint = p(s).reshape(G, C)
    heads = s.reshape(G, C)
    values = {
        "DD1": [sum(joint[g, y] for g in range(G)) for y in range(C)],
        "DD2": [max(joint[g, y] / n[g, y] for g in range(G)) for y in range(C)],
        "DD3": [sum(joint[g, y] / n[g, y] for g in range(G)) for y in range(C)],
        "DI1": list(heads[a]),
        "DI2": [sum(heads[g, y] for g in range(G)) for y in range(C)],
    }[name]
    return values.index(max(values))


@pytest.mark.parametrize("name", ["DD1", "DD2", "DD3", "DI1", "DI2"])
@pytest.mark.parametrize(("groups", "classes"), [(2, 10), (3, 4), (2, 2)])
def test_each_decision_is_that_of_the_studys_table(name: str, groups: int, classes: int) -> None:
    scores, labels, attributes = scored(7, 300, groups, classes)
    cells = attributes * classes + labels
    n = np.bincount(cells, minlength=groups * classes).reshape(groups, classes)
    predicted = decide.fit(name, scores, labels, attributes)(scores, attributes)
    expected = [twin(name, s, a, n) for s, a in zip(scores, attributes, strict=True)]
    assert predicted.tolist() == expected


def test_the_decisions_differ_from_each_other() -> None:
    scores, labels, attributes = scored(3, 400, 2, 5)
    labels[:50], attributes[:50] = 0, 1  # unequal counts, or DD3 would be DD1
    names = ["DD1", "DD2", "DD3", "DI1", "DI2"]
    predicted = {
        tuple(decide.fit(name, scores, labels, attributes)(scores, attributes)) for name in names
    }
    assert len(predicted) == len(names)


def rba_twin(
    s: NDArray[np.float64], a: NDArray[np.int64], C: int, protocol: str
) -> tuple[list[int], bool]:
    """RBA in loops over examples and classes; the last sweep."""
    published = protocol == "published"
    rows = [np.exp(row) if published else p(row) for row in s]
    P = [[row[y] + row[C + y] for y in range(C)] for row in rows]
    step = 3.0 if published else 0.003
    c1 = {1: -0.5 - MARGIN, 0: 0.5 - MARGIN}
    c2 = {1: 0.5 - MARGIN, 0: -0.5 - MARGIN}
    l1, l2 = [0.0] * C, [0.0] * C
    predicted = [row.index(max(row)) for row in P]
    for _ in range(100):
        v1, v2 = [], []
        for y in range(C):
            n_y = sum(q == y for q in predicted)
            grey = sum(q == y and g == 1 for q, g in zip(predicted, a, strict=True))
            v1.append((0.5 - MARGIN) * n_y - grey)
            v2.append(grey - (0.5 + MARGIN) * n_y)
        if max(*v1, *v2) <= 1e-9:
            return predicted, True
        l1 = [max(0.0, lam + step * v) for lam, v in zip(l1, v1, strict=True)]
        l2 = [max(0.0, lam + step * v) for lam, v in zip(l2, v2, strict=True)]
        swept = []
        for i, row in enumerate(P):
            g = int(a[i])
            swept.append(
                [
                    row[y] - (l1[y] * c1[g] + l2[y] * c2[g])
                    if not published or y == predicted[i]
                    else row[y]
                    for y in range(C)
                ]
            )
        predicted = [row.index(max(row)) for row in swept]
    return predicted, False


@pytest.mark.parametrize("protocol", ["published", "sound"])
@pytest.mark.parametrize("seed", range(6))
def test_rba_sweeps_as_the_paper_writes_it(protocol: Any, seed: int) -> None:
    scores, _, attributes = scored(seed, 150, 2, 4)
    rule = ReduceAmplification(classes=4, protocol=protocol)
    result = rule.balance(scores, attributes)
    predicted, converged = rba_twin(scores, attributes, 4, protocol)
    if converged or protocol == "published":
        assert result.predicted.tolist() == predicted
    assert result.converged or not converged


def shares(predicted: NDArray[np.int64], group: NDArray[np.int64], classes: int) -> list[float]:
    return [float((group[predicted == y] == 1).mean()) for y in range(classes) if y in predicted]


@given(
    st.integers(0, 10_000),
    st.integers(4, 120),
    st.integers(2, 5),
    st.sampled_from(["sound", "published"]),
    st.floats(0.01, 0.3),
)
def test_rba_never_leaves_a_class_outside_its_margin_when_it_reports_success(
    seed: int, n: int, classes: int, protocol: Any, margin: float
) -> None:
    scores, _, attributes = scored(seed, n, 2, classes)
    rule = ReduceAmplification(classes=classes, protocol=protocol, margin=margin)
    result = rule.balance(scores, attributes)
    within = [
        abs(share - 0.5) <= margin + 1e-6 for share in shares(result.predicted, attributes, classes)
    ]
    assert all(within) == result.converged
    assert (result.outside == ()) == result.converged


def test_rba_made_sound_narrows_what_the_published_sweeps_miss() -> None:
    scores, _, attributes = scored(1, 1000, 2, 4)
    scores[attributes == 1, 0] += 1.5  # class 0 is given to group 1 too often
    worst = {
        protocol: max(
            abs(share - 0.5)
            for share in shares(
                ReduceAmplification(classes=4, protocol=protocol)
                .balance(scores, attributes)
                .predicted,
                attributes,
                4,
            )
        )
        for protocol in ("sound", "published")
    }
    assert worst["sound"] <= MARGIN < worst["published"]


def test_rba_warns_when_it_does_not_converge() -> None:
    attributes = np.array([1, 1, 1, 0, 0])
    scores = np.tile(np.array([[9.0, 0.0, 9.0, 0.0]]), (5, 1))  # 3 and 2 of one class: 60%
    rule = decide.fit("DD4", scores, np.array([0, 1, 0, 1, 0]), attributes)
    with pytest.warns(NotBalancedWarning, match=r"did not converge in 100 sweeps: class 0 outside"):
        rule(scores, attributes)


def test_rba_that_converges_says_nothing() -> None:
    scores = np.array([[9.0, 0.0, 9.0, 0.0]] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rule = ReduceAmplification(classes=2)
        assert rule(scores, np.array([1, 1, 0, 0])).tolist() == [0, 0, 0, 0]


def test_an_ensemble_decides_by_the_mean_of_probabilities_not_of_votes() -> None:
    members = np.log(np.array([[[0.6, 0.4]], [[0.6, 0.4]], [[0.01, 0.99]]]))
    rule = decide.fit("ensemble", members, np.zeros(1, int))
    assert rule(members).tolist() == [1]


# --- files ----------------------------------------------------------------------------------------


def fitted(name: str) -> tuple[decide.Rule, NDArray[np.float64], NDArray[np.int64]]:
    """One technique's rule, scores it decides on, and groups."""
    scores, labels, attributes = scored(11, 120, 2, 2)
    if name == "ensemble":
        scores = np.stack([scores, scores[:, ::-1]])
    if name in ("thresholds", "offsets"):
        scores = scores[:, :2]
    return decide.fit(name, scores, labels, attributes), scores, attributes


@pytest.mark.parametrize("name", RULES)
def test_a_rule_read_from_its_json_decides_the_same(name: str) -> None:
    rule, scores, attributes = fitted(name)
    text = rule.model_dump_json()
    assert json.loads(text)["rule"] == name
    again = decide.read_rule(text)
    assert again == rule
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotBalancedWarning)
        assert again(scores, attributes).tolist() == rule(scores, attributes).tolist()


@pytest.mark.parametrize("name", RULES)
def test_a_rule_reads_groups_exactly_when_its_needs_say_so(name: str) -> None:
    rule, scores, attributes = fitted(name)
    assert decide.rule_needs(name) == rule.needs
    if rule.needs.attributes != "each example":
        assert rule(scores).tolist() == rule(scores, attributes).tolist()
        return
    with pytest.raises(DataError, match="reads each example's group, got none"):
        rule(scores)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", "a rule must be the JSON that fitting it wrote, got unable to extract tag"),
        ('{"rule": "DI2", "groups": 0, "classes": 2}', "greater than or equal to 1 at DI2.groups"),
        ('{"rule": "DI2", "groups": 2, "classes": 2, "x": 1}', "not permitted at DI2.x"),
        ("no", "invalid json"),
    ],
)
def test_a_damaged_rule_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(DataError, match="fit it again") as caught:
        decide.read_rule(text)
    assert sentence in str(caught.value)


FOUR = np.zeros((4, 4))
LABELS, GROUPS = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: decide.fit("DD5", FOUR, LABELS), "technique must be one of DD1"),
        (
            lambda: decide.fit("DD3", FOUR, np.array([0, 1, 0, 0]), GROUPS),
            "DD3 needs examples of every class in every group, got none of class 1 in group 1; "
            "add some or merge groups",
        ),
        (lambda: decide.fit("DD3", FOUR, LABELS), "one group per example, 4, got none"),
        (lambda: decide.fit("DI1", FOUR[:, :3], LABELS, GROUPS), "got 3 columns for 2 classes"),
        (lambda: decide.fit("DD4", np.zeros((4, 6)), LABELS, GROUPS), "two groups, got 3"),
        (lambda: decide.fit("thresholds", FOUR, LABELS, GROUPS), "take offsets for more classes"),
        (
            lambda: decide.fit("DI1", FOUR, LABELS, GROUPS)(FOUR, GROUPS + 5),
            "group ids from 0 to 1, got 5 to 6; leave out examples of no group",
        ),
        (lambda: decide.fit("DI2", FOUR, LABELS)(FOUR[:, :2]), r"shape (examples, 4), got (4, 2)"),
        (lambda: decide.fit("DI2", FOUR, LABELS)(FOUR * np.nan), "scores must be finite"),
        (
            lambda: decide.fit("ensemble", np.zeros((2, 4, 2)), LABELS)(FOUR),
            "an ensemble of 2 decides on scores of shape (2, examples, classes), got (4, 4)",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_one_sentence(call: Any, sentence: str) -> None:
    with pytest.raises((ConfigError, DataError)) as caught:
        call()
    assert sentence in str(caught.value)


@pytest.mark.parametrize("protocol", [None, "published"])
def test_rba_takes_the_protocols_that_a_configuration_has(protocol: str | None) -> None:
    asked = Mitigation.model_validate(
        {"technique": "DD4", "attribute": "sex"} | ({"protocol": protocol} if protocol else {})
    )
    rng = np.random.default_rng(0)
    labels, groups = rng.integers(0, 2, 40), rng.integers(0, 2, 40)
    rule = decide.fit(
        "DD4", rng.random((40, 4)), labels, groups, classes=2, protocol=asked.protocol
    )
    assert isinstance(rule, ReduceAmplification)
    assert rule.balance(rng.random((40, 4)), groups).predicted.shape == (40,)
