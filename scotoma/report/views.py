"""What does each section of the page show? Rows chosen from the audit and put in order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scotoma.audit import Audit, GateResult
from scotoma.audit.document import AuditedVariant, FewModelsRow, GroupParity
from scotoma.audit.findings import Beside
from scotoma.audit.groups import ClassRow, RateChange
from scotoma.audit.slices import SliceSearch
from scotoma.audit.worst_change import MEANING
from scotoma.document.cells import Interval, Ranged
from scotoma.numbers import FEW_RUNS, few_runs
from scotoma.report import answers, gallery
from scotoma.report.concerns import KNOWN_NOTES, concerns, selections
from scotoma.report.corrupted import corrupted
from scotoma.report.downloads import downloads
from scotoma.report.figures.groups import most_changed_groups
from scotoma.report.images import Album
from scotoma.report.judged import certainty_words, open_tests, rule_words
from scotoma.report.marks import Scale, scale_of
from scotoma.report.mitigations import mitigations
from scotoma.report.model_card import model_card
from scotoma.report.overview import variant_rows
from scotoma.report.people import shown_reviews, shown_studies
from scotoma.report.readable import in_names, with_group_names
from scotoma.report.texts import Texts
from scotoma.runs import NO_POWER, THIS_TEST_SET

__all__ = ["page_context"]

METRICS = {"error": "Error", "fpr": "False positive rate", "fnr": "False negative rate"}
MOST_CLASSES = 60  # rows of a table of classes; more are cut in the middle
MOST_RATES = 120  # rows of a table of classes by groups
MOST_CLASS_NAMES = 20  # class names listed at the top
FEW_MEMBERS = 5  # below it CIE counts are unstable
MOST_RUN_ROWS = 70  # rows of a table of fairness metrics over members
MOST_LAYERS = 12  # rows of a table of layers
MOST_GROUPS = 8  # rows of the table of groups before anything is unfolded

CONTENTS = {
    "verdict": "Verdict",
    "groups": "Who",
    "unanswered": "No answer",
    "gallery": "Examples",
    "slices": "Why",
    "reading": "Glossary",
    "gate": "Gate",
    "layers": "Which layer",
    "topline": "Accuracy and CIEs",
    "cies": "Distances",
    "labels": "Labels",
    "precision": "AP and AR",
    "classes": "Classes",
    "robustness": "Corrupted pictures",
    "clarify": "Clarify metrics",
    "variance": "Seeds",
    "study": "What people saw",
    "reviewed": "Corrected labels",
    "frontier": "Size and speed",
    "methods": "Methods",
}


@dataclass(frozen=True)
class ShownClass:
    """A row of the table of classes.

    Attributes:
        row: The class.
        lost: Recall that it loses, a fraction.
    """

    row: ClassRow
    lost: Ranged


@dataclass(frozen=True)
class ParityTable:
    """Labels that exported models change, as a table.

    Attributes:
        columns: The exported variants, each with the trained one behind it.
        rows: Groups, each with a cell for every column.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[GroupParity, ...]], ...]


@dataclass(frozen=True)
class MemberSpread:
    """Top-1 accuracy from member to member.

    Attributes:
        variant: The variant.
        members: How many.
        mean: Their mean.
        deviation: Their standard deviation; None of one member.
        lowest: The least accurate.
        highest: The most accurate.
    """

    variant: str
    members: int
    mean: float
    deviation: float | None
    lowest: float
    highest: float


@dataclass(frozen=True)
class Trap:
    """The one-model trap as a table: variants by numbers of models.

    Attributes:
        relative: Margin on the relative change, a fraction.
        absolute: Margin on the change, a fraction.
        sizes: Numbers of models a side.
        rows: Variant and its rows, None where too few members were there.
    """

    relative: float
    absolute: float
    sizes: tuple[int, ...]
    rows: tuple[tuple[str, tuple[FewModelsRow | None, ...]], ...]


