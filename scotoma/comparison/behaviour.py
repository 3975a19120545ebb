"""Wrong, cut off, refused, verbose: how did answers end, and does compression change it?

Read from fields in which logs say why an answer ended and how long it was, never from its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from scotoma.comparison.means import GroupScoreEffect, MeanChange, group_effects, score_table
from scotoma.comparison.reruns import BEHAVIOURS, SIDES
from scotoma.numbers.inputs import Codes, Flags
from scotoma.printable import printable
from scotoma.readers.record import SCORE, EvaluationLog

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
SHOWN = 3  # unknown reasons in a note


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
    """

    name: str
    rising_is_harm: bool
    binary: bool
    all: MeanChange
    groups: tuple[GroupScoreEffect, ...]


def with_behaviour(log: EvaluationLog) -> EvaluationLog:
    """Add how answers ended to the scores of a log, and a note on reasons that nobody knows."""
    examples = log.examples
    added: dict[str, pl.Series] = {}
    reasons = examples["stop_reason"].drop_nulls().unique().to_list()
    kinds = {word: KINDS.get(_letters(word)) for word in reasons}
    kind = examples["stop_reason"].replace_strict(kinds, default=None, return_dtype=pl.String)
    if any(kinds.values()):
        added |= {name: kind == name for name in ("cut_off", "refused")}
    called = (examples["tool_calls"] > 0).fill_null(value=False) | (kind == "tool_call").fill_null(
        value=False
    )
    if called.any() or examples["tool_calls"].null_count() < log.examples.height:
        added["tool_call"] = called
    if examples["output_tokens"].null_count() < log.examples.height:
        added["output_tokens"] = examples["output_tokens"]
    for name, own in OF_HELM.items():
        if own in log.scores:
            added[name] = examples[SCORE + own]
    added = {name: own for name, own in added.items() if name not in log.scores}
    strange = [word for word in reasons if kinds[word] is None]
    notes = log.notes
    if strange:
        count = examples["stop_reason"].is_in(strange).sum()
        more = f" and {len(strange) - SHOWN} more" if len(strange) > SHOWN else ""
        shown = ", ".join(repr(printable(word)[:40]) for word in sorted(strange)[:SHOWN])
        notes = (*notes, f"{log.task}: the stop reason of {count:,} answers is not known ({shown}"
                 f"{more}); they count as neither cut off nor refused nor whole.")  # fmt: skip
    return replace(
        log, scores=(*log.scores, *added), notes=notes,
        examples=examples.with_columns(
            own.cast(pl.Float64).fill_null(float("nan")).alias(SCORE + name)
            for name, own in added.items()
        ),
    )  # fmt: skip


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
    for name, rising_is_harm in BEHAVIOURS.items():
        columns = [f"{name}_{side}" for side in SIDES]
        if not {*columns} <= {*table.columns}:
            continue
        before, after = (table[own].fill_null(float("nan")).to_numpy() for own in columns)
        known = np.isfinite(before) & np.isfinite(after)
        if not known.any() or not (before[known].any() or after[known].any()):
            continue
        own = None if clusters is None else clusters[known]
        scores = score_table(before[known], after[known], own)
        inside = {key: mask[known] for key, mask in masks.items() if mask[known].any()}
        groups = group_effects(scores, inside)
        yield Behaviour(name, rising_is_harm, scores.binary, scores.change(), groups)
