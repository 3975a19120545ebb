"""Who did the work of a step, and how busy were they?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scotoma.processes.machine import GpuUse


@dataclass(frozen=True)
class Effort:
    """What a task cost.

    Attributes:
        seconds: From its begin to its end.
        work_s: Of these, those in which its processor or its GPU worked for it.
        gpu_bytes: The most that its process took of a GPU's memory.
        free_bytes: What was left there.
    """

    seconds: float
    work_s: float
    gpu_bytes: int = 0
    free_bytes: int = 0


@dataclass
class Kind:
    """The processes that run the members of one kind.

    Attributes:
        runs: What they run the members on, as a step's log says it.
        workers: How many; 0 is the step's own process.
        why: Why so many.
        members: How many members they run.
        efforts: Of the tasks that have ended.
        began: When the first task was given to them, and
        ended: when the last had ended; seconds of one clock.
        gpu: What nvidia-smi saw of a GPU that they use; None where they use none, or where
            `efforts` say it.
    """

    runs: str
    workers: int = 0
    why: str = ""
    members: int = 0
    efforts: list[Effort] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0
    gpu: GpuUse | None = None

    @property
    def seconds(self) -> float:
        """How long they had work."""
        return max(0.0, self.ended - self.began)

    @property
    def busy(self) -> float | None:
        """Share of that time in which the GPU, or the workers' cores, worked; None if unknown."""
        if self.gpu is not None:
            return self.gpu.busy
        units = 1 if self._on_gpu else max(1, self.workers)
        worked = sum(effort.work_s for effort in self.efforts)
        return min(1.0, worked / (units * self.seconds)) if self.seconds else None

    @property
    def _on_gpu(self) -> bool:
        return self.gpu is not None or any(effort.gpu_bytes for effort in self.efforts)

    def record(self) -> dict[str, Any]:
        """What measurements.json has of them."""
        peak = max((effort.gpu_bytes for effort in self.efforts), default=0)
        busy = self.busy
        return {
            "runs": self.runs,
            "workers": self.workers,
            "why": self.why,
            "members": self.members,
            "seconds": round(self.seconds, 3),
            "busy": None if busy is None else round(busy, 3),
            **({"gpu_bytes_per_worker": peak} if peak else {}),
            **({"gpu": self.gpu.record()} if self.gpu is not None else {}),
        }

    def __str__(self) -> str:
        """Say it in a step's log."""
        who = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        what = "GPU" if self._on_gpu else "cores" if self.workers > 1 else "core"
        busy = "not known" if self.busy is None else f"{100 * self.busy:.0f}%"
        return (
            f"{who if self.workers else 'this process'} for {self.members} "
            f"{'member' if self.members == 1 else 'members'} on {self.runs}: {self.why}; "
            f"{what} busy {busy} of {self.seconds:.1f} s"
        )


@dataclass
class Workers:
    """Who ran the members of a call; filled while it runs them."""

    kinds: dict[str, Kind] = field(default_factory=dict)

    def of(self, name: str, runs: str) -> Kind:
        """The processes of one kind, by its name."""
        return self.kinds.setdefault(name, Kind(runs))

    def record(self) -> dict[str, Any]:
        """What measurements.json has of them, by kind."""
        return {name: kind.record() for name, kind in self.kinds.items()}
