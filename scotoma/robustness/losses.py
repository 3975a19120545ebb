"""What do populations lose on corrupted pictures, on three scales; does one lose more, and who?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from scotoma.errors import DataError
from scotoma.numbers import (
    COMPRESSED,
    DENSE,
    Estimate,
    Number,
    Units,
    Variance,
    Words,
    holm,
    undefined,
)
from scotoma.numbers.enough import FEWEST_PICTURES
from scotoma.numbers.inputs import Flags, Floats, floats
from scotoma.numbers.rates import UNKNOWN_VARIANCE

ACCURACY = Words("right answer", "examples", "this group")
Sides = tuple[Number, Number]  # accuracy on clean and on corrupted pictures


@dataclass(frozen=True, eq=False)
class Answered:
    """Right answers of one population, on clean pictures and averaged over some conditions.

    Attributes:
        clean: Whether each member is right on each clean picture, 0 or 1, shape (n, K).
        corrupted: Share of the conditions under which it is right, in [0, 1], shape (n, K).
        units: Which examples are one unit.
        axis: Of the members; a population that derives from another one has its axis.
    """

    clean: Floats
    corrupted: Floats
    units: Units
    axis: str = DENSE

    def means(self, at_risk: Flags | None = None) -> Sides:
        """Accuracy on clean and on corrupted pictures, of the examples at risk."""
        clean, corrupted = (
            self.units.mean(own, at_risk, axis=self.axis) for own in (self.clean, self.corrupted)
        )
        return replace(clean, flip=None), corrupted  # an example flips where it is corrupted


@dataclass(frozen=True, eq=False)
class RightAnswers:
    """Right answers of one population: every member, every example, every condition.

    Attributes:
        clean: Whether each member is right on each clean picture, bool, shape (n, K).
        corrupted: The same under each corruption at each severity, bool, shape (C, S, n, K).
        units: As of `Answered`.
        axis: As of `Answered`.
    """

    clean: Flags
    corrupted: Flags
    units: Units
    axis: str = DENSE

    def __post_init__(self) -> None:
        if self.corrupted.ndim != 4 or self.corrupted.shape[2:] != self.clean.shape:
            raise DataError(
                "clean and corrupted answers must be of the same examples and members, got shapes "
                f"{self.clean.shape} and {self.corrupted.shape}: predict all conditions again"
            )

    @classmethod
    def of(
        cls,
        clean: npt.ArrayLike,
        corrupted: npt.ArrayLike,
        labels: npt.ArrayLike,
        clusters: npt.ArrayLike | None = None,
        axis: str = DENSE,
    ) -> RightAnswers:
        """Compare predicted class ids with labels.

        Args:
            clean: Class ids on clean pictures, shape (n, K).
            corrupted: Class ids under each condition, shape (C, S, n, K).
            labels: Class ids, shape (n,).
            clusters: Id of each example's cluster, shape (n,); None leaves every one its own.
            axis: Of the members.

        >>> RightAnswers.of([[1], [0]], [[[[1], [1]]]], [1, 0]).corrupted.ravel().tolist()
        [True, False]
        """
        truth = np.asarray(labels)[:, None]
        units = Units.of(len(truth), clusters)
        return cls(np.asarray(clean) == truth, np.asarray(corrupted) == truth, units, axis)

    def under(
        self, corruptions: Sequence[int], severities: Sequence[int] | None = None
    ) -> Answered:
        """Average over corruptions, each weighing the same, and over severities.

        Args:
            corruptions: Places in the first axis.
            severities: Places in the second; None for all.

        >>> right = RightAnswers.of([[1]], [[[[1]], [[0]]]], [1])
        >>> right.under([0]).corrupted.tolist(), right.under([0], [1]).corrupted.tolist()
        ([[0.5]], [[0.0]])
        """
        chosen = self.corrupted[list(corruptions)]
        if severities is not None:
            chosen = chosen[:, list(severities)]
        shares = chosen.mean(axis=(0, 1), dtype=np.float64)
        return Answered(self.clean.astype(np.float64), shares, self.units, self.axis)

    def accuracy(
        self, corruptions: Sequence[int] = (), severities: Sequence[int] | None = None
    ) -> Estimate:
        """Accuracy over some conditions, a fraction; on clean pictures without any.

        >>> RightAnswers.of([[1]] * 4, [[[[1]] * 4]], [1, 1, 1, 0]).accuracy().value
        0.75
        """
        own = self.under(corruptions, severities).corrupted if len(corruptions) else self.clean
        return self.units.mean(own, axis=self.axis).rate(ACCURACY)


Scale = Literal["absolute", "relative", "log_odds"]
SCALES: tuple[Scale, ...] = ("absolute", "relative", "log_odds")
Key = TypeVar("Key")


def loss(sides: Sides, scale: Scale) -> Number:
    """What accuracy loses between clean and corrupted pictures, more where more is lost.

    absolute: clean - corrupted. relative: 1 - corrupted / clean, which is one minus the paper's
    relative robustness. log_odds: logit(clean) - logit(corrupted).

    References:
        Hooker et al. (2019), section 6.4, for the relative scale.

    >>> from scotoma.numbers import Units
    >>> own = Answered(np.array([[1.0], [1]]), np.array([[1.0], [0]]), Units.of(2))
    >>> [loss(own.means(), scale).value for scale in SCALES[:2]]
    [0.5, 0.5]
    """
    clean, corrupted = sides
    if scale == "absolute":
        return clean - corrupted
    return 1 - corrupted / clean if scale == "relative" else clean.logit() - corrupted.logit()


def why_undefined(sides: Sides, scale: Scale) -> str:
    """Why a loss is undefined, as a sentence to print; empty where it is not."""
    clean, corrupted = (side.value for side in sides)
    if math.isnan(clean):
        return "undefined (no examples)"
    if scale == "relative" and clean == 0:
        return "undefined (no right answer on clean pictures)"
    for accuracy, pictures in ((clean, "clean"), (corrupted, "corrupted")):
        if scale == "log_odds" and accuracy in (0.0, 1.0):
            return f"undefined (accuracy {100 * accuracy:g}% on {pictures} pictures has no odds)"
    return ""


def amplified_loss(dense: Sides, compressed: Sides, scale: Scale) -> tuple[Estimate, Variance]:
    """Loss of a compressed population beyond that of the dense one, and its variance.

    Args:
        dense: Accuracies of the dense members.
        compressed: The same of the compressed members, on the same examples.
        scale: One of `SCALES`.

    Returns:
        Compressed minus dense, above 0 where compression makes corruption worse: a fraction, or
        log-odds. nan with a reason where a loss is undefined.

    >>> from scotoma.numbers import Units
    >>> clean = np.array([[1.0, 1], [1, 1], [1, 0], [0, 1]])
    >>> own = [Answered(clean, share * clean, Units.of(4)).means() for share in (0.5, 0.25)]
    >>> amplified_loss(*own, "absolute")[0].value
    0.1875
    """
    if reason := why_undefined(dense, scale) or why_undefined(compressed, scale):
        members = min(side[0].members for side in (dense, compressed))
        return undefined(reason, n=dense[0].n, members=members), UNKNOWN_VARIANCE
    change = loss(compressed, scale).since(loss(dense, scale))
    carried = replace(change, events=change.changed)
    return carried.estimate(), carried.variance


def group_contrast(dense: Answered, compressed: Answered, group: Flags) -> Estimate:
    """Compare a group's absolute amplification with that of all other examples.

    Args:
        dense: Right answers of the dense members.
        compressed: The same of the compressed members.
        group: Membership, bool, shape (n,).

    Returns:
        D_group - D_rest, a fraction; above 0 where the group loses more. nan with a reason where
        the group or the rest has fewer than 50 examples.

    >>> from scotoma.numbers import Units
    >>> both = [Answered(np.ones((2, 1)), np.ones((2, 1)), Units.of(2), axis) for axis in "ab"]
    >>> group_contrast(*both, np.array([True, False])).reason
    'not compared with the rest (1 example, 50 are needed)'
    """
    n, members = int(group.sum()), min(own.clean.shape[1] for own in (dense, compressed))
    fewer = min(n, len(group) - n)
    if fewer < FEWEST_PICTURES:
        noun = "example" if fewer == 1 else "examples"
        reason = f"not compared with the rest ({fewer} {noun}, {FEWEST_PICTURES} are needed)"
        return undefined(reason, n=n, members=members)
    more, less = (
        loss(compressed.means(mask), "absolute") - loss(dense.means(mask), "absolute")
        for mask in (group, ~group)
    )
    # Each side rests on units of its own: the side of fewer says how many carry their difference.
    contrast = replace(more - less, events=min(more.changed, less.changed))
    contrast = contrast.floored(contrast.n / min(more.n, less.n))
    return replace(contrast.estimate(), n=more.n)


def group_tests(contrasts: Mapping[Key, Estimate]) -> dict[Key, tuple[float, float]]:
    """Test contrasts, of every group under every family: together they are one family of tests.

    Returns:
        Two-sided p-values, and the same after Holm; nan where there is no interval.

    References:
        Holm (1979), Scandinavian Journal of Statistics 6:65-70.

    >>> clear = Estimate.on_scale(0.05, 0.01, 9.0, n=500, members=10)
    >>> round(group_tests({("sex=male", "noise"): clear})["sex=male", "noise"][1], 4)
    0.0007
    """
    tails = [[e.p_above(0.0), e.p_below(0.0)] for e in contrasts.values()]
    p = np.minimum(1.0, 2 * np.array(tails).reshape(-1, 2).min(axis=1))  # nan stays nan
    return dict(zip(contrasts, zip(p.tolist(), holm(p).tolist(), strict=True), strict=True))


def misled_pairs(dense: Answered, compressed: Answered) -> Estimate | None:
    """What audits of one dense and one compressed model would have said of the absolute scale.

    Returns:
        The share of the n pairs of these models that does not show the sign that all together
        show. Of paired populations, pairs that derive from each other. None of a single pair, or
        where the sign is 0.

    >>> from scotoma.numbers import Units
    >>> clean, worse = np.ones((2, 2)), np.array([[1, 0.5], [1, 0.5]])
    >>> pairs = misled_pairs(
    ...     Answered(clean, worse, Units(2)), Answered(clean, worse - 0.25, Units(2), "c")
    ... )
    >>> pairs.value, pairs.n
    (0.25, 4)
    """
    d, c = (own.clean.mean(axis=0) - own.corrupted.mean(axis=0) for own in (dense, compressed))
    each = (c - d if dense.axis == compressed.axis else c[:, None] - d[None, :]).ravel()
    sign = np.sign(c.mean() - d.mean())
    if each.size < 2 or sign == 0:
        return None
    misled = float(np.mean(sign * each <= 0))
    return undefined("a share of these pairs alone", value=misled, n=each.size, members=1)


def variance_of_draws(
    dense: RightAnswers, compressed: RightAnswers, corruptions: list[int], draws: int
) -> float:
    """Variance of the absolute amplification that comes from the draws of random corruptions.

    Every example has random numbers of its own, so that the variance over examples holds this part
    already: it says what more draws would save, and is not added.

    Args:
        dense: Right answers of the dense members; draws of a severity stand side by side.
        compressed: The same of the compressed members.
        corruptions: Places of the corruptions.
        draws: Draws of each severity.

    Returns:
        Variance of the mean over the draws; nan of a single one.

    >>> right = RightAnswers.of([[1]], [[[[1]], [[0]]]], [1])
    >>> still = RightAnswers.of([[1]], [[[[1]], [[1]]]], [1])
    >>> variance_of_draws(still, right, [0], 2)
    0.25
    """
    if draws < 2:
        return math.nan
    d, c = (
        [own.corrupted[corruptions, draw::draws].mean() for draw in range(draws)]
        for own in (dense, compressed)
    )
    return float(np.var(np.subtract(d, c), ddof=1)) / draws


def relative_robustness(corrupted: npt.ArrayLike, clean: npt.ArrayLike) -> Floats:
    """Compute the paper's relative robustness, percent: a ratio of means over members.

    Args:
        corrupted: Accuracy of each member under each condition, shape (..., M, S).
        clean: Accuracy of each member on clean pictures, shape (M,).

    Returns:
        100 mean_m mean_s corrupted / mean_m clean, shape (...); nan where clean accuracy is 0.

    References:
        Hooker et al. (2019), Table 5.

    >>> float(relative_robustness([[0.6, 0.5], [0.4, 0.5]], [0.8, 0.8]))
    62.5
    """
    means = floats(corrupted, "corrupted").mean(axis=(-1, -2))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(100 * means / floats(clean, "clean").mean())
    return np.where(np.isfinite(ratio), ratio, np.nan)


POWER = 0.9
LEVEL = 0.95  # of all tests together
DIFFICULTY_SD = 1.5  # how much examples differ, on the probit scale
CORRELATION = 0.95  # of an example's dense and compressed difficulty
SHARED = 0.5  # of a member's chance on an example: alike on its clean and corrupted pictures
SIMULATED = 2_000  # examples at most, of which the variance is taken
DRAWN = 4  # audits, over which it is averaged


def planted_robustness(
    group: Flags,
    *,
    members: int,
    families: tuple[int, ...],
    severities: int,
    seed: int,
    clean: float = 0.9,
    corrupted: float = 0.75,
    extra: float = 0.0,
    run_sd: float = 0.1,
) -> tuple[RightAnswers, RightAnswers]:
    """Draw the right answers of a dense and a compressed population.

    Args:
        group: The examples in which `extra` is planted, bool, shape (n,).
        members: Members of each population.
        families: Corruptions of each family; `extra` is planted in the first.
        severities: Severities of each corruption.
        seed: Of the draws.
        clean: Accuracy of every member on clean pictures, a fraction.
        corrupted: Accuracy under every corruption, a fraction.
        extra: What the compressed members lose beyond it, in the first group and family.
        run_sd: How much training runs differ, on the probit scale.

    Returns:
        Dense and compressed; members are independent.

    >>> dense, compressed = planted_robustness(np.arange(9) < 4, members=2, families=(2, 1),
    ...     severities=3, seed=0)
    >>> compressed.corrupted.shape
    (3, 3, 9, 2)
    """
    draw = np.random.default_rng(seed).standard_normal
    n, conditions = len(group), sum(families) * severities
    spread = math.sqrt(1 + DIFFICULTY_SD**2 + run_sd**2)
    common, own = math.sqrt(CORRELATION), math.sqrt(1 - CORRELATION)
    hard = draw((1 + conditions, n))  # what a corruption makes of each picture
    shared = draw(n)
    populations = []
    for more, axis in ((0.0, DENSE), (extra, COMPRESSED)):
        easy = common * shared + own * draw(n)
        chance = math.sqrt(SHARED) * draw((n, members))
        run = run_sd * draw(members)
        right = np.empty((1 + conditions, n, members), np.bool_)
        for place in range(1 + conditions):
            accuracy = np.full(n, corrupted if place else clean)
            if 0 < place <= families[0] * severities:
                accuracy = accuracy - more * group
            difficulty = DIFFICULTY_SD * (0.8 * easy + 0.6 * hard[place])
            lucky = chance + math.sqrt(1 - SHARED) * draw((n, members))
            threshold = spread * ndtri(accuracy) + difficulty
            right[place] = threshold[:, None] + run + lucky > 0
        worse = right[1:].reshape(sum(families), severities, n, members)
        populations.append(RightAnswers(right[0], worse, Units.of(n), axis))
    return populations[0], populations[1]


def smallest_contrast(
    group_n: int,
    rest_n: int,
    *,
    members: int,
    corruptions: int,
    severities: int,
    tests: int,
    error: float = 0.1,
) -> float:
    """The smallest extra loss of a group that one family shows, a fraction.

    Shown means: its contrast with the rest differs from 0 after Bonferroni over all tests.
    Assumes that corruption costs the dense models 15 points, and errors as `planted_robustness` has
    them.

    Args:
        group_n: Examples (or clusters) of the group.
        rest_n: Those of all others.
        members: Members of each population.
        corruptions: Corruptions of the family.
        severities: Severities of each.
        tests: Groups times families.
        error: Error of the dense members on clean pictures, a fraction.

    Returns:
        nan where the group or the rest is too small to be compared.

    >>> round(smallest_contrast(500, 1500, members=10, corruptions=3, severities=3, tests=16), 3)
    0.029
    """
    fewest = min(group_n, rest_n)
    if fewest < FEWEST_PICTURES:
        return math.nan
    shrunk = max(1.0, (group_n + rest_n) / SIMULATED)
    drawn = (
        round(max(group_n / shrunk, FEWEST_PICTURES)),
        round(max(rest_n / shrunk, FEWEST_PICTURES)),
    )
    deviation, freedom = _contrast(drawn, members, corruptions, severities, round(error, 3))
    chances = np.array([1 - (1 - LEVEL) / 2 / max(tests, 1), POWER])
    size = math.sqrt((1 / group_n + 1 / rest_n) / (1 / drawn[0] + 1 / drawn[1]))
    return float(stdtrit(freedom, chances).sum() * deviation * size)


@cache
def _contrast(
    sizes: tuple[int, int], members: int, corruptions: int, severities: int, error: float
) -> tuple[float, float]:
    """Standard error of a contrast where nothing is planted, and its degrees of freedom."""
    group = np.arange(sum(sizes)) < sizes[0]
    clean = 1 - error
    contrasts = []
    for seed in range(DRAWN):
        dense, compressed = planted_robustness(
            group, members=members, families=(corruptions,), severities=severities, seed=seed,
            clean=clean, corrupted=max(clean - 0.15, 0.05),
        )  # fmt: skip
        own = [right.under(range(corruptions)) for right in (dense, compressed)]
        contrasts.append(group_contrast(own[0], own[1], group))
    deviation = math.sqrt(np.mean([contrast.se**2 for contrast in contrasts]))
    return deviation, 1 / float(np.mean([1 / contrast.df for contrast in contrasts]))
