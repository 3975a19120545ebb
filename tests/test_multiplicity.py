"""P-values adjusted for how many were asked, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from scotoma.uncertainty import benjamini_hochberg

LEVELS = st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.012, 0.2, 0.9, 1.0]), min_size=1, max_size=9)


@given(p=LEVELS, dependence=st.booleans())
def test_false_discovery_is_controlled_as_scipy_does(p: list[float], dependence: bool) -> None:
    expected = false_discovery_control(p, method="by" if dependence else "bh")
    found = benjamini_hochberg([*p, np.nan], dependence=dependence)
    assert found[:-1] == pytest.approx(expected, abs=1e-15)
    assert np.isnan(found[-1])


def test_no_test_at_all_leaves_nothing_to_adjust() -> None:
    assert np.isnan(benjamini_hochberg([np.nan])).all()
    assert benjamini_hochberg([]).size == 0
