"""Make a row of every (example, label), where an example has several labels.

All that is measured after predictions is then what it is for one label: the class is whether the
label is present, which label it is is an attribute, and the rows of an example are one cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from scotoma.config.label import ABSENT, EXAMPLE, IS_PRESENT, PRESENT, Label
from scotoma.datasets.text_columns import absent_column
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.tables import refuse_doubled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray


MARK = "#"  # between an example's id and a label
BITS = {"0": False, "1": True, "false": False, "true": True, "0.0": False, "1.0": True}


def pair_ids(ids: pl.Expr, labels: pl.Expr) -> pl.Expr:
    """Name the pairs of examples and labels.

    >>> pl.select(pair_ids(pl.lit("a.png"), pl.lit("dog"))).item()
    'a.png#dog'
    """
    return pl.concat_str(ids.cast(pl.String), pl.lit(MARK), labels)


def example_of_pair(pair_id: str, label: str) -> str:
    """Tell the example of a pair.

    >>> example_of_pair("a.png#dog", "dog")
    'a.png'
    """
    return pair_id.removesuffix(MARK + label)


def label_rows(values: NDArray[Any]) -> NDArray[Any]:
    """Give each label of each image a row, from shape (N, K, L) to (N * L, K).

    >>> import numpy as np
    >>> label_rows(np.array([[["a0", "b0"], ["a1", "b1"]]])).tolist()
    [['a0', 'a1'], ['b0', 'b1']]
    """
    return values.swapaxes(1, 2).reshape(-1, values.shape[1])


def label_pairs(table: pl.DataFrame, label: Label, origin: str) -> pl.DataFrame:
    """Give every example a row for each of its labels.

    Args:
        table: One row an example: `example_id`, a column of 0 and 1 for each label, and others.
        label: Which columns are labels.
        origin: What messages call the table.

    Returns:
        One row a pair, those of an example together and in the order of `label.columns`, with
        `example_id` of `pair_ids`; `label_present`, the label's name in the column of
        `label.attribute`, and the example in `labelled_example`; other columns are repeated, but
        `image`, which the first row of an example keeps.

    Raises:
        DataError: A column is absent, taken, or holds anything but 0 and 1.

    >>> table = pl.DataFrame({"example_id": ["a"], "cat": [1], "dog": [0], "sex": ["f"]})
    >>> label_pairs(table, Label(columns=["cat", "dog"]), "t.csv").rows()[1]
    ('f', 'a#dog', 'dog', 'absent', 'a')
    """
    for name in (label.attribute, IS_PRESENT, EXAMPLE):
        if name in table.columns:
            way = "name another label.attribute" if name == label.attribute else "rename the column"
            raise DataError(
                printable(
                    f"{origin} has a column {name!r}, which pairs of examples and labels get; {way}"
                )
            )
    bits = [_bits(table, name, origin) for name in label.columns]
    own = (*label.columns, "example_id", "image")
    others = [name for name in table.columns if name not in own]
    names = pl.lit(pl.Series(label.columns)).implode()
    pairs = (
        table.with_columns(
            pl.col("example_id").cast(pl.String).alias(EXAMPLE),
            names.alias(label.attribute),
            pl.concat_list(bits).alias(IS_PRESENT),
        )
        .select(*others, EXAMPLE, label.attribute, IS_PRESENT)
        .explode(label.attribute, IS_PRESENT)
    )
    image = []
    if "image" in table.columns:
        rest = [pl.lit(None)] * (len(bits) - 1)
        image = [table.select(pl.concat_list("image", *rest).alias("image").explode())["image"]]
    return pairs.select(
        *image,
        *others,
        pair_ids(pl.col(EXAMPLE), pl.col(label.attribute)).alias("example_id"),
        label.attribute,
        pl.when(IS_PRESENT).then(pl.lit(PRESENT)).otherwise(pl.lit(ABSENT)).alias(IS_PRESENT),
        EXAMPLE,
    )


def labels_note(pairs: pl.DataFrame, label: Label) -> str:
    """Say what the rows are, and which labels no test example has.

    Args:
        pairs: From `label_pairs`.
        label: Which columns are labels.

    >>> table = pl.DataFrame({"example_id": ["a"], "split": ["test"], "cat": [1], "dog": [0]})
    >>> label = Label(columns=["cat", "dog"])
    >>> labels_note(label_pairs(table, label, "t.csv"), label)
    "each of 1 test examples has a row for each of 2 labels; 1 is in none of them, the first 'dog'"
    """
    tested = pairs.filter(pl.col("split") == "test")
    seen = set(tested.filter(pl.col(IS_PRESENT) == PRESENT)[label.attribute])
    note = (
        f"each of {tested.height // len(label.columns):,} test examples has a row for each of "
        f"{len(label.columns):,} labels"
    )
    if unseen := [name for name in label.columns if name not in seen]:
        verb = "is" if len(unseen) == 1 else "are"
        note += f"; {len(unseen):,} {verb} in none of them, the first {printable(unseen[0])!r}"
    return note


def refuse_unlearnable(pairs: pl.DataFrame, label: Label, origin: str) -> None:
    """Refuse labels that all or no training examples have.

    Args:
        pairs: From `label_pairs`, with `split`.
        label: Which columns are labels.
        origin: What messages call the table.

    Raises:
        DataError: A label has one value in training.
    """
    taught = pairs.filter(pl.col("split") == "train")
    for (name,), own in taught.group_by(label.attribute, maintain_order=True):
        shown = int((own[IS_PRESENT] == PRESENT).sum())
        if shown in (0, own.height):
            raise DataError(
                printable(
                    f"label column {name!r} of {origin} must be 1 for some training examples and 0 "
                    f"for others, got {int(shown > 0)} for all {own.height:,}; leave it out of "
                    "label.columns, or add examples"
                )
            )


def _bits(table: pl.DataFrame, name: str, origin: str) -> pl.Series:
    """Whether each example has a label."""
    if name not in table.columns:
        raise absent_column(name, "label", table.columns, origin)
    refuse_doubled(name, table.columns, origin)
    text = table[name].cast(pl.String, strict=False).str.to_lowercase()
    bits = text.replace_strict(BITS, default=None, return_dtype=pl.Boolean)
    if (wrong := bits.is_null()).any():
        first: Sequence[object] = table.filter(wrong).select("example_id", name).row(0)
        raise DataError(
            printable(
                f"label column {name!r} of {origin} must hold 0 or 1, got {first[1]!r} in the row "
                f"of {first[0]!r} ({int(wrong.sum()):,} such rows); correct or remove them"
            )
        )
    return bits.alias(name)
