"""Numbers on rows that stand for several examples."""

from __future__ import annotations

import numpy as np
import pytest

from scotoma.numbers import COMPRESSED, DENSE, Units


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("paired", [False, True])
def test_rows_that_stand_for_several_examples_give_the_numbers_of_these(weighed, paired):
    rng = np.random.default_rng(4)
    times = rng.integers(1, 6, 30)
    was, now = (rng.random((30, 6)) < share for share in (0.2, 0.4))
    risk = rng.random(30) < 0.7 if weighed else np.ones(30, bool)
    answers = []
    for units, rows in (
        (Units(30, None, times.astype(float)), np.arange(30)),
        (Units(int(times.sum())), np.repeat(np.arange(30), times)),
    ):
        before = units.mean(was[rows], risk[rows])
        after = units.mean(now[rows], risk[rows], axis=DENSE if paired else COMPRESSED)
        answers.append((after.since(before), after.since(before).estimate(), before.rate("")))
    (merged, *few), (_, *many) = answers
    for one, other in zip(few, many, strict=True):
        for name in ("value", "low", "high", "n", "events", "se", "df"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9), name
    assert merged.changed == pytest.approx(answers[1][0].changed)
