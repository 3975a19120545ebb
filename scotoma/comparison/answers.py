"""What did two models answer: names of classes, or what is right, wrong, and wrong otherwise?"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from scotoma.answers.admission import speak_of_classes, unasked_chance
from scotoma.answers.pair import Answers, Examples, NumberedClasses, Pair
from scotoma.comparison.logs import ComparedLogs
from scotoma.comparison.reruns import SIDES
from scotoma.readers.extract import TABLES

RIGHT, WRONG, OTHER = "right", "wrong", "wrong, another answer"
NO_LABELS = "logs say what is right, and hold no labels"
ONE_LABEL = "every label is the same"


def admitted(compared: Sequence[ComparedLogs]) -> list[Pair]:
    """Admit the answers of the original and of each compressed model, in binary scores.

    Labels and answers of tables were read in one language, file by file. Where they are names of
    classes these are kept; elsewhere every label is `right`, and an answer is right, wrong or wrong
    in another way. The rows of an example that was asked again are one cluster.
    """
    # A cell of a table that is empty is no answer; logs of tools may keep answers to themselves.
    tables = all(
        log.format in TABLES for one in compared for logs in one.logs for log in logs.values()
    )
    named = tables and all(_are_names(one.rows.table) for one in compared)
    return [_pair(one, tables=tables, named=named) for one in compared]


def are_outcomes(pair: Pair) -> bool:
    """Whether answers are right or wrong, and no names of classes."""
    return pair.classes[:2] == (RIGHT, WRONG)


def _pair(one: ComparedLogs, *, tables: bool, named: bool) -> Pair:
    table = one.rows.table
    truth = table["target"] if named else pl.repeat(RIGHT, table.height, eager=True)
    sides = [_answers(table, side, named=named, tables=tables) for side in SIDES]
    known = truth.unique() if named else [RIGHT, WRONG, *({OTHER} & {*pl.concat(sides)})]
    numbered = NumberedClasses.of(known, sides)
    dense, compressed = (
        Answers(name, numbered.ids(answers)[:, None])
        for name, answers in zip(one.models, sides, strict=True)
    )
    again = max(one.rows.reruns) > 1 or one.strata is not None
    reason = ONE_LABEL if tables and _one_label(table) else NO_LABELS
    return Pair(
        examples=Examples(
            labels=numbered.ids(truth)[:, None],
            classes=numbered.classes,
            groups=one.groups,
            cluster=one.rows.clusters if again else None,
        ),
        dense=dense,
        compressed=compressed,
        notes=one.admission if named else (*one.admission, unasked_chance(reason)),
    )


def _are_names(table: pl.DataFrame) -> bool:
    """Whether answers are names of classes, and right means equal to the label."""
    answers = [table[f"answer_{side}"] for side in SIDES]
    for side, own in zip(SIDES, answers, strict=True):
        equal = (own == table["target"]).fill_null(False).cast(pl.Float64)
        if own.null_count() == table.height or not (equal == table[f"score_{side}"]).all():
            return False
    names = pl.concat([table["target"], *answers]).drop_nulls().n_unique()
    whole = not table["target"].null_count() and not _one_label(table)
    return whole and speak_of_classes(names, table.height)


def _one_label(table: pl.DataFrame) -> bool:
    """Whether all examples have the same label: answers are then right or wrong, and no classes."""
    return not table["target"].null_count() and table["target"].n_unique() == 1


def _answers(table: pl.DataFrame, side: str, *, named: bool, tables: bool) -> pl.Series:
    """What one model answers, null where it gave no answer."""
    wrong, answer = pl.col(f"score_{side}") != 1, pl.col(f"answer_{side}")
    answers = answer
    if not named:
        moved = wrong & (pl.col(f"answer_hash_{side}") != _usual_wrong_answer())
        answers = pl.when(moved).then(pl.lit(OTHER)).when(wrong).then(pl.lit(WRONG))
        answers = answers.otherwise(pl.lit(RIGHT))
    given = ~pl.col(f"unanswered_{side}")
    if tables and table[f"answer_{side}"].null_count() < table.height:
        given &= answer.is_not_null() | ~wrong
    return table.select(pl.when(given).then(answers).alias(side)).to_series()


def _usual_wrong_answer() -> pl.Expr:
    """The first wrong answer to each example in any rerun, the original's where it gave one."""
    first = (
        pl.col(f"answer_hash_{side}")
        .filter((pl.col(f"score_{side}") != 1) & ~pl.col(f"unanswered_{side}"))
        .first()
        .over("example")
        for side in SIDES
    )
    return pl.coalesce(*first)
