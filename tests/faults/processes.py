"""Who takes part in an audit, and how each is brought to an end."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MARK", "Memory", "Process", "alive", "chosen", "gone", "kill"]

MARK = "SCOTOMA_MARK"  # an environment variable that every process of one audit inherits
CGROUPS = Path("/sys/fs/cgroup/memory")
PAGE = resource.getpagesize()


@dataclass(frozen=True)
class Process:
    """One process of an audit.

    Attributes:
        pid: Its number.
        parent: That of its parent.
        session: That of its session.
        name: Of its program, or what it calls itself.
        command: Its command line.
        bytes: Resident memory.
    """

    pid: int
    parent: int
    session: int
    name: str
    command: str
    bytes: int


def alive(mark: str) -> list[Process]:
    """The processes of an audit that have not ended."""
    return [process for entry in Path("/proc").glob("[0-9]*") if (process := _read(entry, mark))]


def _read(entry: Path, mark: str) -> Process | None:
    try:
        if f"{MARK}={mark}".encode() not in (entry / "environ").read_bytes().split(b"\0"):
            return None
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        name = (entry / "comm").read_text().strip()
        command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:  # it has ended since it was listed
        return None
    state, parent, _, session = fields[:4]
    if state in "ZX":
        return None
    size = int(fields[21]) * PAGE
    return Process(int(entry.name), int(parent), int(session), name, command, size)


def gone(mark: str, within_s: float) -> bool:
    """Whether every process of an audit ends in that time."""
    end = time.monotonic() + within_s
    while alive(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def chosen(mark: str, target: str) -> list[Process]:
    """The processes of one part; of a part that is not at work now, none.

    Args:
        mark: Of the audit.
        target: `tree`, all of them; `parent`, the command; `child`, which runs the steps;
            `server`, which workers are forked from; `worker`, one of a pool; `guardian`, which
            outlives the command.
    """
    every = {process.pid: process for process in alive(mark)}
    child = [p for p in every.values() if "scotoma.steps.runner" in p.command]
    forked = [p for p in every.values() if "multiprocessing.forkserver" in p.command]
    parts = {
        "tree": list(every.values()),
        "parent": [p for p in every.values() if p.command.find("scotoma audit") >= 0],
        "child": [p for p in child if every.get(p.parent) not in child][:1],
        "guardian": [p for p in child if every.get(p.parent) in child][:1],
        "server": [p for p in forked if every.get(p.parent) not in forked][:1],
        "worker": [p for p in forked if every.get(p.parent) in forked][:1],
    }
    return parts[target]


def kill(processes: list[Process], number: signal.Signals) -> None:
    """Send a signal to each."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


@dataclass(frozen=True)
class Memory:
    """The memory that an audit may have.

    Attributes:
        group: Its control group; None where there are none, and limits of processes stand in.
    """

    group: Path | None

    @classmethod
    @contextmanager
    def limited(cls, mark: str) -> Iterator[Memory]:
        """A control group that is gone afterwards, if this system lets us have one."""
        group: Path | None = CGROUPS / f"scotoma-{mark}"
        try:
            group.mkdir()
            (group / "memory.swappiness").write_text("0")
        except OSError:
            group = None
        try:
            yield cls(group)
        finally:
            if group is not None:
                with suppress(OSError):
                    group.rmdir()

    def enter(self) -> None:
        """Called in the child, before it becomes the audit."""
        if self.group is not None:
            (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def exhaust(self, mark: str) -> str:
        """Leave no memory to grow into, until one process was killed or refused more.

        Returns:
            What was done.
        """
        if self.group is None:
            largest = max(alive(mark), key=lambda process: process.bytes)
            size = int(Path(f"/proc/{largest.pid}/statm").read_text().split()[0]) * PAGE
            resource.prlimit(largest.pid, resource.RLIMIT_AS, (size, size))
            return "limit"
        limit, control = self.group / "memory.limit_in_bytes", self.group / "memory.oom_control"
        for share in (0.6, 0.8, 0.95, 1.0):  # the kernel refuses what it cannot reclaim
            used = int((self.group / "memory.usage_in_bytes").read_text())
            with suppress(OSError):
                limit.write_text(str(int(used * share)))
                break
        end = time.monotonic() + 3
        while "oom_kill 0" in control.read_text() and time.monotonic() < end:
            time.sleep(0.02)
        limit.write_text("-1")
        return "killer" if "oom_kill 0" not in control.read_text() else "killer, in vain"
