"""Scores of populations that do not fit into memory: from Parquet to Parquet, a slice at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.io.plugins import register_io_source

from scotoma.divergence.scoring import CieCount, Scores, score
from scotoma.errors import DataError
from scotoma.inputs import Labels, class_ids
from scotoma.runs import written
from scotoma.unreadable import readable

ROWS = 2**18  # rows of a slice: the row group that Polars writes by default
IDS = 2**24  # ids compared for duplicates at a time: 128 MiB as 64-bit numbers
COLUMNS = pl.Schema(
    {
        "example_id": pl.String,
        "cie": pl.Boolean,
        "taxicab": pl.Float64,
        "jaccard": pl.Float64,
        "dense_modal": pl.UInt16,
        "dense_votes": pl.UInt16,
        "compressed_modal": pl.UInt16,
        "compressed_votes": pl.UInt16,
    }
)


@dataclass(frozen=True, kw_only=True)
class StreamedScores:
    """What the scores of a whole file come to; the rows themselves are in the file written.

    Attributes:
        n: Number of examples.
        cie: Number of CIEs with its range over all ways to resolve ties.
        taxicab: Distance to the number of examples that have it, ascending.
        dense_members: K.
        compressed_members: K'.
        n_classes: Number of classes.
    """

    n: int
    cie: CieCount
    taxicab: dict[float, int]
    dense_members: int
    compressed_members: int
    n_classes: int


def score_parquet(
    dense: Path,
    compressed: Path,
    out: Path,
    *,
    n_classes: int | None = None,
    rows: int = ROWS,
) -> StreamedScores:
    """Score two files of predictions against each other without holding either in memory.

    The same scores as `score` on the whole tables. Memory is that of one slice of `rows` examples
    (about rows x (K + K') x 8 bytes) and, where ids do not ascend, 16 bytes for each of at most
    2^24 ids at a time: under 1 GiB for 30 members a side and any number of examples, as long as
    the files have row groups of about `rows`.

    Args:
        dense: Parquet with `example_id` and `predicted`, a fixed-size list of class ids, as
            `Predictions.write` leaves it.
        compressed: The same examples in the same order.
        out: Parquet to write: `example_id`, `cie`, `taxicab`, `jaccard`, modal class ids and their
            votes. It appears when it is whole.
        n_classes: Number of classes, at least 2; None takes the classes that `Predictions.write`
            names in both files.
        rows: Examples in memory at a time.

    Returns:
        Counts over all examples.

    Raises:
        DataError: Another format, other classes, ids that differ between the files (the first is
            named) or stand twice (named), class ids out of range, no examples.

    >>> import tempfile
    >>> from scotoma.predictions import Predictions
    >>> def write(path: Path, ids: list[list[int]]) -> Path:
    ...     votes = np.array(ids, np.uint16)
    ...     Predictions("v", ("a", "b"), (0, 1), ("no", "yes"), votes).write(path)
    ...     return path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dense = write(Path(folder, "dense"), [[0, 0], [1, 0]])
    ...     int8 = write(Path(folder, "int8"), [[1, 1], [0, 1]])
    ...     found = score_parquet(dense, int8, Path(folder, "scores"))
    >>> found.n, str(found.cie), found.taxicab
    (2, '1 (1 to 2, 1 tie)', {0.0: 1, 4.0: 1})
    """
    if rows < 1:
        raise DataError(f"rows must be at least 1, got {rows}: {ROWS:,} is the default")
    pair = (_Table.open(dense), _Table.open(compressed))
    classes = _classes(pair, n_classes)
    total = _Total(dict.fromkeys(("cie", "low", "high", "ties"), 0), Counter())
    faults: list[DataError] = []

    def source(
        columns: list[str] | None, where: pl.Expr | None, limit: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        try:
            for ids, scores in _scored(pair, classes, rows):
                total.add(scores)
                yield _frame(ids, scores)
        except DataError as fault:  # the engine that runs this would wrap it in its own words
            faults.append(fault)

    with written(out) as temporary:
        register_io_source(source, schema=COLUMNS).sink_parquet(
            temporary,
            row_group_size=rows,
            maintain_order=True,
            metadata={"scotoma.n_classes": str(classes)},
        )
        if faults:
            raise faults[0]
    return StreamedScores(
        n=pair[0].rows,
        cie=CieCount(
            count=total.counts["cie"],
            low=total.counts["low"],
            high=total.counts["high"],
            ties=total.counts["ties"],
        ),
        taxicab=dict(sorted(total.taxicab.items())),
        dense_members=pair[0].members,
        compressed_members=pair[1].members,
        n_classes=classes,
    )


WRITE = "write predictions with Predictions.write"


@dataclass(frozen=True)
class _Table:
    """One file of predictions, not read yet."""

    path: Path
    rows: int
    members: int
    classes: tuple[str, ...] | None

    @classmethod
    def open(cls, path: Path) -> _Table:
        with readable(path, WRITE):
            scan = pl.scan_parquet(path, glob=False)
            schema = scan.collect_schema()
            rows = int(scan.select(pl.len()).collect().item())
            metadata = pl.read_parquet_metadata(path)
        predicted = schema.get("predicted")
        if "example_id" not in schema or not isinstance(predicted, pl.Array):
            found = ", ".join(f"{name} {dtype}" for name, dtype in schema.items())
            raise DataError(
                f"{path} must have columns example_id and predicted, a fixed-size list of class "
                f"ids, got {found}: write it with Predictions.write"
            )
        if not rows:
            raise DataError(f"{path} holds no examples: predict at least one")
        named = metadata.get("scotoma.classes")
        return cls(path, rows, predicted.size, tuple(json.loads(named)) if named else None)

    @property
    def scan(self) -> pl.LazyFrame:
        return pl.scan_parquet(self.path, glob=False).select(
            pl.col("example_id").cast(pl.String), pl.col("predicted")
        )


@dataclass(frozen=True)
class _Total:
    """Sums over slices."""

    counts: dict[str, int]
    taxicab: Counter[float]

    def add(self, scores: Scores) -> None:
        count = scores.cie_count
        more = (count.count, count.low, count.high, count.ties)
        for name, extra in zip(self.counts, more, strict=True):
            self.counts[name] += extra
        distances, times = np.unique(scores.taxicab, return_counts=True)
        for distance, many in zip(distances.tolist(), times.tolist(), strict=True):
            self.taxicab[distance] += many


def _classes(pair: tuple[_Table, _Table], n_classes: int | None) -> int:
    dense, compressed = pair
    if n_classes is not None:
        if n_classes < 2:
            raise DataError(
                f"n_classes must be at least 2, got {n_classes}: count the label's values"
            )
        return n_classes
    for table in pair:
        if table.classes is None:
            raise DataError(
                f"{table.path} does not name its classes: write it with Predictions.write, or pass "
                "n_classes"
            )
    assert dense.classes is not None
    if dense.classes != compressed.classes:
        raise DataError(
            f"{dense.path} and {compressed.path} must name the same classes in the same order: "
            "predict both with one list of classes"
        )
    return len(dense.classes)


def _scored(
    pair: tuple[_Table, _Table], n_classes: int, rows: int
) -> Iterator[tuple[pl.Series, Scores]]:
    """Ids and scores, slice by slice; ids are compared, and at the end known to be unique."""
    dense, compressed = pair
    ascending, last = True, ""
    for start in range(0, min(dense.rows, compressed.rows), rows):
        common = min(rows, dense.rows - start, compressed.rows - start)
        with readable(f"{dense.path} or {compressed.path}", WRITE):
            parts = pl.collect_all([table.scan.slice(start, common) for table in pair])
        ids = parts[0]["example_id"]
        _same(pair, start, ids, parts[1]["example_id"])
        ascending = ascending and _ascends(ids, last)
        last = ids[-1]
        yield ids, _score(_votes(dense, parts[0]), _votes(compressed, parts[1]), n_classes)
    if dense.rows != compressed.rows:
        longer, shorter = (
            (dense, compressed) if dense.rows > compressed.rows else (compressed, dense)
        )
        extra = longer.scan.slice(shorter.rows, 1).collect()["example_id"][0]
        raise DataError(
            f"dense and compressed must predict the same examples, got {dense.rows:,} and "
            f"{compressed.rows:,}: example {extra!r} of {longer.path} is not in {shorter.path}, "
            "predict it or leave it out"
        )
    if not ascending:
        _unique(dense, rows)


def _same(pair: tuple[_Table, _Table], start: int, ids: pl.Series, others: pl.Series) -> None:
    for table, names in zip(pair, (ids, others), strict=True):
        if names.null_count():
            row = start + int(names.is_null().arg_max() or 0) + 1
            raise DataError(f"{table.path} has no example id in row {row:,}: give it one")
    other = int((ids != others).arg_max() or 0)
    if ids[other] != others[other]:
        raise DataError(
            f"dense and compressed must predict the same examples in the same order, got "
            f"{ids[other]!r} and {others[other]!r} in row {start + other + 1:,}: sort both by "
            "example_id and predict what is missing"
        )


def _ascends(ids: pl.Series, last: str) -> bool:
    return bool(ids[0] > last and (ids.slice(1) > ids.head(len(ids) - 1)).all())


def _unique(table: _Table, rows: int) -> None:
    """Refuse ids that stand twice: equal hashes first, then the few ids that have them."""
    ids = table.scan.select("example_id")
    passes = -(-table.rows // IDS)
    for turn in range(passes):
        found = []
        for start in range(0, table.rows, rows):
            hashes = ids.slice(start, rows).collect()["example_id"].hash()
            found.append(hashes.filter(hashes % passes == turn).to_numpy())
        every = np.concatenate(found)
        every.sort()
        twice = np.unique(every[1:][every[1:] == every[:-1]])
        if not twice.size:
            continue
        suspects: list[str] = []
        for start in range(0, table.rows, rows):
            names = ids.slice(start, rows).collect()["example_id"]
            suspects += names.filter(names.hash().is_in(twice[:1000].tolist())).to_list()
        name, times = Counter(suspects).most_common(1)[0]
        if times > 1:
            raise DataError(
                f"example ids must be unique, got {name!r} {times} times in {table.path}: give "
                "every example an id of its own"
            )


def _votes(table: _Table, part: pl.DataFrame) -> Labels:
    column = part["predicted"]
    flat = column.explode()
    if column.null_count() or flat.null_count():
        raise DataError(
            f"{table.path} has examples without predictions of every member: predict them, or "
            "leave the examples out of both files"
        )
    return flat.to_numpy().reshape(len(part), table.members)


def _score(dense: Labels, compressed: Labels, n_classes: int) -> Scores:
    """`score`, with the rows on which every member says the same taken as they are."""
    d = class_ids(dense, "dense", n_classes)
    c = class_ids(compressed, "compressed", n_classes)
    first = d[:, :1]
    active = (d != first).any(axis=1) | (c != first).any(axis=1)
    n, modal = len(d), d[:, 0].astype(np.int32)
    whole = Scores(
        dense_modal=modal,
        compressed_modal=modal.copy(),
        dense_votes=np.full(n, d.shape[1], np.int32),
        compressed_votes=np.full(n, c.shape[1], np.int32),
        dense_tied=np.zeros(n, np.bool_),
        compressed_tied=np.zeros(n, np.bool_),
        cie=np.zeros(n, np.bool_),
        cie_certain=np.zeros(n, np.bool_),
        taxicab=np.zeros(n),
        jaccard=np.zeros(n),
        dense_members=d.shape[1],
        compressed_members=c.shape[1],
        n_classes=n_classes,
    )
    if active.any():
        part = score(d[active], c[active], n_classes)
        for name in _ROW_FIELDS:
            getattr(whole, name)[active] = getattr(part, name)
    return whole


_ROW_FIELDS = (
    "dense_modal", "compressed_modal", "dense_votes", "compressed_votes", "dense_tied",
    "compressed_tied", "cie", "cie_certain", "taxicab", "jaccard",
)  # fmt: skip


def _frame(ids: pl.Series, scores: Scores) -> pl.DataFrame:
    values: dict[str, pl.Series | npt.NDArray[np.generic]] = {"example_id": ids}
    values |= {name: getattr(scores, name) for name in list(COLUMNS)[1:]}
    return pl.DataFrame(values, schema_overrides=COLUMNS)
