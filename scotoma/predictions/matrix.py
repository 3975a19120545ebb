"""The answers of one variant: N examples by K members, in memory and in Parquet."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from scotoma.answers.note import AdmissionNote, notes_metadata, read_notes
from scotoma.answers.pair import Answers
from scotoma.errors import DataError
from scotoma.numbers.inputs import first_difference, integers
from scotoma.processes.unreadable import readable, reason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    ClassIds: TypeAlias = NDArray[np.unsignedinteger[Any]]


TOP, FEW_CLASSES = 5, 10
NUMBERS = "scotoma.numbers"  # in the metadata of a file of numbers
ROWS = 2**18  # examples in a row group
WRITE = "write predictions with Predictions.write"
AGAIN = "repeat the audit to make it again"


def kept_classes(classes: int) -> int:
    """How many of a member's best classes are kept: five of more than ten classes, else one.

    >>> kept_classes(10), kept_classes(11)
    (1, 5)
    """
    return TOP if classes > FEW_CLASSES else 1


@dataclass(frozen=True)
class Predictions(Answers):
    """The answers of one variant of an audit.

    Attributes:
        variant: Its name.
        predicted: Class ids, uint8 or uint16, shape (N, K).
        example_ids: Shape (N,), unique.
        members: Indices of the members in their population, ascending, shape (K,).
        classes: Class names by id.
        paired_with: Variant whose member of the same index each member derives from, or "".
        scores: Softmax probability of each predicted class, float16, shape (N, K), or None.
        runtimes: What ran the members, in words, each way once.
        top5: The five classes of the highest scores, the highest first, shape (N, K, 5), or None.
        admission: How the answers were read, where they are others'.
    """

    example_ids: tuple[str, ...]
    members: tuple[int, ...]
    classes: tuple[str, ...]
    paired_with: str = ""
    scores: NDArray[np.float16] | None = None
    runtimes: tuple[str, ...] = ()
    top5: ClassIds | None = None
    admission: tuple[AdmissionNote, ...] = ()

    def __post_init__(self) -> None:
        shape = (len(self.example_ids), len(self.members))
        _refuse_ids(self.variant, shape, len(self.classes), self.predicted)
        if self.scores is not None:
            _refuse_unless("scores", self.variant, shape, self.scores)
        if self.top5 is not None:
            _refuse_unless("top-5", self.variant, (*shape, TOP), self.top5)
            _refuse_ids(self.variant, (*shape, TOP), len(self.classes), self.top5)
        if len(set(self.example_ids)) < len(self.example_ids):
            twice = next(i for i, n in Counter(self.example_ids).items() if n > 1)
            raise DataError(
                f"predictions of {self.variant} hold example {twice!r} twice; ids must be unique"
            )

    def rows(self, kept: slice) -> Predictions:
        """Take some of the examples."""
        return replace(
            self,
            predicted=self.predicted[kept],
            example_ids=self.example_ids[kept],
            scores=None if self.scores is None else self.scores[kept],
            top5=None if self.top5 is None else self.top5[kept],
        )

    @property
    def frame(self) -> pl.DataFrame:
        """A row an example: `example_id`, and what is kept as fixed-size lists.

        `predicted` has K class ids (uint8 up to 256 classes, else uint16), `score` K float16, and
        `predicted_top5` 5 K class ids, the five of each member in turn.
        """
        ids = smallest_type(len(self.classes))
        held = {
            "predicted": (self.predicted, ids),
            "score": (self.scores, np.float16),
            "predicted_top5": (self.top5, ids),
        }
        columns = {
            name: array.astype(kind).reshape(len(array), math.prod(array.shape[1:]))
            for name, (array, kind) in held.items()
            if array is not None
        }
        names = pl.Series("example_id", self.example_ids, pl.String)
        return pl.DataFrame([names, *(pl.Series(*column) for column in columns.items())])

    @property
    def metadata(self) -> dict[str, str]:
        """Whose predictions a file holds."""
        return {
            **_whose(self.variant, self.members, self.paired_with, self.admission),
            "scotoma.classes": json.dumps(list(self.classes)),
            "scotoma.runtimes": json.dumps(list(self.runtimes)),
        }

    def write(self, path: Path) -> None:
        """Write Parquet: see `write_predictions`."""
        starts = range(0, max(1, len(self.example_ids)), ROWS)
        write_predictions(path, (self.rows(slice(at, at + ROWS)) for at in starts))

    @classmethod
    def read(cls, path: Path, *, rows: int | None = None, top5: bool = False) -> Predictions:
        """Read what `write` wrote, or its first rows; 0 rows tell whose predictions it holds.

        The top-5 class ids, five times as large as the rest, are read only if they are asked for.

        Raises:
            DataError: It is no Parquet file that `write_predictions` wrote.
        """
        return next(cls.parts(path, rows, top5=top5))

    @classmethod
    def parts(
        cls, path: Path, rows: int | None = ROWS, *, top5: bool = False
    ) -> Iterator[Predictions]:
        """Read what `write` wrote, `rows` examples at a time; only one part is in memory.

        Raises:
            DataError: As `read`.
        """
        with readable(path, WRITE):
            metadata = pl.read_parquet_metadata(path)
            scan = pl.scan_parquet(path, glob=False)
            columns = scan.collect_schema()
            height = int(scan.select(pl.len()).collect().item())
        if NUMBERS in metadata:
            raise DataError(
                f"{path} holds a number for each example and no class; this command needs classes: "
                "see audit.json and report.html of the run"
            )
        if "scotoma.variant" not in metadata or not {"example_id", "predicted"} <= set(columns):
            raise DataError(
                f"{path} must hold predictions as Predictions.write leaves them, got columns "
                f"{', '.join(columns)}; audit other tables with source.kind: predictions"
            )
        try:
            whose = _read_whose(metadata)
            wide, kind = len(whose["members"]), columns["predicted"]
            five = columns.get("predicted_top5")
            if not isinstance(kind, pl.Array) or kind.size != wide:
                raise ValueError(f"{wide} members and a column of {kind}")
            if five not in (None, pl.Array(kind.inner, TOP * wide)):
                raise ValueError(f"{wide} members and a column of {five}")
            for key, default in (("classes", ""), ("runtimes", "[]")):
                texts = json.loads(metadata.get(f"scotoma.{key}", default))
                whose[key] = tuple(map(str, texts))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(
                f"{path} must say whose predictions it holds ({reason(error)}); {WRITE}"
            ) from error
        kept: dict[str, tuple[int, ...]] = {"predicted": (wide,), "score": (wide,)}
        kept |= {"predicted_top5": (wide, TOP)} if top5 else {}
        names = [name for name in kept if name in columns]
        for start in range(0, max(height, 1), rows or max(height, 1)):
            with readable(path, WRITE):
                table = scan.select("example_id", *names).slice(start, rows).collect()
            held = {name: _matrix(table[name], *kept[name]) for name in names}
            yield cls(
                example_ids=tuple(table["example_id"]), predicted=held["predicted"],
                scores=held.get("score"), top5=held.get("predicted_top5"), **whose,
            )  # fmt: skip

    @classmethod
    def gather(cls, parts: list[Predictions]) -> Predictions:
        """Put the members of several shards side by side, in the order of their indices.

        Raises:
            DataError: The shards are not of one variant and the same examples.
        """
        first = parts[0]
        for part in parts[1:]:
            if part.variant != first.variant:
                raise DataError(
                    f"shards of {first.variant} must hold its members, got those of "
                    f"{part.variant}; run the predict step again"
                )
            if apart := first_difference(first.example_ids, part.example_ids):
                raise DataError(
                    f"shards of {first.variant} must hold the same examples in the same order, got "
                    f"{apart}; run the predict step again"
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
        scores = [part.scores for part in parts if part.scores is not None]
        top5 = [part.top5 for part in parts if part.top5 is not None]
        return cls(
            variant=first.variant,
            example_ids=first.example_ids,
            members=tuple(members[order].tolist()),
            classes=first.classes,
            predicted=np.concatenate([part.predicted for part in parts], axis=1)[:, order],
            paired_with=first.paired_with,
            scores=np.concatenate(scores, axis=1)[:, order] if len(scores) == len(parts) else None,
            runtimes=tuple(sorted({runtime for part in parts for runtime in part.runtimes})),
            top5=np.concatenate(top5, axis=1)[:, order] if len(top5) == len(parts) else None,
            admission=tuple(dict.fromkeys(note for part in parts for note in part.admission)),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredExamples(Answers):
    """A number for each example and model, where predictions are no classes.

    Attributes:
        variant: Its name.
        predicted: Scores, float64, shape (N, K).
        example_ids: The examples.
        members: Indices of the members.
        paired_with: Variant that each member derives from, or "".
        admission: How the numbers were read, and whether they are better than guessing.
    """

    example_ids: tuple[str, ...]
    members: tuple[int, ...]
    paired_with: str = ""
    admission: tuple[AdmissionNote, ...] = ()

    def write(self, path: Path) -> None:
        """Write Parquet: `example_id`, and `score`, a fixed-size list of K float64."""
        whose = _whose(self.variant, self.members, self.paired_with, self.admission)
        names = pl.Series("example_id", self.example_ids, pl.String)
        scores = pl.Series("score", np.ascontiguousarray(self.predicted, np.float64))
        pl.DataFrame([names, scores]).write_parquet(path, metadata={NUMBERS: "score", **whose})

    @classmethod
    def read(cls, path: Path) -> ScoredExamples:
        """Read what `write` wrote.

        Raises:
            DataError: It is no such file.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "dense.parquet")
        ...     numbers = np.array([[0.5, 2.0]])
        ...     ScoredExamples("dense", numbers, example_ids=("a",), members=(0, 1)).write(path)
        ...     ScoredExamples.read(path).predicted.tolist()
        [[0.5, 2.0]]
        """
        with readable(path, AGAIN):
            metadata = pl.read_parquet_metadata(path)
            table = pl.read_parquet(path, glob=False)
        wide = metadata.get("scotoma.members", "").count(",") + 1
        if NUMBERS not in metadata or table.schema.get("score") != pl.Array(pl.Float64, wide):
            raise DataError(f"{path} must hold scores as an audit leaves them; {AGAIN}")
        scores, names = _matrix(table["score"], wide), tuple(table["example_id"])
        return cls(predicted=scores, example_ids=names, **_read_whose(metadata))


def _whose(
    variant: str, members: Iterable[int], paired_with: str, admission: Iterable[AdmissionNote]
) -> dict[str, str]:
    return {
        "scotoma.variant": variant,
        "scotoma.members": ",".join(map(str, members)),
        "scotoma.paired_with": paired_with,
        **notes_metadata(admission),
    }


def _read_whose(metadata: Mapping[str, str]) -> dict[str, Any]:
    return {
        "variant": metadata["scotoma.variant"],
        "members": tuple(map(int, metadata.get("scotoma.members", "").split(","))),
        "paired_with": metadata["scotoma.paired_with"],
        "admission": read_notes(metadata),
    }


def _matrix(column: pl.Series, *shape: int) -> NDArray[Any]:
    return np.ascontiguousarray(column.to_numpy()).reshape(len(column), *shape)


def write_frames(
    path: Path,
    frames: Iterable[pl.DataFrame],
    schema: pl.Schema,
    *,
    rows: int,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write frames to Parquet as they come, in row groups of `rows`.

    Raises:
        DataError: As `frames` raises it, in its own words and not in those of the engine.
    """
    faults: list[DataError] = []

    def source(*_: Any) -> Iterator[pl.DataFrame]:
        try:
            yield from frames
        except DataError as fault:
            faults.append(fault)

    register_io_source(source, schema=schema).sink_parquet(
        path, row_group_size=rows, maintain_order=True, metadata=dict(metadata or {})
    )
    if faults:
        raise faults[0]


