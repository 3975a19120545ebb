"""Additive sums that give rates, their changes and both variances without the examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import factorial
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers.crossed import Variance, combine
from scotoma.numbers.influences import member_variance
from scotoma.numbers.inputs import Floats, Ints, array, floats

MOST_MEMBERS = 255  # with it and 10^9 examples the fourth powers still fit 64 bits
ORDER = 4  # the kurtosis of psi needs no more
Sums = npt.NDArray[np.int64] | Floats


@dataclass(frozen=True, eq=False)
class Tally:
    """Events of two populations on the rows of each cluster, summed over the clusters.

    With s and t the events of all dense and all compressed members on the rows of a cluster, and r
    its rows at risk, the sums of s^i t^j r^k hold all that intervals of the rates s/r need to know
    about clusters, whatever their number. Where every row is a cluster of its own, r is 1. Leading
    axes are free: groups, events. Shards are merged by `+`, and the sum is that of the whole where
    every cluster lies within one shard. Cut between clusters: one that is cut counts as a cluster
    in each of its shards, and intervals come out too short.

    Attributes:
        powers: Sum over clusters with rows at risk of s^i t^j r^k at [..., i, j, k], 0 where
            i + j + k > 4, shape (..., 5, 5, 5). Where every row is its own, int64 of shape
            (..., 5, 5, 1); otherwise floats, since the fourth powers of large clusters fit no
            integer. [..., 0, 0, 0] is the number of clusters.
        dense: Events of each dense member, shape (..., K).
        compressed: Events of each compressed member, shape (..., K'); K' = 0 where there is one
            population only.
        squares: Sums over clusters and members of the squared events of one member: of dense and of
            compressed members, and of the product of those of member m of either where compressed
            member m derives from dense member m, otherwise nan; shape (..., 3).

    >>> first = Tally.of([[2, 1]], [[1, 1]], [2])
    >>> whole = first + Tally.of([[0, 1], [0, 0]], [[1, 0], [0, 0]], [3, 0])
    >>> int(whole.n), int(whole.rows), whole.dense.tolist()
    (2, 5, [2.0, 2.0])
    """

    powers: Sums
    dense: Sums
    compressed: Sums
    squares: Floats

    def __post_init__(self) -> None:
        most = max(self.dense.shape[-1], self.compressed.shape[-1])
        if self._alone and most > MOST_MEMBERS:
            raise DataError(
                f"a tally holds at most {MOST_MEMBERS} members, got {most}: audit fewer members"
            )

    @classmethod
    def of(
        cls,
        dense: npt.ArrayLike,
        compressed: npt.ArrayLike | None = None,
        at_risk: npt.ArrayLike | None = None,
        *,
        paired: bool = False,
    ) -> Tally:
        """Sum one kind of event.

        Args:
            dense: Events of each dense member on each row, 0 or 1, shape (n, K); with clusters
                their events among its rows.
            compressed: The same for the compressed members, shape (n, K'); None for one population.
            at_risk: Who could have had the event, bool, shape (n,); with clusters the number of
                such rows of each, of which those without any do not count. None for all.
            paired: Member m of `compressed` derives from member m of `dense`.

        Raises:
            DataError: Shapes that do not fit together, or events of rows that are not 0 or 1.

        >>> Tally.of([[2, 1]], None, [2]).powers[1, 0].tolist()
        [3.0, 6.0, 12.0, 24.0, 0.0]
        >>> Tally.of(np.eye(3), np.ones((3, 2))).powers[0, :, 0].tolist()
        [3, 6, 12, 24, 48]
        """
        d = _table(dense, "dense")
        c = d[:, :0] if compressed is None else _table(compressed, "compressed")
        if len(d) != len(c):
            raise DataError(
                f"dense and compressed must hold the same examples, got shapes {d.shape} and "
                f"{c.shape}: score both on one test set"
            )
        if paired and d.shape != c.shape:
            raise DataError(
                f"paired populations need as many compressed as dense members, got {c.shape[1]} "
                f"and {d.shape[1]}: drop the members without a partner, or pass paired=False"
            )
        risk = np.ones(len(d), bool) if at_risk is None else array(at_risk, "at_risk")
        if risk.shape != (len(d),):
            raise DataError(
                f"at_risk must have one entry for each of {len(d):,} rows, got shape {risk.shape}: "
                "pass a flag a row, or the rows of each cluster"
            )
        d, c, r = d[risk > 0], c[risk > 0], risk[risk > 0].astype(np.float64)
        alone = risk.dtype == np.bool_
        if alone:
            _refuse_counts(d, "dense")
            _refuse_counts(c, "compressed")
        s, t = d.sum(1), c.sum(1)
        of_d, of_c = (own.sum(0).astype(np.int64) if alone else own.sum(0) for own in (d, c))
        return cls(
            powers=power_table(s, t).sum(0)[..., None] if alone else _powers(s, t, r),
            dense=of_d,
            compressed=of_c,
            squares=floats(
                [(d * d).sum(), (c * c).sum(), (d * c).sum() if paired else np.nan], "squares"
            ),
        )

    @classmethod
    def stack(cls, parts: Sequence[Tally], shape: tuple[int, ...]) -> Tally:
        """Several groups or events as one, with `shape` as leading axes.

        >>> one = Tally.of([[2, 1]], None, [2])
        >>> Tally.stack([one, one], (1, 2)).n.tolist()
        [[1, 1]]
        """
        columns = (np.stack(arrays) for arrays in zip(*(p._arrays() for p in parts), strict=True))
        return cls(*(values.reshape(*shape, *values.shape[1:]) for values in columns))

    def __add__(self, other: Tally) -> Tally:
        """Merge two shards: the same members on the rows of other clusters."""
        pairs = list(zip(self._arrays(), other._arrays(), strict=True))
        if differing := [(a.shape, b.shape) for a, b in pairs if a.shape != b.shape]:
            raise DataError(
                f"shards must hold the same groups, events and members, got shapes "
                f"{differing[0][0]} and {differing[0][1]}: count both with the same configuration"
            )
        if not np.array_equal(np.isnan(self.squares), np.isnan(other.squares)):
            raise DataError(
                "shards must agree on pairing, got one with and one without joint events: "
                "count both with the same `paired`"
            )
        return Tally(*(add(*pair) for pair in pairs))

    def take(self, places: Any) -> Tally:
        """The sums at some places of the leading axes."""
        return Tally(*(values[places] for values in self._arrays()))

    @property
    def n(self) -> Ints:
        """Clusters with rows at risk, shape (...)."""
        return self._sum(0, 0, 0).astype(np.int64)

    @property
    def rows(self) -> Ints:
        """Rows at risk, shape (...)."""
        return self._sum(0, 0, 1).astype(np.int64)

    def compressed_only(self) -> Tally:
        """The compressed members as the one population of a tally of their own.

        >>> alone = Tally.of([[2, 1]], [[1]], [2]).compressed_only()
        >>> alone.dense.tolist(), float(alone.rates()[0])
        ([1.0], 0.5)
        """
        powers = np.zeros_like(self.powers)
        powers[..., :, 0, :] = self.powers[..., 0, :, :]
        squares = np.full_like(self.squares, np.nan)
        squares[..., 0], squares[..., 1] = self.squares[..., 1], 0.0
        return Tally(powers, self.compressed, self.compressed[..., :0], squares)

    def rates(self) -> tuple[Floats, Floats]:
        """Mean rate of the dense and of the compressed members, shape (...); nan without rows.

        >>> dense, compressed = Tally.of([[2, 1]], [[1]], [2]).rates()
        >>> float(dense), float(compressed)
        (0.75, 0.5)
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return (
                self._sum(1, 0, 0) / (self._sum(0, 0, 1) * self.dense.shape[-1]),
                self._sum(0, 1, 0) / (self._sum(0, 0, 1) * self.compressed.shape[-1]),
            )

    def effective_events(self) -> tuple[Floats, Floats]:
        """`n_effective` of the dense and of the compressed rate, in clusters, shape (...).

        >>> dense, compressed = Tally.of([[2, 1], [0, 1]], [[1], [1]], [2, 2]).effective_events()
        >>> float(dense), float(compressed)
        (1.6, 2.0)
        """
        first = (self._sum(1, 0, 0).astype(float), self._sum(0, 1, 0).astype(float))
        second = (self._sum(2, 0, 0), self._sum(0, 2, 0))
        dense, compressed = (
            total**2 / np.where(squares > 0, squares, 1)
            for total, squares in zip(first, second, strict=True)
        )
        return dense, compressed

    def variance(
        self, dense_gradient: npt.ArrayLike = 1.0, compressed_gradient: npt.ArrayLike | None = 1.0
    ) -> Variance:
        """Variance of g_c p_c - g_d p_d: that of `Number.variance`, without the rows.

        With r the rows of a cluster and R their mean, its influence on the difference is
        psi = (g_c t/K' - g_d s/K - (g_c p_c - g_d p_d) r) / R, whose mean is 0.

        Args:
            dense_gradient: g_d, a scalar or shape (...); 1 / p_d for the log ratio.
            compressed_gradient: g_c likewise; None for the variance of g_d p_d alone.

        Returns:
            Arrays of shape (...), floats without leading axes; nan where n < 2 or a gradient is
            not finite.

        >>> variance = Tally.of([[2, 1], [1, 0]], [[1], [0]], [2, 3]).variance()
        >>> round(variance.examples, 4), round(variance.floor, 4)
        (0.0016, 0.0495)
        """
        shape, n = self.powers.shape[:-3], self._sum(0, 0, 0)
        g_d = np.broadcast_to(np.asarray(dense_gradient, float), shape)
        alone = compressed_gradient is None
        g_c = np.broadcast_to(np.asarray(0.0 if alone else compressed_gradient, float), shape)
        k, k_c = self.dense.shape[-1], self.compressed.shape[-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean_r = self._sum(0, 0, 1) / n
            rates = [np.nan_to_num(rate) for rate in self.rates()]
            a, b = -g_d / k / mean_r, g_c / max(k_c, 1) / mean_r
            examples, excess = self._psi(a, b, (g_d * rates[0] - g_c * rates[1]) / mean_r)
            of_d, of_c = (
                self.dense / (n * mean_r)[..., None],
                self.compressed / (n * mean_r)[..., None],
            )
            d_d, c_c, d_c = (self.squares[..., place] for place in range(3))
            if not alone and not np.isnan(d_c).any():
                z = g_c[..., None] * of_c - g_d[..., None] * of_d
                squares = g_c**2 * c_c - 2 * g_c * g_d * d_c + g_d**2 * d_d
                means = g_c**2 * self._sum(0, 2, 0) - 2 * g_c * g_d * self._sum(1, 1, 0)
                means = means + g_d**2 * self._sum(2, 0, 0)
                parts = [_part(z, (squares - means / k) / mean_r**2, n)]
            else:
                own = g_d**2 * (d_d - self._sum(2, 0, 0) / k) / mean_r**2
                parts = [_part(g_d[..., None] * of_d, own, n)]
                if not alone:
                    own = g_c**2 * (c_c - self._sum(0, 2, 0) / k_c) / mean_r**2
                    parts.append(_part(g_c[..., None] * of_c, own, n))
            unit = None if alone else np.sqrt(g_d * g_c)
            return combine(examples, excess, n, parts, unit)

    @property
    def _alone(self) -> bool:
        """Whether every row is a cluster of its own."""
        return bool(self.powers.shape[-1] == 1)

    def _sum(self, i: int, j: int, k: int) -> Sums:
        """Sum over clusters of s^i t^j r^k, shape (...)."""
        return self.powers[..., i, j, 0 if self._alone else k]

    def _psi(self, a: Floats, b: Floats, c: Floats) -> tuple[Floats, Floats]:
        """V_ex and kurtosis - 1 of psi = a s + b t + c r, from the sums of powers."""
        n = self._sum(0, 0, 0)
        second, fourth = self._moment(2, a, b, c), self._moment(4, a, b, c)
        # What is left of terms that cancel is rounding: dense and compressed identical, say.
        size = a**2 * self._sum(2, 0, 0) + b**2 * self._sum(0, 2, 0) + c**2 * self._sum(0, 0, 2)
        dust = 64 * np.finfo(np.float64).eps * size / np.maximum(n, 1)
        second = np.where(second <= dust, 0.0, second)
        excess = np.where(second > 0, np.maximum(fourth / second**2 - 1, 0.0), 0.0)
        return np.where(n >= 2, second / (n - 1), np.nan), excess

    def _moment(self, order: int, a: Floats, b: Floats, c: Floats) -> Floats:
        """Mean over clusters of psi^order."""
        n, total = self._sum(0, 0, 0), np.zeros(self.powers.shape[:-3])
        for i, j, k in product(range(order + 1), repeat=3):
            if i + j + k == order:
                ways = factorial(order) // (factorial(i) * factorial(j) * factorial(k))
                total = total + ways * a**i * b**j * c**k * self._sum(i, j, k)
        return total / np.maximum(n, 1)

    def _arrays(self) -> list[Sums]:
        return [self.powers, self.dense, self.compressed, self.squares]


def power_table(s: npt.ArrayLike, t: npt.ArrayLike) -> Ints:
    """s^i t^j for i + j <= 4, 0 beyond.

    Args:
        s: Dense members with the event on each example, shape (n,).
        t: Compressed members with the event, shape (n,).

    Returns:
        Shape (n, 5, 5).

    >>> power_table([2], [3])[0].tolist()
    [[1, 3, 9, 27, 81], [2, 6, 18, 54, 0], [4, 12, 36, 0, 0], [8, 24, 0, 0, 0], [16, 0, 0, 0, 0]]
    """
    exponents = np.arange(ORDER + 1)
    of_s = np.asarray(s, np.int64)[:, None] ** exponents
    of_t = np.asarray(t, np.int64)[:, None] ** exponents
    within = exponents[:, None] + exponents <= ORDER
    return of_s[:, :, None] * of_t[:, None, :] * within


def _powers(s: Floats, t: Floats, r: Floats) -> Floats:
    """Sums of s^i t^j r^k over clusters, 0 beyond order 4, shape (5, 5, 5)."""
    exponents = np.arange(ORDER + 1)
    of_s, of_t, of_r = (x[:, None] ** exponents for x in (s, t, r))
    whole = np.einsum("xi,xj,xk->ijk", of_s, of_t, of_r, optimize=True)
    within = sum(np.meshgrid(exponents, exponents, exponents, indexing="ij")) <= ORDER
    return np.where(within, whole, 0.0)


def _table(values: npt.ArrayLike, name: str) -> Floats:
    events = floats(values, name)
    if events.ndim != 2:
        raise DataError(
            f"{name} must be a table of examples by members, got shape {events.shape}: pass one "
            "column a member"
        )
    return events


def _refuse_counts(values: Floats, name: str) -> None:
    """Check that rows either have the event or not."""
    if not ((values == 0) | (values == 1)).all():
        wrong = values[(values != 0) & (values != 1)][0]
        raise DataError(
            f"{name} must hold events, true or false, got {wrong:g}: compare predictions with "
            "labels first"
        )


def _part(rates: Floats, own: Floats, n: Sums) -> tuple[Floats, Floats, int]:
    """V_mod and V_res of one population of members with these rates, times their gradient.

    Args:
        rates: Shape (..., K).
        own: Sum over clusters and members of (e - mean over members)^2 over the squared mean of r.
        n: Clusters.
    """
    k = rates.shape[-1]
    if k == 1:
        return np.zeros(n.shape), np.zeros(n.shape), k
    sse = own - n * ((rates - rates.mean(-1, keepdims=True)) ** 2).sum(-1)
    return member_variance(rates), np.maximum(sse, 0.0) / ((n - 1) * (k - 1) * n * k), k
