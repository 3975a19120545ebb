"""Wrong, cut off, refused, verbose: how did answers end, and does compression change it?

Read from fields in which logs say why an answer ended and how long it was, never from its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from scotoma.audit.base import rows_at
from scotoma.comparison.means import GroupScoreEffect, MeanChange, group_effects, score_table
from scotoma.comparison.reruns import BEHAVIOURS, SIDES
from scotoma.numbers import none_seen, undefined
from scotoma.numbers.inputs import Codes, Flags, Floats
from scotoma.printable import printable
from scotoma.questions import QUESTIONS
from scotoma.readers.pairing import Pairing
from scotoma.readers.record import SCORE, UNCOUNTED, EvaluationLog

# Words of inspect_ai, OpenAI, vLLM, Anthropic, Gemini, Bedrock and HELM; only their letters count.
WORDS = {
    "whole": "stop endturn stopsequence eos eostoken endoftext completed complete",
    "cut_off": "length maxtokens maxlength modellength maxoutputtokens modelcontextwindowexceeded "
    "tokenlimit contextlimit timelimit workinglimit messagelimit costlimit turnlimit",
    "refused": "contentfilter contentfiltered refusal safety recitation prohibitedcontent "
    "blocklist spii modelarmor guardrailintervened",
    "tool_call": "toolcalls tooluse functioncall",
}
KINDS = {re.sub("[^a-z]", "", word): kind for kind, own in WORDS.items() for word in own.split()}
OF_HELM = {"cut_off": "finish_reason_length", "output_tokens": "num_output_tokens"}
OF_REASONS = ("cut_off", "refused", "tool_call")
LACKS = dict.fromkeys(("cut_off", "refused"), "no known stop reason") | {
    "tool_call": "no known number of tool calls", "output_tokens": "no number of tokens",
    "margin": "no margin of log-likelihood",
}  # fmt: skip
SHOWN = 3  # unknown reasons in a note
Logs = Mapping[str, EvaluationLog]  # a task each


@dataclass(frozen=True)
class Behaviour:
    """How often, or how long, answers are of a kind, before and after.

    Attributes:
        name: `cut_off`, `refused` or `tool_call`, shares of answers; `output_tokens`, their mean
            length; `margin`, by how much the log-likelihood of the right option exceeds others.
        rising_is_harm: Whether more of it is worse.
        binary: Whether it is a share.
        all: Of all rows whose logs say it.
        groups: Of each group.
        lacking: Examples that the log of the original, and that of the compressed model, says
            nothing known of; they are left out.
    """

    name: str
    rising_is_harm: bool
    binary: bool
    all: MeanChange
    groups: tuple[GroupScoreEffect, ...]
    lacking: tuple[int, int]


def with_behaviour(log: EvaluationLog) -> EvaluationLog:
    """Add how answers ended to the scores of a log; nan where it does not say it plainly."""
    examples = log.examples
    added: dict[str, pl.Series] = {}
    reasons = examples["stop_reason"].drop_nulls().unique().to_list()
    kinds = {word: KINDS.get(_letters(word)) for word in reasons}
    kind = examples["stop_reason"].replace_strict(kinds, default=None, return_dtype=pl.String)
    if reasons:
        added |= {name: kind == name for name in ("cut_off", "refused")}
    calls, by_reason = examples["tool_calls"], kind == "tool_call"
    if calls.null_count() < examples.height:
        calls = calls.replace(UNCOUNTED, None) > 0
        added["tool_call"] = calls | by_reason.fill_null(value=False)  # null where neither says it
    elif reasons:
        added["tool_call"] = by_reason
    if examples["output_tokens"].null_count() < examples.height:
        added["output_tokens"] = examples["output_tokens"]
    for name, own in OF_HELM.items():
        if own in log.scores:
            added[name] = examples[SCORE + own]
    return _with_scores(log, {name: own for name, own in added.items() if name not in log.scores})


def _with_scores(log: EvaluationLog, added: Mapping[str, pl.Series]) -> EvaluationLog:
    return replace(
        log, scores=(*log.scores, *added),
        examples=log.examples.with_columns(
            own.cast(pl.Float64).fill_null(float("nan")).alias(SCORE + name)
            for name, own in added.items()
        ),
    )  # fmt: skip


def said_by_either(name: str, logs: Sequence[Logs]) -> tuple[Logs, Logs]:
    """Logs of two models: where one of them says how answers ended, the other lacks it for all."""
    first, second = (
        {
            task: _with_scores(log, {name: pl.repeat(None, log.examples.height, eager=True)})
            if name not in log.scores and task in other and name in other[task].scores
            else log
            for task, log in own.items()
        }
        for own, other in zip(logs, reversed(logs), strict=True)
    )
    return first, second


@dataclass(frozen=True)
class Unsaid:
    """Examples whose log does not say how their answer ended.

    Attributes:
        share: Of the paired examples, those that lack it on either side.
        sentences: One a side that lacks it, without an end.
        whole: Whether a side lacks it for all.
        happens: Whether it may happen at all: no tool was called where none is there.
    """

    share: float
    sentences: tuple[str, ...]
    whole: bool
    happens: bool


def unsaid(pairing: Pairing, name: str, models: Sequence[str]) -> Unsaid | None:
    """Count the examples that do not say it, and name why; None where neither log says it at all.

    Args:
        pairing: The examples that both answered.
        name: Of a behaviour.
        models: Names of both.
    """
    column, lacking, sentences = SCORE + name, [], []
    sides = (pairing.baseline, pairing.compressed)
    if not any(column in own.columns for own in sides):
        return None
    for own, model in zip(sides, models, strict=True):
        rows = own
        if column in own.columns:
            rows = own.filter(~pl.col(column).is_finite().fill_null(value=False))
        lacking.append(rows["pair"].unique())
        if rows.height:
            words = rows["stop_reason"].drop_nulls().str.strip_chars().unique().sort().to_list()
            words = [repr(printable(word)[:40]) for word in words if word and name in OF_REASONS]
            more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
            why = f" ({', '.join(words[:SHOWN])}{more})" if words else ""
            count = lacking[-1].len()
            have = "has" if pairing.examples == 1 else "have"
            sentences.append(
                f"{count:,} of {pairing.examples:,} examples of {model} {have} {LACKS[name]}{why}"
            )
    share = pl.concat(lacking).n_unique() / pairing.examples
    whole = any(own.len() == pairing.examples for own in lacking)
    happens = name != "tool_call" or any(
        column in own.columns and (own[column].fill_nan(None) > 0).any() for own in sides
    )
    return Unsaid(share, tuple(sentences), whole, happens)


def _letters(word: str) -> str:
    """A reason as `KINDS` spells it: `FinishReason.MAX_TOKENS` is maxtokens."""
    return re.sub("[^a-z]", "", word.lower()).removeprefix("finishreason")


def behaviours(
    table: pl.DataFrame, masks: Mapping[str, Flags], clusters: Codes | None
) -> Iterator[Behaviour]:
    """Compare how answers ended, where both logs say it and it happens at all.

    Args:
        table: That of `PairedRows`.
        masks: Key of each group to its rows, bool, shape (n,).
        clusters: Number of each row's cluster, or None.
    """
    example = table["example"]
    for name, rising_is_harm in BEHAVIOURS.items():
        if (sides := _sides(table, name)) is None:
            continue
        before, after, known = sides
        if not known.any() or not (before[known].any() or after[known].any()):
            continue
        own = None if clusters is None else clusters[known]
        scores = score_table(before[known], after[known], own)
        inside = {key: mask[known] for key, mask in masks.items() if mask[known].any()}
        groups = group_effects(scores, inside)
        first, second = (
            example.filter(pl.Series(~np.isfinite(side))).n_unique() for side in (before, after)
        )
        whole = scores.change()
        yield Behaviour(name, rising_is_harm, scores.binary, whole, groups, (first, second))


def _sides(table: pl.DataFrame, name: str) -> tuple[Floats, Floats, Flags] | None:
    """A behaviour before and after, and which rows are of examples that say it on both sides."""
    columns = [f"{name}_{side}" for side in SIDES]
    if not {*columns} <= {*table.columns}:
        return None
    before, after = (table[own].fill_null(float("nan")).to_numpy() for own in columns)
    lacking = table["example"].filter(pl.Series(~(np.isfinite(before) & np.isfinite(after))))
    return before, after, ~table["example"].is_in(lacking.unique().implode()).to_numpy()


def ending_rows(
    table: pl.DataFrame, masks: Mapping[str, Flags], clusters: Codes
) -> Iterator[dict[str, Any]]:
    """Lay out how answers ended as rows of an audit, which a gate may judge: more of each is harm.

    Args:
        table: That of `PairedRows`.
        masks: Key of each group to its rows, bool, shape (n,); all examples too.
        clusters: Number of each row's cluster.
    """
    for name in QUESTIONS["endings"].metrics:
        if (sides := _sides(table, name)) is None:
            continue
        before, after, known = sides
        if name == "tool_call":  # none is harm
            before, after = 1 - before, 1 - after
        scores = score_table(before[known], after[known], clusters[known]) if known.any() else None
        for group, mask in masks.items():
            n = np.unique(clusters[mask]).size
            unknown = np.unique(clusters[mask & ~known]).size / n
            numbers = {"unknown": undefined("counted", value=unknown, n=n, members=1)}
            spreads = {}
            if scores is None or not (mask & known).any():
                numbers["absolute"] = undefined("no example says how it ended", n=0, members=1)
                numbers |= dict.fromkeys(("dense", "compressed", "relative"), numbers["absolute"])
            else:
                change = scores.change(mask[known])
                relative = change.worsening(lower_is_better=True)
                if name == "output_tokens" and (before == after)[mask & known].all():
                    # Answers that were not seen to change may change by as much as their mean.
                    relative = none_seen(0.0, n=change.n, members=1)
                numbers |= {"dense": change.before, "compressed": change.after}
                numbers |= {"absolute": change.change, "relative": relative}
                spreads = {"absolute": change.variance, "relative": change.log_variance}
            yield from rows_at({"metric": name, "group": group}, numbers, spreads=spreads)
