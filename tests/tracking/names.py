"""Names of runs without their date and verdict."""

from __future__ import annotations

VERDICTS = ("PASS", "UNSURE", "FAIL")


def short(name: str) -> str:
    """`dense`, `prune-0.9 · 03`, and of the run of an audit nothing: what lies between the two."""
    date, *rest = name.split(" · ")
    assert date[:2] == "20", name
    return " · ".join(rest[:-1] if rest and rest[-1] in VERDICTS else rest)
