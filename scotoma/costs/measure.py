"""How large are images, and what do a training step, a prediction and a member cost here?"""

from __future__ import annotations

import posixpath
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scotoma import storage
from scotoma.config import Config
from scotoma.config.own_code import is_code
from scotoma.datasets.image_decoding import image_opener
from scotoma.datasets.image_size import ImageSize
from scotoma.errors import MissingExtra
from scotoma.extras import needs
from scotoma.inference import Network, images_at_once
from scotoma.inference.engines import open_engine
from scotoma.processes.machine import cores, has_gpu_driver
from scotoma.sources.contract import LookedAt
from scotoma.sources.reading import Survey

FIRST_BATCH = 2  # images of the first step, which says how large the next one can be


@dataclass(frozen=True)
class NetworkCost:
    """Sizes and times of a network on this machine.

    Attributes:
        weights: Number of weights of convolutions and linear layers, which are quantized.
        member_bytes: Size of the file of one trained member.
        step_s: One step of one member by the recipe; None if none was tried.
        batch: Images of that step.
        tried: Images of the largest batch that was tried, from which the step is scaled.
        together: Members that are trained as one.
        workers: Processes that train or predict side by side.
        peak_bytes: Memory of a process that trains; None unless the whole batch was tried.
        image_s: Prediction of one image, by variant; empty if none was tried.
        reason: Why times are missing, as a sentence to print; empty otherwise.
    """

    weights: int = 0
    member_bytes: int | None = None
    step_s: float | None = None
    batch: int = 0
    tried: int = 0
    together: int = 1
    workers: int = 1
    peak_bytes: int | None = None
    image_s: dict[str, float] = field(default_factory=dict)
    reason: str = ""


def measure_training(
    config: Config, classes: int, rows: int, shape: tuple[int, int] | None, *, seconds: float = 5.0
) -> NetworkCost:
    """Measure the network of a configuration: its sizes, training steps and predictions of noise.

    Args:
        config: Its source names the network and the recipe.
        classes: Outputs of the network.
        rows: Training examples, which limit a batch.
        shape: Height and width of the images; None where not known: then nothing is timed.
        seconds: For all steps; 0 only measures sizes. Batches grow as far as they admit.

    Returns:
        What was measured; a reason in place of what was not.

    Raises:
        ConfigError: The network's name is refused.
    """
    try:
        torch = needs("torch", "train", "the trial of training steps")
        needs("scotoma.training.engine", "train", "the trial of training steps")
    except MissingExtra as error:
        return NetworkCost(reason=str(error))
    from safetensors.torch import save

    from scotoma.training.models import build_model, try_outputs
    from scotoma.training.pruning import prunable

    name = config.source.model
    model = build_model(name, classes, 0)
    if is_code(name) and shape:
        try_outputs(model, name, classes, shape)
    numbers = {name: value.numel() for name, value in model.named_parameters()}
    weights, file = sum(numbers[name] for name in prunable(model)), save(model.state_dict())
    cost = NetworkCost(weights=weights, member_bytes=len(file))
    if not seconds or shape is None:
        return cost
    batch, threads = min(config.source.recipe.batch_size, rows), torch.get_num_threads()
    torch.set_num_threads(1)  # as in the workers
    try:
        cost = _time_steps(config, cost, _noise(batch, shape), classes, seconds)
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as member:
            Path(member.name).write_bytes(file)
            image_s = _image_s(Path(member.name), Network(name, classes), shape)
    finally:
        torch.set_num_threads(threads)
    return replace(cost, image_s={v.name: image_s for v in config.resolved_variants})


