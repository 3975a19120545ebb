"""What do reruns of one model say: the same model evaluated again, on the same examples?

A rerun is no training run. It repeats a measurement of one model, so that the reruns of an example
are rows of one cluster: they take away noise of sampling or kernels, and add no doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.errors import DataError
from scotoma.numbers import Estimate, Units, none_seen
from scotoma.numbers.inputs import Codes, Floats
from scotoma.predictions.reruns import rerun_rows
from scotoma.readers.pairing import Pairing
from scotoma.readers.record import SCORE


@dataclass(frozen=True)
class RerunFloor:
    """How many answers change from one rerun to the next, beside those that compression changes.

    Attributes:
        n: Examples.
        within: Share of examples whose answer differs between two reruns of the dense model.
        across: Share whose answer differs between a rerun of the dense and one of the compressed
            model.
        excess: across - within, with the interval of a paired comparison.
    """

    n: int
    within: Estimate
    across: Estimate
    excess: Estimate


def align_reruns(before: int, after: int) -> tuple[Codes, Codes]:
    """Choose which rerun of one model stands beside which of the other.

    Args:
        before: Reruns of the dense model, at least 1.
        after: Reruns of the compressed model, at least 1.

    Returns:
        Numbers of reruns, each of shape (T,). Every rerun occurs equally often, unless that took
        more than four times as many rows as there are reruns; then some occur once more.

    Raises:
        DataError: A number below 1.

    >>> [side.tolist() for side in align_reruns(2, 3)]
    [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]
    >>> align_reruns(16, 14)[1].size
    16
    """
    if min(before, after) < 1:
        raise DataError(f"reruns must be at least 1 a model, got {before} and {after}")
    place = np.arange(rerun_rows([before, after]))
    return place % before, place % after


def rerun_floor(
    before: Sequence[npt.ArrayLike], after: Sequence[npt.ArrayLike], *, level: float = 0.95
) -> RerunFloor:
    """Compare how often answers change between two reruns and between the two models.

    Args:
        before: Codes of the dense model's answers, integers, shape (n, R) with R >= 2 reruns; one
            table for the examples that were asked equally often.
        after: Codes of the compressed model's answers to the same, shape (n, R').
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Shares over all pairs of reruns; only examples are random.

    Raises:
        DataError: Fewer than two reruns of the dense model, or other examples.

    >>> before = np.zeros((100, 2), int)
    >>> before[:4, 1] = 1
    >>> after = (np.arange(100) < 20).astype(int)[:, None]
    >>> floor = rerun_floor([before], [after])
    >>> [round(one.value, 3) for one in (floor.within, floor.across, floor.excess)]
    [0.04, 0.18, 0.14]
    """
    differing = [_differing(*map(np.asarray, both)) for both in zip(before, after, strict=True)]
    own, other = (np.concatenate(side) for side in zip(*differing, strict=True))
    n = len(own)
    units = Units(n)
    excess = replace(units.mean(other).since(units.mean(own)), events=np.nan).estimate(level=level)
    return RerunFloor(n, _share(own, level), _share(other, level), excess)


def _differing(d: npt.NDArray[np.int_], c: npt.NDArray[np.int_]) -> tuple[Floats, Floats]:
    """How often the answers to each example differ, between reruns and between models."""
    if d.ndim != 2 or c.ndim != 2 or len(d) != len(c) or d.shape[1] < 2 or not c.shape[1]:
        raise DataError(
            "a rerun floor needs two reruns of the dense model and one of the compressed on the "
            f"same examples, got shapes {d.shape} and {c.shape}; evaluate the dense model again"
        )
    pairs = product(range(d.shape[1]), range(c.shape[1]))
    return (
        _mean(d[:, i] != d[:, j] for i, j in combinations(range(d.shape[1]), 2)),
        _mean(d[:, i] != c[:, j] for i, j in pairs),
    )


def _mean(flags: object) -> Floats:
    return np.asarray(np.mean(np.stack(list(flags)), axis=0), np.float64)  # type: ignore[call-overload]


def _share(values: Floats, level: float) -> Estimate:
    n, value = len(values), float(values.mean())
    if not 0 < value < 1:
        return none_seen(value, n=n, members=1, lowest=0.0, highest=1.0, level=level)
    return Units(n).mean(values, flip=None).estimate("logit", level=level)


ATTRIBUTE = "attribute."  # begins the name of every column of attributes
QUESTION = "question"  # column that numbers what is asked in several languages or prompts
SIDES = ("before", "after")
OF_A_SIDE = {
    "answer": pl.String,
    "answer_hash": pl.UInt64,
    "choice": pl.Int32,
    "text_hash": pl.UInt64,
    "text_length": pl.Int32,
    "row": pl.Int64,
    "answered": pl.Boolean,
}
# How an answer ended, beside its score: scores of their own where logs say it, and which are harm.
BEHAVIOURS = {"cut_off": True, "refused": True, "tool_call": False, "output_tokens": True}
BEHAVIOURS |= {"margin": False}


@dataclass(frozen=True)
class PairedRows:
    """The answers of two models to the examples of one or more tasks.

    Attributes:
        table: `task`, `example` (its number), `example_id`, `position` (from 0 in the log),
            `prompt_length`, `prompt_script`, `target`, then `rerun`, `score`, `answer`,
            `answer_hash`, `choice`, `text_hash`, `text_length`, `row` and `unanswered` (whether it
            counts as wrong because there is no answer) with `_before` and `_after`, then the
            attributes.
        reruns: Of the dense and the compressed model, the most over the tasks.
        unscored: Examples that were left out, because one of the models has no score for them.
        notes: Sentences that a reader should know.
        left_out: The rows of these examples, as in `table`, where the score is how answers ended.
    """

    table: pl.DataFrame
    reruns: tuple[int, int]
    unscored: int
    notes: tuple[str, ...]
    left_out: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def attributes(self) -> list[str]:
        """Names of the attributes, without `attribute.`."""
        names = self.table.columns
        return [name.removeprefix(ATTRIBUTE) for name in names if name.startswith(ATTRIBUTE)]

    @property
    def clusters(self) -> Codes:
        """Number of each row's question, where it is asked in several ways; else its example."""
        own = QUESTION if QUESTION in self.table.columns else "example"
        return self.table[own].to_numpy().astype(np.intp)


