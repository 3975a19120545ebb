"""Which technique is better than its baseline in which metric, and at what cost?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

import numpy as np

from scotoma.errors import DataError
from scotoma.inputs import Floats, StatisticsProtocol
from scotoma.numbers import Estimate, benjamini_hochberg, check_level
from scotoma.tournament.correlation import MetricCorrelation, correlate_metrics
from scotoma.tournament.risk import single_run_risk
from scotoma.tournament.technique_runs import TechniqueRuns
from scotoma.tournament.two_levels import two_level_mean
from scotoma.variance import RunComparison, RunSpread, compare_family, spread

__all__ = [
    "COSTS",
    "FEWEST_RUNS",
    "AccuracyCell",
    "Cell",
    "TechniqueSpread",
    "Tournament",
    "compare_techniques",
]

FEWEST_RUNS = 8  # a technique; of fewer, a test cannot tell a large effect from chance
ALPHA = 0.05
ACCURACY_DOWN, ACCURACY_SPREAD_UP, BIAS_SPREAD_UP = COSTS = (
    "accuracy down", "accuracy spread up", "bias spread up",
)  # fmt: skip
Verdict = Literal["better", "better at a cost", "worse", "undecided"]
Key = tuple[str, str]


@dataclass(frozen=True)
class TechniqueSpread:
    """One metric over the runs of one technique.

    Attributes:
        technique: The technique.
        metric: The metric, or `accuracy`.
        mean: Mean over runs with its t interval.
        spread: MaxDiff, and the standard deviation with its interval.
    """

    technique: str
    metric: str
    mean: Estimate
    spread: RunSpread


@dataclass(frozen=True)
class AccuracyCell:
    """Accuracy of one technique against its baseline.

    Attributes:
        technique: The technique.
        base: Its baseline.
        raw: Tests, Levene's on the values.
        relative: Tests, Levene's on values divided by their mean.
        protocol: `sound` takes `raw`, `published` takes `relative`.
        alpha: Largest adjusted p called significant.
    """

    technique: str
    base: str
    raw: RunComparison
    relative: RunComparison
    protocol: StatisticsProtocol
    alpha: float = ALPHA

    @property
    def tests(self) -> RunComparison:
        """The tests of the protocol."""
        return self.relative if self.protocol == "published" else self.raw

    @property
    def mean_moves(self) -> str:
        """`+` where the technique's mean is significantly higher, `-` lower, `NS` neither."""
        return self.tests.mean_moves(self.alpha)

    @property
    def spread_moves(self) -> str:
        """`+` where the technique varies significantly more from run to run, `-` less, `NS`."""
        return self.tests.variance_moves(self.alpha)


@dataclass(frozen=True)
class Cell(AccuracyCell):
    """One technique in one metric against its baseline.

    Attributes:
        metric: The metric.
        risk: Share of pairs of single runs that point the wrong way, with its interval.
        accuracy_known: Whether accuracy could be compared.
        values: The technique's runs.
        base_values: The baseline's runs.
        costs: What a technique that lowers bias costs, of `COSTS`; empty where it does not.
    """

    _: KW_ONLY
    metric: str
    risk: Estimate
    accuracy_known: bool
    values: tuple[float, ...]
    base_values: tuple[float, ...]
    costs: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """What is shown: `better`, `better at a cost`, `worse` or `undecided`."""
        if self.mean_moves == "NS":
            return "undecided"
        if self.mean_moves == "+":
            return "worse"
        return "better at a cost" if self.costs else "better"


