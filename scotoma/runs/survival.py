"""Is a mitigation still there after compression, and beside models that are as accurate?"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers import Estimate, check_level, undefined
from scotoma.numbers.inputs import Floats, floats
from scotoma.runs.comparing import flip_tests
from scotoma.runs.effects import (
    bare,
    covariance_of_draws,
    fieller,
    rests_on,
    two_level_mean,
    variance_of,
)
from scotoma.runs.finding import RunFinding
from scotoma.runs.table import ACCURACY, VariantSets

LARGEST_GAP = 0.01  # of accuracy, up to which two populations count as equally accurate
MOST_ACCURACY_LOST = 0.02  # by the compressed baseline; beyond it everything collapses
HALVINGS = 1000  # random ones, where there are more ways to halve the seeds
A_LOSS = "undefined (no gain to survive: the technique is worse than the baseline while dense)"
Bias = Callable[[str, str], Floats]  # of a technique and variant, a value a seed or draw
# H, the gains and I, of the bias of a technique m and its baseline under dense and a variant v.
CONTRASTS: dict[str, Callable[[Bias, str, str, str, str], Floats]] = {
    "harm": lambda b, m, v, base, dense: b(m, v) - b(m, dense),
    "gain dense": lambda b, m, v, base, dense: b(base, dense) - b(m, dense),
    "gain": lambda b, m, v, base, dense: b(base, v) - b(m, v),
    "interaction": lambda b, m, v, base, dense: (
        (b(base, dense) - b(m, dense)) - (b(base, v) - b(m, v))
    ),
}


def survival(
    sets: VariantSets,
    *,
    base: str,
    dense: str,
    drawn: VariantSets | None = None,
    level: float = 0.95,
) -> list[RunFinding]:
    """Measure harm, interaction and survival of every technique under every variant.

    With B(m, v) the bias of members of technique m under variant v, per seed:

        H = B(m, v) - B(m, dense)
        I = [B(m, v) - B(base, v)] - [B(m, dense) - B(base, dense)]
        S = mean of B(base, v) - B(m, v) over mean of B(base, dense) - B(m, dense)

    Args:
        sets: Bias by technique, variant and metric; value i of every one has seed i. A nan makes
            its findings undefined. `accuracy` is not compared; the baseline's says what it loses.
        base: The baseline.
        dense: The uncompressed variant.
        drawn: Mean bias over seeds on test sets drawn anew, from `resampled_bias`: intervals are
            over seeds and examples then. None for intervals over seeds on this test set.
        level: Coverage of the intervals, which are not adjusted, a fraction in (0, 1).

    Returns:
        Every technique but the baseline under every variant but dense, in every metric: `harm` H;
        `gain dense` and `gain` under the variant, baseline minus technique; `interaction` I, above
        0 where compression eats the mitigation, and `interaction in SD` of the dense baseline;
        `survival` S with Fieller's interval, nan where the interval of the dense gain does not lie
        above 0; `p` of the paired permutation test of I, adjusted over all of them; `null floor`:
        95% of the gains of one half of the dense seeds lie nearer to the gain of the other half;
        `baseline loss` of accuracy under the variant, nan where it is not known.

    Raises:
        DataError: Fewer than two seeds, or techniques of different seeds.

    >>> rng = np.random.default_rng(0)
    >>> means = {("base", "dense"): 0.10, ("base", "prune"): 0.10}
    >>> means |= {("fair", "dense"): 0.04, ("fair", "prune"): 0.07}
    >>> sets = {(*key, "DP"): mean + rng.normal(0, 0.002, 8) for key, mean in means.items()}
    >>> [cell] = survival(sets, base="base", dense="dense")
    >>> [round(cell.value(what), 2) for what in ("harm", "interaction", "survival")]
    [0.03, 0.03, 0.48]
    >>> cell.value("p")
    0.0078125
    """
    _check(sets, level)
    keys = [
        (technique, variant, metric)
        for technique, variant, metric in sets
        if technique != base and variant != dense and metric != ACCURACY
    ]
    runs = [_contrasts(sets, key, base, dense) for key in keys]
    tests = flip_tests([one["interaction"] for one in runs])
    found = []
    for key, own, p, adjusted in zip(keys, runs, *tests, strict=True):
        technique, variant, metric = key
        others = {} if drawn is None else _contrasts(drawn, key, base, dense)
        numbers = {
            what: two_level_mean(values, others.get(what), level=level)
            for what, values in own.items()
        }
        numbers["survival"] = _survival(own, others, level)
        sd = math.sqrt(variance_of(sets[base, dense, metric]))
        lost = math.nan
        if (base, dense, ACCURACY) in sets:
            lost = float((sets[base, dense, ACCURACY] - sets[base, variant, ACCURACY]).mean())
        beside = {
            "p": p, "p, adjusted": adjusted, "null floor": null_floor(own["gain dense"]),
            "interaction in SD": numbers["interaction"].value / sd if sd > 0 else math.nan,
            "baseline loss": lost,
        }  # fmt: skip
        seeds = len(own["gain"])
        numbers |= {name: bare(value, seeds) for name, value in beside.items()}
        found.append(RunFinding(technique, metric, numbers, base, variant))
    return found


def collapsed(finding: RunFinding) -> bool:
    """Whether the baseline loses so much accuracy under a variant that bias means little."""
    return finding.value("baseline loss") > MOST_ACCURACY_LOST


def equal_accuracy(
    sets: VariantSets, *, base: str, drawn: VariantSets | None = None, level: float = 0.95
) -> list[RunFinding]:
    """Compare every technique and variant with the baseline's variant of nearest accuracy.

    Models that err more often can look fairer or less fair for that alone. Where no variant of the
    baseline comes within `LARGEST_GAP`, there is no comparison at equal accuracy: `comparable`.

    Args:
        sets: Bias and `accuracy` by technique, variant and metric, paired by seed.
        base: The baseline.
        drawn: As for `survival`.
        level: Coverage of the intervals, which are not adjusted, a fraction in (0, 1).

    Returns:
        Every technique but the baseline under every variant, in every metric, against the
        baseline's variant `base`: `accuracy gap`, the technique's minus that one's; and `gain`,
        bias of the baseline's variant minus the technique's.

    >>> means = {("base", "dense"): (0.1, 0.92), ("base", "prune"): (0.2, 0.88),
    ...          ("fair", "dense"): (0.04, 0.95), ("fair", "prune"): (0.05, 0.92)}
    >>> sets = {(*key, what): np.array([mean, mean + 0.002]) for key, two in means.items()
    ...         for what, mean in zip(("BA", "accuracy"), two)}
    >>> [(row.variant, row.base, comparable(row)) for row in equal_accuracy(sets, base="base")]
    [('dense', 'dense', False), ('prune', 'dense', True)]
    """
    _check(sets, level)
    means = {key[:2]: own.mean() for key, own in sets.items() if key[2] == ACCURACY}
    found = []
    for technique, variant, metric in sets:
        if technique == base or metric == ACCURACY:
            continue
        at = means[technique, variant]
        _, beside = min(
            (key for key in means if key[0] == base), key=lambda key: abs(means[key] - at)
        )
        one, other = (technique, variant), (base, beside)
        draws = None if drawn is None else drawn[*other, metric] - drawn[*one, metric]
        gap = two_level_mean(sets[*one, ACCURACY] - sets[*other, ACCURACY], level=level)
        gain = two_level_mean(sets[*other, metric] - sets[*one, metric], draws, level=level)
        numbers = {"accuracy gap": gap, "gain": gain}
        found.append(RunFinding(technique, metric, numbers, beside, variant))
    return found


def comparable(finding: RunFinding) -> bool:
    """Whether a technique and the baseline's variant beside it are equally accurate."""
    return abs(finding.value("accuracy gap")) <= LARGEST_GAP


