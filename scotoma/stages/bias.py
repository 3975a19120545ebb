"""Which classes and groups does each variant harm?"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from scotoma.audit.groups import RATES
from scotoma.datasets import AuditedExamples
from scotoma.jsonable import jsonable
from scotoma.predictions import Predictions
from scotoma.run import Run, write_json
from scotoma.stages.inputs.texts import compared_notes
from scotoma.stages.measures.pairs import (
    PopulationPair,
    as_wrong,
    measure_inputs,
    measure_variants,
    read_predictions,
    read_test_examples,
)
from scotoma.stages.measures.scored import is_scored, mean_sections

__all__ = ["bias"]


def bias(run: Run, *, clarify: bool = True, run_to_run: bool = True) -> list[Path]:
    """Measure how well every population predicts, and which classes and groups change.

    Without labels there is left what predictions alone tell: who gets the favourable outcome.

    Args:
        run: The run.
        clarify: Measure Clarify's metrics; where nobody asks for them, their part stays empty.
        run_to_run: Measure fairness from run to run; likewise.
    """
    section, rates = run.section("bias"), run.path(RATES)
    with (
        run.step("bias", [section, rates], measure_inputs(run)) as due,
        tempfile.TemporaryDirectory(prefix="scotoma-") as folder,
    ):
        if due and is_scored(run):
            from scotoma.stages.measures.rates import write_rates

            write_rates(rates, [])
            write_json(section, jsonable(mean_sections(run, read_test_examples(run))), indent=None)
        elif due:
            from scotoma.stages.external.precision import read_detectors
            from scotoma.stages.measures.accuracy import (
                baseline_notes,
                constant_members,
                own_digest,
            )
            from scotoma.stages.measures.against_labels import AgainstLabels, without_labels
            from scotoma.stages.measures.clarify import ClarifyMetrics
            from scotoma.stages.measures.rates import write_rates
            from scotoma.stages.measures.run_to_run import FairnessOfRuns, LabelRows
            from scotoma.stages.measures.several_labels import WholeExamples
            from scotoma.stages.measures.unanswered import unanswered_rows

            examples, seed = read_test_examples(run), run.config.population.seed
            positive = run.config.label.positive
            positive_id = None if positive is None else examples.classes.index(str(positive))
            training = AuditedExamples.read(run.examples, images=False, split="train")
            of_labels = run.config.label.attribute if run.config.label.columns else ""
            outcomes = ClarifyMetrics(
                examples,
                positive_id,
                seed,
                run.config.advantaged,
                training,
                run.config.clarify.features,
                of_labels,
            )
            dense = read_predictions(run, "dense", examples)
            before = outcomes.metrics(dense.predicted) if clarify else []
            whole = WholeExamples(run.config.label, examples, dense) if of_labels else None
            runs = FairnessOfRuns(
                examples,
                positive_id,
                dense.predicted,
                None if whole is None else LabelRows(of_labels, tuple(whole.names), whole.codes),
            )

            def counted(predictions: Predictions) -> Predictions:
                wrong = as_wrong(predictions.predicted, examples, positive_id)
                return replace(predictions, predicted=wrong)

            labelled = (
                AgainstLabels.of(run.config, examples, positive_id, counted(dense), Path(folder))
                if examples.labelled
                else None
            )

            def measure(comparison: PopulationPair) -> dict[str, Any]:
                members = comparison.compressed_members
                judged = replace(
                    comparison,
                    dense_members=counted(comparison.dense_members),
                    compressed_members=counted(members),
                )
                return {
                    "labelled": None if labelled is None else labelled.measures(judged),
                    "unanswered": unanswered_rows(comparison, examples),
                    "whole": None if whole is None else whole.measures(comparison),
                    "run_to_run": runs.of_compressed(comparison.compressed) if run_to_run else [],
                    "members": outcomes.members(comparison.compressed) if clarify else [],
                    "selection": outcomes.selection(comparison.compressed) if clarify else [],
                    "clarify": outcomes.models(
                        before,
                        comparison.dense,
                        comparison.compressed,
                        paired=comparison.variant.paired,
                    )
                    if clarify
                    else [],
                    "admission": members.admission,
                    "answers": own_digest(members, examples),
                    "collapsed": list(constant_members(members, examples.known_labels)),
                }

            variants = measure_variants(run, examples, "measure groups", measure, dense)
            write_rates(rates, [] if labelled is None else [labelled.rates(v) for v in variants])
            against = {name: measures["labelled"] for name, measures in variants.items()}
            parts = without_labels() if labelled is None else labelled.sections(against)
            of_label = None if whole is None else whole.codes
            parts["admission"] = [
                *compared_notes(run),
                *dense.admission,
                *(note for own in variants.values() for note in own["admission"]),
                *(baseline_notes(examples, dense, of_label) if read_detectors(run) is None else ()),
            ]
            parts["answers"] = {"dense": own_digest(dense, examples)} | {
                name: own["answers"] for name, own in variants.items()
            }
            silent = {name: own["unanswered"] for name, own in variants.items()}
            parts["unanswered"] = {name: rows for name, rows in silent.items() if rows}
            if whole is not None:
                parts["labels"] = whole.sections({k: own["whole"] for k, own in variants.items()})
            parts["run_to_run"] = {}
            if examples.attributes and run_to_run:
                parts["run_to_run"] = {"dense": runs.of_dense()} | {
                    name: measures["run_to_run"] for name, measures in variants.items()
                }
            parts["clarify"] = {
                "questions": outcomes.guide(),
                "data": outcomes.data() if clarify else [],
                "variants": {name: measures["clarify"] for name, measures in variants.items()},
                "members": {"dense": outcomes.members(dense.predicted) if clarify else []}
                | {name: measures["members"] for name, measures in variants.items()},
                "selection": {
                    name: rows
                    for name, rows in {
                        "dense": outcomes.selection(dense.predicted) if clarify else [],
                        **{name: measures["selection"] for name, measures in variants.items()},
                    }.items()
                    if rows
                },
            }
            parts["collapsed"] = [
                *constant_members(dense, examples.known_labels),
                *(line for measures in variants.values() for line in measures["collapsed"]),
            ]
            write_json(section, jsonable(parts), indent=None)
    return [section, rates]