@dataclass(frozen=True, eq=False)
class Tournament:
    """Techniques against their baselines, in every metric.

    Attributes:
        protocol: `sound` or `published`.
        level: Coverage of the intervals.
        cells: One a technique and metric, in the order of the techniques.
        accuracy: One a technique whose accuracy is known.
        spreads: Every technique, baselines too, in every metric and in accuracy.
        correlations: Baseline to the correlations of its task's metrics.
        undefined: (technique, metric) to why there is no cell.
    """

    protocol: StatisticsProtocol
    level: float
    cells: tuple[Cell, ...]
    accuracy: tuple[AccuracyCell, ...]
    spreads: tuple[TechniqueSpread, ...]
    correlations: Mapping[str, MetricCorrelation]
    undefined: Mapping[Key, str]

    @property
    def bases(self) -> tuple[str, ...]:
        """The baselines, one a task."""
        return tuple(self.correlations)

    def of_base(self, base: str) -> list[Cell]:
        """The cells of the task of a baseline."""
        return [cell for cell in self.cells if cell.base == base]


def compare_techniques(
    runs: Sequence[TechniqueRuns],
    baseline_of: Mapping[str, str],
    *,
    protocol: StatisticsProtocol = "sound",
    level: float = 0.95,
    alpha: float = ALPHA,
) -> Tournament:
    """Compare every technique with its baseline in every metric and in accuracy.

    Args:
        runs: All techniques, baselines among them; 8 or more runs each.
        baseline_of: Technique to its baseline, from `baselines`.
        protocol: `sound`: two-sided tests, Levene's on the values; Benjamini-Hochberg over all
            techniques and metrics of a task, apart for means, variances, and those of accuracy.
            `published`: one-sided in the direction of the means, Levene's on values divided by
            their mean, corrected for nothing.
        level: Coverage of the intervals, which are not adjusted, a fraction in (0, 1).
        alpha: Largest adjusted p called significant.

    Returns:
        The cells with their verdicts, and what they rest on.

    Raises:
        DataError: A technique has fewer than 8 runs, or different numbers of them by metric.

    References:
        Qian et al. 2021, section 3.3 and Figures 1 to 3.

    >>> rng = np.random.default_rng(0)
    >>> base = TechniqueRuns("base", {"DP": rng.normal(0.3, 0.01, 8)}, rng.normal(0.9, 0.01, 8))
    >>> fair = TechniqueRuns("fair", {"DP": rng.normal(0.1, 0.01, 8)}, rng.normal(0.7, 0.01, 8))
    >>> [cell] = compare_techniques([base, fair], {"fair": "base"}).cells
    >>> cell.verdict, cell.costs, cell.risk.value
    ('better at a cost', ('accuracy down',), 0.0)
    """
    check_level(level)
    by_name = {one.technique: one for one in runs}
    for one in runs:
        _check_runs(one)
    accuracy: list[AccuracyCell] = []
    cells: dict[Key, Cell] = {}
    undefined: dict[Key, str] = {}
    bases = list(dict.fromkeys(baseline_of.values()))
    for base in bases:
        names = [name for name in baseline_of if baseline_of[name] == base]
        tested = _accuracies(by_name, base, names, protocol, level, alpha)
        accuracy += tested.values()
        pairs, lacking = _pairs(by_name, base, names)
        undefined |= lacking
        raw, relative = _both(pairs, protocol, level)
        for (name, metric), (before, after) in pairs.items():
            cell = Cell(
                name, base, raw[name, metric], relative[name, metric], protocol, alpha,
                metric=metric,
                risk=single_run_risk(before, after, level=level),
                accuracy_known=name in tested,
                values=tuple(after.tolist()),
                base_values=tuple(before.tolist()),
            )  # fmt: skip
            cells[name, metric] = replace(cell, costs=_costs(cell, tested.get(name)))
    return Tournament(
        protocol=protocol,
        level=level,
        cells=tuple(cells[key] for name in baseline_of for key in cells if key[0] == name),
        accuracy=tuple(sorted(accuracy, key=lambda one: list(baseline_of).index(one.technique))),
        spreads=tuple(_spreads(runs, level)),
        correlations={
            base: correlate_metrics(
                [one for one in runs if base in (one.technique, baseline_of.get(one.technique))]
            )
            for base in bases
        },
        undefined=undefined,
    )


