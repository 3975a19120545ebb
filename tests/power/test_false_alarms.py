"""What a whole audit says where nothing was compressed: dense members against other dense members.

An audit is flagged if, after Holm over its groups and metrics, one of them is harmed at alpha / 2,
or if its excess of CIEs lies above 0. At most 18 of 200: 99% of Binomial(200, .05).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from scotoma.bias import amplification
from scotoma.divergence import excess
from scotoma.numbers import holm
from scotoma.power.forecast import forecast
from scotoma.power.model import Design, Probit
from scotoma.power.simulate import PlantedGroup, planted_audit
from tests.helpers.worlds import worlds

pytestmark = pytest.mark.slow

AUDITS, ALPHA, FEWEST = 200, 0.05, 10
SIZES = {"male & old": (150, 0.16), "male & young": (500, 0.1), "female & old": (350, 0.08),
         "female & young": (1000, 0.06)}  # fmt: skip
NAMES = ["all", "male", "female", "old", "young", *SIZES]


def flags(members: int, seed: int, **relative: float) -> dict[str, bool]:
    """Whether harm and excess are found in one audit of nine groups, and harm in the first."""
    planted = [
        PlantedGroup(name=name, n=n, rate=rate, relative=relative.get(name, 0.0))
        for name, (n, rate) in SIZES.items()
    ]
    # Of other seeds, but of the same examples: as difficult for the one population as the other.
    audit = planted_audit(planted, members=members, errors=Probit(correlation=1), seed=seed)
    cells = audit.groups
    masks = np.stack([cells.any(0), cells[:2].any(0), cells[2:].any(0), cells[::2].any(0),
                      cells[1::2].any(0), *cells])  # fmt: skip
    found = amplification(
        audit.labels, audit.dense, audit.compressed, masks, NAMES, positive=1, n_classes=2
    )
    enough = [change for change in found if change.absolute.events >= FEWEST]
    p = [max(change.relative.p_above(0.0), change.absolute.p_above(0.0)) for change in enough]
    harmed = holm(p) <= ALPHA / 2
    where = {change.group for change, bad in zip(enough, harmed, strict=True) if bad}
    return {
        "harm": bool(where),
        "excess": excess(audit.dense, audit.compressed, 2).excess.low > 0,
        "male & old": "male & old" in where,
    }


@cache
def alarms(members: int) -> dict[str, int]:
    found = [flags(members, seed) for seed in range(AUDITS)]
    return {
        "harm": sum(one["harm"] for one in found),
        "excess": sum(one["excess"] for one in found),
        "either": sum(one["harm"] or one["excess"] for one in found),
    }


@pytest.mark.parametrize("members", worlds([5, 10, 30]))
def test_dense_against_dense_is_flagged_in_at_most_18_of_200_audits(members: int) -> None:
    assert alarms(members)["either"] <= 18, alarms(members)


def test_what_is_planted_in_one_group_is_found_there() -> None:
    n, rate = SIZES["male & old"]
    # Tested alone it is found in 80% of audits; among 27, where Holm asks for more, in fewer.
    errors = Probit(correlation=1)
    least = forecast(Design(group_n=n, rate=rate, members=10, errors=errors)).value
    found = [flags(10, seed, **{"male & old": 2 * least}) for seed in range(40)]
    assert np.mean([one["male & old"] for one in found]) >= 0.9
