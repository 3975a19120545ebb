"""What the members said: the Predictions matrix, N examples by K members, and its file."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from scotoma.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Predictions", "label_counts"]


@dataclass(frozen=True)
class Predictions:
    """The class ids that every member of one variant gives every example.

    Attributes:
        variant: Its name.
        example_ids: Shape (N,), unique.
        members: Indices of the members in their population, ascending, shape (K,).
        classes: Class names by id.
        predicted: Class ids, uint16, shape (N, K).
        paired_with: Variant whose member of the same index each member derives from, or "".
    """

    variant: str
    example_ids: tuple[str, ...]
    members: tuple[int, ...]
    classes: tuple[str, ...]
    predicted: NDArray[np.uint16]
    paired_with: str = ""

    def __post_init__(self) -> None:
        expected = (len(self.example_ids), len(self.members))
        if self.predicted.shape != expected:
            raise DataError(
                f"predictions of {self.variant} have shape {self.predicted.shape} for "
                f"{expected[0]} examples and {expected[1]} members"
            )
        if len(set(self.example_ids)) < len(self.example_ids):
            twice = next(i for i, n in Counter(self.example_ids).items() if n > 1)
            raise DataError(
                f"predictions of {self.variant} hold example {twice!r} twice; ids must be unique"
            )
        if self.predicted.size and int(self.predicted.max()) >= len(self.classes):
            raise DataError(
                f"predictions of {self.variant} hold class id {int(self.predicted.max())}; ids go "
                f"from 0 to {len(self.classes) - 1}"
            )

    def write(self, path: Path) -> None:
        """Write Parquet: `example_id` and `predicted`, a fixed-size list of K class ids."""
        table = pl.DataFrame(
            {
                "example_id": pl.Series(self.example_ids, dtype=pl.String),
                "predicted": pl.Series(
                    self.predicted, dtype=pl.Array(pl.UInt16, len(self.members))
                ),
            }
        )
        table.write_parquet(
            path,
            metadata={
                "scotoma.variant": self.variant,
                "scotoma.members": ",".join(map(str, self.members)),
                "scotoma.classes": json.dumps(self.classes),
                "scotoma.paired_with": self.paired_with,
            },
        )

    @classmethod
    def read(cls, path: Path) -> Predictions:
        """Read what `write` wrote."""
        metadata = pl.read_parquet_metadata(path)
        table = pl.read_parquet(path, glob=False)
        return cls(
            variant=metadata["scotoma.variant"],
            example_ids=tuple(table["example_id"]),
            members=tuple(map(int, metadata["scotoma.members"].split(","))),
            classes=tuple(json.loads(metadata["scotoma.classes"])),
            predicted=np.ascontiguousarray(table["predicted"].to_numpy()),
            paired_with=metadata["scotoma.paired_with"],
        )

    @classmethod
    def gather(cls, parts: list[Predictions]) -> Predictions:
        """Put the members of several shards side by side, in the order of their indices.

        Raises:
            DataError: The shards are not of one variant and the same examples.
        """
        first = parts[0]
        for part in parts[1:]:
            if (part.variant, part.example_ids) != (first.variant, first.example_ids):
                raise DataError(
                    f"shards of {first.variant} hold predictions for different examples; "
                    "run the predict step again"
                )
            if part.classes != first.classes:
                raise DataError(
                    f"shards of {first.variant} count different classes; run the predict step again"
                )
        members = np.concatenate([part.members for part in parts])
        if len(set(members.tolist())) < len(members):
            raise DataError(
                f"shards of {first.variant} hold a member twice, {sorted(members.tolist())}; "
                "run the predict step again"
            )
        order = np.argsort(members, kind="stable")
        return cls(
            variant=first.variant,
            example_ids=first.example_ids,
            members=tuple(members[order].tolist()),
            classes=first.classes,
            predicted=np.concatenate([part.predicted for part in parts], axis=1)[:, order],
            paired_with=first.paired_with,
        )


def label_counts(predicted: NDArray[np.integer], classes: int) -> NDArray[np.int64]:
    """How many members give each example each class.

    Args:
        predicted: Class ids, shape (N, K).
        classes: Number of classes C.

    Returns:
        Counts b[x, i], int64, shape (N, C); every row sums to K.

    Raises:
        DataError: A class id is out of range.

    References:
        Hooker et al. (2020), "Characterising Bias in Compressed Models", section 2.

    >>> label_counts(np.array([[0, 2, 2], [1, 1, 1]]), 3)
    array([[1, 0, 2],
           [0, 3, 0]])
    """
    if predicted.size and not 0 <= predicted.min() <= predicted.max() < classes:
        raise DataError(
            f"predicted holds a class id outside 0 to {classes - 1}: "
            f"{predicted.min()} to {predicted.max()}; number the classes from 0"
        )
    n = len(predicted)
    cells = predicted.astype(np.int64) + classes * np.arange(n)[:, None]
    return np.bincount(cells.ravel(), minlength=n * classes).reshape(n, classes)
