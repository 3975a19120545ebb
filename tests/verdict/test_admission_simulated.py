"""How often are good baselines blocked, and does a baseline that never errs fail without harm?

`benchmarks/intervals.py admission` has the whole tables; here are some of their rows, with a bar
that a right rule meets in 99 of 100 seeds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from intervals import AtMargin, Skill, blocked, failed

pytestmark = pytest.mark.slow

AUDITS = 200


@pytest.mark.parametrize(
    "skill", [Skill(2, 200, 1, 10), Skill(10, 2000, 5, 5), Skill(2, 2000, 1, 5)]
)
def test_a_baseline_that_is_clearly_better_than_guessing_is_admitted(skill: Skill) -> None:
    """2.5% are allowed, of which 10 in 200 is the bar."""
    assert blocked(skill, AUDITS) <= 10 / AUDITS


@pytest.mark.parametrize("skill", [Skill(2, 200, 1, 0), Skill(10, 2000, 5, 0)])
def test_a_baseline_that_guesses_is_not(skill: Skill) -> None:
    """Its whole interval lies above 0 by chance in 2.5%."""
    assert blocked(skill, AUDITS) >= 1 - 10 / AUDITS


@pytest.mark.parametrize(
    "harm",
    [
        AtMargin(400, 1, 0.0),
        AtMargin(2000, 1, 0.001),
        AtMargin(2000, 5, 0.001),
        AtMargin(10_000, 1, 0.0),
    ],
)
def test_a_group_at_its_margin_seldom_fails_where_the_baseline_hardly_errs(harm: AtMargin) -> None:
    assert failed(harm, AUDITS) <= 10 / AUDITS


@pytest.mark.parametrize("harm", [AtMargin(100, 1, 0.0, 0.16), AtMargin(100, 5, 0.001, 0.16)])
def test_sixteen_of_a_hundred_lost_fail(harm: AtMargin) -> None:
    assert failed(harm, AUDITS) >= 0.9
