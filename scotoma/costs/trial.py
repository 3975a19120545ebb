"""A short trial on this machine: what one step, one prediction and one member of a network cost."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from scotoma.config import Config
from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.processes.server import ONE_THREAD

__all__ = ["Span", "Trial", "read_trial", "try_network"]

UNSURE = 2.0  # a step of a larger batch than was tried lies between half and twice the line
FORWARD = 1 / 3  # of a step: what is left are the gradients
START_S = 120.0  # for the child to import torch, on a machine that has much else to do


@dataclass(frozen=True)
class Span:
    """A duration with its spread.

    Attributes:
        middle: The median, s.
        low: Lower quartile, s.
        high: Upper quartile, s.
        n: Measurements.
    """

    middle: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: list[float]) -> Span:
        """Median and quartiles; of fewer than 4 values the smallest and the largest.

        >>> Span.of([3.0, 1.0, 2.0])
        Span(middle=2.0, low=1.0, high=3.0, n=3)
        """
        if len(values) < 4:
            return cls(statistics.median(values), min(values), max(values), len(values))
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high, len(values))

    def scaled(self, factor: float, more: float = 0.0) -> Span:
        """Every value times a factor, plus a constant."""
        return Span(
            self.middle * factor + more, self.low * factor + more, self.high * factor + more, self.n
        )


@dataclass(frozen=True)
class Trial:
    """What is known of a network on this machine.

    Attributes:
        parameters: Numbers that are trained.
        weights: Those of convolutions and linear layers, which are pruned and quantized.
        layers: Number of convolutions and linear layers.
        member_bytes: Size of the file of one trained member.
        start_s: What a process needs until it can train or predict: its start, importing torch,
            building the network.
        step: One step of one member, None if none was tried or ended in time.
        together: Members that are trained as one.
        tried: Images of the largest batch that was tried; the step is scaled from it to the
            recipe's where that is larger.
        batch: Images of a step by the recipe.
        image: Predicting one image in a batch, None if it was not tried.
        alone: Predicting one image by itself, likewise.
        worker_bytes: Memory of a process that trains; None if no step was tried.
        images: The same by variant, of models made elsewhere.
        reason: Why steps are missing, as a sentence to print; empty otherwise.
    """

    parameters: int | None = None
    weights: int | None = None
    layers: int | None = None
    member_bytes: int | None = None
    start_s: float | None = None
    step: Span | None = None
    together: int = 1
    tried: int = 0
    batch: int = 0
    image: Span | None = None
    alone: Span | None = None
    worker_bytes: int | None = None
    images: dict[str, Span] = field(default_factory=dict)
    reason: str = ""


def try_network(
    config: Config,
    classes: int,
    shape: tuple[int, int] | None,
    rows: int,
    *,
    files: dict[str, str] | None = None,
    seconds: float = 5.0,
    tick: Callable[[float], None] = lambda share: None,
) -> Trial:
    """Try the network of a configuration in a process of its own.

    Args:
        config: Its source names the network and the recipe.
        classes: Outputs of the network.
        shape: Height and width of the images; None where it is not known, which leaves steps out.
        rows: Training examples, which limit a batch.
        files: Of models made elsewhere, the first of each variant; then no step is tried.
        seconds: For steps and predictions together, beside the start; 0 only measures sizes. The
            process is ended after 1.4 times as long, whatever a step takes.
        tick: Called every tenth of a second with the seconds gone.

    Returns:
        What was found; a reason in place of what was not.

    Raises:
        ScotomaError: What the network's name, or a model made elsewhere, is refused for.
    """
    recipe = None if files else config.source.recipe
    batch = min(recipe.batch_size, rows) if recipe else 0
    request = {
        "config": config.model_dump_json(),
        "model": None if files else config.source.model,
        "files": files,
        "classes": classes,
        "shape": shape,
        "batch": batch,
        "seconds": seconds,
        "asked": time.monotonic(),  # one clock for all processes, which nobody sets
    }
    environment = os.environ | ONE_THREAD | {"PYTHONSAFEPATH": "1"}
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "scotoma.costs.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(request))
            child.stdin.close()
            while child.poll() is None and time.monotonic() - began < START_S + 2 * seconds:
                tick(time.monotonic() - began)
                time.sleep(0.1)
        finally:
            child.kill()
        lines = [json.loads(line) for line in child.stdout.read().splitlines() if line[-1:] == "}"]
    return read_trial(lines, batch, tried=seconds > 0 and shape is not None)


def read_trial(lines: list[dict[str, Any]], batch: int, *, tried: bool = True) -> Trial:
    """What the child told, put together.

    Where the recipe's batch was too large to be tried, time and memory are carried on along the
    line through the smallest and the largest batch that were, to half and twice what it says.
    Where no prediction ended in time, one takes a third of what an image takes in a step.

    Args:
        lines: Its lines.
        batch: Images of a step by the recipe.
        tried: Whether steps were asked for.

    Raises:
        ScotomaError: It refused the network.

    >>> told = [{"together": 1}, {"batch": 2, "step_s": 0.3, "peak_bytes": 300},
    ...         {"batch": 4, "step_s": 0.5, "peak_bytes": 400}]
    >>> found = read_trial(told, 8)
    >>> round(found.step.middle, 6), found.worker_bytes
    (0.9, 600)
    """
    trial = Trial(batch=batch)
    taken: dict[int, list[float]] = {}
    held: dict[int, int] = {}
    for line in lines:
        if "refused" in line:
            trial = _refused(line, batch)
        elif "start_s" in line:
            trial = replace(trial, **line)
        elif "together" in line:
            trial = replace(trial, together=line["together"])
        elif "step_s" in line:
            taken.setdefault(line["batch"], []).append(line["step_s"])
            held[line["batch"]] = line["peak_bytes"]
        elif "variant" in line:
            images = trial.images | {line["variant"]: Span.of(line["image_s"])}
            trial = replace(trial, images=images)
        elif "image_s" in line:
            span = Span.of(line["image_s"])
            alone = line["at_once"] == 1
            trial = replace(trial, alone=span) if alone else replace(trial, image=span)
    if taken:
        size = max(taken)
        step = Span.of(taken[size]).scaled(1 / trial.together)
        memory = float(held[size])
        if size < batch:
            factor = batch / size
            if len(taken) > 1:
                least = min(taken)
                before = statistics.median(taken[least]) / trial.together
                slope = max(0.0, (step.middle - before) / (size - least))
                factor = (step.middle + slope * (batch - size)) / step.middle
                memory += max(0.0, (held[size] - held[least]) / (size - least)) * (batch - size)
            middle = step.middle * factor
            step = Span(middle, middle / UNSURE, middle * UNSURE, step.n)
        trial = replace(trial, step=step, tried=size, worker_bytes=round(memory))
    elif tried and not trial.reason and not trial.images:
        trial = replace(
            trial,
            reason="nothing ended within the time of the trial, so that no time is given",
        )
    image = max(trial.images.values(), key=lambda span: span.middle, default=trial.alone)
    if image is None and trial.step is not None:
        image = trial.step.scaled(FORWARD / batch)
    return replace(trial, image=trial.image or image, alone=trial.alone or image)


def _refused(line: dict[str, Any], batch: int) -> Trial:
    """What is installed too little is told; what cannot work at all is raised."""
    sentence, code = line["refused"], line["exit_code"]
    if line["missing"]:
        return Trial(batch=batch, reason=sentence)
    kinds = {kind.exit_code: kind for kind in (ScotomaError, ConfigError, DataError)}
    raise kinds[code](sentence)
