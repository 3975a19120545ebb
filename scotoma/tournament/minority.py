"""Does compression still change examples of the cells that training showed rarely?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scotoma.divergence import OverIndex, over_index
from scotoma.inputs import Codes, Flags, booleans

__all__ = ["MinorityCell", "minority_cells", "minority_examples"]


@dataclass(frozen=True)
class MinorityCell:
    """CIEs of one technique under one variant, and how many lie in minority cells.

    Attributes:
        technique: The technique, the baseline among them.
        variant: The compressed variant.
        flagged: Number of CIEs.
        share: CIEs in minority cells against their share of the test set.
    """

    technique: str
    variant: str
    flagged: int
    share: OverIndex


def minority_examples(
    training: tuple[Codes, Codes], test: tuple[Codes, Codes], shape: tuple[int, int]
) -> Flags:
    """Mark test examples of a class and group that training has less often than another group.

    Args:
        training: Group codes and class ids of the training examples, each shape (N,).
        test: The same of the test examples, each shape (N',).
        shape: Number of groups and classes.

    Returns:
        Shape (N',).

    >>> training = np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0])
    >>> minority_examples(training, (np.array([0, 1]), np.array([0, 0])), (2, 1))
    array([False,  True])
    """
    counts = np.zeros(shape, np.int64)
    np.add.at(counts, training, 1)
    return np.asarray((counts < counts.max(axis=0))[test])


def minority_cells(
    flags: Mapping[tuple[str, str], npt.ArrayLike],
    minority: npt.ArrayLike,
    *,
    members: int = 0,
    clusters: npt.ArrayLike | None = None,
) -> list[MinorityCell]:
    """Compare the share of minority cells among the CIEs with that in the test set.

    Args:
        flags: By (technique, variant), which test examples are CIEs, bool, shape (N,).
        minority: Which test examples are of minority cells, bool, shape (N,).
        members: Members of a population, for the record.
        clusters: Integer id of each row's cluster, shape (N,); None where every row is its own.

    >>> cie = np.arange(200) % 10 == 0
    >>> [cell] = minority_cells({("base", "prune-0.9"): cie}, np.arange(200) % 20 < 5)
    >>> cell.flagged, cell.share.n_flagged, cell.share.share_in_data
    (20, 10, 0.25)
    """
    return [
        MinorityCell(
            technique,
            variant,
            int(booleans(own, "flags").sum()),
            over_index(own, {"minority": minority}, members=members, clusters=clusters)[0],
        )
        for (technique, variant), own in flags.items()
    ]
