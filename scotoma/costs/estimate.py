"""What will an audit write, how long will it train and predict, and what will measuring it take?

A time is one measured step, or one measured image, times how many of them the audit does.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field, replace

from scotoma.config import Config, Variant
from scotoma.costs.measure import NetworkCost
from scotoma.predictions import kept_classes

SCORE_BYTES = 4  # float32
WITHIN = 1.5  # a time may be wrong by this factor


@dataclass(frozen=True)
class AuditSize:
    """Size of an audit.

    Attributes:
        train: Training examples.
        test: Test examples.
        classes: Number of classes.
        id_bytes: Bytes of the ids of the test examples.
        models_bytes: Files of each variant of external models; empty where members are trained.
        outputs: Scores of a network for one image; 0 for one a class.
        rows_an_image: Examples of one image: 1, or one a label where an image has several.
    """

    train: int
    test: int
    classes: int
    id_bytes: int
    models_bytes: dict[str, int] = field(default_factory=dict)
    outputs: int = 0
    rows_an_image: int = 1

    @property
    def train_images(self) -> int:
        """Images of the training split."""
        return self.train // self.rows_an_image

    @property
    def test_images(self) -> int:
        """Images of the test split."""
        return self.test // self.rows_an_image


@dataclass(frozen=True)
class StepCost:
    """Seconds and bytes of one step; None where nothing was timed, or the bytes are not known."""

    seconds: float | None
    disk_bytes: int | None


def step_costs(
    config: Config, size: AuditSize, encoded_bytes: int | None, cost: NetworkCost
) -> dict[str, StepCost]:
    """Estimate the steps that train, predict, or write images, models or predictions.

    Args:
        config: What is audited.
        size: How large it is.
        encoded_bytes: Its images as they are stored.
        cost: What was measured.

    Returns:
        Costs by step. Bytes of predictions are an upper bound; those of compressed members are
        their weights alone.
    """
    models, variants = config.population.models, config.resolved_variants
    pruned = [variant for variant in variants if variant.kind == "prune"]
    derived = [v for v in variants if v.derived_from and not v.made_elsewhere]
    trained = [] if size.models_bytes else variants
    first = [variant for variant in trained if variant not in pruned + derived]
    best = kept_classes(size.classes)
    ids = best + 1 if best > 1 else 1
    wide = ids * (1 if size.classes <= 2**8 else 2) + (2 if config.keep_scores else 0)
    predictions = len(variants) * (size.test * (4 + models * wide) + size.id_bytes)
    every = size.test * SCORE_BYTES * (size.outputs or size.classes) + size.id_bytes
    scores = len(variants) * models * every if config.keeps_every_score else 0
    predict_s = None
    if cost.image_s:
        images_s = sum(cost.image_s[variant.name] for variant in variants)
        predict_s = models * size.test_images * images_s / cost.workers

    def files(variants: list[Variant]) -> int | None:
        if cost.member_bytes is None:
            return None if variants else 0
        each = [
            cost.weights * (variant.bits or 32) / 8 if variant.derived_from else cost.member_bytes
            for variant in variants
        ]
        return round(models * sum(each))

    def made(variants: list[Variant]) -> StepCost:
        """Multiply steps by members; workers share the chunks of members."""
        if not variants:
            return StepCost(0.0, 0)
        if cost.step_s is None:
            return StepCost(None, files(variants))
        chunks = len(variants) * math.ceil(models / cost.together)
        recipe = config.source.recipe.resolved(size.train_images)
        steps = recipe.total_steps - (recipe.mask_updates[0] if variants[0].forked else 0)
        rounds = math.ceil(chunks / cost.workers) * cost.together
        return StepCost(rounds * steps * cost.step_s, files(variants))

    checkpoints = models * config.checkpoints if trained else 0
    train = made(first)
    if train.disk_bytes is not None:
        train = replace(train, disk_bytes=train.disk_bytes + checkpoints * (cost.member_bytes or 0))
    return {
        "prepare": StepCost(None, encoded_bytes),
        "import_models": StepCost(None, sum(size.models_bytes.values())),
        "train": train,
        "prune": made(pruned),
        "quantize": StepCost(None, files(derived)),
        "predict": StepCost(predict_s, predictions + scores),
        "gather": StepCost(None, predictions),
    }


ROW_BYTES = 2_300  # of audit.json for one rate of one group
MOST_CLASS_ROWS = 5_000  # beyond it rates of single classes are in numbers.parquet
AT_ONCE = 2  # variants that are measured side by side
# Fitted to audits of benchmarks/scale.py; RESULTS.md there compares them with what was measured.
YARDSTICK_S = 0.023  # what `relative_speed` takes where the seconds below were measured
AUDIT_S, AUDIT_BYTES = 3.5, 560e6  # to start, draw the page and end, and what all libraries hold
PREDICTION_S, PREDICTION_BYTES = 3.7e-6, 230  # of one model for one example
PAIR_S = 6.9e-8  # of one prediction under one pair of groups
SLICE_S = 3.7e-7  # of one example in one set of features
JSON_S, JSON_BYTES = 1.7e-6, 36  # of a byte of audit.json, which stands for every number in it
FAIRNESS_BYTES = 43_000  # of the seven metrics of an attribute under one variant, dense too
FAIRNESS_S = 0.006  # of the same
RATE_BYTES = 230  # of a rate of one class in one group


@dataclass(frozen=True)
class AuditShape:
    """Numbers that decide what an audit takes.

    Attributes:
        examples: Test examples.
        models: Models of a variant.
        variants: Compressed variants.
        classes: Number of classes.
        groups: Number of groups, all examples among them.
        pairs: Pairs of groups that are compared: one for an attribute of two values, one for each
            value of more.
        slice_sets: Sets of features of which the search makes slices.
        by_class: Whether every class has an FPR and an FNR, as without a positive class.
        attributes: Number of attributes.
        labelled: Whether the examples have labels.
    """

    examples: int
    models: int
    variants: int
    classes: int
    groups: int
    pairs: int
    slice_sets: int
    by_class: bool
    attributes: int = 1
    labelled: bool = True

    @property
    def class_rates(self) -> int:
        """Rates of single classes of all groups under all variants."""
        by_class = self.by_class and self.labelled
        return 2 * self.classes * self.groups * self.variants if by_class else 0


@dataclass(frozen=True)
class MeasuringCost:
    """What the steps after the predictions take.

    Attributes:
        seconds: CPU time, on one core.
        memory_bytes: Peak of all processes together.
        audit_json_bytes: Size of audit.json.
    """

    seconds: float
    memory_bytes: int
    audit_json_bytes: int


def measuring_cost(shape: AuditShape, speed: float = 1.0) -> MeasuringCost:
    """Estimate the steps from the divergence to the report.

    Args:
        shape: Size of the audit.
        speed: Of a core, from `relative_speed`.

    >>> cost = measuring_cost(AuditShape(50_000, 5, 1, 1_000, 201, 200, 3, True))
    >>> round(cost.seconds), round(cost.audit_json_bytes / 1e6, 1)
    (29, 9.6)
    """
    predictions = shape.examples * shape.models * (1 + shape.variants)
    fairness = shape.attributes * (1 + shape.variants)
    others = _audit_json_bytes(shape)
    fairness_bytes = round(FAIRNESS_BYTES * fairness * (1 if shape.labelled else 3 / 7))
    # Clarify's metrics of every member need a positive class.
    of_members = (1_300 + 650 * shape.models) * shape.pairs * (1 + shape.variants)
    json_bytes = others + fairness_bytes + (0 if shape.by_class else of_members)
    seconds = (
        AUDIT_S
        + PREDICTION_S * predictions
        + PAIR_S * predictions * shape.pairs
        + SLICE_S * shape.examples * shape.slice_sets * shape.variants
        + JSON_S * others
        + FAIRNESS_S * fairness
    )
    at_once = min(shape.variants, AT_ONCE) / max(shape.variants, 1)
    memory = (
        AUDIT_BYTES
        + PREDICTION_BYTES * predictions
        + RATE_BYTES * shape.class_rates * at_once
        + JSON_BYTES * json_bytes
    )
    return MeasuringCost(seconds / speed, round(memory), json_bytes)


def _audit_json_bytes(shape: AuditShape) -> int:
    if not shape.labelled:  # changed examples and, with a positive class, two or three metrics
        metrics = 0 if shape.by_class else 3_000 * shape.pairs
        return round(shape.variants * (1_000 * shape.groups + metrics + 14_000) + 10_000)
    rates = shape.groups * shape.variants * (1 if shape.by_class else 3)
    if shape.class_rates <= MOST_CLASS_ROWS:
        rates += shape.class_rates
    each = 60_000 + 3_500 * shape.models  # of a variant: slices, gallery, members
    per_variant = 1_600 * shape.groups + 24_400 * shape.pairs + 2_300 * shape.classes + each
    return round(
        ROW_BYTES * rates
        + shape.variants * per_variant
        + 7_300 * shape.pairs
        + 75 * shape.groups
        + 16 * shape.classes
        + 30_000
    )


def relative_speed() -> float:
    """Measure how fast a core of this machine is, beside that of the constants; in 0.2 s."""
    rows = [{"value": n / 7, "low": n / 9, "high": n / 5, "n": n, "note": ""} for n in range(4000)]
    took = []
    for _ in range(5):
        began = time.process_time()
        json.dumps(rows, indent=1, sort_keys=True)
        took.append(time.process_time() - began)
    return YARDSTICK_S / min(took)  # others slow a core down, nobody speeds it up
