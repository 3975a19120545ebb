"""What does a step leave, and of what? If it is due, how long it took and what it left: here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scotoma.run import Run
from scotoma.run.shards import Shard


@dataclass(frozen=True)
class Leaves:
    """What a step leaves, and what decides whether it is due.

    Attributes:
        outputs: The files that it must leave, which its record names.
        inputs: The files that it reads; if one changes, the step is due again.
        made_with: What else decides its outputs, such as versions of libraries.
        told: The files of which later steps are told; None for the outputs.
    """

    outputs: list[Path]
    inputs: list[Path] = field(default_factory=list)
    made_with: str = ""
    told: list[Path] | None = None


def when_due(function: Callable[..., Iterator[Leaves]]) -> Callable[..., list[Path]]:
    """Make a step of a function that yields once what it leaves, and then works if that is due.

    Args:
        function: Takes a run and, if each shard of members has a task of its own, a shard. Members
            do not depend on groups, names and the like, and read of the examples what `made_with`
            has the digest of.

    Returns:
        The step. It returns the files of which later steps are told; errors as for `Run.step`.
    """

    @functools.wraps(function)
    def step(run: Run, shard: Shard | None = None) -> list[Path]:
        work = function(run) if shard is None else function(run, shard)
        leaves, name, more = next(work), function.__name__, dict[str, Any]()
        if shard is not None:
            name, more = f"{name}-{shard.index:03d}", {"opens": [run.examples], "measures": False}
        with run.step(name, leaves.outputs, leaves.inputs, leaves.made_with, **more) as due:
            if due:
                next(work, None)
        return leaves.outputs if leaves.told is None else leaves.told

    return step