def page_context(
    audit: Audit,
    images: Mapping[str, bytes],
    gate: GateResult | None = None,
    beside: Beside | None = None,
) -> dict[str, Any]:
    """Collect all that the templates read.

    Args:
        audit: The audit.
        images: Encoded images by example id.
        gate: The verdict; None where there is none.
        beside: Sizes, latencies and versions; None leaves their sections out.

    Returns:
        Names and values; nothing depends on the order of keys in `audit`.
    """
    keyed, audit = audit, with_group_names(audit)
    beside = beside or Beside()
    names = [variant.name for variant in audit.compressed]
    focus = answers.in_focus(audit, gate)
    subgroups = {name: _rates(audit, name) for name in names}
    classes = {name: _classes(audit, name) for name in names}
    questions = concerns(audit)
    frontier = in_names(keyed, beside.frontier)
    verdicts = {one.name: one.verdict for one in gate.variants} if gate else {}
    failed = [name for name in beside.layers if verdicts.get(name) == "FAIL"]
    shown = {
        "audit": audit,
        "dense": audit.dense,
        "compressed": audit.compressed,
        "slugs": {name: f"v{place}" for place, name in enumerate(names, 1)},
        "focus": focus,
        "opened": focus.name,
        "clustered": audit.examples.clusters != audit.examples.test,
        "unstable": audit.scope == "population"
        and min(v.members for v in audit.variants) < FEW_MEMBERS,
        "few_members": FEW_MEMBERS,
        "few_runs": _few_runs(audit),
        "metrics": METRICS,
        "class_names": audit.examples.classes[:MOST_CLASS_NAMES],
        "gaps": {
            name: {(gap.metric, gap.group_b): gap for gap in audit.gaps.get(name, ())}
            for name in names
        },
        **_groups_shown(audit, focus.name, subgroups),
        "rates_by_class": {name: _rates_by_class(audit, name, classes[name]) for name in names},
        "classes": {name: _cut(rows) for name, rows in classes.items()},
        "gallery": gallery.pairs(
            audit.gallery,
            names,
            Album(images),
            gallery.telling(keyed),
            texts=Texts(beside.texts),
        ),
        "FIRST": gallery.FIRST,
        "others": [one for one in audit.compressed if one is not focus],
        "pictured": bool(images),
        "filters": gallery.filters(audit.gallery),
        "FLIPS": gallery.FLIPS,
        "slices": audit.slices,
        "searches": _searches(audit),
        "sliced": [v for v in audit.compressed if v.name in audit.slices and _found(audit, v.name)],
        "robustness": corrupted(audit),
        "strip": Album({"strip": beside.strip or b""}).take("strip"),
        "clarify": {
            "questions": questions,
            "known_notes": KNOWN_NOTES,
            "selections": selections(audit),
        }
        if questions
        else None,
        "spread": [_spread(audit, v.name) for v in audit.variants if audit.labelled],
        "trap": _trap(audit, names),
        "known_of_runs": (THIS_TEST_SET, NO_POWER),  # above the tables, not in every cell
        "run_to_run": [
            (name, audit.run_to_run[name][:MOST_RUN_ROWS])
            for name in names
            if name in audit.run_to_run
        ],
        "parity": _parity(audit),
        "MOST_LAYERS": MOST_LAYERS,
        "FEW_RUNS": FEW_RUNS,
        "layers": [(v.name, beside.layers[v.name]) for v in audit.compressed if v.name in failed],
        "studies": shown_studies(beside.people),
        "people": beside.people,
        "reviews": shown_reviews(beside.people, keyed),
        "frontier": frontier,
        "newest": beside.newest,
        "versions": sorted(beside.versions.items()),
        "overview": variant_rows(audit, gate),
        "meaning": MEANING,
        "whom": answers.whom(audit, gate, focus.name),
        "beyond_noise": answers.beyond_noise(audit, gate, focus.name),
        "verdict_sentence": answers.verdict_sentence(gate) if gate else "",
        "next_steps": _next_steps(audit, gate) if gate else [],
        "open_tests": {v.name: open_tests(v) for v in gate.variants} if gate else {},
        "rule_words": rule_words,
        "certainty_words": certainty_words,
        "downloads": downloads(audit, gate),
        "model_card": model_card(audit, gate),
        "subset_name": _subset_name,
        "scales": _scales(audit, classes),
    }
    there = {
        "gate": gate,
        "slices": audit.slices,
        "layers": shown["layers"],
        "clarify": shown["clarify"],
        "labels": audit.labels,
        "precision": audit.precision,
        "robustness": shown["robustness"],
        "frontier": frontier,
        "groups": audit.labelled,
        "unanswered": audit.unanswered,
        "classes": audit.labelled,
        "variance": audit.labelled or shown["run_to_run"],
        "study": beside.people.studies,
        "reviewed": beside.people.reviewed,
    }
    titles = CONTENTS | ({} if audit.labelled else {"topline": "CIEs and floor"})
    if audit.robustness is not None and not audit.robustness.corruptions:
        titles |= {"robustness": "Other test sets"}
    shown["contents"] = [(key, name) for key, name in titles.items() if there.get(key, True)]
    return shown


