"""From probabilities of predicted classes to the rows of audit.json on confidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.datasets import Partition
from scotoma.errors import DataError
from scotoma.predictions import Predictions
from scotoma.robustness import RightAnswers
from scotoma.robustness.confidence import (
    Confident,
    abstention,
    abstention_threshold,
    area_under_risk,
    calibration_excess,
    confidence_gap,
)
from scotoma.run import Run
from scotoma.stages.robustness_plan import Plan, corrupted_file

__all__ = ["CLEAN", "confidence_report"]

CLEAN = "clean"  # in the place of a family
Answered = dict[str, dict[str, Confident]]  # by variant and family


def confidence_report(
    run: Run,
    plan: Plan,
    right: Mapping[str, RightAnswers],
    families: Mapping[str, list[int]],
    partition: Partition,
    clusters: NDArray[np.int64] | None,
) -> dict[str, Any]:
    """Measure how sure every population is, and what abstaining would save.

    Args:
        run: Whose scores are read.
        plan: What was run.
        right: Right answers by variant.
        families: Places of the corruptions of each family.
        partition: Groups of the corrupted examples.
        clusters: Id of each of these examples' cluster, or None.

    Returns:
        `audit.robustness.ConfidenceReport` but for its plain values.
    """
    answered = _answered(run, plan, right, families)
    threshold = abstention_threshold(answered["dense"][CLEAN].confidence)
    rows = _rows(run, answered, threshold, partition, clusters)
    return {"threshold": threshold, "rows": list(rows)}


def _answered(
    run: Run,
    plan: Plan,
    right: Mapping[str, RightAnswers],
    families: Mapping[str, list[int]],
) -> Answered:
    frames = [pl.read_parquet(corrupted_file(run, c), columns=["score"]) for c in plan.conditions]
    scores = np.stack([frame["score"].to_numpy() for frame in frames])
    each = len(plan.conditions) // len(plan.kinds)
    scores = scores.reshape(len(plan.kinds), each, *scores.shape[1:])
    parts = np.split(scores, np.cumsum(list(plan.members.values()))[:-1], axis=-1)
    answered: Answered = {}
    for (name, members), own in zip(plan.members.items(), parts, strict=True):
        clean = Predictions.read(run.predictions(name)).scores
        if clean is None:
            raise DataError(
                f"predictions of {name} hold no scores, which robustness.confidence needs; repeat "
                "the audit with keep_scores: true in another folder"
            )
        shape = (-1, *right[name].clean.shape)
        answered[name] = {
            CLEAN: Confident(
                clean[plan.rows, :members].astype(np.float64)[None], right[name].clean[None]
            )
        } | {
            family: Confident(
                own[places].reshape(shape), right[name].corrupted[places].reshape(shape)
            )
            for family, places in families.items()
        }
    return answered


def _rows(
    run: Run,
    answered: Answered,
    threshold: float,
    partition: Partition,
    clusters: NDArray[np.int64] | None,
) -> Iterator[dict[str, Any]]:
    for name, by_family in answered.items():
        paired = run.config.variant(name).paired
        for family, whole in by_family.items():
            for key, group in zip(partition.keys, partition.masks, strict=True):
                own, kept = whole.of(group), None if clusters is None else clusters[group]
                dense = None if name == "dense" else answered["dense"][family].of(group)
                both = abstention(own, threshold, clusters=kept)
                every = key == "all"
                yield {
                    "variant": name,
                    "group": key,
                    "family": family,
                    "gap": confidence_gap(own, clusters=kept),
                    "gap_change": None
                    if dense is None
                    else confidence_gap(own, dense, clusters=kept, paired=paired),
                    "coverage": both.coverage,
                    "selective_error": both.selective_error,
                    "calibration_excess": calibration_excess(own, clusters=kept) if every else None,
                    "risk_area": area_under_risk(own, clusters=kept) if every else None,
                }
