"""Write forecasts as `scotoma check` and `audit --dry-run` print them, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from scotoma.costs.estimate import WITHIN, StepCost
from scotoma.costs.measure import NetworkCost
from scotoma.costs.measuring import MeasuringCost
from scotoma.document.lines import WIDTH, table_lines
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.commands.check.audit_forecast import AuditForecast

__all__ = ["bytes_text", "duration_text", "forecast_text", "steps_text"]

DOES = {
    "prepare": "read and check every image",
    "import_models": "check and copy external models",
    "train": "train the dense members",
    "prune": "train the pruned members",
    "quantize": "compress trained members",
    "predict": "run members on test examples",
    "gather": "put predictions together",
    "robustness": "run members on corrupted pictures",
    "divergence": "score every example",
    "bias": "measure classes and groups",
    "slices": "search for slices nobody named",
    "verdict": "write audit.json, judge it",
    "report": "write the page",
    "log": "log to MLflow",
}
UNLABELLED = (
    "The examples have no labels: the audit says whose labels change, and not whose errors rise. "
    "scotoma examples RUN --unlabelled then ranks what to label first."
)
UNITS = ((31557600.0, "years"), (86400.0, "days"), (3600.0, "h"), (60.0, "min"), (0.0, "s"))


def duration_text(seconds: float | None) -> str:
    """Write a duration in the unit that people would use; empty where it is not known.

    >>> [duration_text(seconds) for seconds in (0.02, 4.2, 95.0, None)]
    ['< 1 s', '4.2 s', '1.6 min', '']
    """
    if seconds is None:
        return ""
    if seconds < 0.95:
        return "< 1 s"
    least, unit = next(entry for entry in UNITS if seconds >= 1.5 * entry[0])
    return f"{_short(seconds / (least or 1.0))} {unit}"


def bytes_text(count: int | None) -> str:
    """Write a size in decimal units; empty where it is not known.

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


def forecast_text(forecast: AuditForecast) -> str:
    """Write what `scotoma check` prints."""
    lines = [*_head(forecast), "", *_joins(forecast), "", *_groups(forecast), ""]
    if forecast.steps:
        idle = {"import_models"} & set(forecast.skipped)  # of one kind of source alone
        lines += _steps(forecast, [name for name in forecast.steps if name not in idle])
    lines += _measuring(forecast.measuring)
    lines += _robustness(forecast)
    return "\n".join(lines) + "\n"


def steps_text(forecast: AuditForecast) -> str:
    """Write what `scotoma audit --dry-run` prints: the steps in their order."""
    names = [name for name in DOES if name != "robustness" or forecast.robustness]
    lines = [*_head(forecast), "", *_steps(forecast, names), *_measuring(forecast.measuring)]
    return "\n".join(lines) + "\n"


def _head(forecast: AuditForecast) -> list[str]:
    size = forecast.size
    shared = forecast.clusters < size.test_images
    clusters = f" ({forecast.clusters:,} clusters)" if shared else ""
    training = f"{size.train_images:,} training and " if forecast.has_training else ""
    several = size.rows_an_image > 1
    kinds = f"{size.outputs:,} labels each" if several else f"{size.classes:,} classes"
    head = _wrapped(
        f"{printable(forecast.project)}: {training}{size.test_images:,} test examples{clusters}, "
        f"{kinds}, {_members(forecast)}{_error(forecast)}"
    )
    return (
        head if forecast.newest is None else [*head, *_item("newest", printable(forecast.newest))]
    )


def _error(forecast: AuditForecast) -> str:
    """Whose error the forecast rests on."""
    if not forecast.labelled or not forecast.groups:
        return ""
    if forecast.assumed_error is not None:
        return f"; assumes an error of {100 * forecast.assumed_error:g}%"
    return f"; {100 * forecast.error:.3g}% of the baseline's predictions are wrong"


def _members(forecast: AuditForecast) -> str:
    return f"{forecast.members} member{'' if forecast.members == 1 else 's'} a variant"


