"""What `scotoma compare` prints: sentences and tables of 80 columns."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from scotoma.commands.compare.audit import ComparedVerdict
from scotoma.comparison.bias_scores import BiasScore
from scotoma.comparison.effects import GroupScoreEffect, affected
from scotoma.comparison.flips import Flip
from scotoma.comparison.measure import LogComparison, SearchedSlices
from scotoma.comparison.reruns import RerunFloor
from scotoma.comparison.wording import Wording
from scotoma.document.lines import table_lines, wrapped
from scotoma.numbers import Estimate
from scotoma.printable import printable
from scotoma.readers.record import AttributePath
from scotoma.verdict.words import admission_lines

__all__ = [
    "affected_lines",
    "comparison_lines",
    "decimal",
    "effect_lines",
    "flip_lines",
    "listing_lines",
    "shown_estimate",
    "slice_lines",
    "verdict_lines",
]

LOG_LIKELIHOOD = "log_likelihood"  # begins the names of scores whose exponential is a perplexity
SHOWN = 20  # groups, tasks and categories in a table; --json has all
WORDS = {
    "right_to_wrong": "right to wrong",
    "wrong_to_right": "wrong to right",
    "wrong_to_other": "wrong to another wrong",
}


def comparison_lines(found: LogComparison, key: str, leading: Sequence[str] = ()) -> list[str]:
    """Say what changed between two models.

    Args:
        found: The numbers.
        key: By what examples were paired.
        leading: Lines that stand before all other numbers.
    """
    before, after = map(printable, found.models)
    scale = 100.0 if found.binary else 1.0
    unit = " points" if found.binary else ""
    paired = "content" if "content_hash" in key else "id"
    lines = wrapped(
        f"{before} to {after}: {found.examples:,} examples paired by {paired}, score "
        f"{printable(found.metric)}{_reruns(found.reruns)}, 95% intervals",
        later="  ",
    )
    if leading:
        lines += ["", *leading]
    score = found.score
    digits = 1 if found.binary else 3
    lines += [
        "",
        f"{'score':<9}{decimal(scale * score.before.value, digits)} to "
        f"{decimal(scale * score.after.value, digits)}{'%' if found.binary else ''}: "
        f"{shown_estimate(score.change, factor=scale, digits=digits, sign='+')}{unit}",
        _perplexity(score.change)
        if found.metric.startswith(LOG_LIKELIHOOD)
        else f"{'recovery':<9}{_share(score.recovery)}",
    ]
    lines += flip_lines(found.flips, "answers", WORDS)
    if found.floor is not None:
        lines += _labelled("reruns", _floor(found.floor, before, after))
    if found.wording is not None:
        lines += _wording_lines(found.wording)
    binary, lower = found.binary, found.lower_is_better
    if found.tasks:
        lines += ["", *effect_lines("task", found.tasks, binary=binary, lower_is_better=lower)]
    if found.groups:
        lines += [
            "",
            *effect_lines("group", found.groups, binary=binary, lower_is_better=lower),
            "",
            *affected_lines(found.groups, found.alike, binary=binary, lower_is_better=lower),
        ]
    lines += slice_lines(found.search, binary=found.binary)
    if found.bias:
        lines += ["", *_bias_lines(found.bias)]
    return lines + [line for note in found.notes for line in wrapped(note, later="  ")]


def verdict_lines(verdict: ComparedVerdict | None, told: Collection[str] = ()) -> list[str]:
    """Say what the verdict rests on, as the gate file has it, and what is not `told` already."""
    if verdict is None:
        return ["Not judged: the score is a number; say from where on it is right, --right-from."]
    gate = json.loads(verdict.content)
    lines: list[str] = []
    above = {*told} | {
        sentence for variant in gate["variants"] for sentence in variant["sentences"]
    }
    for variant in gate["variants"]:
        text = "; ".join(variant["sentences"])
        lines += wrapped(f"{variant['verdict']:<7} {variant['name']}: {text}.", later="  ")
        if small := variant["too_small"]:
            more = f" and {len(small) - 3} more" if len(small) > 3 else ""
            lines += wrapped(f"Too small to judge: {', '.join(small[:3])}{more}.", later="  ")
    asked = [one for one in verdict.admission if one.blocks_pass or one.rule != "chance"]
    for line in admission_lines(asked):
        lines += [] if line in above else wrapped(f"note    {line}.", later="  ")
    if gate["scope"] == "shipped":
        lines += wrapped(
            "These numbers are about these two models; another training run may differ."
        )
    return lines


def listing_lines(tasks: Mapping[str, Sequence[AttributePath]]) -> list[str]:
    """List the attributes of each task."""
    lines = []
    for task, paths in tasks.items():
        rows = [
            [printable(one.path), one.kind, f"{one.values:,}", f"{one.examples:,}", ""]
            for one in paths
        ]
        lines += wrapped(f"task {printable(task)}", later="  ")
        lines += table_lines(["attribute", "kind", "values", "examples"], rows, right=2)
    return lines


def decimal(value: float, digits: int, sign: str = "") -> str:
    """A number with fixed decimals, so that columns align."""
    return "undefined" if math.isnan(value) else f"{value:{sign},.{digits}f}"


def shown_estimate(
    estimate: Estimate, *, factor: float = 1.0, digits: int = 1, sign: str = ""
) -> str:
    """An estimate and its interval."""
    ends = (estimate.value, estimate.low, estimate.high)
    value, low, high = (decimal(factor * end, digits, sign) for end in ends)
    return value if math.isnan(estimate.low) else f"{value} [{low}, {high}]"


def _reruns(reruns: tuple[int, int]) -> str:
    return "" if reruns == (1, 1) else f", {reruns[0]} and {reruns[1]} reruns"


def flip_lines(flips: Sequence[Flip], called: str, words: Mapping[str, str]) -> list[str]:
    """Say how many change, and how.

    Args:
        flips: The sum first.
        called: What changes.
        words: The kinds that are named.
    """
    if not flips:
        return []
    changed, *kinds = flips
    text = f"{changed.count:,.0f} change ({_share(changed.share)})"
    if kinds:
        text += ": " + ", ".join(
            f"{one.count:,.0f} {words[one.kind]}" for one in kinds if one.kind in words
        )
    return _labelled(called, text)


def _labelled(label: str, text: str) -> list[str]:
    return wrapped(text, first=f"{label:<9}", later=" " * 9)


def _perplexity(change: Estimate) -> str:
    """By what a change of log-likelihood multiplies the perplexity."""
    value, high, low = (
        decimal(math.exp(-one), 3) for one in (change.value, change.low, change.high)
    )
    interval = f" [{low}, {high}]" if not math.isnan(change.low) else ""
    return f"{'perplexity':<11}times {value}{interval}"


def _share(share: Estimate) -> str:
    """A share in per cent, the sign behind the number and before its interval."""
    text = shown_estimate(share, factor=100)
    value, space, rest = text.partition(" ")
    return f"{value}%{space}{rest}"


def _floor(floor: RerunFloor, before: str, after: str) -> str:
    within = shown_estimate(floor.within, factor=floor.n, digits=0)
    return (
        f"{within} examples flip between two runs of the same {before} model; "
        f"{floor.n * floor.across.value:,.0f} flip to {after}; excess "
        f"{shown_estimate(floor.excess, factor=100, digits=1)} points"
    )


def _wording_lines(found: Wording) -> list[str]:
    refusals, length = found.refusals, found.length
    text = (
        f"{found.reworded_count:,.0f} answers change their wording and not their score "
        f"({_share(found.reworded)}); refusals "
        f"{decimal(100 * refusals.before.value, 1)} to {decimal(100 * refusals.after.value, 1)}%: "
        f"{shown_estimate(refusals.change, factor=100, digits=1, sign='+')} points; length "
        f"{decimal(length.before.value, 0)} to {decimal(length.after.value, 0)} characters: "
        f"{shown_estimate(length.change, sign='+')}"
    )
    return _labelled("wording", text)


def effect_lines(
    title: str,
    effects: Sequence[GroupScoreEffect],
    *,
    binary: bool,
    lower_is_better: bool,
    counted: str = "n",
) -> list[str]:
    """Tabulate what happens to the score of each group, the largest certain loss first.

    Args:
        title: Of the first column.
        effects: The groups.
        binary: Scores are right or wrong, and shown in per cent.
        lower_is_better: Of the score.
        counted: Title of the second: `n`, examples or clusters; another counts rows.
    """
    scale, digits = (100.0, 1) if binary else (1.0, 3)
    sign = -1 if lower_is_better else 1

    def worst(effect: GroupScoreEffect) -> float:
        ends = effect.score.change.low, effect.score.change.high
        return min(sign * end for end in ends) if not any(map(math.isnan, ends)) else math.inf

    ordered = sorted(effects, key=worst)
    hit = {one.group for one in affected(effects, higher_is_better=not lower_is_better)}
    rows = [
        [
            one.group if title == "group" else printable(one.group),
            f"{one.score.n if counted == 'n' else one.rows:,}",
            decimal(scale * one.score.before.value, digits),
            decimal(scale * one.score.after.value, digits),
            shown_estimate(one.score.change, factor=scale, digits=digits, sign="+"),
            "*" if one.group in hit else "",
        ]
        for one in ordered[:SHOWN]
    ]
    head = [title, counted, "before", "after", "change, points" if binary else "change"]
    lines = table_lines(head, rows, right=1)
    if len(ordered) > SHOWN:
        lines.append(f"and {len(ordered) - SHOWN} more in --json")
    return lines


def affected_lines(
    groups: Sequence[GroupScoreEffect], alike: bool, *, binary: bool, lower_is_better: bool
) -> list[str]:
    """Name the groups that surely lose, or say why none is named."""
    several = len(groups)
    if alike:
        return wrapped(
            f"No group is named: after Holm's correction over {several} groups, none is shown to "
            "lose more or less than the rest."
        )
    hit = affected(groups, higher_is_better=not lower_is_better)
    if not hit:
        return wrapped(
            f"No group surely loses more than the rest, after Holm's correction over {several} "
            "groups (*)."
        )
    scale, digits = (100.0, 1) if binary else (1.0, 3)
    shown = partial(shown_estimate, factor=scale, digits=digits, sign="+")
    named = "; ".join(f"{printable(one.group)} {shown(one.score.change)}" for one in hit[:3])
    return wrapped(
        f"Most affected (*), more than the rest after Holm's correction over {several} groups: "
        f"{named}.",
        later="  ",
    )


def slice_lines(search: SearchedSlices, *, binary: bool) -> list[str]:
    """Name the slices that a search found, and how many chance alone would give."""
    if math.isnan(search.expected):
        return []
    scale, digits = (100.0, 1) if binary else (1.0, 3)

    def effect(change: Mapping[str, float | None]) -> str:
        ends = [change[part] for part in ("value", "low", "high")]
        value, low, high = (
            decimal(math.nan if end is None else scale * end, digits, "+") for end in ends
        )
        return f"{value} [{low}, {high}]"

    if not search.slices:
        where = " further than elsewhere" if search.against_rest else ""
        text = f"Slices that nobody named: none where the score surely falls{where}."
        return wrapped(text, later="  ")
    beyond = ", beyond the rest" if search.against_rest else ""
    lines = wrapped(
        f"Slices that nobody named{beyond} ({search.expected:.1f} expected by chance):", later="  "
    )
    for one in search.slices:
        lines += wrapped(
            f"  {printable(one.text)}: {effect(one.change)}, {one.size:,} rows", later="    "
        )
    return lines


def _bias_lines(scores: Sequence[BiasScore]) -> list[str]:
    rows = [
        [
            printable(one.category),
            one.context,
            f"{one.n:,}",
            decimal(one.before.value, 3),
            decimal(one.after.value, 3),
            shown_estimate(one.change, digits=3, sign="+"),
            "",
        ]
        for one in scores[: 2 * SHOWN]
    ]
    head = ["BBQ bias score", "context", "n", "before", "after", "change"]
    return table_lines(head, rows, right=2)
