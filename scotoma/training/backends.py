"""Compute the gradients of many members: stacked into one pass, or one after the other."""

from __future__ import annotations

import copy
import os
import shutil
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from scotoma.training.models import map_layer
from scotoma.training.placement import PROCESSOR
from scotoma.training.pruning import last_linear
from scotoma.training.stacked_network import Outputs, StackedForward, Tensors, stacked_forward
from scotoma.training.task import Objective, Phase, plain_phase

# Members at a time: one's products run beside another's memory traffic. Of 8 ResNet-18 on an H200 a
# step took 4.5, 4.0, 3.7 and 4.2 ms a member with 1, 2, 4 and 8.
STREAMS = 4
WARM_UPS = 2  # what is compiled or chosen at first use must not be recorded

Result = TypeVar("Result")


class RecordedPass(Generic[Result]):
    """A function of tensors, recorded at its first call and replayed from then on."""

    def __init__(
        self,
        members_pass: Callable[[Sequence[Tensor], Result | None, list[torch.cuda.Stream]], Result],
        device: torch.device,
    ) -> None:
        """Record nothing yet.

        Args:
            members_pass: Of tensors, room for its result (None to make some) and streams to spread
                its work over; the same operations for whatever numbers the tensors hold.
            device: A GPU.
        """
        self._pass, self._device = members_pass, device
        self._graph = torch.cuda.CUDAGraph()
        self._tensors: list[Tensor] = []
        self._result: Result | None = None

    def __call__(self, tensors: Sequence[Tensor]) -> Result:
        """Compute the result for tensors of the shapes of the first call.

        Args:
            tensors: On the GPU; copied.

        Returns:
            The result, which the next call overwrites.
        """
        if self._result is None:
            self._result = self._record(tensors)
        else:
            torch._foreach_copy_(self._tensors, list(tensors))
        self._graph.replay()
        return self._result

    def _record(self, tensors: Sequence[Tensor]) -> Result:
        self._tensors = [tensor.clone() for tensor in tensors]
        here = torch.cuda.current_stream(self._device)
        streams = [torch.cuda.Stream(self._device) for _ in range(STREAMS)]  # type: ignore[no-untyped-call]
        beside = streams[0]
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            for _ in range(WARM_UPS):
                result = self._pass(self._tensors, None, [])
        here.wait_stream(beside)
        with torch.cuda.graph(self._graph):
            self._pass(self._tensors, result, streams)
        return result


Backend = Literal["loop", "stacked"]
HEAD = "head/"  # names of the adversary's values begin so


class Batch(NamedTuple):
    """One batch of each of K members."""

    images: Tensor  # normalised, shape (K, B, 3, H, W)
    labels: Tensor  # class ids, shape (K, B); of several labels 0 and 1, (K, B, L)
    attributes: Tensor  # codes, shape (K, B, A)


class Learned(NamedTuple):
    """What members learn of a batch.

    Attributes:
        slopes: Gradients of the parameters; empty where the network stands still.
        losses: Of the task, shape (K,).
        buffers: New buffers.
        head: Gradients of the adversary; empty where it does not learn.
        values: Values of members that change.
    """

    slopes: Tensors
    losses: Tensor
    buffers: Tensors
    head: Tensors
    values: Tensors


# Parameters, buffers, a batch and other values of K members, each tensor with a first axis of K, to
# what they learn.
Gradients = Callable[[Tensors, Tensors, Batch, Tensors], Learned]
# Parameters, buffers, a batch and other values to losses by name, new buffers and new values.
LossesOf = Callable[[Tensors, Tensors, Batch, Tensors], tuple[Tensors, Tensors, Tensors]]


def gradients(
    template: nn.Module,
    learned: Phase | Objective,
    backend: Backend,
    *,
    precision: torch.dtype = torch.float32,
    device: torch.device = PROCESSOR,
    compiled: bool = False,
    recorded: bool = False,
) -> Gradients:
    """Build the function that computes the gradients of a population.

    Args:
        template: The architecture, in training mode; its own weights are not used.
        learned: Losses of members' batches, alone or as a phase.
        backend: `stacked` makes one network of all members and wins for tiny ones of plain
            layers; `loop` takes the members in turn, images channels last, and serves any network.
        precision: Type of the products; bfloat16 is autocast's, and weights stay as they are.
        device: Where the members are.
        compiled: Whether torch compiles the pass of `loop`. Only of an objective alone.
        recorded: Whether a GPU records the pass of all members as one graph: it finishes operations
            sooner than a processor starts them. Only of an objective alone.

    Returns:
        A function without side effects.

    Raises:
        ValueError: The network has layers that cannot be stacked.
    """
    phase = learned if isinstance(learned, Phase) else plain_phase(learned)
    moving = None  # all weights
    if phase.last_layer:
        own = {id(value) for value in last_linear(template).parameters()}
        moving = frozenset(n for n, value in template.named_parameters() if id(value) in own)
    if phase.stage:
        backend = "loop"  # the stacked pass has no maps
    if backend == "stacked":
        forward = stacked_forward(template, precision)
        if forward is None:
            raise ValueError("a network with other layers than plain ones cannot be stacked")
        return _together(forward, phase, moving)
    if not phase.plain:
        compiled = recorded = False
    return _in_turn(
        template, phase, moving, precision, device, compiled=compiled, recorded=recorded
    )