def _joins(forecast: AuditForecast) -> list[str]:
    join, lines = forecast.join, []
    if join is None and not forecast.has_training:
        lines += _item("trial", forecast.network.reason)
    elif join is None:
        lines += _item("join", "every row holds its image")
    else:
        without = _named(join.rows_without_image, "row", "without image", join.first_rows)
        lone = _named(join.images_without_row, "image", "without row", join.first_images)
        lines += _item("join", f"{join.rows:,} rows, {join.images:,} images; {without}; {lone}")
    for note in forecast.notes:
        if join is not None and note == join.note():
            continue  # printed above, with more names
        lines += _item("note", printable(note))
    if forecast.images.shape is not None:
        height, width = forecast.images.shape
        stored = bytes_text(forecast.images.encoded_bytes)
        parts = [
            f"{bytes_text(forecast.images.decoded_bytes(count))} {split}"
            for count, split in (
                (forecast.size.train_images, "training"),
                (forecast.size.test_images, "test"),
            )
        ]
        lines += _item(
            "images", f"{width}x{height} pixels, {stored} stored; decoded {' and '.join(parts)}"
        )
    elif join is not None or forecast.has_training:
        lines += _item("images", forecast.images.reason)
    return lines


def _named(count: int, one: str, lacking: str, first: Sequence[str]) -> str:
    if not count:
        return f"no {one} {lacking}"
    names = ", ".join(printable(name) for name in first)
    return f"{count:,} {one}{'' if count == 1 else 's'} {lacking} ({names}{_more(count, first)})"


def _more(count: int, first: Sequence[str]) -> str:
    return ", ..." if count > len(first) else ""


def _groups(forecast: AuditForecast) -> list[str]:
    shared = forecast.clusters < forecast.size.test
    positive = forecast.groups[0].positives is not None
    head = ["group", "test"]
    head += ["clusters"] if shared else []
    head += ["positive"] if positive else []
    head += ["training"] if forecast.has_training else []
    if forecast.labelled:
        head += ["errors"]
        head += ["detects"] if forecast.independent else []
        head += ["paired"] if forecast.derived else []
    rows = []
    for group in forecast.groups:
        cells = [group.name, f"{group.n:,}"]
        cells += [f"{group.clusters:,}"] if shared else []
        cells += [f"{group.positives:,}"] if positive else []
        cells += [f"{group.train:,}"] if forecast.has_training else []
        if not forecast.labelled:
            rows.append((*cells, ""))
            continue
        cells.append(_short(round(group.errors, 1)))
        mark = "" if not group.few else "*" if group.estimable else "**"
        answers = [group.independent] if forecast.independent else []
        answers += [group.paired] if forecast.derived else []
        rows.append((*cells, *(_rise(answer) + mark for answer in answers), ""))
    lines = table_lines(head, rows, right=1)
    if not forecast.labelled:
        return [*lines, "", *textwrap.wrap(UNLABELLED, WIDTH)]
    errors = (
        "Errors: of one model of the baseline on average, as its predictions have them."
        if forecast.assumed_error is None
        else f"Errors: expected of one member that errs on {100 * forecast.assumed_error:g}% of "
        f"the examples. That is an assumption (--assumed-error): {_unseen(forecast)}."
    )
    notes = [
        errors,
        "Detects: the smallest relative rise of the error that 80% of audits with "
        f"{_members(forecast)} find.",
    ]
    if "none" in {cell.rstrip("*") for row in rows for cell in row}:
        notes.append("None: no rise is found.")
    if forecast.derived:
        notes.append("Paired: the same for variants made of the dense members.")
    notes = [" ".join(notes)]
    if any(group.few and group.estimable for group in forecast.groups):
        notes.append("* Expect a warning: fewer than 10 examples carry the error.")
    if any(not group.estimable for group in forecast.groups):
        notes.append(
            "** Expect no interval and no verdict: fewer than 5 examples carry the error. Collect "
            "more of the group, or leave it out."
        )
    lines.append("")
    for note in notes:
        lines += textwrap.wrap(note, WIDTH)
    return lines


def _unseen(forecast: AuditForecast) -> str:
    return (
        "there are no predictions yet" if forecast.has_training else "the predictions are not read"
    )


def _rise(value: float | None) -> str:
    return "none" if value is None else f"+{100 * value:.0f}%"


