"""What `python -m scotoma.costs.child` does: a few real steps of one network, each told as it ends.

A process of its own, set up as the workers of an audit are: one thread, the same malloc. It reads
its request as JSON from standard input and writes one JSON object a line. Images are noise: a step
takes as long on them, and none has to be read.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scotoma.config import Config
from scotoma.errors import DataError, MissingExtra, ScotomaError
from scotoma.extras import needs
from scotoma.own_code import is_code
from scotoma.printable import printable

__all__ = ["sizes"]

ENOUGH = 25  # steps after which more would tell nothing new
SMALL = 2  # images of the first batch, which says how much can be tried
ROWS = 512  # images of noise
LIMIT = 1.4  # times what was given for it, a trial is ended by force
FOR_STEPS = 0.75  # of the time; the rest is for predictions


class _TimeIsUp(Exception):  # noqa: N818  it is no error
    """Raised between two steps."""


def main() -> None:
    """Answer the request."""
    request = json.loads(sys.stdin.read())
    try:
        config = Config.model_validate_json(request["config"])
        if request["files"]:
            needs("onnxruntime", "train", "the trial of models")
            foreign(config, request)
        else:
            needs("torch", "train", "the trial of training steps")
            needs("scotoma.training.engine", "train", "the trial of training steps")
            network(config, request)
    except ScotomaError as error:
        missing = isinstance(error, MissingExtra)
        tell({"refused": str(error), "exit_code": error.exit_code, "missing": missing})


def tell(found: dict[str, Any]) -> None:
    """One line to whoever asked."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def sizes(model: Any) -> dict[str, int]:
    """How large a network and its file are.

    Args:
        model: A network in training mode.

    Returns:
        `parameters`; `weights`, those of convolutions and linear layers; `layers`, the number of
        these; `member_bytes`, the file of one trained member.

    >>> from scotoma.training.models import build_model
    >>> sizes(build_model("tiny-convnet", 10, 0))["member_bytes"]
    199040
    """
    from safetensors.torch import save

    from scotoma.training.pruning import prunable

    found = {name: value.numel() for name, value in model.named_parameters()}
    pruned = prunable(model)
    return {
        "parameters": sum(found.values()),
        "weights": sum(found[name] for name in pruned),
        "layers": len(pruned),
        "member_bytes": len(save(model.state_dict())),
    }


