"""What did the papers print? Their tables and protocols, in JSON files of this package."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

PublishedCell = int | float | str | None


@dataclass(frozen=True)
class PublishedTable:
    """Rows and columns under the names that a source prints.

    Attributes:
        columns: Names of the columns, without that of the rows' names.
        rows: Cells by the name of the row; None where the source prints nothing.
    """

    columns: tuple[str, ...]
    rows: dict[str, tuple[PublishedCell, ...]]

    def row(self, name: str) -> dict[str, PublishedCell]:
        """Return one row by column.

        Args:
            name: Name of the row.
        """
        return dict(zip(self.columns, self.rows[name], strict=True))

    def column(self, name: str) -> dict[str, PublishedCell]:
        """Return one column by row.

        Args:
            name: Name of the column.
        """
        return {row: self.row(row)[name] for row in self.rows}


class Printed(dict[str, Any]):
    """What a source printed: entries are read as attributes, too."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]


@functools.cache
def load(name: str) -> Any:
    """Load what a source printed; every {columns, rows} in it is a `PublishedTable`.

    Args:
        name: `pie` (Hooker et al. 2019), `cie` (Hooker et al. 2020), `clarify` (the worked example
            of SageMaker Clarify), `fairness_variance` and `fairness_variance_runs` (Qian et al.
            2021 and its artefact), `autoslicer` (Liu et al. 2022) or `common_corruptions`
            (Hendrycks and Dietterich 2019).

    >>> load("cie").table1.row("0.9")
    {'top1': 94.07, 'modal CIEs': 3229}
    >>> load("clarify").metrics["DPL"]
    0.2
    >>> load("autoslicer").table1["census"].row("batch")["candidate slices"]
    63861
    """
    text = resources.files(__package__).joinpath(f"{name}.json").read_text("utf-8")
    return json.loads(text, object_hook=_record)


def _record(found: dict[str, Any]) -> PublishedTable | Printed:
    if found.keys() != {"columns", "rows"}:
        return Printed(found)
    rows = {name: tuple(cells) for name, cells in found["rows"].items()}
    return PublishedTable(tuple(found["columns"]), rows)


def fairness_values(technique: str, metric: str) -> NDArray[np.float64]:
    """Bias of a technique in each run of the fixed-seed study, raw.

    Args:
        technique: Such as `S-Base`.
        metric: Such as `DP`.

    Returns:
        One row a run, one column a class and, last, the overall value; fractions.

    >>> fairness_values("S-Base", "DP").shape
    (16, 11)
    """
    return np.array(load("fairness_variance_runs").bias[f"{technique}|{metric}"])
