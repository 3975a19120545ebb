"""What does the terminal print at the end of an audit? A table and sentences of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from scotoma.audit import Audit, GateResult, Quantity
from scotoma.audit.divergence import Divergence
from scotoma.audit.gate import JudgedVariant
from scotoma.audit.groups import RateChange
from scotoma.audit.robustness import RobustnessReport
from scotoma.audit.worst_change import (
    MEANING,
    gap_words,
    most_changed,
    shown_gaps,
    worst_change,
    worst_mean,
)
from scotoma.printable import printable
from scotoma.verdict.frontier import frontier_sentence
from scotoma.verdict.words import admission_lines, too_small

WIDTH = 80
TOP1, DIFFER, EXCESS = 1, 3, 4  # the last two take turns, for want of room
WORST = "most affected"
NAMED = 3  # failing tests that a waiver covers
HEAD = ("variant", "top-1 %", "CIE", "differ/floor", "excess, points", WORST, "where")


def summary(audit: Audit, gate: GateResult | None = None) -> str:
    """Summarize an audit: one line a variant, n above, what the numbers mean below.

    Args:
        audit: The audit.
        gate: The verdict on it, which then leads each line, and floors stand in place of excesses;
            below the table stands what it rests on.

    Returns:
        Lines of text, each ended.
    """
    if audit.scores is not None:
        return _of_scores(audit, gate)
    examples, members = audit.examples, min(variant.members for variant in audit.variants)
    level = f"{100 * audit.level:.0f}%"
    clusters = f" ({examples.clusters:,} clusters)" if examples.clusters < examples.test else ""
    lines = [
        *_wrapped(
            f"{printable(audit.project)}: {examples.test:,} test examples{clusters}, "
            f"{_members(audit)} a variant, {level} intervals"
        ),
        "",
    ]
    head = HEAD if audit.labelled else tuple("changed, %" if h == WORST else h for h in HEAD)
    rows: list[tuple[str, ...]] = [head]
    relatives: dict[int, Quantity] = {}
    for variant in audit.variants:
        name = variant.name
        cells = [printable(name), "", "", "", "", "", ""]
        if audit.labelled:
            cells[TOP1] = _plus_minus(audit.accuracy[name].top1)
        if name in audit.divergence:
            cie = audit.divergence[name].cie
            cells[2] = f"{cie.cie.count:,}"
            cells[DIFFER] = _differ_and_floor(audit.divergence[name])
            cells[EXCESS] = _interval(cie.excess, 100, 1)
            worst = worst_change(audit, name)
            if not audit.labelled:
                changed = most_changed(audit, name)
                cells[5] = _interval(changed.changed, 100, 1, sign="")
                cells[6] = printable(audit.group_names[changed.group])
            if worst is not None:
                cells[5] = _interval(worst.absolute, 100, 1)
                cells[6] = printable(_where(audit, worst))
                relatives[len(rows)] = worst.relative
        rows.append(tuple(cells))
    if not audit.labelled:
        rows = [(*row[:TOP1], *row[TOP1 + 1 :]) for row in rows]
    differ = DIFFER if audit.labelled else DIFFER - 1
    if gate is None:
        table, has_relatives = _with_relatives(
            [row[:differ] + row[differ + 1 :] for row in rows], relatives
        )
    else:
        marks = ["gate", *(_mark(gate, variant.name) for variant in audit.variants)]
        judged = [
            (mark, *row[: differ + 1], *row[differ + 2 :])
            for mark, row in zip(marks, rows, strict=True)
        ]
        table, has_relatives = _with_relatives(judged, relatives, words=2)
    legend = _legend(audit, judged=gate is not None, has_relatives=has_relatives)
    lines += [*table, "", *_wrapped(legend, indent=""), ""]
    if gate is not None:
        lines += _verdicts(audit, gate)
        if sentence := frontier_sentence(audit.variants, gate):
            lines += _wrapped(f"{sentence}.")
        lines.append("")
    lines += [
        line
        for variant in audit.compressed
        for gap in shown_gaps(audit, variant.name)
        for line in _wrapped(printable(f"{variant.name}: {gap_words(audit, gap)}"))
    ]
    if audit.robustness is not None:
        for variant in audit.compressed:
            lines += _corrupted(audit, audit.robustness, variant.name)
    if not audit.labelled:
        lines += _wrapped(audit.examples.unlabelled)
    if members == 1:
        lines += _wrapped(
            "One model a side: CIEs are the flips between these two models; another training run "
            "may differ."
        )
    elif members < 5:
        lines.append(f"With {members} members a variant, CIE counts are unstable: use 10 or more.")
    return "\n".join(lines).rstrip("\n") + "\n"


def _of_scores(audit: Audit, gate: GateResult | None) -> str:
    """Summarize an audit of scores: means, and the group that gets worse most."""
    scores, examples = audit.scores, audit.examples
    members = min(variant.members for variant in audit.variants)
    assert scores is not None
    clusters = f" ({examples.clusters:,} clusters)" if examples.clusters < examples.test else ""
    better = "lower" if scores.lower_is_better else "higher"
    lines = _wrapped(
        f"{printable(audit.project)}: {examples.test:,} test examples{clusters}, "
        f"{_members(audit)} a variant, {100 * audit.level:.0f}% intervals; "
        f"{printable(scores.name)}{printable(f' in {scores.unit}' if scores.unit else '')}, "
        f"{better} is better"
    )
    rows: list[tuple[str, ...]] = [("variant", "mean", "worse, %", "most affected, %", "where")]
    for variant in audit.variants:
        mean = _in_unit(scores.variants[variant.name].mean)
        cells = [printable(variant.name), mean, "", "", ""]
        if variant.name in scores.means:
            cells[2] = _interval(scores.means[variant.name][0].relative, 1, 1)
            if (worst := worst_mean(audit, variant.name)) is not None:
                cells[3] = _interval(worst.relative, 1, 1)
                cells[4] = printable(audit.group_names[worst.group])
        rows.append(tuple(cells))
    if gate is not None:
        marks = ["gate", *(_mark(gate, variant.name) for variant in audit.variants)]
        rows = [(mark, *row) for mark, row in zip(marks, rows, strict=True)]
    ratio = "compressed / dense" if scores.lower_is_better else "dense / compressed"
    legend = (
        f"Worse: {ratio} - 1 of the mean. Most affected: the group that surely gets worse most, of "
        "those that get worse than the rest; all where none does."
    )
    lines += ["", *_table(rows, 1 if gate is None else 2), "", *_wrapped(legend, indent=""), ""]
    lines += _verdicts(audit, gate) if gate is not None else []
    if members == 1:
        lines += _wrapped("One model a side: another training run may differ.")
    return "\n".join(lines).rstrip("\n") + "\n"


def _members(audit: Audit) -> str:
    """How many members variants have: `5 members`, or `14 to 16 members`."""
    fewest, *_, most = sorted([v.members for v in audit.variants] * 2)
    span = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{span} member{'' if most == 1 else 's'}"


def _in_unit(mean: Quantity) -> str:
    """A mean with half the width of its interval, in the unit of the score."""
    if mean.value is None:
        return "undefined"
    if mean.low is None or mean.high is None:
        return f"{mean.value:.4g}"
    return f"{mean.value:.4g} ±{max(mean.value - mean.low, mean.high - mean.value):.2g}"


def _mark(gate: GateResult, name: str) -> str:
    """Mark the line of a variant with its verdict; the dense one has none."""
    variant = gate.variant(name)
    return "·" if variant is None else variant.verdict


def _verdicts(audit: Audit, gate: GateResult) -> list[str]:
    """Say what each verdict rests on, a row a variant; those that rest on the same share one."""
    rows: dict[tuple[str, str], list[str]] = {}
    for variant in gate.variants:
        key = variant.verdict, "; ".join(variant.sentences)
        rows.setdefault(key, []).append(printable(variant.name))
    lines = []
    for (verdict, text), names in rows.items():
        lines += _wrapped(f"{verdict:<7} {', '.join(names)}: {text}.")
    for variant in gate.variants:
        if waived := _waived(variant):
            lines += _wrapped(f"waived  {printable(f'{variant.name}: ' + ', '.join(waived))}")
    if small := too_small(gate.variants):
        lines += _wrapped(small)
    above = {line for variant in gate.variants for line in variant.sentences}
    for line in admission_lines(audit.admission):
        lines += [] if line in above else _wrapped(f"note    {line}.")
    return lines


def _waived(variant: JudgedVariant) -> list[str]:
    """Name each waived rule, with what it breaks: without that a PASS would mislead."""
    broken: dict[str, list[str]] = {}
    for test in variant.tests:
        if test.waived is not None:
            wheres = broken.setdefault(test.rule, [])
            wheres += [test.where] if test.verdict == "FAIL" else []
    return [f"{rule}{_failing(own)}" for rule, own in broken.items()]


def _failing(tests: Sequence[str]) -> str:
    if not tests:
        return ""
    more = f" and {len(tests) - NAMED:,} more" if len(tests) > NAMED else ""
    return f" (fails: {', '.join(tests[:NAMED])}{more})"


def _with_relatives(
    rows: Sequence[tuple[str, ...]], relatives: Mapping[int, Quantity], words: int = 1
) -> tuple[list[str], bool]:
    """Put relative changes behind the groups, unless that breaks more lines of the table.

    Args:
        rows: Of a table; the last cells name groups.
        relatives: Relative changes, per cent, by number of row.
        words: As for `_table`.

    Returns:
        Lines of the table, and whether they hold relative changes.
    """
    both = [
        (*cells, f"{where} ({relatives[number].value:+.0f}%)")
        if number in relatives and relatives[number].value is not None
        else (*cells, where)
        for number, (*cells, where) in enumerate(rows)
    ]
    shorter, longer = _table(rows, words), _table(both, words)
    return (longer, True) if len(longer) == len(shorter) else (shorter, False)


def _table(rows: Sequence[tuple[str, ...]], words: int = 1) -> list[str]:
    """Rows in columns as wide as their longest cell; a last cell that is too long goes below.

    The first columns hold words, those between them and the last numbers.
    """
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    lines = []
    for *cells, last in rows:
        aligned = [
            cell.ljust(width) if place < words else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        line = "  ".join(aligned)
        if len(line) + 2 + len(last) > WIDTH:
            lines += [line.rstrip(), f"{last:>{WIDTH}}"]
        else:
            lines.append(f"{line}  {last}".rstrip())
    return lines


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent)


def _plus_minus(rate: Quantity) -> str:
    if rate.value is None:
        return "undefined"
    value = 100 * rate.value
    if rate.low is None or rate.high is None:
        return f"{value:.1f}"
    half = max(value - 100 * rate.low, 100 * rate.high - value)
    return f"{value:.1f} ±{half:.1f}"


def _differ_and_floor(divergence: Divergence) -> str:
    """Show how much single models differ, beside two dense ones; of paired models their flips."""
    differ, floor = divergence.differing.value, divergence.cie.floor.value
    if differ is None:
        return ""
    if divergence.cie.paired or floor is None:
        return f"{100 * differ:.1f}%"
    return f"{100 * differ:.1f}/{100 * floor:.1f}%"


def _legend(audit: Audit, *, judged: bool, has_relatives: bool) -> str:
    cie = "CIE: examples whose most frequent label changes;"
    worst = MEANING + (" After the group: the relative change." if has_relatives else "")
    if not audit.labelled:
        worst = "Changed: predictions that change in the group that surely changes most."
    if not judged:
        return (
            f"{cie} excess: how much more often, in percentage points, a dense and a compressed "
            f"model disagree than two dense models do. {worst}"
        )
    derived = any(one.flips is not None for one in audit.divergence.values())
    alone = " Models made from a dense one, such as int8, have no floor." if derived else ""
    return (
        f"{cie} differ: how often a dense and a compressed model disagree; floor: how often two "
        f"dense models do.{alone} {worst}"
    )


def _interval(change: Quantity, factor: float, digits: int, unit: str = "", sign: str = "+") -> str:
    value, low, high = (
        None if number is None else factor * number
        for number in (change.value, change.low, change.high)
    )
    if value is None:
        return "undefined"
    shown = f"{value:{sign}.{digits}f}{unit}"
    if low is None or high is None:
        return shown
    return f"{shown} [{low:{sign}.{digits}f}, {high:{sign}.{digits}f}]"


def _where(audit: Audit, row: RateChange) -> str:
    metric = "" if row.metric == "error" else f"{row.metric.upper()} "
    return f"{metric}{audit.group_names[row.group]}"


def _corrupted(audit: Audit, report: RobustnessReport, variant: str) -> list[str]:
    """Say what corrupted pictures cost beyond dense, and which group is shown to lose most."""
    losses = [row for row in report.losses.get(variant, ()) if row.metric == "error"]
    if not losses:
        return []
    shown = [
        row
        for row in losses
        if row.contrast is not None
        and (row.contrast.low or 0.0) > 0
        and row.p_adjusted is not None
        and row.p_adjusted <= 1 - audit.level
    ]
    of_all = losses[0]  # of all examples, under all corruptions where these are standard ones
    scale = ", which depends on the scale" if of_all.depends_on_scale else ""
    sentence = (
        f"{variant}: corrupted pictures cost {_interval(of_all.absolute, 100, 1)} points of "
        f"accuracy more than dense loses{scale}"
    )
    if shown:
        most = max(shown, key=lambda row: (row.contrast and row.contrast.value) or 0.0)
        assert most.contrast is not None
        sentence += (
            f"; under {most.family}, {audit.group_names[most.group]} loses "
            f"{_interval(most.contrast, 100, 1)} points more than the other examples"
        )
    return _wrapped(printable(sentence))
