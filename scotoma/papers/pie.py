"""What would the tables of Hooker et al. 2019, Selective Brain Damage, say about my run?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scotoma.audit import Quantity
from scotoma.audit.base import At
from scotoma.audit.document import DENSE
from scotoma.audit.robustness import ALL_KINDS
from scotoma.divergence.agreement import weighted_rate
from scotoma.document import Section, complement
from scotoma.errors import DataError
from scotoma.impact import ClassImpact, class_impact
from scotoma.numbers import Units, benjamini_hochberg
from scotoma.papers.table import Cell, paper_table
from scotoma.papers.words import (
    divergence_sentence,
    in_percent,
    quantity_text,
    subset_accuracy,
    under,
)
from scotoma.predictions import kept_classes
from scotoma.predictions.finished import FinishedAudit

NO_WELCH = (
    "Welch's test compares models with models and needs 2 of each variant, got {}; raise "
    "population.models, or add predictions of more models"
)
NOT_CORRUPTED = (
    "the audit has run no corrupted pictures; add robustness: {profile: ...} to the configuration "
    "and repeat the audit, which trains nothing again"
)


def tables(finished: FinishedAudit) -> list[Section]:
    """Make the tables of the paper from a run."""
    impacts: dict[str, list[ClassImpact]] = {}
    fewest = min(variant.members for variant in finished.audit.variants)
    if fewest > 1:
        impacts = {name: published_impact(finished, name) for name in finished.compressed}
    return [
        _classes(finished, impacts, fewest),
        _topline(finished, impacts, fewest),
        top1_subsets(finished),
        top5_subsets(finished),
        _corruptions(finished),
    ]


def published_impact(finished: FinishedAudit, variant: str) -> list[ClassImpact]:
    """Test the classes of a variant as the paper does: Welch, test images fixed, no correction.

    Raises:
        DataError: The predictions are of other examples.
    """
    examples = finished.test
    dense, compressed = finished.predictions(), finished.predictions(variant)
    if not dense.example_ids == compressed.example_ids == tuple(examples.ids):
        raise DataError(
            f"predictions of {variant} must be for the test examples in their order, got others; "
            "repeat the audit to write them again"
        )
    return class_impact(
        dense.predicted,
        compressed.predicted,
        examples.labels,
        n_classes=len(examples.classes),
        protocol="published",
    )


def _classes(
    finished: FinishedAudit, impacts: dict[str, list[ClassImpact]], fewest: int
) -> Section:
    """Tables 1 and 4."""
    name = "Tables 1 and 4"
    if not impacts:
        return paper_table("pie", name, missing=NO_WELCH.format(fewest))
    audit = finished.audit
    rows = tuple(
        (variant, _gain_of_accuracy(finished, variant), *_moves(impact, audit.examples.classes))
        for variant, impact in impacts.items()
    )
    sound = {variant: _moved(audit.at("impact", variant), 1 - audit.level) for variant in impacts}
    return paper_table(
        "pie",
        name,
        rows,
        conclusion=f"over other test images too, and with Benjamini-Hochberg over the "
        f"{len(audit.examples.classes)} classes: {under(sound)}.",
        notes=[
            "With Benjamini-Hochberg, test images still fixed, Welch leaves "
            + under({variant: _corrected(impact) for variant, impact in impacts.items()})
            + "."
        ],
    )


def _gain_of_accuracy(finished: FinishedAudit, variant: str) -> float:
    """How much the accuracy changes, percentage points."""
    labels = finished.test.labels[:, None]
    dense, compressed = (
        (finished.predictions(name).predicted == labels).mean() for name in ("dense", variant)
    )
    return float(100 * (compressed - dense))


def _moves(impact: list[ClassImpact], classes: tuple[str, ...]) -> tuple[Cell, ...]:
    """How many classes gain and lose, and the ones that do most, as the paper has them."""
    gains = np.array([-100 * row.loss.value if row.significant else 0.0 for row in impact])
    cells: list[Cell] = []
    for place, moved in ((gains.argmax(), gains.max() > 0), (gains.argmin(), gains.min() < 0)):
        row = impact[place]
        gain = 100 * (row.compressed_recall - row.dense_recall)
        cells += [classes[place], float(gains[place]), gain] if moved else [None, None, None]
    return (int((gains > 0).sum()), int((gains < 0).sum()), *cells)


def _corrected(impact: list[ClassImpact]) -> str:
    significant = benjamini_hochberg([row.p for row in impact]) <= 1 - impact[0].loss.level
    losses = np.array([row.loss.value for row in impact])
    return f"{(significant & (losses < 0)).sum()} up and {(significant & (losses > 0)).sum()} down"


def _moved(classes: list[At], alpha: float) -> str:
    """Say how many classes the sound protocol finds to move, and the one that moves most."""
    losses = [
        at["beyond accuracy"]
        for at in classes
        if (p := at["p, adjusted"].number.value) is not None and p <= alpha
    ]
    moved = [(row.number.value, row) for row in losses if row.number.value]
    if not moved:
        return "none"
    up = sum(loss < 0 for loss, _ in moved)
    _, row = max(moved, key=lambda pair: abs(pair[0]))
    return (
        f"{up} up and {len(moved) - up} down, most of all {row.class_name}, "
        f"{quantity_text(complement(row.number), 'points')}"
    )


def _topline(
    finished: FinishedAudit, impacts: dict[str, list[ClassImpact]], fewest: int
) -> Section:
    """Tables 2 and 3."""
    audit = finished.audit
    missing = no_top5(finished)
    rows: list[tuple[Cell, ...]] = []
    for variant in audit.variants:
        name = variant.name
        impact, pies = impacts.get(name), audit.divergence.get(name)
        (top1,) = audit.numbers("accuracy", name)
        rows.append(
            (
                name,
                in_percent(top1.number.value),
                *([] if missing else [top5_accuracy(finished, name)]),
                None if impact is None else sum(row.significant for row in impact),
                None if pies is None else pies.cie.cie.count,
            )
        )
    return paper_table(
        "pie",
        "Tables 2 and 3",
        rows,
        without="top 5" if missing else "",
        more_absent="" if impacts else NO_WELCH.format(fewest),
        conclusion=divergence_sentence(audit),
        notes=[f"No top 5: {missing}."] if missing else [],
    )


def _corruptions(finished: FinishedAudit) -> Section:
    """Make Table 5 from the audit's section on corrupted pictures."""
    report = finished.audit.robustness
    if report is None or not report.corruptions:
        return paper_table("pie", "Table 5", missing=NOT_CORRUPTED)
    order = [ALL_KINDS, *(corruption.kind for corruption in report.corruptions)]
    each = sorted(
        finished.audit.at("robustness", part="by_corruption."),
        key=lambda at: order.index(at["accuracy"].fact("kind")),
    )
    ranked = any("top5_accuracy" in at for at in each)
    columns = ["accuracy", *(["top5_accuracy"] * ranked), "relative_robustness"]
    columns += ["top5_relative_robustness"] * ranked
    rows: list[tuple[Cell, ...]] = [
        (
            f"{at['accuracy'].fact('kind').replace('_', ' ')}, {at['accuracy'].variant}",
            *(at[column].number.value for column in columns),
        )
        for at in each
    ]
    severities = ", ".join(map(str, report.severities))
    most = max(report.members.values())
    losses = {
        row.variant or "": quantity_text(row.number, "points")
        for row in finished.audit.numbers("robustness")
        if row.what == "losses.absolute"
        and (row.group, row.metric, row.fact("family")) == ("all", "error", ALL_KINDS)
    }
    return paper_table(
        "pie",
        "Table 5",
        rows,
        caption=f"This run: profile {report.profile}, severities {severities}, {report.examples:,} "
        f"examples, {most} models of each variant at most",
        without="" if ranked else "top 5",
        conclusion="accuracy lost to corruption beyond what dense models lose: "
        f"{under(losses)}. docs/robustness.md says when the scale of the loss decides.",
        notes=[report.note] if report.note else [],
    )


