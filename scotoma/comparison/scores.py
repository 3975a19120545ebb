"""Which groups does a model fail, by numbers in one table? Means and quantiles of each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from scotoma.answers.pair import read_clusters
from scotoma.bias.table import BiasQuestion, model_columns, table_groups
from scotoma.comparison.means import GroupScoreEffect, affected, group_effects, score_table
from scotoma.comparison.quantiles import quantile_change
from scotoma.document import Column, Document, Section, Table
from scotoma.errors import ConfigError
from scotoma.numbers import FEW_RUNS
from scotoma.numbers.inputs import Floats
from scotoma.printable import ONE_OF_THEM, listed, nearest, quoted
from scotoma.readers.columns import column, numbers
from scotoma.readers.tables import read_table
from scotoma.run.mirror import place_here

SCORES = ("lower", "higher", "absolute_error", "squared_error")
SHARES = (0.5, 0.9)


def judge_scores(
    place: str, question: BiasQuestion, score: str
) -> tuple[Document, dict[str, Any], Sequence[str]]:
    """Means of a score by group, and what changes from the baseline.

    Args:
        place: CSV or Parquet, one row per example.
        question: What is asked; `predicted` and `baseline` name columns of numbers.
        score: One of `SCORES`.

    Returns:
        As `judge_table`.

    Raises:
        ConfigError: An option does not fit.
        DataError: A column does not hold finite numbers.
    """
    if score not in SCORES:
        raise ConfigError(
            f"--score must be one of {', '.join(SCORES)}, got {quoted(score)}"
            f"{nearest(score, SCORES, ONE_OF_THEM)}"
        )
    names = ("examples", "positive", "advantaged", "strata", "feature")
    unread = {f"--{name}": getattr(question, name) for name in names}
    for name, value in unread.items():
        if value:
            raise ConfigError(f"{name} is for classes, and --score measures numbers; leave it out")
    path = place_here(place)
    table, messages = read_table(path)
    given = score in ("lower", "higher")
    if given and question.label:
        raise ConfigError("--label is not read where the score is given; leave it out")
    label, after, before, guessed = model_columns(table, question, labelled=not given)
    groups = table_groups(table, question.group, crossed=question.intersections)
    messages, masks = (*messages, *guessed, *groups.notes), groups.by_key
    was, now = (_scores(table, names, label, score) for names in (before or after, after))
    own = question.cluster
    clusters = None if not own else read_clusters(table[column(table, own, "--cluster")])
    compared = score_table(was, now, clusters, paired=question.paired)
    effects = group_effects(compared, masks, level=question.level)
    lower = score != "higher"
    content = {
        "examples": table.height,
        "score": score,
        "level": question.level,
        "groups": [
            _row(one, lower=lower, compared=bool(before))
            | {
                "quantiles": [
                    {"share": share, "predicted": found.after}
                    | ({"baseline": found.before, "change": found.change} if before else {})
                    for share in SHARES
                    for found in (
                        quantile_change(compared, share, masks[one.group], level=question.level),
                    )
                ]
            }
            for one in effects
        ],
    }
    shown = _document(path.name, score, effects, table.height, compared=bool(before), lower=lower)
    return shown, content, messages


def _scores(table: pl.DataFrame, names: Sequence[str], label: str, score: str) -> Floats:
    held = np.stack([numbers(table, name) for name in names], axis=1)
    if not label:
        return held
    off = held - numbers(table, label)[:, None]
    return np.asarray(np.abs(off) if score == "absolute_error" else off**2)


def _row(one: GroupScoreEffect, *, lower: bool, compared: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"group": one.group, "n": one.score.n, "predicted": one.score.after}
    if not compared:
        return row
    return row | {
        "baseline": one.score.before,
        "change": one.score.change,
        "worse_relative": one.score.worsening(lower_is_better=lower),
        "p_adjusted": one.p_adjusted,
    }


def _document(
    name: str,
    score: str,
    effects: Sequence[GroupScoreEffect],
    rows: int,
    *,
    compared: bool,
    lower: bool,
) -> Document:
    what = score.replace("_", " ") if "error" in score else f"score, {score} is better"
    columns = [Column("group", "group"), Column("n", "n", "count")]
    columns += [Column("before", "baseline", "score")] if compared else []
    columns += [Column("after", "predicted" if compared else "mean", "score")]
    columns += [Column("worse", "worse", "percent")] if compared else []
    cells = [
        {
            "group": one.group,
            "n": one.score.n,
            "before": one.score.before,
            "after": one.score.after,
            "worse": one.score.worsening(lower_is_better=lower) if compared else None,
        }
        for one in effects
    ]
    known = (*FEW_RUNS, "no interval")
    sections = [Section("means", "", parts=[Table("means", "", columns, cells, known=known)])]
    if compared:
        hit = affected(effects, higher_is_better=not lower)
        names = [one.group for one in hit if one.group != effects[0].group]
        worse = f"The mean surely gets worse for {listed(names)}, adjusted"
        none = "No group's mean surely gets worse, adjusted"
        text = f"{worse if names else none} for {len(effects)} groups."
        sections.append(Section("conclusion", "", [text]))
    return Document(f"{name}: {rows:,} examples, mean {what}", sections=sections)
