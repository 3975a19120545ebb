"""Sets of training runs: one value a run, by technique and metric, from one long table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from scotoma.errors import DataError
from scotoma.numbers.inputs import Floats
from scotoma.printable import quoted

__all__ = ["ACCURACY", "RunSet", "RunSets", "VariantSets", "run_sets", "table_of_runs"]

ACCURACY = "accuracy"  # the metric that is none of bias; a fraction
RunSets: TypeAlias = Mapping[tuple[str, str], Floats]  # technique, metric: one value a run, (R,)
VariantSets: TypeAlias = Mapping[tuple[str, str, str], Floats]  # technique, variant, metric


@dataclass(frozen=True, eq=False)
class RunSet:
    """The runs of one technique, measured in one way.

    Attributes:
        values: Shape (R,), or (R, C) with classes.
        classes: Names of the classes; empty without.
    """

    values: Floats
    classes: tuple[str, ...] = ()

    @property
    def overall(self) -> Floats:
        """One value a run, shape (R,): the unweighted mean over classes where there are some."""
        return self.values if self.values.ndim == 1 else self.values.mean(axis=1)


def run_sets(table: pl.DataFrame) -> dict[tuple[str, str], RunSet]:
    """Read the runs of each technique and metric, in the order of the table.

    Args:
        table: Text columns `technique`, `metric` and `run`, numbers in `value`, and `class` where
            values are of classes.

    Raises:
        DataError: A value that is there twice, a run that lacks a class, or a single run.

    >>> rows = [("base", "DP", "1", 0.1), ("base", "DP", "2", 0.3)]
    >>> table = pl.DataFrame(rows, schema=["technique", "metric", "run", "value"], orient="row")
    >>> run_sets(table)["base", "DP"].values
    array([0.1, 0.3])
    """
    keys = [name for name in table.columns if name != "value"]
    twice = table.select(*keys).is_duplicated()
    if twice.any():
        row = table.row(int(twice.arg_max() or 0), named=True)
        what = ", ".join(f"{role} {quoted(row[role])}" for role in keys)
        raise DataError(f"{what} is in the table more than once: keep one value per run")
    sets = {}
    for names, part in table.group_by(["technique", "metric"], maintain_order=True):
        technique, metric = (str(name) for name in names)
        where = f"technique {quoted(technique)}, metric {quoted(metric)}"
        if part["run"].n_unique() < 2:
            raise DataError(f"{where} has one run: a spread needs two or more")
        sets[technique, metric] = _set(part, where)
    return sets


def _set(part: pl.DataFrame, where: str) -> RunSet:
    if "class" not in part.columns:
        return RunSet(part["value"].to_numpy())
    wide = part.pivot("class", index="run", values="value", maintain_order=True)
    classes = tuple(wide.columns[1:])
    for name in classes:
        if wide[name].null_count():
            lacking = wide["run"].filter(wide[name].is_null())[0]
            raise DataError(
                f"{where} has no value of class {quoted(name)} in run {quoted(lacking)}: give "
                "every run all classes, or leave the class out"
            )
    return RunSet(wide.drop("run").to_numpy(), classes)


def table_of_runs(sets: RunSets) -> pl.DataFrame:
    """Lay sets of runs out as one long table: technique, metric, run from 0, value."""
    rows = [(*key, run, value) for key, own in sets.items() for run, value in enumerate(own)]
    return pl.DataFrame(rows, schema=["technique", "metric", "run", "value"], orient="row")
