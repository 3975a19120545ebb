"""What would the tables of Hooker et al. 2020, Characterising Bias, say about my run?"""

from __future__ import annotations

import numpy as np

from scotoma.audit.divergence import Distances
from scotoma.papers.cie_groups import absolute_rates, label_shares, normalised_rates
from scotoma.papers.cie_over_index import over_indexed
from scotoma.papers.table import Cell, Grid, PaperTable
from scotoma.papers.words import (
    NOT_DENSE,
    TIES,
    divergence_sentence,
    in_percent,
    quantity_text,
    under,
)
from scotoma.predictions.finished import FinishedAudit
from scotoma.published import cie

CELEBA = "CelebA, Blond or not, ResNet-18, 30 models a variant"
PERCENTILES = (0, 20, 40, 60, 80, 90, 95, 99)


def tables(finished: FinishedAudit) -> list[PaperTable]:
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


def _counts(finished: FinishedAudit) -> PaperTable:
    """Table 1."""
    audit = finished.audit
    rows: list[tuple[Cell, ...]] = []
    for variant in audit.variants:
        cies = audit.divergence.get(variant.name)
        count = None if cies is None else cies.cie.cie.count
        rows.append((variant.name, in_percent(audit.accuracy[variant.name].top1.value), count))
    columns = ("top 1", "modal CIEs")
    return PaperTable(
        name="Table 1",
        title="Top-1 accuracy and modal CIEs of each variant",
        run=Grid(
            f"This run: {audit.examples.test:,} test examples, mean over the models",
            ("variant", *columns),
            tuple(rows),
            absent=NOT_DENSE,
        ),
        published=[
            Grid.published(
                f"Paper, Table 1: {CELEBA}", cie().table1, rows="sparsity", columns=columns
            )
        ],
        conclusion=divergence_sentence(audit),
    )


def _subsets(finished: FinishedAudit) -> PaperTable:
    """Table 2."""
    audit = finished.audit
    rows: list[tuple[Cell, ...]] = []
    sound: dict[str, str] = {}
    no_cies: dict[str, None] = {}
    for variant in audit.compressed:
        divergence = audit.divergence[variant.name]
        cies, every = (
            next(row.compressed for row in divergence.top1 if row.subset == subset)
            for subset in ("CIEs", "all")
        )
        right = divergence.taxicab.compressed_right or ()
        beyond = (
            accuracy_beyond(divergence.taxicab, right, variant.members, percentile)
            for percentile in (90, 95, 99)
        )
        rows.append((variant.name, *map(in_percent, (cies.value, every.value, *beyond))))
        sound[variant.name] = quantity_text(cies, "rate")
        no_cies |= {cies.reason: None} if cies.value is None else {}
    return PaperTable(
        name="Table 2",
        title="Top-1 accuracy of compressed models on CIEs",
        run=Grid("This run", ("variant", "CIEs", "all", "90th", "95th", "99th"), tuple(rows),
                 absent="; ".join(no_cies)),
        published=[
            Grid.published(
                f"Paper, Table 2: {CELEBA}",
                cie().table2,
                rows="sparsity",
                columns=("CIEs", "all", "90th", "95th", "99th"),
            )
        ],
        conclusion=f"accuracy on the modal CIEs: {under(sound)}. CIEs are examples on which models "
        "disagree: part of what they lose comes from choosing them.",
        notes=[TIES],
    )  # fmt: skip


def _curve(finished: FinishedAudit) -> PaperTable:
    """Figure 4."""
    audit = finished.audit
    rows: list[tuple[Cell, ...]] = []
    sound = {}
    reasons: dict[str, None] = {}
    for name in finished.compressed:
        divergence = audit.divergence[name]
        subsets = {row.subset: row for row in divergence.top1}
        for models, members in (("dense", audit.dense.members), ("compressed", 0)):
            members = members or next(v.members for v in audit.compressed if v.name == name)
            right = getattr(divergence.taxicab, f"{models}_right")
            fixed = [getattr(subsets[subset], models) for subset in ("CIEs", "non-CIEs")]
            reasons |= {one.reason: None for one in fixed if one.value is None}
            points = [accuracy_beyond(divergence.taxicab, right, members, p) for p in PERCENTILES]
            shares = (*(one.value for one in fixed), *points)
            rows.append((name, models, *map(in_percent, shares)))
        sound[name] = " against ".join(
            quantity_text(getattr(subsets["non-CIEs"], models), "rate")
            for models in ("compressed", "dense")
        )
    columns = ("CIEs", "non-CIEs", "all", *(f"{p}th" for p in PERCENTILES[1:]))
    return PaperTable(
        name="Figure 4",
        title="Top-1 accuracy on CIEs, without them, and beyond percentiles of taxicab distance",
        run=Grid(
            "This run", ("variant", "models", *columns), tuple(rows), names=2,
            absent="; ".join(reasons),
        ),
        conclusion=f"without the CIEs compressed and dense models reach {under(sound)}.",
        notes=[TIES],
    )  # fmt: skip


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