def _groups_shown(
    audit: Audit, focus: str, subgroups: Mapping[str, Mapping[str, Sequence[RateChange]]]
) -> dict[str, Any]:
    """Share out the tables of groups: what stands on the page, and what is folded away."""
    errors = subgroups[focus].get("error", ()) if focus in subgroups else ()
    most = most_changed_groups(audit, [focus], MOST_GROUPS)
    shown = [row for row in errors if row.group in most]
    note = f" The {len(shown)} of {len(errors)} groups that change most." * (
        len(shown) < len(errors)
    )
    folded = {
        name: {
            metric: rows
            for metric, rows in by_metric.items()
            if (name, metric) != (focus, "error") or note
        }
        for name, by_metric in subgroups.items()
    }
    return {
        "shown_groups": {"error": shown} if shown else {},
        "shown_note": note,
        "folded_groups": folded,
    }


def _found(audit: Audit, variant: str) -> bool:
    return bool(audit.slices[variant].slices)


def _searches(audit: Audit) -> list[tuple[list[AuditedVariant], SliceSearch]]:
    """What each search found, those that say the same in one line."""
    by_words: dict[tuple[str, ...], list[AuditedVariant]] = {}
    for variant in audit.compressed:
        if variant.name in audit.slices:
            search = audit.slices[variant.name]
            by_words.setdefault((search.summary, *search.notes), []).append(variant)
    return [(variants, audit.slices[variants[0].name]) for variants in by_words.values()]


def _few_runs(audit: Audit) -> str:
    """Say that there are few training runs, as a sentence; nothing where there are enough."""
    words = few_runs(min(variant.members for variant in audit.variants))
    return f"{words.capitalize()}." if words else ""


def _next_steps(audit: Audit, gate: GateResult) -> list[str]:
    failed = [variant.name for variant in gate.variants if variant.verdict == "FAIL"]
    mitigated = mitigations(audit, failed)
    return answers.next_steps(gate, labelled=audit.labelled, mitigated=mitigated)


def _spread(audit: Audit, variant: str) -> MemberSpread:
    """Top-1 from member to member; one member has no spread."""
    tops = audit.accuracy[variant].members
    mean = sum(tops) / len(tops)
    squares = sum((top - mean) ** 2 for top in tops)
    return MemberSpread(
        variant=variant,
        members=len(tops),
        mean=mean,
        deviation=math.sqrt(squares / (len(tops) - 1)) if len(tops) > 1 else None,
        lowest=min(tops),
        highest=max(tops),
    )


def _trap(audit: Audit, variants: Sequence[str]) -> Trap:
    trap = audit.one_model
    drawn = {name: {row.members: row for row in trap.variants.get(name, ())} for name in variants}
    sizes = tuple(sorted({few for rows in drawn.values() for few in rows}))
    rows = tuple((name, tuple(drawn[name].get(few) for few in sizes)) for name in variants if sizes)
    return Trap(trap.relative, trap.absolute, sizes, rows)


def _parity(audit: Audit) -> ParityTable:
    """Labels that exported models change; groups and variants stand in the order of the audit."""
    compared = [
        (variant.name, audit.parity[variant.name])
        for variant in audit.variants
        if variant.name in audit.parity
    ]
    columns = [exported.groups for _, exported in compared]
    return ParityTable(
        columns=tuple((name, exported.network) for name, exported in compared),
        rows=tuple((cells[0].group, cells) for cells in zip(*columns, strict=True)),
    )


def _rates(audit: Audit, variant: str) -> dict[str, list[RateChange]]:
    """Rows by metric, those of every class against the rest apart, groups in the audit's order."""
    rows = [row for row in audit.subgroups.get(variant, ()) if row.class_name is None]
    by_metric = {metric: [row for row in rows if row.metric == metric] for metric in METRICS}
    return {metric: kept for metric, kept in by_metric.items() if kept}