def _steps(forecast: AuditForecast, names: Iterable[str]) -> list[str]:
    """Write the costs of some steps, what the audit needs, and what the times rest on."""
    rows = []
    for name in names:
        cost = forecast.steps.get(name, StepCost(None, None))
        skipped = name in forecast.skipped
        time = "" if skipped else duration_text(cost.seconds)
        does = "nothing to do" if skipped else DOES[name]
        rows.append((name, time, bytes_text(cost.disk_bytes or None), does))
    table = table_lines(("step", "time", "disk"), rows, right=1)
    return [*table, "", *_whole(forecast), *_trial(forecast.network)]


def _whole(forecast: AuditForecast) -> list[str]:
    """Write what the audit as a whole needs."""
    parts = []
    if forecast.seconds is not None:
        time = duration_text(forecast.seconds)
        parts.append(
            f"about {time} to train and predict, which may be wrong by a factor of {WITHIN:g}"
        )
    if forecast.disk_bytes is not None:
        parts.append(f"{bytes_text(forecast.disk_bytes)} of images, models and predictions on disk")
    if forecast.memory_bytes is not None:
        free = f" ({bytes_text(forecast.free_memory)} are free)" if forecast.free_memory else ""
        parts.append(f"{bytes_text(forecast.memory_bytes)} of memory{free}")
    if forecast.temporary_bytes:
        decoded = bytes_text(forecast.temporary_bytes)
        parts.append(f"{decoded} of decoded images in the temporary folder")
    return _item("audit", "; ".join(parts)) if parts else []


def _measuring(cost: MeasuringCost) -> list[str]:
    """Write what the steps after the predictions need."""
    return _item(
        "measure",
        f"about {duration_text(cost.seconds)} of one core to measure, judge and report, "
        f"{bytes_text(cost.memory_bytes)} of memory, {bytes_text(cost.audit_json_bytes)} of "
        f"audit.json; each may be wrong by a factor of {WITHIN:g}",
    )


def _robustness(forecast: AuditForecast) -> list[str]:
    """Write what corrupted pictures show, and what is run for it."""
    robust = forecast.robustness
    if robust is None:
        return []
    on_the_way = robust.on_the_way
    models = robust.models + on_the_way
    text = (
        f"{robust.examples:,} pictures under {robust.conditions:,} conditions, "
        f"{robust.models:,} models each"
        f"{f' and up to {on_the_way:,} dense ones on their way' if on_the_way else ''}: "
        f"{robust.examples * robust.conditions * models:,} predictions"
        + " that are read"
        * robust.external
    )
    sets = _item(
        "sets",
        ", ".join(f"{name}: {pictures:,} pictures" for name, pictures in robust.sets.items())
        + f"; {robust.models:,} models each",
    )
    if not robust.conditions:
        return sets
    known = {name: points for name, points in robust.smallest.items() if points is not None}
    if known:
        widest, finest = (choose(known, key=lambda name: known[name]) for choose in (max, min))
        text += (
            f"; the smallest loss beyond the other groups that 90% of audits show: "
            f"{100 * known[finest]:.1f} points for {printable(finest)}"
        )
        if known[widest] > known[finest]:
            text += f", {100 * known[widest]:.1f} for {printable(widest)}"
    if small := [name for name, points in robust.smallest.items() if points is None]:
        more = f" and {len(small) - 1:,} more" if len(small) > 1 else ""
        text += f"; too small to compare: {printable(small[0])}{more}"
    return _item("corrupt", text) + (sets if robust.sets else [])


def _trial(network: NetworkCost) -> list[str]:
    """Write what the times rest on."""
    if not network.image_s:
        return _item("trial", network.reason)
    if network.step_s is None:
        text = "one batch of noise through the first model of each variant"
    else:
        text = f"{_milliseconds(network.step_s)} a step of {network.batch} images on one core"
        text += f", {network.together} members as one" if network.together > 1 else ""
        if network.tried < network.batch:
            text += f"; scaled from a step of {network.tried} images"
    return _item("trial", f"{text}; other programs on this machine make it longer")


def _milliseconds(seconds: float) -> str:
    return f"{_short(seconds)} s" if seconds >= 1 else f"{_short(1000 * seconds)} ms"


def _item(name: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{name:<8}", subsequent_indent=" " * 8) or [
        name
    ]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")
