"""rates.parquet: every rate of every group and class, of which audit.json holds what has room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from scotoma.answers.admission import is_label
from scotoma.audit import Audit
from scotoma.audit.groups import RATE_NAMES, RATES, RateChange
from scotoma.bias.counting import RateMetric, metrics
from scotoma.bias.rate_table import COLUMNS, rate_columns, read_changes
from scotoma.bias.results import GroupChange
from scotoma.bias.subgroup import change_at
from scotoma.errors import DataError
from scotoma.jsonable import jsonable
from scotoma.numbers import ChangeEvidence
from scotoma.run.mirror import Mirror
from scotoma.storage.files import file_digest, written

__all__ = [
    "LEVEL",
    "MOST_CLASS_ROWS",
    "MOST_JUDGED",
    "RateTable",
    "change_row",
    "with_class_rates",
    "write_rates",
]

LEVEL = 0.95
MOST_JUDGED = 20_000  # that a gate asks about: a minute
MOST_CLASS_ROWS = 5000  # rates of single classes that audit.json holds: 8 MB


@dataclass(frozen=True)
class RateTable:
    """How the rates of an audit are numbered.

    Attributes:
        groups: Keys of the groups.
        classes: Names of the classes.
        positive: Id of the positive class; None where every class has rates of its own.
    """

    groups: tuple[str, ...]
    classes: tuple[str, ...]
    positive: int | None

    def frame(self, variant: str, known: ChangeEvidence) -> pl.DataFrame:
        """Lay out the evidence on one variant, of shape (G, E): a row a rate."""
        kinds = self._kinds
        names = list(dict.fromkeys(kind.name for kind in kinds))
        of_kind = {
            "metric": pl.Series([kind.name for kind in kinds], dtype=pl.Enum(names)),
            "class": pl.Series(
                [None if kind.class_id is None else self.classes[kind.class_id] for kind in kinds],
                dtype=pl.Enum(self.classes),
            ),
        }
        g, e = (np.ravel(place) for place in np.indices(known.dense.value.shape))
        keys = {
            "variant": pl.repeat(variant, len(g), eager=True),
            "group": pl.Series(self.groups, dtype=pl.Enum(self.groups))[g],
            **{name: column[e] for name, column in of_kind.items()},
        }
        rows = pl.DataFrame(keys | rate_columns(known, level=LEVEL))
        # No answer, and one that is no label, are no class: how many there are is told by itself.
        outside = [name for name in self.classes if not is_label(name)]
        return rows.filter(~pl.col("class").cast(pl.String).is_in(outside).fill_null(False))

    def rows(self, known: ChangeEvidence, *, with_classes: bool) -> Iterator[dict[str, Any]]:
        """Give rows of `subgroups`, those of single classes too or not."""
        for g, group in enumerate(self.groups):
            for e, kind in enumerate(self._kinds):
                name = None if kind.class_id is None else self.classes[kind.class_id]
                if kind.class_id is None or (with_classes and name is not None and is_label(name)):
                    yield change_row(change_at(known, (g, e), group, kind, LEVEL), name)

    @property
    def class_rows(self) -> int:
        """Rates of single classes of one comparison."""
        return len(self.groups) * sum(kind.class_id is not None for kind in self._kinds)

    @property
    def _kinds(self) -> tuple[RateMetric, ...]:
        return metrics(len(self.classes), self.positive)


def write_rates(path: Path, parts: Sequence[Path]) -> None:
    """Put the tables of all variants together, without holding them in memory."""
    with written(path) as temporary:
        if not parts:
            pl.DataFrame(schema=["variant", "group", "metric", "class"]).write_parquet(temporary)
            return
        pl.concat([pl.scan_parquet(part, glob=False) for part in parts]).sink_parquet(temporary)


def change_row(change: GroupChange, class_name: str | None) -> dict[str, Any]:
    """Give a change as a row of `subgroups`."""
    return {
        "group": change.group,
        "metric": change.metric,
        "class": class_name,
        "dense": change.dense,
        "compressed": change.compressed,
        "relative": change.relative,
        "absolute": change.absolute,
        "relative_variance": change.relative_variance,
        "absolute_variance": change.absolute_variance,
    }


def with_class_rates(
    folder: Mirror, audit: Audit, wanted: pl.Expr, most: int | None = None
) -> Audit:
    """Put rates of single classes into an audit that left them to rates.parquet.

    Args:
        folder: Where rates.parquet lies.
        audit: The audit; one that holds all its rates is given back as it is.
        wanted: Which rows, by the columns `variant`, `group`, `metric` and `class`.
        most: How many rows may be wanted; None for any number.

    Returns:
        The audit with these rows among its `subgroups`, in the order in which it would hold them.

    Raises:
        DataError: The table is not there, is not the one that the audit names, or more rows are
            wanted than may be.
    """
    if audit.class_rates is None:
        return audit
    path = folder.root / RATES
    folder.fetch([path])
    if not path.is_file():
        raise DataError(f"{folder.place(path)} is not there; bring it beside its audit.json")
    if file_digest(path) != audit.class_rates.sha256:
        raise DataError(
            f"{folder.place(path)} must be the table that its audit.json names, got another; "
            "repeat the audit to write it again"
        )
    rows = pl.scan_parquet(path, glob=False).filter(pl.col("class").is_not_null() & wanted)
    if most is not None and (count := int(rows.select(pl.len()).collect().item())) > most:
        raise DataError(
            f"at most {most:,} rates of single classes may be asked for, got {count:,}; ask over "
            "classes instead of groups, or name label.positive"
        )
    table = rows.collect()
    subgroups = {
        name: _in_order(audit, (*own, *_changes(audit, table.filter(variant=name))))
        for name, own in audit.subgroups.items()
    }
    return audit.model_copy(update={"subgroups": subgroups})


def _changes(audit: Audit, table: pl.DataFrame) -> Iterator[RateChange]:
    classes = audit.examples.classes
    numbers = {name: place for place, name in enumerate(classes)}
    kinds = {(kind.name, kind.class_id): kind for kind in metrics(len(classes), None)}
    columns = {name: table[name].to_numpy() for name in COLUMNS}
    names = table["class"].to_list()
    own = [kinds[metric, numbers[of]] for metric, of in zip(table["metric"], names, strict=True)]
    changes = read_changes(columns, table["group"].to_list(), own, level=LEVEL)
    for change, name in zip(changes, names, strict=True):
        yield RateChange.model_validate(jsonable(change_row(change, name)))


def _in_order(audit: Audit, rows: Iterable[RateChange]) -> tuple[RateChange, ...]:
    """Sort rows by group, then by metric, then by class: those of all classes first."""
    groups = {group.key: place for place, group in enumerate(audit.groups)}
    classes = {name: place for place, name in enumerate(audit.examples.classes)}
    metric = {name: place for place, name in enumerate(RATE_NAMES)}

    def key(row: RateChange) -> tuple[int, int, int]:
        number = -1 if row.class_name is None else classes[row.class_name]
        return groups[row.group], metric[row.metric], number

    return tuple(sorted(rows, key=key))
