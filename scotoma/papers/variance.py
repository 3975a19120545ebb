"""What would the tables of Qian et al. 2021, the fixed-seed study, say about my run?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from scotoma.audit import Quantity
from scotoma.bias.fairness import NAMES, fairness_metric
from scotoma.papers.table import Cell, Grid, PaperTable
from scotoma.papers.variance_costs import cost_tables, heatmaps
from scotoma.papers.words import in_percent, quantity_text
from scotoma.predictions.finished import FinishedAudit
from scotoma.printable import code_span
from scotoma.published import PublishedTable, fairness_variance

STUDY = "CIFAR-10S (S) and CelebA (A), ResNet-18, 16 runs of one seed"
SEEDS = (
    "The paper's runs share one seed; the members of this run differ in their seeds too, unless "
    "population.identical is set: their spread is wider."
)
NO_GROUPS = "no groups, so no fairness; name attributes as groups and audit again"
NO_SPREAD = "one model of each variant has no spread; raise population.models and audit again"
SPREADS = {
    ("Overall", "MaxDiff"): "MaxDiff", ("Overall", "STDEV"): "STDEV",
    ("Per-class", "MaxDiff"): "MaxDiff of class", ("Per-class", "STDEV"): "STDEV of class",
}  # fmt: skip
PRINTED = ("overall_maxdiff", "overall_std", "perclass_maxdiff", "perclass_std")


def tables(finished: FinishedAudit) -> list[PaperTable]:
    """Make the tables of the paper from a run."""
    return [
        _spreads(finished),
        _worked(),
        _di(finished),
        *heatmaps(finished),
        *cost_tables(finished),
    ]


def _spreads(finished: FinishedAudit) -> PaperTable:
    """Table 2."""
    name, title = "Table 2", "MaxDiff and STDEV of the seven metrics over models, percentage points"
    published = [
        Grid.published(
            f"Paper, Table 2: {technique}, {STUDY}",
            PublishedTable(columns=table.columns, rows=_unfolded(table)),
            rows="value",
        )
        for technique, table in fairness_variance().table2.items()
    ]
    rows: list[tuple[Cell, ...]] = []
    for attribute, variant, by_metric in _measured(finished):
        for (level, value), key in SPREADS.items():
            cells = (_in_percent(by_metric[metric], key) for metric in NAMES)
            rows.append((attribute, variant, f"{level} {value}", *cells))
    if missing := _missing(finished, rows):
        return PaperTable.lacking(name, title, missing, published)
    return PaperTable(
        name=name,
        title=title,
        run=Grid("This run", ("attribute", "variant", "value", *NAMES), tuple(rows), names=3,
                 absent=_reasons(finished)),
        published=published,
        conclusion=_sigmas(finished, "DP"),
        notes=[*_notes(finished)],
    )  # fmt: skip


def _di(finished: FinishedAudit) -> PaperTable:
    """Table 4."""
    name, title = "Table 4", "MaxDiff and STDEV of DI under every variant, percentage points"
    columns = tuple(f"{level} {value}" for level, value in SPREADS)
    published = [
        Grid.published(
            f"Paper, Table 4: {STUDY}", fairness_variance().table4, rows="technique",
            columns=columns,
        )
    ]  # fmt: skip
    rows = tuple(
        (attribute, variant, *(_in_percent(own["DI"], key) for key in SPREADS.values()))
        for attribute, variant, own in _measured(finished)
    )
    if missing := _missing(finished, rows):
        return PaperTable.lacking(name, title, missing, published)
    return PaperTable(
        name=name,
        title=title,
        run=Grid("This run", ("attribute", "variant", *columns), rows, names=2,
                 absent=_reasons(finished)),
        published=published,
        conclusion=_sigmas(finished, "DI"),
        notes=[*_notes(finished)],
    )  # fmt: skip


def _worked() -> PaperTable:
    """Table 3, the paper's example: the same for every run."""
    example = fairness_variance().running_example
    counts = {
        f"{group}, {label}": cells
        for group, of in (("female", example.female), ("male", example.male))
        for label, cells in of.items()
    }
    confusion = [list(of.values()) for of in (example.female, example.male)]
    own = {metric: float(fairness_metric(metric, confusion).overall) for metric in NAMES}
    printed = {"printed": tuple(example.metrics_percent[metric] for metric in NAMES)}
    return PaperTable(
        name="Table 3",
        title="The paper's worked example, not of this run: two classes, two groups, per cent",
        run=Grid(
            "Scotoma on the paper's counts",
            ("of", *NAMES),
            (("computed", *(in_percent(own[metric]) for metric in NAMES)),),
        ),
        published=[
            Grid.published(
                "Paper, Table 3: metrics", PublishedTable(columns=NAMES, rows=printed), rows="of"
            ),
            Grid.published(
                "Paper, Table 3: counts",
                PublishedTable(columns=example.columns, rows=counts),
                rows="group and label",
            ),
        ],
        conclusion="an example has no interval; it holds the formulas to the paper's.",
    )


