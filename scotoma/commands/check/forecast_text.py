"""Write forecasts as `scotoma check` and `audit --dry-run` print them, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from scotoma.costs.estimate import WITHIN, StepCost
from scotoma.costs.measure import NetworkCost
from scotoma.costs.measuring import MeasuringCost
from scotoma.document import Cell, Column, Table, show
from scotoma.document.cells import duration
from scotoma.document.lines import WIDTH
from scotoma.document.text import text_table
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.commands.check.audit_forecast import AuditForecast

__all__ = ["forecast_text", "steps_text"]

FEW, NONE = "expect a warning", "expect no interval and no verdict"

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
    "scotoma show RUN examples --unlabelled then ranks what to label first."
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
        stored = _bytes(forecast.images.encoded_bytes)
        parts = [
            f"{_bytes(forecast.images.decoded_bytes(count))} {split}"
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
    columns = [
        Column("group", "group"), Column("test", "test", "count"),
        *([Column("clusters", "clusters", "count")] if shared else []),
        *([Column("positive", "positive", "count")]
          if forecast.groups[0].positives is not None else []),
        *([Column("training", "training", "count")] if forecast.has_training else []),
        *([Column("errors", "errors", "count")] if forecast.labelled else []),
        *([Column("detects", "detects", "percent")] if forecast.independent else []),
        *([Column("paired", "paired", "percent")] if forecast.derived else []),
        Column("mark", ""),
    ]  # fmt: skip
    if not forecast.labelled:
        columns = [one for one in columns if one.key not in ("detects", "paired")]
    rows: list[dict[str, Cell]] = [
        {
            "group": group.name, "test": group.n, "clusters": group.clusters,
            "positive": group.positives, "training": group.train,
            "errors": round(group.errors, 1) if forecast.labelled else None,
            "detects": _rise(group.independent), "paired": _rise(group.paired),
            "mark": "" if not (forecast.labelled and group.few) else FEW if group.estimable
            else NONE,
        }
        for group in forecast.groups
    ]  # fmt: skip
    lines = text_table(Table("groups", "", columns, rows))
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
    if any("none" in (row["detects"], row["paired"]) for row in rows):
        notes.append("None: no rise is found.")
    if forecast.derived:
        notes.append("Paired: the same for variants made of the dense members.")
    notes = [" ".join(notes)]
    if any(group.few and group.estimable for group in forecast.groups):
        notes.append(f"{FEW[0].upper()}{FEW[1:]}: fewer than 10 examples carry the error.")
    if any(not group.estimable for group in forecast.groups):
        notes.append(
            f"{NONE[0].upper()}{NONE[1:]}: fewer than 5 examples carry the error. Collect "
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


def _rise(value: float | None) -> Cell:
    return "none" if value is None else 100 * value


def _steps(forecast: AuditForecast, names: Iterable[str]) -> list[str]:
    """Write the costs of some steps, what the audit needs, and what the times rest on."""
    rows: list[dict[str, Cell]] = []
    for name in names:
        cost = forecast.steps.get(name, StepCost(None, None))
        skipped = name in forecast.skipped
        rows.append(
            {
                "step": name, "time": None if skipped else cost.seconds,
                "disk": cost.disk_bytes or None,
                "does": "nothing to do" if skipped else DOES[name],
            }
        )  # fmt: skip
    columns = [
        Column("step", "step"), Column("time", "time", "duration"),
        Column("disk", "disk", "bytes"), Column("does", ""),
    ]  # fmt: skip
    table = Table("steps", "", columns, rows)
    return [*text_table(table), "", *_whole(forecast), *_trial(forecast.network)]


def _whole(forecast: AuditForecast) -> list[str]:
    """Write what the audit as a whole needs."""
    parts = []
    if forecast.seconds is not None:
        time = duration(forecast.seconds)
        parts.append(
            f"about {time} to train and predict, which may be wrong by a factor of {WITHIN:g}"
        )
    if forecast.disk_bytes is not None:
        parts.append(f"{_bytes(forecast.disk_bytes)} of images, models and predictions on disk")
    if forecast.memory_bytes is not None:
        free = f" ({_bytes(forecast.free_memory)} are free)" if forecast.free_memory else ""
        parts.append(f"{_bytes(forecast.memory_bytes)} of memory{free}")
    if forecast.temporary_bytes:
        decoded = _bytes(forecast.temporary_bytes)
        parts.append(f"{decoded} of decoded images in the temporary folder")
    return _item("audit", "; ".join(parts)) if parts else []


def _measuring(cost: MeasuringCost) -> list[str]:
    """Write what the steps after the predictions need."""
    return _item(
        "measure",
        f"about {duration(cost.seconds)} of one core to measure, judge and report, "
        f"{_bytes(cost.memory_bytes)} of memory, {_bytes(cost.audit_json_bytes)} of "
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
    if seconds >= 1:
        return duration(seconds)
    return f"{1000 * seconds:.{0 if seconds >= 0.00995 else 1}f} ms"


def _item(name: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{name:<8}", subsequent_indent=" " * 8) or [
        name
    ]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _bytes(count: int | None) -> str:
    return show(count, "bytes").value
