"""An audit of answers that are in memory, without a run: the same numbers and the same verdict."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from typing import Any

import polars as pl

from scotoma.answers.pair import Answers, Pair
from scotoma.audit import Audit, GateFile, as_text
from scotoma.audit.document import DENSE
from scotoma.audit.sections import BiasSection
from scotoma.config.gate import GateRules
from scotoma.config.label import Label
from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.jsonable import jsonable
from scotoma.predictions import Predictions, smallest_type
from scotoma.printable import listed, quoted
from scotoma.stages.divergence import score_divergence
from scotoma.stages.judging.assemble import UNLABELLED, adjusted_gaps, audited_header
from scotoma.stages.measures.harms import Harms
from scotoma.stages.measures.pairs import PopulationPair, as_examples
from scotoma.verdict import judge, rules_without_file

__all__ = ["audit_in_memory", "gate_of"]

RESERVED = ("example_id", "split", "label", "cluster", "features", "image")  # columns of examples


def gate_of(audit: Audit, rules: GateRules | None = None) -> GateFile:
    """Judge an audit by rules, or by those that hold where no file is given."""
    today = datetime.datetime.now(datetime.UTC).date()
    digest = hashlib.sha256(as_text(audit).encode()).hexdigest()
    return judge(audit, rules or rules_without_file(audit), today, audit_sha256=digest)


def audit_in_memory(
    pair: Pair,
    *,
    positive: str | None = None,
    advantaged: Mapping[str, str] | None = None,
    clarify: bool = False,
    run_to_run: bool = False,
) -> Audit:
    """Measure a pair as an audit of predictions does.

    Args:
        pair: Dense and compressed answers on the same examples.
        positive: The favourable class; None where every class counts alike.
        advantaged: Attribute to the value that its others are compared with.
        clarify: Measure Clarify's metrics.
        run_to_run: Measure fairness from run to run.

    Raises:
        DataError: No dense answers, a class that nobody names, or a group called as a column of
            ours is.
    """
    if pair.dense is None:
        raise DataError("a pair must hold dense answers to be measured, got compressed ones alone")
    if positive is not None and positive not in pair.classes:
        raise DataError(
            f"positive must be one of {listed(list(pair.classes))}, got {quoted(positive)}; "
            "name one of them"
        )
    if len(pair.classes) < 2:
        raise DataError(
            f"y must hold at least two classes, got {listed(list(pair.classes))} alone; pass "
            "examples of every class"
        )
    examples = _examples(pair)
    for attribute, value in (advantaged or {}).items():
        if attribute not in examples.attributes or not (examples.table[attribute] == value).any():
            raise DataError(
                f"advantaged must name a group of the pair, got {quoted(attribute)}: "
                f"{quoted(value)}; name one of {listed(list(pair.examples.groups.keys))}"
            )
    name = pair.compressed.variant
    dense, compressed = (
        _predictions(pair, side, own)
        for side, own in ((pair.dense, DENSE), (pair.compressed, name))
    )
    comparison = PopulationPair(
        examples=as_examples(examples), dense=dense, compressed=compressed, paired=pair.paired
    )
    harms = Harms(
        examples=examples, dense=dense, comparisons=1,
        label=Label(column="label", positive=positive), advantaged=advantaged or {},
        clarify=clarify, run_to_run=run_to_run,
    )  # fmt: skip
    section = harms.section({name: harms.measures(comparison)}, pair.notes)
    bias = BiasSection.model_validate(jsonable(section))
    _, divergence = score_divergence(comparison, examples, {}, 0)
    described = audited_header(
        examples, examples.split("train"), project="notebook",
        positive=positive, unlabelled="" if examples.labelled else UNLABELLED,
        fewest_models=min(dense.predicted.shape[1], compressed.predicted.shape[1]),
        variants=[
            {
                "name": own.variant, "kind": kind, "mode": "", "sparsity": None, "bits": None,
                "paired": paired, "derived_from": DENSE if paired else None,
                "members": own.predicted.shape[1],
            }
            for own, kind, paired in (
                (dense, "dense", False), (compressed, "predictions", pair.paired)
            )
        ],
    )  # fmt: skip
    return Audit.model_validate(
        described
        | {
            **{part: getattr(bias, part) for part in PARTS},
            "divergence": {name: jsonable(divergence)},
            "gaps": adjusted_gaps(bias.gaps),
            "gallery": {name: ()},
            "parity": {},
            "slices": {},
            "unanswered": bias.unanswered or None,
            "fingerprint": {"answers": bias.answers},
            "admission": [note.as_dict() for note in dict.fromkeys(bias.admission)],
        }
    )


PARTS = ("accuracy", "classes", "subgroups", "clarify", "run_to_run", "one_model", "collapsed")


def _predictions(pair: Pair, side: Answers, name: str) -> Predictions:
    codes = side.predicted
    small: Any = codes.astype(smallest_type(len(pair.classes)))
    members = tuple(range(codes.shape[1]))
    return Predictions(name, small, tuple(_ids(pair)), members, pair.classes)


def _ids(pair: Pair) -> list[str]:
    ids = pair.examples.ids
    return [str(row) for row in range(pair.examples.size)] if ids is None else ids.to_list()


def _examples(pair: Pair) -> AuditedExamples:
    """The examples of a pair as a table."""
    own, groups = pair.examples, pair.examples.groups
    if taken := [name for name in groups.values if name in RESERVED]:
        raise DataError(
            f"groups must have names of their own, got {quoted(taken[0])}; call the attribute "
            "something else"
        )
    columns: dict[str, Any] = {"example_id": _ids(pair), "split": ["test"] * own.size}
    if own.labels is not None:
        columns["label"] = pl.Series(pair.classes)[pair.labels]
    if own.cluster is not None:
        columns["cluster"] = own.cluster
    table = pl.DataFrame(columns | dict(groups.values))
    return AuditedExamples(table, pair.classes, tuple(groups.values), groups.crossed)