def _time_steps(
    config: Config, cost: NetworkCost, pixels: NDArray[np.uint8], classes: int, seconds: float
) -> NetworkCost:
    from scotoma.training.choose_backend import choose_backend, members_together, trial
    from scotoma.training.placement import training_device

    end, batch, models = time.perf_counter() + seconds, len(pixels), config.population.models
    labels, device = np.arange(batch) % classes, training_device()
    backend = choose_backend(config, pixels, labels, device)
    together = min(members_together(backend, device, config), models)

    def timed(size: int, steps: int) -> float:
        """Time one step of members that train together on batches of some images."""
        training = trial(
            config, pixels, labels, classes, together, backend, device,
            epochs=None, steps=steps + 1, batch_size=size,
        )  # fmt: skip
        warm = training.advance(training.start(), 1)
        began = _clock()
        training.advance(warm)
        return (_clock() - began) / steps

    size = min(FIRST_BATCH, batch)
    step_s = timed(size, 1)
    while size < batch:
        larger = min(4 * size, batch)
        if time.perf_counter() + 2 * step_s * larger / size > end:
            break
        size, step_s = larger, timed(larger, 1)
    if size == batch:
        step_s = timed(batch, max(1, round((end - time.perf_counter()) / step_s)))
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cost = replace(cost, peak_bytes=held if sys.platform == "darwin" else held * 1024)
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
        shape: Height and width of the images; None where not known: then nothing is tried.
        files: First model of each variant.
        seconds: 0 times nothing.

    Returns:
        What was measured.

    Raises:
        DataError: A model does not run on such images, or is no classifier of so many classes.
    """
    from scotoma.inference.external import read_model
    from scotoma.inference.trials import trials

    cost = NetworkCost(workers=cores())
    if shape is None:
        return cost
    for path in files.values():
        read_model(path, network, shape)
    if seconds:
        with trials() as attempt:  # in another process first, which a model may take down
            for name, path in files.items():
                attempt(path, network, _noise(1, shape))
                cost.image_s[name] = _image_s(path, network, shape)
    return cost


def _image_s(path: Path, network: Network, shape: tuple[int, int]) -> float:
    """Time the prediction of one image, in a batch as the audit has it."""
    engine, pixels = open_engine(path, network), _noise(images_at_once(_noise(0, shape)), shape)
    engine.scores(pixels)  # warms up
    began = _clock()
    engine.scores(pixels)
    return (_clock() - began) / len(pixels)


def _clock() -> float:
    """Read a processor's own time: other programs, now or later, are not part of it."""
    return time.perf_counter() if has_gpu_driver() else time.process_time()


def _noise(images: int, shape: tuple[int, int]) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (images, 3, *shape), np.uint8)


@dataclass(frozen=True)
class ImageFacts:
    """Facts about images that were not read.

    Attributes:
        shape: Height and width of the first one, which all others share, or are resized to; None
            where it is not known.
        encoded_bytes: The files that hold the images; None where there is none.
        reason: Why the shape is not known, as a sentence to print; empty otherwise.
    """

    shape: tuple[int, int] | None
    encoded_bytes: int | None
    reason: str = ""

    def decoded_bytes(self, images: int) -> int | None:
        """Compute the memory of some images once decoded: 3 bytes a pixel.

        >>> ImageFacts((32, 32), 0).decoded_bytes(1000)
        3072000
        """
        return None if self.shape is None else 3 * self.shape[0] * self.shape[1] * images


def look_at_images(config: Config, survey: Survey) -> ImageFacts:
    """Read the sizes of files, and the header of one image.

    Raises:
        DataError: The storage cannot be read.

    >>> from scotoma.config import default_config
    >>> from scotoma.sources.reading import survey_examples
    >>> look_at_images(default_config(), survey_examples(default_config())).shape
    (8, 8)
    """
    size, folder = survey.examples.size, config.source.image_folder()
    if folder is None:
        return _facts(config.source.stored_images(config), size)
    listed = storage.list_files(folder)
    names = list(map(posixpath.normpath, survey.examples.image_ids))
    names = [name for name in names if name in listed]
    first = storage.read_bytes(storage.join(folder, names[0])) if names else None
    return _facts(LookedAt(first, sum(listed[n] for n in names) if names else None), size)


def _facts(stored: LookedAt, size: ImageSize | None) -> ImageFacts:
    first, encoded, reason = stored
    if first is None:
        return ImageFacts(None, encoded, reason)
    if isinstance(first, tuple):
        return ImageFacts(first, encoded)
    if size is not None and size.height:
        return ImageFacts((size.height, size.width), encoded)
    try:
        with image_opener()(first) as opened:
            shown = opened if size is None else size.turned(opened)
            return ImageFacts((shown.height, shown.width), encoded)
    except Exception:  # what a broken file may raise has no common base
        return ImageFacts(None, encoded, "the first image cannot be read")
