"""Sets of training runs: one value a run, by technique and metric, from files of any layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from scotoma.config.sheet import read_yaml
from scotoma.errors import ConfigError, DataError
from scotoma.numbers.inputs import Floats
from scotoma.printable import quoted
from scotoma.processes.untrusted import read_apart
from scotoma.readers.columns import column, numbers, texts
from scotoma.readers.tables import open_arrays, read_table
from scotoma.storage.files import open_regular

ACCURACY = "accuracy"  # the metric that is none of bias; a fraction
ACCURACIES = (ACCURACY, "perf", "mAP", "top1")  # what files call it
METRIC_NAMES = {"DI bar": "DI"}  # the study's files to its tables
TABLES = (".csv", ".csv.gz", ".parquet")
SHEETS = (".yaml", ".yml")
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


def read_runs(places: Sequence[Path]) -> dict[tuple[str, str], RunSet]:
    """Read values of training runs from files, and from every file of folders.

    A long table has the columns technique, metric, run and value, and class where values are of
    classes. A sheet `TECHNIQUE.yaml` has metric to values. `.npz` files have arrays
    `TECHNIQUE|METRIC`, shape (R,), or (R, C + 1) with the mean over classes last. A folder holds
    any of them, there or in `overall/`.

    Args:
        places: Files or folders.

    Returns:
        The runs of each technique and metric, in the order of the files.

    Raises:
        ConfigError: No such place, or one that holds none of these.
        DataError: A value that is no number, or is there twice; a run that lacks a class, or a
            single run.
    """
    sets: dict[tuple[str, str], RunSet] = {}
    for file in [file for place in places for file in _files(place)]:
        for technique, metric, own in _values(file):
            if (technique, metric) in sets:
                raise DataError(
                    f"technique {quoted(technique)}, metric {quoted(metric)} is in several files, "
                    f"such as {quoted(file.name)}: keep one of them"
                )
            sets[technique, metric] = own
    return sets


def bias_and_accuracy(sets: Mapping[tuple[str, str], RunSet]) -> dict[tuple[str, str], Floats]:
    """Give the accuracy of each technique its one name and unit, and take means over classes.

    Accuracy is called `accuracy`, `perf`, `mAP` or `top1`, and is in per cent where a value exceeds
    1. All other metrics are of bias.

    Raises:
        DataError: A technique has several accuracies, or no bias metric.
    """
    named: dict[tuple[str, str], Floats] = {}
    for technique in dict.fromkeys(name for name, _ in sets):
        metrics = [metric for name, metric in sets if name == technique]
        known = [metric for metric in metrics if metric in ACCURACIES]
        if len(known) > 1:
            raise DataError(
                f"technique {quoted(technique)} must have one accuracy, got {', '.join(known)}: "
                "keep one"
            )
        if metrics == known:
            raise DataError(f"technique {quoted(technique)} has no bias metric: add its values")
        for metric in metrics:
            values = sets[technique, metric].overall
            if metric in known:
                metric, values = ACCURACY, values / 100 if (values > 1).any() else values
            named[technique, METRIC_NAMES.get(metric, metric)] = values
    return named


def table_of_runs(sets: RunSets) -> pl.DataFrame:
    """Lay sets of runs out as one long table: technique, metric, run from 0, value."""
    rows = [(*key, run, value) for key, own in sets.items() for run, value in enumerate(own)]
    return pl.DataFrame(rows, schema=["technique", "metric", "run", "value"], orient="row")


def _files(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    files = sorted(
        file
        for folder in (place, place / "overall")
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith((*TABLES, *SHEETS, ".npz"))
    )
    if not files:
        raise ConfigError(
            f"folder {quoted(str(place))} must hold .yaml, .npz, .csv or .parquet files, got none: "
            "name the folder of the runs"
        )
    return files


def _values(file: Path) -> Iterator[tuple[str, str, RunSet]]:
    """Technique, metric and values of its runs."""
    if file.name.endswith(".npz"):
        arrays = read_apart(_npz, str(file), path=file, called=file.name)
        for key, array in arrays.items():
            technique, _, metric = key.rpartition("|")
            if not technique:
                raise DataError(
                    f"array {quoted(key)} of {quoted(file.name)} must be called TECHNIQUE|METRIC: "
                    "rename it"
                )
            yield technique, metric, _one_a_run(array, key)
    elif file.name.endswith(SHEETS):
        with open_regular(file) as opened:
            text = opened.read().decode("utf-8", "replace")
        for metric, own in read_yaml(text, file.name)[1].items():
            yield file.stem, str(metric), _one_a_run(own, f"{file.stem}, {metric}")
    else:
        yield from _of_table(read_table(file).frame)


def _npz(path: str) -> dict[str, Any]:
    """Arrays of numbers by name, as lists; runs in the process that reads files."""
    name = quoted(Path(path).name)
    with open_arrays(Path(path), name) as arrays:
        return {key: _listed(arrays[key], f"array {quoted(key)} of {name}") for key in arrays.files}


def _listed(array: Any, name: str) -> list[Any]:
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold numbers, got {array.dtype}: write one number a run")
    values: list[Any] = array.astype(np.float64).tolist()
    return values


def _one_a_run(values: Any, name: str) -> RunSet:
    """One value a run: the last column where there is one for each class, then the mean."""
    try:
        array = np.array(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"values of {quoted(name)} must be one number a run, got {quoted(str(values)[:40])}: "
            "write numbers"
        ) from error
    if array.ndim == 2 and array.shape[1]:
        array = array[:, -1]
    if array.ndim != 1 or not array.size:
        raise DataError(
            f"values of {quoted(name)} must be one number a run, got shape {array.shape}: write a "
            "list"
        )
    return RunSet(array)


def _of_table(table: pl.DataFrame) -> Iterator[tuple[str, str, RunSet]]:
    """The sets of a long table, runs in the order of their names."""
    keys = ["technique", "metric", "run", *(["class"] if "class" in table.columns else [])]
    for name in (*keys, "value"):
        column(table, name, "--techniques")
    frame = pl.DataFrame(
        {name: texts(table, name).tolist() for name in keys}, dict.fromkeys(keys, pl.String)
    ).with_columns(value=pl.Series(numbers(table, "value")))
    twice = frame.select(keys).is_duplicated()
    if twice.any():
        row = frame.row(int(twice.arg_max() or 0), named=True)
        what = ", ".join(f"{role} {quoted(row[role])}" for role in keys)
        raise DataError(f"{what} is in the table more than once: keep one value per run")
    for names, part in frame.group_by(["technique", "metric"], maintain_order=True):
        technique, metric = map(str, names)
        where = f"technique {quoted(technique)}, metric {quoted(metric)}"
        if part["run"].n_unique() < 2:
            raise DataError(f"{where} has one run: a spread needs two or more")
        yield technique, metric, _set(part.sort("run", maintain_order=True), where)


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
