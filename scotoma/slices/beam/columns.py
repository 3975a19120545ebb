"""Which outcomes, labels and ids does a search on Beam read from the columns of a table?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.slices.outcomes import Outcome, metric_named, prepare_outcome

Values = npt.NDArray[np.generic]


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """The columns of a table that do not define slices.

    Attributes:
        identifier: Column of the example ids, which halves and bootstrap weights go by.
        outcome: Columns of the model, or of the members of a population.
        baseline: Columns of what it is compared with; may be empty.
        label: Column of the true labels; None where the outcome needs none.
        positive: The label that is 1 for metrics of one label; None for `1`.
        metric: The metric; a search takes that of its settings.
        paired: Each outcome derives from the baseline at the same place; likewise.
        integer_ids: Whether ids that are text are integers.
    """

    identifier: str
    outcome: tuple[str, ...]
    baseline: tuple[str, ...] = ()
    label: str | None = None
    positive: str | None = None
    metric: str = "error"
    paired: bool = False
    integer_ids: bool = False

    @property
    def answers(self) -> list[str]:
        """The columns that the outcome is made of."""
        return [*self.outcome, *self.baseline, *([] if self.label is None else [self.label])]

    def read_outcome(self, table: pl.DataFrame) -> Outcome | None:
        """Read the outcome of a part's rows; None where none of them counts for the metric.

        >>> columns = TableColumns(identifier="id", outcome=("int8",), label="y")
        >>> table = pl.DataFrame({"int8": ["a", "b"], "y": ["a", "a"]})
        >>> columns.read_outcome(table).model.above.ravel().tolist()
        [0.0, 1.0]
        """
        metric = metric_named(self.metric)
        if self.label is None:
            read = _numbers
            labels = None
        else:
            read = _texts
            labels = _texts(table[self.label])
        model = np.stack([read(table[name]) for name in self.outcome], axis=1)
        baseline = None
        if self.baseline:
            baseline = np.stack([read(table[name]) for name in self.baseline], axis=1)
        if labels is not None and metric.labels == "needed":
            one = self._positive(labels)
            labels, model = (labels == one).astype(np.int64), (model == one).astype(np.int64)
            baseline = None if baseline is None else (baseline == one).astype(np.int64)
            if not np.any((labels == 1) == (metric.risk == "positives")) and metric.risk != "all":
                return None
        return prepare_outcome(metric, model, baseline, labels, table.height, paired=self.paired)

    def read_ids(self, table: pl.DataFrame) -> Values:
        """Read the ids of a part's rows, integers or strings."""
        ids = table[self.identifier]
        if self.integer_ids and not ids.dtype.is_integer():
            ids = ids.cast(pl.String).str.strip_chars().cast(pl.Int64)
        if not ids.dtype.is_integer():
            return np.asarray(_texts(ids).astype(str))
        if ids.null_count():
            raise _empty(ids)
        return ids.to_numpy()

    def _positive(self, labels: Values) -> str:
        if self.positive is not None:
            return self.positive
        other = set(labels.tolist()) - {"0", "1"}
        if other:
            raise DataError(
                f"metric {self.metric!r} needs labels 0 and 1, got {printable(min(other))!r}: name "
                "the label that is 1 with positive="
            )
        return "1"


def _texts(column: pl.Series) -> Values:
    text = column.cast(pl.String)
    if text.null_count() or (text.str.to_lowercase() == "nan").any():
        raise _empty(column)
    return np.asarray(text.to_numpy(), object)


def _numbers(column: pl.Series) -> Values:
    values = column
    if values.dtype == pl.String:
        low = values.str.to_lowercase()
        values = (low == "true") if low.is_in(["true", "false"]).all() else values
    numbers = values.cast(pl.Float64, strict=False)
    if numbers.null_count():
        raise _empty(column)
    return numbers.to_numpy()


def _empty(column: pl.Series) -> DataError:
    return DataError(
        f"column {printable(column.name)!r} must hold a value in every row, got an empty one or "
        "one of another kind: fill or remove these rows"
    )
