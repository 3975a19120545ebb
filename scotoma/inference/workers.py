"""How many processes share a GPU, from what one of them takes of it."""

from __future__ import annotations

from scotoma.processes.used import Effort

__all__ = ["feeders", "most_feeders", "sharers"]

CONTEXT_BYTES = 2**29  # of a GPU's memory, that a process takes before its first image
SHARED_BYTES = 2**30  # and with one small network and a batch of small images
MOST_FEEDERS = 4  # processes that share a GPU
BUSY = 0.9  # a GPU that works this share of the time is fed enough


def most_feeders(cores: int) -> int:
    """Bound the processes that may feed the GPU: each needs a core.

    Args:
        cores: Cores of this machine.

    >>> most_feeders(16), most_feeders(2)
    (4, 1)
    """
    return min(MOST_FEEDERS, max(1, cores // 2))


def sharers(cores: int, free_bytes: int) -> int:
    """Count the processes that share a GPU where each runs members of every kind.

    >>> sharers(16, 2**36), sharers(16, 2**33), sharers(2, 2**20)
    (16, 5, 1)
    """
    return max(1, min(cores, free_bytes // (CONTEXT_BYTES + SHARED_BYTES)))


def feeders(first: Effort, most: int, members: int) -> tuple[int, str]:
    """Choose how many processes feed the GPU, from what the first of their tasks took.

    Args:
        first: Of a whole task, opening the member included.
        most: Bound from `most_feeders`.
        members: Members that are still to be run there.

    Returns:
        The number, and why.

    >>> feeders(Effort(2.0, 1.9, 2**31, 2**36), 4, 30)[0]
    1
    >>> feeders(Effort(2.0, 0.8, 2**31, 2**36), 4, 30)
    (3, 'one keeps it busy 40% of the time, 3 are to fill it')
    >>> feeders(Effort(2.0, 0.2, 2**33, 2**34), 4, 30)
    (2, 'one keeps it busy 10% of the time, and its memory has room for 2')
    """
    share = first.work_s / first.seconds if first.seconds else 1.0
    needed = max(1, -(-int(BUSY * 1000) // max(1, int(share * 1000))))
    room = 1 + int(first.free_bytes // (first.gpu_bytes + CONTEXT_BYTES))
    number = max(1, min(needed, room, most, members))
    said = f"one keeps it busy {100 * share:.0f}% of the time"
    if number == needed:
        return number, f"{said}, {number} {'is' if number == 1 else 'are'} to fill it"
    if number == room:
        return number, f"{said}, and its memory has room for {room}"
    if number == members:
        return number, f"{said}, and no more members are left"
    return number, f"{said}, and {most} are the most for these cores"
