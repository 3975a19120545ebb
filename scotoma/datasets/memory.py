"""How much memory may this process still take? The machine's, or less where a cgroup says so."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

__all__ = ["available_memory"]

# Of each version of cgroups: the limit, what is used of it, and which line of memory.stat counts
# file pages that the kernel gives up before it refuses memory.
FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def available_memory(root: Path = Path("/")) -> int | None:
    """Compute the memory that can still be taken without swapping or being killed for it.

    Args:
        root: Where `proc` and `sys` are mounted.

    Returns:
        Bytes, at least 0: the least of what the machine has and of what each control group above
        this process leaves. None where the system tells neither, as outside Linux.

    >>> free = available_memory()
    >>> free is None or free > 0
    True
    """
    free = [rest for group in _groups(root) if (rest := _rest(*group)) is not None]
    free += [
        int(line.split()[1]) * 1024
        for line in _lines(root / "proc/meminfo")
        if line.startswith("MemAvailable:")
    ]
    return max(0, min(free)) if free else None


def _groups(root: Path) -> list[tuple[Path, int]]:
    """List folder and version of every control group of this process, and of those above."""
    groups = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        version = 1 if controllers else 2
        mounted = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        # Inside a container the name may be the host's, of which only the end is mounted: groups
        # that are not there are passed over, and the mount itself always counts.
        path = PurePosixPath("/", name)
        groups += [(mounted / p.relative_to("/"), version) for p in (path, *path.parents)]
    return groups


def _rest(folder: Path, version: int) -> int | None:
    """Compute the memory that one control group leaves; None if it is absent or has no limit."""
    limit, used, reclaimable = FILES[version]
    allowed, held = _lines(folder / limit), _lines(folder / used)
    if not allowed or not held or not allowed[0].isdigit():  # version 2 says "max" for no limit
        return None
    stat = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat") if " " in line)
    return int(allowed[0]) - int(held[0]) + int(stat.get(reclaimable, 0))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
