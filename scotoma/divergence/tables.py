"""What the divergent examples have in common, and how well they are predicted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from scotoma.divergence.agreement import GIVEN_POPULATIONS, weighted_rate
from scotoma.divergence.distances import percentile_weights, threshold
from scotoma.divergence.scoring import DivergenceScores
from scotoma.errors import DataError
from scotoma.numbers import Estimate, Units, undefined
from scotoma.numbers.enough import FEWEST
from scotoma.numbers.inputs import Flags, Floats, booleans, populations, true_labels

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
        change: 100 (share_in_flagged / share_in_data - 1), interval on the log scale.
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
        low, high = 1 + self.change.low / 100, 1 + self.change.high / 100
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