def paired_rows(
    pairing: Pairing, score: str, *, task: str, attributes: Sequence[str] = ()
) -> PairedRows:
    """Put the answers of two models beside each other.

    Args:
        pairing: The examples that both answered.
        score: The score that both logs have.
        task: Their task.
        attributes: Columns of attributes, from the dense model's log.

    Returns:
        Rows of examples that both models were scored on, in every rerun.

    Raises:
        DataError: No example has a score of both.
    """
    before, uneven = _reruns(pairing.baseline)
    after, other = _reruns(pairing.compressed)
    reruns = _number(before), _number(after)
    first, second = align_reruns(*reruns)
    beside = pl.DataFrame({"before": first, "after": second}, schema=dict.fromkeys(SIDES, pl.Int64))
    shared = [
        pl.col("example_id", "content_hash", "prompt_length", "prompt_script", "target"),
        *(pl.col(name).alias(f"{ATTRIBUTE}{name}") for name in attributes),
    ]
    left = _side(before, score, "before", shared)
    right = _side(after, score, "after", [])
    rows = (
        left.join(beside.with_row_index("beside"), on="before")
        .join(right, on=["pair", "after"])
        .sort("pair", "beside")
        .rename({side: f"rerun_{side}" for side in SIDES})
    )
    rows = _wrong_where_unanswered(rows, score)
    scored = pl.all_horizontal(
        pl.col(f"score_{side}").is_finite().fill_null(False) for side in SIDES
    )
    whole = scored.all().over("pair")
    kept = rows.filter(whole)
    if not kept.height:
        raise DataError(
            f"score {score!r} of {task!r} must be there for an example of both models, got none; "
            "choose another with --score"
        )
    unscored = rows["pair"].n_unique() - kept["pair"].n_unique()
    position = pl.col("pair").rank("dense").cast(pl.Int64) - 1
    notes = [
        f"{task}: examples have different numbers of reruns; {number} of each are compared"
        for number, some in zip(reruns, (uneven, other), strict=True)
        if some
    ]
    table, unknown = (
        own.with_columns(task=pl.lit(task), example=position, position=pl.col("pair"))
        for own in (kept, rows.filter(~whole & pl.lit(score in BEHAVIOURS)))
    )
    return PairedRows(
        table.drop("pair", "beside"), reruns, unscored, tuple(notes), unknown.drop("pair", "beside")
    )


