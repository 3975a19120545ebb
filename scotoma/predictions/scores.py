"""Every score of one member: a Parquet file, and beside it JSON that says what the scores are of.

`predicted` holds a class id per example and member. Techniques that decide by groups, ensembles and
thresholds need all scores: float32, a row an example, written a row group at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl
from pydantic import TypeAdapter

from scotoma.errors import DataError
from scotoma.predictions.matrix import AGAIN, write_frames
from scotoma.printable import printable
from scotoma.processes.unreadable import readable, reason
from scotoma.storage.files import written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    # Ids and scores (n, width) of the next rows.
    ScoredPart: TypeAlias = tuple[Sequence[str] | pl.Series, NDArray[np.float32]]


SCORE_ROWS = 2**14  # examples in a row group


@dataclass(frozen=True)
class ScoreHeads:
    """What the scores of one example are of.

    Score number `g * len(classes) + y` belongs to class y in the head of group g; a network
    without heads for groups has one head.

    Attributes:
        variant: Name of the variant.
        member: Index of the member in its population.
        classes: Class names by id.
        technique: How the member was trained; empty for plain training.
        attribute: Attribute whose values have heads; empty where there is one head.
        groups: Values of the attribute by code; empty where there is one head.
        train_counts: Training examples of every (group, class), G rows of C; empty without groups.

    >>> ScoreHeads("dense", 0, ("cat", "dog"), "DI2", "style", ("a", "b")).width
    4
    """

    variant: str
    member: int
    classes: tuple[str, ...]
    technique: str = ""
    attribute: str = ""
    groups: tuple[str, ...] = ()
    train_counts: tuple[tuple[int, ...], ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of heads G, at least 1, and of classes C."""
        return max(1, len(self.groups)), len(self.classes)

    @property
    def width(self) -> int:
        """Scores of one example: G * C."""
        heads, classes = self.shape
        return heads * classes


def write_scores(path: Path, parts: Iterable[ScoredPart], heads: ScoreHeads) -> None:
    """Write the scores of one member, and the JSON beside them.

    Args:
        path: The Parquet file: `example_id` and `scores`, a fixed-size list of `heads.width`
            float32. The JSON has the same name with the suffix `.json`.
        parts: Ids and scores (n, width) of the next n examples; each becomes a row group.
        heads: What the scores are of.

    Raises:
        DataError: A part has another shape.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "member-000.parquet")
    ...     heads = ScoreHeads("dense", 0, ("cat", "dog"))
    ...     write_scores(path, [(["a", "b"], np.float32([[1, 2], [3, 4]]))], heads)
    ...     print(read_scores(path)[1].tolist())
    [[1.0, 2.0], [3.0, 4.0]]
    """
    kind = pl.Array(pl.Float32, heads.width)
    schema = pl.Schema({"example_id": pl.String(), "scores": kind})

    def frames() -> Iterator[pl.DataFrame]:
        for ids, scores in parts:
            if scores.shape != (len(ids), heads.width):
                raise DataError(
                    f"scores of {heads.variant} member {heads.member} must have shape "
                    f"({len(ids)}, {heads.width}), got {scores.shape}; {AGAIN}"
                )
            columns = {"example_id": ids, "scores": np.ascontiguousarray(scores, np.float32)}
            yield pl.DataFrame(columns, schema=schema)

    with written(path) as temporary:
        write_frames(temporary, frames(), schema, rows=SCORE_ROWS)
    content = {"version": 1, "heads": list(heads.shape), "width": heads.width, **asdict(heads)}
    with written(path.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_heads(path: Path) -> ScoreHeads:
    """Read what the scores of a file are of.

    Raises:
        DataError: The JSON beside it is not that of `write_scores`.
    """
    beside = path.with_suffix(".json")
    try:
        return TypeAdapter(ScoreHeads).validate_json(beside.read_bytes())
    except (ValueError, OSError) as error:
        raise DataError(
            f"{printable(str(beside))} must say what scores are of ({reason(error)}); {AGAIN}"
        ) from error


def read_scores(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Read ids and scores, shape (N, width), of all examples.

    Raises:
        DataError: They are not those of `write_scores`.
    """
    heads = read_heads(path)
    with readable(path, AGAIN):
        table = pl.read_parquet(path, glob=False)
    wanted = {"example_id": pl.String(), "scores": pl.Array(pl.Float32, heads.width)}
    if dict(table.schema) != wanted:
        raise DataError(
            f"{printable(str(path))} must hold {heads.width} scores per example, got columns "
            f"{', '.join(f'{name} {kind}' for name, kind in table.schema.items())}; {AGAIN}"
        )
    scores = table["scores"].to_numpy().reshape(table.height, heads.width)
    return table["example_id"].to_list(), np.ascontiguousarray(scores)
