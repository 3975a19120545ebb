"""What `scotoma compare --truth` shows: what is found, missed and raised in vain, and COCO's AP."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from scotoma.comparison.boxes import BoxComparison, PrecisionChange
from scotoma.comparison.section import (
    affected_sentence,
    effect_table,
    flip_sentence,
    from_to,
    slice_section,
)
from scotoma.document import Column, Facts, Section, Table

SHOWN_CLASSES = 10  # with the largest falls of AP; --json has all
FLIPS = {"right_to_wrong": "found to missed", "wrong_to_right": "missed to found"}


def box_sections(found: BoxComparison) -> Iterator[Section]:
    """Say what changed between two detectors."""
    before, after = found.models
    yield Section(
        "models",
        f"{before} to {after}: {found.boxes:,} boxes in {found.images:,} images, 95% intervals; "
        f"found: IoU {found.iou:g}, score {found.least_score:g} or more",
    )
    yield Section("score", "", parts=[Facts(list(_facts(found)))])
    yield Section("precision", "", parts=[_precision("COCO's", found.precision)])
    fell = [one for one in found.class_precision if one.change.high < 0]
    if fell:
        fell.sort(key=lambda one: one.change.high)
        table = _precision("AP of class", fell[:SHOWN_CLASSES])
        several = f"{len(fell)} of {len(found.class_precision)} classes, not adjusted for how many"
        yield Section("classes", "", parts=[table])
        yield Section("fallen", "", [f"{several} they are."])
    if found.groups:
        kind: dict[str, Any] = {"binary": True, "lower_is_better": False}
        table = effect_table("group", found.groups, counted="boxes", **kind)
        yield Section("groups", "", parts=[table])
        yield Section("affected", "", [affected_sentence(found.groups, found.alike, **kind)])
    yield from slice_section(found.search, binary=True)
    if found.notes:
        yield Section("notes", "", found.notes)


def _facts(found: BoxComparison) -> Iterator[tuple[str, str]]:
    share, ten, alarms = found.found, found.found_at_ten, found.false_alarms
    yield "found", from_to(share.before, share.after, share.change, "rate", "points")
    if found.flips:
        yield "boxes", flip_sentence(found.flips, FLIPS)
    yield "at 10 IoU", from_to(ten.before, ten.after, ten.change, "rate", "points")
    rate = from_to(alarms.before, alarms.after, alarms.change, "score", "score_change")
    yield "alarms", f"{rate} an image"


def _precision(title: str, rows: Sequence[PrecisionChange]) -> Table:
    columns = (
        Column("name", title),
        Column("before", "before", "number"),
        Column("after", "after", "number"),
        Column("change", "change", "change"),
    )
    shown = [vars(one) for one in rows if not math.isnan(one.before)]
    return Table(title, "", columns, shown, known=("",))
