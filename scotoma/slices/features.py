"""What may define the slices of an audit, and how many conditions fit into its time?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.answers.values import infer_type
from scotoma.datasets.examples import AuditedExamples
from scotoma.datasets.image_statistics import STATISTICS
from scotoma.predictions import label_counts
from scotoma.slices.search.lattice import subset_count

# Rows times sets of features that one search may visit: about a minute with its shuffled outcomes.
WORK = 10**8


def features_of(
    examples: AuditedExamples,
    looks: pl.DataFrame | None,
    chosen: Sequence[str] = (),
    dense: NDArray[np.integer[Any]] | None = None,
) -> pl.DataFrame:
    """Collect the features: attributes, the class and the statistics of the images.

    Args:
        examples: The test examples.
        looks: From `image_statistics`, in the same order; None where there are no images.
        chosen: The only features, which may be other columns of the examples; none for all.
        dense: Class ids of the dense members, shape (N, K): where there are no labels their
            majority stands for the class; None where predictions are numbers.

    Returns:
        One row an example. An attribute keeps its name where another column has it too; what all
        images share is left out.

    >>> table = pl.DataFrame({"example_id": ["a", "b"], "label": ["x", "y"], "sex": ["m", "f"]})
    >>> features_of(AuditedExamples(table, ("x", "y"), ("sex",), ()), None).columns
    ['sex', 'class']
    >>> features_of(AuditedExamples(table, ("x", "y"), (), ()), None).shape
    (2, 1)
    >>> unlabelled = AuditedExamples(table.drop("label"), ("x", "y"), (), ())
    >>> features_of(unlabelled, None, dense=np.array([[0], [1]])).columns
    ['predicted']
    """
    if dense is None and not examples.labelled:
        own = pl.DataFrame()
    elif dense is None or examples.labelled:
        own = examples.table.select(pl.col("label").alias("class"))
    else:
        modal = label_counts(dense, len(examples.classes)).argmax(axis=1)
        own = pl.DataFrame({"predicted": [examples.classes[one] for one in modal]})
    if chosen:
        every = [examples.table.select(examples.attributes), own, examples.features]
        every += [] if looks is None else [looks]
        return pl.DataFrame(
            [next(infer_type(t[name])[0] for t in every if name in t.columns) for name in chosen]
        )
    if looks is not None:
        varied = [name for name in STATISTICS if looks[name].n_unique() > 1]
        own = own.hstack(looks.select(varied))
    if not examples.attributes:  # no columns would be no rows
        return own
    features = examples.table.select(examples.attributes)
    return features.hstack(own.select(pl.exclude(features.columns)))


def conditions_together(features: int, rows: int, asked: int | None = None) -> tuple[int, int]:
    """Choose the most conditions of a slice that the time of an audit allows.

    Args:
        features: Features that may define slices.
        rows: Test examples.
        asked: The most conditions, where the configuration says so.

    Returns:
        The most conditions, and the sets of features that slices of so many are made of.

    >>> conditions_together(6, 1_800), conditions_together(60, 20_000)
    ((3, 41), (2, 1830))
    """
    sets = [subset_count(features, most) for most in (1, 2, 3, 4)]
    most = asked or 1 + sum(rows * count <= WORK for count in sets[1:3])
    return most, sets[most - 1]
