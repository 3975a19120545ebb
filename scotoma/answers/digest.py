"""Are these the same answers to the same examples? Digests that know no order and no file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl


def answers_digest(
    ids: Sequence[str],
    answers: npt.ArrayLike,
    labels: npt.ArrayLike | None = None,
    classes: Sequence[str] = (),
) -> str:
    """SHA-256 of what models answered to which examples, whatever the order of rows and models.

    Args:
        ids: Example ids, unique, shape (N,).
        answers: Class ids or scores, shape (N, K).
        labels: True class ids, shape (N,); None where there are none.
        classes: Class names by id; none of scores. Names that do not occur change nothing.

    >>> one = answers_digest(["a", "b"], [[0], [1]], [0, 1], ["cat", "dog"])
    >>> one == answers_digest(["b", "a"], [[0], [1]], [0, 1], ["dog", "cat"])
    True
    >>> one == answers_digest(["a", "b"], [[1], [1]], [0, 1], ["cat", "dog"])
    False
    """
    order = pl.Series(ids, dtype=pl.String).arg_sort().to_numpy()
    table = np.asarray(answers)
    table = table if labels is None else np.column_stack([np.asarray(labels), table])
    used: list[str] = []
    if classes:
        occurring = np.unique(table).tolist()
        used = sorted(classes[code] for code in occurring)
        rank = np.zeros(len(classes), np.int32)
        place = {name: number for number, name in enumerate(used)}
        rank[occurring] = [place[classes[code]] for code in occurring]
        table = rank[table]
    table = table[order]
    columns = [hashlib.sha256(np.ascontiguousarray(one).tobytes()).digest() for one in table.T]
    first = [] if labels is None else columns[:1]
    digest = hashlib.sha256("\0".join(used).encode())
    for text in pl.Series(ids, dtype=pl.String).sort():
        digest.update(f"\0{text}".encode())
    for column in [*first, *sorted(columns[len(first) :])]:
        digest.update(column)
    return digest.hexdigest()
