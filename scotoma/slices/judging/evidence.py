"""What does a search ask of an outcome, and how probable is it by chance?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammaln, stdtr

from scotoma.numbers import Estimate
from scotoma.numbers.inputs import Codes, Flags, Floats, Ints
from scotoma.slices.judging.tally import Cells, ClusterSums, Part, Rows, Sums, Tallied
from scotoma.slices.outcomes import Outcome, shuffle

Direction = Literal["higher", "lower", "both"]
Shared = tuple[ClusterSums, ClusterSums]


@dataclass(frozen=True)
class JudgedCells:
    """The results of testing the cells of a block.

    Attributes:
        size: Rows of every cell, shape (cells,).
        cell: The cells that were tested, ascending, shape (T,).
        effect: Their metric minus what it is compared with, shape (T,).
        p: Their p-values, shape (T,); those certain to exceed the search's `keep` may be 1.
    """

    size: Rows
    cell: Rows
    effect: Floats
    p: Floats


class Lane(ABC):
    """A test: what each row adds to its slice, and what follows from the sums of a slice.

    Sums may be added up anywhere and in any order.
    """

    @property
    def exchanges(self) -> bool:
        """Whether outcomes are shuffled by exchanging the two populations."""
        return False

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """Numbers in each of the sums."""

    @abstractmethod
    def adds(self, outcome: Outcome) -> list[Part]:
        """What each row adds to each of the sums, the first of which counts rows."""

    @abstractmethod
    def judge(
        self, sums: Sums, whole: Sums, least: int, keep: float, shared: Shared | None = None
    ) -> JudgedCells:
        """Test every cell that holds enough rows.

        Args:
            sums: Of every cell, arrays of shape (cells,) or (cells, W).
            whole: Of all rows, as one cell.
            least: Rows that a slice must hold.
            keep: P-values beyond this interest nobody.
            shared: The sums of `over` in each cell and in all rows, by cluster; None where every
                row is its own.
        """

    def over(self, parts: list[Part]) -> Floats | None:
        """What is summed by cluster, from what each row adds; None where clusters do not count."""
        return None

    def effect(self, sums: Sums, whole: Sums, level: float) -> Estimate | None:
        """The interval that goes with the test, of one cell; None for that of `Number`."""
        return None


@dataclass(frozen=True, eq=False)
class Evidence:
    """An outcome of every row, and the lane in which slices are tested.

    Attributes:
        lane: The test.
        known: The outcome of these rows, or of the rows that they are a part of.
        clusters: Code of each row's cluster; None where every row is its own.
        part: The evidence on more rows, perhaps a part itself, and which of them these are: a row
            adds what it adds there. That is picked once, in order, for all parts of this part.
    """

    lane: Lane
    known: Outcome
    clusters: Codes | None
    part: tuple[Evidence, Rows] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.known.rows.size if self.part is None else self.part[1].size

    @property
    def width(self) -> int:
        """Numbers of 8 bytes that a cell needs, which bounds the cells of a block."""
        return 4 * sum(self.lane.widths)

    @property
    def exact(self) -> bool:
        """Whether sums of sums are the sums to the last digit: they are of whole numbers."""
        kinds = [np.intp if lanes is None else lanes.dtype for _, lanes in self.parts]
        return all(np.issubdtype(kind, np.integer) for kind in kinds)

    def judge(self, cells: Tallied, least: int, keep: float) -> JudgedCells:
        """Test every cell that holds enough rows, as `Lane.judge` says."""
        others = [cells.add(*part) for part in self.parts[1:]]
        counted = self._counted
        size = cells.add() if counted is None else others[counted][:, 0].astype(np.intp)
        sums = (size, *others)
        shared = None
        if self.clusters is not None and self.over is not None:
            shared = ClusterSums.of(cells.keys, self.clusters, self.over), self._each
        return self.lane.judge(sums, self._whole, least, keep, shared)

    def effect(self, inside: Flags, level: float) -> Estimate | None:
        """The interval of one slice that goes with the test; None for that of `Number`."""
        cells = Cells(np.where(inside, 0, 1)[None], 2)
        sums = tuple(cells.add(*part)[:1] for part in self.parts)
        return self.lane.effect(sums, self._whole, level)

    def take(self, rows: Rows) -> Evidence:
        """Keep some of the rows."""
        clusters = None if self.clusters is None else self.clusters[rows]
        return Evidence(self.lane, self.known, clusters, (self, rows))

    def shuffled(self, rng: np.random.Generator) -> Evidence:
        """Shuffle the outcome, so that no slice means anything; clusters stay where they are."""
        if not self.lane.exchanges:
            moved = self.take(shuffle(self.rows, self.clusters, rng))
            return replace(moved, clusters=self.clusters)
        outcome = self._known
        exchanged = replace(outcome, clusters=self.clusters).shuffled(rng, exchange=True)
        return replace(self, known=exchanged, part=None)

    @property
    def _known(self) -> Outcome:
        """The outcome of these rows."""
        return self.known if self.part is None else self.part[0]._known.take(self.part[1])

    @cached_property
    def parts(self) -> list[Part]:
        """What each row adds to each of the sums."""
        if self.part is None:
            return self.lane.adds(self.known)
        whole, rows = self.part
        return [_taken(part, rows, whole.rows) for part in whole.parts]

    @cached_property
    def over(self) -> Floats | None:
        """What is summed by cluster; None where clusters do not count."""
        return None if self.clusters is None else self.lane.over(self.parts)

    @cached_property
    def _counted(self) -> int | None:
        """Place of a sum whose first number counts rows too: they need not be counted again."""
        for place, (rows, lanes) in enumerate(self.parts[1:]):
            if rows is None and lanes is not None and (lanes[:, 0] == 1).all():
                return place
        return None

    @cached_property
    def _whole(self) -> Sums:
        return tuple(
            np.array([self.rows if rows is None else rows.size])
            if lanes is None
            else lanes.sum(0)[None]
            for rows, lanes in self.parts
        )

    @cached_property
    def _each(self) -> ClusterSums:
        """Sums over all rows of each cluster."""
        assert self.clusters is not None
        assert self.over is not None
        return ClusterSums.of(np.zeros((1, self.rows), np.int64), self.clusters, self.over)


def _taken(part: Part, rows: Rows, total: int) -> Part:
    """What some rows add to a sum, of what all add."""
    adding, lanes = part
    if adding is None:
        return None, None if lanes is None else np.take(lanes, rows, axis=0)
    place = np.full(total, -1)
    place[adding] = np.arange(adding.size)
    own = place[rows]
    known = np.flatnonzero(own >= 0)
    return known, None if lanes is None else np.take(lanes, own[known], axis=0)


BLOCK = 1 << 15  # cells whose tails are summed together: their columns stay in the cache
NEGLIGIBLE = 1e-17  # next to a sum of 1 in double precision


def hypergeometric_tail(
    events: npt.ArrayLike, size: npt.ArrayLike, all_events: int, rows: int, *, keep: float = 1.0
) -> Floats:
    """Compute the chance that a random slice of this size holds at least this many events.

    The events of all rows are fixed; a slice that has nothing to do with them is a draw of `size`
    rows without replacement. This is Fisher's exact test of the slice against the rest.

    Args:
        events: Events in each slice, shape (M,), integers.
        size: Rows of each slice, shape (M,), integers with events <= size <= rows.
        all_events: Events among all rows.
        rows: All rows.
        keep: P-values that are certain to exceed this may be returned as 1, unsummed.

    Returns:
        Upper tail probabilities, fractions in [0, 1], shape (M,); relative error about 1e-10.

    References:
        Fisher (1935), The design of experiments, section 11.

    >>> round(float(hypergeometric_tail([8], [30], 50, 1000)[0]), 7)
    5.58e-05
    """
    k, n = np.broadcast_arrays(np.asarray(events, np.int64), np.asarray(size, np.int64))
    logs = _log_factorials(rows)
    tails = np.ones(k.shape)
    above = k * rows > n * all_events
    for first in range(0, k.size, BLOCK):
        part = slice(first, first + BLOCK)
        tails[part] = _upper(k[part], n[part], above[part], all_events, rows, logs, keep)
    return tails


@lru_cache(maxsize=4)
def _log_factorials(rows: int) -> Floats:
    """log((i - 1)!) at place i: every count of rows + 1 is asked for, block after block."""
    return np.asarray(gammaln(np.arange(rows + 2, dtype=np.float64)))


def _upper(
    k: Ints, n: Ints, above: npt.NDArray[np.bool_], K: int, N: int, logs: Floats, keep: float
) -> Floats:
    tails = np.ones(k.shape)
    places = np.flatnonzero(above)
    mass = _mass(k[places], n[places], K, N, logs)
    summed = mass <= keep  # the tail is at least its first term
    places, mass = places[summed], mass[summed]
    x, size = k[places].astype(np.float64), n[places].astype(np.float64)
    tails[places] = np.minimum(mass * _series(x, size, float(K), float(N)), 1.0)
    if keep >= 0.1:  # below the mean the tail is near one half or more
        places = np.flatnonzero(~above & (k > 0) & (k - 1 >= n + K - N))
        fewer, draws = k[places] - 1, n[places]
        mass = _mass(fewer, draws, K, N, logs)
        # Fewer events in the slice are more among the rows without the event.
        others, size = (draws - fewer).astype(np.float64), draws.astype(np.float64)
        lower = mass * _series(others, size, float(N - K), float(N))
        tails[places] = np.clip(1.0 - lower, 0.0, 1.0)
    return tails


def _mass(k: Ints, n: Ints, K: int, N: int, logs: Floats) -> Floats:
    chosen = logs[K + 1] - logs[k + 1] - logs[K - k + 1]
    others = logs[N - K + 1] - logs[n - k + 1] - logs[N - K - n + k + 1]
    return np.asarray(np.exp(chosen + others - (logs[N + 1] - logs[n + 1] - logs[N - n + 1])))


def _series(x: Floats, n: Floats, K: float, N: float) -> Floats:
    """Sum the probabilities from x upwards, as multiples of the first."""
    total = np.ones(x.shape)
    places, x = np.arange(x.size), x.copy()
    sums, term = np.ones(x.shape), np.ones(x.shape)
    while places.size:
        term *= (K - x) * (n - x) / ((x + 1.0) * (N - K - n + x + 1.0))
        sums += term
        x += 1.0
        going = term > NEGLIGIBLE * sums
        if np.count_nonzero(going) < 0.75 * places.size:
            total[places[~going]] = sums[~going]
            places, sums, term = places[going], sums[going], term[going]
            x, n = x[going], n[going]
    return total


def sign_tail(worse: npt.ArrayLike, changed: npt.ArrayLike) -> Floats:
    """Compute the chance of so many changes for the worse if each could go either way.

    McNemar's exact test: of the examples on which two models differ, half should favour each.

    Args:
        worse: Changes for the worse, shape (M,), integers.
        changed: All changes, shape (M,), integers, at least `worse`.

    Returns:
        Upper tail probabilities of Binomial(changed, 1/2), shape (M,).

    References:
        McNemar (1947), Psychometrika 12:153-157.

    >>> sign_tail([5, 0], [5, 5])
    array([0.03125, 1.     ])
    """
    x, n = np.asarray(worse, np.float64), np.asarray(changed, np.float64)
    return np.where(x > 0, betainc(np.maximum(x, 1.0), n - x + 1.0, 0.5), 1.0)


def on_side(effect: Floats, direction: Direction) -> Flags:
    """Flag the effects that lie on the side that counts.

    >>> on_side(np.array([-0.1, 0.0, 0.2]), "both")
    array([ True, False,  True])
    """
    sides = {"higher": effect > 0, "lower": effect < 0, "both": effect != 0}
    return np.asarray(sides[direction])


def student_tail(t: Floats, df: Floats, direction: Direction) -> Floats:
    """Compute the p-value of Student's t in a direction.

    >>> student_tail(np.array([2.0]), np.array([np.inf]), "higher").round(4)
    array([0.0228])
    """
    return two_sided(stdtr(df, -t), stdtr(df, t), direction)


def two_sided(upper: Floats, lower: Floats, direction: Direction) -> Floats:
    """Choose the p-value of a direction: twice the smaller tail for both.

    >>> two_sided(np.array([0.01]), np.array([0.995]), "both")
    array([0.02])
    """
    if direction == "higher":
        return upper
    return lower if direction == "lower" else np.minimum(2.0 * np.minimum(upper, lower), 1.0)
