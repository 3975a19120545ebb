"""Which sums over rows give a mean, or how two differ, with the interval of `Number`?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scotoma.numbers import Estimate, Variance, combine, flip_floor, of_variance
from scotoma.numbers.enough import FEW, FEW_EVENTS
from scotoma.numbers.influences import member_variance
from scotoma.numbers.inputs import Floats
from scotoma.slices.outcomes import Outcome

ROUNDING = 16 * np.finfo(np.float64).eps  # of a sum of squares: what is smaller is 0
POWERS = 5  # lanes before the scatter


@dataclass(frozen=True)
class Moments:
    """Sums over rows of a score: of a population, or of two that independently scored the rows.

    Attributes:
        widths: Members of each population.
        centre: What the mean over members is centred on, which changes nothing but rounding.
    """

    widths: tuple[int, ...]
    centre: float = 0.0

    @property
    def lanes(self) -> int:
        """Numbers that are summed over rows."""
        return POWERS + len(self.widths) + sum(self.widths)

    def of(self, populations: list[Floats]) -> Floats:
        """Compute what is summed, shape (N, lanes): powers 0 to 4, scatter within rows, members.

        Of two populations the score is the first minus the second.
        """
        means = [own.mean(1) for own in populations]
        x = means[0] - (means[1] if len(means) > 1 else 0.0) - self.centre
        pairs = zip(populations, means, strict=True)
        scatter = [((own - mean[:, None]) ** 2).sum(1) for own, mean in pairs]
        return np.column_stack([x[:, None] ** np.arange(POWERS), *scatter, *populations])

    def mean(self, sums: Floats) -> float:
        """Give the mean; nan without rows."""
        return float(sums[1] / sums[0] + self.centre) if sums[0] else np.nan

    def events(self, sums: Floats) -> float:
        """Count the effective events (`n_effective`) of a rate, which is not centred."""
        return float(sums[1] ** 2 / sums[2]) if sums[2] > 0 else 0.0

    def variance(self, *parts: Floats, flips: bool = False) -> Variance:
        """Estimate the variance of the mean of some rows, or of it minus that of others."""
        counts = [float(own[0]) for own in parts]
        total, scales = sum(counts), [sum(counts) / n if n else np.nan for n in counts]
        if total < 2:
            nothing = np.zeros(())
            unknown = np.asarray(np.nan)
            return combine(unknown, unknown, total, [(nothing, nothing, k) for k in self.widths])
        central = [_central(own) for own in parts]
        second, fourth = (
            sum(scale**power * own[place] for scale, own in zip(scales, central, strict=True))
            / total
            for place, power in enumerate((2, 4))
        )
        excess = np.asarray(max(fourth / second**2 - 1, 0.0) if second else 0.0)
        examples = np.asarray(second / (total - 1))
        seen = combine(examples, excess, total, self._populations(parts, scales, total))
        return seen.floored(flip_floor(examples, excess, total)) if flips else seen

    def _populations(
        self, parts: tuple[Floats, ...], scales: list[float], total: float
    ) -> list[tuple[Floats, Floats, int]]:
        """V_mod and V_res of each population."""
        found, first = [], POWERS + len(self.widths)
        for place, k in enumerate(self.widths):
            rates = [own[first : first + k] / own[0] for own in parts]
            first += k
            if k == 1:
                found.append((np.zeros(()), np.zeros(()), k))
                continue
            difference = rates[0] - rates[1] if len(rates) > 1 else rates[0]
            within = sum(
                scale**2 * float(own[POWERS + place])
                for own, scale in zip(parts, scales, strict=True)
            )
            between = total * float(((difference - difference.mean()) ** 2).sum())
            sse = _nonzero(within - between, within)
            residual = np.asarray(sse / ((total - 1) * (k - 1) * total * k))
            found.append((member_variance(difference), residual, k))
        return found


def score_lanes(scores: tuple[Moments, ...], outcome: Outcome) -> Floats:
    """Compute what is summed of the model, the baseline and their difference, shape (N, W)."""
    populations = [[own.above] for own in outcome.populations]
    if len(scores) > 1:
        both = [own.above for own in outcome.populations]
        populations.append(both if len(scores[-1].widths) > 1 else [both[0] - both[1]])
    each = zip(scores, populations, strict=True)
    return np.concatenate([moments.of(own) for moments, own in each], axis=1)


def estimate(
    value: float, variance: Variance, n: int, members: int, events: float, level: float
) -> Estimate:
    """Estimate as `Number.estimate` does."""
    note = FEW_EVENTS if events < FEW else ""
    return of_variance(value, variance, n=n, members=members, events=events, level=level, note=note)


def _central(sums: Floats) -> tuple[float, float]:
    """Sum the second and the fourth powers about the mean."""
    n = sums[0]
    if not n:
        return 0.0, 0.0
    mean, second, third, fourth = sums[1:POWERS] / n
    spread = _nonzero(second - mean**2, second)
    moment = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
    return n * spread, n * moment if spread else 0.0


def _nonzero(difference: float, of: float) -> float:
    return float(difference) if difference > ROUNDING * of else 0.0
