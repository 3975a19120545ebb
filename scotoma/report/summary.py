"""What does the terminal print at the end of an audit? A table and sentences of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from scotoma.audit import Audit, GateResult, Quantity
from scotoma.audit.base import Row
from scotoma.audit.divergence import Divergence
from scotoma.audit.gate import JudgedVariant
from scotoma.audit.robustness import depends_on_scale
from scotoma.audit.worst_change import (
    MEANING,
    gap_words,
    mean_score,
    most_changed,
    shown_gaps,
    worst_change,
    worst_mean,
)
from scotoma.printable import printable
from scotoma.verdict.frontier import frontier_sentence
from scotoma.verdict.words import admission_lines, too_small

WIDTH = 80
NAMED = 3  # failing tests that a waiver covers
FEW_MEMBERS = 5  # below it CIE counts are unstable


def summary(audit: Audit, gate: GateResult | None = None) -> str:
    """Summarize an audit: one line a variant, n above, what the numbers mean below.

    Args:
        audit: The audit.
        gate: The verdict on it, which then leads each line, and floors stand in place of excesses;
            below the table stands what it rests on.

    Returns:
        Lines of text, each ended.
    """
    of_scores, members = audit.scores is not None, min(one.members for one in audit.variants)
    lines = [*_wrapped(_subject(audit)), ""]
    lines += (_score_lines if of_scores else _label_lines)(audit, gate)
    if gate is not None:
        lines += _verdicts(audit, gate)
        sentence = "" if of_scores else frontier_sentence(audit.variants, gate)
        lines += _wrapped(f"{sentence}.") if sentence else []
        lines += [] if of_scores else [""]
    if not of_scores:
        lines += _gap_lines(audit)
    if not audit.labelled and not of_scores:
        lines += _wrapped(audit.examples.unlabelled)
    if members == 1:
        flips = "" if of_scores else "CIEs are the flips between these two models; "
        lines += _wrapped(f"One model a side: {flips}another training run may differ.")
    elif members < FEW_MEMBERS and not of_scores:
        lines.append(f"With {members} members a variant, CIE counts are unstable: use 10 or more.")
    return "\n".join(lines).rstrip("\n") + "\n"


def _subject(audit: Audit) -> str:
    """What was audited, in a line."""
    examples, scores = audit.examples, audit.scores
    clusters = f" ({examples.clusters:,} clusters)" if examples.clusters < examples.test else ""
    said = (
        f"{audit.project}: {examples.test:,} test examples{clusters}, {_members(audit)} a variant, "
        f"{100 * audit.level:.0f}% intervals"
    )
    if scores is not None:
        unit = f" in {scores.unit}" if scores.unit else ""
        better = "lower" if scores.lower_is_better else "higher"
        said += f"; {scores.name}{unit}, {better} is better"
    return printable(said)


def _label_lines(audit: Audit, gate: GateResult | None) -> list[str]:
    """The table of an audit of labels and its legend."""
    rows: list[dict[str, str]] = []
    relatives: dict[int, Quantity] = {}
    affected = "most affected" if audit.labelled else "changed, %"
    compared = "excess, points" if gate is None else "differ/floor"
    for number, variant in enumerate(audit.variants, 1):
        name = variant.name
        row = {"gate": _mark(gate, name), "variant": name}
        if audit.labelled:
            row["top-1 %"] = _plus_minus(audit.accuracy[name].top1, 100, ".1f")
        row |= dict.fromkeys(("CIE", compared, affected, "where"), "")
        if name in audit.divergence:
            divergence = audit.divergence[name]
            row["CIE"] = f"{divergence.cie.cie.count:,}"
            row[compared] = (
                _interval(divergence.cie.excess, 100)
                if gate is None
                else _differ_and_floor(divergence)
            )
            if not audit.labelled:
                changed = most_changed(audit, name)
                row[affected] = _interval(changed.changed, 100, sign="")
                row["where"] = audit.group_names[changed.group]
            elif (worst := worst_change(audit, name)) is not None:
                row[affected] = _interval(worst["absolute"].number, 100)
                row["where"] = _where(audit, worst["absolute"])
                relatives[number] = worst["relative"].number
        rows.append(row)
    table, has_relatives = _with_relatives(_cells(rows, gate), relatives, 1 if gate is None else 2)
    legend = _legend(audit, judged=gate is not None, has_relatives=has_relatives)
    return [*table, "", *_wrapped(legend, indent=""), ""]


def _score_lines(audit: Audit, gate: GateResult | None) -> list[str]:
    """The table of an audit of scores and its legend."""
    scores = audit.scores
    assert scores is not None
    rows: list[dict[str, str]] = []
    for variant in audit.variants:
        mean = _plus_minus(mean_score(audit, variant.name).number, 1, ".4g", half=".2g")
        row = {"gate": _mark(gate, variant.name), "variant": variant.name, "mean": mean}
        row |= dict.fromkeys(("worse, %", "most affected, %", "where"), "")
        if means := audit.at("scores", variant.name, "means."):
            row["worse, %"] = _interval(means[0]["relative"].number, 1)
            if (worst := worst_mean(audit, variant.name)) is not None:
                row["most affected, %"] = _interval(worst["relative"].number, 1)
                row["where"] = audit.group_names[worst["relative"].group or ""]
        rows.append(row)
    ratio = "compressed / dense" if scores.lower_is_better else "dense / compressed"
    legend = (
        f"Worse: {ratio} - 1 of the mean. Most affected: the group that surely gets worse most, of "
        "those that get worse than the rest; all where none does."
    )
    table = _table(_cells(rows, gate), 1 if gate is None else 2)
    return [*table, "", *_wrapped(legend, indent=""), ""]


def _gap_lines(audit: Audit) -> Iterator[str]:
    """Gaps between groups, and what corruption costs."""
    for variant in audit.compressed:
        for gap in shown_gaps(audit, variant.name):
            yield from _wrapped(printable(f"{variant.name}: {gap_words(audit, gap)}"))
    for variant in audit.compressed:
        yield from _corrupted(audit, variant.name)


def _cells(rows: Sequence[dict[str, str]], gate: GateResult | None) -> list[tuple[str, ...]]:
    """Titles and cells; without a gate no verdicts."""
    titles = [title for title in rows[0] if gate is not None or title != "gate"]
    return [tuple(titles), *(tuple(printable(row[title]) for title in titles) for row in rows)]


def _members(audit: Audit) -> str:
    """How many members variants have: `5 members`, or `14 to 16 members`."""
    fewest, *_, most = sorted([v.members for v in audit.variants] * 2)
    span = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{span} member{'' if most == 1 else 's'}"


def _mark(gate: GateResult | None, name: str) -> str:
    variant = None if gate is None else gate.variant(name)
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


def _plus_minus(number: Quantity, factor: float, digits: str, *, half: str = "") -> str:
    """A number and the longer half of its interval."""
    if number.value is None:
        return "undefined"
    value, shown = factor * number.value, f"{factor * number.value:{digits}}"
    if number.low is None or number.high is None:
        return shown
    longer = max(value - factor * number.low, factor * number.high - value)
    return f"{shown} ±{longer:{half or digits}}"


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


def _interval(change: Quantity, factor: float, sign: str = "+") -> str:
    """A number with its interval."""
    value, low, high = (
        None if end is None else f"{factor * end:{sign}.1f}"
        for end in (change.value, change.low, change.high)
    )
    if value is None:
        return "undefined"
    return value if low is None or high is None else f"{value} [{low}, {high}]"


def _where(audit: Audit, row: Row) -> str:
    metric = "" if row.metric == "error" else f"{str(row.metric).upper()} "
    return f"{metric}{audit.group_names[str(row.group)]}"


def _corrupted(audit: Audit, variant: str) -> list[str]:
    """Say what corrupted pictures cost beyond dense, and which group is shown to lose most."""
    ats = audit.at("robustness", variant, "losses.")
    losses = [at for at in ats if at["absolute"].metric == "error"]
    if not losses:
        return []
    shown = [
        at["contrast"]
        for at in losses
        if "p_adjusted" in at
        and (at["contrast"].number.low or 0.0) > 0
        and (at["p_adjusted"].number.value or 0.0) <= 1 - audit.level
    ]
    of_all = losses[0]  # of all examples, under all corruptions where these are standard ones
    scale = ", which depends on the scale" if depends_on_scale(of_all) else ""
    sentence = (
        f"{variant}: corrupted pictures cost {_interval(of_all['absolute'].number, 100)} points "
        f"of accuracy more than dense loses{scale}"
    )
    if shown:
        most = max(shown, key=lambda row: row.number.value or 0.0)
        sentence += (
            f"; under {most.fact('family')}, {audit.group_names[most.group or '']} loses "
            f"{_interval(most.number, 100)} points more than the other examples"
        )
    return _wrapped(printable(sentence))
