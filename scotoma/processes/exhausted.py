"""What a machine has run out of, told from what libraries raise."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

# Libraries written in Rust, C++ and SQL tell it in words of their own.
WORDS = {
    "memory": r"can't allocate memory|bad_alloc|out of memory|std::bad|memory allocation of|"
    r"[Ff]ailed to allocate memory",
    "disk": r"No space left on device|os error 28\b|disk is full|[Qq]uota exceeded|os error 122\b|"
    r"File too large|os error 27\b",
    "descriptors": r"Too many open files|os error 24\b",
}
NUMBERS = {
    errno.ENOMEM: "memory",
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
    errno.EFBIG: "disk",
    errno.EMFILE: "descriptors",
    errno.ENFILE: "descriptors",
}
SENTENCES = {
    "memory": "there is no memory left; free some",
    "disk": "the disk is full, or a limit on files is reached; free some of it",
    "descriptors": "too many files are open; raise the limit (ulimit -n)",
}


def exhausted(error: BaseException) -> str:
    """What ran out and how to go on, as a clause; empty if nothing did.

    Args:
        error: What was raised, with what it was raised from.

    >>> exhausted(OSError(28, "No space left on device", "/runs/a"))
    'the disk is full, or a limit on files is reached; free some of it'
    >>> exhausted(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    'there is no memory left; free some'
    >>> exhausted(ValueError("full of errors"))
    ''
    """
    return next((SENTENCES[kind] for kind in map(_kind, error_chain(error)) if kind), "")


def lacks_memory(error: BaseException) -> bool:
    """Whether memory ran out.

    Args:
        error: What was raised, with what it was raised from.

    >>> lacks_memory(MemoryError()), lacks_memory(ValueError("no number"))
    (True, False)
    """
    return "memory" in map(_kind, error_chain(error))


def error_chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it came from."""
    seen: list[BaseException] = []
    below: BaseException | None = error
    while below is not None and below not in seen:
        seen.append(below)
        yield below
        below = below.__cause__ or below.__context__


def _kind(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError) and error.errno in NUMBERS:
        return NUMBERS[error.errno]
    text = str(error)
    return next((kind for kind, words in WORDS.items() if re.search(words, text)), "")
