"""What would the tables of Hooker et al. 2020, Characterising Bias, say about my run?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from scotoma.audit import Audit, Quantity
from scotoma.audit.divergence import Distances
from scotoma.divergence import subset_weights
from scotoma.document import Interval, Section, show
from scotoma.numbers import benjamini_hochberg
from scotoma.papers.cie_groups import NO_GROUPS, absolute_rates, label_shares, normalised_rates
from scotoma.papers.table import Cell, paper_table
from scotoma.papers.words import (
    TIES,
    divergence_sentence,
    in_percent,
    quantity_text,
    subset_accuracy,
    under,
)
from scotoma.predictions.finished import FinishedAudit

PERCENTILES = (0, 20, 40, 60, 80, 90, 95, 99)


def tables(finished: FinishedAudit) -> list[Section]:
    """Make the tables of the paper from a run."""
    return [
        label_shares(finished),
        _counts(finished),
        over_indexed(finished),
        _subsets(finished),
        normalised_rates(finished),
        _curve(finished),
        absolute_rates(finished),
    ]


def _counts(finished: FinishedAudit) -> Section:
    """Table 1."""
    audit = finished.audit
    rows: list[tuple[Cell, ...]] = []
    for variant in audit.variants:
        cies = audit.divergence.get(variant.name)
        count = None if cies is None else cies.cie.cie.count
        (top1,) = audit.numbers("accuracy", variant.name)
        rows.append((variant.name, in_percent(top1.number.value), count))
    return paper_table(
        "cie",
        "Table 1",
        rows,
        caption=f"This run: {audit.examples.test:,} test examples, mean over the models",
        conclusion=divergence_sentence(audit),
    )


def _subsets(finished: FinishedAudit) -> Section:
    """Table 2."""
    audit = finished.audit
    rows: list[tuple[Cell, ...]] = []
    sound: dict[str, str] = {}
    no_cies: dict[str, None] = {}
    for variant in audit.compressed:
        divergence = audit.divergence[variant.name]
        top1 = subset_accuracy(audit, variant.name)
        cies, every = (top1[subset]["compressed"].number for subset in ("CIEs", "all"))
        right = divergence.taxicab.compressed_right or ()
        beyond = (
            accuracy_beyond(divergence.taxicab, right, variant.members, percentile)
            for percentile in (90, 95, 99)
        )
        rows.append((variant.name, *map(in_percent, (cies.value, every.value, *beyond))))
        sound[variant.name] = quantity_text(cies, "rate")
        no_cies |= {cies.reason: None} if cies.value is None else {}
    return paper_table(
        "cie",
        "Table 2",
        rows,
        absent="; ".join(no_cies),
        conclusion=f"accuracy on the modal CIEs: {under(sound)}. CIEs are examples on which models "
        "disagree: part of what they lose comes from choosing them.",
        notes=[TIES],
    )


def _curve(finished: FinishedAudit) -> Section:
    """Figure 4."""
    audit = finished.audit
    rows: list[tuple[Cell, ...]] = []
    sound = {}
    reasons: dict[str, None] = {}
    for name in finished.compressed:
        divergence = audit.divergence[name]
        subsets = subset_accuracy(audit, name)
        for models, members in (("dense", audit.dense.members), ("compressed", 0)):
            members = members or next(v.members for v in audit.compressed if v.name == name)
            right = getattr(divergence.taxicab, f"{models}_right")
            fixed = [subsets[subset][models].number for subset in ("CIEs", "non-CIEs")]
            reasons |= {one.reason: None for one in fixed if one.value is None}
            points = [accuracy_beyond(divergence.taxicab, right, members, p) for p in PERCENTILES]
            shares = (*(one.value for one in fixed), *points)
            rows.append((name, models, *map(in_percent, shares)))
        sound[name] = " against ".join(
            quantity_text(subsets["non-CIEs"][models].number, "rate")
            for models in ("compressed", "dense")
        )
    return paper_table(
        "cie",
        "Figure 4",
        rows,
        absent="; ".join(reasons),
        conclusion=f"without the CIEs compressed and dense models reach {under(sound)}.",
        notes=[TIES],
    )


def accuracy_beyond(
    taxicab: Distances, right: tuple[int, ...], members: int, percentile: float
) -> float:
    """Accuracy on the examples whose taxicab distance is beyond a percentile.

    Args:
        taxicab: Examples at each distance, ascending.
        right: Right predictions of one population at each distance.
        members: Models of that population.
        percentile: In [0, 100); 90 stands for the tenth that diverges most, at least one example.

    Returns:
        A fraction, the mean over all ways to break ties.

    References:
        Hooker et al. (2020), Characterising Bias in Compressed Models, Figure 4.

    >>> taxicab = Distances(distance=(0.0, 2.0), examples=(8, 2), dense_right=(8, 1),
    ...                     compressed_right=(8, 0), groups=(), n=10)
    >>> [accuracy_beyond(taxicab, (8, 1), 1, p) for p in (0, 80, 90)]
    [0.9, 0.5, 0.5]
    """
    examples = np.array(taxicab.examples, float)
    wanted = max(1, round(taxicab.n * (100 - percentile) / 100))
    more_divergent = examples[::-1].cumsum()[::-1] - examples
    taken = np.clip(wanted - more_divergent, 0, examples)
    return float((taken / examples * np.array(right)).sum() / wanted / members)


LISTED = 3  # attributes in the sentence, those most over-represented
ALPHA = 0.05
PERCENTILE = 80  # that the paper's figure cuts the ranking at


def over_indexed(finished: FinishedAudit) -> Section:
    """Figure 2."""
    audit, masks = finished.audit, finished.test.over_index_masks()
    if not masks:
        return paper_table("cie", "Figure 2", missing=f"{NO_GROUPS}, or set over_index: all")
    names, shares = audit.group_names, _training_shares(audit)
    weights = [_weights(finished, variant) for variant in finished.compressed]
    rows: list[tuple[Cell, ...]] = []
    for key, mask in masks.items():
        relative = (
            float(mask @ w / w.sum() / mask.mean()) if mask.any() else None for w in weights
        )
        rows.append((names.get(key, key), shares.get(key), *relative))
    one = {v: _over(audit, v) for v in finished.compressed}
    return paper_table(
        "cie",
        "Figure 2",
        rows,
        columns=("attribute", "% of training", *finished.compressed),
        notes=[TIES],
        conclusion=f"among the modal CIEs, Benjamini-Hochberg over the {len(rows)} attributes, "
        "over-represented: "
        f"{under(one)}.",
    )


def _training_shares(audit: Audit) -> dict[str, float]:
    """Share of each group and binary column in the training examples, per cent."""
    train = audit.examples.train
    shares = {group.key: 100 * group.train / train for group in audit.groups} if train else {}
    for divergence in audit.divergence.values():
        for row in divergence.over_index:
            if row.share_in_training is not None:
                shares[row.attribute] = 100 * row.share_in_training
    return shares


def _weights(finished: FinishedAudit, variant: str) -> NDArray[np.float64]:
    rows = finished.scores.filter(variant=variant)
    return subset_weights(rows["taxicab"].to_numpy(), PERCENTILE)


def _over(audit: Audit, variant: str) -> str:
    names, counts = audit.group_names, audit.divergence[variant].over_index
    changes = [row.number for row in audit.numbers("divergence", variant, what="over_index.change")]
    p = benjamini_hochberg(np.array(list(map(_p, changes))))
    over = [
        f"{names.get(row.attribute, row.attribute)} ({_times(change)}, {row.n_flagged:,} of "
        f"{row.n:,})"
        for row, change, adjusted in sorted(
            zip(counts, changes, p, strict=True), key=lambda one: -(one[1].value or 0.0)
        )
        if adjusted <= ALPHA and (change.value or 0.0) > 0
    ]
    more = f" and {len(over) - LISTED} more" if len(over) > LISTED else ""
    return (", ".join(over[:LISTED]) or "none") + more


def _p(change: Quantity) -> float:
    """Two-sided p-value of "as frequent as in the data"; nan without an interval."""
    if change.value is None or not change.se:
        return math.nan
    statistic = abs(math.log1p(change.value)) / change.se
    return float(2 * t.sf(statistic, math.inf if change.df is None else change.df))


def _times(change: Quantity) -> str:
    value, low, high = (1 + (end or 0.0) for end in (change.value, change.low, change.high))
    shown = show(Interval(value, low, high), "ratio")
    return f"{shown.value} times [{shown.low}, {shown.high}]"
