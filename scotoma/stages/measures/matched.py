"""Do variants lose more than other models that are as accurate on clean pictures?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scotoma.robustness import RightAnswers, amplified_loss

if TYPE_CHECKING:
    from scotoma.stages.robustness.plan import RobustnessPlan

__all__ = ["matched_rows"]


def matched_rows(
    plan: RobustnessPlan,
    right: Callable[[str], RightAnswers],
    families: Mapping[str, list[int]],
    clusters: NDArray[np.int64] | None,
) -> Iterator[dict[str, Any]]:
    """Compare variants with what they were matched with, as if this were dense.

    Args:
        plan: Which variants are matched, and with what.
        right: Gives the right answers of a population by its name.
        families: Places of the corruptions of each family.
        clusters: Id of each corrupted example's cluster, or None.

    Yields:
        `audit.robustness.MatchedRow` but for its plain values.
    """
    for variant, match in plan.matched:
        own, other = right(variant), right(match)
        for family, places in families.items():
            found = amplified_loss(other.under(places), own.under(places), clusters=clusters)
            yield {
                "variant": variant,
                "matched": match,
                "family": family,
                "clean": own.accuracy([], clusters=clusters),
                "matched_clean": other.accuracy([], clusters=clusters),
                **{str(scale): one for scale, one in found.estimates.items()},
                "depends_on_scale": found.depends_on_scale,
            }