def _learn(
    losses_of: LossesOf,
    phase: Phase,
    moving: frozenset[str] | None,
    parameters: Tensors,
    buffers: Tensors,
    batch: Batch,
    values: Tensors,
    *,
    leading: int,
) -> Learned:
    """Take the gradients of members over so many first axes, of some of the weights or of all."""
    leaves = {
        name: value.detach().requires_grad_(bool(phase.network) and name in (moving or parameters))
        for name, value in parameters.items()
    }
    head = {n: v.detach() for n, v in values.items() if n.startswith(HEAD)}
    if phase.adversary:
        head = {name: value.requires_grad_() for name, value in head.items()}
    losses, updated, changed = losses_of(leaves, buffers, batch, {**values, **head})
    learning = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    slopes: list[tuple[Tensor, ...]] = []
    head_slopes: Tensors = {}
    wanted = list(dict.fromkeys([*phase.network, *(["adversary"] if phase.adversary else [])]))
    for name in wanted:
        reached = list(learning.values()) if name in phase.network else []
        own = list(head.values()) if name == "adversary" and phase.adversary else []
        # Members share no weight, so the gradient of the sum is each one's own.
        slope = torch.autograd.grad(
            losses[name].sum(), [*reached, *own], retain_graph=name != wanted[-1]
        )
        if reached:
            slopes.append(slope[: len(reached)])
        if own:
            head_slopes = dict(zip(head, slope[len(reached) :], strict=True))
    first = list(slopes[0]) if slopes else []
    if phase.combine is not None and slopes:
        first = [phase.combine(list(own), leading) for own in zip(*slopes, strict=True)]
    named = dict(zip(learning, first, strict=True)) if slopes else {}
    moved = {name: value.detach() for name, value in changed.items()}
    return Learned(named, losses["task"].detach(), updated, head_slopes, moved)


def _together(forward: StackedForward, phase: Phase, moving: frozenset[str] | None) -> Gradients:
    def losses_of(
        parameters: Tensors, buffers: Tensors, batch: Batch, values: Tensors
    ) -> tuple[Tensors, Tensors, Tensors]:
        updated = dict(buffers)
        with torch.set_grad_enabled(bool(phase.network)):
            outputs = forward(parameters, updated, batch.images)
        losses, changed = phase.losses(outputs, batch.labels, batch.attributes, values)
        return losses, updated, changed

    def step(state: Tensors, buffers: Tensors, batch: Batch, values: Tensors) -> Learned:
        return _learn(losses_of, phase, moving, state, buffers, batch, values, leading=1)

    return step


