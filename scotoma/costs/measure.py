"""What do one training step, one prediction and one member of a network cost on this machine?"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scotoma.config import Config
from scotoma.errors import MissingExtra
from scotoma.extras import needs
from scotoma.machine import cores
from scotoma.own_code import is_code

if TYPE_CHECKING:
    from scotoma.inference import Network

__all__ = ["NetworkCost", "measure_models", "measure_training", "network_sizes"]

ROWS = 512  # images of noise: a step takes as long on them
FIRST_BATCH = 2  # images of the first step, which says how large the next one can be
BLOCK_S = 0.3  # steps are timed in blocks of about that length, of which the median counts


@dataclass(frozen=True)
class NetworkCost:
    """Sizes and times of a network on this machine.

    Attributes:
        parameters: Numbers that are trained.
        weights: Those of convolutions and linear layers, which are pruned and quantized.
        member_bytes: Size of the file of one trained member.
        start_s: Importing torch and building the network.
        step_s: One step of one member by the recipe; None if none was tried.
        batch: Images of that step.
        tried: Images of the largest batch that was tried, from which the step is scaled.
        together: Members that are trained as one.
        workers: Processes that train side by side.
        peak_bytes: Memory of a process that trains; None unless the whole batch was tried.
        image_s: One image through the first external model of each variant.
        reason: Why times are missing, as a sentence to print; empty otherwise.
    """

    parameters: int | None = None
    weights: int | None = None
    member_bytes: int | None = None
    start_s: float | None = None
    step_s: float | None = None
    batch: int = 0
    tried: int = 0
    together: int = 1
    workers: int = 1
    peak_bytes: int | None = None
    image_s: dict[str, float] = field(default_factory=dict)
    reason: str = ""


def network_sizes(model: Any) -> NetworkCost:
    """Count the numbers of a network, and the bytes of a trained member's file.

    Args:
        model: A network in training mode.

    Returns:
        Sizes, without times.

    >>> from scotoma.training.models import build_model
    >>> network_sizes(build_model("tiny-convnet", 10, 0)).member_bytes
    199040
    """
    from safetensors.torch import save

    from scotoma.training.pruning import prunable

    numbers = {name: value.numel() for name, value in model.named_parameters()}
    return NetworkCost(
        parameters=sum(numbers.values()),
        weights=sum(numbers[name] for name in prunable(model)),
        member_bytes=len(save(model.state_dict())),
    )


def measure_training(
    config: Config, classes: int, rows: int, shape: tuple[int, int] | None, *, seconds: float = 5.0
) -> NetworkCost:
    """Measure the network of a configuration, and a few of its training steps on noise.

    Batches grow until they are the recipe's, as far as the time admits.

    Args:
        config: Its source names the network and the recipe.
        classes: Outputs of the network.
        rows: Training examples, which limit a batch.
        shape: Height and width of the images; None where it is not known, which leaves steps out.
        seconds: For all steps; 0 only measures sizes.

    Returns:
        What was measured; a reason in place of what was not.

    Raises:
        ConfigError: The network's name is refused.
    """
    began = time.process_time()
    try:
        torch = needs("torch", "train", "the trial of training steps")
        needs("scotoma.training.engine", "train", "the trial of training steps")
    except MissingExtra as error:
        return NetworkCost(reason=str(error))
    from scotoma.training.models import build_model
    from scotoma.training.user_network import try_outputs

    source: Any = config.source
    model = build_model(source.model, classes, 0)
    if is_code(source.model) and shape:
        try_outputs(model, source.model, classes, shape)
    cost = replace(network_sizes(model), start_s=time.process_time() - began)
    if not seconds or shape is None:
        return cost
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the workers
    try:
        return _time_steps(config, cost, classes, rows, shape, seconds)
    finally:
        torch.set_num_threads(threads)


def _time_steps(
    config: Config,
    cost: NetworkCost,
    classes: int,
    rows: int,
    shape: tuple[int, int],
    seconds: float,
) -> NetworkCost:
    from scotoma.training.choose_backend import choose_backend, members_together
    from scotoma.training.engine import Member, Training
    from scotoma.training.placement import training_device
    from scotoma.training.task import TrainingTask

    end = time.perf_counter() + seconds
    source: Any = config.source
    batch, device = min(source.recipe.batch_size, rows), training_device()
    # A processor's own time: other programs, now or later, are not part of it.
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    images = np.random.default_rng(0).integers(0, 256, (ROWS, 3, *shape), np.uint8)
    labels = np.arange(ROWS) % classes
    backend = choose_backend(config, images, labels, device)
    models = config.population.models
    together = min(members_together(backend, device, models), models)

    def sampler(seed: int, step: int, size: int, rows: int) -> NDArray[np.int64]:
        return np.arange(size) % rows  # as many as a batch has, even if there are fewer

    def timer(size: int) -> Callable[[int], float]:
        """Train on batches of some images; the function takes steps and times one of them."""
        training = Training(
            [Member("trial", k, k) for k in range(together)],
            images,
            labels,
            model=source.model,
            task=TrainingTask(classes, sampler=sampler),
            recipe=source.recipe.model_copy(
                update={"epochs": None, "steps": 1000, "batch_size": size}
            ),
            backend=backend,
            device=device,
        )
        state = training.start()

        def timed(steps: int) -> float:
            nonlocal state
            began = clock()
            state = training.advance(state, state.step + steps)
            return (clock() - began) / steps

        return timed

    size = min(FIRST_BATCH, batch)
    while True:
        timed = timer(size)
        step_s = min(timed(1), timed(1))  # the first one warms up
        larger = min(4 * size, batch)
        if size == batch or time.perf_counter() + 2 * step_s * larger / size > end:
            break
        size = larger
    if size == batch:
        block = max(1, min(50, round(BLOCK_S / step_s)))
        blocks = [timed(block)]
        while len(blocks) < 5 and time.perf_counter() + block * blocks[-1] < end:
            blocks.append(timed(block))
        step_s = statistics.median(blocks)
        cost = replace(cost, peak_bytes=_peak_bytes())
    return replace(
        cost,
        step_s=step_s * batch / size / together,
        batch=batch,
        tried=size,
        together=together,
        workers=1 if device.type == "cuda" else cores(),
    )


def measure_models(
    network: Network, shape: tuple[int, int] | None, files: dict[str, Path], *, seconds: float = 5.0
) -> NetworkCost:
    """Check the first external model of each variant, and time it on noise.

    Args:
        network: Classes and preprocessing of the models.
        shape: Height and width of the images; None where it is not known: nothing is tried.
        files: First model of each variant.
        seconds: 0 times nothing.

    Returns:
        What was measured.

    Raises:
        DataError: A model does not run on such images, or is no classifier of so many classes.
    """
    began = time.process_time()
    from scotoma.inference import images_at_once
    from scotoma.inference.external import read_model
    from scotoma.inference.trials import trials

    cost = NetworkCost(start_s=time.process_time() - began, workers=cores())
    if shape is None:
        return cost
    for path in files.values():
        read_model(path, network, shape)
    if not seconds:
        return cost
    batch = images_at_once(np.zeros((0, 3, *shape), np.uint8))
    pixels = np.random.default_rng(0).integers(0, 256, (batch, 3, *shape), np.uint8)
    image_s = {}
    with trials() as attempt:

        def timed(path: Path, images: int) -> float:
            began = time.perf_counter()
            attempt(path, network, pixels[:images])
            return time.perf_counter() - began

        for name, path in files.items():
            timed(path, 1)  # the process starts
            image_s[name] = max(0.0, timed(path, batch) - timed(path, 1)) / batch
    return replace(cost, image_s=image_s)


def _peak_bytes() -> int:
    """The most memory that this process has held."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else held * 1024
