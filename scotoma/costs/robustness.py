"""What will an audit see on corrupted pictures and other test sets, and what will that cost?"""

from __future__ import annotations

import math
import time

import numpy as np

from scotoma.config import Config
from scotoma.corruptions import Profile, corrupt, family_of
from scotoma.costs.estimate import StepCost
from scotoma.costs.measure import ImageFacts, NetworkCost
from scotoma.costs.plan import RobustnessForecast
from scotoma.datasets import AuditedExamples
from scotoma.datasets.examples import stratified
from scotoma.robustness.external import find_conditions
from scotoma.robustness.losses import smallest_contrast
from scotoma.robustness.plan import refuse_impossible, suite_of
from scotoma.robustness.predict import set_pictures
from scotoma.sources.answers import supplied_models

TRIED = 8  # pictures that each corruption is timed on
ROW_BYTES = 16  # of an example beside its predictions


def forecast_robustness(
    config: Config,
    examples: AuditedExamples,
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
        None where neither is asked for, or the size of the pictures is not known.

    Raises:
        ConfigError: A corruption cannot be made, or a comparison.
        DataError: Another test set cannot be listed, or predictions on corrupted pictures lack a
            condition.
    """
    asked = config.robustness
    if asked is None or (asked.profile is not None and images.shape is None):
        return None
    members = {
        variant.name: min(config.models_of(variant.name), asked.asked_members)
        for variant in config.resolved_variants
    }
    refuse_impossible(asked, members)
    test, made_s = examples.split("test"), 0.0
    kinds: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    rows, severities = np.zeros(0, np.intp), asked.asked_severities
    if asked.files is not None:
        there = find_conditions(config, supplied_models(config, members), test)
        kinds, severities, rows = there.kinds, there.severities, there.rows
    elif asked.profile is not None and images.shape is not None:
        profile, kinds = suite_of(asked, min(images.shape))
        rows = stratified(test, asked.asked_examples, config.population.seed)
        left_out = tuple(profile.left_out)
        if network.image_s:
            made_s = sum(_seconds(profile, kind, images.shape) for kind in kinds)
    sets = {one.name: len(set_pictures(one, examples.classes).names) for one in asked.sets}
    kept = test.keep(np.isin(np.arange(test.table.height), rows))
    each = len(severities) * asked.corruption_seeds
    n, conditions = len(kept.image_ids), len(kinds) * each
    nearest = min(asked.checkpoints or 0, len(members) - 1)
    seconds = None
    if network.image_s:
        seen_s = sum(many * network.image_s[name] for name, many in members.items())
        answered = n * (conditions + asked.confidence) + sum(sets.values())
        # Clean pictures are shown to all checkpoints, corrupted ones to the nearest.
        shown = (asked.checkpoints or 0) + nearest * conditions
        on_the_way_s = n * shown * members["dense"] * network.image_s["dense"]
        seconds = (n * each * made_s + answered * seen_s + on_the_way_s) / network.workers
    models, on_the_way = sum(members.values()), nearest * members["dense"]
    wide = ROW_BYTES + models + on_the_way
    return RobustnessForecast(
        examples=n,
        conditions=conditions,
        models=models,
        on_the_way=on_the_way,
        cost=StepCost(seconds, (kept.table.height * conditions + sum(sets.values())) * wide),
        smallest={}
        if error is None or not kinds
        else _smallest(config, kept, kinds, len(severities), error),
        left_out=left_out,
        sets=sets,
        external=asked.files is not None,
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
    config: Config, kept: AuditedExamples, kinds: tuple[str, ...], severities: int, error: float
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
            members=min(config.fewest_models, config.robustness.asked_members),
            corruptions=min(map(families.count, families)),
            severities=severities,
            tests=tests,
            error=error,
        )
        found[name] = None if math.isnan(smallest) else smallest
    return found
