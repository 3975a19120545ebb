"""On which slices that nobody named does each variant of an audit err more?"""

from __future__ import annotations

from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma import progress
from scotoma.datasets import Examples
from scotoma.datasets.image_statistics import STATISTICS, image_statistics
from scotoma.jsonable import jsonable
from scotoma.predictions import label_counts
from scotoma.run import Run, write_json
from scotoma.stages.measures.pairs import (
    PopulationPair,
    measure_inputs,
    measure_variants,
    read_predictions,
)
from scotoma.storage.files import written

if TYPE_CHECKING:
    from scotoma.slices import Slice, SliceReport

__all__ = ["conditions_together", "features_of", "slices"]

SHOWN = 20  # slices that audit.json describes
POINTS = 200  # candidates of the lattice view
SHUFFLED = 10  # searches of shuffled outcomes, each of which takes as long as the search itself
# Rows times sets of features that one search may visit: about a minute with its shuffled outcomes.
WORK = 10**8


def slices(run: Run) -> list[Path]:
    """Measure the images, then find the slices on which each compressed population fell."""
    section = run.section("slices")
    looks = _measured(run)
    with run.step("slices", [section], [*measure_inputs(run), *looks]) as due:
        if due:
            examples = Examples.read(run.examples, images=False, split="test")
            dense = read_predictions(run, "dense", examples)
            statistics = pl.read_parquet(looks[0]) if looks else None
            features = features_of(examples, statistics, dense.predicted)
            reports = measure_variants(
                run,
                examples,
                "find slices",
                lambda comparison: _search(
                    comparison, examples, features, run.config.population.seed
                ),
                dense,
            )
            write_json(section, jsonable(reports))
    return [section, *looks]


def _measured(run: Run) -> list[Path]:
    """Measure the statistics of the test images; no file where the audit has no images."""
    run.fetch(run.examples)
    first = pl.scan_parquet(run.examples, glob=False).head(1).collect()
    if "image" not in first.columns or first["image"].struct.field("bytes").null_count():
        return []
    table = run.path("image_statistics.parquet")
    with run.step("image_statistics", [table], [run.examples]) as due:
        if due:
            examples = Examples.read(run.examples, split="test")
            progress.start("measure images", 1)
            with written(table) as temporary:
                image_statistics(examples).write_parquet(temporary)
            progress.advance("measure images")
    return [table]


def features_of(
    examples: Examples, looks: pl.DataFrame | None, dense: NDArray[np.integer[Any]]
) -> pl.DataFrame:
    """Collect the features: attributes, the class and the statistics of the images.

    Args:
        examples: The test examples.
        looks: From `image_statistics`, in the same order; None where there are no images.
        dense: Class ids of the dense members, shape (N, K): their majority stands for the class
            where there are no labels.

    Returns:
        One row an example. An attribute keeps its name where another column has it too; what all
        images share is left out.

    >>> table = pl.DataFrame({"example_id": ["a", "b"], "label": ["x", "y"], "sex": ["m", "f"]})
    >>> predicted = np.array([[0], [1]])
    >>> features_of(Examples(table, ("x", "y"), ("sex",), ()), None, predicted).columns
    ['sex', 'class']
    >>> features_of(Examples(table.drop("label"), ("x", "y"), (), ()), None, predicted).columns
    ['predicted']
    """
    if examples.labelled:
        own = examples.table.select(pl.col("label").alias("class"))
    else:
        modal = label_counts(dense, len(examples.classes)).argmax(axis=1)
        own = pl.DataFrame({"predicted": [examples.classes[one] for one in modal]})
    if looks is not None:
        varied = [name for name in STATISTICS if looks[name].n_unique() > 1]
        own = own.hstack(looks.select(varied))
    if not examples.attributes:  # no columns would be no rows
        return own
    features = examples.table.select(examples.attributes)
    return features.hstack(own.select(pl.exclude(features.columns)))


def _search(
    comparison: PopulationPair, examples: Examples, features: pl.DataFrame, seed: int
) -> dict[str, Any]:
    from scotoma.slices import find_slices

    together = conditions_together(features.width, features.height)[0]
    report = find_slices(
        features,
        **_outcome(comparison, examples),
        max_cross=together,
        ids=np.array(examples.ids),
        clusters=examples.clusters,
        limit=SHOWN,
        permutations=SHUFFLED,
        threads=1,  # variants are searched side by side
        seed=seed,
    )
    option = "scotoma slices --reference rest"
    notes = [note.replace("reference='rest'", option) for note in report.notes]
    if together < 3:
        notes.append(
            f"{features.width} features and {features.height:,} examples allow slices of up to "
            f"{together} conditions in the time of an audit; scotoma slices searches further"
        )
    return report.as_dict() | {
        "slices": [_described(one) for one in report.slices],
        "change": report.change.as_dict(),
        "notes": notes,
        "lattice": _lattice(report),
    }


def _outcome(comparison: PopulationPair, examples: Examples) -> dict[str, Any]:
    """What is compared: the errors; without labels, on which examples the label changes.

    That is a prediction where members are paired, or one stands against one; else the majority's.
    """
    dense, compressed = comparison.dense, comparison.compressed
    if examples.labelled:
        labels = examples.labels[:, None]
        return {
            "outcome": compressed != labels,
            "baseline": dense != labels,
            "paired": comparison.variant.paired,
        }
    if comparison.variant.paired or dense.shape[1] == compressed.shape[1] == 1:
        return {"metric": "flip", "outcome": compressed != dense}
    from scotoma.divergence import score

    return {"metric": "flip", "outcome": score(dense, compressed, len(examples.classes)).cie}


def conditions_together(features: int, rows: int) -> tuple[int, int]:
    """Choose the most conditions of a slice that the time of an audit allows.

    Returns:
        The most conditions, and the sets of features that slices of so many are made of.

    >>> conditions_together(6, 1_800), conditions_together(60, 20_000)
    ((3, 41), (2, 1830))
    """
    sets = [sum(comb(features, cross) for cross in range(1, most + 1)) for most in (1, 2, 3)]
    most = 1 + sum(rows * count <= WORK for count in sets[1:])
    return most, sets[most - 1]


def _described(one: Slice) -> dict[str, Any]:
    """Describe a slice, and the meaning of its conditions on image statistics."""
    looks = {name: STATISTICS[name] for name in one.features if name in STATISTICS}
    return one.as_dict() | {"about_images": looks}


def _lattice(report: SliceReport) -> dict[str, list[Any]]:
    """Order the lattice: slices reported, single conditions, most significant combinations."""
    points = report.lattice.table().sort(
        pl.col("reported").not_(), pl.col("cross") > 1, "p", "text", maintain_order=True
    )
    columns: dict[str, list[Any]] = points.head(POINTS).to_dict(as_series=False)
    return columns
