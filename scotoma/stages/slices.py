"""On which slices that nobody named does each variant of an audit err more?"""

from __future__ import annotations

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
from scotoma.slices.features import WORK, conditions_together, features_of
from scotoma.stages.measures.pairs import PopulationPair, measure_inputs, measure_variants
from scotoma.storage.files import written

if TYPE_CHECKING:
    from scotoma.slices import Slice, SliceReport

__all__ = ["slices"]

SHOWN = 20  # slices that audit.json describes
POINTS = 200  # candidates of the lattice view
SHUFFLED = 10  # searches of shuffled outcomes, each of which takes as long as the search itself


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
