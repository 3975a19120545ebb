"""Rates of many groups and classes at once are those that are computed one by one."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest

from scotoma.bias import group_changes, tally
from scotoma.bias.counting import RateMetric, metrics
from scotoma.numbers import (
    FEW_EVENTS,
    ChangeEvidence,
    Estimate,
    Variance,
    few_runs,
    none_seen,
    of_variance,
    undefined,
)
from scotoma.numbers.enough import FEW, FEWEST


@pytest.mark.parametrize(
    ("n", "classes", "models", "paired", "level"),
    [
        (300, 3, (1, 1), False, 0.95),
        (400, 4, (5, 3), False, 0.95),
        (60, 2, (6, 6), True, 0.99),
        (40, 5, (2, 2), True, 0.95),
    ],
)
def test_every_field_is_that_of_one_rate(
    n: int, classes: int, models: tuple[int, int], paired: bool, level: float
) -> None:
    rng = np.random.default_rng(n)
    labels = rng.integers(classes, size=n)
    labels[labels == classes - 1] = 0  # nobody is of the last class
    dense, compressed = (
        np.where(rng.random((n, k)) < wrong, rng.integers(classes, size=(n, k)), labels[:, None])
        for k, wrong in zip(models, (0.15, 0.25), strict=True)
    )
    place = rng.integers(13, size=n) ** 2 // 13  # the rarest hold one example, or nobody
    names = [f"place={value}" for value in range(13)]
    masks = np.arange(13)[:, None] == place
    moments = tally(labels, dense, compressed, masks, n_classes=classes, paired=paired)
    known, kinds = ChangeEvidence.of_tally(moments), metrics(classes, None)
    changes = group_changes(moments, names, n_classes=classes, level=level)
    reasons = set()
    for number, change in enumerate(changes):
        g, e = divmod(number, len(kinds))
        assert (change.group, change.metric) == (names[g], kinds[e].name)
        for what, expected in one_by_one(known, (g, e), kinds[e], names[g], level).items():
            own = getattr(change, what)
            reasons.add(own.reason.partition("(")[0])
            for field in fields(own):
                assert same(getattr(own, field.name), getattr(expected, field.name)), (what, field)
        assert same_parts(change.relative_variance, known.log_ratio.at((g, e)))
        assert same_parts(change.absolute_variance, known.difference.at((g, e)))
    assert {"", "undefined ", "relative change not estimable "} <= reasons


def one_by_one(
    known: ChangeEvidence, at: tuple[int, int], kind: RateMetric, group: str, level: float
) -> dict[str, Estimate]:
    """The estimates at one place, by the functions of single numbers."""
    sides = {"dense": known.dense, "compressed": known.compressed}
    words, n, answer = kind.words(group), int(known.dense.n[at]), {}
    p = {name: float(side.value[at]) for name, side in sides.items()}
    few = min(float(side.effective_events[at]) for side in sides.values())

    def estimate(value: float, variance: Variance, members: int, events: float, scale) -> Estimate:
        note = FEW_EVENTS if events < FEW else ""
        whole = "; ".join(filter(None, [note, few_runs(members)]))
        about = {"n": n, "members": members, "events": events, "level": level}
        if n == 0:
            return undefined(words.nobody, **about)
        if scale == "log" and events < FEWEST:
            cause = f"no {words.event} among {int(known.dense.rows[at]):,} {words.at_risk}"
            if events:
                cause = (
                    f"{int(events)} effective event{'s' if int(events) > 1 else ''}, 5 are needed"
                )
            reason = f"relative change not estimable ({cause})"
            return undefined(reason, note=whole, **about)
        if scale == "logit":
            if variance.total == 0 or value in (0.0, 1.0):
                return none_seen(value, lowest=0.0, highest=1.0, note=whole, **about)
            variance = variance.scaled(1 / (value * (1 - value)))
        return of_variance(value, variance, scale=scale, note=note, **about)

    for name, side in sides.items():
        answer[name] = estimate(
            p[name], side.variance.at(at), side.members, float(side.effective_events[at]), "logit"
        )
    fewest = min(side.members for side in sides.values())
    ratio = (p["compressed"] - p["dense"]) / p["dense"] if p["dense"] else math.nan
    answer["relative"] = estimate(ratio, known.log_ratio.at(at), fewest, few, "log")
    rise = p["compressed"] - p["dense"]
    return answer | {"absolute": estimate(rise, known.difference.at(at), fewest, few, "identity")}


def same_parts(own: Variance, expected: Variance) -> bool:
    return all(same(getattr(own, f.name), getattr(expected, f.name)) for f in fields(Variance))


def same(own: object, expected: object) -> bool:
    if isinstance(expected, float):
        return own == pytest.approx(expected, rel=1e-12, abs=1e-15, nan_ok=True)
    return own == expected
