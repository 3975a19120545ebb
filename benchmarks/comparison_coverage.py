"""Coverage and power of a comparison's intervals: `python benchmarks/comparison_coverage.py`.

Two models answer the same examples, alone or in clusters of ten. How hard an example is, and how
hard its cluster is, makes both err; quantization adds noise of its own and a true rise.
The truth of a comparison is the mean over all examples that there could be, from the normal law.
Power: how often the interval of the change excludes 0.

With `--exact` the same of 100 independent examples, summed over all numbers of flips both ways
instead of simulated, for the four flips that the variance floor adds and for fewer of them. The
gate judges at 99.5% and beyond once it corrects for several tests.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import multinomial, norm
from scipy.stats import t as student

from scotoma.comparison.means import mean_change
from scotoma.numbers import flip_floor

SHARED = 0.5  # of the variance of hardness, by clusters of ten
NOISE = 0.25  # of the quantized model
THRESHOLD = 1.0


def main() -> None:
    """Print one line a design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1_000)
    parser.add_argument("--exact", action="store_true")
    asked = parser.parse_args()
    if asked.exact:
        print("added flips  level  lowest  mean  above 98.5%  power")
        for level in (0.95, 0.995):
            for added in (4, 3, 2, 1):
                held, powers = exact_coverage(100, added, level)
                above = f"{100 * (held > 0.985).mean():10.0f}%" if level < 0.985 else f"{'':11}"
                print(
                    f"{added:11}  {level:5}  {held.min():6.3f}  {held.mean():.3f} {above}  "
                    f"{powers.mean():5.2f}"
                )
        return
    simulations = asked.simulations
    print("     n  clusters of  true rise  changed  coverage  power  mean width")
    for n in (100, 1_000, 10_000):
        for size in (1, 10):
            for harm in (0.0, 0.2):
                covered, shown, width, rise, changed = coverage(n, size, harm, simulations)
                print(
                    f"{n:6,}  {size:11}  {100 * rise:8.1f}%  {changed:7.0f}  {covered:8.3f}  "
                    f"{shown:5.2f}  {100 * width:8.1f}%",
                    flush=True,
                )


def coverage(
    n: int, size: int, harm: float, simulations: int
) -> tuple[float, float, float, float, float]:
    """Simulate comparisons of one design.

    Args:
        n: Examples.
        size: Examples in a cluster.
        harm: By how much harder all examples are for the compressed model.
        simulations: How many.

    Returns:
        Share of intervals that hold the truth, share that exclude 0, mean width, true rise, and
        mean number of answers that change.
    """
    rng = np.random.default_rng([n, size, round(100 * harm)])
    # Error is the chance that a standard normal hardness, plus noise and harm, is above.
    truth = float(norm.sf((THRESHOLD - harm) / np.hypot(1.0, NOISE)) - norm.sf(THRESHOLD))
    clusters = np.repeat(np.arange(n // size), size)
    held = shown = flips = 0
    widths = []
    for _ in range(simulations):
        hard = rng.normal(size=n)
        if size > 1:
            own = rng.normal(size=n // size)[clusters]
            hard = np.sqrt(SHARED) * own + np.sqrt(1 - SHARED) * hard
        before = hard > THRESHOLD
        after = hard + harm + NOISE * rng.normal(size=n) > THRESHOLD
        change = mean_change(before, after, clusters=clusters if size > 1 else None).change
        flips += int((before != after).sum())
        held += change.low <= truth <= change.high
        shown += not change.low <= 0 <= change.high
        widths.append(change.high - change.low)
    shares = held / simulations, shown / simulations
    return *shares, float(np.mean(widths)), truth, flips / simulations


def exact_coverage(n: int, added: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Coverage and power of the interval of a change, were the floor of another size.

    Args:
        n: Independent examples, answered by one model a side.
        added: Flips that the floor adds; `flip_floor` adds 4.
        level: Of the interval.

    Returns:
        Of 1 to 20 expected flips, of which 0 to all go one way, 40 designs: the chance that the
        interval holds the truth, and that it excludes 0.
    """
    worse, better = np.meshgrid(np.arange(n // 2), np.arange(n // 2), indexing="ij")
    change = (worse - better) / n
    spread = (worse + better) / n - change**2
    same = n - worse - better
    fourth = worse * (1 - change) ** 4 + better * (1 + change) ** 4 + same * change**4
    excess = np.divide(fourth / n, spread**2, where=spread > 0, out=np.ones(spread.shape)) - 1
    examples = spread / (n - 1)
    floor = flip_floor(examples, excess, n) * added / 4 * ((n + 4) / (n + added)) ** 2
    varied = np.maximum(examples**2 * excess / (2 * n), 1e-300)
    df = np.minimum((examples + floor) ** 2 / varied, 1e9)
    half = student.ppf(0.5 + level / 2, df) * np.sqrt(examples + floor)
    low, high = change - half, change + half
    held, power = [], []
    for flips in (1, 2, 3, 5, 7, 10, 15, 20):
        for one_way in (0, 0.25, 0.5, 0.75, 1):
            up, down = flips * (1 + one_way) / 2 / n, flips * (1 - one_way) / 2 / n
            counts = np.stack([worse, better, np.maximum(same, 0)], axis=-1)
            chance = multinomial.pmf(counts, n, [up, down, 1 - up - down]) * (same >= 0)
            truth = up - down
            held.append(chance[(low <= truth + 1e-12) & (truth <= high + 1e-12)].sum())
            power.append(chance[(low > 0) | (high < 0)].sum())
    return np.array(held), np.array(power)


if __name__ == "__main__":
    main()
