"""Which backend trains a network faster here: members stacked, or one after the other?"""

from __future__ import annotations

import time

import torch

from scotoma.config import Config
from scotoma.datasets import IndexedImages
from scotoma.numbers.inputs import Ints
from scotoma.training.backends import Backend
from scotoma.training.engine import Member, Training
from scotoma.training.models import build_model
from scotoma.training.placement import MEMBERS_IN_FLIGHT, PROCESSOR
from scotoma.training.stacked_network import stacked_forward
from scotoma.training.task import TrainingTask

# Steps of single members. On an H200, compiling ResNet-18 took 28 to 36 s, and saved 1.4 of the 4.7
# ms that a step takes without.
COMPILED_FROM = 20_000

# Stacking saves the overhead of small operations; a step that takes longer is all arithmetic.
LONGEST_STACKED_STEP_S = 0.03
TIMED_STEPS, TIMED_MEMBERS = 5, 5


def members_together(backend: Backend, device: torch.device, config: Config) -> int:
    """Decide how many members make a chunk.

    Args:
        backend: How their gradients are computed.
        device: Where they are trained.
        config: Decides how many are stacked.

    >>> from scotoma.config import default_config
    >>> [members_together(way, PROCESSOR, default_config()) for way in ("stacked", "loop")]
    [5, 1]
    """
    if device.type == "cuda":
        return MEMBERS_IN_FLIGHT
    return config.stack_members if backend == "stacked" else 1


def compiling_pays(config: Config, steps: int) -> bool:
    """Decide whether a GPU's pass is compiled: by the work of the whole audit, not of a shard.

    Args:
        config: Its trained variants and their models.
        steps: Of one training.

    >>> from scotoma.config import default_config
    >>> [compiling_pays(default_config(), steps) for steps in (400, 600)]
    [False, True]
    """
    trained = [variant for variant in config.resolved_variants if not variant.derived_from]
    return steps * sum(config.models_of(one.name) for one in trained) >= COMPILED_FROM


def trial(
    config: Config, images: IndexedImages, labels: Ints, classes: int, members: int,
    backend: Backend, device: torch.device = PROCESSOR, **recipe: int | None,
) -> Training:  # fmt: skip
    """Build the training of some members whose steps are to be timed, by a changed recipe."""
    return Training(
        [Member("trial", k, k) for k in range(members)],
        images,
        labels,
        model=config.source.model,
        task=TrainingTask(classes),
        recipe=config.source.recipe.model_copy(update=recipe),
        backend=backend,
        device=device,
    )


def choose_backend(
    config: Config,
    images: IndexedImages,
    labels: Ints,
    device: torch.device = PROCESSOR,
) -> Backend:
    """Choose the faster backend for a network.

    Args:
        config: Its model and recipe are timed; with `deterministic` they alone decide.
        images: uint8, shape (N, 3, H, W).
        labels: Class ids, shape (N,).
        device: Where members will be trained.

    Returns:
        `stacked` or `loop`.
    """
    source = config.source
    template = build_model(source.model, 2, 0)
    if stacked_forward(template, torch.float32) is None:
        return "loop"
    if device.type == "cuda":  # there torch compiles the pass, and only that of `loop`
        return "loop"
    if config.deterministic:  # nothing may be timed: what stacks is tiny
        return "stacked"

    def seconds_a_step(backend: Backend, members: int) -> float:
        """Time a step of one member. The first run warms up; all begin and end alike."""
        clock = time.process_time  # neighbours would make a step look like all arithmetic

        def trained(steps: int) -> float:
            began = clock()
            trial(
                config, images, labels, int(labels.max()) + 1, members, backend, steps=steps
            ).run()
            return clock() - began

        return (trained(1 + TIMED_STEPS) - trained(1)) / TIMED_STEPS / members

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the workers
    try:
        alone = seconds_a_step("loop", 1)
        if alone > LONGEST_STACKED_STEP_S:
            return "loop"
        return "stacked" if seconds_a_step("stacked", TIMED_MEMBERS) < alone else "loop"
    finally:
        torch.set_num_threads(threads)
