"""What got better, worse, or cannot be told apart between two audits?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scotoma.audit import Audit, GateResult
from scotoma.audit.previous import Comparable
from scotoma.bias import tally
from scotoma.bias.counting import metrics
from scotoma.bias.subgroup import change_list
from scotoma.document import Cell, Column, Document, Section, Table, show
from scotoma.errors import DataError
from scotoma.numbers import FEW_RUNS, ChangeEvidence, few_runs
from scotoma.predictions.finished import FinishedAudit
from scotoma.verdict.section import variant_cells, variant_columns
from scotoma.verdict.since_previous import Change, Word, changes, judged

ALPHA, LEVEL = 0.05, 0.95
NO_LABELS = "the examples of a run have no labels"
WORDS = {"error": "error", "fpr": "FPR", "fnr": "FNR", "cie_share_excess": "CIE excess"}
CAPTIONS: dict[Word, str] = {
    "worse": "Worse",
    "better": "Better",
    "undecided": "Undecided, the widest change that cannot be excluded first",
}
MOST_UNDECIDED = 5  # rows shown


def audit_difference(
    first: FinishedAudit, second: FinishedAudit, titles: Sequence[str]
) -> tuple[Document, dict[str, Any]]:
    """Say what changed from one audit to another.

    Args:
        first: The earlier audit.
        second: The later one.
        titles: What they are called.

    Returns:
        What people read, and what `--json` prints.

    Raises:
        DataError: They share no class, or what `compare_audits` raises.
    """
    rows, facts = compare_audits(first, second)
    gates, renamed = (first.gate, second.gate), facts.pop("renamed")
    turned = changed_verdicts(*gates, renamed)
    facts["verdicts"] = [
        {"variant": name, "before": before, "after": after} for name, before, after in turned
    ]
    shared = show(facts["examples"], "count").value
    lead = f"Rates are compared on {shared} test examples that both hold."
    if not facts["examples"]:
        lead = "No test example is in both: each rate is measured on its own test set."
    verdicts = Section(
        "verdicts",
        f"{len(turned) or 'No'} {'verdict' if len(turned) == 1 else 'verdicts'} changed",
        [f"{name}: {before} became {after}." for name, before, after in turned],
        link="Verdicts",
    )
    counts = Counter(row.verdict for row in rows)
    counted = ", ".join(f"{show(counts[word], 'count').value} {word}" for word in CAPTIONS)
    rates = Section(
        "rates", "Rates that changed",
        [f"{counted} of {show(len(rows), 'count').value} rates, tested together (Holm, "
         f"{ALPHA:g})."],
        [table for word in CAPTIONS if (table := _rates(word, rows)).rows],
        warnings=[f"{note[:1].upper()}{note[1:]}." for note in facts["notes"]],
        link="Rates",
    )  # fmt: skip
    document = Document(
        " and ".join(titles), lead,
        [verdicts, sides_section((first.audit, second.audit), gates, renamed), rates],
        kind="Scotoma, two audits side by side",
    )  # fmt: skip
    return document, {"version": 1, "runs": list(titles), **facts, "rows": rows}


def compare_audits(
    first: FinishedAudit, second: FinishedAudit
) -> tuple[list[Change], dict[str, Any]]:
    """Compare every rate of every variant that two audits share, on the examples that both have.

    Both populations are asked the same examples, so that the change is tested as that between a
    dense and a compressed population is: over examples and training runs, crossed. Audits without
    a common example, such as those of two months' data, are compared by what each has found, and
    the uncertainty of both adds. Members of two audits are taken as independent. One family over
    the table: Holm. Without labels only the CIE excesses can be compared, as of other examples.
    Two audits of one model against one compare these models, however they are called.

    Returns:
        Rows, variants in the order of the first audit; and what both share: `examples`, `classes`,
        `level`, `alpha`, `notes`, and `renamed`: variants of the first audit to what they are
        called in the second.

    Raises:
        DataError: An audit has not ended, they disagree on labels or classes, or have no labels and
            too few models for an excess.
    """
    audits = first, second
    if first.test.classes != second.test.classes:
        raise DataError(
            "both runs must have the same classes, got "
            f"{len(first.test.classes)} and {len(second.test.classes)} that differ; audit both on "
            "one table of examples"
        )
    where = [{example: row for row, example in enumerate(one.test.ids)} for one in audits]
    ids = [example for example in first.test.ids if example in where[1]]
    pairs = _pairs(audits, one_each=bool(ids))
    notes = _notes(audits, len(ids), pairs)
    labelled = first.test.labelled and second.test.labelled
    if ids and labelled:
        places = [[rows[example] for example in ids] for rows in where]
        differences = list(_on_shared(audits, places, pairs))
    else:
        differences = _on_their_own(audits, [a for a, b in pairs if a == b])
    if not labelled:
        notes.append(f"{NO_LABELS}: only CIE excesses are compared")
        if not differences:
            raise DataError(
                f"{NO_LABELS}, and fewer than 5 models a side have no CIE excess to compare; "
                "compare labelled audits, or audits of 5 models"
            )
    words = judged([one.change for one in differences], ALPHA)
    rows = [
        replace(one, p=p, p_adjusted=adjusted, verdict=word)
        for one, (p, adjusted, word) in zip(differences, words, strict=True)
    ]
    return rows, {
        "examples": len(ids), "classes": first.test.classes, "level": LEVEL, "alpha": ALPHA,
        "notes": notes, "renamed": {a: b for a, b in pairs if a != b},
    }  # fmt: skip


Two = tuple[FinishedAudit, FinishedAudit]


def _pairs(audits: Two, *, one_each: bool) -> list[tuple[str, str]]:
    """Variants that are compared: those of one name, or the only compressed model of each."""
    names, later = ([v.name for v in one.run.config.resolved_variants] for one in audits)
    pairs = [(name, name) for name in names if name in later]
    alone = [[n for n in own if n != "dense"] for own in (names, later)]
    different = one_each and alone[0] != alone[1] and all(len(own) == 1 for own in alone)
    if different and all(one.audit.scope == "shipped" for one in audits):
        pairs.append((alone[0][0], alone[1][0]))
    return pairs


def _notes(audits: Two, shared: int, pairs: list[tuple[str, str]]) -> list[str]:
    tests = [one.test for one in audits]
    notes = [
        f"the only models there: {a} of the first run is compared with {b} of the second"
        for a, b in pairs
        if a != b
    ]
    if not shared:
        notes.append("no test example is in both runs: each rate is measured on its own test set")
    elif dropped := sum(len(test.ids) - shared for test in tests):
        notes.append(f"{dropped:,} test examples are in one run only and were left out")
    named = [{v.name for v in one.run.config.resolved_variants} for one in audits]
    if unshared := (named[0] ^ named[1]) - {name for pair in pairs for name in pair}:
        notes.append(f"in one run only: {', '.join(sorted(unshared))}")
    if tests[0].attributes != tests[1].attributes:
        notes.append(
            "groups are those of the first run" if shared else "groups of one run are left out"
        )
    return notes


def _on_shared(
    audits: Two, places: list[list[int]], pairs: list[tuple[str, str]]
) -> Iterator[Change]:
    """The change of each rate, example by example."""
    tests = [
        replace(one.test, table=one.test.table[rows])
        for one, rows in zip(audits, places, strict=True)
    ]
    test, positive = tests[0], audits[0].run.config.label.positive
    if test.table["label"].to_list() != tests[1].table["label"].to_list():
        raise DataError(
            "both runs must label their shared examples alike, got different labels; audit both on "
            "one table of examples"
        )
    positive_id = None if positive is None else test.classes.index(str(positive))
    groups = test.partition()
    for pair in pairs:
        before, after = (
            one.predictions(name).predicted[rows]
            for one, rows, name in zip(audits, places, pair, strict=True)
        )
        moments = tally(
            test.labels, before, after, groups.masks, positive=positive_id,
            n_classes=len(test.classes), clusters=test.clusters,
        )  # fmt: skip
        kinds = list(enumerate(metrics(len(test.classes), positive_id)))
        of_all = {e: kind for e, kind in kinds if kind.class_id is None}  # classes may be many
        own = list(of_all.values())
        known = ChangeEvidence.of_tally(moments.take(np.s_[:, list(of_all)]))
        for row in change_list(known, groups.names, own, LEVEL):
            name = ", then ".join(dict.fromkeys(pair))
            yield Change(name, row.metric, row.group, row.dense, row.compressed, row.absolute)


def _on_their_own(audits: Two, names: list[str]) -> list[Change]:
    """The change of each number, from what each audit has found."""
    before, after = (Comparable.of(one.audit) for one in audits)
    return [
        replace(row, group=audits[1].audit.group_names[row.group])
        for name in names
        for row in changes(before, after, name)
    ]


def changed_verdicts(
    first: GateResult | None, second: GateResult | None, renamed: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """Name the variants whose verdict is another one, with the earlier and the later word.

    Args:
        first: The verdict on the earlier audit; None where nobody judged it.
        second: That on the later one.
        renamed: Variants of the earlier audit to what the later one calls them.
    """
    if first is None or second is None:
        return []
    later = {variant.name: variant.verdict for variant in second.variants}
    return [
        (_both(variant.name, renamed), variant.verdict, later[name])
        for variant in first.variants
        if later.get(name := renamed.get(variant.name, variant.name), variant.verdict)
        != variant.verdict
    ]


def _rates(word: Word, rows: Sequence[Change]) -> Table:
    judged = [row for row in rows if row.verdict == word]
    if word == "undecided":
        judged.sort(key=lambda row: -math.inf if math.isnan(row.change.high) else row.change.high,
                    reverse=True)  # fmt: skip
    cells: list[dict[str, Cell]] = [
        {
            "variant": row.variant, "rate": WORDS[row.metric], "group": row.group,
            "before": row.before.value, "after": row.after.value, "change": row.change,
            "n": row.change.n,
        }
        for row in judged
    ]  # fmt: skip
    return Table(
        word,
        CAPTIONS[word],
        [
            Column("variant", "Variant"), Column("rate", "Rate"), Column("group", "Group"),
            Column("before", "First", "rate"), Column("after", "Second", "rate"),
            Column("change", "Change, points", "points"), Column("n", "n", "count"),
        ],
        cells, stub=3, known=FEW_RUNS, most=MOST_UNDECIDED if word == "undecided" else None,
    )  # fmt: skip


def sides_section(
    audits: tuple[Audit, Audit],
    gates: tuple[GateResult | None, GateResult | None],
    renamed: Mapping[str, str],
) -> Section:
    """Each variant in both audits, a row an audit; what the later one calls otherwise is joined."""
    names = {_both(variant.name, renamed): variant.name for variant in audits[0].compressed}
    for variant in audits[1].compressed:
        if variant.name not in renamed.values():
            names.setdefault(variant.name, variant.name)
    rows: list[dict[str, Cell]] = []
    for shown, name in names.items():
        sides = zip(("first", "second"), audits, gates, (name, renamed.get(name, name)),
                    strict=True)  # fmt: skip
        for which, audit, gate, own in sides:
            there = any(variant.name == own for variant in audit.compressed)
            cells = variant_cells(audit, gate, own) if there else {"flips": "not in this audit"}
            rows.append({**cells, "variant": shown, "audit": which})
    both = min(audits, key=lambda audit: audit.labelled)  # what one lacks has no column
    first, *others = variant_columns(both, judged=any(gates))
    few = few_runs(min(one.members for audit in audits for one in audit.variants))
    return Section(
        "sides",
        "Each variant in both audits",
        parts=[
            Table(
                "variants", "Each variant in both audits",
                [first, Column("audit", "Audit"),
                 *(column for column in others if column.key != "do")],
                rows, "Intervals are those of each audit alone; the tables below test the change.",
                stub=2, known=FEW_RUNS, cards=True,
            )
        ],
        warnings=[f"{few[:1].upper()}{few[1:]}."] if few else (),
    )  # fmt: skip


def _both(name: str, renamed: Mapping[str, str]) -> str:
    return ", then ".join(dict.fromkeys((name, renamed.get(name, name))))
