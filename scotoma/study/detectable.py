"""Which difference between two arms would a study of this size show?"""

from __future__ import annotations

from scipy import optimize

from scotoma.power import chance_beyond, seen_variances

BASE = 0.17  # share of the answer in the second arm, about what PIE's groups had
OF_ITEMS = 0.34  # share of an answer's variance that lies between items
SD_OF_ANNOTATORS = 0.064  # by which annotators differ in the difference itself
WANTED = 0.8


def power(difference: float, per_arm: int, annotators: int) -> float:
    """Probability that a difference of two shares is significant at 5%.

    Variances are those of `scotoma.study.effects.difference`; what annotators and items contribute
    is assumed (the constants of this module), so this plans a study and judges none.

    Args:
        difference: True difference, in (0, 1 - BASE).
        per_arm: Items an arm, each judged by every annotator.
        annotators: At least 2.

    >>> round(power(0.14, 100, 5), 1)
    0.8
    """
    shares = (BASE, BASE + difference)
    of_answers = OF_ITEMS + (1 - OF_ITEMS) / annotators
    items = sum(share * (1 - share) for share in shares) * of_answers / per_arm
    people = SD_OF_ANNOTATORS**2 / annotators
    parts = [(items, 2.0 * per_arm - 2), (people, annotators - 1.0)]
    return float(chance_beyond(difference, items + people, *seen_variances(parts)))


def smallest_difference(per_arm: int, annotators: int) -> float | None:
    """The smallest true difference that is significant with 80% power; None where none is.

    >>> round(smallest_difference(100, 5), 2), smallest_difference(2, 2)
    (0.15, None)
    """
    if annotators < 2 or per_arm < 2:
        return None
    most = 0.999 - BASE
    if power(most, per_arm, annotators) < WANTED:
        return None
    root = optimize.brentq(lambda d: power(d, per_arm, annotators) - WANTED, 1e-6, most, xtol=1e-6)
    return float(root)
