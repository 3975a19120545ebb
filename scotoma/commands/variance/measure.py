"""The variance command: runs of several techniques in one long table, their spread and tests."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.values import tidy
from scotoma.commands.shared.tables import aside, column, number, numbers, shown, texts
from scotoma.commands.shared.text_table import cropped_text, table_lines, wrapped
from scotoma.errors import ConfigError, DataError
from scotoma.inputs import StatisticsProtocol
from scotoma.jsonable import jsonable
from scotoma.numbers import check_level
from scotoma.printable import listed, quoted
from scotoma.readers.tables import read_table
from scotoma.variance import THIS_TEST_SET, RunComparison, RunSpread, compare_family, spread

__all__ = ["Runs", "VarianceQuestion", "compare_runs", "read_runs", "run_variance"]

NOT_COMPARED = "not compared (the base has no runs of this metric)"


@dataclass(frozen=True, kw_only=True)
class VarianceQuestion:
    """What is asked of a table of runs.

    Attributes:
        base: The technique that the others are compared with; None compares nothing.
        technique: Column that says how a run was trained.
        metric: Column that says what was measured.
        run: Column that tells the runs of a technique apart.
        value: Column of the values.
        class_column: Column that says which class a value is of; None where values are overall.
        protocol: `sound` or `published`.
        level: Coverage of the intervals, a fraction in (0, 1).
    """

    base: str | None = None
    technique: str = "technique"
    metric: str = "metric"
    run: str = "run"
    value: str = "value"
    class_column: str | None = None
    protocol: str = "sound"
    level: float = 0.95


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of one technique, measured in one way.

    Attributes:
        technique: Its name.
        metric: What was measured.
        values: Shape (R,), or (R, C) with classes.
        classes: Names of the classes; empty without.
    """

    technique: str
    metric: str
    values: npt.NDArray[np.float64]
    classes: tuple[str, ...] = ()

    @property
    def overall(self) -> npt.NDArray[np.float64]:
        """One value a run, shape (R,): the unweighted mean over classes where there are some."""
        return self.values if self.values.ndim == 1 else self.values.mean(axis=1)


def run_variance(path: Path, question: VarianceQuestion, *, as_json: bool, quiet: bool) -> None:
    """Print how far identical runs lie apart, and which techniques differ from the base.

    Args:
        path: CSV or Parquet, one row per run and metric (and class).
        question: What is asked.
        as_json: Print JSON instead of the tables.
        quiet: Write nothing to stderr.

    Raises:
        ScotomaError: The options or the table do not fit together.
    """
    if question.protocol not in ("sound", "published"):
        raise ConfigError(
            f"--protocol must be sound or published, got {quoted(question.protocol)}: choose one"
        )
    question = replace(question, base=question.base and tidy(question.base))
    runs = read_runs(read_table(path).frame, question)
    content = compare_runs(runs, question)
    if not quiet and question.base is None:
        sys.stderr.write("no --base: spreads are shown, nothing is compared\n")
    if as_json:
        sys.stdout.write(json.dumps(jsonable(content), indent=1, allow_nan=False) + "\n")
    else:
        sys.stdout.write("\n".join(_page(path.name, content, question)) + "\n")


def read_runs(table: pl.DataFrame, question: VarianceQuestion) -> list[Runs]:
    """The runs of each technique and metric, in the order of the table.

    Raises:
        ConfigError: A column that the table has not, or a base that is no technique.
        DataError: A value that is missing, no number or there twice, a single run.
    """
    names = {
        "technique": question.technique,
        "metric": question.metric,
        "run": question.run,
        "value": question.value,
    }
    if question.class_column is not None:
        names["class"] = question.class_column
    for role, name in names.items():
        column(table, name, f"--{role}")
    keys = {role: texts(table, name).tolist() for role, name in names.items() if role != "value"}
    frame = pl.DataFrame(keys, schema=dict.fromkeys(keys, pl.String)).with_columns(
        value=pl.Series(numbers(table, question.value))
    )
    twice = frame.select(*keys).is_duplicated()
    if twice.any():
        row = frame.row(int(twice.arg_max() or 0), named=True)
        what = ", ".join(f"{role} {quoted(row[role])}" for role in keys)
        raise DataError(f"{what} is in the table more than once: keep one value per run")
    techniques = frame["technique"].unique(maintain_order=True).to_list()
    if question.base is not None and question.base not in techniques:
        raise ConfigError(
            f"--base must be one of the techniques, got {quoted(question.base)}: choose among "
            f"{listed(techniques)}"
        )
    return list(_runs(frame))


def _runs(frame: pl.DataFrame) -> Iterator[Runs]:
    for names, part in frame.group_by(["technique", "metric"], maintain_order=True):
        technique, metric = (str(name) for name in names)
        count = part["run"].n_unique()
        where = f"technique {quoted(technique)}, metric {quoted(metric)}"
        if count < 2:
            raise DataError(f"{where} has one run: a spread needs two or more")
        if "class" not in frame.columns:
            yield Runs(technique, metric, part["value"].to_numpy())
            continue
        wide = part.pivot("class", index="run", values="value", maintain_order=True)
        classes = tuple(wide.columns[1:])
        for name in classes:
            if wide[name].null_count():
                lacking = wide["run"].filter(wide[name].is_null())[0]
                raise DataError(
                    f"{where} has no value of class {quoted(name)} in run {quoted(lacking)}: give "
                    "every run all classes, or leave the class out"
                )
        yield Runs(technique, metric, wide.drop("run").to_numpy(), classes)


