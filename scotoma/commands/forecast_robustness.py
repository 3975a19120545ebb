"""What will an audit see on corrupted pictures, and what will that cost?"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from scotoma.config import Config
from scotoma.corruptions import Profile, corrupt, family_of
from scotoma.costs.estimate import StepCost
from scotoma.costs.images import ImageFacts
from scotoma.costs.measure import NetworkCost
from scotoma.datasets import Examples
from scotoma.datasets.stratified import stratified
from scotoma.robustness.planted import smallest_contrast
from scotoma.stages.other_sets import set_pictures
from scotoma.stages.robustness_plan import suite_of

__all__ = ["RobustnessForecast", "forecast_robustness"]

TRIED = 8  # pictures that each corruption is timed on
ROW_BYTES = 16  # of an example beside its predictions


@dataclass(frozen=True)
class RobustnessForecast:
    """What the step on corrupted pictures does, costs and finds.

    Attributes:
        examples: Test examples that are corrupted.
        conditions: Corruptions times severities times draws.
        models: Members of all variants that are run.
        cost: Its time and disk.
        smallest: The extra loss of each group, a fraction, that one family shows in 90% of audits;
            None where the group or the rest is too small to be compared.
        left_out: Corruptions that are not made.
    """

    examples: int
    conditions: int
    models: int
    cost: StepCost
    smallest: dict[str, float | None]
    left_out: tuple[str, ...]


def forecast_robustness(
    config: Config,
    examples: Examples,
    error: float | None,
    images: ImageFacts,
    network: NetworkCost,
) -> RobustnessForecast | None:
    """Time every corruption on a few pictures of noise, and compute what each group can show.

    Args:
        config: What is audited.
        examples: Both splits, without images.
        error: Error that dense members are assumed to make; None leaves out what groups can show.
        images: Their size.
        network: What predicting an image takes.

    Returns:
        None where no picture is to be corrupted, or their size is not known.

    Raises:
        ConfigError: A corruption cannot be made.
        DataError: Another test set cannot be listed.
    """
    asked = config.robustness
    if asked is None or asked.files is not None or images.shape is None:
        return None
    profile, kinds = suite_of(asked, min(images.shape))
    for one in asked.sets:
        set_pictures(one, examples.classes)
    test = examples.split("test")
    rows = stratified(test, asked.examples, config.population.seed)
    kept = test.keep(np.isin(np.arange(test.table.height), rows))
    each = len(asked.severities) * asked.corruption_seeds
    members = {v.name: min(config.models_of(v.name), asked.members) for v in
               config.resolved_variants}  # fmt: skip
    n, conditions = kept.table.height, len(kinds) * each
    seconds = None
    if network.image_s:
        made_s = each * sum(_seconds(profile, kind, images.shape) for kind in kinds)
        seen_s = conditions * sum(many * network.image_s[name] for name, many in members.items())
        seconds = n * (made_s + seen_s) / network.workers
    disk = conditions * n * (ROW_BYTES + sum(members.values()))
    return RobustnessForecast(
        examples=n,
        conditions=conditions,
        models=sum(members.values()),
        cost=StepCost(seconds, disk),
        smallest={} if error is None else _smallest(config, kept, kinds, error),
        left_out=tuple(profile.left_out),
    )


def _seconds(profile: Profile, kind: str, shape: tuple[int, int]) -> float:
    """Time that one corruption takes an image at a middle severity."""
    noise = np.random.default_rng(0).integers(0, 256, (TRIED, *shape, 3), np.uint8)
    ids = [str(place) for place in range(TRIED)]
    corrupt(noise[:1], ids[:1], kind, 3, profile, seed=0)  # what is loaded once
    began = time.perf_counter()
    corrupt(noise, ids, kind, 3, profile, seed=0)
    return (time.perf_counter() - began) / TRIED


def _smallest(
    config: Config, kept: Examples, kinds: tuple[str, ...], error: float
) -> dict[str, float | None]:
    """The effect in each group, under the family of fewest corruptions."""
    assert config.robustness is not None
    groups = kept.partition()
    families = [family_of(kind) for kind in kinds]
    tests = (len(groups.keys) - 1) * len(set(families))
    clusters = kept.clusters
    found: dict[str, float | None] = {}
    for name, mask in zip(groups.names[1:], groups.masks[1:], strict=True):
        sizes = [
            int(own.sum()) if clusters is None else len(np.unique(clusters[own]))
            for own in (mask, ~mask)
        ]
        smallest = smallest_contrast(
            *sizes,
            members=min(config.fewest_models, config.robustness.members),
            corruptions=min(map(families.count, families)),
            severities=len(config.robustness.severities),
            tests=tests,
            error=error,
        )
        found[name] = None if math.isnan(smallest) else smallest
    return found
