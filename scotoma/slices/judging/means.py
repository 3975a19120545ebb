"""Is the mean of a score over a slice worse than that of the rest, or of a baseline?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from scotoma.numbers import Variance, combine, flip_floor
from scotoma.numbers.influences import member_variance
from scotoma.numbers.inputs import Floats
from scotoma.slices.judging.evidence import (
    MIN_EFFECTIVE_EVENTS,
    CellRows,
    Direction,
    JudgedCells,
    Lane,
    student_p,
)
from scotoma.slices.judging.tally import ClusterSums, ClusterVariance, Part, Sums
from scotoma.slices.outcomes import Outcome

ROUNDING = 1e-9  # means over three models add up to 10 events or to a last bit less, as rows lie
EXAMPLES = 6  # lanes before the scatter within examples and the members' sums


@dataclass(frozen=True)
class Centre:
    """Values that the lanes of a mean are centred on, which changes nothing but rounding.

    Attributes:
        mean: The mean of psi.
        inverted: Whether the examples without the event count as events, as for a rate near 1.
        members: The mean of each population that has several members.
    """

    mean: float
    inverted: bool
    members: tuple[float, ...]

    @classmethod
    def of(cls, outcome: Outcome) -> Centre:
        """Centre the rows of an outcome on their means.

        >>> from scotoma.slices.outcomes import SLICE_METRICS, prepare_outcome
        >>> Centre.of(prepare_outcome(SLICE_METRICS["error"], [1, 1, 0, 1], None, None, 4))
        Centre(mean=0.75, inverted=True, members=())
        """
        psi = psi_of(outcome)
        mean = float(psi.mean()) if psi.size else 0.0
        members = tuple(float(own.mean()) for own in several(outcome))
        largest = float(np.abs(psi).max(initial=0.0))
        inverted = counts_nonevents(mean, largest, outcome.baseline is not None)
        return cls(mean, inverted, members)


def counts_nonevents(mean: float, largest: float, compared: bool) -> bool:
    """Say whether a rate is so near 1 that the examples without the event are the rare events."""
    return not compared and 0.5 < mean <= 1 and largest <= 1


def psi_of(outcome: Outcome) -> Floats:
    """Compute the mean over members of every row, minus the baseline's where there is one."""
    first, *others = (own.above.mean(1) for own in outcome.populations)
    return np.asarray(first - others[0] if others else first)


def several(outcome: Outcome) -> list[Floats]:
    """List the scores of each population with several members; paired ones as differences."""
    scores = [own.above for own in outcome.populations]
    if outcome.paired:
        scores = [scores[0] - scores[1]]
    return [own for own in scores if own.shape[1] > 1]


def faces(outcome: Outcome) -> list[Outcome]:
    """Give the model, the baseline, and the change from it, each as an outcome of its own."""
    alone = [replace(outcome.having([own]), paired=False) for own in outcome.populations]
    return [*alone, outcome] if len(alone) > 1 else alone


