"""How much more often is an answer given in one arm? Both items and annotators are random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scotoma.audit.study import Effect
from scotoma.numbers import Estimate, satterthwaite

Floats = npt.NDArray[np.float64]
FEWEST_ANNOTATORS = 3


def difference(first: Floats, second: Floats, *, level: float = 0.95) -> Effect:
    """Compare how often an answer is given in two arms that the same annotators judged.

    The variance is that of items plus that of annotators minus what both count twice, and never
    less than either: v = max(v_i + v_a - v_r, v_i, v_a). The interval is t with Satterthwaite's
    degrees of freedom. Answers are never taken as independent.

    Args:
        first: 1 where the answer was given, 0 where another was, nan for none, shape (items, J).
        second: The same of the other arm, whose columns are the same annotators.
        level: Of the interval.

    References:
        Cameron, Gelbach and Miller (2011), Journal of Business & Economic Statistics 29:238-249,
        for two-way clusters; Satterthwaite (1946), Biometrics Bulletin 2:110-114.

    >>> one = np.array([[1, 1, 0], [0, 1, 0.0]])
    >>> found = difference(one, 1 - one)
    >>> found.value, found.items, found.annotators
    (0.0, (2, 2), 3)
    """
    return _signed((first, second), (1, -1), level)


def interaction(
    first: tuple[Floats, Floats], second: tuple[Floats, Floats], *, level: float = 0.95
) -> Effect:
    """Compare the `difference` of two arms among some items with that among others.

    Args:
        first: Two arms of the first items, as in `difference`.
        second: Two arms of the second items.
        level: Of the interval.

    >>> one = np.array([[1, 1, 0], [0, 1, 0.0]])
    >>> interaction((one, 1 - one), (one, one)).value
    0.0
    """
    return _signed((*first, *second), (1, -1, -1, 1), level)


def weighted_share(values: Floats, weights: Floats, *, level: float = 0.95) -> Effect:
    """Share of an answer, items weighted; items and annotators are random in its interval.

    Args:
        values: 1 where the answer was given, 0 where another was, nan for none, shape (items, J).
        weights: What each item stands for, shape (items,).
        level: Of the interval.

    >>> weighted_share(np.array([[1, 1, 0], [0, 1, 0.0]]), np.array([3.0, 1])).value
    0.5833333333333334
    """
    values = np.asarray(values, float)
    wide = np.where(np.isnan(values), 0.0, np.asarray(weights, float)[:, None])
    total = wide.sum()
    if not total > 0:
        return _signed((np.full_like(values, np.nan),), (1,), level)
    share = float((wide * np.nan_to_num(values)).sum() / total)
    # A weighted mean is the mean of its linear parts, which have its variance.
    parts = share + wide * (values - share) * (~np.isnan(values)).sum() / total
    found = _signed((parts,), (1,), level)
    update = {"value": share, "shares": (share,)} | {
        name: min(1.0, max(0.0, end))
        for name in ("low", "high")
        if (end := getattr(found, name)) is not None
    }
    return found.model_copy(update=update)


def _signed(arms: Sequence[Floats], signs: Sequence[int], level: float) -> Effect:
    """A signed sum of shares with its interval."""
    arms = [np.asarray(arm, float) for arm in arms]
    known = [~np.isnan(arm) for arm in arms]
    items = tuple(int(k.any(axis=1).sum()) for k in known)
    everywhere = np.all([k.any(axis=0) for k in known], axis=0)
    shares = tuple(
        float(arm[k].mean()) if k.any() else None for arm, k in zip(arms, known, strict=True)
    )
    found = Effect(n=sum(items), shares=shares, items=items, annotators=int(everywhere.sum()))

    def without(reason: str, value: float | None) -> Effect:
        return found.model_copy(update={"value": value, "reason": reason})

    if None in shares:
        return without("an arm has no answer", None)
    value = float(sum(sign * (share or 0.0) for sign, share in zip(signs, shares, strict=True)))
    if found.annotators < FEWEST_ANNOTATORS:
        needed = f"{found.annotators} of {FEWEST_ANNOTATORS} annotators needed"
        return without(f"{needed} to see how much they differ", value)
    if min(items) < 2:
        return without("an arm has fewer than 2 items", value)
    v_items, v_annotators, v_answers = mean_variances(arms, signs)
    parts = [
        (v_items, sum(items) - len(arms)),
        (v_annotators, found.annotators - 1),
        (-v_answers, sum(int(k.sum()) for k in known) - len(arms)),
    ]
    summed = v_items + v_annotators - v_answers
    variance, df = satterthwaite(
        parts if summed >= max(v_items, v_annotators) else [max(parts[:2])]
    )
    if not variance > 0:
        return without("all answers are equal within each arm", value)
    shown = Estimate.on_scale(
        value, variance**0.5, float(df), n=found.n, members=found.annotators, level=level
    )
    most = max(1, len(arms) / 2)
    return found.model_copy(
        update={
            "value": value,
            "low": max(-most, shown.low),
            "high": min(most, shown.high),
            "p": shown.p_differs(),
            "df": shown.df,
        }
    )


def mean_variances(arms: Sequence[Floats], signs: Sequence[int]) -> tuple[float, float, float]:
    """Variance of a signed sum of means: by items, by annotators, and by answers.

    Args:
        arms: Answers, nan for none, each of shape (items, J); 2 items and 2 annotators at least.
        signs: Of each mean.
    """
    by_items = by_answers = 0.0
    of_annotator = np.zeros(arms[0].shape[1])
    judged = np.zeros(arms[0].shape[1], bool)
    for arm, sign in zip(arms, signs, strict=True):
        answered = ~np.isnan(arm)
        n, rows = int(answered.sum()), int(answered.any(axis=1).sum())
        parts = np.where(answered, arm - arm[answered].mean(), 0.0) / n
        by_items += rows / (rows - 1) * float((parts.sum(axis=1) ** 2).sum())
        by_answers += n / (n - 1) * float((parts**2).sum())
        of_annotator += sign * parts.sum(axis=0)
        judged |= answered.any(axis=0)
    judges = int(judged.sum())
    return by_items, judges / (judges - 1) * float((of_annotator**2).sum()), by_answers


def bootstrap_interval(
    first: Floats, second: Floats, *, seed: int, draws: int = 2000, level: float = 0.95
) -> tuple[float, float]:
    """Draw items and annotators again and again: a check on `difference`.

    References:
        Owen (2007), Annals of Applied Statistics 1:386-411: the pigeonhole bootstrap.

    >>> one = np.array([[1, 1, 0], [0, 1, 0.0]])
    >>> low, high = bootstrap_interval(one, 1 - one, seed=0, draws=200)
    >>> low <= 0 <= high
    True
    """
    rng = np.random.default_rng(seed)
    columns = drawn_times(rng, first.shape[1], draws)
    shares = []
    for arm in (np.asarray(first, float), np.asarray(second, float)):
        answered = ~np.isnan(arm)
        rows = drawn_times(rng, len(arm), draws)
        given = ((rows @ np.where(answered, arm, 0.0)) * columns).sum(axis=1)
        shares.append(given / np.maximum(((rows @ answered) * columns).sum(axis=1), 1e-12))
    return middle(shares[0] - shares[1], level)


def drawn_times(rng: np.random.Generator, units: int, draws: int) -> Floats:
    """How often a bootstrap draws each unit, shape (draws, units)."""
    return rng.multinomial(units, np.full(units, 1 / units), size=draws).astype(float)


def middle(values: npt.ArrayLike, level: float) -> tuple[float, float]:
    """Ends of the middle part of what a bootstrap gave, nan left out."""
    given = np.asarray(values, float)
    tail = 50 * (1 - level)
    low, high = np.percentile(given[~np.isnan(given)], [tail, 100 - tail])
    return float(low), float(high)
