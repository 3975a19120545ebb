"""An audit of answers that are in memory, without a run: the same numbers and the same verdict."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from scotoma.answers.admission import NO_ANSWER, NO_LABEL, is_label
from scotoma.answers.note import AdmissionNote
from scotoma.answers.pair import NumberedClasses, Pair
from scotoma.audit import Audit, GateFile, as_text
from scotoma.audit.base import Row
from scotoma.audit.document import (
    DENSE,
    BiasSection,
    DivergenceSection,
    MeasuredRows,
    SlicesSection,
)
from scotoma.config.gate import GateRules
from scotoma.config.label import Label
from scotoma.config.sections import SliceSettings
from scotoma.datasets import AuditedExamples
from scotoma.datasets.examples import FEATURES
from scotoma.document.jsonable import jsonable
from scotoma.errors import DataError
from scotoma.numbers.inputs import Codes
from scotoma.predictions import Predictions, smallest_type
from scotoma.printable import listed, quoted
from scotoma.steps.divergence import score_divergence
from scotoma.steps.judging.assemble import UNLABELLED, audited_header, classified
from scotoma.steps.measures.harms import Harms
from scotoma.steps.measures.pairs import PopulationPair, as_examples
from scotoma.steps.measures.rates import MOST_CLASS_ROWS, MOST_JUDGED, class_rates_asked
from scotoma.steps.slices import harmed_slices
from scotoma.verdict.gate import applied_rules, judge

ANOTHER = "another answer"  # the class that nobody chose, where every answer is the only label
RESERVED = ("example_id", "split", "label", "cluster", FEATURES, "image", "image_name")


def gate_of(
    audit: Audit, rules: GateRules | None = None, as_of: datetime.date | None = None
) -> GateFile:
    """Judge an audit by rules, or by those that hold where no file is given.

    Args:
        audit: From `AnswersInMemory.audit`.
        rules: The gate; None for the default rules.
        as_of: Day that decides which waivers have expired; None for today.

    Raises:
        DataError: Rules ask for more rates of single classes than are measured.
    """
    applied = applied_rules(rules, audit)
    if audit.class_rates is not None and class_rates_asked(applied):
        raise DataError(
            f"at most {MOST_JUDGED:,} rates of single classes may be asked for, got "
            f"{audit.class_rates.rows:,}; ask for errors, or name the positive class"
        )
    today = datetime.datetime.now(datetime.UTC).date()
    digest = hashlib.sha256(as_text(audit).encode()).hexdigest()
    return judge(audit, applied, as_of or today, audit_sha256=digest)


@dataclass(frozen=True, eq=False)
class AnswersInMemory:
    """Test examples, and what each population answers to them.

    Attributes:
        examples: The test examples; where answers are none, or no label, classes name these too.
        populations: The dense one first.
        paired: Whether each compressed model derives from the dense one at its place.
        notes: What was folded, dropped or guessed.
    """

    examples: AuditedExamples
    populations: tuple[Predictions, ...]
    paired: bool = False
    notes: tuple[AdmissionNote, ...] = ()

    @classmethod
    def of(
        cls, pairs: Sequence[Pair], rows: Sequence[Codes | slice] = (slice(None),)
    ) -> AnswersInMemory:
        """Bring pairs of one dense population together.

        Args:
            pairs: Dense and compressed answers.
            rows: Which examples to take of each pair, so that all have the same in one order.

        Raises:
            DataError: No dense answers, fewer than two classes, or a group called as a column of
                ours is.
        """
        first, own = pairs[0], pairs[0].examples
        if first.dense is None:
            raise DataError(
                "a pair must hold dense answers to be measured, got compressed ones alone"
            )
        classes = _common_classes(pairs)
        if len(classes) == 1 and own.labels is not None:
            classes = (*classes, ANOTHER)
        if len(classes) < 2:
            raise DataError(
                f"y must hold at least two classes, got {listed(list(classes))} alone; pass "
                "examples of every class"
            )
        if taken := [name for name in own.groups.values if name in RESERVED]:
            raise DataError(
                f"groups must have names of their own, got {quoted(taken[0])}; call the attribute "
                "something else"
            )
        ids = [str(row) for row in range(own.size)] if own.ids is None else own.ids.to_list()
        columns: dict[str, Any] = {"example_id": ids, "split": ["test"] * own.size}
        if own.labels is not None:
            columns["label"] = pl.Series(first.classes)[first.labels]
        if own.cluster is not None:
            columns["cluster"] = own.cluster
        if own.features is not None and own.features.width:
            columns[FEATURES] = own.features.to_struct()
        examples = AuditedExamples(
            pl.DataFrame(columns | dict(own.groups.values))[rows[0]], classes,
            tuple(own.groups.values), own.groups.crossed,
        )  # fmt: skip
        sides = [(DENSE, first, first.dense, rows[0])]
        sides += [
            (pair.compressed.variant, pair, pair.compressed, taken)
            for pair, taken in zip(pairs, rows, strict=True)
        ]
        place = {name: smallest_type(len(classes))(at) for at, name in enumerate(classes)}
        place |= {f"{name}{NO_LABEL}": at for name, at in place.items() if is_label(name)} | place
        populations = tuple(
            Predictions(
                name, np.array([place[one] for one in pair.classes])[side.predicted[taken]],
                tuple(examples.ids), tuple(range(side.predicted.shape[1])), classes,
            )
            for name, pair, side, taken in sides
        )  # fmt: skip
        notes = dict.fromkeys(note for pair in pairs for note in pair.notes)
        return cls(examples, populations, first.paired, tuple(notes))

    def audit(
        self,
        *,
        positive: str | None = None,
        advantaged: Mapping[str, str] | None = None,
        clarify: bool = False,
        run_to_run: bool = False,
        class_rates: bool = True,
        slices: SliceSettings | None = None,
        detectors: MeasuredRows | None = None,
        strata: str | None = None,
        endings: tuple[Row, ...] = (),
        project: str = "notebook",
    ) -> Audit:
        """Measure the answers as an audit of predictions does.

        Args:
            positive: The favourable class; None where every class counts alike.
            advantaged: Attribute to the value that its others are compared with.
            clarify: Measure Clarify's metrics.
            run_to_run: Measure fairness from run to run.
            class_rates: Hold the rates of single classes, even where they are many.
            slices: How to search for slices; None for no search.
            detectors: AP and AR, where the examples are boxes.
            strata: The attribute whose values ask the same of every cluster; None for none.
            endings: How answers ended.
            project: What the audit is called.

        Raises:
            DataError: A class or a group that there is not.
        """
        examples, (dense, *others) = self.examples, self.populations
        if positive is not None and positive not in examples.classes:
            raise DataError(
                f"positive must be one of {listed(list(examples.classes))}, got "
                f"{quoted(positive)}; name one of them"
            )
        for attribute, value in (advantaged or {}).items():
            if attribute not in examples.attributes or value not in examples.table[attribute]:
                raise DataError(
                    f"advantaged must name a group of the pair, got {quoted(attribute)}: "
                    f"{quoted(value)}; name one of {listed(list(examples.partition().keys))}"
                )
        asked = as_examples(examples)
        comparisons = {
            own.variant: PopulationPair(
                examples=asked, dense=dense, compressed=own, paired=self.paired
            )
            for own in others
        }
        harms = Harms(
            examples=examples, dense=dense, comparisons=len(others),
            label=Label(column="label", positive=positive), advantaged=advantaged or {},
            clarify=clarify, run_to_run=run_to_run, detectors=detectors is not None,
            most_class_rows=MOST_JUDGED if class_rates else MOST_CLASS_ROWS,
        )  # fmt: skip
        section = harms.section(
            {name: harms.measures(one) for name, one in comparisons.items()}, self.notes
        )
        found = {name: score_divergence(one, examples, {}, 0) for name, one in comparisons.items()}
        scored = {
            "divergence": {name: counted for name, (_, counted, _) in found.items()},
            "rows": [row for *_, rows in found.values() for row in rows],
            "gallery": dict.fromkeys(found, ()),
            "parity": {},
        }
        measured = classified(
            BiasSection.model_validate(jsonable(section)),
            DivergenceSection.model_validate(jsonable(scored)),
            detectors,
            endings,
        )
        described = audited_header(
            examples, examples.split("train"), project=project, positive=positive,
            unlabelled="" if examples.labelled else UNLABELLED,
            fewest_models=min(len(own.members) for own in self.populations),
            variants=[
                {
                    "name": own.variant, "kind": "predictions" if place else "dense", "mode": "",
                    "sparsity": None, "bits": None, "paired": bool(place) and self.paired,
                    "derived_from": DENSE if place and self.paired else None,
                    "members": len(own.members),
                }
                for place, own in enumerate(self.populations)
            ],
        )  # fmt: skip
        sliced = SlicesSection()
        if slices is not None:
            searched = harmed_slices(comparisons, examples, slices)
            sliced = SlicesSection.model_validate(jsonable(searched))
        measured["rows"] |= {"slices": sliced.rows}
        notes = dict.fromkeys(measured.pop("admission"))
        more = {
            "slices": sliced.slices, "fingerprint": {"answers": measured.pop("answers")},
            "admission": [note.as_dict() for note in notes], "strata": strata,
        }  # fmt: skip
        return Audit.model_validate(described | measured | more)


def _common_classes(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Names of the classes of several pairs: labels, answers that are none, no answer."""
    names = {name for pair in pairs for name in pair.classes}
    beside = [None if one == NO_ANSWER else one.removesuffix(NO_LABEL) for one in names]
    answers = pl.Series(beside, dtype=pl.String)
    return NumberedClasses.of(filter(is_label, names), [answers]).classes
