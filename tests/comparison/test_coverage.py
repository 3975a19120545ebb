"""Do intervals of a comparison hold the truth as often as they say?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from intervals import coverage, exact_coverage

pytestmark = pytest.mark.slow


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 10])
@pytest.mark.parametrize("n", [100, 1_000, 10_000])
def test_intervals_hold_the_truth(n: int, size: int) -> None:
    """1,000 comparisons; where fewer than ten answers change they are wider than they must be."""
    covered, *_, changed = coverage(n, size, 0.2, 1_000)
    assert covered >= 0.93
    if changed >= 10 and n // size >= 30:
        assert covered <= 0.985


def test_intervals_hold_the_truth_in_a_few_hundred_comparisons() -> None:
    covered, shown, *_ = coverage(1_000, 10, 0.2, 300)
    assert 0.91 <= covered <= 0.995
    assert shown > 0.9


def test_the_floor_of_four_flips_holds_every_level_and_one_of_a_flip_does_not() -> None:
    """Exactly, over 40 designs of 1 to 20 expected flips among 100 examples."""
    for level in (0.95, 0.995):
        held, power = exact_coverage(100, 4, level)
        assert held.min() >= level - 0.0005
        assert (power <= 1).all()
    assert exact_coverage(100, 1, 0.95)[0].min() < 0.9
