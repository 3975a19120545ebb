"""What do a fixed variant and the one before it lose, on the half that did not choose?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma import storage
from scotoma.audit import GateResult, Quantity
from scotoma.audit.base import cells_at
from scotoma.document import Cell, Column, Facts, Interval, Noted, Section, Table, complement
from scotoma.errors import ConfigError
from scotoma.numbers.inputs import Flags, Ints
from scotoma.printable import printable

if TYPE_CHECKING:
    from scotoma.audit import Audit
    from scotoma.mitigation import decide


WORST = {"worst_error": "highest error", "worst_rise": "largest rise"}  # of a group


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


def interval_of(number: Mapping[str, Any]) -> Interval:
    """A number of `told` as a cell."""
    return Interval(**{key: value for key, value in number.items() if key != "group"})


def whose(number: Mapping[str, Any]) -> str:
    """Which group a number of `told` is of, and its n: `ink=faint, n 448`."""
    group = "" if number["group"] == "all" else f"{number['group']}, "
    return f"{group}n {number['n']:,}"


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


def before_and_after(content: Mapping[str, Any], verb: str, after: str) -> Section:
    """Both variants on the half that judges, a row each.

    Args:
        content: What fix.json holds.
        verb: What the other half did: `fitted`, `chosen`.
        after: Name of the new variant.
    """
    chosen, judged = content[f"{verb}_on"], content["judged_on"]
    sides = {content["variant"]: content["before"], after: content["after"]}
    rows: list[dict[str, Cell]] = []
    for name, side in sides.items():
        row: dict[str, Cell] = {"variant": name, "verdict": side["verdict"]}
        row["accuracy"] = interval_of(side["accuracy"])
        row["n"] = side["accuracy"]["n"]
        for key, title in WORST.items():
            group = "" if side[key]["value"] is None else f"{title}: {whose(side[key])}"
            row[key] = Noted(interval_of(side[key]), group)
        rows.append(row)
    columns = (
        Column("variant", "variant"),
        Column("verdict", "verdict"),
        Column("accuracy", "accuracy", "rate", brief=True),
        Column("n", "n", "count"),
        Column("worst_error", WORST["worst_error"], "rate", brief=True),
        Column("worst_rise", WORST["worst_rise"], "points", brief=True),
    )
    halves = (
        f"{verb.title()} on {chosen['examples']:,} test examples ({chosen['clusters']:,} "
        f"clusters), judged on the other {judged['examples']:,} ({judged['clusters']:,} clusters)."
    )
    told = Table("before_and_after", "", columns, rows, stub=2)
    because = [(name, side["because"][0]) for name, side in sides.items() if side["because"]]
    about = ["Highest error and largest rise: of any group; rises are points beside dense."]
    return Section("judged", "", [halves, *about], [told, *([Facts(because)] if because else [])])