def network(config: Config, request: dict[str, Any]) -> None:
    """Sizes of the network, then steps and predictions, as far as the time goes."""
    import torch

    from scotoma.training.models import build_model
    from scotoma.training.own import try_outputs

    torch.set_num_threads(1)
    seconds = request["seconds"]
    model = build_model(request["model"], request["classes"], 0)
    if is_code(request["model"]) and request["shape"]:
        try_outputs(model, request["model"], request["classes"], tuple(request["shape"]))
    tell({"start_s": time.monotonic() - request["asked"]} | sizes(model))
    if not seconds or not request["shape"]:
        return
    end = time.perf_counter() + seconds
    with time_limit(seconds):
        steps(config, request, end - (1 - FOR_STEPS) * seconds)
        predictions(model, request, end)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End this process if the block takes much longer: no step can outlast that."""
    stop = threading.Timer(LIMIT * seconds, os._exit, (0,))
    stop.daemon = True
    stop.start()
    yield
    stop.cancel()


def steps(config: Config, request: dict[str, Any], end: float) -> None:
    """Training steps, of few images first; of as many as the recipe says if there is time."""
    from scotoma.training.engine import Member, Training
    from scotoma.training.placement import training_device
    from scotoma.training.task import Task
    from scotoma.training.trial import choose_backend, members_together

    source: Any = config.source
    recipe, classes = source.recipe, request["classes"]
    images = np.random.default_rng(0).integers(0, 256, (ROWS, 3, *request["shape"]), np.uint8)
    labels = np.arange(ROWS) % classes
    device = training_device()
    backend = choose_backend(config, images, labels, device)
    models = config.population.models
    members = min(members_together(backend, device, models), models)
    tell({"together": members})
    meter = _Meter(members, request["batch"], end, 0.5 * request["seconds"])
    with contextlib.suppress(_TimeIsUp):
        Training(
            [Member("trial", k, k) for k in range(members)],
            images,
            labels,
            model=request["model"],
            task=Task(classes, sampler=meter),
            recipe=recipe.model_copy(update={"steps": 10 * ENOUGH}),
            backend=backend,
            device=device,
        ).run()


class _Meter:
    """A sampler that is asked for rows at the start of each step, and so can time them.

    The first step warms up. Batches then double, as long as a step of twice the images can be
    afforded, until they are those of the recipe.
    """

    def __init__(self, members: int, batch: int, end: float, patience: float) -> None:
        self.members, self.batch, self.end, self.patience = members, batch, end, patience
        self.size = self.first = min(SMALL, batch)
        self.asked, self.began, self.whole = 0, 0.0, 0

    def __call__(self, seed: int, step: int, batch: int, rows: int) -> NDArray[np.int64]:
        if self.asked % self.members == 0:
            self._between(step)
        self.asked += 1
        return np.arange(self.size, dtype=np.int64) % rows

    def _between(self, step: int) -> None:
        now = time.perf_counter()
        if step > 1:
            took = now - self.began
            tell({"batch": self.size, "step_s": took, "peak_bytes": peak()})
            self.whole += self.size == self.batch
            larger = min(2 * self.size, self.batch)
            # Without a second size nothing tells what a step costs beside its images.
            late = self.end + (self.patience if self.size == self.first else 0.0)
            if now + took * larger / self.size < late:
                self.size = larger
            elif now + took > self.end:
                raise _TimeIsUp
            if self.whole == ENOUGH:
                raise _TimeIsUp
        self.began = time.perf_counter()


def predictions(model: Any, request: dict[str, Any], end: float) -> None:
    """Predictions in float32: of a batch as the audit cuts them, and of one image alone."""
    import torch

    from scotoma.inference import OURS, images_at_once
    from scotoma.quantization.graphs import fold

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ready = fold(model.eval()).to(device).to(memory_format=torch.channels_last)
    batch = images_at_once(np.zeros((0, 3, *request["shape"]), np.uint8))
    pixels = np.random.default_rng(1).integers(0, 256, (batch, 3, *request["shape"]), np.uint8)

    def asked(size: int) -> float:
        began = time.perf_counter()
        images = torch.from_numpy(OURS(pixels[:size]))
        with torch.inference_mode():
            ready(images.to(device, memory_format=torch.channels_last)).float().cpu()
        return time.perf_counter() - began

    asked(1)
    alone = repeated(asked, 1, end - 0.5 * max(0.0, end - time.perf_counter()))
    tell({"image_s": alone, "at_once": 1})
    if statistics.median(alone) * batch < end - time.perf_counter():
        asked(batch)
        tell({"image_s": repeated(asked, batch, end), "at_once": batch})


def foreign(config: Config, request: dict[str, Any]) -> None:
    """Predictions of the first model of each variant, of models made elsewhere."""
    from scotoma.inference import Network, Preprocessing, images_at_once, open_engine
    from scotoma.inference.external import read_model

    source: Any = config.source
    asked = source.preprocessing
    ready = Preprocessing(asked.scale, tuple(asked.mean), tuple(asked.std), asked.layout)
    known = Network("onnx", request["classes"], ready)
    tell({"start_s": time.monotonic() - request["asked"]})
    seconds, shape, files = request["seconds"], request["shape"], request["files"]
    if not shape:
        return
    for path in files.values():
        read_model(Path(path), known, tuple(shape))
    batch = images_at_once(np.zeros((0, 3, *shape), np.uint8))
    pixels = np.random.default_rng(1).integers(0, 256, (batch, 3, *shape), np.uint8)
    start = time.perf_counter()
    for done, (name, path) in enumerate(files.items(), 1):
        if not seconds:
            return
        with time_limit(seconds):
            try:
                engine = open_engine(Path(path), known)
                engine.scores(pixels[:1])
            except Exception as error:  # the runtime's errors have no common base that it exports
                reason = printable(" ".join(str(error).split()))[:200]
                raise DataError(
                    f"{printable(f'{name}/{Path(path).name}')} is refused by ONNX Runtime "
                    f"({reason}); export it again"
                ) from error

            def scored(size: int, engine: Any = engine) -> float:
                began = time.perf_counter()
                engine.scores(pixels[:size])
                return time.perf_counter() - began

            end = start + seconds * done / len(files)
            tell({"variant": name, "image_s": repeated(scored, batch, end), "at_once": batch})


def repeated(asked: Callable[[int], float], size: int, end: float) -> list[float]:
    """Seconds an image, of up to 20 batches; of one at least."""
    found = [asked(size) / size]
    while len(found) < 20 and time.perf_counter() < end:
        found.append(asked(size) / size)
    return found


def peak() -> int:
    """The most memory that this process has held, in bytes."""
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else held * 1024


if __name__ == "__main__":
    main()
