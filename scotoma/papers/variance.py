"""What would the tables of Qian et al. 2021, the fixed-seed study, say about my run?"""

from __future__ import annotations

from collections.abc import Iterator

from scotoma.audit import Quantity
from scotoma.bias.fairness import NAMES, fairness_metric
from scotoma.document import Section
from scotoma.papers.table import Cell, Rows, paper_table, printed
from scotoma.papers.variance_costs import cost_tables, heatmaps
from scotoma.papers.words import in_percent, quantity_text
from scotoma.predictions.finished import FinishedAudit
from scotoma.printable import code_span
from scotoma.published import PublishedTable, load

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


def tables(finished: FinishedAudit) -> list[Section]:
    """Make the tables of the paper from a run."""
    return [
        _spreads(finished),
        _worked(),
        _di(finished),
        *heatmaps(finished),
        *cost_tables(finished),
    ]


def _spreads(finished: FinishedAudit) -> Section:
    """Table 2."""
    rows: list[tuple[Cell, ...]] = []
    for attribute, variant, by_metric in _measured(finished):
        for (level, value), key in SPREADS.items():
            cells = (_in_percent(by_metric[metric], key) for metric in NAMES)
            rows.append((attribute, variant, f"{level} {value}", *cells))
    return _of_spreads(finished, "Table 2", rows, "DP")


def _di(finished: FinishedAudit) -> Section:
    """Table 4."""
    rows = [
        (attribute, variant, *(_in_percent(own["DI"], key) for key in SPREADS.values()))
        for attribute, variant, own in _measured(finished)
    ]
    return _of_spreads(finished, "Table 4", rows, "DI")


def _of_spreads(finished: FinishedAudit, name: str, rows: Rows, metric: str) -> Section:
    if not finished.audit.numbers("fairness"):
        return paper_table("variance", name, missing=NO_GROUPS)
    if not any(isinstance(cell, float) for row in rows for cell in row):
        return paper_table("variance", name, missing=NO_SPREAD)
    return paper_table(
        "variance",
        name,
        rows,
        absent=_reasons(finished),
        conclusion=_sigmas(finished, metric),
        notes=[] if finished.run.config.population.identical else [SEEDS],
    )


def _worked() -> Section:
    """Table 3, the paper's example: the same for every run."""
    example = load("fairness_variance").running_example
    counts = {
        f"{group}, {label}": cells
        for group, of in (("female", example.female), ("male", example.male))
        for label, cells in of.items()
    }
    confusion = [list(of.values()) for of in (example.female, example.male)]
    own = {metric: float(fairness_metric(metric, confusion).overall) for metric in NAMES}
    metrics = {"printed": tuple(example.metrics_percent[metric] for metric in NAMES)}
    return paper_table(
        "variance",
        "Table 3",
        [("computed", *(in_percent(own[metric]) for metric in NAMES))],
        beside=[
            printed("Paper, Table 3: metrics", PublishedTable(NAMES, metrics), "of"),
            printed(
                "Paper, Table 3: counts",
                PublishedTable(example.columns, counts),
                "group and label",
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
