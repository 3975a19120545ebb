"""Which tests does `make test` leave to `make test-rest`, and which heavy ones does it keep?

A key is a folder, a file, or a test in it; the longest that fits counts. Whoever adds a test that
takes more than a second of processor time, its children included, adds a line to `HEAVY`.
"""

from __future__ import annotations

__all__ = ["HEAVY", "KEPT", "is_heavy", "may_hold", "place"]

# What is left to `make test-rest`, and what it spends its time on; files that take longest first,
# since the last to be dealt keeps one core busy while the others idle.
HEAVY: dict[str, str] = {}

# What `make test` keeps of it: one of each kind.
KEPT: dict[str, str] = {}


def is_heavy(test: str) -> bool:
    """Whether a test, by its id, is left to `make test-rest`."""
    parts = [key for key in (*HEAVY, *KEPT) if _is_in(test, key)]
    return bool(parts) and max(parts, key=len) in HEAVY


def may_hold(file: str, *, heavy: bool) -> bool:
    """Whether any test of a file may be heavy, or may be not."""
    inside = HEAVY if heavy else KEPT
    return is_heavy(file) is heavy or any(_is_in(key, file) for key in inside)


def place(test: str) -> int:
    """Where the file of a test stands among those that take longest."""
    file = test.partition("::")[0]
    places = (n for n, key in enumerate(HEAVY) if _is_in(key, file) or _is_in(file, key))
    return next(places, len(HEAVY))


def _is_in(test: str, key: str) -> bool:
    return test == key or test.startswith((f"{key}/", f"{key}::", f"{key}["))
