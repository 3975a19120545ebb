"""What does compression do to scores: of groups, of single examples, on slices?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scotoma.answers.digest import answers_digest
from scotoma.answers.note import AdmissionNote
from scotoma.audit.base import rows_at
from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.numbers import Estimate, undefined
from scotoma.numbers.inputs import first_difference
from scotoma.predictions import ScoredExamples
from scotoma.processes import progress
from scotoma.run import Run
from scotoma.sources.contract import Score

if TYPE_CHECKING:
    from scotoma.comparison.means import ScoreTable
    from scotoma.config import Variant


SHARES = (0.1, 0.5, 0.9)  # quantiles
SHOWN = 20  # examples that audit.json describes


def is_scored(run: Run) -> bool:
    """Whether the examples of a run have scores instead of classes."""
    return run.config.source.score is not None


def score_pairs(
    run: Run, examples: AuditedExamples, task: str
) -> Iterator[tuple[Variant, ScoreTable]]:
    """Set the scores of every compressed population beside those of the dense one.

    Args:
        run: Whose scores are read.
        examples: Its test examples.
        task: What progress is called.

    Raises:
        DataError: Scores are of other examples.
    """
    from scotoma.comparison.means import score_table

    variants = run.config.resolved_variants[1:]
    progress.start(task, len(variants))
    dense = _read(run, "dense", examples)
    for variant in variants:
        after = _read(run, variant.name, examples)
        yield (
            variant,
            score_table(dense.predicted, after.predicted, examples.clusters, paired=variant.paired),
        )
        progress.advance(task)


def _read(run: Run, name: str, examples: AuditedExamples) -> ScoredExamples:
    scores = ScoredExamples.read(run.predictions(name))
    if difference := first_difference(tuple(examples.ids), scores.example_ids):
        raise DataError(
            f"scores of {name} must be for the test examples in their order, got {difference}; "
            "run the audit again in a new folder"
        )
    return scores


def mean_sections(run: Run, examples: AuditedExamples) -> dict[str, Any]:
    """Measure means and quantiles of every group, as `MeasuredRows` has them."""
    from scotoma.comparison.means import group_effects
    from scotoma.comparison.quantiles import quantile_change

    groups = examples.partition()
    lower = _score(run).lower_is_better
    variants: list[dict[str, Any]] = []
    means: list[dict[str, Any]] = []
    quantiles: list[dict[str, Any]] = []
    for variant, table in score_pairs(run, examples, "measure groups"):
        effects = group_effects(table, groups.by_key)
        everyone, at = effects[0].score, {"variant": variant.name}
        if not variants:
            variants += _of_variant("dense", everyone.before, table.before)
        variants += _of_variant(variant.name, everyone.after, table.after)
        for one in effects:
            of_group, mean = at | {"group": one.group}, one.score
            spreads = {"absolute": mean.variance, "relative": mean.log_variance}
            means += rows_at(
                of_group,
                {
                    "dense": mean.before,
                    "compressed": mean.after,
                    "absolute": mean.change,
                    "worse": mean.change if lower else mean.change.negated(),
                    "relative": mean.worsening(lower_is_better=lower),
                    "p_adjusted": _alone(one.p_adjusted, mean.change),
                },
                "means.",
                spreads | {"worse": mean.variance},
            )
        for key, mask in zip(groups.keys, groups.masks, strict=True):
            for share in SHARES:
                found = quantile_change(table, share, mask)
                both = {"dense": found.before, "compressed": found.after, "absolute": found.change}
                quantiles += rows_at(
                    at | {"group": key, "facts": {"share": share}}, both, "quantiles."
                )
    notes: list[AdmissionNote] = []
    digests = {}
    for own in run.config.resolved_variants:
        scores = _read(run, own.name, examples)
        notes += scores.admission
        digests[own.name] = answers_digest(scores.example_ids, scores.predicted)
    return {"rows": [*variants, *means, *quantiles], "admission": notes, "answers": digests}


def _of_variant(
    name: str, mean: Estimate, scores: np.ndarray[Any, Any]
) -> Iterator[dict[str, Any]]:
    for row in rows_at({"variant": name}, {"mean": mean}):
        yield row | {"models": scores.mean(axis=0).tolist()}


def _alone(p: float, change: Estimate) -> Estimate:
    """A p-value, which has no interval."""
    reason = change.reason or "a p-value has no interval"
    return undefined(reason, value=p, n=change.n, members=change.members)


def changed_scores(run: Run, examples: AuditedExamples) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Rank the examples of every variant by how much worse they are scored.

    Returns:
        A row for each variant and example: `example_id`, `variant`, `dense` and `compressed` (means
        over members) and `worse`; and the first examples of each variant, as `ChangedScore`.
    """
    sign = 1.0 if _score(run).lower_is_better else -1.0
    frames, first = [], {}
    for variant, table in score_pairs(run, examples, "score divergence"):
        dense, compressed = table.before.mean(axis=1), table.after.mean(axis=1)
        frames.append(
            pl.DataFrame(
                {
                    "example_id": examples.ids,
                    "variant": [variant.name] * len(examples.ids),
                    "dense": dense,
                    "compressed": compressed,
                    "worse": sign * (compressed - dense),
                }
            )
        )
        order = np.argsort(-frames[-1]["worse"].to_numpy(), kind="stable")[:SHOWN]
        worst = [int(row) for row in order if frames[-1]["worse"][int(row)] > 0]
        attributes = examples.table.select(examples.attributes)
        first[variant.name] = [
            {
                "example_id": examples.ids[row],
                "dense": float(dense[row]),
                "compressed": float(compressed[row]),
                "attributes": attributes.row(row, named=True) if examples.attributes else {},
            }
            for row in worst
        ]
    return pl.concat(frames), first


def slice_question(table: ScoreTable, *, lower_is_better: bool) -> dict[str, Any]:
    """What a search for slices compares: the mean, in the direction that is worse."""
    return {
        "metric": "mean",
        "outcome": table.after,
        "baseline": table.before,
        "direction": "higher" if lower_is_better else "lower",
        "paired": table.paired,
    }


def _score(run: Run) -> Score:
    score = run.config.source.score
    assert score is not None
    return score
