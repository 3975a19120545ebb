"""A number for each example and model, where predictions are no classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from scotoma.answers.note import AdmissionNote, notes_metadata, read_notes
from scotoma.errors import DataError
from scotoma.predictions.files import NUMBERS
from scotoma.processes.unreadable import readable

if TYPE_CHECKING:
    from numpy.typing import NDArray


AGAIN = "repeat the audit to make it again"


@dataclass(frozen=True, eq=False)
class ScoredExamples:
    """The scores that every member of one variant gets on every example.

    Attributes:
        variant: Its name.
        example_ids: The examples.
        members: Indices of the members.
        predicted: Scores, float64, shape (N, K).
        paired_with: Variant that each member derives from, or "".
        admission: How the numbers were read, and whether they are better than guessing.
    """

    variant: str
    example_ids: tuple[str, ...]
    members: tuple[int, ...]
    predicted: NDArray[np.float64]
    paired_with: str = ""
    admission: tuple[AdmissionNote, ...] = ()

    def write(self, path: Path) -> None:
        """Write Parquet: `example_id`, and `score`, a fixed-size list of K float64."""
        wide = len(self.members)
        scores = np.ascontiguousarray(self.predicted, np.float64).reshape(-1, wide)
        pl.DataFrame(
            {
                "example_id": pl.Series(self.example_ids, dtype=pl.String),
                "score": pl.Series(scores, dtype=pl.Array(pl.Float64, wide)),
            }
        ).write_parquet(
            path,
            metadata={
                NUMBERS: "score",
                "scotoma.variant": self.variant,
                "scotoma.members": ",".join(map(str, self.members)),
                "scotoma.paired_with": self.paired_with,
                **notes_metadata(self.admission),
            },
        )

    @classmethod
    def read(cls, path: Path) -> ScoredExamples:
        """Read what `write` wrote.

        Raises:
            DataError: It is no such file.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "dense.parquet")
        ...     ScoredExamples("dense", ("a",), (0, 1), np.array([[0.5, 2.0]])).write(path)
        ...     ScoredExamples.read(path).predicted.tolist()
        [[0.5, 2.0]]
        """
        with readable(path, AGAIN):
            metadata = pl.read_parquet_metadata(path)
            table = pl.read_parquet(path, glob=False)
        members = metadata.get("scotoma.members", "").split(",")
        kind = table.schema.get("score")
        if NUMBERS not in metadata or kind != pl.Array(pl.Float64, len(members)):
            raise DataError(f"{path} must hold scores as an audit leaves them; {AGAIN}")
        return cls(
            metadata["scotoma.variant"],
            tuple(table["example_id"]),
            tuple(map(int, members)),
            np.ascontiguousarray(table["score"].to_numpy()).reshape(-1, len(members)),
            metadata.get("scotoma.paired_with", ""),
            read_notes(metadata),
        )
