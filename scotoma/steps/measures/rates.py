"""Every rate of every group and class, of which audit.json holds what has room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from scotoma.answers.admission import is_label
from scotoma.audit import Audit
from scotoma.audit.base import Row, rows_at
from scotoma.audit.groups import RATE_NAMES
from scotoma.audit.rows import NUMBERS, SCHEMA, audit_rows, stored_rows
from scotoma.bias.counting import RateMetric, metrics, words_of
from scotoma.bias.subgroup import GroupChange, change_list
from scotoma.config.gate import GateRules
from scotoma.config.gate_changes import ChangeRule
from scotoma.errors import DataError
from scotoma.numbers import ChangeEvidence, Tally, Variance
from scotoma.run.mirror import Mirror
from scotoma.storage.files import file_digest, written

LEVEL = 0.95
CELLS_AT_ONCE = 12_500  # rates that are laid out at a time: 60 MB
ROWS_AT_ONCE = 100_000  # of a table of rates: 30 MB
MOST_JUDGED = 20_000  # that a gate asks about: a minute
CHANGES = ("relative", "absolute")
WHATS = ("dense", "compressed", *CHANGES)
STORED = {"members": "models", "events": "effective_events"}  # fields of an estimate as columns
PARTS = {f"variance_{field.name}": field.name for field in fields(Variance)}
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

    def frames(self, variant: str, moments: Tally) -> Iterator[pl.DataFrame]:
        """Lay out the rates of single classes of one variant, of shape (G, E): rows of numbers."""
        places, kinds = self._chosen(whole=False, classes=True)
        names = [self.classes[kind.class_id or 0] for kind in kinds]
        at_once = max(1, CELLS_AT_ONCE // max(1, len(kinds)))
        for first in range(0, len(self.groups) if kinds else 0, at_once):
            groups = self.groups[first : first + at_once]
            own = moments.take(np.ix_(range(first, first + len(groups)), places))
            block = ChangeEvidence.of_tally(own)
            columns = block.columns(words_of(groups, kinds), level=LEVEL)
            each, cells = len(columns), len(groups) * len(kinds)
            table: dict[str, Any] = {
                "question": "rates", "variant": variant, "condition": None, "level": LEVEL,
                "metric": np.repeat([kind.name for kind in kinds] * len(groups), each),
                "class": np.repeat(names * len(groups), each),
                "group": np.repeat(groups, len(kinds) * each),
                "what": list(columns) * cells,
            }  # fmt: skip
            for name in columns["dense"].fields:
                parts = [own.fields[name] for own in columns.values()]
                table[STORED.get(name, name)] = np.stack(parts, axis=1).ravel()
            for name, part in PARTS.items():
                spread = [
                    getattr(own.variance, part) if what in CHANGES else np.full(cells, np.nan)
                    for what, own in columns.items()
                ]
                table[name] = np.stack(spread, axis=1).ravel()
            rows = pl.DataFrame(table)
            yield rows.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items()).fill_nan(
                None
            )

    def rows(self, moments: Tally, *, with_classes: bool) -> list[dict[str, Any]]:
        """Give the rates as rows, those of single classes too or not."""
        places, kinds = self._chosen(whole=True, classes=with_classes)
        block = ChangeEvidence.of_tally(moments.take(np.ix_(range(len(self.groups)), places)))
        return [
            row
            for one in change_list(block, self.groups, kinds, LEVEL)
            for row in change_rows(
                one, None if one.class_id is None else self.classes[one.class_id]
            )
        ]

    def _chosen(self, *, whole: bool, classes: bool) -> tuple[list[int], list[RateMetric]]:
        """Number and list metrics: of all examples, and of single classes.

        No answer, and one that is no label, are no class: how many there are is told by itself.
        """
        labels = [classes and is_label(name) for name in self.classes]
        chosen = {
            place: kind
            for place, kind in enumerate(self._kinds)
            if (whole if kind.class_id is None else labels[kind.class_id])
        }
        return list(chosen), list(chosen.values())

    @property
    def class_rows(self) -> int:
        """Rates of single classes of one comparison."""
        return len(self.groups) * sum(kind.class_id is not None for kind in self._kinds)

    @property
    def _kinds(self) -> tuple[RateMetric, ...]:
        return metrics(len(self.classes), self.positive)


def write_rates(path: Path, parts: Iterable[Path]) -> None:
    """Put the rates of all variants together, without holding them in memory."""
    _write(path, chain.from_iterable(map(_in_pieces, parts)))


def _in_pieces(path: Path) -> Iterator[pl.DataFrame]:
    """Read a table of rates a piece at a time."""
    table = pl.scan_parquet(path, glob=False)
    for first in range(0, int(table.select(pl.len()).collect().item()), ROWS_AT_ONCE):
        yield table.slice(first, ROWS_AT_ONCE).collect()


def _write(path: Path, pieces: Iterator[pl.DataFrame]) -> None:
    """Write pieces of a table: a scan of them all would hold most of it in memory."""
    with written(path) as temporary:
        register_io_source(lambda *_: pieces, schema=SCHEMA).sink_parquet(temporary)


def write_numbers(path: Path, audit: Audit, class_rates: Path) -> Audit:
    """Write numbers.parquet: the rows of an audit, and the rates that it has no room for.

    Args:
        path: Where to.
        audit: The audit.
        class_rates: From `write_rates`.

    Returns:
        The audit, which knows the table where it holds more.
    """
    _write(path, chain([audit_rows(audit)], _in_pieces(class_rates)))
    if audit.class_rates is None:
        return audit
    known = audit.class_rates.model_copy(update={"sha256": file_digest(path)})
    return audit.model_copy(update={"class_rates": known})


def change_rows(change: GroupChange, class_name: str | None = None) -> Iterator[dict[str, Any]]:
    """Lay out the numbers of a change."""
    return rows_at(
        {"metric": change.metric, "group": change.group, "class": class_name},
        {what: getattr(change, what) for what in WHATS},
        spreads={what: getattr(change, f"{what}_variance") for what in CHANGES},
    )


def class_rates_asked(rules: GateRules) -> list[tuple[str, str]]:
    """List the metric and groups of every rule that asks for rates of single classes."""
    return [
        (rule.metric, rule.over)
        for rule in rules.rules
        if isinstance(rule, ChangeRule) and rule.metric in ("fpr", "fnr") and rule.over != "all"
    ]


def with_class_rates(
    folder: Mirror, audit: Audit, wanted: pl.Expr, most: int | None = None
) -> Audit:
    """Put rates of single classes into an audit that left them to numbers.parquet.

    Args:
        folder: Where numbers.parquet lies.
        audit: The audit; one that holds all its rates is given back as it is.
        wanted: Which rows, by the columns `variant`, `group`, `metric` and `class`.
        most: How many rates may be wanted; None for any number.

    Returns:
        The audit with these rows among its `rates`, in the order in which it would hold them.

    Raises:
        DataError: The table is not there, is not the one that the audit names, or more rates are
            wanted than may be.
    """
    if audit.class_rates is None:
        return audit
    path = folder.root / NUMBERS
    folder.fetch([path])
    if not path.is_file():
        raise DataError(f"{folder.place(path)} is not there; bring it beside its audit.json")
    if file_digest(path) != audit.class_rates.sha256:
        raise DataError(
            f"{folder.place(path)} must be the table that its audit.json names, got another; "
            "repeat the audit to write it again"
        )
    of_classes = (pl.col("question") == "rates") & pl.col("class").is_not_null()
    rows = pl.scan_parquet(path, glob=False).filter(of_classes & wanted)
    if most is not None:
        count = int(rows.select(pl.len()).collect().item()) // len(WHATS)
        if count > most:
            raise DataError(
                f"at most {most:,} rates of single classes may be asked for, got {count:,}; ask "
                "over classes instead of groups, or name label.positive"
            )
    held = (*audit.numbers("rates"), *stored_rows(rows.collect()))
    return audit.model_copy(update={"rows": {**audit.rows, "rates": _in_order(audit, held)}})


def _in_order(audit: Audit, rows: Iterable[Row]) -> tuple[Row, ...]:
    """Sort rows by variant, group, metric, and class: those of all classes first."""
    variants, groups, classes, metrics = (
        {name: place for place, name in enumerate((None, *names))}
        for names in (
            [variant.name for variant in audit.variants],
            audit.group_names,
            audit.examples.classes,
            RATE_NAMES,
        )
    )
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                variants[row.variant],
                groups[row.group],
                metrics[row.metric],
                classes[row.class_name],
            ),
        )
    )
