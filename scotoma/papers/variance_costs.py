"""Does compression move fairness or its spread, and at what cost? Figures 1 to 3, Finding 4."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scotoma.audit import Quantity
from scotoma.audit.run_to_run import FairnessRuns, RunTests
from scotoma.bias.fairness import NAMES
from scotoma.inputs import StatisticsProtocol
from scotoma.papers.finished import FinishedAudit
from scotoma.papers.table import Cell, Grid, PaperTable
from scotoma.papers.words import quantity_text
from scotoma.printable import code_span
from scotoma.published import PublishedTable, fairness_runs, fairness_variance
from scotoma.runs import RunFinding, compare_runs
from scotoma.runs.effects import sawilowsky

__all__ = ["Experiment", "cost_counts", "cost_tables", "heatmaps", "published_experiments"]

Sign = Literal["+", "-", "NS"]
ALPHA = 0.05
STUDY = "techniques against their baselines, 16 runs each"
LEGEND = (
    "-: lower than dense, +: higher, NS: not significant (one-sided U or Levene's test at 5%, not "
    "adjusted)"
)
PAIRED = (
    "Members that derive from dense ones are taken as independent of them, as the tests demand: "
    "their NS says little."
)
NO_TESTS = (
    "no variant can be compared with dense: tests of runs need two models a variant and groups; "
    "raise population.models, name groups, and audit again"
)
COSTS = ("pairs", "lower bias", "with a cost", "accuracy", "accuracy var.", "bias var.", "all 3")


@dataclass(frozen=True)
class Experiment:
    """One technique against its baseline in one metric, as the study tests it.

    Attributes:
        technique: The technique, or the compressed variant.
        metric: The bias metric.
        bias: Where the mean bias moves.
        effect: Size of that on Sawilowsky's scale.
        bias_variance: Where the variance of the bias moves.
        accuracy: Where the mean accuracy moves.
        accuracy_variance: Where its variance moves.
    """

    technique: str
    metric: str
    bias: Sign
    effect: str
    bias_variance: Sign
    accuracy: Sign
    accuracy_variance: Sign


def heatmaps(finished: FinishedAudit) -> list[PaperTable]:
    """Make Figures 1 to 3 from a run, as tables of signs."""
    own, sound = _of_run(finished, "published"), _of_run(finished, "sound")
    study = published_experiments()
    derived = [PAIRED] * any(variant.paired for variant in finished.audit.compressed)

    def figure(name: str, title: str, columns: Sequence[str], cell: Shown, told: str) -> PaperTable:
        body = PublishedTable(columns=tuple(columns), rows=_rows(study, columns, cell))
        caption = f"Paper, {name}, from the study's published tests: {STUDY}"
        grids = [Grid.published(caption, body, rows="technique")]
        if not own:
            return PaperTable.lacking(name, title, NO_TESTS, grids)
        rows = tuple((of, *cells) for of, cells in _rows(own, columns, cell).items())
        run = Grid("This run", ("variant", *columns), rows)
        return PaperTable(
            name=name, title=title, run=run, published=grids, conclusion=told,
            notes=[f"{LEGEND}; X: bias does not fall.", *derived],
        )  # fmt: skip

    moved = [one for one in sound if one.bias != "NS"]
    wider = [one for one in sound if one.bias_variance != "NS"]
    return [
        figure(
            "Figure 1", "Where mean bias moves, and how far", NAMES, _bias,
            f"adjusted for all metrics and attributes of a variant (Benjamini and Hochberg), bias "
            f"moves in {len(moved)} of {len(sound)} pairs: {_counted(moved, 'bias')}"
            f"{_clearest(finished, 'u_p_adjusted')}.",
        ),
        figure(
            "Figure 2", "Where the variance of bias moves", NAMES, _variance,
            f"adjusted, the variance of bias moves in {len(wider)} of {len(sound)} pairs: "
            f"{_counted(wider, 'bias_variance')}{_clearest(finished, 'levene_p_adjusted')}.",
        ),
        figure(
            "Figure 3", "Where accuracy and its variance move", ("accuracy", "variance"), _accuracy,
            _accuracies(finished),
        ),
    ]  # fmt: skip


def cost_tables(finished: FinishedAudit) -> list[PaperTable]:
    """Make the three costs of Finding 4 from a run."""
    name, title = "Finding 4", "Pairs of technique and metric that lower bias, and what it costs"
    printed = fairness_variance().costs
    recomputed = {"with published runs": cost_counts(published_experiments())}
    subset = PublishedTable(columns=printed.columns, rows={**printed.rows, **recomputed})
    grids = [
        Grid.published("Paper, Finding 4 (section 3.3)", subset, rows="which", columns=COSTS)
    ]
    own, sound = _of_run(finished, "published"), _of_run(finished, "sound")
    if not own:
        return [PaperTable.lacking(name, title, NO_TESTS, grids)]
    rows: tuple[tuple[Cell, ...], ...] = (
        ("this run", *cost_counts(own)),
        ("this run, adjusted", *cost_counts(sound)),
    )
    return [
        PaperTable(
            name=name,
            title=title,
            run=Grid("This run", ("which", *COSTS), rows),
            published=grids,
            conclusion=f"two-sided and adjusted, {cost_counts(sound)[1]} of {len(sound)} pairs "
            f"lower bias, {cost_counts(sound)[2]} of them at a cost.",
            notes=["Costs are counted among the pairs that lower bias, not exclusively."],
        )
    ]


def cost_counts(experiments: Sequence[Experiment]) -> tuple[int, ...]:
    """Count the pairs, those that lower bias, and of these the costs.

    Args:
        experiments: Pairs of technique and metric.

    Returns:
        One number for each of `COSTS`.

    References:
        Qian et al. 2021, section 3.3 and Finding 4.
    """
    lower = [one for one in experiments if one.bias == "-"]
    paid = [
        (one.accuracy == "-", one.accuracy_variance == "+", one.bias_variance == "+")
        for one in lower
    ]
    each = (sum(kind) for kind in zip(*paid, strict=True)) if paid else (0, 0, 0)
    return (len(experiments), len(lower), sum(map(any, paid)), *each, sum(map(all, paid)))


def published_experiments() -> list[Experiment]:
    """Test the pairs of the study whose raw runs are published; bias as it printed it."""
    accuracy = fairness_runs().accuracy
    moves = {
        (one.base, one.technique): _accuracy_moves(
            accuracy[one.base], accuracy[one.technique], "published"
        )
        for one in fairness_variance().tests
    }
    return [
        Experiment(
            one.technique, one.metric, _known(one.u_sig), sawilowsky(one.abs_cohen_d or 0.0),
            _known(one.levene_sig), *moves[one.base, one.technique],
        )
        for one in fairness_variance().tests
    ]  # fmt: skip


def _of_run(finished: FinishedAudit, protocol: StatisticsProtocol) -> list[Experiment]:
    """Read the tests of each variant, attribute and metric from a run."""
    audit = finished.audit
    attributes = {row.attribute for own in audit.run_to_run.values() for row in own}
    experiments = []
    for variant in finished.compressed:
        tested = [row for row in audit.run_to_run.get(variant, ()) if row.compared is not None]
        if not tested:
            continue
        before, after = (audit.accuracy[name].members for name in (audit.dense.name, variant))
        moves = _accuracy_moves(before, after, protocol)
        for row in tested:
            of = variant if len(attributes) == 1 else f"{variant}, {row.attribute}"
            experiments.append(_experiment(of, row, protocol, moves))
    return experiments


def _experiment(
    technique: str, row: FairnessRuns, protocol: StatisticsProtocol, moves: tuple[Sign, Sign]
) -> Experiment:
    assert row.compared is not None
    tests: RunTests = getattr(row.compared, protocol)
    wider = tests.spread_ratio.value
    return Experiment(
        technique,
        row.metric,
        _sign(tests.u_p_adjusted, row.compared.difference.value),
        row.compared.effect,
        _sign(tests.levene_p_adjusted, None if wider is None else wider - 1),
        *moves,
    )


def _accuracy_moves(
    base: Iterable[float | None], other: Iterable[float | None], protocol: StatisticsProtocol
) -> tuple[Sign, Sign]:
    before, after = ([value for value in own if value is not None] for own in (base, other))
    one = _compared(before, after, protocol)
    return one.moves("mean"), one.spread_moves


def _compared(
    before: Sequence[float], after: Sequence[float], protocol: StatisticsProtocol
) -> RunFinding:
    return RunFinding("", "accuracy", compare_runs({"": (before, after)})[""], protocol=protocol)


def _sign(p: float | None, direction: float | None) -> Sign:
    if p is None or direction is None or p > ALPHA:
        return "NS"
    return "+" if direction > 0 else "-"


def _known(sign: str) -> Sign:
    return "+" if sign == "+" else "-" if sign == "-" else "NS"


Shown = Callable[[Mapping[str, Experiment], str], Cell]


def _rows(
    experiments: Sequence[Experiment], columns: Sequence[str], cell: Shown
) -> dict[str, tuple[Cell, ...]]:
    by_technique: dict[str, dict[str, Experiment]] = {}
    for one in experiments:
        by_technique.setdefault(one.technique, {})[one.metric] = one
    return {
        of: tuple(cell(by_metric, column) for column in columns)
        for of, by_metric in by_technique.items()
    }


def _bias(by_metric: Mapping[str, Experiment], metric: str) -> Cell:
    one = by_metric.get(metric)
    if one is None or one.bias == "NS":
        return None if one is None else "NS"
    return f"{one.bias}{one.effect}"


def _variance(by_metric: Mapping[str, Experiment], metric: str) -> Cell:
    one = by_metric.get(metric)
    return None if one is None else f"{one.bias_variance}{' X' * (one.bias != '-')}"


def _accuracy(by_metric: Mapping[str, Experiment], column: str) -> Cell:
    own = list(by_metric.values())
    sign = own[0].accuracy if column == "accuracy" else own[0].accuracy_variance
    return f"{sign}{' X' * all(one.bias != '-' for one in own)}"


def _counted(experiments: Sequence[Experiment], what: Literal["bias", "bias_variance"]) -> str:
    up = sum(getattr(one, what) == "+" for one in experiments)
    return f"{up} up, {len(experiments) - up} down"


def _clearest(finished: FinishedAudit, test: Literal["u_p_adjusted", "levene_p_adjusted"]) -> str:
    """Put the effect of the smallest adjusted p, with its interval over training runs."""
    tested = [
        (p, f"{row.metric} of {code_span(row.attribute)} under {variant}", row.compared)
        for variant in finished.compressed
        for row in finished.audit.run_to_run.get(variant, ())
        if row.compared is not None and (p := getattr(row.compared.sound, test)) is not None
    ]
    if not tested:
        return ""
    p, where, compared = min(tested, key=lambda one: one[0])
    if test == "u_p_adjusted":
        effect = f"Cohen's d {quantity_text(compared.cohens_d, digits=2, sign='+')}"
    else:
        effect = (
            f"ratio of standard deviations {quantity_text(compared.sound.spread_ratio, digits=2)}"
        )
    return f"; smallest p {p:.2g}: {where}, {effect}"


def _accuracies(finished: FinishedAudit) -> str:
    """Put the change of accuracy over training runs, two-sided, and say where it varies more."""
    members = {
        name: [value for value in finished.audit.accuracy[name].members if value is not None]
        for name in (finished.audit.dense.name, *finished.compressed)
    }
    before = members.pop(finished.audit.dense.name)
    moves = {
        name: _compared(before, own, "sound")
        for name, own in members.items()
        if min(len(own), len(before)) > 1
    }
    changes = (
        f"{name} {quantity_text(Quantity.of(one['difference']), factor=100, digits=2, sign='+')}"
        for name, one in moves.items()
    )
    wider = [name for name, one in moves.items() if one.spread_moves == "+"]
    return (
        f"change of accuracy over training runs, in points: {'; '.join(changes)}; it varies more "
        f"under {', '.join(wider) or 'no variant'}."
    )
