"""How often Clarify's intervals hold the truth, over audits whose truth is known."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import pytest

from scotoma.bias.clarify import METRICS, all_metrics, metric_changes
from scotoma.bias.clarify.arguments import read_case
from scotoma.bias.clarify.cells import measure
from scotoma.bias.clarify.distances import DISTANCES
from tests.helpers.worlds import AUDITS, worlds

pytestmark = pytest.mark.slow

SMOOTH = tuple(name for name in METRICS if name not in (*DISTANCES, "FT"))
SOME = ("DPL", "DI", "AD", "RD", "DCA", "TE", "CDDPL", "GE")  # one of each kind


@dataclass(frozen=True)
class World:
    """Two facets that differ in labels and in how they are judged; probit errors, runs differ."""

    members: int = 5
    n: int = 500
    runs: float = 0.15  # sd of what a run adds to the scores of a facet
    paired: bool = False
    clustered: bool = False
    names: tuple[str, ...] = SMOOTH


WORLDS = {
    "one model": World(members=1, n=800, runs=0.0, paired=True),
    "5 members": World(),
    "30 members": World(members=30, names=SOME),
    "5 pairs": World(paired=True, names=SOME),
    "5 runs that differ much": World(runs=0.4, n=800, names=SOME),
    "clusters, 5 members": World(n=700, clustered=True, names=SOME),
}


def draw(world: World, rng, n: int, members: int) -> dict[str, np.ndarray]:
    """Facets, labels, strata, features, sources, and the positive predictions of both variants."""
    source = rng.integers(0, n // 2, n)

    def trait():
        own = rng.normal(size=n)
        shared = rng.normal(size=n)[source]
        return math.sqrt(0.7) * shared + math.sqrt(0.3) * own if world.clustered else own

    d = trait() > 0.4
    strata = (trait() > 0).astype(int)
    skill = trait()
    y = trait() + 0.5 * skill > 0.1 + 0.4 * d - 0.15 * strata
    score = 0.8 * np.where(y, 1.0, -1.0) + 0.4 * skill - 0.2 * d + 0.8 * trait()
    other = score - 0.25 * d + 0.3 * rng.normal(size=n)
    runs = world.runs * rng.normal(size=(2, 2, members))
    noise = rng.normal(size=(2, n, members))
    if world.paired:  # a copy keeps most of its own run
        runs[1] = 0.9 * runs[0] + math.sqrt(0.19) * runs[1]
        noise[1] = 0.9 * noise[0] + math.sqrt(0.19) * noise[1]
    p, q = (
        s[:, None] + runs[i][d.astype(int)] + noise[i] > 0 for i, s in enumerate((score, other))
    )
    found = {"d": d, "y": y, "p": p, "q": q, "strata": strata}
    return found | {"features": skill[:, None], "source": source}


@functools.cache
def truths(runs: float, clustered: bool) -> dict[str, float]:
    """Each metric of the dense population, and each change, over many examples and runs."""
    world, rng = World(runs=runs, clustered=clustered), np.random.default_rng(99)
    sums: dict[str, list[list[float]]] = {name: [] for name in SMOOTH}
    for _ in range(24):  # of many runs, which are what differs most
        many = draw(world, rng, 5_000, 1 if world.runs == 0 else 128)
        cases = [
            read_case(d=many["d"], y=many["y"], p=many[p], strata=many["strata"]) for p in "pq"
        ]
        for name, kept in sums.items():
            kept.append([measure(name, case.cells).values.mean() for case in cases])
    means = {name: np.mean(kept, axis=0) for name, kept in sums.items()}
    values = {name: float(mean[0]) for name, mean in means.items()}
    return values | {f"change of {name}": float(now - was) for name, (was, now) in means.items()}


def audits(world: World) -> dict[str, list]:
    """Estimates of each metric, and of each change, over the audits."""
    late = [name for name in world.names if METRICS[name].stage == "post-training"]
    found: dict[str, list] = {}
    for seed in range(AUDITS):
        one = draw(world, np.random.default_rng([seed, 5]), world.n, world.members)
        said = {key: one[key] for key in ("d", "y", "strata")}
        said["clusters"] = one["source"] if world.clustered else None
        moved = metric_changes(
            **said, dense=one["p"], compressed=one["q"], paired=world.paired, only=late
        )
        table = all_metrics(**said, p=one["p"], only=world.names)
        table |= {f"change of {name}": estimate for name, estimate in moved.items()}
        for name, estimate in table.items():
            found.setdefault(name, []).append(estimate)
    return found


@pytest.mark.parametrize("name", worlds(WORLDS))
def test_intervals_hold_the_truth_about_as_often_as_they_say(name):
    world = WORLDS[name]
    truth = truths(world.runs, world.clustered)  # pairs do not move the means
    held, width = {}, {}
    for metric, shown in audits(world).items():
        held[metric] = np.mean([one.low <= truth[metric] <= one.high for one in shown])
        values = np.array([one.value for one in shown])
        spread = np.std(np.log(values) if shown[0].scale == "ratio" else values, ddof=1)
        width[metric] = math.sqrt(np.mean([one.se**2 for one in shown])) / spread
    assert {metric: share for metric, share in held.items() if not 0.91 <= share <= 0.995} == {}
    # A ratio of counts has no variance of its own where a denominator may be small: TE, DCA, DCR.
    ratios = ("TE", "DCA", "DCR")
    bounded = {metric: size for metric, size in width.items() if not metric.endswith(ratios)}
    assert {metric: size for metric, size in bounded.items() if not 0.88 <= size <= 1.2} == {}


def test_the_fliptest_holds_its_mean_more_often_than_it_says():
    # What nearest neighbours say depends on their number, so the truth is that of audits as large.
    world, shown = World(members=3, n=250), []
    for seed in range(AUDITS):
        one = draw(world, np.random.default_rng([seed, 6]), world.n, world.members)
        said = {key: one[key] for key in ("d", "p", "features")}
        shown.append(all_metrics(**said, only=["FT"])["FT"])
    truth = np.mean([one.value for one in shown])
    assert np.mean([one.low <= truth <= one.high for one in shown]) >= 0.93
