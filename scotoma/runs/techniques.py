"""Which technique is better than its baseline in which metric, and at what cost?"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scotoma.errors import ConfigError, DataError
from scotoma.numbers import Estimate, check_level
from scotoma.numbers.inputs import Floats, StatisticsProtocol
from scotoma.printable import listed, quoted
from scotoma.runs.comparing import compare_runs, spread
from scotoma.runs.effects import single_run_risk, two_level_mean
from scotoma.runs.finding import RunFinding
from scotoma.runs.table import ACCURACY, RunSets


@dataclass(frozen=True, eq=False)
class MetricCorrelation:
    """Pearson correlations of metrics over runs.

    Attributes:
        metrics: Their names.
        across: Over all runs of all techniques, shape (M, M): what techniques do moves them
            together. nan where a metric does not vary.
        within: Over runs around their own technique's mean, shape (M, M): what chance does.
        effective_across: How many uncorrelated metrics vary as these do, in [1, M]: M^2 over the
            sum of squared correlations.
        effective_within: The same within techniques.
        runs: Number of runs.
        techniques: Number of techniques.
    """

    metrics: tuple[str, ...]
    across: Floats
    within: Floats
    effective_across: float
    effective_within: float
    runs: int
    techniques: int

    @property
    def lowest_across(self) -> float:
        """Smallest correlation of two different metrics over all runs; nan with one metric."""
        off = self.across[~np.eye(len(self.metrics), dtype=bool)]
        return float(np.nanmin(off)) if np.isfinite(off).any() else math.nan


def correlate_metrics(sets: RunSets, techniques: Sequence[str]) -> MetricCorrelation:
    """Correlate the bias metrics that all techniques have, runs without a nan.

    Args:
        sets: Runs by technique and metric.
        techniques: Those of one task, baseline among them.

    Returns:
        The correlations, and how many findings the metrics amount to.

    References:
        Effective number by participation ratio, (sum of eigenvalues)^2 / sum of their squares.

    >>> import numpy as np
    >>> dp = np.array([0.1, 0.2, 0.4, 0.3])
    >>> both = correlate_metrics({("base", "DP"): dp, ("base", "SPSF"): dp / 2}, ["base"])
    >>> round(both.effective_across, 6), round(both.lowest_across, 6)
    (1.0, 1.0)
    """
    known = [m for t, m in sets if t == techniques[0] and m != ACCURACY]
    metrics = tuple(m for m in known if all((t, m) in sets for t in techniques))
    tables = [np.empty((0, len(metrics)))]
    for technique in techniques if metrics else ():
        table = np.stack([sets[technique, metric] for metric in metrics], axis=1)
        tables.append(table[np.isfinite(table).all(axis=1)])
    tables = tables[:1] + [table for table in tables if len(table)]
    rows = np.concatenate(tables)
    around = np.concatenate([tables[0], *(table - table.mean(axis=0) for table in tables[1:])])
    across, within = _correlations(rows), _correlations(around)
    return MetricCorrelation(
        metrics, across, within, _effective(across), _effective(within), len(rows),
        len(tables) - 1,
    )  # fmt: skip


def _correlations(rows: Floats) -> Floats:
    size = rows.shape[1]
    if len(rows) < 3:
        return np.full((size, size), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.atleast_2d(np.corrcoef(rows, rowvar=False))


def _effective(correlations: Floats) -> float:
    """Number of uncorrelated metrics that vary alike; nan where a metric does not vary."""
    if not correlations.size:
        return math.nan
    return float(len(correlations) ** 2 / np.square(correlations).sum())


A_BASELINE = re.compile(r"(?:^|[-_ ])base(?:line)?$", re.IGNORECASE)
FEWEST_RUNS = 8  # a technique; of fewer, a test cannot tell a large effect from chance
ACCURACY_DOWN, ACCURACY_SPREAD_UP, BIAS_SPREAD_UP = COSTS = (
    "accuracy down", "accuracy spread up", "bias spread up",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Tournament:
    """Techniques against their baselines, in every metric.

    Attributes:
        protocol: `sound` or `published`.
        level: Coverage of the intervals.
        sets: The runs.
        cells: A technique in a metric each, in the order of the techniques, with what
            `compare_runs` finds and `single-run risk`, the share of pairs of single runs that point
            the wrong way.
        accuracy: One a technique whose accuracy is known.
        spreads: Every technique, baselines too, in every metric and in accuracy: `mean`, and what
            `spread` finds.
        correlations: Baseline to the correlations of its task's metrics.
        undefined: (technique, metric) to why there is no cell.
    """

    protocol: StatisticsProtocol
    level: float
    sets: RunSets
    cells: tuple[RunFinding, ...]
    accuracy: tuple[RunFinding, ...]
    spreads: tuple[RunFinding, ...]
    correlations: Mapping[str, MetricCorrelation]
    undefined: Mapping[tuple[str, str], str]

    @property
    def totals(self) -> dict[str, int]:
        """What `count_totals` counts."""
        return count_totals(self.cells, {one.technique for one in self.accuracy})

    @property
    def bases(self) -> tuple[str, ...]:
        """The baselines, one a task."""
        return tuple(self.correlations)

    def of_base(self, base: str) -> list[RunFinding]:
        """The cells of the task of a baseline."""
        return [cell for cell in self.cells if cell.base == base]


def compare_techniques(
    sets: RunSets,
    baseline_of: Mapping[str, str],
    *,
    protocol: StatisticsProtocol = "sound",
    level: float = 0.95,
) -> Tournament:
    """Compare every technique with its baseline in every metric and in accuracy.

    Args:
        sets: All techniques, baselines among them, 8 or more runs each; metrics are fractions and
            0 is fair, nan where undefined; `accuracy` is a metric of its own.
        baseline_of: Technique to its baseline, from `baselines`.
        protocol: `sound`: two-sided tests, Levene's on the values; Benjamini-Hochberg over all
            techniques and metrics of a task, apart for means, variances, and those of accuracy.
            `published`: one-sided in the direction of the means, Levene's on values divided by
            their mean, corrected for nothing.
        level: Coverage of the intervals, which are not adjusted, a fraction in (0, 1).

    Returns:
        The cells with their verdicts, and what they rest on.

    Raises:
        DataError: A technique has fewer than 8 runs, or different numbers of them by metric; or no
            technique shares a metric with its baseline.

    References:
        Qian et al. 2021, section 3.3 and Figures 1 to 3.

    >>> rng = np.random.default_rng(0)
    >>> means = {("base", "DP"): 0.3, ("base", "accuracy"): 0.9}
    >>> means |= {("fair", "DP"): 0.1, ("fair", "accuracy"): 0.7}
    >>> sets = {key: rng.normal(mean, 0.01, 8) for key, mean in means.items()}
    >>> [cell] = compare_techniques(sets, {"fair": "base"}).cells
    >>> cell.verdict, cell.costs, cell["single-run risk"].value
    ('better at a cost', ('accuracy down',), 0.0)
    """
    check_level(level)
    techniques = list(dict.fromkeys(technique for technique, _ in sets))
    for technique in techniques:
        _check_runs(technique, sets)
    accuracy: dict[str, RunFinding] = {}
    cells: dict[tuple[str, str], RunFinding] = {}
    undefined: dict[tuple[str, str], str] = {}
    correlations = {}
    for base in dict.fromkeys(baseline_of.values()):
        names = [name for name in baseline_of if baseline_of[name] == base]
        own = [name for name in techniques if name == base or name in names]
        correlations[base] = correlate_metrics(sets, own)
        for bias in (False, True):
            keys, lacking = _comparable(sets, base, names, bias=bias)
            undefined |= lacking
            pairs = {key: (sets[base, key[1]], sets[key]) for key in keys}
            for key, numbers in compare_runs(pairs, level=level).items():
                found = RunFinding(*key, numbers, base, protocol=protocol)
                if bias:
                    numbers["single-run risk"] = single_run_risk(*pairs[key], level)
                    cells[key] = replace(found, costs=costs_of(found, accuracy.get(key[0])))
                else:
                    accuracy[key[0]] = found
    if not cells:
        (name, metric), why = next(iter(undefined.items()), (("a technique", "bias"), "unknown"))
        raise DataError(
            f"no technique can be compared with its baseline, {metric} of {quoted(name)} is {why}: "
            "give both the same metrics, defined in every run"
        )
    order = list(baseline_of)
    return Tournament(
        protocol=protocol,
        level=level,
        sets=sets,
        cells=tuple(sorted(cells.values(), key=lambda one: order.index(one.technique))),
        accuracy=tuple(sorted(accuracy.values(), key=lambda one: order.index(one.technique))),
        spreads=tuple(RunFinding(*key, _spread(sets, key, level)) for key in sets),
        correlations=correlations,
        undefined=undefined,
    )


def _spread(sets: RunSets, key: tuple[str, str], level: float) -> dict[str, Estimate]:
    return {"mean": two_level_mean(sets[key], level=level), **spread(sets[key], level=level)[0]}


def _check_runs(technique: str, sets: RunSets) -> None:
    sizes = {metric: own.size for (of, metric), own in sets.items() if of == technique}
    if len(set(sizes.values())) > 1:
        most, least = max(sizes, key=lambda m: sizes[m]), min(sizes, key=lambda m: sizes[m])
        raise DataError(
            f"technique {technique} must have as many runs in every metric, got {sizes[most]} "
            f"of {most} and {sizes[least]} of {least}: give each run every value"
        )
    if (count := next(iter(sizes.values()))) < FEWEST_RUNS:
        raise DataError(
            f"a tournament needs {FEWEST_RUNS} runs of each technique, got {count} of "
            f"{technique}: train more"
        )


def _comparable(
    sets: RunSets, base: str, names: Sequence[str], *, bias: bool
) -> tuple[list[tuple[str, str]], dict[tuple[str, str], str]]:
    """Which techniques can be compared in which metrics, and why others cannot, but in accuracy."""
    keys, lacking = [], {}
    for name in names:
        for metric in dict.fromkeys(m for one in (base, name) for t, m in sets if t == one):
            if (metric != ACCURACY) is not bias:
                continue
            absent = next((one for one in (base, name) if (one, metric) not in sets), "")
            if absent:
                lacking[name, metric] = f"not compared ({absent} has no values)"
            elif not np.isfinite([*sets[base, metric], *sets[name, metric]]).all():
                lacking[name, metric] = "not compared (undefined in a run)"
            else:
                keys.append((name, metric))
    return keys, lacking if bias else {}


def costs_of(cell: RunFinding, accuracy: RunFinding | None) -> tuple[str, ...]:
    """What a technique that lowers bias costs, of `COSTS`; empty where it does not lower it."""
    if cell.moves("mean") != "-":
        return ()
    paid = {
        ACCURACY_DOWN: accuracy is not None and accuracy.moves("mean") == "-",
        ACCURACY_SPREAD_UP: accuracy is not None and accuracy.spread_moves == "+",
        BIAS_SPREAD_UP: cell.spread_moves == "+",
    }
    return tuple(cost for cost in COSTS if paid[cost])


def count_totals(cells: Sequence[RunFinding], accuracy: Collection[str]) -> dict[str, int]:
    """Count cells as Qian et al. 2021 do in Findings 3 and 4: costs overlap.

    Args:
        cells: A technique in a metric each, with what it costs.
        accuracy: Techniques whose accuracy is known.

    Returns:
        `cells`; those whose bias is significantly `lower`, `higher`, or `undecided`; of `lower`
        those whose Cohen's d is `huge`, 2 or more, those `with_cost`, with each cost and
        `all_three`; `without_accuracy`, cells whose accuracy is not known and costs nothing here.
    """
    moves = [cell.moves("mean") for cell in cells]
    lower = [cell for cell, moved in zip(cells, moves, strict=True) if moved == "-"]
    return {
        "cells": len(moves),
        "lower": len(lower),
        "higher": moves.count("+"),
        "undecided": moves.count("NS"),
        "huge": sum(cell.effect == "huge" for cell in lower),
        "with_cost": sum(bool(cell.costs) for cell in lower),
        **{one.replace(" ", "_"): sum(one in cell.costs for cell in lower) for one in COSTS},
        "all_three": sum(len(cell.costs) == len(COSTS) for cell in lower),
        "without_accuracy": sum(cell.technique not in accuracy for cell in cells),
    }


def baselines(techniques: Sequence[str], named: Sequence[str] = ()) -> dict[str, str]:
    """Find the baseline of each technique: its task's, where there are several.

    A task is what stands before the last hyphen of its baseline's name: `S` for `S-Base`.

    Args:
        techniques: Names of all techniques, baselines among them.
        named: Baselines by name; none takes those whose name is, or ends in, `base` or `baseline`.

    Returns:
        Technique to its baseline, in the order of `techniques`, without the baselines.

    Raises:
        ConfigError: A baseline is no technique, there is none, or a technique has none.

    >>> baselines(["S-Base", "S-RS", "A-Base", "A-L2"])
    {'S-RS': 'S-Base', 'A-L2': 'A-Base'}
    >>> baselines(["plain", "mixup", "cutout"], ["plain"])
    {'mixup': 'plain', 'cutout': 'plain'}
    """
    for name in named:
        if name not in techniques:
            raise ConfigError(
                f"--base must be one of the techniques, got {quoted(name)}: choose among "
                f"{listed(techniques)}"
            )
    bases = list(dict.fromkeys(named)) or [name for name in techniques if A_BASELINE.search(name)]
    if not bases:
        raise ConfigError("no technique is called a baseline: name it with --base")
    others = [name for name in techniques if name not in bases]
    if not others:
        raise ConfigError("a tournament needs a technique beside its baseline, got none: add one")
    if len(bases) == 1 and named:
        return dict.fromkeys(others, bases[0])
    by_task = {base[: base.rfind("-") + 1]: base for base in bases}
    if len(by_task) < len(bases):
        raise ConfigError(
            f"a task must have one baseline, got {listed(bases)}: name one of them with --base"
        )
    of: dict[str, str] = {}
    for name in others:
        tasks = [task for task in by_task if name.startswith(task)]
        if not tasks:
            raise ConfigError(
                f"technique {quoted(name)} has no baseline among {listed(bases)}: name its "
                "baseline with --base"
            )
        of[name] = by_task[max(tasks, key=len)]
    return of
