"""The table of steps: what each does, reads and leaves, and in which order."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scotoma.config import Config, PredictionsSource
from scotoma.errors import ConfigError
from scotoma.printable import nearest, printable

__all__ = ["STEPS", "Step", "groups", "named", "required", "skipped_steps"]


@dataclass(frozen=True)
class Step:
    """One step of an audit.

    Attributes:
        name: What users call it, and the name of the function that does it.
        component: The component of the pipeline that runs it.
        leaves: The component's output, of which later steps are told.
        reads: Inputs of the component, each the output of a step.
        sharded: Whether each shard of members has a task of its own.
        at_exit: Whether it runs last whatever happened before; its component is told of no output.
        module: Where its function is; empty for the module of this package that is named as it.
    """

    name: str
    component: str
    leaves: str
    reads: Mapping[str, str] = field(default_factory=dict)
    sharded: bool = False
    at_exit: bool = False
    module: str = ""

    @property
    def function(self) -> Callable[..., list[Path]]:
        """What does the step, with a run and, where it is sharded, a shard."""
        module = importlib.import_module(self.module or f"scotoma.stages.{self.name}")
        function: Callable[..., list[Path]] = getattr(module, self.name)
        return function


_ORDERED = (
    Step("prepare", "prepare_data", "examples"),
    Step("train", "train_dense", "dense", {"examples": "prepare"}, sharded=True),
    Step(
        "prune",
        "prune_magnitude",
        "pruned",
        {"examples": "prepare", "dense": "train"},
        sharded=True,
    ),
    Step(
        "quantize",
        "quantize_int8",
        "quantized",
        {"examples": "prepare", "dense": "train", "pruned": "prune"},
        sharded=True,
    ),
    Step(
        "predict",
        "predict_batch",
        "predictions",
        {"examples": "prepare", "dense": "train", "pruned": "prune", "quantized": "quantize"},
        sharded=True,
    ),
    Step("gather", "gather_shards", "predictions", {"parts": "predict"}),
    Step("divergence", "score_divergence", "divergence", {"predictions": "gather"}),
    Step("bias", "report_bias", "bias", {"predictions": "gather"}),
    Step("slices", "find_slices", "slices", {"predictions": "gather"}),
    Step(
        "verdict",
        "decide_verdict",
        "verdict",
        {"divergence": "divergence", "bias": "bias", "slices": "slices"},
    ),
    Step("report", "write_report", "report", {"verdict": "verdict"}),
    Step(
        "log",
        "log_tracking",
        "tracked",
        {"report": "report"},
        at_exit=True,
    ),
)
STEPS = {step.name: step for step in _ORDERED}


def named(name: str) -> Step:
    """Return the step of a name.

    Raises:
        ConfigError: There is none.

    >>> named("bias").component
    'report_bias'
    """
    if name not in STEPS:
        raise ConfigError(
            f"--step must be a step of the audit, got {printable(name)!r}; they are "
            f"{', '.join(STEPS)}{nearest(name, STEPS)}"
        )
    return STEPS[name]


def skipped_steps(config: Config) -> frozenset[str]:
    """Return the names of the steps with nothing to do: to prune, to quantize or to predict.

    Args:
        config: Its variants and its source decide.

    >>> from scotoma.config import default_config
    >>> config = default_config()
    >>> sorted(skipped_steps(config))
    []
    >>> sorted(skipped_steps(config.model_copy(update={"variants": ["dense"]})))
    ['prune', 'quantize']
    """
    internal = [v for v in config.resolved_variants if not v.made_elsewhere]
    busy = {
        "prune": any(variant.kind == "prune" for variant in internal),
        "quantize": any(variant.derived_from for variant in internal),
        "predict": not isinstance(config.source, PredictionsSource),  # imported by `train`
    }
    return frozenset(step for step, needed in busy.items() if not needed)


def required(step: Step, config: Config) -> list[Step]:
    """Return the steps whose output a step reads, in order.

    In the place of a skipped step stands `train`, which leaves the models that it would have
    compressed, or imports the predictions that it would have made.

    >>> from scotoma.config import default_config
    >>> [before.name for before in required(named("verdict"), default_config())]
    ['divergence', 'bias', 'slices']
    """
    skipped = skipped_steps(config)
    names = {"train" if name in skipped else name for name in step.reads.values()}
    return [before for before in STEPS.values() if before.name in names]


def groups(config: Config) -> list[list[Step]]:
    """Return the steps of an audit in order, those together that wait for the same ones.

    >>> from scotoma.config import default_config
    >>> [[step.name for step in group] for group in groups(default_config())][-4:]
    [['divergence', 'bias', 'slices'], ['verdict'], ['report'], ['log']]
    """
    skipped = skipped_steps(config)
    ordered: list[list[Step]] = []
    for step in STEPS.values():
        if step.name in skipped:
            continue
        if ordered and ordered[-1][0].reads == step.reads:
            ordered[-1].append(step)
        else:
            ordered.append([step])
    return ordered
