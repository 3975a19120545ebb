"""On which slices that nobody named does each variant of an audit err more?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from scotoma.audit.base import rows_at
from scotoma.audit.document import DENSE
from scotoma.config.sections import SliceSettings
from scotoma.datasets import AuditedExamples
from scotoma.datasets.image_statistics import STATISTICS, image_statistics
from scotoma.document.jsonable import jsonable
from scotoma.numbers import undefined
from scotoma.processes import progress
from scotoma.run import Run, write_json
from scotoma.steps.measures.pairs import (
    PopulationPair,
    measure_inputs,
    measure_variants,
    read_predictions,
    read_test_examples,
)
from scotoma.steps.measures.scored import score_pairs, slice_question
from scotoma.steps.table import Leaves, when_due
from scotoma.storage.files import written

if TYPE_CHECKING:
    from scotoma.slices import Slice


SHOWN = 20  # slices that audit.json describes
POINTS = 200  # candidates of the lattice view
Searched = tuple[dict[str, Any], list[dict[str, Any]]]  # fields of `SliceSearch`, and its rows
SHUFFLED = 10  # searches of shuffled outcomes, each of which takes as long as the search itself


@when_due
def slices(run: Run) -> Iterator[Leaves]:
    """Measure the images, then find the slices on which each compressed population fell."""
    section = run.section("slices")
    looks = write_statistics(run) if _has_images(run) else []
    yield Leaves([section], [*measure_inputs(run), *looks], told=[section, *looks])
    from scotoma.slices.features import features_of

    examples, score = read_test_examples(run), run.config.source.score
    asked, seed = run.config.slices, run.config.population.seed
    dense = None if score else read_predictions(run, "dense", examples)
    statistics = pl.read_parquet(looks[0]) if looks else None
    features = features_of(examples, statistics, asked.features, dense.predicted if dense else None)

    def search(outcome: Mapping[str, Any]) -> Searched:
        return _search(outcome, examples, features, asked, seed)

    if score:
        pairs = score_pairs(run, examples, "find slices") if features.width else ()
        reports = {
            variant.name: search(slice_question(table, lower_is_better=score.lower_is_better))
            for variant, table in pairs
        }
    else:
        reports = measure_variants(
            run, examples, "find slices", lambda pair: search(_outcome(pair, examples)), dense
        )
    write_json(section, jsonable(_section(reports)))


def harmed_slices(
    comparisons: Mapping[str, PopulationPair], examples: AuditedExamples, asked: SliceSettings
) -> dict[str, Any]:
    """Find the slices on which compressed populations fell, without images and a run.

    Returns:
        Fields of `SlicesSection`.
    """
    from scotoma.slices.features import features_of

    reports = {}
    for name, comparison in comparisons.items():
        features = features_of(examples, None, asked.features, comparison.dense.predicted)
        reports[name] = _search(_outcome(comparison, examples), examples, features, asked, 0)
    return _section(reports)


def _section(reports: Mapping[str, Searched]) -> dict[str, Any]:
    return {
        "slices": {name: search for name, (search, _) in reports.items()},
        "rows": [{"variant": name, **row} for name, (_, rows) in reports.items() for row in rows],
    }


@when_due
def write_statistics(run: Run) -> Iterator[Leaves]:
    """Measure the statistics of the test images."""
    table = run.path("image_statistics.parquet")
    yield Leaves([table], [run.examples], record="image_statistics")
    progress.start("measure images", 1)
    with written(table) as temporary:
        statistics = image_statistics(AuditedExamples.read(run.examples, split="test"))
        statistics.write_parquet(temporary)
    progress.advance("measure images")


def _has_images(run: Run) -> bool:
    run.fetch(run.examples)
    first = pl.scan_parquet(run.examples, glob=False).head(1).collect()
    return "image" in first and not first["image"].struct.field("bytes").null_count()


def _search(
    outcome: Mapping[str, Any],
    examples: AuditedExamples,
    features: pl.DataFrame,
    asked: SliceSettings,
    seed: int,
) -> Searched:
    from scotoma.slices import SearchSettings, find_slices
    from scotoma.slices.features import WORK, conditions_together
    from scotoma.slices.report import BASELINE, WHERE_MORE

    together, sets = conditions_together(features.width, features.height, asked.max_cross)
    arrays = {name: outcome[name] for name in ("outcome", "baseline") if name in outcome}
    settings = SearchSettings(
        **{name: value for name, value in outcome.items() if name not in arrays},
        mode=asked.mode,
        alpha=asked.alpha,
        min_size=asked.min_size,
        max_cross=together,
        max_candidates=max(WORK, sets * features.height),  # what was asked for is not refused
        limit=SHOWN,
        permutations=SHUFFLED,
        threads=1,  # variants are searched side by side
        seed=seed,
    )
    report = find_slices(
        features,
        settings=settings,
        **arrays,
        ids=np.array(examples.ids),
        clusters=examples.clusters,
    )
    told = "scotoma slices with reference: rest finds where they differ most"
    notes = [note.replace(WHERE_MORE, told).replace(BASELINE, DENSE) for note in report.notes]
    if together < 3 and asked.max_cross is None:
        notes.append(
            f"{features.width} features and {features.height:,} examples allow slices of up to "
            f"{together} conditions in the time of an audit; scotoma slices searches further"
        )
    # Reported ones, single conditions, and the most significant combinations.
    points = report.lattice.sort(
        pl.col("reported").not_(), pl.col("cross") > 1, "p", "text", maintain_order=True
    )
    search = report.as_dict() | {
        "slices": [_described(one) for one in report.slices],
        "notes": notes,
        "lattice": points.head(POINTS).to_dict(as_series=False),
    }
    del search["overall"]
    rows = [row for one in report.slices for row in _rows(one)]
    return search, [*rows, *rows_at({}, {"overall": report.overall, "change": report.change})]


def _outcome(comparison: PopulationPair, examples: AuditedExamples) -> dict[str, Any]:
    """What is compared: the errors; without labels, on which examples the label changes.

    That is a prediction where members are paired, or one stands against one; else the majority's.
    """
    dense, compressed = comparison.dense.predicted, comparison.compressed.predicted
    if examples.labelled:
        labels = examples.labels[:, None]
        return {
            "outcome": compressed != labels,
            "baseline": dense != labels,
            "paired": comparison.paired,
        }
    if comparison.paired or dense.shape[1] == compressed.shape[1] == 1:
        return {"metric": "flip", "outcome": compressed != dense}
    from scotoma.divergence import score

    return {"metric": "flip", "outcome": score(dense, compressed, len(examples.classes)).cie}


def _described(one: Slice) -> dict[str, Any]:
    """Describe a slice, and the meaning of its conditions on image statistics."""
    looks = {name: STATISTICS[name] for name in one.features if name in STATISTICS}
    parts = ("text", "size", "at_risk", "support")
    return {part: getattr(one, part) for part in parts} | {
        "predicates": [vars(predicate) for predicate in one.predicates], "about_images": looks
    }  # fmt: skip


def _rows(one: Slice) -> Iterator[dict[str, Any]]:
    """Lay out the numbers of a slice, and the p-values of the tests that it passed."""
    numbers = {name: getattr(one, name) for name in ("inside", "outside", "effect")}
    for name in ("discovery", "confirmation"):
        if (test := getattr(one, name)) is not None:
            for what in ("p", "q"):
                numbers[f"{name}.{what}"] = undefined(
                    "a p-value has no interval", value=getattr(test, what), n=test.size,
                    members=one.effect.members,
                )  # fmt: skip
    yield from rows_at({"facts": {"text": one.text}}, numbers, "slices.")
