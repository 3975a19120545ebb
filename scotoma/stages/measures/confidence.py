"""From probabilities of predicted classes to the rows of audit.json on confidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.datasets import Partition
from scotoma.errors import DataError
from scotoma.inputs import Floats
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
from scotoma.robustness.detection import Familiarity, accepted_share, auroc
from scotoma.robustness.temperature import mean_temperature
from scotoma.run import Run
from scotoma.stages.robustness.clean_scores import clean_scores_file
from scotoma.stages.robustness.corrupted import corrupted_file
from scotoma.stages.robustness.other_sets import set_file
from scotoma.stages.robustness.plan import RobustnessPlan
from scotoma.uncertainty import Estimate

__all__ = ["CLEAN", "confidence_report"]

CLEAN = "clean"  # in the place of a family
Answered = dict[str, dict[str, Confident]]  # by variant and family
# By variant: of clean pictures, shape (n, K), and under each corruption, shape (C, S, n, K).
Scores: TypeAlias = dict[str, tuple[Floats, Floats]]


def confidence_report(
    run: Run,
    plan: RobustnessPlan,
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
    scores, wide = _read(run, plan, "score"), plan.config.files is None
    sure = _confident(scores, right, families)
    tempered = _confident(_read(run, plan, "tempered"), right, families) if wide else {}
    threshold = abstention_threshold(sure["dense"][CLEAN].confidence)
    measures = {"confidence": scores} | ({"energy": _read(run, plan, "energy")} if wide else {})
    return {
        "threshold": threshold,
        "rows": list(_rows(run, sure, tempered, threshold, partition, clusters)),
        "temperatures": _temperatures(run, plan, clusters) if wide else {},
        "detection": [
            row
            for measure, own in measures.items()
            for row in (
                *_detection(run, measure, own, families, partition, clusters),
                *_of_sets(run, plan, measure, own, clusters),
            )
        ],
    }


def _read(run: Run, plan: RobustnessPlan, column: str) -> Scores:
    """A column of every variant: of clean pictures, and under each condition."""
    frames = [pl.read_parquet(corrupted_file(run, c), columns=[column]) for c in plan.conditions]
    every = np.zeros((0, len(plan.rows), sum((plan.members | plan.on_the_way).values())))
    if frames:
        every = np.stack([frame[column].to_numpy() for frame in frames]).astype(np.float64)
    each = len(plan.severities) * plan.draws
    parts = _by_variant(plan, every.reshape(len(plan.kinds), each, *every.shape[1:]))
    if column != "score":
        frame = pl.read_parquet(clean_scores_file(run), columns=[column])
        clean = _by_variant(plan, frame[column].to_numpy().astype(np.float64))
        return {name: (clean[name], parts[name]) for name in parts}
    scores: Scores = {}
    for name, members in plan.members.items():
        held = Predictions.read(run.predictions(name)).scores
        if held is None:
            raise DataError(
                f"predictions of {name} hold no scores, which robustness.confidence needs; repeat "
                "the audit with keep_scores: true in another folder"
            )
        scores[name] = held[plan.rows, :members].astype(np.float64), parts[name]
    return scores


def _by_variant(plan: RobustnessPlan, values: Floats) -> dict[str, Floats]:
    """Cut the last axis, of all members that were run, into those of each variant."""
    populations = plan.by_population(values)
    return {name: populations[name] for name in plan.members}


def _confident(
    scores: Scores, right: Mapping[str, RightAnswers], families: Mapping[str, list[int]]
) -> Answered:
    answered: Answered = {}
    for name, (clean, corrupted) in scores.items():
        own, shape = right[name], (-1, *clean.shape)
        answered[name] = {CLEAN: Confident(clean[None], own.clean[None])} | {
            family: Confident(
                corrupted[places].reshape(shape), own.corrupted[places].reshape(shape)
            )
            for family, places in families.items()
        }
    return answered


def _temperatures(
    run: Run, plan: RobustnessPlan, clusters: NDArray[np.int64] | None
) -> dict[str, Estimate]:
    """The temperature of each population, fitted to clean pictures."""
    frame = pl.read_parquet(clean_scores_file(run), columns=["temperature", "influence"])
    columns = {
        name: _by_variant(plan, frame[name].to_numpy().astype(np.float64)) for name in frame.columns
    }
    return {
        name: mean_temperature(
            columns["temperature"][name].mean(axis=0), columns["influence"][name], clusters=clusters
        )
        for name in plan.members
    }


def _detection(
    run: Run,
    measure: str,
    scores: Scores,
    families: Mapping[str, list[int]],
    partition: Partition,
    clusters: NDArray[np.int64] | None,
) -> Iterator[dict[str, Any]]:
    """Clean pictures against corrupted ones, by group."""
    for name, family in product(scores, families):
        for key, group in zip(partition.keys, partition.masks, strict=True):
            own, dense = (
                Familiarity(
                    clean[group],
                    corrupted[families[family]][:, :, group].reshape(
                        -1, int(group.sum()), clean.shape[1]
                    ),
                )
                for clean, corrupted in (scores[name], scores["dense"])
            )
            kept = None if clusters is None else clusters[group]
            place = {"variant": name, "group": key, "pictures": family, "other_set": False}
            yield place | _detected(run, name, measure, own, dense, kept, key)


def _of_sets(
    run: Run, plan: RobustnessPlan, measure: str, scores: Scores, clusters: NDArray[np.int64] | None
) -> Iterator[dict[str, Any]]:
    """Clean pictures against those of other sets."""
    column = "score" if measure == "confidence" else measure
    for asked in plan.config.sets:
        frame = pl.read_parquet(set_file(run, asked), columns=[column])
        others = _by_variant(plan, frame[column].to_numpy().astype(np.float64))
        for name in scores:
            own, dense = (Familiarity(scores[one][0], others[one]) for one in (name, "dense"))
            place = {"variant": name, "group": "all", "pictures": asked.name, "other_set": True}
            yield place | _detected(run, name, measure, own, dense, clusters, "all")


def _detected(
    run: Run,
    name: str,
    measure: str,
    own: Familiarity,
    dense: Familiarity,
    clusters: NDArray[np.int64] | None,
    group: str,
) -> dict[str, Any]:
    paired = run.config.variant(name).paired
    return {
        "measure": measure,
        "auroc": auroc(own, clusters=clusters),
        "auroc_change": None
        if name == "dense"
        else auroc(own, dense, clusters=clusters, paired=paired),
        "accepted": accepted_share(own, clusters=clusters) if group == "all" else None,
    }


def _rows(
    run: Run,
    answered: Answered,
    tempered: Answered,
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
                calm = tempered[name][family].of(group) if tempered else None
                calm_dense = (
                    tempered["dense"][family].of(group) if calm and dense is not None else None
                )
                yield {
                    "variant": name,
                    "group": key,
                    "family": family,
                    "gap": confidence_gap(own, clusters=kept),
                    "gap_change": None
                    if dense is None
                    else confidence_gap(own, dense, clusters=kept, paired=paired),
                    "tempered_gap": confidence_gap(calm, clusters=kept) if calm else None,
                    "tempered_gap_change": confidence_gap(
                        calm, calm_dense, clusters=kept, paired=paired
                    )
                    if calm and calm_dense
                    else None,
                    "tempered_excess": calibration_excess(calm, clusters=kept)
                    if calm and every
                    else None,
                    "coverage": both.coverage,
                    "selective_error": both.selective_error,
                    "calibration_excess": calibration_excess(own, clusters=kept) if every else None,
                    "risk_area": area_under_risk(own, clusters=kept) if every else None,
                }
