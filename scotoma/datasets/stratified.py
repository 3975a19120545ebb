"""Which examples stand for all of them? A share of every group and class, chosen by a seed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from scotoma.datasets.examples import AuditedExamples

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stratified(examples: AuditedExamples, number: int, seed: int) -> NDArray[np.intp]:
    """Choose examples so that each combination of attributes and class keeps its share.

    Args:
        examples: From which to choose; images are not read.
        number: How many; all where there are no more.
        seed: Decides which, together with their ids; the order of the rows does not.

    Returns:
        Their rows, ascending.

    >>> from scotoma.config import default_config
    >>> from scotoma.sources.reading import load_examples
    >>> test = load_examples(default_config()).split("test")
    >>> len(stratified(test, 300, seed=0)), len(stratified(test, 9_999, seed=0))
    (300, 1798)
    """
    ids = examples.ids
    if number >= len(ids):
        return np.arange(len(ids))
    lots = np.array([hashlib.sha256(f"{seed}/{one}".encode()).hexdigest() for one in ids])
    strata = examples.table.select("label", *examples.attributes).rows()
    places: dict[tuple[object, ...], list[int]] = {}
    for row in np.argsort(lots):
        places.setdefault(strata[row], []).append(int(row))
    shares = {stratum: number * len(rows) / len(ids) for stratum, rows in places.items()}
    counts = {stratum: int(share) for stratum, share in shares.items()}
    # The largest remainders get what rounding down has left; of equal ones that of the first lot.
    most = sorted(
        shares, key=lambda stratum: (counts[stratum] - shares[stratum], lots[places[stratum][0]])
    )
    for stratum in most[: number - sum(counts.values())]:
        counts[stratum] += 1
    return np.sort([row for stratum, rows in places.items() for row in rows[: counts[stratum]]])
