"""Additive sums that give a variance over examples without the examples."""

from __future__ import annotations

from dataclasses import dataclass
from operator import add

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.inputs import Floats, Ints, array, floats
from scotoma.uncertainty.crossed import Variance, combine
from scotoma.uncertainty.influences import member_variance

MOST_MEMBERS = 255  # with it and 10^9 examples the fourth powers still fit 64 bits
ORDER = 4  # the kurtosis of psi needs no more


@dataclass(frozen=True)
class Moments:
    """Events of two populations on the examples at risk, summed over these examples.

    With s and t the number of dense and compressed members with the event (an error, say) on an
    example, the sums of s^i t^j hold all that intervals need to know about examples, whatever
    their number. Leading axes are free: groups, events. Shards are merged by `+`.

    Attributes:
        powers: Sum over examples at risk of s^i t^j at [..., i, j], 0 where i + j > 4; int64,
            shape (..., 5, 5). [..., 0, 0] is their number.
        dense: Events of each dense member, int64, shape (..., K).
        compressed: Events of each compressed member, int64, shape (..., K'); K' = 0 where there is
            one population only.
        both: Events that member m of either population has on the same example, int64, shape
            (..., K); None unless compressed member m derives from dense member m.

    >>> import numpy as np
    >>> dense = np.array([[1, 0], [0, 0], [1, 1]], bool)
    >>> first, rest = Moments.of(dense[:1], dense[:1]), Moments.of(dense[1:], dense[1:])
    >>> (first + rest).powers[2, 0], (first + rest).dense.tolist()
    (np.int64(5), [2, 1])
    """

    powers: Ints
    dense: Ints
    compressed: Ints
    both: Ints | None = None

    def __post_init__(self) -> None:
        most = max(self.dense.shape[-1], self.compressed.shape[-1])
        if most > MOST_MEMBERS:
            raise DataError(
                f"moments hold at most {MOST_MEMBERS} members, got {most}: audit fewer members"
            )

    @classmethod
    def of(
        cls,
        dense: npt.ArrayLike,
        compressed: npt.ArrayLike | None = None,
        at_risk: npt.ArrayLike | None = None,
        *,
        paired: bool = False,
    ) -> Moments:
        """Sum one kind of event over the examples.

        Args:
            dense: Whether each dense member has the event, bool or 0/1, shape (n, K).
            compressed: The same for the compressed members, shape (n, K'); None for one population.
            at_risk: Examples that count, bool, shape (n,) or (G, n) for G groups; None for all.
            paired: Member m of `compressed` derives from member m of `dense`.

        Returns:
            Moments without leading axes, or of shape (G,).

        Raises:
            DataError: Shapes that do not fit together, or events that are neither yes nor no.

        >>> import numpy as np
        >>> Moments.of(np.eye(3), np.ones((3, 2))).powers[0].tolist()
        [3, 6, 12, 24, 48]
        """
        d = _events(dense, "dense")
        c = d[:, :0] if compressed is None else _events(compressed, "compressed")
        if d.ndim != 2 or c.ndim != 2 or len(d) != len(c):
            raise DataError(
                f"dense and compressed must hold the same examples, got shapes {d.shape} and "
                f"{c.shape}: score both on one test set"
            )
        if paired and d.shape != c.shape:
            raise DataError(
                f"paired populations need as many compressed as dense members, got {c.shape[1]} "
                f"and {d.shape[1]}: drop the members without a partner, or pass paired=False"
            )
        risk = np.ones(len(d), bool) if at_risk is None else array(at_risk, "at_risk") > 0
        if risk.shape[-1:] != (len(d),):
            raise DataError(
                f"at_risk must say yes or no for each of {len(d):,} examples, got shape "
                f"{risk.shape}: pass one column per example"
            )
        weights = risk.astype(np.int64)
        s, t = d.sum(1, dtype=np.int64), c.sum(1, dtype=np.int64)
        return cls(
            powers=np.tensordot(weights, power_table(s, t), 1),
            dense=weights @ d,
            compressed=weights @ c,
            both=weights @ (d & c) if paired else None,
        )

    def __add__(self, other: Moments) -> Moments:
        """Merge two shards: the same members on other examples."""
        if (self.both is None) != (other.both is None):
            raise DataError(
                "shards must agree on pairing, got one with and one without joint events: "
                "count both with the same `paired`"
            )
        pairs = zip(self._arrays(), other._arrays(), strict=True)
        if differing := [(a.shape, b.shape) for a, b in pairs if a.shape != b.shape]:
            raise DataError(
                f"shards must hold the same groups, events and members, got shapes "
                f"{differing[0][0]} and {differing[0][1]}: count both with the same configuration"
            )
        return Moments(*map(add, self._arrays(), other._arrays()))

    @property
    def n(self) -> Ints:
        """Examples at risk, shape (...)."""
        return self.powers[..., 0, 0]

    @property
    def rows(self) -> Ints:
        """Rows at risk, shape (...): each is an example of its own."""
        return self.n

    def compressed_only(self) -> Moments:
        """The moments of the compressed members, as the one population of their own.

        >>> alone = Moments.of([[1, 0], [1, 1]], [[1], [0]]).compressed_only()
        >>> alone.dense.tolist(), float(alone.rates()[0])
        ([1], 0.5)
        """
        powers = np.zeros_like(self.powers)
        powers[..., :, 0] = self.powers[..., 0, :]
        return Moments(powers, self.compressed, self.compressed[..., :0])

    def rates(self) -> tuple[Floats, Floats]:
        """Mean rate of the dense and of the compressed members, shape (...); nan without examples.

        >>> dense, compressed = Moments.of([[1, 0], [1, 1]], [[1], [1]]).rates()
        >>> float(dense), float(compressed)
        (0.75, 1.0)
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return (
                self.powers[..., 1, 0] / (self.n * self.dense.shape[-1]),
                self.powers[..., 0, 1] / (self.n * self.compressed.shape[-1]),
            )

    def effective_events(self) -> tuple[Floats, Floats]:
        """`n_effective` of the dense and of the compressed rate, shape (...); 0 without events.

        >>> dense, compressed = Moments.of([[1, 0], [1, 1]], [[1], [1]]).effective_events()
        >>> float(dense), float(compressed)
        (1.8, 2.0)
        """
        first = (self.powers[..., 1, 0].astype(float), self.powers[..., 0, 1].astype(float))
        second = (self.powers[..., 2, 0], self.powers[..., 0, 2])
        dense, compressed = (
            total**2 / np.maximum(squares, 1) for total, squares in zip(first, second, strict=True)
        )
        return dense, compressed

    def variance(
        self, dense_gradient: npt.ArrayLike = 1.0, compressed_gradient: npt.ArrayLike | None = 1.0
    ) -> Variance:
        """Variance of g_c p_c - g_d p_d: `crossed_variance` without the examples.

        Args:
            dense_gradient: g_d, a scalar or shape (...); 1 / p_d for the log ratio.
            compressed_gradient: g_c likewise; None for the variance of g_d p_d alone.

        Returns:
            Arrays of shape (...), floats without leading axes; nan where n < 2 or a gradient is
            not finite.

        >>> variance = Moments.of([[1, 0], [0, 0], [1, 1]], [[1], [1], [0]]).variance()
        >>> round(variance.examples, 4), round(variance.floor, 4)
        (0.3611, 0.0854)
        """
        g_d = np.broadcast_to(np.asarray(dense_gradient, float), self.n.shape)
        alone = compressed_gradient is None
        g_c = np.broadcast_to(
            np.asarray(0.0 if compressed_gradient is None else compressed_gradient, float),
            self.n.shape,
        )
        k, k_c = self.dense.shape[-1], self.compressed.shape[-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            examples, excess = _psi(self.powers, -g_d / k, g_c / max(k_c, 1))
            if self.both is not None and not alone:
                parts = [self._paired_part(g_d, g_c, self.both)]
            else:
                parts = [_part(self.dense, self.powers[..., 2, 0], self.n, g_d)]
                if not alone:
                    parts.append(_part(self.compressed, self.powers[..., 0, 2], self.n, g_c))
            unit = None if alone else np.sqrt(g_d * g_c)
            return combine(examples, excess, self.n, parts, unit)

    def _paired_part(self, g_d: Floats, g_c: Floats, both: Ints) -> tuple[Floats, Floats, int]:
        """V_mod and V_res of e = g_c c - g_d d, member by member."""
        k, n = self.dense.shape[-1], self.n
        g_dm, g_cm = g_d[..., None], g_c[..., None]
        z = (g_cm * self.compressed - g_dm * self.dense) / n[..., None]
        of_members = g_cm**2 * self.compressed + g_dm**2 * self.dense - 2 * g_cm * g_dm * both
        of_examples = (
            g_c**2 * self.powers[..., 0, 2]
            - 2 * g_c * g_d * self.powers[..., 1, 1]
            + g_d**2 * self.powers[..., 2, 0]
        ) / k
        sse = of_members.sum(-1) - of_examples - n * (z**2).sum(-1) + n * k * z.mean(-1) ** 2
        return _finish(z, sse, n, k)

    def _arrays(self) -> list[Ints]:
        arrays = [self.powers, self.dense, self.compressed]
        return arrays if self.both is None else [*arrays, self.both]


def _events(values: npt.ArrayLike, name: str) -> npt.NDArray[np.bool_]:
    events = floats(values, name)
    if events.ndim == 2 and not ((events == 0) | (events == 1)).all():
        wrong = events[(events != 0) & (events != 1)][0]
        raise DataError(
            f"{name} must hold events, true or false, got {wrong:g}: compare predictions with "
            "labels first"
        )
    if events.ndim != 2:
        raise DataError(
            f"{name} must be a table of examples by members, got shape {events.shape}: pass one "
            "column a member"
        )
    return events.astype(np.bool_)


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


def _psi(powers: Ints, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """V_ex and kurtosis - 1 of psi = a s + b t, from the sums of powers."""
    n = powers[..., 0, 0]
    scaled = powers / np.maximum(n, 1)[..., None, None]
    mean = a * scaled[..., 1, 0] + b * scaled[..., 0, 1]
    parts = (a**2 * scaled[..., 2, 0], 2 * a * b * scaled[..., 1, 1], b**2 * scaled[..., 0, 2])
    second = sum(parts) - mean**2
    third = (
        a**3 * scaled[..., 3, 0]
        + 3 * a**2 * b * scaled[..., 2, 1]
        + 3 * a * b**2 * scaled[..., 1, 2]
        + b**3 * scaled[..., 0, 3]
    )
    fourth = (
        a**4 * scaled[..., 4, 0]
        + 4 * a**3 * b * scaled[..., 3, 1]
        + 6 * a**2 * b**2 * scaled[..., 2, 2]
        + 4 * a * b**3 * scaled[..., 1, 3]
        + b**4 * scaled[..., 0, 4]
    )
    central = fourth - 4 * mean * third + 6 * mean**2 * (second + mean**2) - 3 * mean**4
    # What is left of terms that cancel is rounding: dense and compressed identical, say.
    dust = 32 * np.finfo(np.float64).eps * (parts[0] + parts[2])
    second = np.where(second <= dust, 0.0, second)
    excess = np.where(second > 0, np.maximum(central / second**2 - 1, 0.0), 0.0)
    return np.where(n >= 2, second / (n - 1), np.nan), excess


def _part(counts: Ints, squares: Ints, n: Ints, g: Floats) -> tuple[Floats, Floats, int]:
    """V_mod and V_res of one population."""
    k = counts.shape[-1]
    p = counts / n[..., None]
    sse = counts.sum(-1) - squares / k - n * (p**2).sum(-1) + n * k * p.mean(-1) ** 2
    return _finish(g[..., None] * p, g**2 * sse, n, k)


def _finish(rates: Floats, sse: Floats, n: Ints, k: int) -> tuple[Floats, Floats, int]:
    if k == 1:
        return np.zeros(n.shape), np.zeros(n.shape), k
    return member_variance(rates), np.maximum(sse, 0.0) / ((n - 1) * (k - 1) * n * k), k