def write_predictions(path: Path, parts: Iterable[Predictions]) -> None:
    """Write the predictions of one variant as they come, a row group at a time.

    Memory is that of a few parts: about n x K x 3 bytes each, and the ids.

    Args:
        path: The Parquet file; see `Predictions.frame`.
        parts: At least one, each of the next examples; ids are not compared across parts.

    Raises:
        DataError: A part is of other members or classes than the first, or keeps something else.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path, whose = Path(folder, "dense.parquet"), ((0, 1), ("no", "yes"))
    ...     votes = np.array([[0, 1]])
    ...     write_predictions(path, (Predictions("dense", votes, (one,), *whose) for one in "ab"))
    ...     print(Predictions.read(path).example_ids)
    ('a', 'b')
    """
    rest = iter(parts)
    first = next(rest)
    schema = first.frame.schema

    def frames() -> Iterator[pl.DataFrame]:
        for part in chain([first], rest):
            frame = part.frame
            if frame.schema != schema or part.metadata != first.metadata:
                raise DataError(
                    f"parts of {first.variant} must be of the same members and classes and keep "
                    f"the same, got {', '.join(frame.columns)} of {part.variant}; write each "
                    "variant to a file of its own"
                )
            yield frame

    write_frames(path, frames(), schema, rows=ROWS, metadata=first.metadata)