def _contrasts(
    sets: VariantSets, key: tuple[str, str, str], base: str, dense: str
) -> dict[str, Floats]:
    technique, variant, metric = key

    def bias(of: str, under: str) -> Floats:
        return sets[of, under, metric]

    return {what: of(bias, technique, variant, base, dense) for what, of in CONTRASTS.items()}


def _survival(own: dict[str, Floats], drawn: dict[str, Floats], level: float) -> Estimate:
    """Ratio of gains, where there was a gain."""
    after, before = own["gain"], own["gain dense"]
    examples = None
    if drawn:
        examples = covariance_of_draws(np.stack([drawn["gain"], drawn["gain dense"]], axis=1))
    ratio = fieller(after, before, examples=examples, level=level)
    if math.isnan(ratio.value) or before.mean() > 0:
        return ratio
    return undefined(A_LOSS, **rests_on(len(before), level=level, note=ratio.note))


def null_floor(values: npt.ArrayLike) -> float:
    """Measure how far the mean of one half of the seeds lies from that of the other.

    Args:
        values: One a seed, shape (R,), R >= 2; of an odd number one half has one more.

    Returns:
        The distance below which 95% of the ways to halve lie, in the unit of the values; nan where
        a value is. Halves are smaller than the whole: the floor of a difference over all seeds lies
        lower.

    >>> null_floor([1.0, 1.0, 1.0, 1.0]), null_floor([0.0, 1.0])
    (0.0, 1.0)
    """
    x = floats(values, "values")
    half = x.size // 2
    if math.comb(x.size, half) <= HALVINGS:
        halves = np.array(list(combinations(range(x.size), half)))
    else:
        rng = np.random.Generator(np.random.Philox(key=0))
        halves = rng.permuted(np.tile(np.arange(x.size), (HALVINGS, 1)), axis=1)[:, :half]
    inside = x[halves].sum(axis=1)
    distances = np.abs(inside / half - (x.sum() - inside) / (x.size - half))
    return float(np.quantile(distances, 0.95, method="higher"))


def _check(sets: VariantSets, level: float) -> None:
    check_level(level)
    sizes = {len(own) for own in sets.values()}
    if sizes and (len(sizes) > 1 or min(sizes) < 2):
        raise DataError(
            f"survival needs the same two seeds or more of everything, got {min(sizes)} to "
            f"{max(sizes)}: train more"
        )
