"""On which slices that nobody named does each variant of an audit err more?"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scotoma import progress
from scotoma.config import Config
from scotoma.datasets import Examples
from scotoma.datasets.image_statistics import STATISTICS, image_statistics
from scotoma.jsonable import jsonable
from scotoma.run import Run, write_json
from scotoma.slices.search.column_types import infer_type
from scotoma.stages.measures.pairs import PopulationPair, measure_inputs, measure_variants
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
            looked = pl.read_parquet(looks[0]) if looks else None
            features = features_of(examples, looked, run.config.slices.features)
            reports = measure_variants(
                run,
                examples,
                "find slices",
                lambda comparison: _search(comparison, examples, features, run.config),
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
    examples: Examples, looks: pl.DataFrame | None, chosen: Sequence[str] = ()
) -> pl.DataFrame:
    """Collect the features: attributes, the class and the statistics of the images.

    Args:
        examples: The test examples.
        looks: From `image_statistics`, in the same order; None where there are no images.
        chosen: The only features, which may be other columns of the examples; none for all.

    Returns:
        One row an example. An attribute keeps its name where another column has it too; what all
        images share is left out.

    >>> table = pl.DataFrame({"example_id": ["a", "b"], "label": ["x", "y"], "sex": ["m", "f"]})
    >>> features_of(Examples(table, ("x", "y"), ("sex",), ()), None).columns
    ['sex', 'class']
    >>> features_of(Examples(table, ("x", "y"), (), ()), None).shape
    (2, 1)
    """
    own = examples.table.select(pl.col("label").alias("class"))
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


def _search(
    comparison: PopulationPair, examples: Examples, features: pl.DataFrame, config: Config
) -> dict[str, Any]:
    from scotoma.slices import find_slices

    labels, asked = examples.labels[:, None], config.slices
    together, sets = conditions_together(features.width, features.height, asked.max_cross)
    report = find_slices(
        features,
        comparison.compressed != labels,
        baseline=comparison.dense != labels,
        paired=comparison.variant.paired,
        mode=asked.mode,
        alpha=asked.alpha,
        min_size=asked.min_size,
        max_cross=together,
        max_candidates=max(WORK, sets * features.height),  # what was asked for is not refused
        ids=np.array(examples.ids),
        clusters=examples.clusters,
        limit=SHOWN,
        permutations=SHUFFLED,
        threads=1,  # variants are searched side by side
        seed=config.population.seed,
    )
    option = "scotoma slices --reference rest"
    notes = [note.replace("reference='rest'", option) for note in report.notes]
    if together < 3 and asked.max_cross is None:
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
    sets = [sum(comb(features, cross) for cross in range(1, most + 1)) for most in (1, 2, 3, 4)]
    most = asked or 1 + sum(rows * count <= WORK for count in sets[1:3])
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
