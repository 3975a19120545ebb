"""How long do the steps of an audit take, and how many bytes do they write?

Times multiply what was measured by how often an audit does it: a training step, an image through
an external model, the start of a process. No other constant is in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from scotoma.config import Config, Variant
from scotoma.costs.images import ImageFacts
from scotoma.costs.measure import NetworkCost

__all__ = ["WITHIN", "AuditSize", "StepCost", "VariantCost", "audit_steps", "variant_costs"]

WITHIN = 1.5  # a time may be wrong by this factor
FORWARD = 1 / 3  # of a training step: the backward pass computes two products for each one
NOTHING = "nothing to do"
STEPS = {
    "prepare": "read and check every image",
    "train": "train the dense members",
    "prune": "train the pruned members",
    "quantize": "compress trained members",
    "predict": "run members on test examples",
    "gather": "put predictions together",
    "divergence": "score every example",
    "bias": "measure classes and groups",
    "slices": "search for slices nobody named",
    "verdict": "write audit.json, judge it",
    "report": "write the page",
    "log": "log to MLflow",
}


@dataclass(frozen=True)
class AuditSize:
    """Size of an audit.

    Attributes:
        train: Training examples.
        test: Test examples.
        classes: Number of classes.
        id_bytes: Bytes of the ids of the test examples.
        models_bytes: Files of each variant of external models; empty where members are trained.
    """

    train: int
    test: int
    classes: int
    id_bytes: int
    models_bytes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StepCost:
    """One step of the pipeline.

    Attributes:
        step: Its name.
        does: What it does, for people.
        seconds: None where nothing was timed.
        disk_bytes: Images, models and predictions that it writes; None where that is not known.
    """

    step: str
    does: str
    seconds: float | None
    disk_bytes: int | None


@dataclass(frozen=True)
class VariantCost:
    """One variant: its share of training and prediction.

    Attributes:
        name: Name of the variant.
        members: Number of members.
        seconds: None where nothing was timed.
        weights_bytes: Files of all members; None where the network is not known.
        exact: Whether these bytes are exact; those of a compressed network are its weights alone.
        predictions_bytes: At most, in both places where they are kept.
    """

    name: str
    members: int
    seconds: float | None
    weights_bytes: int | None
    exact: bool
    predictions_bytes: int


def audit_steps(
    config: Config, size: AuditSize, images: ImageFacts, cost: NetworkCost
) -> list[StepCost]:
    """Estimate the steps of an audit, in their order.

    Beside its work, each is taken to last as long as importing torch: it starts workers.

    Args:
        config: What is audited.
        size: How large it is.
        images: How its images are stored.
        cost: What was measured.
    """
    estimate, variants = _Estimate(config, size, cost), config.resolved_variants
    pruned = [v for v in variants if v.kind == "prune"]
    derived = [v for v in variants if v.derived_from and v.kind != "onnx"]
    first = [v for v in variants if v not in pruned + derived]
    predictions = len(variants) * estimate.predictions_bytes // 2
    work = {
        "train": estimate.training_seconds(first),
        "prune": estimate.training_seconds(pruned),
        "predict": estimate.prediction_seconds(variants),
    }
    disk = {
        "prepare": images.encoded_bytes,
        "train": estimate.weights_bytes(first),
        "prune": estimate.weights_bytes(pruned),
        "quantize": estimate.weights_bytes(derived),
        "predict": predictions,
        "gather": predictions,
    }
    does = STEPS | ({"train": "check external models"} if size.models_bytes else {})
    idle = {"prune": not pruned, "quantize": not derived, "log": config.tracking.uri == "off"}
    start_s = cost.start_s if work["predict"] is not None else None
    return [
        StepCost(step, NOTHING, 0.0, 0)
        if idle.get(step)
        else StepCost(step, text, _sum(work.get(step, 0.0), start_s), disk.get(step, 0))
        for step, text in does.items()
    ]


def variant_costs(config: Config, size: AuditSize, cost: NetworkCost) -> list[VariantCost]:
    """Estimate the variants, in their order, without what they share.

    Args:
        config: What is audited.
        size: How large it is.
        cost: What was measured.
    """
    estimate = _Estimate(config, size, cost)
    return [
        VariantCost(
            variant.name,
            config.population.models,
            _sum(estimate.training_seconds([variant]), estimate.prediction_seconds([variant])),
            estimate.weights_bytes([variant]),
            bool(size.models_bytes) or not variant.derived_from,
            estimate.predictions_bytes,
        )
        for variant in config.resolved_variants
    ]


@dataclass(frozen=True)
class _Estimate:
    config: Config
    size: AuditSize
    cost: NetworkCost

    def training_seconds(self, variants: Sequence[Variant]) -> float | None:
        """The steps of all members of some variants; workers share the chunks of members."""
        trained = [variant for variant in variants if not variant.derived_from]
        if self.size.models_bytes or not trained:
            return 0.0
        if self.cost.step_s is None:
            return None
        chunks = len(trained) * math.ceil(self.config.population.models / self.cost.together)
        rounds = math.ceil(chunks / self.cost.workers)
        recipe = self.config.source.recipe.resolved(self.size.train)
        steps = recipe.total_steps - (recipe.mask_updates[0] if trained[0].forked else 0)
        return rounds * self.cost.together * steps * self.cost.step_s

    def prediction_seconds(self, variants: Sequence[Variant]) -> float | None:
        """Every member of some variants on the test examples."""
        step_s = self.cost.step_s
        forward = None if step_s is None else FORWARD * step_s / self.cost.batch
        image_s = _sum(*(self.cost.image_s.get(variant.name, forward) for variant in variants))
        images = self.config.population.models * self.size.test
        return None if image_s is None else images * image_s / self.cost.workers

    def weights_bytes(self, variants: Sequence[Variant]) -> int | None:
        """Files of all members of some variants."""
        if self.size.models_bytes:
            return sum(self.size.models_bytes[variant.name] for variant in variants)
        member, weights = self.cost.member_bytes, self.cost.weights
        if member is None or weights is None:
            return None
        one = sum(_graph_bytes(v, weights) if v.derived_from else member for v in variants)
        return self.config.population.models * one

    @property
    def predictions_bytes(self) -> int:
        """Predictions of one variant, at most: in its shard's file and in the gathered one."""
        wide = (1 if self.size.classes <= 2**8 else 2) + (2 if self.config.keep_scores else 0)
        rows = self.size.test * (4 + self.config.population.models * wide)
        return 2 * (rows + self.size.id_bytes)


def _graph_bytes(variant: Variant, weights: int) -> int:
    """Weights of one compressed member; normalisation is folded into them."""
    scales = 4 * weights / variant.block if variant.kind == "int4" else 0.0
    return round(weights * variant.bits / 8 + scales)


def _sum(*values: float | None) -> float | None:
    """The sum; None where a value is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
