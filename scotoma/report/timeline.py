"""The audits of a project, each as much as a page in time shows of it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scotoma.summary import worst_change
from scotoma.verdict.questions import LABELS

__all__ = ["Audited", "Measured", "audited"]

UNREADABLE = "MLflow holds no audit.json and gate.json of it that can be read"


@dataclass(frozen=True)
class Measured:
    """One variant in one audit.

    Attributes:
        variant: Its name.
        verdict: PASS, UNSURE or FAIL.
        members: Size of the smaller of its population and the dense one.
        top1: Accuracy, as audit.json has it.
        excess: CIEs beyond those that seeds produce, a share of the examples.
        worst: The relative change (%) of the group's rate whose interval lies highest; None where
            none is estimable.
        where: Which rate of which group that is.
        failed: Tests of the gate that failed.
        unsure: Tests that decided nothing.
    """

    variant: str
    verdict: str
    members: int
    top1: Mapping[str, Any]
    excess: Mapping[str, Any]
    worst: Mapping[str, Any] | None
    where: str
    failed: int
    unsure: int


@dataclass(frozen=True)
class Audited:
    """One audit of the project, or one that did not come about.

    Attributes:
        at: When it was logged, UTC.
        state: `finished`, `failed`, `skipped` or `unreadable`.
        run: Id of the MLflow run that stands for it.
        reason: Why it has no result; empty where it has one.
        verdict: Of the whole gate; empty without a result.
        examples: Number of test examples; 0 without a result.
        variants: What was measured, in the order of the audit.
        warnings: What the gate had to say beside its verdict.
    """

    at: datetime.datetime
    state: str
    run: str
    reason: str = ""
    verdict: str = ""
    examples: int = 0
    variants: tuple[Measured, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def day(self) -> str:
        """The time as a reader takes it in."""
        return f"{self.at:%Y-%m-%d %H:%M}"


def audited(record: Mapping[str, Any]) -> Audited:
    """What a page shows of one audit.

    Args:
        record: `at`, `state`, `run`, `reason`, `audit` and `gate`, as MLflow has them.

    >>> audited({"at": "2027-03-01T06:00:00+00:00", "state": "finished", "run": "r", "reason": "",
    ...          "audit": None, "gate": None}).state
    'unreadable'
    """
    at, run = datetime.datetime.fromisoformat(record["at"]), str(record["run"])
    if record["state"] != "finished":
        return Audited(at, record["state"], run, str(record["reason"]))
    try:
        audit, gate = record["audit"], record["gate"]
        return Audited(
            at, "finished", run, "", _verdict(gate["verdict"]), int(audit["examples"]["test"]),
            tuple(_measured(audit, judged) for judged in gate["variants"]),
            tuple(map(str, gate["warnings"])),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, StopIteration):
        return Audited(at, "unreadable", run, UNREADABLE)


def _measured(audit: Mapping[str, Any], judged: Mapping[str, Any]) -> Measured:
    name = judged["name"]
    counted = [test["verdict"] for test in judged["tests"] if test["waived"] is None]
    worst = worst_change(audit, name)
    groups = {group["key"]: group["name"] for group in audit["groups"]}
    where = "" if worst is None else (
        f"{LABELS[worst['metric']]} {groups.get(worst['group'], worst['group'])}"
    )  # fmt: skip
    return Measured(
        variant=str(name),
        verdict=_verdict(judged["verdict"]),
        members=int(judged["members"]),
        top1=_estimate(audit["accuracy"][name]["top1"]),
        excess=_estimate(audit["divergence"][name]["cie"]["excess"]),
        worst=None if worst is None else _estimate(worst["relative"]),
        where=where,
        failed=counted.count("FAIL"),
        unsure=counted.count("UNSURE"),
    )


def _verdict(text: str) -> str:
    if text not in ("PASS", "UNSURE", "FAIL"):
        raise ValueError(f"a verdict is PASS, UNSURE or FAIL, got {text!r}")
    return text


def _estimate(found: Mapping[str, Any]) -> dict[str, Any]:
    """What is shown of an estimate, and nothing that cannot be."""
    numbers = {key: found[key] and float(found[key]) for key in ("value", "low", "high")}
    words = {key: str(found[key]) for key in ("reason", "note")}
    return numbers | words | {"n": int(found["n"])}
