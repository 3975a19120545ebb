"""Sums over rows give the mean and the variance that the rows themselves have as Numbers."""

from __future__ import annotations

import numpy as np
import pytest

from scotoma.numbers import COMPRESSED, DENSE, Units
from scotoma.slices.judging.means import Centre, MeanLane, events_of, faces
from scotoma.slices.outcomes import SLICE_METRICS, prepare_outcome

N = 300


@pytest.mark.parametrize("members", [(1, 1), (6, 6), (7, 5)])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("score", [False, True])
def test_sums_have_the_variance_of_their_rows(members, paired, score):
    if paired and members[0] != members[1]:
        return
    rng = np.random.default_rng(sum(members))
    difficulty = rng.normal(size=(N, 1))
    after, before = (difficulty + rng.normal(0, 1, (N, k)) for k in members)
    if score:
        after, before = 900 + 3 * after, 890 + 3 * before
    else:
        after, before = (after > 0.7).astype(float), (before > 1).astype(float)
    inside, units = rng.random(N) < 0.4, Units.of(N)
    axis, flip = DENSE if paired else COMPRESSED, None if score else 1.0

    def numbers(rows):
        new = units.mean(after, rows, axis=axis, flip=flip)
        return new, units.mean(before, rows, axis=DENSE, flip=flip)

    (new, old), (new_out, old_out) = numbers(inside), numbers(~inside)
    outcome = prepare_outcome(SLICE_METRICS["mean"], after, before, None, N, paired=paired)
    model, _, change = faces(outcome)
    widths = [members[:1], members[:1] if paired else members]
    cases = [
        (model, widths[0], False, new, new - new_out),
        (change, widths[1], False, new - old, (new - old) - (new_out - old_out)),
        (change, widths[1], not score, new.since(old), None),
    ]
    for own, each, flips, number, beyond in cases:
        several = tuple(k for k in each if k > 1)
        centre = Centre.of(own) if score else Centre(0.0, False, (0.0,) * len(several))
        lane = MeanLane("both", "rest", several, centre)
        (_, lanes) = lane.adds(own)[1]
        here, there = (
            (np.array([rows.sum()]), lanes[rows].sum(0)[None]) for rows in (inside, ~inside)
        )
        value, variance = lane.number(here, flips=flips)
        assert value == pytest.approx(number.value)
        close(variance, number.variance)
        if beyond is not None:
            value, variance = lane.number(here, there)
            assert value == pytest.approx(beyond.value)
            close(variance, beyond.variance)
        if not score and own is model:
            assert events_of(here) == pytest.approx(new.events)


def close(ours, known):
    for name in ("total", "examples", "members", "residual", "df", "floor"):
        assert getattr(ours, name) == pytest.approx(getattr(known, name), rel=1e-7), name
