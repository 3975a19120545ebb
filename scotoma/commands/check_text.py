"""What `scotoma check` and `audit --dry-run` print, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scotoma.costs.trial import Span, Trial
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.commands.check import Checked

__all__ = ["about", "bytes_text", "check_text", "steps_text"]

WIDTH = 80
UNITS = ((31557600.0, "years"), (86400.0, "days"), (3600.0, "h"), (60.0, "min"), (0.0, "s"))


def about(span: Span | None) -> str:
    """A duration with its spread, in one unit.

    >>> about(Span(95.0, 80.0, 130.0, 20))
    '1.6 min (1.3 to 2.2)'
    >>> about(Span(4.2, 4.2, 4.2, 0)), about(None)
    ('4.2 s', '')
    >>> about(Span(0.02, 0.01, 0.03, 9))
    '< 1 s'
    """
    if span is None:
        return ""
    if span.high < 0.95:
        return "< 1 s"
    least, unit = next(entry for entry in UNITS if span.middle >= 1.5 * entry[0])
    middle, low, high = (_short(v / (least or 1.0)) for v in (span.middle, span.low, span.high))
    spread = "" if low == high else f" ({low} to {high})"
    return f"{middle} {unit}{spread}"


def bytes_text(count: int | None) -> str:
    """A size in decimal units; empty where it is not known.

    >>> [bytes_text(size) for size in (812, 199_040, 68_685_376, 2_060_561_280)]
    ['812 B', '199 KB', '69 MB', '2.1 GB']
    """
    if count is None:
        return ""
    value, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{_short(value)} {unit}"


def _short(value: float) -> str:
    return (
        f"{value:,.0f}"
        if value >= 9.95 or value == 0 or value == round(value)
        else (f"{value:.1f}" if value >= 0.05 else f"{value:.2g}")
    )


def check_text(found: Checked) -> str:
    """The whole of `scotoma check`."""
    lines = [*_head(found), "", *_joins(found), "", *_groups(found)]
    if found.variants:
        lines += ["", *_variants(found)]
    return "\n".join(lines) + "\n"


def steps_text(found: Checked) -> str:
    """What `scotoma audit --dry-run` prints: the steps in order, nothing done."""
    rows: list[tuple[str, ...]] = [("step", "about", "disk", "memory", "what it does")]
    for step in found.steps:
        time, disk = about(step.time), bytes_text(step.disk_bytes)
        rows.append((step.step, time, disk, bytes_text(step.memory_bytes), step.does))
    lines = [*_head(found), "", *_table(rows), "", *_whole(found), *_trial(found.trial)]
    return "\n".join(lines) + "\n"


def _head(found: Checked) -> list[str]:
    sources = f" ({found.units:,} sources)" if found.units < found.size.test else ""
    training = f"{found.size.train:,} training and " if found.trained else ""
    head = _wrapped(
        f"{printable(found.project)}: {training}{found.size.test:,} test examples{sources}, "
        f"{found.size.classes:,} classes, {_members(found)}"
    )
    return head if found.newest is None else [*head, *_item("newest", printable(found.newest))]


def _members(found: Checked) -> str:
    return f"{found.members} member{'' if found.members == 1 else 's'} a variant"


def _joins(found: Checked) -> list[str]:
    join, lines = found.join, []
    if not found.trained:
        lines += _item("trial", found.trial.reason)
    elif join is None:
        lines += _item("join", "every row holds its image")
    else:
        without = _named(join.rows_without_image, "row", "without image", join.first_rows)
        lone = _named(join.images_without_row, "image", "without row", join.first_images)
        lines += _item("join", f"{join.rows:,} rows, {join.images:,} images; {without}; {lone}")
    for note in found.notes:
        if join is not None and note == join.note():
            continue  # said above, with more names
        lines += _item("note", printable(note))
    if found.images.shape is not None:
        height, width = found.images.shape
        stored = bytes_text(found.images.encoded_bytes)
        parts = [
            f"{bytes_text(found.images.decoded_bytes(count))} {split}"
            for count, split in ((found.size.train, "training"), (found.size.test, "test"))
        ]
        lines += _item(
            "images", f"{width}x{height} pixels, {stored} stored; decoded {' and '.join(parts)}"
        )
    elif found.trained:
        lines += _item("images", found.images.reason)
    return lines


def _named(count: int, one: str, lacking: str, first: Sequence[str]) -> str:
    if not count:
        return f"no {one} {lacking}"
    names = ", ".join(printable(name) for name in first)
    return f"{count:,} {one}{'' if count == 1 else 's'} {lacking} ({names}{_more(count, first)})"


def _more(count: int, first: Sequence[str]) -> str:
    return ", ..." if count > len(first) else ""


def _groups(found: Checked) -> list[str]:
    shared = found.units < found.size.test
    positive = found.groups[0].positives is not None
    head = ["group", "test"]
    head += ["sources"] if shared else []
    head += ["positive"] if positive else []
    head += ["training", "errors"] if found.trained else ["errors"]
    head += ["detects"] if found.independent else []
    head += ["paired"] if found.derived else []
    rows = [tuple(head)]
    for group in found.groups:
        cells = [printable(group.name), f"{group.n:,}"]
        cells += [f"{group.units:,}"] if shared else []
        cells += [f"{group.positives:,}"] if positive else []
        cells += [f"{group.train:,}"] if found.trained else []
        cells.append(_short(round(group.errors, 1)))
        mark = "" if not group.few else "*" if group.estimable else "**"
        answers = [group.independent] if found.independent else []
        answers += [group.paired] if found.derived else []
        rows.append((*cells, *(_rise(answer) + mark for answer in answers)))
    lines = _table(rows, last_is_number=True)
    told = [
        f"Errors: what one member is expected to make if it errs on {100 * found.error:g}% "
        f"(--error), an assumption: {_unseen(found)}. Detects: the smallest relative "
        f"rise of the error that is found in 80% of audits with {_members(found)}"
    ]
    if "none" in {cell.rstrip("*") for row in rows for cell in row}:
        told[0] += " (none: no rise is)"
    told[0] += "; paired: of variants made of the dense members." if found.derived else "."
    if any(group.few and group.estimable for group in found.groups):
        told.append("* expected to rest on fewer than 10 examples: shown with a warning.")
    if any(not group.estimable for group in found.groups):
        told.append(
            "** expected to rest on fewer than 5 examples: no interval and no verdict; collect "
            "more of the group, or leave it out."
        )
    lines.append("")
    for sentence in told:
        lines += textwrap.wrap(sentence, WIDTH)
    return lines


def _unseen(found: Checked) -> str:
    return "there are no predictions yet" if found.trained else "the predictions are not read"


def _rise(value: float | None) -> str:
    return "none" if value is None else f"+{100 * value:.0f}%"


def _variants(found: Checked) -> list[str]:
    rows: list[tuple[str, ...]] = [("variant", "weights", "predictions", "about")]
    for variant in found.variants:
        size = bytes_text(variant.weights_bytes)
        size = f"≈ {size}" if size and not variant.exact else size
        predictions = f"≤ {bytes_text(variant.predictions_bytes)}"
        rows.append((printable(variant.name), size, predictions, about(variant.time)))
    return [*_table(rows), "", *_whole(found), *_trial(found.trial)]


def _whole(found: Checked) -> list[str]:
    """What the audit as a whole needs."""
    parts = [f"about {about(found.total)}"] if found.total else []
    parts += [f"{bytes_text(found.disk_bytes)} of disk"] if found.disk_bytes is not None else []
    if found.memory_bytes is not None:
        free = f" ({bytes_text(found.free_memory)} are free)" if found.free_memory else ""
        parts.append(f"{bytes_text(found.memory_bytes)} of memory at its peak{free}")
    if found.temporary_bytes:
        parts.append(
            f"{bytes_text(found.temporary_bytes)} of decoded images in the temporary folder"
        )
    return _item("audit", ", ".join(parts)) if parts else []


def _trial(trial: Trial) -> list[str]:
    """What the times rest on."""
    if trial.images:
        n = min(span.n for span in trial.images.values())
        return _item(
            "trial",
            f"{n} batches of noise by the first model of each variant, on one core of this "
            "machine; times are about that, and others may use the machine",
        )
    if trial.step is None:
        return _item("trial", trial.reason)
    plural = "" if trial.step.n == 1 else "s"
    line = (
        f"{trial.step.n} step{plural} of noise on one core of this machine: "
        f"{_milliseconds(trial.step)} a step of {trial.batch} images"
    )
    line += f", {trial.together} members as one" if trial.together > 1 else ""
    if trial.tried < trial.batch:
        line += f", carried on from steps of {trial.tried}: it may be half or twice that"
    else:
        line += "; times are about that, with the quartiles of the trial"
    return _item("trial", f"{line}; others may use the machine")


def _milliseconds(span: Span) -> str:
    if span.middle >= 1:
        return f"{_short(span.middle)} s"
    return f"{_short(1000 * span.middle)} ms"


def _item(name: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{name:<8}", subsequent_indent=" " * 8) or [
        name
    ]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _table(rows: list[tuple[str, ...]], *, last_is_number: bool = False) -> list[str]:
    """Columns as wide as their cells; a name that is too long has a line of its own."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numbers = widths[1:] if last_is_number else widths[1:-1]
    room = WIDTH - sum(width + 2 for width in numbers) - (0 if last_is_number else widths[-1] + 2)
    first = min(widths[0], max(8, room))
    lines = []
    for name, *cells in rows:
        numbered = "".join(
            f"  {cell:>{width}}" for cell, width in zip(cells, numbers, strict=False)
        )
        last = "" if last_is_number else f"  {cells[-1]}"
        if len(name) > first:
            lines += [*textwrap.wrap(name, WIDTH), f"{'':<{first}}{numbered}{last}".rstrip()]
        else:
            lines.append(f"{name:<{first}}{numbered}{last}".rstrip())
    return lines
