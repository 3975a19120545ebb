"""Audits whose truth is planted: what tests, documents and self-tests draw from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from scotoma.errors import DataError
from scotoma.numbers.inputs import Flags
from scotoma.power.model import Design, Probit

F4 = np.float32


@dataclass(frozen=True, kw_only=True)
class PlantedGroup:
    """What is planted in one group: both classes err at the same rate.

    Attributes:
        name: Name of the group.
        n: Examples, at least 1.
        rate: Error, FPR and FNR of the dense population, a fraction in (0, 1).
        relative: Relative increase in the compressed population, a fraction: 0.5 for +50%.
        positives: Share of positive labels, a fraction in [0, 1].

    Raises:
        DataError: A number out of range, or a compressed rate outside (0, 1).

    >>> PlantedGroup(name="men", n=500, rate=0.02, relative=0.5).compressed_rate
    0.03
    """

    name: str
    n: int
    rate: float
    relative: float = 0.0
    positives: float = 0.5

    def __post_init__(self) -> None:
        rules = {
            f"n must be at least 1, got {self.n}: plant examples": self.n >= 1,
            f"rate must be a fraction in (0, 1), got {self.rate}: write 0.01 for 1%": (
                0 < self.rate < 1
            ),
            f"relative must leave the compressed rate in (0, 1), got {self.compressed_rate:g}: "
            "write 0.5 for +50%": 0 < self.compressed_rate < 1,
            f"positives must be a share in [0, 1], got {self.positives}: write 0.5 for half": (
                0 <= self.positives <= 1
            ),
        }
        for sentence, holds in rules.items():
            if not holds:
                raise DataError(f"group '{self.name}': {sentence}")

    @property
    def compressed_rate(self) -> float:
        """Rate of the compressed population, a fraction."""
        return self.rate * (1 + self.relative)


@dataclass(frozen=True)
class PlantedAudit:
    """Predictions of two classes with known truth, as the measuring functions take them.

    Attributes:
        labels: True class ids, 0 or 1, int8, shape (N,).
        dense: Predictions of the dense members, int8, shape (N, K).
        compressed: Predictions of the compressed members on the same rows, int8, shape (N, K').
        groups: Who belongs to which group, bool, shape (G, N); every row is in one group.
        planted: What was planted, a group each.
    """

    labels: npt.NDArray[np.int8]
    dense: npt.NDArray[np.int8]
    compressed: npt.NDArray[np.int8]
    groups: Flags
    planted: tuple[PlantedGroup, ...]

    @property
    def names(self) -> list[str]:
        """One name per group."""
        return [group.name for group in self.planted]


def planted_audit(
    groups: Sequence[PlantedGroup],
    *,
    members: int,
    compressed_members: int | None = None,
    errors: Probit | None = None,
    paired: bool = False,
    seed: int,
) -> PlantedAudit:
    """Draw one audit: the same members on all groups, the rates of each group as planted.

    The mean over all examples and training runs that could have been drawn is exactly the planted
    rate; with one member in a population it is that of this model (see `Probit`).

    Args:
        groups: At least one.
        members: Dense members K.
        compressed_members: Compressed members K'; None for as many.
        errors: How errors come about; None for the defaults.
        paired: Compressed member m derives from dense member m.
        seed: Same seed, same audit.

    Returns:
        Rows group by group, in each the positive labels first.

    Raises:
        DataError: No group, or members that do not fit.

    >>> men = PlantedGroup(name="men", n=4_000, rate=0.1, relative=0.5)
    >>> audit = planted_audit([men], members=40, seed=2)
    >>> [round(float((predicted != audit.labels[:, None]).mean()), 2)
    ...  for predicted in (audit.dense, audit.compressed)]
    [0.1, 0.15]
    """
    if not groups:
        raise DataError("groups must hold at least one planted group, got none: plant one")
    other = members if compressed_members is None else compressed_members
    sizes = [group.n for group in groups]
    wrong, wrong_c = draw_events(
        np.repeat([group.rate for group in groups], sizes),
        np.repeat([group.compressed_rate for group in groups], sizes),
        members, other, errors or Probit(), np.random.default_rng(seed), paired=paired,
    )  # fmt: skip
    labels = np.concatenate([np.arange(g.n) < round(g.n * g.positives) for g in groups])
    code = np.repeat(np.arange(len(groups)), sizes)
    return PlantedAudit(
        labels=labels.astype(np.int8),
        dense=(wrong ^ labels[:, None]).astype(np.int8),
        compressed=(wrong_c ^ labels[:, None]).astype(np.int8),
        groups=code == np.arange(len(groups))[:, None],
        planted=tuple(groups),
    )


def draw_events(
    dense_rates: npt.ArrayLike,
    compressed_rates: npt.ArrayLike,
    members: int,
    compressed_members: int,
    errors: Probit,
    rng: np.random.Generator,
    *,
    paired: bool = False,
) -> tuple[Flags, Flags]:
    """Who errs where, drawn from the count model.

    Args:
        dense_rates: Mean rate of each example's kind in the dense population, fractions in (0, 1),
            shape (n,).
        compressed_rates: The same in the compressed population, shape (n,).
        members: Dense members K, at least 1.
        compressed_members: Compressed members K', at least 1.
        errors: How errors come about.
        rng: Source of all chance.
        paired: Compressed member m derives from dense member m; then K = K'.

    Returns:
        Events of the dense members, shape (n, K), and of the compressed, shape (n, K').

    Raises:
        DataError: Members that do not fit.

    >>> rng = np.random.default_rng(0)
    >>> dense, compressed = draw_events([0.1] * 5_000, [0.2] * 5_000, 40, 60, Probit(), rng)
    >>> round(float(dense.mean()), 2), round(float(compressed.mean()), 2)
    (0.1, 0.2)
    """
    Design(  # members are refused in one place
        group_n=2, rate=0.5, members=members, compressed_members=compressed_members, paired=paired
    )
    rates = [np.asarray(dense_rates, np.float64), np.asarray(compressed_rates, np.float64)]
    fate = _follow(rng, (rates[0].size,), errors.correlation)
    other, kept = compressed_members, errors.inheritance
    if paired:
        runs = _follow(rng, (members,), kept)
        chance = _follow(rng, (rates[0].size, members), kept)
    else:
        runs, chance = (
            (rng.standard_normal((*rows, members), F4), rng.standard_normal((*rows, other), F4))
            for rows in ((), rates[0].shape)
        )
    events = []
    for rate, size, u, r, latent in zip(rates, (members, other), fate, runs, chance, strict=True):
        cutoff = -ndtri(rate) * errors.spread(size) - errors.difficulty_sd * u
        latent += F4(errors.run_sd_of(size)) * r
        events.append(latent > cutoff.astype(F4)[:, None])
    return events[0], events[1]


def _follow(
    rng: np.random.Generator, shape: tuple[int, ...], correlation: float
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Two standard normal arrays, correlated element by element."""
    first, second = rng.standard_normal((2, *shape), F4)
    second *= F4(math.sqrt(1 - correlation**2))
    second += F4(correlation) * first
    return first, second
