"""Which classes and groups does each variant harm?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from scotoma.datasets import AuditedExamples
from scotoma.document.jsonable import jsonable
from scotoma.run import Run, write_json
from scotoma.steps.inputs import compared_notes
from scotoma.steps.measures.pairs import (
    measure_inputs,
    measure_variants,
    read_predictions,
    read_test_examples,
)
from scotoma.steps.measures.rates import MOST_CLASS_ROWS, write_rates
from scotoma.steps.measures.scored import is_scored, mean_sections
from scotoma.steps.table import Leaves, when_due


@when_due
def bias(run: Run) -> Iterator[Leaves]:
    """Measure how well every population predicts, and which classes and groups change.

    Without labels there is left what predictions alone tell: who gets the favourable outcome.
    """
    section, rates = run.section("bias"), run.class_rates
    yield Leaves([section, rates], measure_inputs(run))
    if is_scored(run):
        write_rates(rates, [])
        write_json(section, jsonable(mean_sections(run, read_test_examples(run))), indent=None)
        return
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        from scotoma.steps.import_predictions import read_detectors
        from scotoma.steps.measures.harms import Harms

        config, examples = run.config, read_test_examples(run)
        dense = read_predictions(run, "dense", examples)
        harms = Harms(
            examples=examples,
            dense=dense,
            comparisons=len(config.resolved_variants) - 1,
            label=config.label,
            advantaged=config.advantaged or {},
            training=AuditedExamples.read(run.examples, images=False, split="train"),
            features=config.clarify.features,
            seed=config.population.seed,
            folder=Path(folder),
            detectors=read_detectors(run) is not None,
            most_class_rows=MOST_CLASS_ROWS,
        )
        variants = measure_variants(run, examples, "measure groups", harms.measures, dense)
        write_rates(rates, harms.rates(variants))
        parts = harms.section(variants, compared_notes(run))
        write_json(section, jsonable(parts), indent=None)