Numbers = dict[str, Quantity]


def _in_percent(numbers: Numbers, what: str) -> Cell:
    return in_percent(numbers[what].value if what in numbers else None)


def _measured(finished: FinishedAudit) -> Iterator[tuple[str, str, dict[str, Numbers]]]:
    """Yield attribute and variant, and the numbers of its metrics by what they are."""
    found: dict[tuple[str, str], dict[str, Numbers]] = {}
    for row in finished.audit.numbers("fairness"):
        own = found.setdefault((row.fact("attribute"), str(row.variant)), {})
        own.setdefault(str(row.metric), {})[row.what] = row.number
    for attribute in dict.fromkeys(attribute for attribute, _ in found):
        yield from ((*at, own) for at, own in found.items() if at[0] == attribute)


def _missing(finished: FinishedAudit, rows: Iterable[tuple[Cell, ...]]) -> str:
    if not finished.audit.numbers("fairness"):
        return NO_GROUPS
    known = any(isinstance(cell, float) for row in rows for cell in row)
    return "" if known else NO_SPREAD


def _sigmas(finished: FinishedAudit, metric: str) -> str:
    """Put the standard deviation behind further runs: of dense, and of the widest variant."""
    measured = [
        (f"{variant}, {code_span(attribute)}", own[metric]["sigma"])
        for attribute, variant, own in _measured(finished)
        if own[metric]["sigma"].value is not None
    ]
    dense = [one for one in measured if one[0].startswith("dense,")]
    widest = max(measured, key=lambda one: one[1].value or 0.0, default=None)
    shown = dict([*dense, *([widest] if widest else [])])
    parts = (f"{name} {quantity_text(s, 'rate')}" for name, s in shown.items())
    return (
        f"MaxDiff grows with the number of models ({finished.audit.dense.members} dense ones here, "
        f"16 in the paper). The standard deviation of {metric} behind further training runs: "
        f"{'; '.join(parts)}."
    )


def _notes(finished: FinishedAudit) -> Iterator[str]:
    if not finished.run.config.population.identical:
        yield SEEDS


def _reasons(finished: FinishedAudit) -> str:
    found = {
        f"{row.metric} is {code_span(row.undefined)}"
        for row in finished.audit.numbers("fairness")
        if row.what == "mean" and row.undefined
    }
    if finished.audit.examples.positive is not None:
        found.add("label.positive names the one class that is measured, so nothing is per class")
    few = [one.name for one in finished.audit.variants if one.members < 2]
    if few:
        found.add(f"one model of {', '.join(few)} has no spread")
    return "; ".join(sorted(found))


def _unfolded(table: PublishedTable) -> dict[str, Any]:
    """Name the rows of a published spread as the run's are."""
    names = (f"{level} {value}" for level, value in SPREADS)
    return dict(zip(names, (table.rows[key] for key in PRINTED), strict=True))
