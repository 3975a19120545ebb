"""Steps that begin with their imports done, where processes can be forked.

kfp starts each step as a new Python. Here the same program runs in a process forked from one that
has imported what most steps need.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from scotoma.forking import Source, hand_over

__all__ = ["ForkedSteps", "forked", "forked_steps"]

PRELOADED = (
    "kfp.dsl.executor_main",
    "numpy",
    "scipy.special",
    "scotoma.config.gate",
    "scotoma.stages.populations",
)


@contextmanager
def forked_steps() -> Iterator[ForkedSteps]:
    """Start the process that steps are forked from; it ends with the block.

    What steps print goes where this process prints.
    """
    # Of kfp, only what runs a step.
    with Source.start(*PRELOADED, _KFP_RUNTIME="true") as source:
        yield ForkedSteps(source)


class ForkedSteps:
    """What stands in for kfp's runner of steps. Threads may use it side by side."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._later: list[str] = []

    def load(self, *modules: str) -> None:
        """Let some modules be imported while the first step runs, for those after it."""
        self._later += modules

    def run(self, full_command: Sequence[str], env_vars: Mapping[str, str]) -> int:
        """As `kfp.local.subprocess_task_handler.run_local_subprocess`.

        Args:
            full_command: kfp's for a step, `sh -ec PROGRAM SOURCE ARGUMENT...`.
            env_vars: Variables to add to its environment.

        Returns:
            Its exit code, negative for a signal.
        """
        source, *arguments = full_command[3:]
        program = Path(tempfile.mkdtemp(prefix="kfp-"), "ephemeral_component.py")
        program.write_text(source, encoding="utf-8")
        arguments = ["--component_module_path", str(program), *arguments]
        given = {"arguments": arguments, "variables": dict(env_vars)}
        step = self._source.fork(__name__, given, may_ask=True)
        if self._later:
            self._source.load(*self._later)
            self._later.clear()
        return step.wait()


def forked(arguments: list[str], variables: dict[str, str], descriptors: list[int]) -> None:
    """What the process of a step does.

    Args:
        arguments: Of kfp's executor.
        variables: To add to its environment.
        descriptors: What it was forked from.
    """
    (descriptor,) = descriptors
    hand_over(descriptor)
    os.environ.update(variables)
    sys.argv[1:] = arguments
    from kfp.dsl.executor_main import executor_main

    executor_main()