def _refuse_ids(
    variant: str, shape: tuple[int, ...], classes: int, predicted: NDArray[np.integer]
) -> None:
    """Refuse class ids of another shape, or out of range."""
    if predicted.shape != shape:
        raise DataError(
            f"predictions of {variant} have shape {predicted.shape} for {shape[0]} examples and "
            f"{shape[1]} members"
        )
    if predicted.size and not 0 <= predicted.min() <= predicted.max() < classes:
        wrong = predicted.min() if predicted.min() < 0 else predicted.max()
        raise DataError(
            f"predictions of {variant} hold class id {int(wrong)}; ids go from 0 to {classes - 1}"
        )


def _refuse_unless(
    what: str, variant: str, shape: tuple[int, ...] | None, kept: NDArray[Any] | None
) -> None:
    """Refuse scores or top-5 class ids of another shape."""
    held = None if kept is None else kept.shape
    if held != shape:
        got, wanted = ("none" if one is None else f"shape {one}" for one in (held, shape))
        way_out = "leave them out" if shape is None else "keep one per prediction"
        raise DataError(f"{what} of {variant} must have {wanted}, got {got}; {way_out}")


def smallest_type(classes: int) -> type[np.uint8 | np.uint16]:
    """The type that class ids of so many classes are kept in.

    >>> smallest_type(256).__name__, smallest_type(257).__name__
    ('uint8', 'uint16')
    """
    if classes > 2**16:
        raise DataError(f"classes must be at most 65,536, got {classes:,}; audit fewer at a time")
    return np.uint8 if classes <= 2**8 else np.uint16


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
    predicted = integers(predicted, "predicted", "an examples by members table of class ids")
    if predicted.ndim != 2:
        raise DataError(
            f"predicted must be a table of examples by members, got shape {predicted.shape}: pass "
            "one column per member"
        )
    if predicted.size and not 0 <= predicted.min() <= predicted.max() < classes:
        raise DataError(
            f"predicted holds a class id outside 0 to {classes - 1}: "
            f"{predicted.min()} to {predicted.max()}; number the classes from 0"
        )
    n = len(predicted)
    cells = predicted.astype(np.int64) + classes * np.arange(n)[:, None]
    return np.bincount(cells.ravel(), minlength=n * classes).reshape(n, classes)