def _in_turn(
    template: nn.Module,
    phase: Phase,
    moving: frozenset[str] | None,
    precision: torch.dtype,
    device: torch.device,
    *,
    compiled: bool,
    recorded: bool,
) -> Gradients:
    read: list[Tensor] = []  # at each pass, and nothing of the passes of others

    def keep(value: Tensor) -> None:
        read[:] = [value]

    if phase.stage:
        map_layer(template, phase.stage).register_forward_hook(lambda _, own, made: keep(made))
    elif phase.reads == "features":
        last_linear(template).register_forward_pre_hook(lambda _, own: keep(own[0]))

    def member_losses(
        parameters: Tensors, buffers: Tensors, batch: Batch, values: Tensors
    ) -> tuple[Tensors, Tensors, Tensors]:
        updated = {name: value.clone() for name, value in buffers.items()}
        pixels = batch.images.contiguous(memory_format=torch.channels_last)
        with (
            torch.set_grad_enabled(bool(phase.network)),
            torch.autocast(device.type, torch.bfloat16, enabled=precision == torch.bfloat16),
        ):
            scores = torch.func.functional_call(template, (parameters, updated), (pixels,))
        scores = scores.to(pixels.dtype)
        features = read.pop().to(pixels.dtype) if phase.reads != "scores" else scores
        outputs = Outputs(scores, features)
        losses, changed = phase.losses(outputs, batch.labels, batch.attributes, values)
        return losses, updated, changed

    losses_of = member_losses
    if compiled and can_compile():
        torch.compiler.reset()  # what is compiled for another network counts against a limit of 8
        losses_of = torch.compile(member_losses, dynamic=False)

    def step(
        state: Tensors,
        buffers: Tensors,
        batch: Batch,
        values: Tensors,
        whole: Learned | None = None,
        streams: Sequence[torch.cuda.Stream] = (),
    ) -> Learned:
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream(device))
        for k in range(len(batch.images)):
            with torch.cuda.stream(streams[k % len(streams)] if streams else None):
                one = _learn(
                    losses_of,
                    phase,
                    moving,
                    {name: value[k] for name, value in state.items()},
                    {name: value[k] for name, value in buffers.items()},
                    Batch(*(part[k] for part in batch)),
                    {name: value[k] for name, value in values.items()},
                    leading=0,
                )
                whole = whole or _room(one, state, buffers, len(batch.images))
                whole.losses[k] = one.losses
                for part in ("slopes", "buffers", "head", "values"):
                    if own := getattr(one, part):
                        room = [getattr(whole, part)[name][k] for name in own]
                        torch._foreach_copy_(room, list(own.values()))
        for stream in streams:
            torch.cuda.current_stream(device).wait_stream(stream)
        assert whole is not None
        return whole

    return _recorded(step, device) if recorded else step


def _recorded(step: Callable[..., Learned], device: torch.device) -> Gradients:
    """Record the step of all members as one graph at its first call."""
    if device.type != "cuda":
        return step
    names: list[list[str]] = []

    def listed(
        tensors: Sequence[Tensor], whole: Learned | None, streams: list[torch.cuda.Stream]
    ) -> Learned:
        left = iter(tensors)
        state, buffers, values = ({name: next(left) for name in part} for part in names)
        return step(state, buffers, Batch(*left), values, whole, streams)

    recorded = RecordedPass(listed, device)

    def replayed(state: Tensors, buffers: Tensors, batch: Batch, values: Tensors) -> Learned:
        parts = (state, buffers, values)
        names[:] = [list(part) for part in parts]
        return recorded([*(value for part in parts for value in part.values()), *batch])

    return replayed


def _room(one: Learned, state: Tensors, buffers: Tensors, members: int) -> Learned:
    """Make room for what so many members learn; gradients lie in memory as their weights do."""

    def stacked(own: Tensors) -> Tensors:
        return {name: value.new_empty((members, *value.shape)) for name, value in own.items()}

    return Learned(
        {name: torch.empty_like(state[name]) for name in one.slopes},
        one.losses.new_empty(members),
        {name: torch.empty_like(value) for name, value in buffers.items()},
        stacked(one.head),
        stacked(one.values),
    )


def can_compile() -> bool:
    """Whether torch's compiler has here what it needs: one for C, and Python's headers."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    return bool(compiler) and Path(sysconfig.get_path("include"), "Python.h").exists()


def trained_scores(
    template: nn.Module, backend: Backend, precision: torch.dtype, device: torch.device
) -> Callable[[Tensors, Tensors, Tensor], Tensor]:
    """Build the pass of members that have been trained: normalisation by their own statistics.

    Args:
        template: The architecture; left as it is.
        backend: As of `gradients`.
        precision: Type of the products.
        device: Where the members are.

    Returns:
        A function of parameters and buffers of K members and images, shape (K, B, 3, H, W), to
        scores, shape (K, B, outputs), without a graph.
    """
    own = copy.deepcopy(template).eval()
    together = stacked_forward(own, precision) if backend == "stacked" else None

    def scores(parameters: Tensors, buffers: Tensors, images: Tensor) -> Tensor:
        with torch.no_grad():
            if together is not None:
                return together(parameters, dict(buffers), images).scores
            return torch.stack(
                [one(parameters, buffers, images, k).to(images.dtype) for k in range(len(images))]
            )

    def one(parameters: Tensors, buffers: Tensors, images: Tensor, k: int) -> Tensor:
        state = ({n: v[k] for n, v in parameters.items()}, {n: v[k] for n, v in buffers.items()})
        pixels = images[k].contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == torch.bfloat16):
            result: Tensor = torch.func.functional_call(own, state, (pixels,))
        return result

    return scores