def compare_runs(runs: list[Runs], question: VarianceQuestion) -> dict[str, Any]:
    """The spread of each set of runs, and its comparison with the base.

    Args:
        runs: From `read_runs`.
        question: What is asked.

    Returns:
        `spread` and `comparisons`, one entry a technique and metric, the latter as one family.

    >>> rng = np.random.default_rng(0)
    >>> runs = [Runs(name, "DP", rng.normal(mean, 1, 8)) for name, mean in (("a", 0), ("b", 5))]
    >>> found = compare_runs(runs, VarianceQuestion(base="a"))
    >>> [(row["technique"], row["comparison"].mean_moves()) for row in found["comparisons"]]
    [('b', '+')]
    """
    check_level(question.level)
    spreads = [
        {"technique": one.technique, "metric": one.metric}
        | _spread(spread(one.values, level=question.level), one)
        for one in runs
    ]
    base = {one.metric: one for one in runs if one.technique == question.base}
    others = [one for one in runs if question.base is not None and one.technique != question.base]
    for one in others:
        if one.metric in base and set(base[one.metric].classes) != set(one.classes):
            raise DataError(
                f"technique {quoted(one.technique)}, metric {quoted(one.metric)} has other classes "
                "than the base: compare means over the same classes"
            )
    family = compare_family(
        {
            str(place): (base[one.metric].overall, one.overall)
            for place, one in enumerate(others)
            if one.metric in base
        },
        protocol=cast(StatisticsProtocol, question.protocol),
        level=question.level,
    )
    return {
        "protocol": question.protocol,
        "level": question.level,
        "base": question.base,
        "tests_in_family": len(family),
        "spread": spreads,
        "comparisons": [
            {
                "technique": one.technique,
                "metric": one.metric,
                "runs": len(one.values),
                "base_runs": len(base[one.metric].values) if one.metric in base else 0,
                "comparison": family.get(str(place)),
                "reason": "" if one.metric in base else NOT_COMPARED,
            }
            for place, one in enumerate(others)
        ],
    }


def _spread(result: RunSpread, runs: Runs) -> dict[str, Any]:
    worst = None if result.worst_class is None else runs.classes[result.worst_class]
    return {"spread": result, "worst_class": worst}


def _page(name: str, content: dict[str, Any], question: VarianceQuestion) -> Iterator[str]:
    level = f"{100 * question.level:g}%"
    yield cropped_text(f"{name}: spread over identical runs, intervals {level}")
    yield from wrapped(
        "All numbers are about training runs on this test set; sigma assumes normally "
        "distributed runs."
    )
    yield ""
    yield from _spread_table(content["spread"])
    if not content["comparisons"]:
        return
    several = "Benjamini-Hochberg" if question.protocol == "sound" else "none"
    yield ""
    yield from wrapped(
        f"Means and variances against {quoted(question.base or '')}: protocol {question.protocol}, "
        f"{_comparisons(content['tests_in_family'])}, correction {several}"
    )
    yield ""
    yield from _means(content["comparisons"])
    yield ""
    yield from _variances(content["comparisons"])


def _spread_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    cells, of_class = [], []
    for row in rows:
        one: RunSpread = row["spread"]
        names = [row["technique"], row["metric"]]
        note = aside([one.sigma], THIS_TEST_SET, "takes the runs")
        sigma = shown(one.sigma, significant=True)
        cells.append([*names, str(one.runs), _four(one.max_diff), _four(one.std), sigma, note])
        if row["worst_class"] is not None:
            worst = [_four(one.class_max_diff), _four(one.class_std), ""]
            of_class.append([*names, row["worst_class"], str(one.runs), *worst])
    header = ["technique", "metric", "runs", "max diff", "std", "sigma"]
    yield from table_lines(header, cells, right=2)
    if of_class:
        yield ""
        header = ["technique", "metric", "class moving most", "runs", "max diff", "std"]
        yield from table_lines(header, of_class, right=3)


def _means(rows: list[dict[str, Any]]) -> list[str]:
    cells = []
    for row in rows:
        one: RunComparison | None = row["comparison"]
        start = [row["technique"], row["metric"], _sizes(row)]
        if one is None:
            cells.append([*start, "", "", "", "", row["reason"]])
            continue
        effect = "" if math.isnan(one.cohens_d.value) else one.effect
        note = aside([one.difference, one.cohens_d], THIS_TEST_SET)
        cells.append(
            [
                *start,
                shown(one.difference, sign="+", significant=True),
                shown(one.cohens_d, digits=1),
                _p(one.u_p_adjusted),
                one.mean_moves(),
                "; ".join(filter(None, [effect, note])),
            ]
        )
    return table_lines(
        ["technique", "metric", "runs", "difference", "Cohen's d", "U p", "mean"],
        cells,
        right=2,
    )


def _variances(rows: list[dict[str, Any]]) -> list[str]:
    cells = []
    for row in rows:
        one: RunComparison | None = row["comparison"]
        if one is None:
            continue
        cells.append(
            [
                row["technique"],
                row["metric"],
                _sizes(row),
                shown(one.spread_ratio, digits=2),
                _p(one.levene_p_adjusted),
                one.variance_moves(),
                one.reason or aside([one.spread_ratio], THIS_TEST_SET),
            ]
        )
    header = ["technique", "metric", "runs", "ratio of standard deviations", "Levene p"]
    return table_lines([*header, "variance"], cells, right=2)


def _comparisons(count: int) -> str:
    return f"{count} comparison{'s' * (count != 1)}"


def _sizes(row: dict[str, Any]) -> str:
    """Runs of the technique, and of the base where it has another number."""
    both = [str(row["runs"]), str(row["base_runs"])]
    return ", ".join(dict.fromkeys(both))


def _four(value: float) -> str:
    return number(value, 4, significant=True)


def _p(value: float) -> str:
    if math.isnan(value):
        return "undefined"
    return f"{value:.3f}" if value >= 0.001 else "<0.001"
