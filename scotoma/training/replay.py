"""Steps that a GPU is given once, as a graph, and then replays.

A GPU finishes the operations of a small network sooner than a processor starts them. A recorded
step is started as one. It is used only if it changes everything as the step itself does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

from scotoma.training.backends import Batch
from scotoma.training.step import Moving, Step

__all__ = ["STEPS_BEFORE", "Record", "Replay", "cuda_graph"]

# What does some work on tensors that stay where they are, to what does the same work again.
Record = Callable[[Callable[[], None]], Callable[[], None]]

STEPS_BEFORE = 3  # in which libraries choose their algorithms and take their memory
# Of a change's length: how far a recorded step may be from the step itself. Sums in bfloat16, in
# another order, differ by a hundredth; a member or a layer left out by a third.
TOLERANCE = 0.1


def cuda_graph(work: Callable[[], None]) -> Callable[[], None]:
    """Work as a CUDA graph."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # others may decode images
        work()
    return graph.replay


class Replay:
    """Takes steps; after a few, by replaying a recorded one.

    Where a step cannot be recorded, or the record changes anything else than the step itself, a
    sentence says so and steps are taken as they are.
    """

    def __init__(self, step: Step, moving: Moving, record: Record = cuda_graph) -> None:
        """Nothing is recorded yet.

        Args:
            step: How a step is taken.
            moving: What it changes.
            record: How one is recorded.
        """
        self._step, self._moving, self._record = step, moving, record
        self._replay: Callable[[], None] | None = None
        self._taken, self._masked = 0, bool(moving.kept)
        self._recordable = True

    def take(self, batch: Batch, rate: float, step: int) -> None:
        """Learn from a batch: `Step.take`."""
        if self._masked != bool(self._moving.kept):  # a record knows of no masks that came later
            self._taken, self._masked, self._replay = 0, not self._masked, None
        if self._replay is not None and batch.images.shape == self._batch.images.shape:
            self._give(batch, rate, step)
            self._replay()
        elif self._recordable and self._taken == STEPS_BEFORE:
            self._begin(batch, rate, step)
        else:
            self._step.take(self._moving, batch, rate, step)
        self._taken += 1

    def _begin(self, batch: Batch, rate: float, step: int) -> None:
        """Take this step as it is; then go back, record it, replay it and compare."""
        before = self._copies()
        self._step.take(self._moving, batch, rate, step)
        expected = self._copies()
        self._set(before)
        self._batch = Batch(*(part.clone() for part in batch))
        device = self._moving.running.device
        self._rate = torch.tensor(rate, dtype=torch.float32, device=device)
        self._number = torch.tensor(float(step), device=device)
        try:
            replay = self._record(
                lambda: self._step.take(self._moving, self._batch, self._rate, self._number)
            )
            self._set(before)
            replay()
            fault = self._difference(before, expected)
        except RuntimeError as error:
            fault = str(error).partition("\n")[0]
        self._set(expected)
        if fault:
            self._recordable = False
            print(f"steps are started one by one, not as a CUDA graph: {fault}", file=sys.stderr)
        else:
            self._replay = replay

    def _give(self, batch: Batch, rate: float, step: int) -> None:
        for place, value in zip(self._batch, batch, strict=True):
            place.copy_(value, non_blocking=True)
        self._rate.fill_(rate)
        self._number.fill_(step)

    def _copies(self) -> list[list[torch.Tensor]]:
        return [[value.clone() for value in own] for own in self._moving.sections()]

    def _set(self, values: list[list[torch.Tensor]]) -> None:
        for own, wanted in zip(self._moving.sections(), values, strict=True):
            for tensor, value in zip(own, wanted, strict=True):
                tensor.copy_(value)

    def _difference(
        self, before: list[list[torch.Tensor]], expected: list[list[torch.Tensor]]
    ) -> str:
        """What the record does otherwise; empty if nothing."""
        names = ("weights", "statistics", "momentum", "losses")
        for name, own, old, new in zip(
            names, self._moving.sections(), before, expected, strict=True
        ):
            change, fault = _length(new, old), _length(own, new)
            if fault > TOLERANCE * change:
                return (
                    f"its {name} are off by {fault:.2g}, where the step moves them by {change:.2g}"
                )
        return ""


def _length(some: list[torch.Tensor], others: list[torch.Tensor]) -> float:
    """Of the difference between two lists of tensors; nan where a member's numbers are not finite.

    >>> _length([torch.tensor([3.0]), torch.tensor([4.0])], [torch.zeros(1), torch.zeros(1)])
    5.0
    """
    squares = [
        (one.double() - other.double()).square().sum()
        for one, other in zip(some, others, strict=True)
    ]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0
