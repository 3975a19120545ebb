"""Which backend trains a network faster here: members stacked, or one after the other?"""

from __future__ import annotations

import time

import numpy as np
import torch
from numpy.typing import NDArray

from scotoma.config import Config
from scotoma.datasets import IndexedImages
from scotoma.training.backends import Backend
from scotoma.training.engine import Member, Training
from scotoma.training.models import build_model
from scotoma.training.placement import MEMBERS_IN_FLIGHT, PROCESSOR
from scotoma.training.stacked_network import stacked_forward
from scotoma.training.task import TrainingTask

__all__ = ["CHUNK_MEMBERS", "choose_backend", "members_together"]

# Members of one stacked state. Not a function of the cores: the sums inside a fused step may depend
# on who is stacked with whom, and the same config must give the same bytes. More are faster, and
# fewer deal ten members evenly to two or five workers.
CHUNK_MEMBERS, LARGE_CHUNK_MEMBERS = 5, 15

# Stacking saves the overhead of small operations; a step that takes longer is all arithmetic.
LONGEST_STACKED_STEP_S = 0.03
TIMED_STEPS = 5


def members_together(backend: Backend, device: torch.device, members: int) -> int:
    """Decide how many members make a chunk.

    Args:
        backend: How their gradients are computed.
        device: Where they are trained.
        members: Members of a whole population.

    >>> [members_together("stacked", PROCESSOR, models) for models in (10, 30, 210)]
    [5, 15, 15]
    """
    if device.type == "cuda":
        return MEMBERS_IN_FLIGHT
    if backend == "loop":
        return 1
    return CHUNK_MEMBERS if members < 2 * LARGE_CHUNK_MEMBERS else LARGE_CHUNK_MEMBERS


def choose_backend(
    config: Config,
    images: IndexedImages,
    labels: NDArray[np.int64],
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
            Training(
                [Member("trial", k, k) for k in range(members)],
                images,
                labels,
                model=source.model,
                task=TrainingTask(int(labels.max()) + 1),
                recipe=source.recipe.model_copy(update={"steps": steps}),
                backend=backend,
            ).run()
            return clock() - began

        return (trained(1 + TIMED_STEPS) - trained(1)) / TIMED_STEPS / members

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the workers
    try:
        alone = seconds_a_step("loop", 1)
        if alone > LONGEST_STACKED_STEP_S:
            return "loop"
        return "stacked" if seconds_a_step("stacked", CHUNK_MEMBERS) < alone else "loop"
    finally:
        torch.set_num_threads(threads)
