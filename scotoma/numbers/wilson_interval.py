"""How certain is a share of independent yes and no? Wilson's score interval."""

from __future__ import annotations

import math
from statistics import NormalDist


def wilson(k: float, n: int, level: float) -> tuple[float, float]:
    """Interval of k / n.

    Args:
        k: How many; also a sum of values in [0, 1], whose variance is never larger.
        n: Of how many, 1 at least.
        level: Confidence level.

    References:
        Wilson (1927), Journal of the American Statistical Association 22:209-212.

    >>> [round(end, 4) for end in wilson(81, 263, 0.95)]  # Newcombe (1998), method 3
    [0.2553, 0.3662]
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (k + z * z / 2) / (n + z * z)
    reach = z / (n + z * z) * math.sqrt(k * (n - k) / n + z * z / 4)
    return centre - reach, centre + reach
