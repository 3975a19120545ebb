"""Which strata of the same questions lose more: languages, prompts, lengths of context?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from scotoma.answers.group_keys import group_key
from scotoma.answers.natural import natural_order
from scotoma.comparison.means import SIGNIFICANT, ScoreTable
from scotoma.comparison.reruns import QUESTION, PairedRows
from scotoma.comparison.section import units
from scotoma.document import Column, Section, Table, show
from scotoma.errors import ConfigError, DataError
from scotoma.numbers import COMPRESSED, DENSE, Estimate, Number, Units, holm
from scotoma.numbers.inputs import Flags
from scotoma.printable import ONE_OF_THEM, listed, nearest, printable
from scotoma.readers.pairing import MOST_MISSING


class Strata(NamedTuple):
    """How questions are asked several times.

    Attributes:
        attribute: Whose values are the strata, such as `lang`.
        asked: By what questions were paired, such as `doc.question_id`.
        reference: The value that others are compared with.
    """

    attribute: str
    asked: str
    reference: str


@dataclass(frozen=True)
class StratumLoss:
    """What compression costs one stratum, beside the reference.

    Attributes:
        group: Its key.
        loss: What the score loses, dense to compressed; positive is harm.
        beyond: The loss less that of the reference, paired by question, with the interval that
            holds for all strata together; None for the reference.
        p_adjusted: Two-sided p-value of "it loses as the reference does", adjusted by Holm.
    """

    group: str
    loss: Estimate
    beyond: Estimate | None
    p_adjusted: float


@dataclass(frozen=True)
class StrataLosses:
    """The losses of all strata.

    Attributes:
        reference: Key of the stratum that others are compared with.
        asked: By what questions were paired.
        questions: How many there are.
        worst: Key of the stratum that surely loses most beyond the reference; empty for none.
        strata: The reference first, then the largest certain loss.
    """

    reference: str
    asked: str
    questions: int
    worst: str
    strata: tuple[StratumLoss, ...]


def same_questions(
    rows: PairedRows,
    keys: pl.Series,
    values: pl.Series | None,
    strata: Strata,
    *,
    allow_missing: bool,
) -> tuple[PairedRows, pl.Series, Strata, list[str]]:
    """Keep the questions that every stratum asks, and number them: each is one cluster.

    Args:
        rows: The answers of two models.
        keys: What each row asks, shape (n,).
        values: The stratum of each row, shape (n,); None where all have one value.
        strata: As asked for; without a reference it is the stratum of most rows.
        allow_missing: Whether more than 1% of the questions may lack in a stratum.

    Returns:
        The rows, which rows were kept, the strata with their reference, and what to note.

    Raises:
        ConfigError: The reference is no stratum.
        DataError: One stratum, or strata with other questions.
    """
    of, by = strata.attribute, strata.asked
    if values is None:
        raise DataError(
            f"--across {of} must have at least two values in the logs, got one; name what tells "
            "the languages or prompts of a question apart"
        )
    sizes = values.to_frame("of").group_by("of", maintain_order=True).len().rows()
    names = [name for name, _ in sizes]
    reference = strata.reference or max(sizes, key=lambda one: one[1])[0]
    if reference not in names:
        raise ConfigError(
            f"--reference must be a value of {of}, which has {listed(natural_order(names))}, got "
            f"{printable(reference)!r}"
            f"{nearest(reference, names, ONE_OF_THEM)}"
        )
    asked = pl.DataFrame({"key": keys.cast(pl.String), "of": values})
    each = asked.drop_nulls("key").group_by("key", maintain_order=True)
    known = each.agg(pl.col("of").n_unique().alias("strata"))
    common = known.filter(pl.col("strata") == len(names))["key"]
    whole, lacking = known.height, known.height - len(common)
    if not len(common):
        raise DataError(
            f"--pair-by {by} must find the same questions in every {of}, and no question is in all "
            f"of {printable(', '.join(names))[:200]}; name the key that they share"
        )
    if lacking > MOST_MISSING * whole and not allow_missing:
        first = known.filter(pl.col("strata") < len(names))["key"][0]
        there = set(asked.filter(pl.col("key") == first)["of"])
        without = [name for name in natural_order(names) if name not in there]
        raise DataError(
            f"every {of} must ask the same questions, and {lacking:,} of {whole:,} are not in all, "
            f"the first is {by} {printable(first)[:40]!r}, which is not in {listed(without)}; add "
            "--allow-missing to compare the others"
        )
    kept = asked.select(pl.col("key").is_in(common.implode()).fill_null(False)).to_series()
    several = f"each for {len(names)} values of {of}"
    notes = [f"questions are clusters: {len(common):,} by {by}, {several}"]
    if left_out := int((~kept).sum()):
        notes.append(
            f"left out: {left_out:,} answers to questions without {by}, or that are not in every "
            f"{of}"
        )
    alike = asked.with_columns(rows.table["example"]).filter(kept).group_by("key", "of")
    twice = alike.agg(pl.col("example").n_unique().alias("times")).filter(pl.col("times") > 1)
    if twice.height:
        key, value, times = twice.sort("key", "of").row(0)
        notes.append(
            f"questions asked more than once in one {of}: {twice.height:,}, the first is {by} "
            f"{printable(key)[:40]!r}, {times} times in {printable(value)[:40]}; all answers count"
        )
    numbers = asked["key"].filter(kept).rank("dense").cast(pl.Int64) - 1
    examples = pl.col("example").rank("dense").cast(pl.Int64) - 1
    table = rows.table.filter(kept).with_columns(examples, numbers.alias(QUESTION))
    return (
        replace(rows, table=table),
        kept,
        strata._replace(reference=reference),
        notes,
    )


def stratum_losses(
    scores: ScoreTable,
    values: pl.Series,
    strata: Strata,
    *,
    lower_is_better: bool,
    level: float = 0.95,
) -> StrataLosses:
    """Compare the loss of each stratum with that of the reference, on the same questions.

    Args:
        scores: Of rows whose clusters are questions.
        values: The stratum of each row, shape (n,).
        strata: From `same_questions`.
        lower_is_better: Of the score.
        level: Coverage of the intervals, of `beyond` for all strata together (Bonferroni).

    >>> import numpy as np
    >>> from scotoma.comparison.means import score_table
    >>> row = np.arange(400)
    >>> table = score_table(np.ones(400), (row % 8 > 0) | (row % 2 == 1), row // 2)
    >>> lang = pl.Series(["sw", "en"] * 200)
    >>> found = stratum_losses(table, lang, Strata("lang", "id", "en"), lower_is_better=False)
    >>> found.worst, round(found.strata[1].beyond.value, 3), found.questions
    ('lang=sw', 0.25, 200)
    """
    whole, sign = Units.of(len(scores.before), scores.clusters), 1.0 if lower_is_better else -1.0
    losses = {
        group_key([(strata.attribute, value)]): _loss(
            whole, scores, (values == value).to_numpy(), sign
        )
        for value in natural_order(values.unique())
    }
    reference = group_key([(strata.attribute, strata.reference)])
    beyond = {
        key: (loss - losses[reference]).estimate(level=level)
        for key, loss in losses.items()
        if key != reference
    }
    p = dict(zip(beyond, holm([one.p_differs() for one in beyond.values()]).tolist(), strict=True))
    together = 1 - (1 - level) / len(beyond)
    found = [
        StratumLoss(
            key,
            loss.estimate(level=level),
            beyond[key].at(together) if key in beyond else None,
            p.get(key, math.nan),
        )
        for key, loss in losses.items()
    ]
    found.sort(key=lambda one: -math.inf if one.beyond is None else -np.nan_to_num(one.beyond.low))
    hit = [one.group for one in found[1:] if _is_worse(one)]
    questions = int(losses[reference].n)
    return StrataLosses(reference, strata.asked, questions, hit[0] if hit else "", tuple(found))


def _loss(whole: Units, scores: ScoreTable, mask: Flags, sign: float) -> Number:
    flip, axis = 1.0 if scores.binary else None, DENSE if scores.paired else COMPRESSED
    after = whole.mean(scores.after, mask, flip=flip, axis=axis)
    return sign * after.since(whole.mean(scores.before, mask, flip=flip))


def _is_worse(one: StratumLoss) -> bool:
    return one.beyond is not None and one.p_adjusted <= SIGNIFICANT and one.beyond.value > 0


def strata_section(found: StrataLosses, *, binary: bool) -> Section:
    """Tabulate the losses, and name the worst stratum."""
    unit, of = units(binary=binary)[1], ", points" if binary else ""
    columns = (
        Column("name", "stratum"),
        Column("n", "n", "count"),
        Column("loss", f"loss{of}", unit),
        Column("beyond", f"beyond {found.reference}{of}", unit),
        Column("hit", ""),
    )
    cells = [
        {
            "name": one.group, "n": one.loss.n, "loss": one.loss, "beyond": one.beyond,
            "hit": "*" if _is_worse(one) else "",
        }
        for one in found.strata
    ]  # fmt: skip
    several = len(found.strata) - 1
    of_questions = "question" if found.questions == 1 else "questions"
    said = f"No stratum surely loses more than {found.reference}"
    if found.worst:
        (worst,) = (one for one in found.strata if one.group == found.worst)
        said = f"Worst (*): {worst.group} loses {show(worst.beyond, unit).number} more"
        said += f" than {found.reference}"
    text = (
        f"{said}, on the same {found.questions:,} {of_questions}; intervals and Holm's correction "
        f"hold for {several} {'stratum' if several == 1 else 'strata'} together."
    )
    return Section("strata", "", [text], parts=[Table("strata", "", columns, cells, known=("",))])
