"""Corruption error: a population's error under corruptions beside that of the dense one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scotoma.numbers import Estimate, Number, undefined
from scotoma.robustness.losses import loss
from scotoma.robustness.right_answers import RightAnswers


def corruption_error(
    dense: RightAnswers, compressed: RightAnswers, corruptions: Sequence[int]
) -> Estimate:
    """Error summed over severities, over that of dense, mean over corruptions: CE of one, mCE.

    Args:
        dense: Right answers of the dense members.
        compressed: The same of the compressed members.
        corruptions: Places of the corruptions that count.

    Returns:
        A ratio (papers print 100 times as much), its interval on the log scale.

    References:
        Hendrycks and Dietterich (2019), section 4.

    >>> labels = np.zeros(40)
    >>> dense = RightAnswers.of(np.zeros((40, 1)), np.arange(40).reshape(1, 1, 40, 1) < 8, labels)
    >>> both = RightAnswers.of(np.zeros((40, 1)), np.arange(40).reshape(1, 1, 40, 1) < 16, labels)
    >>> round(corruption_error(dense, both, [0]).value, 12)
    2.0
    """
    below, above = ([_error(own, k) for k in corruptions] for own in (dense, compressed))
    for who, errors in (("dense", below), ("compressed", above)):
        if not all(error.value for error in errors):
            reason = f"undefined (the {who} models make no error under it)"
            members = min(one.members for one in (*below, *above))
            return undefined(reason, n=errors[0].n, members=members)
    ratio = _mean([c / d for d, c in zip(below, above, strict=True)])
    both = math.prod(float(np.mean([error.value for error in errors])) for errors in (below, above))
    return ratio.floored(ratio.value / math.sqrt(both)).estimate("ratio")


def relative_corruption_error(
    dense: RightAnswers, compressed: RightAnswers, corruption: int
) -> Estimate:
    """What a corruption adds to the clean error, over what it adds to that of dense.

    Returns:
        A plain ratio of differences: undefined where the interval of the dense one reaches 0.

    References:
        Hendrycks and Dietterich (2019), section 4.
    """
    below, above = (
        replace(loss(own.under([corruption]).means(), "absolute"), events=math.nan)
        for own in (dense, compressed)
    )
    if not below.estimate().low > 0:
        shown = f"{100 * below.value:.1f} points"
        reason = f"undefined (what it costs the dense models, {shown}, may be nothing)"
        return undefined(reason, n=below.n, members=min(below.members, above.members))
    return (above / below).floored(1 / below.value).estimate()


def errors_over(
    own: RightAnswers, corruptions: Sequence[int], reference: Sequence[float]
) -> Estimate:
    """Compute the mean corruption error over published errors of a reference model.

    Args:
        own: Right answers of one population at the severities of the reference.
        corruptions: Places of the corruptions; one gives its CE, all fifteen mCE.
        reference: Error of the reference model under each, a fraction.

    Returns:
        A ratio (papers print 100 times as much), its interval on the log scale.

    References:
        Hendrycks and Dietterich (2019), section 4, with AlexNet as the reference.

    >>> half = RightAnswers.of(np.zeros((40, 1)), np.arange(40).reshape(1, 1, 40, 1) < 20,
    ...     np.zeros(40))
    >>> errors_over(half, [0], [0.8]).value
    0.625
    """
    ratio = _mean([_error(own, k) / e for k, e in zip(corruptions, reference, strict=True)])
    if not ratio.value:
        reason = "undefined (the models make no error under it)"
        return undefined(reason, n=ratio.n, members=ratio.members)
    return ratio.estimate("ratio")


def _error(own: RightAnswers, corruption: int) -> Number:
    """Error under a corruption; no number of events tells whether a ratio of such can be had."""
    return replace(1 - own.under([corruption]).means()[1], events=math.nan)


def _mean(numbers: Sequence[Number]) -> Number:
    return sum(numbers[1:], start=numbers[0]) / len(numbers)
