"""Every number of a comparison of two evaluation logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from scotoma.answers.group_keys import group_key
from scotoma.comparison.behaviour import Behaviour, behaviours
from scotoma.comparison.bias_scores import BiasScore, stereotypes
from scotoma.comparison.flips import Flip, answer_codes, flips
from scotoma.comparison.means import (
    GroupScoreEffect,
    MeanChange,
    ScoreTable,
    all_lose_alike,
    group_effects,
    mean_change,
    score_table,
    surely_worse,
)
from scotoma.comparison.reruns import ATTRIBUTE, SIDES, PairedRows, RerunFloor, rerun_floor
from scotoma.errors import ConfigError, DataError
from scotoma.numbers import Estimate
from scotoma.numbers.inputs import Codes, Flags, Labels
from scotoma.slices import SearchSettings, find_slices

# How models that were trained to refuse usually begin.
REFUSALS = (
    r"^\s*(i'm|i am) (very |so |really )?sorry\b",
    r"\b(i|we) (cannot|can't|can not|won't|will not|am unable to|am not able to) "
    r"(assist|help|provide|answer|comply|fulfil|create|generate|discuss|engage|do that)",
    r"\bas an ai\b",
)


@dataclass(frozen=True)
class Wording:
    """How free text changes.

    Attributes:
        reworded: Share of answers with another text and the same extracted answer and score.
        reworded_count: The same as a number of examples.
        refusals: Share of answers that refuse, before and after.
        length: Characters, before and after.
    """

    reworded: Estimate
    reworded_count: float
    refusals: MeanChange
    length: MeanChange


def refusal_pattern(patterns: tuple[str, ...] = ()) -> str:
    """One regular expression of several; without any those of `REFUSALS`.

    Raises:
        ConfigError: One is no regular expression, as Rust's regex reads them.

    >>> refusal_pattern(("^no$",))
    '(?i)(?:^no$)'
    """
    chosen = patterns or REFUSALS
    for pattern in chosen:
        try:
            pl.Series([""]).str.contains(pattern)
        except pl.exceptions.PolarsError as error:
            raise ConfigError(
                f"--refusal must be a regular expression, got {pattern!r}; escape signs such as "
                "( and [ by a backslash"
            ) from error
    return "(?i)" + "|".join(f"(?:{pattern})" for pattern in chosen)


def wording(table: pl.DataFrame, refused: tuple[pl.Series, pl.Series], clusters: Codes) -> Wording:
    """Compare the texts of two models, apart from what they score.

    Args:
        table: Rows of `paired_rows`, whose texts are known.
        refused: Whether each row's text refuses, of the dense and the compressed model.
        clusters: Number of each row's example, shape (n,).

    >>> table = pl.DataFrame({
    ...     "score_before": [1.0, 0.0], "score_after": [1.0, 0.0], "answer_hash_before": ["a", "b"],
    ...     "answer_hash_after": ["a", "c"], "text_hash_before": ["x", "y"],
    ...     "text_hash_after": ["z", "w"], "text_length_before": [4, 6],
    ...     "text_length_after": [5, 9],
    ... })
    >>> no = pl.Series([False, False])
    >>> found = wording(table, (no, no), np.arange(2))
    >>> found.reworded_count, found.length.change.value
    (1.0, 2.0)
    """
    same_answer = pl.col("answer_hash_before").eq_missing(pl.col("answer_hash_after"))
    other_text = pl.col("text_hash_before") != pl.col("text_hash_after")
    same_score = pl.col("score_before") == pl.col("score_after")
    found = table.select((same_answer & other_text & same_score).fill_null(False)).to_series()
    codes = found.to_numpy().astype(np.intp)[:, None]
    (reworded,) = flips(None, np.zeros_like(codes), codes, clusters=clusters)
    lengths = (table[f"text_length_{side}"].fill_null(0).to_numpy() for side in ("before", "after"))
    return Wording(
        reworded.share,
        reworded.count,
        mean_change(*(side.to_numpy() for side in refused), clusters=clusters),
        mean_change(*lengths, clusters=clusters),
    )


SLICES = 5
SHUFFLED = 5  # searches of shuffled outcomes, whose findings are noise
FEWEST_VALUES, MOST_VALUES = 2, 50  # of an attribute that may define slices, unless it is a number
LOWER = re.compile(
    r"(perplexity|ppl|loss|nll|brier|kl|divergence|bits_per_byte|wer|cer|error|edit|output_tokens)"
)


@dataclass(frozen=True)
class SliceEffect:
    """A slice that nobody named, on which the score falls.

    Attributes:
        text: Its conditions.
        size: Examples in it, each once, or boxes.
        change: Change of the score, measured on the half of the rows that did not propose it; where
            the score of all surely gets worse, less the change of all other rows.
        q: Corrected p-value.
    """

    text: str
    size: int
    change: Estimate
    q: float


@dataclass(frozen=True)
class SearchedSlices:
    """What a search for slices found.

    Attributes:
        slices: Those on which the score gets worse.
        expected: Mean number that the same search finds in shuffled outcomes; nan where none was
            searched.
        against_rest: Whether slices get worse than the rest of the rows does: asked where the score
            of all surely gets worse, as then every large slice does.
        notes: Sentences that a reader should know.
    """

    slices: tuple[SliceEffect, ...] = ()
    expected: float = float("nan")
    against_rest: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogComparison:
    """Two models on the examples that both answered.

    Attributes:
        models: Their names, the dense one first.
        metric: Name of the score.
        binary: All scores are 0 or 1, so that an answer is right or wrong.
        lower_is_better: Of the score.
        examples: Number of examples.
        reruns: Of the dense and the compressed model.
        score: The mean of all.
        flips: Answers that change: where the score is binary both ways, else all that change; none
            where neither is known.
        floor: How much reruns of the dense model differ; None without reruns.
        tasks: The score of each task, where there are several.
        groups: The score of each group.
        alike: Whether the score of all surely gets worse, and that of no group otherwise than the
            rest.
        search: Slices that nobody named.
        bias: Scores of BBQ; empty for other benchmarks.
        wording: Of free text; None elsewhere.
        behaviours: How answers ended, where logs say it.
        notes: Sentences that a reader should know.
    """

    models: tuple[str, str]
    metric: str
    binary: bool
    lower_is_better: bool
    examples: int
    reruns: tuple[int, int]
    score: MeanChange
    flips: tuple[Flip, ...]
    floor: RerunFloor | None
    tasks: tuple[GroupScoreEffect, ...]
    groups: tuple[GroupScoreEffect, ...]
    alike: bool
    search: SearchedSlices
    bias: tuple[BiasScore, ...]
    wording: Wording | None
    behaviours: tuple[Behaviour, ...]
    notes: tuple[str, ...]


def is_lower_better(metric: str) -> bool:
    """Whether a lower score is the better one, by its name.

    >>> is_lower_better("word_perplexity"), is_lower_better("acc"), is_lower_better("ter")
    (True, False, False)
    """
    return LOWER.search(metric.lower()) is not None


def measure_rows(
    rows: PairedRows,
    *,
    models: tuple[str, str],
    metric: str,
    masks: Mapping[str, Flags],
    wording: Wording | None = None,
) -> LogComparison:
    """Measure everything but what lies in texts.

    Args:
        rows: Answers of both models.
        models: Their names.
        metric: Name of the score.
        masks: Key of each group to its rows, bool, shape (n,).
        wording: Of free text.

    Returns:
        The numbers; groups in the order of `masks`.
    """
    table = rows.table
    clusters, n = rows.clusters, table["example"].n_unique()
    own = clusters if table.height > int(clusters.max()) + 1 else None
    scores = score_table(table["score_before"].to_numpy(), table["score_after"].to_numpy(), own)
    codes = _codes(table, binary=scores.binary)
    labels = np.zeros(table.height, np.intp) if scores.binary else None
    tasks = task_masks(table)
    changed = () if codes is None else flips(labels, *codes, clusters=own)
    whole, groups = scores.change(), group_effects(scores, masks)
    lower_is_better = is_lower_better(metric)
    search = sliced(_features(rows), scores, own, lower_is_better, table["example"].to_numpy())
    return LogComparison(
        models=models,
        metric=metric,
        binary=scores.binary,
        lower_is_better=lower_is_better,
        examples=n,
        reruns=rows.reruns,
        score=whole,
        flips=tuple(replace(one, count=n * one.share.value) for one in changed),
        floor=None if codes is None else _floor(table, *codes),
        tasks=group_effects(scores, tasks),
        groups=groups,
        alike=all_lose_alike(whole.change, groups, lower_is_better=lower_is_better),
        search=search,
        bias=tuple(stereotypes(table, clusters)) if scores.binary else (),
        wording=wording,
        behaviours=tuple(behaviours(table, with_tasks(masks, table), own)),
        notes=search.notes,
    )


def task_masks(table: pl.DataFrame) -> dict[str, Flags]:
    """The rows of each task, where there are several."""
    names = table["task"].unique(maintain_order=True).to_list()
    return {str(one): (table["task"] == one).to_numpy() for one in names if len(names) > 1}


def with_tasks(masks: Mapping[str, Flags], table: pl.DataFrame) -> dict[str, Flags]:
    """Groups, and each of several tasks as one, by key."""
    tasks = task_masks(table)
    return {**masks, **{group_key([("task", name)]): mask for name, mask in tasks.items()}}


def _codes(table: pl.DataFrame, *, binary: bool) -> tuple[Labels, Labels] | None:
    """What each model answered; None where neither answers nor right and wrong are known."""
    hashes = [table[f"answer_hash_{side}"] for side in SIDES]
    known = all(side.null_count() < table.height for side in hashes)
    if not (known or binary):
        return None
    right = [(table[f"score_{side}"].to_numpy() == 1) & binary for side in SIDES]
    return answer_codes(*right, *(side.fill_null(0).to_numpy() for side in hashes if known))


def _floor(table: pl.DataFrame, before: Labels, after: Labels) -> RerunFloor | None:
    """The floor of tasks with reruns, each as many as it has: rows in a fixed order."""
    parts = []
    for (_,), own in table.with_row_index().group_by("task", maintain_order=True):
        rows, examples = own["index"].to_numpy(), own["example"].n_unique()
        reruns = [own[f"rerun_{side}"].n_unique() for side in SIDES]
        if reruns[0] > 1 and not len(rows) % examples and len(rows) // examples >= max(reruns):
            parts.append(
                [
                    codes[rows].reshape(examples, -1)[:, :r]
                    for codes, r in zip((before, after), reruns, strict=True)
                ]
            )
    return rerun_floor(*zip(*parts, strict=True)) if parts else None


def sliced(
    features: pl.DataFrame,
    scores: ScoreTable,
    clusters: Codes | None,
    lower_is_better: bool,
    example: Codes | None = None,
) -> SearchedSlices:
    """Search slices on which the score gets worse.

    Args:
        features: What may define a slice, shape (n, F).
        scores: Of the rows.
        clusters: Number of each row's cluster, or None.
        lower_is_better: Of the score.
        example: Number of each row's example, as slices count them; None where a row is one.
    """
    if not features.width:
        return SearchedSlices()
    against_rest = surely_worse(scores.change().change, lower_is_better=lower_is_better)
    settings = SearchSettings(
        metric=None if scores.binary else "mean",
        direction=None if scores.binary else ("higher" if lower_is_better else "lower"),
        reference="rest" if against_rest else None,
        max_cross=2, limit=SLICES, permutations=SHUFFLED, threads=1,
    )  # fmt: skip
    before, after = scores.before, scores.after
    if scores.binary:  # the errors
        before, after = 1 - before, 1 - after
    try:
        report = find_slices(features, after, settings, baseline=before, clusters=clusters)
    except DataError as error:
        return SearchedSlices(notes=(f"slices were not searched: {error}",))
    found = tuple(
        SliceEffect(
            one.text,
            one.size if example is None else np.unique(example[one.mask]).size,
            one.effect.negated() if scores.binary else one.effect,
            one.q,
        )
        for one in report.slices
    )
    return SearchedSlices(found, report.null.mean, against_rest)


def _features(rows: PairedRows) -> pl.DataFrame:
    """What may define a slice: attributes, and what describes the rows of any log."""
    table, columns = rows.table, {}
    for name in rows.attributes:
        values = table[f"{ATTRIBUTE}{name}"]
        kinds = values.n_unique()
        if values.dtype.is_numeric() and kinds > 1:
            columns[name] = values.cast(pl.Float64)
        elif FEWEST_VALUES <= kinds <= MOST_VALUES:
            columns[name] = values.cast(pl.String).fill_null("(missing)")
    return pl.DataFrame(columns | {one.name: one for one in described_rows(table)})


def described_rows(table: pl.DataFrame) -> pl.DataFrame:
    """What may define a slice of any log: length and script of prompts, place, task.

    Args:
        table: That of `PairedRows`.
    """
    columns = {}
    if (length := table["prompt_length"]).n_unique() > 1:
        columns["prompt length"] = length.cast(pl.Float64)
    if (script := table["prompt_script"]).n_unique() > 1:
        columns["prompt script"] = script.fill_null("(missing)")
    columns["position"] = table["position"].cast(pl.Float64)
    if table["task"].n_unique() > 1:
        columns["task"] = table["task"]
    return pl.DataFrame(columns)
