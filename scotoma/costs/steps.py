"""Time, disk and memory of every step of an audit, and of every variant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scotoma.config import Config
from scotoma.costs.bill import NOTHING, PROCESS_BYTES, Bill, Size, StepCost, added
from scotoma.costs.images import ImageFacts
from scotoma.costs.trial import Span, Trial

__all__ = ["Size", "StepCost", "VariantCost", "audit_steps", "total_time", "variant_costs"]

DIVERGENCE_S, BIAS_S = 0.05, 0.004  # a variant; a group, metric and variant
SLICES_S = 4e-4  # a variant and test example, with the searches of shuffled outcomes
SCORE_S = 2e-7  # a prediction compared, in divergence and bias together
ROW_BYTES = 1800  # of a group, metric and variant in a section of audit.json


@dataclass(frozen=True)
class VariantCost:
    """One variant: its share of training, compressing and predicting.

    Attributes:
        name: Of the variant.
        members: Members.
        time: None where there was no trial.
        weights_bytes: Files of all members, exact where `exact`; None where it cannot be told.
        exact: Whether the members are trained, or there already; what a graph will take is
            estimated.
        predictions_bytes: At most, in both places where they are kept.
    """

    name: str
    members: int
    time: Span | None
    weights_bytes: int | None
    exact: bool
    predictions_bytes: int


def total_time(steps: Iterable[StepCost], cores: int = 1) -> Span | None:
    """Of all steps, None if that of one is not known.

    Args:
        steps: Of one audit.
        cores: With two or more, the steps that measure run side by side.
    """
    times = {step.step: step.time for step in steps}
    whole, slices = added([*times.values()]), times.get("slices")
    others = added([times[name] for name in ("divergence", "bias") if name in times])
    if cores == 1 or whole is None or slices is None or others is None:
        return whole
    return whole.scaled(1.0, -min(slices.middle, others.middle))


def audit_steps(config: Config, size: Size, images: ImageFacts, trial: Trial) -> list[StepCost]:
    """The steps of an audit in their order.

    Args:
        config: What is audited.
        size: How large it is.
        images: What they are stored in.
        trial: What one step, one prediction and one member cost.

    Returns:
        Twelve steps, those without work at the cost of a process.
    """
    bill = Bill(config, size, images, trial)
    variants = config.resolved_variants
    dense = [v for v in variants if v.kind == "dense"]
    pruned = [v for v in variants if v.kind == "prune"]
    derived = [v for v in variants if v.derived_from and v.kind != "onnx"]
    encoded = images.encoded_bytes
    compared = len(variants) - 1
    metrics = compared * size.groups * (1 + 2 * (1 if config.label.positive else size.classes))
    cells = compared * size.test * config.population.models
    section = ROW_BYTES * metrics
    predictions = sum(bill.predictions(v) for v in variants) // 2
    measuring = round(PROCESS_BYTES + 24 * size.test * config.population.models)
    logs = (config.tracking.uri or "") != "off"
    held = None if encoded is None else round(PROCESS_BYTES + 2 * encoded)
    return [
        StepCost("prepare", "read and check every image", bill.prepare(), encoded, held),
        bill.taking_in(variants)
        if size.models_bytes
        else bill.training("train", "train the dense members", dense),
        bill.training("prune", "train the pruned members", pruned),
        StepCost(
            "quantize",
            "compress trained members" if derived else NOTHING,
            bill.compressing(derived),
            _sum([bill.weights(v) for v in derived]),
            bill.process(encoded) if derived else round(PROCESS_BYTES),
        ),
        StepCost(
            "predict",
            "run members on test examples",
            bill.predicting(variants),
            predictions,
            bill.workers(encoded),
            images.decoded_bytes(size.test),
        ),
        StepCost("gather", "put predictions together", bill.thumb(0.1), predictions, measuring),
        StepCost(
            "divergence",
            "score every example",
            bill.thumb(0.2 + DIVERGENCE_S * compared + SCORE_S * cells),
            compared * (16 * size.test + size.id_bytes),
            measuring,
        ),
        StepCost(
            "bias",
            "measure classes and groups",
            bill.thumb(0.2 + BIAS_S * metrics + SCORE_S * cells),
            section,
            measuring,
        ),
        StepCost(
            "slices",
            "search for slices nobody named",
            bill.thumb(0.2 + bill.decoding(size.test) + SLICES_S * compared * size.test),
            section,
            held,
        ),
        StepCost("verdict", "write audit.json, judge it", bill.thumb(1.0), 2 * section, held),
        StepCost("report", "write the page", bill.thumb(2.5), section, held),
        StepCost(
            "log",
            "log to MLflow",
            bill.thumb(0.0, 1.3 if logs else 0.0),
            2 * section if logs else 0,
            round((2 if logs else 1) * PROCESS_BYTES),
        ),
    ]


def variant_costs(
    config: Config, size: Size, images: ImageFacts, trial: Trial
) -> list[VariantCost]:
    """The variants in their order; what they share, such as the start of processes, is left out.

    Args:
        config: What is audited.
        size: How large it is.
        images: What they are stored in.
        trial: What one step, one prediction and one member cost.
    """
    bill = Bill(config, size, images, trial)
    return [
        VariantCost(
            variant.name,
            config.population.models,
            added(
                [
                    bill.made(variant),
                    bill.dealt(bill.predicted([variant])),
                ]
            ),
            bill.weights(variant),
            bool(size.models_bytes) or not variant.derived_from,
            bill.predictions(variant),
        )
        for variant in config.resolved_variants
    ]


def _sum(values: list[int | None]) -> int | None:
    return None if any(value is None for value in values) else sum(v for v in values if v)
