"""Sums over rows give the mean and the variance that the rows themselves have as Numbers."""

from __future__ import annotations

import numpy as np
import pytest

from scotoma.numbers import COMPRESSED, DENSE, Units
from scotoma.slices.beam.description import Moments

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
    both = [after - before] if paired else [after, before]
    alone = Moments(members[:1], 880.0 if score else 0.0)
    change = Moments(tuple(own.shape[1] for own in both), 9.5 if score else 0.0)
    cases = [
        (alone, [after], False, new, new - new_out),
        (change, both, False, new - old, (new - old) - (new_out - old_out)),
        (change, both, not score, new.since(old), None),
    ]
    for moments, populations, flips, number, beyond in cases:
        lanes = moments.of(populations)
        assert lanes.shape == (N, moments.lanes)
        here, there = lanes[inside].sum(0), lanes[~inside].sum(0)
        assert moments.mean(here) == pytest.approx(number.value)
        close(moments.variance(here, flips=flips), number.variance)
        if beyond is not None:
            assert moments.mean(here) - moments.mean(there) == pytest.approx(beyond.value)
            close(moments.variance(here, there), beyond.variance)
    if not score:
        assert alone.events(alone.of([after])[inside].sum(0)) == pytest.approx(new.events)


def close(ours, known):
    for name in ("total", "examples", "members", "residual", "df", "floor"):
        assert getattr(ours, name) == pytest.approx(getattr(known, name), rel=1e-7), name
