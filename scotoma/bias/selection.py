"""How often is each group given the favourable outcome? No label is asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scotoma.bias.counting import RateMetric, group_masks, tally
from scotoma.bias.results import GroupChange, GroupRate
from scotoma.bias.subgroup import change_at, rate_at
from scotoma.errors import DataError
from scotoma.numbers import ChangeEvidence, RateEvidence, check_level

__all__ = ["selection_changes", "selection_rates"]

SELECTED = RateMetric("selected", None, "selection", "examples")
EVENTS = 1  # of labels that are all negative, what is selected is a false positive


def selection_rates(
    selected: npt.ArrayLike,
    groups: npt.ArrayLike,
    names: Sequence[str],
    *,
    clusters: npt.ArrayLike | None = None,
    level: float = 0.95,
) -> list[GroupRate]:
    """Estimate the share of every group that is selected, averaged over models.

    Args:
        selected: Whether each example gets the favourable outcome, bool, shape (N, K).
        groups: Who belongs to which group, bool, shape (G, N); groups may overlap.
        names: One name a group.
        clusters: Id of each row's cluster, shape (N,); None where every row is its own.
        level: Coverage of the intervals, a fraction in (0, 1).

    Raises:
        DataError: Shapes that do not fit together, or a level that is no fraction.

    >>> (rate,) = selection_rates([[True], [False], [True], [True]], [[True] * 4], ["all"])
    >>> rate.metric, rate.rate.value, rate.rate.n
    ('selected', 0.75, 4)
    """
    check_level(level)
    hits = _hits(selected)
    masks = group_masks(groups, len(hits), names)
    nobody = np.zeros(len(hits), np.intp)
    moments = tally(nobody, hits, None, masks, positive=1, n_classes=2, clusters=clusters)
    known = RateEvidence.of_tally(moments)
    return [rate_at(known, (g, EVENTS), name, SELECTED, level) for g, name in enumerate(names)]


def selection_changes(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    groups: npt.ArrayLike,
    names: Sequence[str],
    *,
    kind: RateMetric = SELECTED,
    clusters: npt.ArrayLike | None = None,
    paired: bool = False,
    level: float = 0.95,
) -> list[GroupChange]:
    """Estimate how compression changes the share of every group that is selected.

    Args:
        dense: Whether dense models select each example, bool, shape (N, K).
        compressed: Whether compressed models do, shape (N, K').
        groups: As for `selection_rates`, like all that are not described.
        names: One name a group.
        kind: What models do to the examples, in words.
        clusters: Id of each row's cluster.
        paired: Member m of `compressed` derives from member m of `dense`.
        level: Coverage of the intervals.

    Raises:
        DataError: As for `selection_rates`; paired populations of different size.

    >>> half, all_of_them = np.arange(80) % 2 == 0, np.ones(80, bool)
    >>> (row,) = selection_changes(half[:, None], all_of_them[:, None], [all_of_them], ["all"])
    >>> row.dense.value, row.compressed.value, row.absolute.value
    (0.5, 1.0, 0.5)
    """
    check_level(level)
    d, c = _hits(dense), _hits(compressed)
    masks = group_masks(groups, len(d), names)
    nobody = np.zeros(len(d), np.intp)
    moments = tally(nobody, d, c, masks, positive=1, n_classes=2, paired=paired, clusters=clusters)
    known = ChangeEvidence.of_tally(moments)
    return [change_at(known, (g, EVENTS), name, kind, level) for g, name in enumerate(names)]


def _hits(selected: npt.ArrayLike) -> npt.NDArray[np.intp]:
    hits = np.asarray(selected)
    if hits.ndim != 2 or not hits.size:
        raise DataError(
            f"selected must have a column a model and a row an example, got shape {hits.shape}"
        )
    return hits.astype(bool).astype(np.intp)
