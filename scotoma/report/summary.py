"""What does the terminal print at the end of an audit? A table of variants, and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scotoma.audit import Audit, GateResult
from scotoma.audit.base import Row
from scotoma.audit.gate import JudgedVariant
from scotoma.audit.robustness import depends_on_scale
from scotoma.document import Cell, Column, Document, Section, Table, in_words, show
from scotoma.document.text import text_table
from scotoma.impact.worst_change import (
    MEANING,
    gap_words,
    mean_score,
    most_changed,
    shown_gaps,
    worst_change,
    worst_mean,
)
from scotoma.numbers import FEW_RUNS
from scotoma.verdict.frontier import frontier_sentence
from scotoma.verdict.words import admission_lines, too_small

NAMED = 3  # failing tests that a waiver covers
FEW_MEMBERS = 5  # below it CIE counts are unstable
WHO = (Column("gate", "gate"), Column("variant", "variant"))
WHERE = Column("where", "")


def summary(audit: Audit, gate: GateResult) -> Document:
    """Summarize an audit: one line a variant, n above, what the numbers mean below.

    Args:
        audit: The audit.
        gate: The verdict on it, which leads each line; below the table stands what it rests on.
    """
    of_scores = audit.scores is not None
    table = _scores(audit, gate) if of_scores else _labels(audit, gate)
    verdicts = [*_verdicts(audit, gate)]
    if sentence := "" if of_scores else frontier_sentence(audit.variants, gate):
        verdicts.append(f"{sentence}.")
    table, legend = replace(table, note=""), table.note
    sections = [
        Section("variants", "", parts=[table]),
        Section("legend", "", [legend]),
        Section("verdicts", "", verdicts),
        Section("more", "", [*_more(audit)]),
    ]
    return Document(_subject(audit), sections=[one for one in sections if one.answer or one.parts])


def _more(audit: Audit) -> Iterator[str]:
    """Gaps between groups, what corruption costs, and what is not known."""
    of_scores, members = audit.scores is not None, min(one.members for one in audit.variants)
    for variant in () if of_scores else audit.compressed:
        for gap in shown_gaps(audit, variant.name):
            yield f"{variant.name}: {gap_words(audit, gap)}."
    for variant in () if of_scores else audit.compressed:
        yield from _corrupted(audit, variant.name)
    if not audit.labelled and not of_scores:
        yield audit.examples.unlabelled
    if members == 1:
        alone = len(audit.compressed) == 1
        flipped = "these two models" if alone else "the original and each model"
        flips = "" if of_scores else f"CIEs are the flips between {flipped}; "
        yield f"One model a side: {flips}another training run may differ."
    elif members < FEW_MEMBERS and not of_scores:
        yield f"With {members} members a variant, CIE counts are unstable: use 10 or more."


def _subject(audit: Audit) -> str:
    """What was audited, in a line."""
    examples, scores = audit.examples, audit.scores
    clusters = f" ({examples.clusters:,} clusters)" if examples.clusters < examples.test else ""
    said = (
        f"{audit.project}: {examples.test:,} test examples{clusters}, {_members(audit)} a variant, "
        f"{100 * audit.level:g}% intervals"
    )
    if scores is not None:
        unit = f" in {scores.unit}" if scores.unit else ""
        better = "lower" if scores.lower_is_better else "higher"
        said += f"; {scores.name}{unit}, {better} is better"
    return said


def _labels(audit: Audit, gate: GateResult) -> Table:
    """The table of an audit of labels, with relative changes where no line breaks for them."""
    rows: list[dict[str, Cell]] = []
    relatives: list[str] = []
    for variant in audit.variants:
        name = variant.name
        row: dict[str, Cell] = {"gate": _mark(gate, name), "variant": name, "where": ""}
        if audit.labelled:
            row["top1"] = audit.number("accuracy", name, "top1")
        if name in audit.divergence:
            row |= {"cie": audit.divergence[name].cie.cie.count, "differ": audit.differing(name)}
            if not audit.labelled:
                changed = most_changed(audit, name)
                row |= {
                    "affected": changed.number, "where": audit.group_names[str(changed.group)]
                }  # fmt: skip
            elif (worst := worst_change(audit, name)) is not None:
                row |= {
                    "affected": worst["absolute"].number,
                    "where": _where(audit, worst["absolute"]),
                }
                relative = show(worst["relative"].number, "percent", brief=True).value
                relatives.append(f" ({relative})" if relative else "")
        relatives += [""] * (len(rows) + 1 - len(relatives))
        rows.append(row)
    floors = [
        row.number
        for row in audit.numbers("divergence", what="cie.floor")
        if not audit.divergence[str(row.variant)].cie.paired
    ]
    if floors and floors[0].value is not None:
        rows[0]["differ"] = floors[0]
    affected: tuple[Column, ...] = (Column("affected", "changed", "rate", brief=True),)
    if audit.labelled:
        affected = (Column("affected", "most affected", "points", brief=True),)
    top1 = (Column("top1", "top-1", "rate", brief=True),) if audit.labelled else ()
    counts = (Column("cie", "CIE", "count"), Column("differ", "differ", "rate", brief=True))
    columns = (*WHO, *top1, *counts, *affected, WHERE)
    shorter = Table("variants", "", columns, rows, stub=2, known=FEW_RUNS)
    both = [
        row | {"where": f"{row['where']}{relative}"}
        for row, relative in zip(rows, relatives, strict=True)
    ]
    longer = replace(shorter, rows=both)
    fits = any(relatives) and len(text_table(longer)) == len(text_table(shorter))
    legend = _legend(audit, has_floor="differ" in rows[0], has_relatives=fits)
    return replace(longer if fits else shorter, note=legend)


def _scores(audit: Audit, gate: GateResult) -> Table:
    """The table of an audit of scores."""
    scores = audit.scores
    assert scores is not None
    rows: list[dict[str, Cell]] = []
    for variant in audit.variants:
        mean = mean_score(audit, variant.name).number
        row: dict[str, Cell] = {
            "gate": _mark(gate, variant.name), "variant": variant.name, "mean": mean
        }  # fmt: skip
        if means := audit.at("scores", variant.name, "means."):
            row["worse"] = means[0]["relative"].number
            if (worst := worst_mean(audit, variant.name)) is not None:
                relative = worst["relative"]
                row |= {
                    "affected": relative.number, "where": audit.group_names[relative.group or ""]
                }  # fmt: skip
        rows.append(row)
    ratio = "compressed / dense" if scores.lower_is_better else "dense / compressed"
    columns = (
        *WHO,
        Column("mean", "mean", "score", brief=True),
        Column("worse", "worse", "percent", brief=True),
        Column("affected", "most affected", "percent", brief=True),
        WHERE,
    )
    legend = (
        f"Worse: {ratio} - 1 of the mean. Most affected: the group that surely gets worse most, of "
        "those that get worse than the rest; all where none does."
    )
    return Table("variants", "", columns, rows, legend, stub=2, known=FEW_RUNS)


def _members(audit: Audit) -> str:
    """How many members variants have: `5 members`, or `14 to 16 members`."""
    fewest, *_, most = sorted([v.members for v in audit.variants] * 2)
    span = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{span} member{'' if most == 1 else 's'}"


def _mark(gate: GateResult, name: str) -> str:
    variant = gate.variant(name)
    return "·" if variant is None else variant.verdict


def _verdicts(audit: Audit, gate: GateResult) -> Iterator[str]:
    """Say what each verdict rests on, a row a variant; those that rest on the same share one."""
    rows: dict[tuple[str, str], list[str]] = {}
    for variant in gate.variants:
        key = variant.verdict, "; ".join(variant.sentences)
        rows.setdefault(key, []).append(variant.name)
    for (verdict, text), names in rows.items():
        yield f"{verdict:<7} {', '.join(names)}: {text}."
    for variant in gate.variants:
        if waived := _waived(variant):
            yield f"waived  {variant.name}: {', '.join(waived)}"
    if small := too_small(gate.variants):
        yield small
    above = {line for variant in gate.variants for line in variant.sentences}
    for line in admission_lines(audit.admission):
        if line not in above:
            yield f"note    {line}."


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


def _legend(audit: Audit, *, has_floor: bool, has_relatives: bool) -> str:
    derived = audit.numbers("divergence", what="flips")
    worst = MEANING + (" After the group: the relative change." if has_relatives else "")
    if not audit.labelled:
        worst = "Changed: predictions that change in the group that surely changes most."
    dense = "; beside dense, how often two dense models do, which is the noise floor" * has_floor
    alone = ""
    if derived and has_floor:
        alone = " Models made from a dense one, such as int8, have no floor."
    return (
        "CIE: examples whose most frequent label changes. Differ: how often a dense and a "
        f"compressed model disagree{dense}.{alone} {worst}"
    )


def _where(audit: Audit, row: Row) -> str:
    metric = "" if row.metric == "error" else f"{str(row.metric).upper()} "
    return f"{metric}{audit.group_names[str(row.group)]}"


def _corrupted(audit: Audit, variant: str) -> Iterator[str]:
    """Say what corrupted pictures cost beyond dense, and which group is shown to lose most."""
    ats = audit.at("robustness", variant, "losses.")
    losses = [at for at in ats if at["absolute"].metric == "error"]
    if not losses:
        return
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
        f"{variant}: corrupted pictures cost {in_words(of_all['absolute'].number, 'extent')} "
        f"of accuracy more than dense loses{scale}"
    )
    if shown:
        most = max(shown, key=lambda row: row.number.value or 0.0)
        sentence += (
            f"; under {most.fact('family')}, {audit.group_names[most.group or '']} loses "
            f"{in_words(most.number, 'extent')} more than the other examples"
        )
    yield f"{sentence}."
