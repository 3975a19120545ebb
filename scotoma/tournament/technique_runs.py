"""What were the runs of a technique, and which baseline is it compared with?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scotoma.errors import ConfigError
from scotoma.inputs import Floats
from scotoma.printable import printable

__all__ = ["TechniqueRuns", "baselines"]

A_BASELINE = re.compile(r"(?:^|[-_ ])base(?:line)?$", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class TechniqueRuns:
    """Values of every training run of one technique.

    Attributes:
        technique: Its name.
        bias: Metric to values, shape (R,); fractions, 0 is fair. nan where undefined.
        accuracy: Accuracy of each run, shape (R,), a fraction; None where it is not known.
    """

    technique: str
    bias: Mapping[str, Floats]
    accuracy: Floats | None = None


def baselines(techniques: Sequence[str], named: Sequence[str] = ()) -> dict[str, str]:
    """Find the baseline of each technique: its task's, where there are several.

    A task is what stands before the last hyphen of its baseline's name: `S` for `S-Base`.

    Args:
        techniques: Names of all techniques, baselines among them.
        named: Baselines by name; none takes those whose name is, or ends in, `base` or `baseline`.

    Returns:
        Technique to its baseline, in the order of `techniques`, without the baselines.

    Raises:
        ConfigError: A baseline is no technique, there is none, or a technique has none.

    >>> baselines(["S-Base", "S-RS", "A-Base", "A-L2"])
    {'S-RS': 'S-Base', 'A-L2': 'A-Base'}
    >>> baselines(["plain", "mixup", "cutout"], ["plain"])
    {'mixup': 'plain', 'cutout': 'plain'}
    """
    for name in named:
        if name not in techniques:
            raise ConfigError(
                f"--base must be one of the techniques, got {_quoted(name)}: choose among "
                f"{', '.join(map(_quoted, techniques[:8]))}"
            )
    bases = list(dict.fromkeys(named)) or [name for name in techniques if A_BASELINE.search(name)]
    if not bases:
        raise ConfigError("no technique is called a baseline: name it with --base")
    others = [name for name in techniques if name not in bases]
    if not others:
        raise ConfigError("a tournament needs a technique beside its baseline, got none: add one")
    if len(bases) == 1 and named:
        return dict.fromkeys(others, bases[0])
    by_task = {_task(base): base for base in bases}
    if len(by_task) < len(bases):
        raise ConfigError(
            f"a task must have one baseline, got {', '.join(map(_quoted, bases))}: name one of "
            "them with --base"
        )
    of: dict[str, str] = {}
    for name in others:
        tasks = [task for task in by_task if name.startswith(task)]
        if not tasks:
            raise ConfigError(
                f"technique {_quoted(name)} has no baseline among "
                f"{', '.join(map(_quoted, bases))}: name its baseline with --base"
            )
        of[name] = by_task[max(tasks, key=len)]
    return of


def _task(base: str) -> str:
    """The start of the names of a baseline's task: `S-` for `S-Base`; empty without a hyphen."""
    return base[: base.rfind("-") + 1]


def _quoted(name: str) -> str:
    return repr(printable(name)[:60])