def classes_shown(audit: Audit, variant: str) -> tuple[list[str], list[str]]:
    """Name the classes whose rates the page shows: of all examples, and of every group.

    Of many classes those that lose and gain most, and of these as many as make a short table.
    """
    classes = _classes(audit, variant)
    first, _, last = _cut(classes)
    return (
        [shown.row.class_name for shown in (*first, *last)],
        [shown.row.class_name for shown in classes[: _most(audit)]],
    )


def _most(audit: Audit) -> int:
    """Classes whose rates are shown for every group."""
    return max(1, MOST_RATES // len(audit.groups))


def _rates_by_class(
    audit: Audit, variant: str, classes: Sequence[ShownClass]
) -> dict[str, list[tuple[str, list[RateChange]]]]:
    """Rows by metric and class; of many classes those that lose most."""
    rows = [row for row in audit.subgroups.get(variant, ()) if row.class_name is not None]
    worst = {shown.row.class_name for shown in classes[: _most(audit)]}
    by_metric = {}
    for metric in METRICS:
        of_metric = [row for row in rows if row.metric == metric]
        if of_metric:
            by_metric[metric] = [
                (name, [row for row in of_metric if row.class_name == name])
                for name in audit.examples.classes
                if name in worst
            ]
    return by_metric


def _classes(audit: Audit, variant: str) -> list[ShownClass]:
    """Classes from the largest loss to the largest gain, those without a number last."""
    misses = _misses(audit, variant)
    rows = [
        ShownClass(row, misses.get(row.class_name) or _lost(row))
        for row in audit.classes.get(variant, ())
    ]
    return sorted(rows, key=lambda s: (s.row.loss.value is None, -(s.row.loss.value or 0.0)))


def _lost(row: ClassRow) -> Interval:
    """The recall that a class loses, of which its row has no interval."""
    before, after = row.dense_recall, row.compressed_recall
    value = None if before is None or after is None else before - after
    reason = row.loss.reason or "no interval was computed"
    return Interval(value, None, None, row.loss.n, reason, row.loss.note)


def _misses(audit: Audit, variant: str) -> dict[str, Ranged]:
    """The recall that each class loses: the rise of its misses.

    Recall is 1 - FNR, and of two classes the other one's is 1 - FPR of the positive one.
    """
    everyone = audit.groups[0].name
    changes = [row for row in audit.subgroups.get(variant, ()) if row.group == everyone]
    classes, positive = audit.examples.classes, audit.examples.positive
    other = [name for name in classes if name != positive]
    recalls: dict[str, Ranged] = {}
    for row in changes:
        name = row.class_name if positive is None else positive
        if row.metric == "fpr":
            if positive is None or len(other) > 1:
                continue
            name = other[0]
        elif row.metric != "fnr":
            continue
        if name is not None:
            recalls[name] = row.absolute
    return recalls


def _cut(rows: list[ShownClass]) -> tuple[list[ShownClass], int, list[ShownClass]]:
    """The first rows, how many are left out, and the last rows."""
    if len(rows) <= MOST_CLASSES:
        return rows, 0, []
    half = MOST_CLASSES // 2
    return rows[:half], len(rows) - 2 * half, rows[-half:]


def _scales(
    audit: Audit,
    classes: Mapping[str, Sequence[ShownClass]],
) -> dict[str, Scale | None]:
    """One axis for each column of drawings, over all variants."""
    return {
        "precision": scale_of(
            row.change for rows in (audit.precision or {}).values() for row in rows
        ),
        "excess": scale_of(d.cie.excess for d in audit.divergence.values()),
        "classes": scale_of(shown.row.loss for rows in classes.values() for shown in rows),
        "slices": scale_of(row.effect for s in audit.slices.values() for row in s.slices),
    }


def _subset_name(subset: str) -> str:
    """What a row of the accuracy table is called.

    >>> _subset_name("taxicab 90"), _subset_name("CIEs")
    ('taxicab percentile 90', 'CIEs')
    """
    if subset.startswith("taxicab "):
        return f"taxicab percentile {subset.removeprefix('taxicab ')}"
    return "all examples" if subset == "all" else subset
