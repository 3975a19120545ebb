"""From probabilities of predicted classes to the rows of audit.json on confidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.answers.groups import Groups
from scotoma.errors import DataError
from scotoma.inputs import Floats
from scotoma.predictions import Predictions
from scotoma.robustness import RightAnswers
from scotoma.robustness.confidence import Familiarity, auroc, overconfidence
from scotoma.run import Run
from scotoma.stages.robustness.clean_energies import clean_energies_file
from scotoma.stages.robustness.corrupted import corrupted_file
from scotoma.stages.robustness.other_sets import set_file
from scotoma.stages.robustness.plan import RobustnessPlan

__all__ = ["confidence_report"]

CLEAN = "clean"  # in the place of a family
# By variant: of clean pictures, shape (n, K), and under each corruption, shape (C, S, n, K).
Scores: TypeAlias = dict[str, tuple[Floats, Floats]]


def confidence_report(
    run: Run,
    plan: RobustnessPlan,
    right: Mapping[str, RightAnswers],
    families: Mapping[str, list[int]],
    partition: Groups,
    clusters: NDArray[np.int64] | None,
) -> dict[str, Any]:
    """Measure how sure every population is, and whether it notices other pictures.

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
    measures = {"confidence": scores} | ({"energy": _read(run, plan, "energy")} if wide else {})
    return {
        "rows": list(_rows(run, scores, right, families, partition, clusters)),
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
    if column == "energy":
        frame = pl.read_parquet(clean_energies_file(run), columns=[column])
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


def _rows(
    run: Run,
    scores: Scores,
    right: Mapping[str, RightAnswers],
    families: Mapping[str, list[int]],
    partition: Groups,
    clusters: NDArray[np.int64] | None,
) -> Iterator[dict[str, Any]]:
    """Overconfidence of every variant, family and group."""
    excess = {name: _excess(*own, right[name], families) for name, own in scores.items()}
    for name, family in product(scores, (CLEAN, *families)):
        paired = run.config.variant(name).paired
        for key, group in zip(partition.keys, partition.masks, strict=True):
            own, dense = (excess[one][family][group] for one in (name, "dense"))
            kept = None if clusters is None else clusters[group]
            yield {
                "variant": name,
                "group": key,
                "family": family,
                "gap": overconfidence(own, clusters=kept),
                "gap_change": None
                if name == "dense"
                else overconfidence(own, dense, clusters=kept, paired=paired),
            }


def _excess(
    clean: Floats, corrupted: Floats, right: RightAnswers, families: Mapping[str, list[int]]
) -> dict[str, Floats]:
    """Confidence less right answers under each family, mean over conditions, shape (n, K)."""
    excess = corrupted - right.corrupted
    return {CLEAN: clean - right.clean} | {
        family: excess[places].reshape(-1, *clean.shape).mean(axis=0)
        for family, places in families.items()
    }


def _detection(
    run: Run,
    measure: str,
    scores: Scores,
    families: Mapping[str, list[int]],
    partition: Groups,
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
            yield place | _detected(run, name, measure, own, dense, kept)


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
            yield place | _detected(run, name, measure, own, dense, clusters)


def _detected(
    run: Run,
    name: str,
    measure: str,
    own: Familiarity,
    dense: Familiarity,
    clusters: NDArray[np.int64] | None,
) -> dict[str, Any]:
    paired = run.config.variant(name).paired
    return {
        "measure": measure,
        "auroc": auroc(own, clusters=clusters),
        "auroc_change": None
        if name == "dense"
        else auroc(own, dense, clusters=clusters, paired=paired),
    }
