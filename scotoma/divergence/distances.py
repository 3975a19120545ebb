"""How many examples lie at each taxicab distance? Additive counts, for any threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scotoma.divergence.agreement import GIVEN_POPULATIONS, DivergenceScores, weighted_rate
from scotoma.errors import DataError
from scotoma.numbers import Estimate, Units, undefined
from scotoma.numbers.enough import FEWEST
from scotoma.numbers.inputs import Flags, Floats, Ints, booleans, populations, true_labels


@dataclass(frozen=True, kw_only=True)
class GroupByDistance:
    """The examples of one group at each distance.

    Attributes:
        group: Its name.
        examples: How many of its examples lie at each distance, shape (D,).
    """

    group: str
    examples: Ints


@dataclass(frozen=True, kw_only=True)
class ByDistance:
    """Counts at each distance; those at or above a threshold are sums of the last ones.

    Attributes:
        distance: The distances that occur, ascending, shape (D,).
        examples: Examples at each, shape (D,).
        dense_right: Predictions of dense members that are right, over those examples, shape (D,);
            None without labels.
        compressed_right: The same of the compressed members, shape (D,).
        groups: The examples of each group.
        n: All examples.
    """

    distance: Floats
    examples: Ints
    dense_right: Ints | None
    compressed_right: Ints | None
    groups: list[GroupByDistance]
    n: int


def by_distance(
    scores: DivergenceScores,
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    labels: npt.ArrayLike | None,
    groups: Mapping[str, npt.ArrayLike],
) -> ByDistance:
    """Count examples, right predictions and members of groups at each taxicab distance.

    Args:
        scores: From `score`, of the same examples.
        dense: Class ids, shape (N, K).
        compressed: Class ids, shape (N, K').
        labels: True class ids, shape (N,); None where they are not known.
        groups: For each name which examples belong to it, bool, shape (N,).

    Raises:
        DataError: As `score`, or inputs of different examples.

    >>> from scotoma.divergence import score
    >>> dense, compressed = [[0, 0], [1, 1], [0, 1]], [[0, 0], [1, 0], [0, 0]]
    >>> counts = by_distance(score(dense, compressed, 2), dense, compressed, [0, 1, 0],
    ...                     {"old": [False, True, True]})
    >>> counts.distance.tolist(), counts.examples.tolist(), counts.groups[0].examples.tolist()
    ([0.0, 2.0], [1, 2], [0, 2])
    >>> counts.dense_right.tolist(), counts.compressed_right.tolist()
    ([2, 3], [2, 3])
    """
    d, c = populations(dense, compressed, scores.n_classes)
    y = None if labels is None else true_labels(labels, scores.n, scores.n_classes)[:, None]
    distance, at = np.unique(scores.taxicab, return_inverse=True)

    def counted(times: npt.ArrayLike) -> Ints:
        return np.bincount(at, weights=times, minlength=len(distance)).astype(np.int64)

    return ByDistance(
        distance=distance,
        examples=counted(np.ones(scores.n)),
        dense_right=None if y is None else counted((d == y).sum(axis=1)),
        compressed_right=None if y is None else counted((c == y).sum(axis=1)),
        groups=[
            GroupByDistance(group=name, examples=counted(booleans(mask, name, (scores.n,))))
            for name, mask in groups.items()
        ],
        n=scores.n,
    )


@dataclass(frozen=True)
class Threshold:
    """The taxicab distance at a percentile of the examples.

    Attributes:
        percentile: The one requested; 90 stands for the tenth of the examples that diverge most.
        value: Distance at the threshold; nan with a reason where it would be 0.
        wanted: Examples in the subset: (100 - percentile)% of all, rounded, at least 1.
        above: Examples beyond the threshold.
        tied: Examples at the threshold, of which wanted - above belong to the subset.
        seed: Decides which are listed; weights and counts are the same for every seed.
        reason: Why there is no threshold, as a sentence to print; empty otherwise.
    """

    percentile: float
    value: float
    wanted: int
    above: int
    tied: int
    seed: int = 0
    reason: str = ""


def threshold(scores: DivergenceScores, percentile: float) -> Threshold:
    """Taxicab distance that a percentile of the examples reaches.

    Args:
        scores: From `score`.
        percentile: In (0, 100): 90 for the tenth that diverges most.

    Returns:
        The threshold and how many examples tie there. Where examples of distance 0 would have to
        belong to the subset there is none.

    Raises:
        DataError: The percentile is out of range.

    >>> from scotoma.divergence import score
    >>> threshold(score([[0, 0]] * 4, [[1, 1], [0, 1], [0, 1], [0, 0]], 2), 50)
    Threshold(percentile=50, value=2.0, wanted=2, above=1, tied=2, seed=0, reason='')
    """
    if not 0 < percentile < 100:
        raise DataError(
            f"percentile must lie between 0 and 100, got {percentile:g}: write 90 for the tenth of "
            "the examples that diverges most"
        )
    share = 100 - percentile
    wanted = max(1, round(scores.n * share / 100))
    value = float(np.partition(scores.taxicab, scores.n - wanted)[scores.n - wanted])
    above = int((scores.taxicab > value).sum())
    if value == 0:
        reason = f"fewer than {round(share, 6):g}% of examples differ"
        return Threshold(percentile, math.nan, wanted, above, 0, scores.seed, reason)
    tied = int((scores.taxicab == value).sum())
    return Threshold(percentile, value, wanted, above, tied, scores.seed)


def percentile_weights(scores: DivergenceScores, percentile: float) -> Floats:
    """Chance of each example to be in the subset when ties are broken at random.

    Means weighted so are the expectation over all ways to break the ties: exact, without a seed.

    Args:
        scores: From `score`.
        percentile: In (0, 100).

    Returns:
        1 above the threshold, the same fraction for each example tied there, 0 below, shape (N,);
        they sum to `Threshold.wanted`. All nan where there is no threshold.

    >>> from scotoma.divergence import score
    >>> percentile_weights(score([[0, 0]] * 4, [[1, 1], [0, 1], [0, 1], [0, 0]], 2), 50).tolist()
    [1.0, 0.5, 0.5, 0.0]
    """
    if threshold(scores, percentile).reason:
        return np.full(scores.n, np.nan)
    return subset_weights(scores.taxicab, percentile)


def subset_weights(distance: Floats, percentile: float) -> Floats:
    """Chance of each example to be among the most divergent when ties are broken at random.

    As in the papers, ties at distance 0 too: `percentile_weights` refuses a subset of these.

    Args:
        distance: Taxicab distances, shape (N,).
        percentile: In [0, 100): 80 for the fifth that diverges most, at least one example.

    Returns:
        Shape (N,); they sum to the size of the subset.

    >>> subset_weights(np.array([0.0, 2.0, 2.0, 4.0, 0.0]), 60).tolist()
    [0.0, 0.5, 0.5, 1.0, 0.0]
    """
    n = len(distance)
    wanted = max(1, round(n * (100 - percentile) / 100))
    cut = np.partition(distance, n - wanted)[n - wanted]
    tied, above = distance == cut, distance > cut
    return np.asarray(np.where(tied, (wanted - above.sum()) / tied.sum(), above), np.float64)


GIVEN_SUBSET = "the subset is taken as given"


@dataclass(frozen=True, kw_only=True)
class OverIndex:
    """How much more of an attribute there is among the CIEs than in the data.

    Attributes:
        attribute: Its name.
        n: Examples with the attribute.
        n_flagged: CIEs with the attribute.
        share_in_data: Share of all examples that have it; nan without examples.
        share_in_flagged: Share of the CIEs that have it; nan without CIEs.
        change: share_in_flagged / share_in_data - 1, interval on the log scale.
    """

    attribute: str
    n: int
    n_flagged: int
    share_in_data: float
    share_in_flagged: float
    change: Estimate

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Relative representation and its interval: 1 is neutral, 2 is twice the share."""
        low, high = 1 + self.change.low, 1 + self.change.high
        if not self.share_in_data > 0:
            return math.nan, low, high
        return self.share_in_flagged / self.share_in_data, low, high


def over_index(
    flags: npt.ArrayLike,
    attributes: Mapping[str, npt.ArrayLike],
    *,
    members: int = 0,
    clusters: npt.ArrayLike | None = None,
) -> list[OverIndex]:
    """Share of each attribute among the CIEs divided by its share in the data.

    The interval is the delta method's on the log of the ratio, over examples only: with f the CIE
    flag and a the attribute, the influence of an example is fa/mean(fa) - f/mean(f) - a/mean(a)
    + 1. It says what another test set would show of these two populations.

    Args:
        flags: Which examples are CIEs, or any other flag, bool, shape (N,).
        attributes: For each name which examples have it, bool, shape (N,).
        members: Size of the smaller population, for the record; 0 where the flags are not theirs.
        clusters: Integer id of each row's cluster, shape (N,); None where every row is its own.

    Returns:
        One entry per attribute, in the order of `attributes`. Below 5 CIEs with the attribute the
        ratio has no interval, and the reason says so.

    Raises:
        DataError: Flags that are not bool or not one per row.

    References:
        Hooker et al. (2020), Characterising Bias in Compressed Models, Figure 2.

    >>> cie = np.arange(200) % 10 == 0
    >>> old = np.arange(200) % 20 < 5
    >>> [round(value, 2) for value in over_index(cie, {"old": old})[0].ratio]
    [2.0, 1.31, 3.05]
    """
    f = booleans(flags, "flags")
    units = Units.of(f.size, clusters)
    rows = []
    for name, values in attributes.items():
        a = booleans(values, f"attribute {name!r}", f.shape)
        both = f & a
        shared = units.mean(both)
        if reason := _no_ratio(name, f, a, both, shared.events):
            change = undefined(reason, n=shared.n, members=members, events=shared.events)
        else:
            ratio = replace(shared / units.mean(f) / units.mean(a), events=shared.events)
            change = ratio.estimate("log", members=members, note=GIVEN_POPULATIONS)
        rows.append(
            OverIndex(
                attribute=name,
                n=int(a.sum()),
                n_flagged=int(both.sum()),
                share_in_data=float(a.mean()),
                share_in_flagged=float(both.sum() / f.sum()) if f.any() else math.nan,
                change=change,
            )
        )
    return rows


def _no_ratio(name: str, f: Flags, a: Flags, both: Flags, events: float) -> str:
    if not f.any():
        return "undefined (no CIE)"
    if not a.any():
        return f"undefined (no example with {name!r})"
    if not both.any():
        return f"relative change not estimable (no CIE among {a.sum():,} with {name!r})"
    if events < FEWEST:
        noun = "event" if round(events) == 1 else "events"
        return f"relative change not estimable ({events:.0f} effective {noun}, {FEWEST} are needed)"
    return ""


def flip_rate(
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
) -> Estimate:
    """Share of predictions that change, member by member, for paired populations.

    Its floor is 0 where inference is deterministic: each compressed member is compared with the
    dense member it derives from.

    Args:
        dense: Class ids, shape (N, K).
        compressed: Class ids of the same examples by the members derived from them, shape (N, K).
        clusters: Integer id of each row's cluster, shape (N,); None where every row is its own.

    Returns:
        A fraction over examples and members, interval on the logit scale.

    Raises:
        DataError: As `score`, or populations of different size.

    >>> flips = flip_rate([[0, 1], [1, 1], [0, 0], [1, 1]], [[0, 0], [1, 1], [0, 1], [1, 1]])
    >>> flips.value, flips.events
    (0.25, 2.0)
    """
    d, c = populations(dense, compressed, None, paired=True)
    return weighted_rate(d != c, Units.of(len(d), clusters))


@dataclass(frozen=True, kw_only=True)
class AccuracyRow:
    """Accuracy of both populations on one subset of the examples.

    Attributes:
        subset: `all`, `CIEs`, `non-CIEs` or `taxicab 90`.
        n: Examples in the subset.
        dense: Top-1 accuracy of the dense members, a fraction.
        compressed: Top-1 accuracy of the compressed members.
    """

    subset: str
    n: int
    dense: Estimate
    compressed: Estimate


def top1_table(
    scores: DivergenceScores,
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    percentiles: Sequence[float] = (90, 95, 99),
    clusters: npt.ArrayLike | None = None,
) -> list[AccuracyRow]:
    """Accuracy on all examples, on CIEs, on the others and on those that diverge most.

    Percentiles take the expectation over tie-breaking (`percentile_weights`). Intervals are over
    examples and training runs, with each subset fixed.

    Args:
        scores: From `score`, of the same examples.
        dense: Class ids, shape (N, K).
        compressed: Class ids, shape (N, K').
        labels: True class ids, shape (N,).
        percentiles: Of the taxicab distance, each in (0, 100).
        clusters: Integer id of each row's cluster, shape (N,); None where every row is its own.

    Returns:
        One row per subset; nan with a reason for an empty one.

    Raises:
        DataError: As `score`, or inputs of different examples.

    References:
        Hooker et al. (2020), Characterising Bias in Compressed Models, Table 2; Hooker et al.
        (2019), Selective Brain Damage, Figures 5 and 11.

    >>> from scotoma.divergence import score
    >>> dense, compressed = [[0, 0], [1, 1], [0, 1]], [[0, 0], [1, 0], [0, 0]]
    >>> table = top1_table(score(dense, compressed, 2), dense, compressed, [0, 1, 0])
    >>> [(row.subset, row.dense.value, row.compressed.value) for row in table][:2]
    [('all', 0.8333333333333334, 0.8333333333333334), ('CIEs', 1.0, 0.5)]
    """
    d, c = populations(dense, compressed, scores.n_classes)
    if len(d) != scores.n:
        raise DataError(
            f"scores must be those of the predicted examples, got {scores.n:,} scores for "
            f"{len(d):,} rows: score the same rows"
        )
    y = true_labels(labels, len(d), scores.n_classes)[:, None]
    events = {"dense": d == y, "compressed": c == y}
    units = Units.of(len(d), clusters)
    subsets: list[tuple[str, int, Floats, str, str]] = [
        ("all", scores.n, np.ones(scores.n), "no examples", ""),
        ("CIEs", int(scores.cie.sum()), scores.cie.astype(float), "no CIE", GIVEN_SUBSET),
        ("non-CIEs", int((~scores.cie).sum()), (~scores.cie).astype(float),
         "every example is a CIE", GIVEN_SUBSET),
    ]  # fmt: skip
    for percentile in percentiles:
        at = threshold(scores, percentile)
        weights = np.zeros(scores.n) if at.reason else percentile_weights(scores, percentile)
        n = 0 if at.reason else at.wanted
        subsets.append((f"taxicab {percentile:g}", n, weights, at.reason, GIVEN_SUBSET))
    rows = []
    for subset, n, weights, empty, note in subsets:
        rates = {
            name: weighted_rate(hits, units, weights, note=note, empty=empty)
            for name, hits in events.items()
        }
        rows.append(AccuracyRow(subset=subset, n=n, **rates))
    return rows
