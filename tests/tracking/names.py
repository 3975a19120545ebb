"""Names of runs without their audit."""

from __future__ import annotations


def short(name: str) -> str:
    """`dense`, `prune-0.9 · 03`: what follows project and digest, which must be there."""
    audit, _, rest = name.partition(" · ")
    assert len(audit.rpartition(" ")[2]) == 4
    return rest