SUBSETS = ("CIEs", "non-CIEs", "all")
Accuracies = Mapping[str, tuple[Quantity, Quantity]]  # by subset: dense, compressed


def no_top5(finished: FinishedAudit) -> str:
    """Say why the run has no top-5 accuracy and how to get it, as a sentence; empty if it has."""
    classes = len(finished.audit.examples.classes)
    if kept_classes(classes) == 1:
        return f"the label has {classes} classes, and top 5 is kept of more than 10; read top 1"
    lacking = [
        variant.name
        for variant in finished.audit.variants
        if finished.top5_right(variant.name) is None
    ]
    if not lacking:
        return ""
    if finished.run.config.source.has_answers:
        way = "add the column to source.files and audit again"
    else:
        way = "repeat the audit with this version, which keeps it"
    return f"predictions of {', '.join(lacking)} hold no predicted_top5; {way}"


def top5_accuracy(finished: FinishedAudit, variant: str) -> float | None:
    """Top-5 accuracy of a variant, per cent, mean over its models; None where it is not kept."""
    right = finished.top5_right(variant)
    return None if right is None else float(100 * right.mean())


def top1_subsets(finished: FinishedAudit) -> Section:
    """Figures 5 and 11, top 1: what the audit has measured."""
    by_variant = {
        name: {
            subset: (at["dense"].number, at["compressed"].number)
            for subset, at in subset_accuracy(finished.audit, name).items()
        }
        for name in finished.compressed
    }
    return _table(finished, 1, by_variant)


def top5_subsets(finished: FinishedAudit) -> Section:
    """Figures 5 and 11, top 5: from the predictions."""
    if missing := no_top5(finished):
        return paper_table("pie", "top 5", missing=missing)
    return _table(finished, 5, {name: _top5(finished, name) for name in finished.compressed})


def _top5(finished: FinishedAudit, variant: str) -> Accuracies:
    flags = finished.scores.filter(variant=variant)["cie"].to_numpy()
    units = Units.of(len(flags), finished.test.clusters)
    right = [finished.top5_right(name) for name in (DENSE, variant)]

    def rates(rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[Quantity, Quantity]:
        weights = rows.astype(np.float64)
        dense, compressed = (
            Quantity.of(weighted_rate(np.asarray(one), units, weights, empty="no PIE"))
            for one in right
        )
        return dense, compressed

    return {"CIEs": rates(flags), "non-CIEs": rates(~flags), "all": rates(np.ones_like(flags))}


def _table(finished: FinishedAudit, top: int, by_variant: Mapping[str, Accuracies]) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for name, accuracies in by_variant.items():
        values = [accuracies[subset][side].value for side in (0, 1) for subset in SUBSETS]
        rows.append((name, finished.audit.divergence[name].cie.cie.count, *map(in_percent, values)))
    reasons = dict.fromkeys(
        one.reason for own in by_variant.values() for pair in own.values() for one in pair
        if one.value is None
    )  # fmt: skip
    sound = {
        name: quantity_text(accuracies["CIEs"][1], "rate")
        for name, accuracies in by_variant.items()
    }
    return paper_table(
        "pie",
        f"top {top}",
        rows,
        absent="; ".join(reasons),
        conclusion=f"top-{top} accuracy of the compressed models on the PIEs: {under(sound)}. PIEs "
        "are examples on which models disagree: part of what they lose comes from choosing them.",
    )
