"""P-values adjusted for how many were asked, against the papers' rule and example."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.numbers import benjamini_hochberg

LEVELS = st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.012, 0.2, 0.9, 1.0]), min_size=1, max_size=9)
# Benjamini and Hochberg (1995), section 3: fifteen comparisons of two treatments after a heart
# attack.
THROMBOLYSIS = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
    0.6528, 0.7590, 1.0,
]  # fmt: skip


@given(p=LEVELS, dependence=st.booleans())
def test_false_discovery_is_controlled_as_the_rule_says(p: list[float], dependence: bool) -> None:
    """The smallest level at which the step-up rule rejects each of them."""
    ordered, m = sorted(p), len(p)
    factor = sum(1 / rank for rank in range(1, m + 1)) if dependence else 1.0
    needed = [min(1.0, factor * m * value / rank) for rank, value in enumerate(ordered, 1)]
    expected = [min(needed[place:]) for place in (ordered.index(value) for value in p)]
    adjusted = benjamini_hochberg([*p, np.nan], dependence=dependence)
    assert adjusted[:-1] == pytest.approx(expected, abs=1e-12)
    assert np.isnan(adjusted[-1])


def test_the_example_of_the_paper_rejects_four() -> None:
    assert (benjamini_hochberg(THROMBOLYSIS) <= 0.05).tolist() == [True] * 4 + [False] * 11


def test_no_test_at_all_leaves_nothing_to_adjust() -> None:
    assert np.isnan(benjamini_hochberg([np.nan])).all()
    assert benjamini_hochberg([]).size == 0
