"""Additive moments of rows in clusters: `Moments` is for rows that are independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import factorial
from operator import add

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import Floats, floats
from scotoma.uncertainty.crossed import Variance, combine
from scotoma.uncertainty.influences import member_variance

ORDER = 4  # the kurtosis of psi needs no more


@dataclass(frozen=True)
class ClusterMoments:
    """Events of two populations on the rows of each cluster, summed over the clusters.

    With s and t the events of all dense and all compressed members on the rows of a cluster, and r
    its rows at risk, the sums of s^i t^j r^k hold all that intervals of the rates s/r need to know
    about clusters, whatever their number. Leading axes are free: groups, events. Shards are merged
    by `+`, and the sum is that of the whole where every cluster lies within one shard. Cut between
    clusters: one that is cut counts as a cluster in each of its shards, and intervals come out too
    short.

    Attributes:
        powers: Sum over clusters with rows at risk of s^i t^j r^k at [..., i, j, k], 0 where
            i + j + k > 4; floats, since the fourth powers of large clusters fit no integer. Shape
            (..., 5, 5, 5). [..., 0, 0, 0] is their number.
        dense: Events of each dense member, int64, shape (..., K).
        compressed: Events of each compressed member, int64, shape (..., K'); K' = 0 where there is
            one population only.
        squares: Sums over clusters and members of the squared events of one member: of dense and of
            compressed members, and of the product of those of member m of either where compressed
            member m derives from dense member m, otherwise nan; shape (..., 3).

    >>> first = ClusterMoments.of([[2, 1]], [[1, 1]], [2])
    >>> whole = first + ClusterMoments.of([[0, 1], [0, 0]], [[1, 0], [0, 0]], [3, 0])
    >>> int(whole.n), int(whole.rows), whole.dense.tolist()
    (2, 5, [2, 2])
    """

    powers: Floats
    dense: npt.NDArray[np.int64]
    compressed: npt.NDArray[np.int64]
    squares: Floats

    @classmethod
    def of(
        cls,
        dense: npt.ArrayLike,
        compressed: npt.ArrayLike | None,
        at_risk: npt.ArrayLike,
        *,
        paired: bool = False,
    ) -> ClusterMoments:
        """Sum one kind of event over the clusters.

        Args:
            dense: Events of each dense member on the rows of each cluster, shape (n, K).
            compressed: The same for the compressed members, shape (n, K'); None for one population.
            at_risk: Rows of each cluster that could have had the event, shape (n,); clusters
                without any do not count.
            paired: Member m of `compressed` derives from member m of `dense`.

        Raises:
            DataError: Shapes that do not fit together.

        >>> ClusterMoments.of([[2, 1]], None, [2]).powers[1, 0].tolist()
        [3.0, 6.0, 12.0, 24.0, 0.0]
        """
        r = floats(at_risk, "at_risk")
        d = floats(dense, "dense")
        c = d[:, :0] if compressed is None else floats(compressed, "compressed")
        if d.ndim != 2 or c.ndim != 2 or not len(d) == len(c) == r.size:
            raise DataError(
                f"dense, compressed and at_risk must hold the same clusters, got shapes {d.shape}, "
                f"{c.shape} and {r.shape}: sum all by the same clusters"
            )
        if paired and d.shape != c.shape:
            raise DataError(
                f"paired populations need as many compressed as dense members, got {c.shape[1]} "
                f"and {d.shape[1]}: drop the members without a partner, or pass paired=False"
            )
        d, c, r = d[r > 0], c[r > 0], r[r > 0]
        exponents = np.arange(ORDER + 1)
        s, t, of_r = (x[:, None] ** exponents for x in (d.sum(axis=1), c.sum(axis=1), r))
        whole = np.einsum("xi,xj,xk->ijk", s, t, of_r, optimize=True)
        within = sum(np.meshgrid(exponents, exponents, exponents, indexing="ij")) <= ORDER
        return cls(
            powers=np.where(within, whole, 0.0),
            dense=d.sum(axis=0).astype(np.int64),
            compressed=c.sum(axis=0).astype(np.int64),
            squares=np.array([(d * d).sum(), (c * c).sum(), (d * c).sum() if paired else np.nan]),
        )

    @classmethod
    def stack(cls, parts: Sequence[ClusterMoments], shape: tuple[int, ...]) -> ClusterMoments:
        """Moments of several groups or events as one, with `shape` as leading axes.

        >>> one = ClusterMoments.of([[2, 1]], None, [2])
        >>> ClusterMoments.stack([one, one], (1, 2)).n.tolist()
        [[1, 1]]
        """
        columns = []
        for name in ("powers", "dense", "compressed", "squares"):
            values = np.stack([getattr(part, name) for part in parts])
            columns.append(values.reshape(*shape, *values.shape[1:]))
        return cls(*columns)

    def __add__(self, other: ClusterMoments) -> ClusterMoments:
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
        return ClusterMoments(*(add(*pair) for pair in pairs))

    @property
    def n(self) -> npt.NDArray[np.int64]:
        """Clusters with rows at risk, shape (...)."""
        return self.powers[..., 0, 0, 0].astype(np.int64)

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Rows at risk, shape (...)."""
        return self.powers[..., 0, 0, 1].astype(np.int64)

    def compressed_only(self) -> ClusterMoments:
        """The moments of the compressed members, as the one population of their own.

        >>> alone = ClusterMoments.of([[2, 1]], [[1]], [2]).compressed_only()
        >>> alone.dense.tolist(), float(alone.rates()[0])
        ([1], 0.5)
        """
        powers = np.zeros_like(self.powers)
        powers[..., :, 0, :] = self.powers[..., 0, :, :]
        squares = np.full_like(self.squares, np.nan)
        squares[..., 0], squares[..., 1] = self.squares[..., 1], 0.0
        return ClusterMoments(powers, self.compressed, self.compressed[..., :0], squares)

    def rates(self) -> tuple[Floats, Floats]:
        """Mean rate of the dense and of the compressed members, shape (...); nan without rows.

        >>> dense, compressed = ClusterMoments.of([[2, 1]], [[1]], [2]).rates()
        >>> float(dense), float(compressed)
        (0.75, 0.5)
        """
        rows = self.powers[..., 0, 0, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            return (
                self.powers[..., 1, 0, 0] / (rows * self.dense.shape[-1]),
                self.powers[..., 0, 1, 0] / (rows * self.compressed.shape[-1]),
            )

    def effective_events(self) -> tuple[Floats, Floats]:
        """`n_effective` of the dense and of the compressed rate, in clusters, shape (...).

        >>> moments = ClusterMoments.of([[2, 1], [0, 1]], [[1], [1]], [2, 2])
        >>> dense, compressed = moments.effective_events()
        >>> float(dense), float(compressed)
        (1.6, 2.0)
        """
        of = self.powers
        first, second = (of[..., 1, 0, 0], of[..., 0, 1, 0]), (of[..., 2, 0, 0], of[..., 0, 2, 0])
        dense, compressed = (
            total**2 / np.maximum(squares, 1) for total, squares in zip(first, second, strict=True)
        )
        return dense, compressed

    def variance(
        self, dense_gradient: npt.ArrayLike = 1.0, compressed_gradient: npt.ArrayLike | None = 1.0
    ) -> Variance:
        """Variance of g_c p_c - g_d p_d: `crossed_variance` of `ratio_influence`, without the rows.

        With r the rows of a cluster and R their mean, its influence on the difference is
        psi = (g_c t/K' - g_d s/K - (g_c p_c - g_d p_d) r) / R, whose mean is 0.

        Args:
            dense_gradient: g_d, a scalar or shape (...); 1 / p_d for the log ratio.
            compressed_gradient: g_c likewise; None for the variance of g_d p_d alone.

        Returns:
            Arrays of shape (...), floats without leading axes; nan where n < 2 or a gradient is
            not finite.

        >>> variance = ClusterMoments.of([[2, 1], [1, 0]], [[1], [0]], [2, 3]).variance()
        >>> round(variance.examples, 4), round(variance.floor, 4)
        (0.0016, 0.0495)
        """
        of, shape = self.powers, self.powers.shape[:-3]
        g_d = np.broadcast_to(np.asarray(dense_gradient, float), shape)
        alone = compressed_gradient is None
        g_c = np.broadcast_to(np.asarray(0.0 if alone else compressed_gradient, float), shape)
        k, k_c = self.dense.shape[-1], self.compressed.shape[-1]
        n = of[..., 0, 0, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean_r = of[..., 0, 0, 1] / n
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
                means = g_c**2 * of[..., 0, 2, 0] - 2 * g_c * g_d * of[..., 1, 1, 0]
                means = means + g_d**2 * of[..., 2, 0, 0]
                parts = [_part(z, (squares - means / k) / mean_r**2, n)]
            else:
                own = g_d**2 * (d_d - of[..., 2, 0, 0] / k) / mean_r**2
                parts = [_part(g_d[..., None] * of_d, own, n)]
                if not alone:
                    own = g_c**2 * (c_c - of[..., 0, 2, 0] / k_c) / mean_r**2
                    parts.append(_part(g_c[..., None] * of_c, own, n))
            unit = None if alone else np.sqrt(g_d * g_c)
            return combine(examples, excess, n, parts, unit)

    def _psi(self, a: Floats, b: Floats, c: Floats) -> tuple[Floats, Floats]:
        """V_ex and kurtosis - 1 of psi = a s + b t + c r, from the sums of powers."""
        n = self.powers[..., 0, 0, 0]
        second, fourth = self._moment(2, a, b, c), self._moment(4, a, b, c)
        # What is left of terms that cancel is rounding: dense and compressed identical, say.
        of = self.powers / np.maximum(n, 1)[..., None, None, None]
        size = a**2 * of[..., 2, 0, 0] + b**2 * of[..., 0, 2, 0] + c**2 * of[..., 0, 0, 2]
        second = np.where(second <= 64 * np.finfo(np.float64).eps * size, 0.0, second)
        excess = np.where(second > 0, np.maximum(fourth / second**2 - 1, 0.0), 0.0)
        return np.where(n >= 2, second / (n - 1), np.nan), excess

    def _moment(self, order: int, a: Floats, b: Floats, c: Floats) -> Floats:
        """Mean over clusters of psi^order."""
        n, total = self.powers[..., 0, 0, 0], np.zeros(self.powers.shape[:-3])
        for i, j, k in product(range(order + 1), repeat=3):
            if i + j + k == order:
                ways = factorial(order) // (factorial(i) * factorial(j) * factorial(k))
                total = total + ways * a**i * b**j * c**k * self.powers[..., i, j, k]
        return total / np.maximum(n, 1)

    def _arrays(self) -> list[npt.NDArray[np.generic]]:
        return [self.powers, self.dense, self.compressed, self.squares]


def _part(rates: Floats, own: Floats, n: Floats) -> tuple[Floats, Floats, int]:
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
