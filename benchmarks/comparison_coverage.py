"""Coverage and power of a comparison's intervals: `python benchmarks/comparison_coverage.py`.

Two models answer the same examples, alone or in clusters of ten. How hard an example is, and how
hard its cluster is, makes both err; quantization adds noise of its own and a true rise.
The truth of a comparison is the mean over all examples that there could be, from the normal law.
Power: how often the interval of the change excludes 0.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import norm

from scotoma.comparison import mean_change

SHARED = 0.5  # of the variance of hardness, by clusters of ten
NOISE = 0.25  # of the quantized model
THRESHOLD = 1.0


def main() -> None:
    """Print one line a design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1_000)
    simulations = parser.parse_args().simulations
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


if __name__ == "__main__":
    main()