def _wrong_where_unanswered(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Take an example without score and answer as wrong, where others are right or wrong.

    A log that holds no answers at all does not say who gave none; and how an answer ended that is
    not there is not known.
    """
    for side in SIDES:
        score, answered = pl.col(f"score_{side}"), pl.col(f"answered_{side}")
        known = rows.filter(score.is_finite())[f"score_{side}"]
        none = ~score.is_finite().fill_null(False) & ~answered
        if (
            not known.is_in([0.0, 1.0]).all()
            or not rows[f"answered_{side}"].any()
            or (name in BEHAVIOURS)
        ):
            none = pl.lit(False)
        rows = rows.with_columns(
            pl.when(none).then(0.0).otherwise(score).alias(f"score_{side}"),
            none.alias(f"unanswered_{side}"),
        ).drop(f"answered_{side}")
    return rows


def joined_tasks(tasks: Sequence[PairedRows]) -> PairedRows:
    """Put several tasks below each other; the examples of each keep numbers of their own."""
    tables, start = [], 0
    for one in tasks:
        tables.append(one.table.with_columns(example=pl.col("example") + start))
        start += one.table["example"].n_unique()
    return PairedRows(
        pl.concat(tables, how="diagonal_relaxed"),
        (max(one.reruns[0] for one in tasks), max(one.reruns[1] for one in tasks)),
        sum(one.unscored for one in tasks),
        tuple(note for one in tasks for note in one.notes),
        pl.concat([one.left_out for one in tasks], how="diagonal_relaxed"),
    )


def _reruns(side: pl.DataFrame) -> tuple[pl.DataFrame, bool]:
    """Number the reruns of each example from 0, and keep as many as every example has."""
    numbered = side.sort("pair", "rerun", maintain_order=True).with_columns(
        pl.int_range(pl.len()).over("pair").alias("rerun")
    )
    counts = numbered.group_by("pair").len()["len"].to_numpy()
    fewest, most = int(counts.min()), int(counts.max())
    return numbered.filter(pl.col("rerun") < fewest), fewest < most


def _number(side: pl.DataFrame) -> int:
    return int(side["rerun"].to_numpy().max(initial=0)) + 1


def _side(table: pl.DataFrame, score: str, side: str, shared: Sequence[pl.Expr]) -> pl.DataFrame:
    own = [pl.col(name).cast(kind).alias(f"{name}_{side}") for name, kind in OF_A_SIDE.items()]
    value = pl.col(f"{SCORE}{score}").cast(pl.Float64).alias(f"score_{side}")
    rerun = pl.col("rerun").cast(pl.Int64).alias(side)
    own += [
        pl.col(f"{SCORE}{name}").alias(f"{name}_{side}")
        for name in BEHAVIOURS
        if f"{SCORE}{name}" in table.columns
    ]
    return table.select(pl.col("pair").cast(pl.Int64), rerun, *shared, value, *own)
