"""Give the members of a finished audit new last layers, fitted on its training examples.

Fitted to every variant by itself, compression comes first and the mitigation after it; kept from
the dense members, the mitigation comes first. Nothing of the test examples is read for it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.fix.outputs import outputs_by_member
from scotoma.fix.rules import Decided, group_codes, refuse_empty, write_tables
from scotoma.mitigation import decide
from scotoma.numbers.inputs import Ints
from scotoma.processes import worker_pool
from scotoma.processes.machine import cores
from scotoma.run import Run, code_digest, read_record, write_json
from scotoma.storage.files import file_digest

if TYPE_CHECKING:
    from concurrent.futures import Future


RECORD = "refit.json"
FILES = ("audit.yaml", "examples.parquet", "predictions.parquet", "rules.json")


def refit_last_layers(
    run: Run, attribute: str, folder: Path, *, kept: bool
) -> tuple[Path, Path | None]:
    """Fit last layers and write what every variant then says of all test examples.

    A folder that holds the same already stays as it is.

    Args:
        run: A finished audit that trained its members without a technique.
        attribute: Whose groups count while a layer is fitted.
        folder: Where the tables go.
        kept: Whether compressed members decide by the layer of the dense member of their number,
            rather than by their own.

    Returns:
        The configuration of an audit of these predictions, and the gate's rules or None.

    Raises:
        DataError: A class has no training example in a group, or a member is gone.
    """
    origin = {"members": _members_digest(run), "attribute": attribute, "kept": kept,
              "code": code_digest("mitigation") + code_digest("fix")}  # fmt: skip
    record = read_record(folder / RECORD)
    whole = {name: _digest(folder / name) for name in FILES}
    if record == {**origin, "files": whole}:
        gate = folder / "gate.yaml"
        return folder / "audit.yaml", gate if gate.exists() else None
    training = AuditedExamples.read(run.examples, images=False, split="train")
    names, groups = group_codes(training, [attribute])
    refuse_empty(training.labels, groups, names, training.classes, "dfr")
    folder.mkdir(parents=True, exist_ok=True)
    decided, rules = _decided(run, training.labels, groups, kept=kept)
    test = AuditedExamples.read(run.examples, images=False, split="test")
    places = write_tables(run, np.ones(len(test.ids), bool), decided, rules, folder)
    whole = {name: _digest(folder / name) for name in FILES}
    write_json(folder / RECORD, {**origin, "files": whole})
    return places


def _decided(
    run: Run, labels: Ints, groups: Ints, *, kept: bool
) -> tuple[dict[str, Decided], list[decide.Rule]]:
    """What the members of every variant say, and the rules by which they do."""
    decided: dict[str, Decided] = {}
    rules: list[decide.Rule] = []
    dense: list[decide.Rule] = []
    with worker_pool(cores()) as pool:  # of one thread each: small matrices gain nothing by more
        for variant in run.config.resolved_variants:
            own: list[decide.Rule] = dense
            if not (kept and dense):
                fits: list[Future[decide.Rule]] = [
                    pool.submit(decide.fit, "dfr", z, labels, groups, task="fitting a last layer")
                    for z in outputs_by_member(run, variant.name, features=True, split="train")
                ]
                own = [future.result() for future in fits]
                rules += own
            dense = dense or own
            shown = outputs_by_member(run, variant.name, features=True)
            columns = [rule(z) for rule, z in zip(own, shown, strict=True)]
            decided[variant.name] = Decided(np.stack(columns, axis=1), variant.paired)
    return decided, rules


def _members_digest(run: Run) -> str:
    """Digest of the records of all members."""
    digest = hashlib.sha256()
    for variant in run.config.resolved_variants:
        for index in range(run.config.models_of(variant.name)):
            path = run.member(variant.name, index).with_suffix(".json")
            run.fetch(path)
            if not path.exists():
                raise DataError(
                    f"{variant.name} must have the record of member {index}, got none in "
                    f"{run.place}; repeat the audit"
                )
            digest.update(json.dumps(read_record(path), sort_keys=True).encode())
    return digest.hexdigest()


def _digest(path: Path) -> str:
    return file_digest(path) if path.is_file() else ""
