"""gate.json: the verdict on an audit, and every test that it rests on."""

from __future__ import annotations

import datetime
from typing import Literal

from pydantic import Field

from scotoma.audit.base import Count, Flag, Fraction, Level, Part, Quantity, Real
from scotoma.config.gate import GateRules

__all__ = [
    "GATE_VERSION",
    "DecidingInterval",
    "GateFile",
    "GateResult",
    "JudgedExamples",
    "JudgedVariant",
    "Margins",
    "MembersNeeded",
    "PreviousReference",
    "TestResult",
    "VerdictWord",
]

GATE_VERSION = 2
VerdictWord = Literal["PASS", "UNSURE", "FAIL"]


class Margins(Part):
    """The largest rises that are acceptable; with both, both must be exceeded."""

    relative: Real | None = Field(description="On compressed / dense - 1, a fraction; or null.")
    absolute: Real | None = Field(description="On compressed - dense, a fraction; or null.")


class DecidingInterval(Part):
    """The interval that decided: beyond the margin in a FAIL, inside in a PASS, else across it."""

    kind: Literal["relative", "absolute"] = Field(description="Which margin the test hangs on.")
    margin: Real = Field(
        description="The margin, in the unit of the interval: per cent, or a fraction."
    )
    interval: Quantity = Field(description="The change, with its interval at the deciding level.")


class MembersNeeded(Part):
    """About how many members would settle a test, or that none would."""

    group: str = Field(description="What is tested, in words.")
    towards: Literal["harm", "clear"] = Field(
        description="What would be decided: `harm` shown, or harm ruled out (`clear`)."
    )
    low: int | Real | None = Field(
        description="Lower end of the range of members; inf if no number settles it, null if that "
        "cannot be told."
    )
    high: int | Real | None = Field(description="Upper end of the range.")
    members: Count = Field(description="Members that the audit has.")
    n: Count = Field(description="Examples of the group that it has.")
    examples: Real | None = Field(
        description="About how many examples of the group would settle it instead; null where "
        "members do."
    )
    both: Flag = Field(description="Whether those examples need more members too.")
    decided: Flag = Field(description="Whether the present members settle it already.")
    reason: str = Field(description="Why there is no range; else empty.")


class TestResult(Part):
    """One test of one variant."""

    rule: str = Field(description="Id of its rule.")
    metric: str = Field(description="Metric of the rule.")
    group: str = Field(description="Key of the group; `all` for all examples.")
    class_name: str | None = Field(alias="class", description="The class; null for none.")
    where: str = Field(description="What is tested, in words.")
    verdict: VerdictWord = Field(description="The answer.")
    reason: str = Field(description="Why it was not tested; else empty.")
    waived: str | None = Field(description="Why it does not count; null where it does.")
    waived_until: str | None = Field(description="Last day of the waiver, YYYY-MM-DD.")
    margins: Margins = Field(description="The margins of the rule.")
    relative: Quantity | None = Field(
        description="The relative change, per cent; null where no rule asks for it."
    )
    absolute: Quantity | None = Field(description="The change, a fraction; null without evidence.")
    harm_p: Fraction | None = Field(
        description="One-sided p-value that the margins are exceeded; null if untested."
    )
    harm_p_adjusted: Fraction | None = Field(
        description="The same, adjusted over the tests of the variant."
    )
    noninferiority_p: Fraction | None = Field(
        description="P-value that the margins are not exceeded; null if untested."
    )
    decided_by: DecidingInterval | None = Field(
        description="The interval that decided; null if untested."
    )
    needed: MembersNeeded | None = Field(
        description="What would settle an UNSURE; null where it is settled or not known."
    )
    needed_words: str | None = Field(description="The same as a sentence.")


class JudgedVariant(Part):
    """The verdict on one variant: FAIL if one test is, PASS only if all are."""

    name: str = Field(description="The variant.")
    verdict: VerdictWord = Field(description="Its verdict; waived tests do not count.")
    members: Count = Field(description="Models in the smaller of its population and the dense one.")
    top1: Fraction | None = Field(description="Accuracy of its population.")
    cies: Count = Field(description="Number of CIEs.")
    outlook: str | None = Field(description="What would settle an UNSURE variant; else null.")
    sentences: tuple[str, ...] = Field(
        description="What the verdict rests on, a sentence each; none for a PASS."
    )
    tests: tuple[TestResult, ...] = Field(description="Every test, in the order of the rules.")


class JudgedExamples(Part):
    """The test examples that the verdict rests on."""

    test: Count = Field(description="Test examples.")
    clusters: Count = Field(description="Clusters of them.")


class PreviousReference(Part):
    """The previous audit that this one was compared with."""

    of: str = Field(description="Its place, or its run in MLflow.")
    sha256: str = Field(description="SHA-256 of its audit.json.")


class GateResult(Part):
    """The verdict on an audit.

    FAIL: harm beyond a margin is shown. PASS: harm beyond every margin is ruled out. UNSURE:
    neither, and what would settle it. [The gate](gate.md) says how it is decided.
    """

    version: Literal[2] = Field(description="Version of this format.")
    scotoma: str = Field(description="Version of Scotoma that wrote the audit.")
    project: str = Field(description="Name of the project.")
    config_sha256: str = Field(description="SHA-256 of the audit's configuration.")
    scope: Literal["population", "shipped"] = Field(
        description="What the verdict speaks of, as in audit.json."
    )
    level: Level = Field(description="Coverage of the audit's intervals.")
    examples: JudgedExamples = Field(description="The test examples.")
    verdict: VerdictWord = Field(description="The worst verdict of all variants.")
    exit_code: Literal[0, 1, 3] = Field(
        description="What `scotoma gate` exits with: 0 pass, 1 fail, 3 unsure if that must fail."
    )
    rules: GateRules = Field(
        description="The rules as applied: with one model a side `min.models` is 1 unless set."
    )
    warnings: tuple[str, ...] = Field(description="What to know beside the verdict.")
    previous_audit: PreviousReference | None = Field(
        description="The audit before this one; null where none was compared."
    )
    variants_tried: Count = Field(
        description="Number of variants judged: picking the best of many favours luck."
    )
    variants: tuple[JudgedVariant, ...] = Field(description="A verdict a compressed variant.")


class GateFile(GateResult):
    """gate.json: the verdict, its day, and the audit that it judges."""

    as_of: datetime.date = Field(description="Day that decides which waivers have expired.")
    audit_sha256: str = Field(description="SHA-256 of the audit.json that was judged.")
