"""The diff command: what got better, worse, or cannot be told apart between two audits."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scotoma.audit import Audit, GateResult, read_audit, read_gate
from scotoma.audit.previous import Comparable
from scotoma.bias import tally
from scotoma.bias.counting import metrics
from scotoma.bias.subgroup import change_list
from scotoma.commands.diff.document import (
    Difference,
    changed_verdicts,
    diff_document,
    sides_section,
)
from scotoma.datasets import AuditedExamples
from scotoma.document.html import html_page
from scotoma.document.jsonable import jsonable
from scotoma.document.text import document_text
from scotoma.errors import DataError
from scotoma.numbers import ChangeEvidence
from scotoma.predictions import Predictions
from scotoma.printable import printable
from scotoma.run import Run, checksums
from scotoma.run.finished import open_run
from scotoma.storage.files import written
from scotoma.verdict.since_previous import Change, changes, judged

__all__ = ["compare_audits", "run_diff"]

ALPHA, LEVEL = 0.05, 0.95
NO_LABELS = "the examples of a run have no labels"


def run_diff(
    first: str, second: str, *, html: Path | None = None, as_json: bool, quiet: bool
) -> None:
    """Print what changed from one audit to another.

    Args:
        first: Folder of the earlier run, or its `s3://BUCKET/PREFIX`.
        second: That of the later one.
        html: Write both side by side as a page into this file; None writes none.
        as_json: Print JSON instead of the tables.
        quiet: No messages.

    Raises:
        ScotomaError: A run is not one, or they share no class.
    """
    runs = open_run(first), open_run(second)
    rows, facts = compare_audits(*runs)
    gates = _gate(runs[0]), _gate(runs[1])
    renamed = facts.pop("renamed")
    turned = changed_verdicts(*gates, renamed)
    facts["verdicts"] = [
        {"variant": name, "before": before, "after": after} for name, before, after in turned
    ]
    document = partial(
        diff_document, (first, second), turned, rows, facts["examples"], facts["notes"], ALPHA
    )
    if html is not None:
        sides = sides_section((_audit(runs[0]), _audit(runs[1])), gates, renamed)
        with written(html) as temporary:
            temporary.write_text(html_page(document(sides)), encoding="utf-8")
        if not quiet:
            sys.stderr.write(f"page    {printable(str(html))}\n")
    if as_json:
        content = {"version": 1, "runs": [first, second], **facts, "rows": rows}
        sys.stdout.write(json.dumps(jsonable(content), indent=1, ensure_ascii=False) + "\n")
        return
    sys.stdout.write(document_text(document()) + "\n")


def compare_audits(first: Run, second: Run) -> tuple[list[Difference], dict[str, Any]]:
    """Every rate of every variant that two audits share, on the examples that both have.

    Both populations are asked the same examples, so that the change is tested as that between a
    dense and a compressed population is: over examples and training runs, crossed. Audits without
    a common example, such as those of two months' data, are compared by what each has found, and
    the uncertainty of both adds. Members of two audits are taken as independent. One family over
    the table: Holm.

    Args:
        first: The earlier audit, finished.
        second: The later one.

    Of an audit without labels only the CIE excesses can be compared, as of other examples.

    Two audits of one model against one compare these models, however they are called.

    Returns:
        Rows, variants in the order of the first run; and what both share: `examples`, `classes`,
        `level`, `alpha`, `notes`, and `renamed`: variants of the first run to what they are called
        in the second.

    Raises:
        DataError: An audit has not ended, they disagree on labels or classes, or have no labels and
            too few models for an excess.
    """
    tests = [_test(run) for run in (first, second)]
    if tests[0].classes != tests[1].classes:
        raise DataError(
            "both runs must have the same classes, got "
            f"{len(tests[0].classes)} and {len(tests[1].classes)} that differ; audit both on one "
            "table of examples"
        )
    ids, places = _shared(tests)
    pairs = _pairs(first, second, one_each=bool(ids))
    notes = _notes(tests, ids, pairs, (first, second))
    labelled = all(test.labelled for test in tests)
    differences = (
        list(_on_shared(tests, places, (first, second), pairs))
        if ids and labelled
        else list(_on_their_own((first, second), [a for a, b in pairs if a == b]))
    )
    if not labelled:
        notes.append(f"{NO_LABELS}: only CIE excesses are compared")
        if not differences:
            raise DataError(
                f"{NO_LABELS}, and fewer than 5 models a side have no CIE excess to compare; "
                "compare labelled audits, or audits of 5 models"
            )
    rows = [
        Difference(name, c.metric, c.group, c.before, c.after, c.change, p, adjusted, word)
        for (name, c), (p, adjusted, word) in zip(
            differences, judged([c.change for _, c in differences], ALPHA), strict=True
        )
    ]
    return rows, {
        "examples": len(ids), "classes": tests[0].classes, "level": LEVEL, "alpha": ALPHA,
        "notes": notes, "renamed": {a: b for a, b in pairs if a != b},
    }  # fmt: skip


def _pairs(first: Run, second: Run, *, one_each: bool) -> list[tuple[str, str]]:
    """Variants that are compared: those of one name, or the only compressed model of each."""
    names, later = ([v.name for v in run.config.resolved_variants] for run in (first, second))
    pairs = [(name, name) for name in names if name in later]
    alone = [[n for n in own if n != "dense"] for own in (names, later)]
    different = one_each and alone[0] != alone[1] and all(len(own) == 1 for own in alone)
    if different and all(_audit(run).scope == "shipped" for run in (first, second)):
        pairs.append((alone[0][0], alone[1][0]))
    return pairs


def _test(run: Run) -> AuditedExamples:
    run.fetch(run.examples)
    if not run.examples.exists():
        raise DataError(f"{run.place} has no examples.parquet; finish its audit first")
    checksums.refuse_changed(run.mirror, [run.examples.name])
    return AuditedExamples.read(run.examples, images=False, split="test")


def _shared(tests: list[AuditedExamples]) -> tuple[list[str], list[list[int]]]:
    """Ids that both have, in the order of the first, and their rows in each."""
    where = [{example: row for row, example in enumerate(test.ids)} for test in tests]
    ids = [example for example in tests[0].ids if example in where[1]]
    return ids, [[rows[example] for example in ids] for rows in where]


def _notes(
    tests: list[AuditedExamples],
    ids: list[str],
    pairs: list[tuple[str, str]],
    runs: tuple[Run, Run],
) -> list[str]:
    notes = [
        f"the only models there: {a} of the first run is compared with {b} of the second"
        for a, b in pairs
        if a != b
    ]
    if not ids:
        notes.append("no test example is in both runs: each rate is measured on its own test set")
    elif dropped := sum(len(test.ids) - len(ids) for test in tests):
        notes.append(f"{dropped:,} test examples are in one run only and were left out")
    named = [{v.name for v in run.config.resolved_variants} for run in runs]
    if unshared := (named[0] ^ named[1]) - {name for pair in pairs for name in pair}:
        notes.append(f"in one run only: {', '.join(sorted(unshared))}")
    if tests[0].attributes != tests[1].attributes:
        notes.append(
            "groups are those of the first run" if ids else "groups of one run are left out"
        )
    return notes


def _on_shared(
    tests: list[AuditedExamples],
    places: list[list[int]],
    runs: tuple[Run, Run],
    pairs: list[tuple[str, str]],
) -> Iterator[tuple[str, Change]]:
    """Variant and change of each rate, example by example."""
    shared = [
        AuditedExamples(test.table[rows], test.classes, test.attributes, test.intersections)
        for test, rows in zip(tests, places, strict=True)
    ]
    if shared[0].table["label"].to_list() != shared[1].table["label"].to_list():
        raise DataError(
            "both runs must label their shared examples alike, got different labels; audit both on "
            "one table of examples"
        )
    test, positive = shared[0], runs[0].config.label.positive
    positive_id = None if positive is None else test.classes.index(str(positive))
    groups = test.partition()
    for pair in pairs:
        predicted = []
        for run, rows, name in zip(runs, places, pair, strict=True):
            path = run.predictions(name)
            run.fetch(path)
            checksums.refuse_changed(run.mirror, [path.relative_to(run.root).as_posix()])
            predicted.append(Predictions.read(path).predicted[rows])
        moments = tally(
            test.labels, predicted[0], predicted[1], groups.masks, positive=positive_id,
            n_classes=len(test.classes), clusters=test.clusters,
        )  # fmt: skip
        known = ChangeEvidence.of_tally(moments)
        kinds = list(enumerate(metrics(len(test.classes), positive_id)))
        of_all = {e: kind for e, kind in kinds if kind.class_id is None}  # classes may be many
        own = list(of_all.values())
        for row in change_list(known.take(np.s_[:, list(of_all)]), groups.names, own, LEVEL):
            change = Change(row.metric, row.group, row.dense, row.compressed, row.absolute)
            yield ", then ".join(dict.fromkeys(pair)), change


def _on_their_own(runs: tuple[Run, Run], names: list[str]) -> Iterator[tuple[str, Change]]:
    """Variant and change of each number, from what each audit has found."""
    audits = [_audit(run) for run in runs]
    before, after = map(Comparable.of, audits)
    for name in names:
        for row in changes(before, after, name):
            yield name, replace(row, group=audits[1].group_names[row.group])


def _audit(run: Run) -> Audit:
    path = run.path("audit.json")
    run.fetch(path)
    checksums.refuse_changed(run.mirror, [path.name])
    return read_audit(path, run.mirror.place(path))


def _gate(run: Run) -> GateResult | None:
    """The verdict on a run; None where nobody judged it."""
    path = run.path("gate.json")
    run.fetch(path)
    if not path.exists():
        return None
    checksums.refuse_changed(run.mirror, [path.name])
    return read_gate(path, run.mirror.place(path))