@dataclass(frozen=True)
class MeanLane(Lane):
    """The mean of a score over a slice, members and examples both drawn at random.

    With psi the mean over members (of the model at hand minus the baseline, where there is one),
    the variance of its mean over the slice is V = max(V_ex + V_mod - V_res, V_ex, V_mod), the terms
    and degrees of freedom those of `scotoma.numbers.combine`. Two amendments serve the
    tails that a search looks into:

    - under the hypothesis a slice is a sample of the rest, so the variance over its examples is
      taken no smaller than that of as many of the rest (against a baseline: than its mean square),
      for a slice in which nothing happened has no variance of its own;
    - the mean must rest on at least 10 effective events, in the slice or as expected from the
      whole; a slice with fewer counts as tested all the same, because a family chosen by its events
      would be corrected for too few.

    Where rows share clusters, the variance over examples is no smaller than that over clusters, and
    events are those of clusters.

    Attributes:
        direction: Which side counts.
        reference: The rest of the rows, or the baseline on the same slice.
        members: Members of each population that has several.
        centre: What the lanes are centred on.
    """

    direction: Direction
    reference: Literal["rest", "baseline"]
    members: tuple[int, ...]
    centre: Centre

    @property
    def exchanges(self) -> bool:
        """Against a baseline the two populations are exchanged."""
        return self.reference == "baseline"

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers in each of the sums."""
        return 1, EXAMPLES + len(self.members) + sum(self.members)

    def adds(self, outcome: Outcome) -> list[Part]:
        """Four powers of psi, its events and their square, the scatter in rows, the members."""
        psi, populations, centre = psi_of(outcome), several(outcome), self.centre
        centred, events = psi - centre.mean, np.abs(psi)
        if centre.inverted:
            events = 1.0 - events
        scatter = [((own - own.mean(1, keepdims=True)) ** 2).sum(1) for own in populations]
        columns = [centred, centred**2, centred**3, centred**4, events, events**2, *scatter]
        lanes = np.empty((psi.size, self.widths[1]))
        lanes[:, : len(columns)] = np.stack(columns, axis=1)
        first = len(columns)
        for own, mean in zip(populations, centre.members, strict=True):
            np.subtract(own, mean, out=lanes[:, first : first + own.shape[1]])
            first += own.shape[1]
        return [(None, None), (None, lanes)]

    def over(self, parts: list[Part]) -> Floats:
        """Psi, against a baseline not centred, since there nothing changed; and its events."""
        lanes = parts[1][1]
        assert lanes is not None
        values = lanes[:, [0, 4]]
        if self.reference == "baseline":
            values[:, 0] += self.centre.mean
        return np.asarray(values)

    def judge(
        self, sums: Sums, whole: Sums, least: int, keep: float, rows: CellRows | None = None
    ) -> JudgedCells:
        """Test every cell that holds enough rows; with too few effective events p is 1."""
        size, total = sums[0], int(whole[0][0])
        wanted = size >= max(least, 2)
        if self.reference == "rest":
            wanted &= total - size >= 2
        cell, totals = np.flatnonzero(wanted), whole[1][0]
        over, squares = None, totals[5]
        if rows is not None and rows.evidence.by_cluster is not None:
            clusters, values, every = rows.evidence.by_cluster
            pairs = ClusterSums.of(rows.keys, clusters, values)
            compared = every if self.reference == "rest" else None
            over = ClusterVariance.of(pairs, size, cell, compared)
            enough = over.clusters >= MIN_EFFECTIVE_EVENTS
            cell, over = cell[enough], over.take(enough)
            squares = (every.sums[:, 1] ** 2).sum()
        lanes, n = sums[1][cell], size[cell].astype(np.float64)
        effect = self.effects(lanes, n, total, totals)
        own = lanes[:, 5] if over is None else over.event_squares
        with np.errstate(divide="ignore", invalid="ignore"):
            events = np.nan_to_num(lanes[:, 4] ** 2 / own)
            expected = np.nan_to_num(totals[4] ** 2 / squares) * (n / max(total, 1))
        enough = np.maximum(events, expected) >= MIN_EFFECTIVE_EVENTS * (1 - ROUNDING)
        variance, df = self.variance(
            lanes[enough], n[enough], total, totals, over and over.take(enough)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(variance > 0, effect[enough] / np.sqrt(variance), 0.0)
        p = np.ones(n.shape)
        p[enough] = student_p(t, df, self.direction, keep, np.inf)
        return JudgedCells(size, cell, effect, p)

    def effects(self, lanes: Floats, n: Floats, rows: float, totals: Floats) -> Floats:
        """Compute the effects of slices, shape (T,), from the sums of their lanes, (T, W)."""
        mean = lanes[:, 0] / n
        if self.reference == "baseline":
            return np.asarray(mean + self.centre.mean)
        return np.asarray(mean - (totals[0] - lanes[:, 0]) / (rows - n))

    def variance(
        self,
        lanes: Floats,
        n: Floats,
        rows: float,
        totals: Floats,
        over: ClusterVariance | None = None,
    ) -> tuple[Floats, Floats]:
        """Estimate the variance of the effects and its degrees of freedom."""
        sides, mean = [(lanes, n)], self.centre.mean
        variance, excess = _spread(lanes, n)
        least = lanes[:, 1] / n + 2 * mean * lanes[:, 0] / n + mean**2  # the mean square
        if self.reference == "rest":
            sides.append((totals - lanes, rows - n))
            least, other_excess = _spread(*sides[1])
            excess = np.where(variance >= least, excess, other_excess * n / (rows - n))
        parts = [(np.maximum(variance, least) / n, 2 * n / np.maximum(excess, 1e-12))]
        if self.reference == "rest":
            m = rows - n
            parts.append((least / m, 2 * m / np.maximum(other_excess, 1e-12)))
        examples = np.sum([part for part, _ in parts], axis=0)
        spread = np.sum([part**2 / f for part, f in parts], axis=0)
        if over is not None:
            larger = over.variance > examples
            spread = np.where(larger, over.variance**2 / over.df, spread)
            examples = np.where(larger, over.variance, examples)
        members = residual = np.zeros(n.shape)
        first = EXAMPLES + len(self.members)
        for place, k in enumerate(self.members, EXAMPLES):
            means = [own[:, first : first + k] / count[:, None] for own, count in sides]
            each = zip(sides, means, strict=True)
            residual = residual + sum(_residual(own[:, place], one, c) for (own, c), one in each)
            rates = means[0] - means[1] if len(means) > 1 else means[0]
            own_members = rates.var(1, ddof=1) / k
            members, spread = members + own_members, spread + own_members**2 / (k - 1)
            first += k
        total = np.maximum(np.maximum(examples + members - residual, examples), members)
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.where(spread > 0, total**2 / spread, np.inf)
        return total, np.maximum(df, 1.0)

    def number(self, *cells: Sums, flips: bool = False) -> tuple[float, Variance]:
        """Compute the mean of some rows, or that minus others', with the variance of a `Number`.

        Args:
            cells: Sums of the rows as one cell, or of those inside and those outside.
            flips: Whether it is a change that examples which did not flip may still bring.
        """
        sums = [(float(size[0]), lanes[0]) for size, lanes in cells]
        means = [lanes[0] / n if n else np.nan for n, lanes in sums]
        value = float(means[0] - means[1] if len(means) > 1 else means[0] + self.centre.mean)
        total = sum(n for n, _ in sums)
        if total < 2:
            unknown = np.asarray(np.nan)
            return value, combine(unknown, unknown, total, [])
        scales = [total / n if n else np.nan for n, _ in sums]
        powers = [_central(n, lanes) for n, lanes in sums]
        second, fourth = (
            sum(scale**power * own[place] for scale, own in zip(scales, powers, strict=True))
            / total
            for place, power in enumerate((2, 4))
        )
        excess = np.asarray(max(fourth / second**2 - 1, 0.0) if second else 0.0)
        examples, members = np.asarray(second / (total - 1)), []
        first = EXAMPLES + len(self.members)
        for place, k in enumerate(self.members, EXAMPLES):
            inside, *outside = (lanes[first : first + k] / n for n, lanes in sums)
            first += k
            rates = inside - outside[0] if outside else inside
            within = sum(
                scale**2 * lanes[place] for scale, (_, lanes) in zip(scales, sums, strict=True)
            )
            sse = _nonzero(within - total * ((rates - rates.mean()) ** 2).sum(), within)
            residual = np.asarray(sse / ((total - 1) * (k - 1) * total * k))
            members.append((member_variance(rates), residual, k))
        seen = combine(examples, excess, total, members)
        return value, seen.floored(flip_floor(examples, excess, total)) if flips else seen


def events_of(sums: Sums) -> float:
    """Count the effective events (`n_effective`) of a rate, from the sums of one cell."""
    total, squares = sums[1][0][4:EXAMPLES]
    return float(total**2 / squares) if squares > 0 else 0.0


def _central(n: float, lanes: Floats) -> tuple[float, float]:
    """Sum the second and the fourth powers about the mean."""
    if not n:
        return 0.0, 0.0
    mean, second, third, fourth = lanes[:4] / n
    spread = _nonzero(second - mean**2, second)
    moment = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
    return n * spread, n * moment if spread else 0.0


def _nonzero(difference: float, of: float) -> float:
    """What is larger than the rounding of a sum of squares; else 0."""
    return float(difference) if difference > 16 * np.finfo(np.float64).eps * of else 0.0


def _spread(lanes: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Estimate the variance (ddof 1) of psi over examples, and its kurtosis minus 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = lanes[:, 0] / n
        second = np.maximum(lanes[:, 1] / n - mean**2, 0.0)
        fourth = lanes[:, 3] / n - mean * (4 * lanes[:, 2] / n - mean * (6 * lanes[:, 1] / n))
        fourth = fourth - 3 * mean**4
        excess = np.where(second > 0, fourth / second**2 - 1.0, 0.0)
    return second * n / (n - 1), np.maximum(excess, 0.0)


def _residual(scatter: Floats, means: Floats, n: Floats) -> Floats:
    """Estimate V_res of one population: squares without those of examples and members."""
    k = means.shape[1]
    sse = scatter - n * ((means - means.mean(1, keepdims=True)) ** 2).sum(1)
    return np.asarray(np.maximum(sse, 0.0) / ((n - 1) * (k - 1) * n * k))
