"""What does each family of corruptions cost each group, compressed beside dense?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.answers.groups import Groups
from scotoma.audit.robustness import ALL_KINDS
from scotoma.numbers import Estimate
from scotoma.robustness import (
    RightAnswers,
    amplified_loss,
    corruption_draw_variance,
    group_contrast,
    group_tests,
    one_pair,
)

__all__ = ["family_loss_rows"]

Mask = NDArray[np.bool_]
Pair = tuple[RightAnswers, RightAnswers]


def family_loss_rows(
    right: Pair,
    ranked: Pair | None,
    families: Mapping[str, list[int]],
    partition: Groups,
    at_risk: Mapping[str, Mask],
    *,
    clusters: NDArray[np.int64] | None,
    draws: int,
    paired: bool,
) -> list[dict[str, Any]]:
    """Compare losses of one variant with those of dense, with Holm over groups by families.

    Args:
        right: Right answers of dense and of the variant.
        ranked: Whether labels are among the five best classes; None where that is not known.
        families: Places of the corruptions of each family.
        partition: The groups.
        at_risk: Examples at risk of each error, by metric.
        clusters: Id of each example's cluster; None leaves every one its own.
        draws: Draws of each random corruption.
        paired: Each compressed member derives from the dense one of its place.

    Returns:
        A row each group, family and metric, as `audit.robustness.LossRow`.
    """
    rows: list[dict[str, Any]] = []
    contrasts: dict[tuple[str, str], Estimate] = {}
    kinds = {metric: (right, mask) for metric, mask in at_risk.items()}
    if ranked is not None:
        kinds["top5"] = (ranked, at_risk["error"])
    for family, places in families.items():
        under = {
            m: (pair[0].under(places), pair[1].under(places)) for m, (pair, _) in kinds.items()
        }
        for key, group in zip(partition.keys, partition.masks, strict=True):
            for metric, (pair, mask) in kinds.items():
                own = under[metric]
                first = metric == "error"
                contrast = None
                if key != "all" and first:
                    contrast = group_contrast(*own, group, clusters=clusters, paired=paired)
                    if family != ALL_KINDS:
                        contrasts[key, family] = contrast
                draw_variance = None
                if key == "all" and first:
                    draw_variance = corruption_draw_variance(*pair, places, draws)
                found = amplified_loss(*own, group & mask, clusters=clusters, paired=paired)
                rows.append(
                    {
                        "group": key,
                        "family": family,
                        "metric": metric,
                        **_accuracies(pair, places, group & mask, clusters),
                        **{str(scale): one for scale, one in found.estimates.items()},
                        "absolute_variance": found.variances["absolute"],
                        "relative_variance": found.variances["relative"],
                        "depends_on_scale": found.depends_on_scale,
                        "one_pair": one_pair(*own, group & mask, paired=paired)
                        if key == "all" and first
                        else None,
                        "draw_variance": draw_variance,
                        "contrast": contrast,
                    }
                )
    tests = {(test.group, test.family): test for test in group_tests(contrasts)}
    for row in rows:
        test = tests.get((row["group"], row["family"])) if row["metric"] == "error" else None
        row["p"] = None if test is None else test.p
        row["p_adjusted"] = None if test is None else test.p_adjusted
    return rows


def _accuracies(
    pair: Pair, places: list[int], risk: Mask, clusters: NDArray[np.int64] | None
) -> dict[str, Estimate]:
    """Accuracy of both, on clean and on corrupted pictures."""
    return {
        f"{name}{part}": right.accuracy(which, at_risk=risk, clusters=clusters)
        for name, right in zip(("dense", "compressed"), pair, strict=True)
        for part, which in (("_clean", []), ("", places))
    }
