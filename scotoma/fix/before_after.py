"""What do a fixed variant and the one before it lose, on the half that did not choose?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma import storage
from scotoma.audit import GateResult
from scotoma.errors import ConfigError
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.audit import Audit


ROWS = {
    "verdict": "verdict",
    "accuracy": "accuracy",
    "highest error of a group": "worst_error",
    "largest rise of a group": "worst_rise",
}


@dataclass(frozen=True)
class JudgedNumber:
    """One number of a variant, with its interval and n.

    Attributes:
        group: Key of the group; `all` for all examples.
        value: Fraction; None where it is undefined.
        low: Lower end of the interval, or None.
        high: Upper end, or None.
        n: Examples; clusters where rows belong together.
        reason: Why there is no number or interval; else empty.
    """

    group: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str

    def shown(self, key: str) -> str:
        """The number in per cent, or a rise in points with its sign, and whose it is."""
        if self.value is None:
            return self.reason or "undefined"
        rise = key == "worst_rise"
        plus, unit = ("+", " points") if rise else ("", "%")
        text = f"{100 * self.value:{plus}.1f}{unit}"
        if self.low is not None and self.high is not None:
            text += f" [{100 * self.low:{plus}.1f}, {100 * self.high:{plus}.1f}]"
        group = "" if self.group == "all" else f", {self.group}"
        return f"{text}{group}, n {self.n:,}"


def new_folder(place: str, variant: str, technique: str, out: Path | None) -> Path:
    """Choose the new folder, and refuse one that holds anything.

    Args:
        place: The audit's folder, or its place in object storage.
        variant: The variant before.
        technique: What is done to it.
        out: What the user named; None for a name beside the run.
    """
    name = f"{place.rstrip('/').rpartition('/')[2]}-{variant}+{technique}"
    parent = Path("runs") if storage.is_remote(place) else Path(place).parent
    folder = out or parent / printable(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--out must be a new folder, got {folder}; remove it or name another")
    return folder


def sides(audit: Audit, gate: GateResult, before: str, after: str) -> dict[str, Any]:
    """Verdict and most affected groups of the variant before and of the new one."""
    return {"before": _judged(audit, gate, before), "after": _judged(audit, gate, after)}


def _judged(audit: Audit, gate: GateResult, variant: str) -> dict[str, Any]:
    """Verdict, accuracy and the group whose error rises most, of one variant."""
    verdict = next(one for one in gate.variants if one.name == variant)
    rates = [
        rate for rate in audit.subgroups[variant] if rate.metric == "error" and not rate.class_name
    ]
    whole = next(rate for rate in rates if rate.group == "all")
    groups = [r for r in rates if r.group != "all" and r.absolute.value is not None]
    worst = max(groups, key=lambda rate: rate.absolute.value or 0.0, default=whole)
    level = max(groups, key=lambda rate: rate.compressed.value or 0.0, default=whole)
    error = whole.compressed
    value, low, high = (
        None if end is None else 1 - end for end in (error.value, error.high, error.low)
    )
    return {
        "verdict": verdict.verdict,
        "because": list(verdict.sentences),
        "accuracy": vars(JudgedNumber("all", value, low, high, error.n, error.reason)),
        "worst_error": vars(change_of(level.group, level.compressed)),
        "worst_rise": vars(change_of(worst.group, worst.absolute)),
    }


def change_of(group: str, quantity: Any) -> JudgedNumber:
    """Take the number, its interval and n from a quantity of the audit."""
    q = quantity
    return JudgedNumber(group, q.value, q.low, q.high, q.n, q.reason)


def rows_before_and_after(content: dict[str, Any]) -> Iterator[str]:
    """Lines of the table of both sides."""
    before, after = content["before"], content["after"]
    for title, key in ROWS.items():
        for when, side in (("before", before), ("after", after)):
            shown = side[key] if key == "verdict" else JudgedNumber(**side[key]).shown(key)
            because = f": {side['because'][0]}" if key == "verdict" and side["because"] else ""
            yield f"{title if when == 'before' else '':<26}{when:<8}{shown}{because}"
