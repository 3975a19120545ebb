"""What the metrics are computed from: checked arguments and cell counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scotoma.bias.clarify.cells import count_cells
from scotoma.bias.clarify.table import METRICS
from scotoma.errors import DataError
from scotoma.numbers import cluster_sums, n_effective
from scotoma.numbers.inputs import array, booleans, cluster_ids, coded, floats

if TYPE_CHECKING:
    from scotoma.bias.clarify.fliptest import Fliptest

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Case:
    """Checked arguments, and what several metrics need, computed once.

    `times` says how many examples each row stands for where `merged` put some together; `flips` is
    the fliptest of `with_flips`.
    """

    d: Bools
    y: Bools | None
    p: Bools | None
    strata: Ids | None
    strata_names: tuple[str, ...]
    features: Array | None
    labels: Ids | None
    clusters: Ids | None
    times: Array | None = None
    flips: Fliptest | None = None

    @cached_property
    def n(self) -> int:
        """Number of examples."""
        return self.d.size if self.times is None else int(self.times.sum())

    @property
    def n_clusters(self) -> int:
        """Number of clusters; every example is its own where there are none."""
        return self.n if self.clusters is None else int(self.clusters.max(initial=-1)) + 1

    def clusters_among(self, rows: Bools) -> int:
        """Number of clusters with at least one of the rows."""
        if self.times is not None:
            return int(self.times[rows].sum())
        return int(np.count_nonzero(cluster_sums(rows, self.clusters)))

    def effective_events(self, events: npt.ArrayLike) -> float:
        """Effective number of clusters that have the events of the rows: `n_effective`."""
        return n_effective(cluster_sums(events, self.clusters), self.times)

    @property
    def members(self) -> int:
        """Number of models."""
        return 1 if self.p is None else self.p.shape[1]

    @property
    def positive(self) -> Array:
        """Share of the models that predict each row positive, shape (N,)."""
        return np.asarray(np.mean(np.asarray(self.p, np.float64), axis=1), np.float64)

    @property
    def both_facets(self) -> bool:
        """Whether both facets occur."""
        return bool(self.d.any() and not self.d.all())

    @cached_property
    def counted(self) -> tuple[Array, Ids]:
        """Counts [member, stratum, facet, label, prediction], and the flat index into them, (N, K).

        What is not given counts as negative.
        """
        nobody = np.zeros(self.d.size, bool)
        y = nobody if self.y is None else self.y
        p = nobody[:, None] if self.p is None else self.p
        return count_cells(self.d, y, p, self.strata, self.times)

    @property
    def cells(self) -> Array:
        """Counts [member, stratum, facet, label, prediction]."""
        return self.counted[0]

    @cached_property
    def shares(self) -> Array:
        """Members that put each example into each cell of the facets, strata as one, (N, 8)."""
        index = self.counted[1]
        # Eight cells: two facets, each of two labels and two answers.
        cells = index % 8 + 8 * np.arange(len(index))[:, None]
        return np.bincount(cells.ravel(), minlength=8 * len(cells)).reshape(-1, 8).astype(float)

    @cached_property
    def label_counts(self) -> tuple[Array, Ids]:
        """Examples of each facet with each label, (2, C), and the flat index of each example."""
        assert self.labels is not None
        classes = int(self.labels.max(initial=0)) + 1
        index = self.d * classes + self.labels
        counts = np.bincount(index, minlength=2 * classes).reshape(2, classes)
        return counts.astype(np.float64), index


def read_case(
    *,
    d: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    p: npt.ArrayLike | None = None,
    strata: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    labels: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
) -> Case:
    """Check the arguments of the metrics.

    Args:
        d: Booleans, shape (N,).
        y: Booleans, shape (N,).
        p: Booleans, shape (N,) or (N, K), K >= 1.
        strata: Any values, shape (N,).
        features: Finite numbers, shape (N,) or (N, F).
        labels: Any values, shape (N,); y where it is None.
        clusters: Any values, shape (N,).

    Raises:
        DataError: No examples, an argument of another kind or length, a missing value.

    >>> read_case(d=[True, False, True], strata=["b", "a", "b"]).strata
    array([1, 0, 1])
    """
    facet = booleans(d, "d")
    n = facet.size
    if not n:
        raise DataError(
            "d must hold the facet of each example, got none: pass one value per example"
        )
    truth = None if y is None else booleans(y, "y", (n,))
    guess = None
    if p is not None:
        guess = array(p, "p")
        guess = booleans(guess, "p", (n, *guess.shape[1:2])).reshape(n, -1)
    x = None
    if features is not None:
        x = floats(features, "features")
        x = x[:, None] if x.ndim == 1 else x
        if x.shape[:1] != (n,) or x.ndim != 2 or not np.isfinite(x).all():
            raise DataError(
                f"features must be finite numbers, one row per example, got shape {x.shape} for "
                f"{n} examples: encode text and fill gaps first"
            )
    names, codes = _codes(strata, "strata", n)
    if labels is None and truth is not None:
        classes: Ids | None = truth.astype(np.intp)
    else:
        classes = _codes(labels, "labels", n)[1]
    return Case(facet, truth, guess, codes, names, x, classes, cluster_ids(clusters, n))


def standardised(features: npt.ArrayLike) -> Array:
    """Bring features to mean 0 and standard deviation 1, so that each counts alike in a distance.

    Args:
        features: Finite numbers, shape (N, F). A constant column becomes 0.

    >>> standardised([[1.0, 5.0], [3.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    x = np.asarray(features, np.float64)
    spread = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def merged(*cases: Case) -> list[Case]:
    """Cases of the same examples, those that agree in facet, stratum, label and predictions as one.

    The metrics of cells see nothing else of an example, and of one model there are few such rows.

    Args:
        cases: With the same arguments but for the predictions.

    Returns:
        As many cases of the same, shorter, rows, without features and labels; the cases themselves
        where rows share clusters.

    >>> case = read_case(d=[True, False, True], p=[True, False, True])
    >>> merged(case)[0].times.tolist(), merged(case)[0].d.tolist()
    ([1.0, 2.0], [False, True])
    """
    if cases[0].clusters is not None:
        return list(cases)
    rows, times = _representatives(cases)

    def of_rows(values: Any) -> Any:
        return None if values is None else values[rows]

    return [
        replace(
            case, d=case.d[rows], y=of_rows(case.y), p=of_rows(case.p), strata=of_rows(case.strata),
            features=None, labels=None, times=times.astype(np.float64),
        )
        for case in cases
    ]  # fmt: skip


def _representatives(cases: Sequence[Case]) -> tuple[Ids, Ids]:
    """One row of each kind that occurs, and how many there are of it."""
    first = cases[0]
    strata = np.zeros(first.d.shape, np.int64) if first.strata is None else first.strata
    key = (strata * 2 + first.d) * 2 + (0 if first.y is None else first.y)
    predictions = [case.p for case in cases if case.p is not None]
    p = np.concatenate([np.empty((key.size, 0), bool), *predictions], axis=1)
    bits = p.shape[1]
    if bits + int(key.max(initial=0)).bit_length() > 62:  # more than one integer holds
        parts = np.concatenate([key[:, None].view(np.uint8), np.packbits(p, axis=1)], axis=1)
        key = np.ascontiguousarray(parts).view(f"V{parts.shape[1]}").ravel()
    else:
        key = (key << bits) + p @ (1 << np.arange(bits, dtype=np.int64))
        if int(key.max(initial=0)) < 4 * key.size:  # counting takes a tenth of the time of sorting
            counts = np.bincount(key)
            place = np.zeros(counts.size, np.intp)
            place[key] = np.arange(key.size)
            return place[counts > 0], counts[counts > 0]
    _, rows, times = np.unique(key, return_index=True, return_counts=True)
    return rows, times


def with_flips(*cases: Case) -> list[Case]:
    """Cases of the same examples with the fliptest of their members, whose neighbours are the same.

    Without features, predictions or one of the facets they are left as they are.
    """
    from scotoma.bias.clarify.fliptest import fliptest  # SciPy's trees come with it

    first, predictions = cases[0], [case.p for case in cases if case.p is not None]
    if first.features is None or not (predictions and first.both_facets):
        return list(cases)
    whole = fliptest(first.features, first.d, np.concatenate(predictions, axis=1))
    parts = whole.split([case.members for case in cases])
    return [replace(case, flips=own) for case, own in zip(cases, parts, strict=True)]


def missing(name: str, case: Case) -> str:
    """Arguments that a metric needs and the case lacks, as "y and p"; empty if none.

    Raises:
        DataError: There is no metric of that name.

    >>> missing("RD", read_case(d=[True, False], y=[True, False]))
    'p'
    """
    if name not in METRICS:
        raise DataError(f"no metric is called {name!r}: choose among {', '.join(METRICS)}")
    return " and ".join(need for need in METRICS[name].needs if getattr(case, need) is None)


def _codes(values: npt.ArrayLike | None, name: str, n: int) -> tuple[tuple[str, ...], Ids | None]:
    """Names of the values that occur and the number of each example's value."""
    if values is None:
        return (), None
    distinct, codes = coded(values, name, n)
    return tuple(str(value) for value in distinct), codes
