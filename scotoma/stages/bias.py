"""Which classes and groups does each variant harm?"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from scotoma.audit.groups import RATES
from scotoma.datasets import Examples
from scotoma.jsonable import jsonable
from scotoma.run import Run, write_json
from scotoma.stages.measures.pairs import (
    PopulationPair,
    measure_inputs,
    measure_variants,
    read_predictions,
    read_test_examples,
)

__all__ = ["bias"]


def bias(run: Run) -> list[Path]:
    """Measure how well every population predicts, and which classes and groups change.

    Without labels there is left what predictions alone tell: who gets the favourable outcome.
    """
    section, rates = run.section("bias"), run.path(RATES)
    with (
        run.step("bias", [section, rates], measure_inputs(run)) as due,
        tempfile.TemporaryDirectory(prefix="scotoma-") as folder,
    ):
        if due:
            from scotoma.stages.measures.accuracy import constant_members
            from scotoma.stages.measures.against_labels import AgainstLabels, without_labels
            from scotoma.stages.measures.clarify import ClarifyMetrics
            from scotoma.stages.measures.rates import write_rates
            from scotoma.stages.measures.run_to_run import FairnessOfRuns

            examples, seed = read_test_examples(run), run.config.population.seed
            positive = run.config.label.positive
            positive_id = None if positive is None else examples.classes.index(str(positive))
            training = Examples.read(run.examples, images=False, split="train")
            clarify = ClarifyMetrics(
                examples,
                positive_id,
                seed,
                run.config.advantaged,
                training,
                run.config.clarify.features,
            )
            dense = read_predictions(run, "dense", examples)
            before = clarify.metrics(dense.predicted)
            runs = FairnessOfRuns(examples, positive_id, dense.predicted)
            labelled = (
                AgainstLabels.of(run.config, examples, positive_id, dense, Path(folder))
                if examples.labelled
                else None
            )

            def measure(comparison: PopulationPair) -> dict[str, Any]:
                members = comparison.compressed_members
                return {
                    "labelled": None if labelled is None else labelled.measures(comparison),
                    "run_to_run": runs.of_compressed(comparison.compressed),
                    "members": clarify.members(comparison.compressed),
                    "clarify": clarify.models(
                        before,
                        comparison.dense,
                        comparison.compressed,
                        paired=comparison.variant.paired,
                    ),
                    "collapsed": list(constant_members(members, examples.known_labels)),
                }

            variants = measure_variants(run, examples, "measure groups", measure, dense)
            write_rates(rates, [] if labelled is None else [labelled.rates(v) for v in variants])
            of_labels = {name: measures["labelled"] for name, measures in variants.items()}
            parts = without_labels() if labelled is None else labelled.sections(of_labels)
            parts["run_to_run"] = {}
            if examples.attributes:
                parts["run_to_run"] = {"dense": runs.of_dense()} | {
                    name: measures["run_to_run"] for name, measures in variants.items()
                }
            parts["clarify"] = {
                "questions": clarify.guide(),
                "data": clarify.data(),
                "variants": {name: measures["clarify"] for name, measures in variants.items()},
                "members": {"dense": clarify.members(dense.predicted)}
                | {name: measures["members"] for name, measures in variants.items()},
            }
            parts["collapsed"] = [
                *constant_members(dense, examples.known_labels),
                *(line for measures in variants.values() for line in measures["collapsed"]),
            ]
            write_json(section, jsonable(parts), indent=None)
    return [section, rates]
