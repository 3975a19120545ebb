"""The table of steps: what each does, reads and leaves, in which order, and whether it is due."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.errors import ConfigError
from scotoma.printable import nearest, printable
from scotoma.run import Run
from scotoma.run.shards import Shard

if TYPE_CHECKING:
    from scotoma.config import Config


@dataclass(frozen=True)
class Step:
    """One step of an audit.

    Attributes:
        name: What users call it, and the name of the function that does it.
        component: The component of the pipeline that runs it.
        leaves: The component's output, of which later steps are told.
        reads: Inputs of the component, each the output of a step. Where that step is skipped,
            `inputs_of` says what the component is handed.
        sharded: Whether each shard of members has a task of its own.
        module: Where its function is; empty for the module of this package that is named as it.
        extra: Nothing stands in for its output where it is skipped: later steps do without.
        heavy: Whether it trains or runs members, so that `kubeflow.training` places it.
        without: Why it is skipped and what to do, after "--step NAME", where the configuration
            leaves it out.
    """

    name: str
    component: str
    leaves: str
    reads: Mapping[str, str] = field(default_factory=dict)
    sharded: bool = False
    module: str = ""
    extra: bool = False
    heavy: bool = False
    without: str = ""

    @property
    def function(self) -> Callable[..., list[Path]]:
        """What does the step, with a run and, where it is sharded, a shard."""
        module = importlib.import_module(self.module or f"scotoma.steps.{self.name}")
        function: Callable[..., list[Path]] = getattr(module, self.name)
        return function


_ORDERED = (
    Step("prepare", "prepare_data", "examples"),
    Step("import_models", "import_models", "models", {"examples": "prepare"}, sharded=True),
    Step("train", "train_dense", "dense", {"examples": "prepare"}, sharded=True, heavy=True),
    Step(
        "prune",
        "prune_magnitude",
        "pruned",
        {"examples": "prepare", "dense": "train"},
        sharded=True,
        module="scotoma.steps.train",
        heavy=True,
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
        {
            "examples": "prepare",
            "dense": "train",
            "pruned": "prune",
            "quantized": "quantize",
            "models": "import_models",
        },
        sharded=True,
        heavy=True,
    ),
    Step("gather", "gather_shards", "predictions", {"parts": "predict"}),
    Step(
        "robustness",
        "measure_robustness",
        "robustness",
        {"examples": "prepare", "predictions": "gather"},
        extra=True,
        heavy=True,
        without="needs to know the corruptions; add, for example, `robustness: {profile: scaled}` "
        "to the configuration: no model is trained again for it",
    ),
    Step("divergence", "score_divergence", "divergence", {"predictions": "gather"}),
    Step("bias", "report_bias", "bias", {"predictions": "gather"}),
    Step("slices", "find_slices", "slices", {"predictions": "gather"}),
    Step(
        "verdict",
        "decide_verdict",
        "verdict",
        {
            "divergence": "divergence",
            "bias": "bias",
            "slices": "slices",
            "robustness": "robustness",
        },
    ),
    Step("report", "write_report", "report", {"verdict": "verdict"}),
    Step("log", "log_tracking", "tracked", {"report": "report"}),
)
STEPS = {step.name: step for step in _ORDERED}
HEAVY = tuple(step.name for step in _ORDERED if step.heavy)


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
    """Return the names of the steps with nothing to do.

    External models are imported and not trained. Predictions are imported by `prepare`: nothing is
    trained, compressed, run or put together.

    Args:
        config: Its variants and its source decide.

    >>> from scotoma.config import default_config
    >>> config = default_config()
    >>> sorted(skipped_steps(config))
    ['import_models', 'robustness']
    >>> sorted(skipped_steps(config.model_copy(update={"variants": ["dense"]})))
    ['import_models', 'prune', 'quantize', 'robustness']
    """
    if config.source.has_answers:
        idle = {"import_models", "train", "prune", "quantize", "predict", "gather"}
        return frozenset(idle | ({"robustness"} if config.robustness is None else set()))
    internal = [v for v in config.resolved_variants if not v.made_elsewhere]
    external = config.source.has_models
    busy = {
        "import_models": external,
        "train": not external,
        "prune": any(variant.kind == "prune" for variant in internal),
        "quantize": any(variant.derived_from for variant in internal),
        "robustness": config.robustness is not None,
    }
    return frozenset(step for step, needed in busy.items() if not needed)


def inputs_of(step: Step, config: Config) -> dict[str, str]:
    """Return what a step's component is handed: each input, and the step whose output it is.

    In the place of a skipped step stands what that step would have read. No output is handed twice:
    an input that would repeat another is left out.

    >>> from scotoma.config import parse_config
    >>> config = parse_config("variants: [dense, {int8: [static]}]", "audit.yaml")
    >>> inputs_of(named("predict"), config)
    {'examples': 'prepare', 'dense': 'train', 'quantized': 'quantize'}
    """
    skipped = skipped_steps(config)
    handed: dict[str, str] = {}
    # Those of steps that run come first, so that no stand-in takes the place of one of them.
    for parameter, name in sorted(step.reads.items(), key=lambda read: read[1] in skipped):
        sources = [source for source in _sources(name, skipped) if source not in handed.values()]
        if sources:
            handed[parameter] = sources[0]
    return {parameter: handed[parameter] for parameter in step.reads if parameter in handed}


def _sources(name: str, skipped: frozenset[str]) -> list[str]:
    """Return a step, or the steps that a skipped one would have read."""
    if name not in skipped:
        return [name]
    if STEPS[name].extra:
        return []
    return [source for read in STEPS[name].reads.values() for source in _sources(read, skipped)]


def required(step: Step, config: Config) -> list[Step]:
    """Return the steps whose output a step reads, in order.

    >>> from scotoma.config import default_config
    >>> [before.name for before in required(named("verdict"), default_config())]
    ['divergence', 'bias', 'slices']
    """
    names = inputs_of(step, config).values()
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


@dataclass(frozen=True)
class Leaves:
    """What a step leaves, and what decides whether it is due.

    Attributes:
        outputs: The files that it must leave, which its record names.
        inputs: The files that it reads; if one changes, the step is due again.
        made_with: What else decides its outputs, such as versions of libraries.
        told: The files of which later steps are told; None for the outputs.
        record: What its record is called; empty for the step's name, and a number of a shard.
        opens: Files of which it reads a part, whose digest is in `made_with`.
    """

    outputs: list[Path]
    inputs: list[Path] = field(default_factory=list)
    made_with: str = ""
    told: list[Path] | None = None
    record: str = ""
    opens: tuple[Path, ...] = ()


def when_due(function: Callable[..., Iterator[Leaves]]) -> Callable[..., list[Path]]:
    """Make a step, or a part of one, of a function that says once what it leaves, then works.

    Args:
        function: Takes a run and, if each shard of members has a task of its own, a shard; parts
            of steps take more. It yields what it leaves, and goes on if that is due. Members do
            not depend on groups, names and the like, and read of the examples what `made_with` has
            the digest of.

    Returns:
        The step. It returns the files of which later steps are told; errors as for `Run.step`.
    """

    @functools.wraps(function)
    def step(run: Run, *arguments: Any) -> list[Path]:
        work = function(run, *arguments)
        leaves = next(work)
        name, opens, measures = leaves.record or function.__name__, leaves.opens, True
        if arguments and isinstance(shard := arguments[0], Shard):
            name, opens, measures = f"{name}-{shard.index:03d}", (run.examples,), False
        with run.step(
            name, leaves.outputs, leaves.inputs, leaves.made_with, opens, measures
        ) as due:
            if due:
                next(work, None)
        return leaves.outputs if leaves.told is None else leaves.told

    return step
