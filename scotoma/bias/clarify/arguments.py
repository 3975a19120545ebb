"""What the metrics are computed from: checked arguments, facets, cell counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.bias.clarify.fliptest import Fliptest, fliptest
from scotoma.bias.clarify.rates import count_cells
from scotoma.bias.clarify.table import METRICS
from scotoma.errors import DataError
from scotoma.inputs import booleans, units

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.intp]


def facets(
    values: npt.ArrayLike,
    *,
    disadvantaged: Iterable[Any] | None = None,
    above: float | None = None,
) -> dict[str, Bools]:
    """Split an attribute into disadvantaged and advantaged examples.

    Args:
        values: One value an example, shape (N,).
        disadvantaged: Values that together make facet d; the rest is a. None: every value against
            the rest, each in turn.
        above: For a number: facet d is the interval (above, max].

    Returns:
        Name of each facet d to its booleans, shape (N,), to be passed as `d`.

    Raises:
        DataError: Both or impossible choices: a value that does not occur, a text with `above`.

    >>> list(facets(["north", "south", "west"]))
    ['north', 'south', 'west']
    >>> facets([31, 40, 64], above=40)
    {'(40, 64]': array([False, False,  True])}
    """
    column = np.asarray(values)
    if column.ndim != 1 or column.size == 0:
        raise DataError(f"values must be one a example, got shape {column.shape}: pass one column")
    if above is not None:
        if disadvantaged is not None or column.dtype.kind not in "iufb":
            raise DataError(
                f"above={above} needs a column of numbers and no list of values, got "
                f"{column.dtype}: pass disadvantaged for named values"
            )
        return {f"({above:g}, {column.max():g}]": np.asarray(column > above)}
    if disadvantaged is None:
        return {str(value): np.asarray(column == value) for value in np.unique(column)}
    chosen = list(disadvantaged)
    absent = [value for value in chosen if not (column == value).any()]
    if absent or not chosen:
        raise DataError(
            f"disadvantaged must hold values that occur, got {absent or chosen}: "
            f"choose among {', '.join(str(value) for value in np.unique(column)[:10])}"
        )
    return {" or ".join(str(value) for value in chosen): np.isin(column, chosen)}


@dataclass(frozen=True)
class Case:
    """Checked arguments, and what several metrics need, computed once."""

    d: Bools
    y: Bools | None
    p: Bools | None
    strata: Ids | None
    strata_names: tuple[str, ...]
    features: Array | None
    labels: Ids | None
    clusters: Ids | None

    @property
    def n(self) -> int:
        """Number of examples."""
        return self.d.size

    @property
    def units(self) -> int:
        """Independent units: clusters, or examples."""
        return self.n if self.clusters is None else int(self.clusters.max(initial=-1)) + 1

    @property
    def members(self) -> int:
        """Number of models."""
        return 1 if self.p is None else self.p.shape[1]

    @property
    def both_facets(self) -> bool:
        """Whether both facets occur."""
        return bool(self.d.any() and not self.d.all())

    @cached_property
    def _counted(self) -> tuple[Array, Ids]:
        nobody = np.zeros(self.n, bool)
        y = nobody if self.y is None else self.y
        p = nobody[:, None] if self.p is None else self.p
        return count_cells(self.d, y, p, self.strata)

    @property
    def cells(self) -> Array:
        """Counts [member, stratum, facet, label, prediction]."""
        return self._counted[0]

    @property
    def index(self) -> Ids:
        """Flat cell of each example on each member, shape (N, K)."""
        return self._counted[1]

    @cached_property
    def label_cells(self) -> Ids:
        """Flat index into label_counts of each example, shape (N,)."""
        assert self.labels is not None
        return self.d * (int(self.labels.max(initial=0)) + 1) + self.labels

    @cached_property
    def label_counts(self) -> Array:
        """Examples of each facet with each label, shape (2, C)."""
        assert self.labels is not None
        classes = int(self.labels.max(initial=0)) + 1
        counts = np.bincount(self.label_cells, minlength=2 * classes)
        return counts.reshape(2, classes).astype(np.float64)

    @cached_property
    def flips(self) -> Fliptest:
        """The fliptest of every member."""
        assert self.features is not None
        assert self.p is not None
        return fliptest(self.features, self.d, self.p)


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
        DataError: An argument of another kind or length.

    >>> read_case(d=[True, False, True], strata=["b", "a", "b"]).strata
    array([1, 0, 1])
    """
    facet = booleans(d, "d")
    n = facet.size
    truth = None if y is None else booleans(y, "y", (n,))
    guess = None
    if p is not None:
        shape = np.shape(p)
        guess = booleans(p, "p", (n, *shape[1:2])).reshape(n, -1)
    x = None
    if features is not None:
        x = np.asarray(features, np.float64)
        x = x[:, None] if x.ndim == 1 else x
        if x.shape[:1] != (n,) or x.ndim != 2 or not np.isfinite(x).all():
            raise DataError(
                f"features must be finite numbers, a row an example, got shape {x.shape} for {n} "
                "examples: encode text and fill gaps first"
            )
    names, codes = _codes(strata, "strata", n)
    if labels is None and truth is not None:
        classes: Ids | None = truth.astype(np.intp)
    else:
        classes = _codes(labels, "labels", n)[1]
    return Case(facet, truth, guess, codes, names, x, classes, units(clusters, n))


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
    column = np.asarray(values)
    if column.shape != (n,):
        raise DataError(
            f"{name} must hold one value an example, got shape {column.shape} for {n} examples: "
            "align it with d"
        )
    names, codes = np.unique(column, return_inverse=True)
    return tuple(str(value) for value in names), codes.astype(np.intp)
