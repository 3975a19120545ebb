"""Which examples did both models answer, and were they asked the same questions?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.record import EvaluationLog, quoted_id
from scotoma.storage.credentials import masked

Key = Literal["content_hash", "example_id"]
MOST_MISSING = 0.01  # of the examples of both logs, that only one of them has
SHOWN = 3  # ids in a message
EXCERPT = 40  # characters of a prompt or target in a message
WAY_OUT = "evaluate both alike, or pass --allow-different-prompts"


@dataclass(frozen=True)
class Pairing:
    """The examples that two logs have in common.

    Attributes:
        baseline: Rows of the first log, sorted by `pair` and `rerun`, with the columns of its
            `examples` and `pair`, Int64: the number of the example, from 0.
        compressed: Rows of the second log, likewise; the same `pair` is the same example.
        examples: Number of common examples.
        key: By what they were paired.
        only_baseline: Ids of the examples that only the first log has.
        only_compressed: Ids of those that only the second one has.
        differences: A sentence for each difference in prompts or settings that was allowed; empty
            where both models were asked the same questions.
        notes: Sentences on what was paired otherwise than by whole ids or contents.
    """

    baseline: pl.DataFrame
    compressed: pl.DataFrame
    examples: int
    key: Key
    only_baseline: tuple[str, ...]
    only_compressed: tuple[str, ...]
    differences: tuple[str, ...]
    notes: tuple[str, ...] = ()


def pair(
    baseline: EvaluationLog,
    compressed: EvaluationLog,
    *,
    allow_different_prompts: bool = False,
    allow_missing: bool = False,
) -> Pairing:
    """Pair the examples of two logs: by content hash where all have one, else by id.

    Examples with the same content are told apart by their ids. The order in a log plays no part.

    Args:
        baseline: The log of the original model.
        compressed: The log of the compressed model, of the same task.
        allow_different_prompts: Whether prompts, targets, settings or the content of examples with
            the same id may differ.
        allow_missing: Whether more than 1% of the examples may be in one log only.

    Raises:
        DataError: They were not asked the same questions; the first difference is named, and how
            many there are.
    """
    differences = _settings(baseline, compressed)
    key: Key = "content_hash"
    logs = baseline, compressed
    if changed := _content(*logs):
        differences.append(changed)
    if changed or any(log.examples["content_hash"].null_count() for log in logs):
        key = "example_id"
    sides = [_keyed(log, key, logs) for log in logs]
    notes: tuple[str, ...] = ()
    if key == "example_id" and (named := _by_file_name(*sides)):
        sides = named
        notes = (f"{printable(baseline.task)}: ids are paired by the names of files in them.",)
    order = [side.unique("key", keep="first", maintain_order=True) for side in sides]
    common = order[0].select("key").join(order[1].select("key"), on="key", maintain_order="left")
    only = [
        tuple(one.join(common, on="key", how="anti", maintain_order="left")["example_id"])
        for one in order
    ]
    _check_missing(baseline, compressed, common.height, only, allow_missing=allow_missing)
    numbered = common.with_row_index("pair").with_columns(pl.col("pair").cast(pl.Int64))
    first, second = (
        side.join(numbered, on="key").sort("pair", "rerun").drop("key") for side in sides
    )
    for column in ("prompt", "target"):
        if different := _different(column, first, second, baseline, compressed):
            differences.append(different)
    if differences and not allow_different_prompts:
        more = f" ({len(differences) - 1} more differences)" if differences[1:] else ""
        raise DataError(
            f"{_pair_name(baseline, compressed)} must have been asked the same questions, but "
            f"{differences[0]}{more}; {WAY_OUT}"
        )
    return Pairing(
        first, second, common.height, key, only[0], only[1],
        tuple(f"{one[0].upper()}{one[1:]}." for one in differences), notes,
    )  # fmt: skip


def _pair_name(baseline: EvaluationLog, compressed: EvaluationLog) -> str:
    task = printable(baseline.task)
    return f"{printable(baseline.model)} and {printable(compressed.model)} of task {task}"


def _settings(baseline: EvaluationLog, compressed: EvaluationLog) -> list[str]:
    """Say which settings differ, of those that both logs know."""
    if baseline.format != compressed.format:
        return [f"the logs are of different tools, {baseline.format} and {compressed.format}"]
    ours, theirs = baseline.settings, compressed.settings
    return [
        f"{name} is {printable(ours[name])[:80]} in one and {printable(theirs[name])[:80]} in the "
        "other"
        for name in ours
        if name in theirs and ours[name] != theirs[name]
    ]


def _content(baseline: EvaluationLog, compressed: EvaluationLog) -> str:
    """Say how many examples have the same id and other content; empty where that is not the case.

    It is where contents hardly meet and ids do: the data set was changed, not its order. Where an
    example has no content, ids pair, and no two contents of one id may differ.
    """
    sides = [
        log.examples.select("example_id", "content_hash").unique("example_id", maintain_order=True)
        for log in (baseline, compressed)
    ]
    by_id = sides[0].join(sides[1], on="example_id", maintain_order="left")
    changed = by_id.filter(pl.col("content_hash") != pl.col("content_hash_right"))
    if changed.is_empty():
        return ""
    if not any(side["content_hash"].null_count() for side in sides):
        most = max(side.height for side in sides)
        contents = sides[0].join(sides[1], on="content_hash", how="semi").height
        if contents >= (1 - MOST_MISSING) * most or by_id.height <= contents:
            return ""
        if by_id.height < (1 - MOST_MISSING) * most:
            return ""
    return (
        f"{changed.height:,} of {by_id.height:,} examples with the same id differ in content, the "
        f"first is {quoted_id(changed['example_id'][0])}"
    )


def _keyed(log: EvaluationLog, key: Key, logs: tuple[EvaluationLog, ...]) -> pl.DataFrame:
    """Add what an example is paired by: its content, and its id too where content repeats."""
    if key == "example_id":
        return log.examples.with_columns(pl.col("example_id").alias("key"))
    repeated = [
        one.examples.group_by("content_hash")
        .agg(pl.col("example_id").n_unique())
        .filter(pl.col("example_id") > 1)["content_hash"]
        for one in logs
    ]
    return log.examples.with_columns(
        pl.when(pl.col("content_hash").is_in(pl.concat(repeated).implode()))
        .then(pl.concat_str("content_hash", pl.lit(" "), "example_id"))
        .otherwise("content_hash")
        .alias("key")
    )


def _by_file_name(first: pl.DataFrame, second: pl.DataFrame) -> list[pl.DataFrame] | None:
    """Pair by the names of files where ids are paths, and no id is in both logs.

    macOS writes accents as letters of their own, which NFC undoes.
    """
    if first.join(second, on="key", how="semi").height:
        return None
    name = pl.col("key").str.replace(r"^.*[/\\]", "").str.normalize("NFC")
    named = [side.with_columns(name) for side in (first, second)]
    sides = zip(named, (first, second), strict=True)
    unique = all(one["key"].n_unique() == side["key"].n_unique() for one, side in sides)
    return named if unique and named[0].join(named[1], on="key", how="semi").height else None


def _check_missing(
    baseline: EvaluationLog,
    compressed: EvaluationLog,
    common: int,
    only: list[tuple[str, ...]],
    *,
    allow_missing: bool,
) -> None:
    missing = len(only[0]) + len(only[1])
    if not common:
        raise DataError(
            f"{_pair_name(baseline, compressed)} have no example in common: the first are "
            f"{quoted_id(only[0][0])} and {quoted_id(only[1][0])}; name logs of the same data"
        )
    if missing > MOST_MISSING * (common + missing) and not allow_missing:
        parts = [
            f"{len(ids):,} only in {printable(log.model)} "
            f"({', '.join(map(quoted_id, ids[:SHOWN]))}{', ...' if len(ids) > SHOWN else ''})"
            for log, ids in zip((baseline, compressed), only, strict=True)
            if ids
        ]
        raise DataError(
            f"{_pair_name(baseline, compressed)} must have answered the same examples, but "
            f"{missing:,} of {common + missing:,} are in one log only: {' and '.join(parts)}; "
            "evaluate both on the same data, or pass --allow-missing"
        )


def _different(
    column: str,
    first: pl.DataFrame,
    second: pl.DataFrame,
    baseline: EvaluationLog,
    compressed: EvaluationLog,
) -> str:
    """Say how many prompts or targets differ, and how the first does."""
    hashed = f"{column}_hash"
    both = first.select("pair", "rerun", "example_id", "row", hashed).join(
        second.select("pair", "rerun", "row", hashed), on=["pair", "rerun"], maintain_order="left"
    )
    different = both.filter(pl.col(hashed) != pl.col(f"{hashed}_right"))
    if different.is_empty():
        return ""
    row = different.row(0, named=True)
    texts = [
        log.read_texts([number])[column][0]
        for log, number in ((baseline, row["row"]), (compressed, row["row_right"]))
    ]
    shown = ""
    if None not in texts:
        one, other = _excerpts(*texts)
        shown = f" ({one} against {other})"
    examples = different["pair"].n_unique()
    return (
        f"{examples:,} of {both['pair'].n_unique():,} {column}s differ, the first of example "
        f"{quoted_id(row['example_id'])}{shown}"
    )


def _excerpts(one: str, other: str) -> tuple[str, str]:
    """Quote both texts from shortly before where they part.

    >>> _excerpts("Q: What is 1 + 1?", "Q: What is 1 + 2?")
    ("'Q: What is 1 + 1?'", "'Q: What is 1 + 2?'")
    """
    short = min(len(one), len(other))
    parting = next((i for i in range(short) if one[i] != other[i]), short)
    start = max(0, parting - EXCERPT // 2)
    quoted = [
        repr(("..." if start else "") + printable(masked(text))[start : start + EXCERPT])
        for text in (one, other)
    ]
    return quoted[0], quoted[1]
