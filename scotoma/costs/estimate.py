"""How many bytes do the steps of an audit write, and how long do members train and predict?

A time is one measured step, or one measured image, times how many of them the audit does.
"""

from __future__ import annotations

import math
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

    def made(variants: list[Variant]) -> StepCost:
        seconds = _training_seconds(config, size, variants, cost)
        return StepCost(seconds, _model_bytes(models, variants, cost))

    checkpoints = models * config.checkpoints if trained else 0
    train = made(first)
    if train.disk_bytes is not None:
        train = replace(train, disk_bytes=train.disk_bytes + checkpoints * (cost.member_bytes or 0))
    return {
        "prepare": StepCost(None, encoded_bytes),
        "import_models": StepCost(None, sum(size.models_bytes.values())),
        "train": train,
        "prune": made(pruned),
        "quantize": StepCost(None, _model_bytes(models, derived, cost)),
        "predict": StepCost(predict_s, predictions + scores),
        "gather": StepCost(None, predictions),
    }


def _training_seconds(
    config: Config, size: AuditSize, variants: list[Variant], cost: NetworkCost
) -> float | None:
    """Multiply steps by members; workers share the chunks of members."""
    if not variants:
        return 0.0
    if cost.step_s is None:
        return None
    chunks = len(variants) * math.ceil(config.population.models / cost.together)
    recipe = config.source.recipe.resolved(size.train_images)
    steps = recipe.total_steps - (recipe.mask_updates[0] if variants[0].forked else 0)
    return math.ceil(chunks / cost.workers) * cost.together * steps * cost.step_s


def _model_bytes(models: int, variants: list[Variant], cost: NetworkCost) -> int | None:
    if not variants:
        return 0
    if cost.member_bytes is None:
        return None
    each = [
        cost.weights * (variant.bits or 32) / 8 if variant.derived_from else cost.member_bytes
        for variant in variants
    ]
    return round(models * sum(each))
