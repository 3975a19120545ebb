"""What a comparison shows: sentences, and tables of tasks, groups, slices and flips."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scotoma.comparison.behaviour import Behaviour
from scotoma.comparison.bias_scores import BiasScore
from scotoma.comparison.boxes import BoxComparison, PrecisionChange
from scotoma.comparison.flips import Flip
from scotoma.comparison.means import GroupScoreEffect, affected
from scotoma.comparison.measure import LogComparison, SearchedSlices, Wording
from scotoma.comparison.reruns import RerunFloor
from scotoma.document import Column, Document, Facts, Interval, Section, Table, Unit, show
from scotoma.numbers import Estimate
from scotoma.readers.record import AttributePath

LOG_LIKELIHOOD = "log_likelihood"  # begins the names of scores whose exponential is a perplexity
SHOWN = 20  # groups, tasks and categories in a table; --json has all
WORDS = {
    "right_to_wrong": "right to wrong",
    "wrong_to_right": "wrong to right",
    "wrong_to_other": "wrong to another wrong",
}
ENDS = {
    "cut_off": "cut off", "refused": "refused", "tool_call": "tool calls",
    "output_tokens": "tokens of output", "margin": "margin of log-likelihood",
}  # fmt: skip
ENDINGS = {  # shares that may be the score, and how answers pass from right to wrong there
    "not cut_off": (
        "newly cut off",
        "no longer cut off",
        "cut off both times, answer changed",
    ),
    "not refused": (
        "newly refused",
        "no longer refused",
        "refused both times, answer changed",
    ),
    "tool_call": ("no longer call a tool", "newly call one", "call none, and answer otherwise"),
}
N = Column("n", "n", "count")
NO_REMARKS = ("",)  # two models of one kind: what rests on few answers has a wide interval


def units(*, binary: bool) -> tuple[Unit, Unit]:
    """The unit of a score and that of its change."""
    return ("rate", "points") if binary else ("number", "change")


def comparison_sections(
    found: LogComparison, key: str, decisions: Table | None = None
) -> Iterator[Section]:
    """Say what changed between two models.

    Args:
        found: The numbers.
        key: By what examples were paired.
        decisions: What stands before all other numbers.
    """
    before, after = found.models
    paired = "content" if "content_hash" in key else "id"
    reruns = "" if found.reruns == (1, 1) else f", {found.reruns[0]} and {found.reruns[1]} reruns"
    yield Section(
        "models",
        f"{before} to {after}: {found.examples:,} examples paired by {paired}, score "
        f"{found.metric}{reruns}, 95% intervals",
    )
    if decisions is not None:
        yield Section("decisions", "", parts=[decisions])
    yield Section("score", "", parts=[Facts(list(_facts(found)))])
    binary, lower = found.binary, found.lower_is_better
    if found.tasks:
        table = effect_table("task", found.tasks, binary=binary, lower_is_better=lower)
        yield Section("tasks", "", parts=[table])
    yield from _whom(found, binary=binary, lower_is_better=lower)
    yield from behaviour_sections(found.behaviours, found.models)
    if found.bias:
        yield Section("bias", "", parts=[_bias_table(found.bias)])
    if found.notes:
        yield Section("notes", "", found.notes)


def _whom(
    found: LogComparison | BoxComparison, *, binary: bool, lower_is_better: bool, counted: str = "n"
) -> Iterator[Section]:
    """Whom it hits: groups that were named, and slices that nobody named."""
    kind: dict[str, Any] = {"binary": binary, "lower_is_better": lower_is_better}
    if found.groups:
        table = effect_table("group", found.groups, counted=counted, **kind)
        yield Section("groups", "", parts=[table])
        yield Section("affected", "", [affected_sentence(found.groups, found.alike, **kind)])
    yield from slice_section(found.search, binary=binary)


def _facts(found: LogComparison) -> Iterator[tuple[str, str]]:
    score, (before, after) = found.score, found.models
    ending = ENDINGS.get(found.metric)
    name = found.metric.replace("_", " ") if ending else "score"
    yield name, from_to(score.before, score.after, score.change, *units(binary=found.binary))
    if found.metric.startswith(LOG_LIKELIHOOD):
        yield "perplexity", f"times {show(_perplexity(score.change), 'number').number}"
    elif not ending:
        yield "recovery", show(score.recovery, "rate").number or "undefined"
    if found.flips:
        words = dict(zip(WORDS, ending, strict=True)) if ending else WORDS
        yield "answers", flip_sentence(found.flips, words)
    if found.floor is not None:
        yield "reruns", _floor(found.floor, before, after)
    if found.wording is not None:
        yield "wording", _wording(found.wording)


def from_to(
    before: Estimate, after: Estimate, change: Estimate, unit: Unit, change_unit: Unit
) -> str:
    """Two values, and the change with its interval."""
    shown, points = show(change, change_unit), " points" if change_unit == "points" else ""
    interval = f" [{shown.low}, {shown.high}]" if shown.low else ""
    return (
        f"{show(before, unit).value} to {show(after, unit).value}: "
        f"{shown.value or shown.aside}{points}{interval}"
    )


def compared_document(
    models: Sequence[tuple[str, str]],
    parts: Iterable[Iterable[Section]],
    verdict: Section | None = None,
) -> Document:
    """Lay out what changed from the original to each compressed model, and the verdict on all.

    Args:
        models: Names of the original and the compressed model.
        parts: Sections of each; the first has the title.
        verdict: What stands last; None where each has its own.
    """
    each, last = [list(part) for part in parts], [] if verdict is None else [verdict]
    if len(each) == 1:
        head, *sections = each[0]
        return Document(head.title, sections=[*sections, *last])
    names = [after for _, after in models]
    several = [_named(one, after) for part, after in zip(each, names, strict=True) for one in part]
    return Document(f"{models[0][0]} to {', '.join(names)}", sections=[*several, *last])


def _named(section: Section, model: str) -> Section:
    """A section of one of several models: ids are unique in a document."""
    parts = [
        replace(part, id=f"{model} {part.id}", caption=part.caption or f"{model}: {part.id}")
        if isinstance(part, Table)
        else part
        for part in section.parts
    ]
    return replace(section, id=f"{model} {section.id}", parts=parts)


def listing_document(tasks: Mapping[str, Sequence[AttributePath]]) -> Document:
    """List the attributes of each task."""
    columns = (
        Column("path", "attribute"),
        Column("kind", "kind"),
        Column("values", "values", "count"),
        Column("examples", "examples", "count"),
    )
    sections = [
        Section(
            task, f"task {task}", parts=[Table(task, "", columns, list(map(vars, paths)), stub=2)]
        )
        for task, paths in tasks.items()
    ]
    return Document("Attributes of the logs", sections=sections)


def flip_sentence(flips: Sequence[Flip], words: Mapping[str, str]) -> str:
    """Say how many change, and how.

    Args:
        flips: The sum first.
        words: The kinds that are named.
    """
    changed, *kinds = flips
    whole, *counts = _adding_up([one.count for one in flips])
    each = zip(counts, kinds, strict=True)
    named = ", ".join(f"{count} {words[one.kind]}" for count, one in each if one.kind in words)
    share = show(changed.share, "rate").number
    return f"{whole} change ({share})" + (f": {named}" if named else "")


def _adding_up(counts: Sequence[float]) -> list[str]:
    """Write a count and its parts: means over reruns in tenths that still add up.

    >>> _adding_up([15, 5, 10]), _adding_up([14.75, 5.25, 8.75, 0.75])
    (['15', '5', '10'], ['14.8', '5.3', '8.8', '0.7'])
    """
    if not any(abs(one - round(one)) > 1e-6 for one in counts):
        return [f"{one:,.0f}" for one in counts]
    whole, *parts = (
        math.floor(10 * one + 0.5 * (not place) + 1e-6) for place, one in enumerate(counts)
    )
    rests = [part - 10 * one for part, one in zip(parts, counts[1:], strict=True)]
    for place in sorted(range(len(parts)), key=rests.__getitem__)[: max(whole - sum(parts), 0)]:
        parts[place] += 1
    return [f"{one / 10:,.1f}" for one in (whole, *parts)]


def _perplexity(change: Estimate) -> Interval:
    """By what a change of log-likelihood multiplies the perplexity."""
    value, high, low = (math.exp(-one) for one in (change.value, change.low, change.high))
    return Interval(value, low, high, change.n)


def _floor(floor: RerunFloor, before: str, after: str) -> str:
    within = (floor.n * end for end in (floor.within.value, floor.within.low, floor.within.high))
    value, low, high = (f"{end:,.0f}" for end in within)
    return (
        f"{value} [{low}, {high}] examples flip between two runs of {before} itself; "
        f"{floor.n * floor.across.value:,.0f} flip to {after}; excess "
        f"{show(floor.excess, 'points').number} points"
    )


def _wording(found: Wording) -> str:
    refusals, length = found.refusals, found.length
    return (
        f"{found.reworded_count:,.0f} answers change their wording and not their score "
        f"({show(found.reworded, 'rate').number}); refusals "
        f"{from_to(refusals.before, refusals.after, refusals.change, 'rate', 'points')}; length "
        f"{from_to(length.before, length.after, length.change, 'score', 'score_change')} characters"
    )


def effect_table(
    title: str,
    effects: Sequence[GroupScoreEffect],
    *,
    binary: bool,
    lower_is_better: bool,
    counted: str = "n",
) -> Table:
    """Tabulate what happens to the score of each group, the largest certain loss first.

    Args:
        title: Of the first column.
        effects: The groups.
        binary: Scores are right or wrong, and shown in per cent.
        lower_is_better: Of the score.
        counted: Title of the second: `n`, examples or clusters; another counts rows.
    """
    sign = -1 if lower_is_better else 1

    def worst(effect: GroupScoreEffect) -> float:
        ends = effect.score.change.low, effect.score.change.high
        return min(sign * end for end in ends) if not any(map(math.isnan, ends)) else math.inf

    hit = {one.group for one in affected(effects, higher_is_better=not lower_is_better)}
    unit, change = units(binary=binary)
    columns = (
        Column("name", title),
        Column("n", counted, "count"),
        Column("before", "before", unit),
        Column("after", "after", unit),
        Column("change", "change, points" if binary else "change", change),
        Column("hit", ""),
    )
    rows: list[dict[str, Any]] = [
        {
            "name": one.group,
            "n": one.score.n if counted == "n" else one.rows,
            "before": one.score.before.value,
            "after": one.score.after.value,
            "change": one.score.change,
            "hit": "*" if one.group in hit else "",
        }
        for one in sorted(effects, key=worst)
    ]
    return Table(f"{title}s", "", columns, rows, most=SHOWN, known=NO_REMARKS)


def affected_sentence(
    groups: Sequence[GroupScoreEffect], alike: bool, *, binary: bool, lower_is_better: bool
) -> str:
    """Name the groups that surely lose, or say why none is named."""
    several = len(groups)
    if alike:
        return (
            f"No group is named: after Holm's correction over {several} groups, none is shown to "
            "lose more or less than the rest."
        )
    hit = affected(groups, higher_is_better=not lower_is_better)
    if not hit:
        return (
            f"No group surely loses more than the rest, after Holm's correction over {several} "
            "groups (*)."
        )
    change = units(binary=binary)[1]
    named = "; ".join(f"{one.group} {show(one.score.change, change).number}" for one in hit[:3])
    return (
        f"Most affected (*), more than the rest after Holm's correction over {several} groups: "
        f"{named}."
    )


def behaviour_sections(found: Sequence[Behaviour], models: Sequence[str]) -> Iterator[Section]:
    """Say how answers ended, and in which groups that surely changes for the worse."""
    lines = []
    for one in found:
        own = one.all
        text = from_to(own.before, own.after, own.change, *units(binary=one.binary))
        if one.name == "output_tokens":
            text += f", times {show(own.recovery, 'number').number}"
        sides = zip(one.lacking, models, strict=True)
        lacking = " and ".join(f"{count:,} of {model}" for count, model in sides if count)
        text += f", n {own.n:,}" + (f"; not known: {lacking}" if lacking else "")
        lines.append((ENDS[one.name], text))
    if lines:
        yield Section("behaviour", "", parts=[Facts(lines)])
    for one in found:
        if hit := affected(one.groups, higher_is_better=not one.rising_is_harm):
            table = effect_table(
                ENDS[one.name], hit, binary=one.binary, lower_is_better=one.rising_is_harm
            )
            yield Section(one.name, "", parts=[table])


def slice_section(search: SearchedSlices, *, binary: bool) -> Iterator[Section]:
    """Name the slices that a search found, and how many chance alone would give."""
    if math.isnan(search.expected):
        return
    if not search.slices:
        where = " further than elsewhere" if search.against_rest else ""
        text = f"Slices that nobody named: none where the score surely falls{where}."
        yield Section("slices", "", [text])
        return
    beyond = ", beyond the rest" if search.against_rest else ""
    head = f"Slices that nobody named{beyond} ({search.expected:.1f} expected by chance):"
    change = units(binary=binary)[1]
    yield Section("slices", head, [
        f"  {one.text}: {show(one.change, change).number}, {one.size:,} examples"
        for one in search.slices
    ])  # fmt: skip


def _bias_table(scores: Sequence[BiasScore]) -> Table:
    columns = (
        Column("category", "BBQ bias score"),
        Column("context", "context"),
        N,
        Column("before", "before", "number"),
        Column("after", "after", "number"),
        Column("change", "change", "change"),
    )
    rows: list[dict[str, Any]] = [
        vars(one) | {"before": one.before.value, "after": one.after.value} for one in scores
    ]
    return Table("bias", "", columns, rows, stub=2, most=2 * SHOWN, known=NO_REMARKS)


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
    yield Section("score", "", parts=[Facts(list(_box_facts(found)))])
    yield Section("precision", "", parts=[_precision("COCO's", found.precision)])
    fell = [one for one in found.class_precision if one.change.high < 0]
    if fell:
        fell.sort(key=lambda one: one.change.high)
        table = _precision("AP of class", fell[:SHOWN_CLASSES])
        several = f"{len(fell)} of {len(found.class_precision)} classes, not adjusted for how many"
        yield Section("classes", "", parts=[table])
        yield Section("fallen", "", [f"{several} they are."])
    yield from _whom(found, counted="boxes", binary=True, lower_is_better=False)
    if found.notes:
        yield Section("notes", "", found.notes)


def _box_facts(found: BoxComparison) -> Iterator[tuple[str, str]]:
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