def _check_runs(one: TechniqueRuns) -> None:
    sizes = {metric: values.size for metric, values in one.bias.items()}
    if one.accuracy is not None:
        sizes["accuracy"] = one.accuracy.size
    if len(set(sizes.values())) > 1:
        most, least = max(sizes, key=lambda m: sizes[m]), min(sizes, key=lambda m: sizes[m])
        raise DataError(
            f"technique {one.technique} must have as many runs in every metric, got {sizes[most]} "
            f"of {most} and {sizes[least]} of {least}: give each run every value"
        )
    count = next(iter(sizes.values()), 0)
    if count < FEWEST_RUNS:
        raise DataError(
            f"a tournament needs {FEWEST_RUNS} runs of each technique, got {count} of "
            f"{one.technique}: train more"
        )


def _pairs(
    by_name: Mapping[str, TechniqueRuns], base: str, names: Iterable[str]
) -> tuple[dict[Key, tuple[Floats, Floats]], dict[Key, str]]:
    """Runs of baseline and technique by (technique, metric), and why others have none."""
    before = by_name[base].bias
    pairs: dict[Key, tuple[Floats, Floats]] = {}
    lacking: dict[Key, str] = {}
    for name in names:
        own = by_name[name].bias
        for metric in dict.fromkeys([*before, *own]):
            absent = base if metric not in before else name if metric not in own else ""
            if absent:
                lacking[name, metric] = f"not compared ({absent} has no values)"
            elif not np.isfinite(np.concatenate([before[metric], own[metric]])).all():
                lacking[name, metric] = "not compared (undefined in a run)"
            else:
                pairs[name, metric] = (before[metric], own[metric])
    return pairs, lacking


def _both(
    pairs: Mapping[Key, tuple[Floats, Floats]], protocol: StatisticsProtocol, level: float
) -> tuple[dict[Key, RunComparison], dict[Key, RunComparison]]:
    """Comparisons whose Levene tests are of the values, and of values over their mean."""
    raw = compare_family(pairs, protocol="sound", level=level)
    relative = compare_family(pairs, protocol="published", level=level)
    if protocol == "published":
        return {key: replace(one, levene_p_adjusted=one.levene_p) for key, one in raw.items()}, (
            relative
        )
    adjusted = benjamini_hochberg([one.levene_p for one in relative.values()]) if relative else ()
    return raw, {
        key: replace(one, levene_p_adjusted=float(p))
        for (key, one), p in zip(relative.items(), adjusted, strict=True)
    }


def _accuracies(
    by_name: Mapping[str, TechniqueRuns],
    base: str,
    names: Iterable[str],
    protocol: StatisticsProtocol,
    level: float,
    alpha: float,
) -> dict[str, AccuracyCell]:
    before = by_name[base].accuracy
    if before is None:
        return {}
    pairs = {
        (name, "accuracy"): (before, own)
        for name in names
        if (own := by_name[name].accuracy) is not None
        and np.isfinite(np.concatenate([before, own])).all()
    }
    raw, relative = _both(pairs, protocol, level)
    return {
        key[0]: AccuracyCell(key[0], base, raw[key], relative[key], protocol, alpha)
        for key in pairs
    }


def _costs(cell: Cell, accuracy: AccuracyCell | None) -> tuple[str, ...]:
    if cell.mean_moves != "-":
        return ()
    paid = {
        ACCURACY_DOWN: accuracy is not None and accuracy.mean_moves == "-",
        ACCURACY_SPREAD_UP: accuracy is not None and accuracy.spread_moves == "+",
        BIAS_SPREAD_UP: cell.spread_moves == "+",
    }
    return tuple(cost for cost in COSTS if paid[cost])


def _spreads(runs: Iterable[TechniqueRuns], level: float) -> Iterable[TechniqueSpread]:
    for one in runs:
        columns = dict(one.bias)
        if one.accuracy is not None:
            columns["accuracy"] = one.accuracy
        for metric, values in columns.items():
            yield TechniqueSpread(
                one.technique,
                metric,
                two_level_mean(values, level=level),
                spread(values, level=level),
            )
