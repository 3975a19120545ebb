"""Planted losses: found at the size that `check` prints, not found where there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scotoma.robustness.losses import (
    group_contrast,
    group_tests,
    planted_robustness,
    smallest_contrast,
)
from tests.helpers.commands import measured

pytestmark = pytest.mark.slow

AUDITS, EXAMPLES, GROUP, MEMBERS = 60, 600, 200, 6
FAMILIES = {"noise": [0, 1], "blur": [2]}
KEYS = {f"age={age}": np.arange(EXAMPLES) // GROUP == age for age in range(3)}


def audited(extra: float, seed: int) -> tuple[dict[tuple[str, str], float], bool]:
    """Adjusted p-values, and whether the interval of the planted contrast holds the truth."""
    dense, compressed = planted_robustness(
        KEYS["age=0"], extra=extra, members=MEMBERS, families=(2, 1),
        severities=2, seed=seed,
    )  # fmt: skip
    contrasts = {
        (key, family): group_contrast(dense.under(places), compressed.under(places), mask)
        for family, places in FAMILIES.items()
        for key, mask in KEYS.items()
    }
    one = contrasts["age=0", "noise"]
    tests = {key: adjusted for key, (_, adjusted) in group_tests(contrasts).items()}
    return tests, one.low <= extra <= one.high


def test_the_smallest_effect_that_is_promised_is_found() -> None:
    effect = smallest_contrast(
        GROUP, EXAMPLES - GROUP, members=MEMBERS, corruptions=2, severities=2, tests=6
    )
    audits = [audited(effect, seed) for seed in range(AUDITS)]
    found = sum(tests["age=0", "noise"] <= 0.05 for tests, _ in audits)
    assert found >= 0.8 * AUDITS  # 90% are promised; `intervals.py robustness` has 200
    assert sum(held for _, held in audits) >= 0.9 * AUDITS


def test_where_nothing_is_planted_little_is_found() -> None:
    audits = [audited(0.0, seed) for seed in range(AUDITS)]
    assert sum(min(tests.values()) <= 0.05 for tests, _ in audits) <= 7  # 99% of Binomial(60, .05)
    assert sum(held for _, held in audits) >= 0.9 * AUDITS


def test_a_larger_group_and_more_members_show_smaller_losses() -> None:
    def smallest(group: int, members: int) -> float:
        return smallest_contrast(
            group, 2_000 - group, members=members, corruptions=1, severities=1, tests=4
        )

    assert smallest(100, 5) > smallest(400, 5) > smallest(400, 10)
    assert np.isnan(smallest(49, 5))


def test_check_says_what_the_step_costs_and_shows(tmp_path: Path) -> None:
    config = tmp_path / "audit.yaml"
    config.write_text(
        "label: {column: digit}\n"
        "groups: {style: {column: style}}\n"
        "variants: [dense, {prune: [0.9]}]\n"
        "population: {models: 3}\n"
        "robustness: {profile: scaled, severities: [1, 3], examples: 500, kinds: [noise, fog]}\n"
    )
    robust = measured("audit", "--plan", config, "--no-trial")["robustness"]
    assert (robust["examples"], robust["conditions"], robust["models"]) == (500, 8, 6)
    assert 0.01 < robust["smallest"]["plain"] < 0.2
    assert "motion_blur" in robust["left_out"]
    assert robust["cost"]["disk_bytes"] == 8 * 500 * (16 + 6)
