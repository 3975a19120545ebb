"""What `scotoma compare --truth` prints: sentences and tables of 80 columns."""

from __future__ import annotations

import math

from scotoma.commands.compare.text import (
    affected_lines,
    decimal,
    effect_lines,
    flip_lines,
    shown_estimate,
    slice_lines,
)  # fmt: skip
from scotoma.comparison.boxes import BoxComparison, PrecisionChange
from scotoma.document.lines import table_lines, wrapped
from scotoma.printable import printable

__all__ = ["box_lines"]

SHOWN_CLASSES = 10  # with the largest falls of AP; --json has all


def box_lines(found: BoxComparison) -> list[str]:
    """Say what changed between two detectors."""
    before, after = map(printable, found.models)
    share, ten, alarms = found.found, found.found_at_ten, found.false_alarms
    lines = wrapped(
        f"{before} to {after}: {found.boxes:,} boxes in {found.images:,} images, 95% intervals; "
        f"found: IoU {found.iou:g}, score {found.least_score:g} or more",
        later="  ",
    )
    lines += ["", f"found     {_change(share, 100, 1, '%', ' points')}"]
    lines += flip_lines(found.flips, "boxes", FLIPS)
    lines += [f"at 10 IoU {_change(ten, 100, 1, '%', ' points')}"]
    lines += [f"alarms    {_change(alarms, 1, 2, '', ' an image')}"]
    lines += ["", *_precision_lines("COCO's", found.precision)]
    fell = [one for one in found.class_precision if one.change.high < 0]
    if fell:
        fell.sort(key=lambda one: one.change.high)
        lines += ["", *_precision_lines("AP of class", fell[:SHOWN_CLASSES])]
        several = len(found.class_precision)
        lines += wrapped(
            f"{len(fell)} of {several} classes, not adjusted for how many they are.", later="  "
        )
    if found.groups:
        named = effect_lines(
            "group", found.groups, counted="boxes", binary=True, lower_is_better=False
        )
        lines += ["", *named]
        lines += [
            "",
            *affected_lines(found.groups, found.alike, binary=True, lower_is_better=False),
        ]
    lines += slice_lines(found.search, binary=True)
    return lines + [line for note in found.notes for line in wrapped(note, later="  ")]


FLIPS = {"right_to_wrong": "found to missed", "wrong_to_right": "missed to found"}


def _change(score: object, scale: float, digits: int, sign: str, unit: str) -> str:
    before, after, change = (getattr(score, name) for name in ("before", "after", "change"))
    return (
        f"{decimal(scale * before.value, digits)} to "
        f"{decimal(scale * after.value, digits)}{sign}: "
        f"{shown_estimate(change, factor=scale, digits=digits, sign='+')}{unit}"
    )


def _precision_lines(title: str, rows: tuple[PrecisionChange, ...] | list[PrecisionChange]
                     ) -> list[str]:  # fmt: skip
    cells = [
        [
            printable(one.name),
            decimal(one.before, 3),
            decimal(one.after, 3),
            shown_estimate(one.change, digits=3, sign="+"),
            "",
        ]
        for one in rows
        if not math.isnan(one.before)
    ]
    return table_lines([title, "before", "after", "change"], cells, right=1)
