"""What do a fixed variant and the one before it lose, on the half that did not choose?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma import storage
from scotoma.audit import GateResult, Quantity
from scotoma.audit.base import cells_at
from scotoma.document import complement
from scotoma.errors import ConfigError
from scotoma.numbers.inputs import Flags, Ints
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.audit import Audit
    from scotoma.mitigation import decide


ROWS = {
    "verdict": "verdict",
    "accuracy": "accuracy",
    "highest error of a group": "worst_error",
    "largest rise of a group": "worst_rise",
}


@dataclass(frozen=True)
class Fixed:
    """A variant that was fixed on one half of the test examples, and its answers on the other.

    Attributes:
        name: Such as `int8+offsets`.
        variant: The variant before.
        judged: Whether each test example of the audit judges, shape (N,).
        clusters: Clusters among the examples that choose, and among those that judge.
        predicted: Class ids of the examples that judge, shape (judged, models).
        paired: Whether model k is made of member k.
        facts: What was chosen, as fix.json holds it.
        rules: Fitted rules: one a model; of an ensemble one for all.
        members: Files of new models; none where the old ones stay.
    """

    name: str
    variant: str
    judged: Flags
    clusters: tuple[int, int]
    predicted: Ints
    paired: bool
    facts: dict[str, Any]
    rules: tuple[decide.Rule, ...] = ()
    members: tuple[Path, ...] = ()

    def content(self, place: str, chosen: str) -> dict[str, Any]:
        """What was chosen, and on which half, as fix.json holds it.

        Args:
            place: The run.
            chosen: What the half that chooses is called there.
        """
        judged = int(self.judged.sum())
        halves = (chosen, len(self.judged) - judged), ("judged_on", judged)
        return {"version": 1, "run": place, "variant": self.variant, **self.facts} | {
            half: {"examples": examples, "clusters": clusters}
            for (half, examples), clusters in zip(halves, self.clusters, strict=True)
        }


def told(group: str, number: Any) -> dict[str, Any]:
    """A number with its interval and n, and the group that it is of, as fix.json holds it.

    Args:
        group: Key of the group; `all` for all examples.
        number: An estimate or a quantity: a fraction.
    """
    ends = {name: getattr(number, name) for name in ("value", "low", "high")}
    known = {name: None if end is None or end != end else end for name, end in ends.items()}
    return {"group": group, **known, "n": number.n, "reason": number.reason}


def shown(number: Mapping[str, Any], *, rise: bool = True) -> str:
    """A number of `told` in per cent, or a rise in points with its sign, and whose it is."""
    value, low, high = (number[name] for name in ("value", "low", "high"))
    if value is None:
        return number["reason"] or "undefined"
    plus, unit = ("+", " points") if rise else ("", "%")
    text = f"{100 * value:{plus}.1f}{unit}"
    if low is not None and high is not None:
        text += f" [{100 * low:{plus}.1f}, {100 * high:{plus}.1f}]"
    group = "" if number["group"] == "all" else f", {number['group']}"
    return f"{text}{group}, n {number['n']:,}"


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
    rates = {
        str(at["absolute"].group): cells_at(at)
        for at in audit.at("rates", variant, metric="error", class_name=None)
    }
    known = [group for group in rates if rates[group]["absolute"].value is not None]

    def highest(what: str) -> tuple[str, Quantity]:
        groups = [group for group in known if group != "all"]
        group = max(groups, key=lambda group: rates[group][what].value or 0.0, default="all")
        return group, rates[group][what]

    return {
        "verdict": verdict.verdict,
        "because": list(verdict.sentences),
        "accuracy": told("all", complement(rates["all"]["compressed"], 1.0)),
        "worst_error": told(*highest("compressed")),
        "worst_rise": told(*highest("absolute")),
    }


def rows_before_and_after(content: dict[str, Any]) -> Iterator[str]:
    """Lines of the table of both sides."""
    before, after = content["before"], content["after"]
    for title, key in ROWS.items():
        for when, side in (("before", before), ("after", after)):
            text = side[key] if key == "verdict" else shown(side[key], rise=key == "worst_rise")
            because = f": {side['because'][0]}" if key == "verdict" and side["because"] else ""
            yield f"{title if when == 'before' else '':<26}{when:<8}{text}{because}"
