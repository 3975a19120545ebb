"""gate.json: the verdict on an audit, and every test that it rests on."""

from __future__ import annotations

import datetime
from typing import Literal

from pydantic import Field

from scotoma.audit.base import Count, Fraction, Level, Part, Quantity, Real
from scotoma.config.gate import GateRules

GATE_VERSION = 2
VerdictWord = Literal["PASS", "UNSURE", "FAIL"]
TestVerdict = Literal["PASS", "UNSURE", "FAIL", "NOT JUDGED"]


class Margins(Part):
    """The largest rises that are acceptable; with both, both must be exceeded."""

    clearing: Real | None = Field(
        description="The absolute margin that a PASS must keep: that of the rule, or two standard "
        "errors of the dense rate where that is wider. Known before compression."
    )
    relative: Real | None = Field(description="On compressed / dense - 1, a fraction; or null.")
    absolute: Real | None = Field(
        description="On compressed - dense, a fraction, of `mean_score` in the unit of the score; "
        "or null."
    )


class DecidingInterval(Part):
    """The interval that decided: beyond the margin in a FAIL, inside in a PASS, else across it."""

    kind: Literal["relative", "absolute", "score", "level"] = Field(
        description="Which margin the test hangs on: of two the one that decides; `score` for a "
        "difference in the unit of a score, `level` for the limit of a metric itself."
    )
    margin: Real = Field(description="The margin or limit, in the unit of the interval.")
    interval: Quantity = Field(
        description="The change or the number, with its interval at the deciding level. Of `the "
        "next 16 runs` it holds all of them together."
    )
    subject: str = Field(
        "",
        description="Of a level: whose number it is, `member 7`, `the mean of 16 models`, `the "
        "next 16 runs`; else empty.",
    )


class LevelTest(Part):
    """The limit of a level, and the numbers beside it."""

    attribute: str = Field(description="The attribute whose groups are compared.")
    side: Literal["at least", "at most"] = Field(description="Which limit of the rule.")
    limit: Real = Field(description="The limit.")
    neutral: Real = Field(description="The value where both sides are treated alike.")
    of: Literal["every_member", "mean", "labels"] = Field(
        description="What must keep it: as in the rule, or the labels of the training examples."
    )
    next_runs: Count = Field(
        description="How many next training runs must keep it; 0 unless every member must."
    )
    mean: Quantity | None = Field(description="Mean over the models, or the number of the labels.")
    worst_member: str = Field(
        description="The model nearest to the limit or farthest outside; empty for none."
    )
    worst: Quantity | None = Field(description="Its number; the interval is over examples.")
    dense: Quantity | None = Field(
        description="Mean over the dense models, before compression; null for labels."
    )


class Forecast(Part):
    """What would settle a test that is UNSURE, and which way."""

    leaning: Literal["PASS", "FAIL"] = Field(
        description="`PASS` where the estimate lies within a margin, else `FAIL`."
    )
    by: Literal["models", "examples"] | None = Field(
        description="What would settle it that way; null where nothing is likely to."
    )
    low: Real | None = Field(description="The number that settles it with a chance of one half.")
    high: Real | None = Field(description="The number that settles it with a chance of 80%.")
    now: Count = Field(description="The number that the audit has.")
    passing_margin: Real | None = Field(
        description="The absolute margin, a fraction, that would pass today."
    )
    sentence: str = Field(description="The same in words.")


class TestResult(Part):
    """One test of one variant."""

    rule: str = Field(description="Id of its rule.")
    metric: str = Field(description="Metric of the rule.")
    group: str = Field(description="Key of the group; `all` for all examples.")
    class_name: str | None = Field(alias="class", description="The class; null for none.")
    where: str = Field(description="What is tested, in words.")
    verdict: TestVerdict = Field(
        description="The answer; `NOT JUDGED` where no PASS rests on it, as the reason says."
    )
    reason: str = Field(description="Why it was not judged; else empty.")
    waived: str | None = Field(description="Why it does not count; null where it does.")
    waived_until: str | None = Field(description="Last day of the waiver, YYYY-MM-DD.")
    margins: Margins = Field(description="The margins of the rule.")
    relative: Quantity | None = Field(
        description="The relative change, compressed / dense - 1; null where no rule asks for it."
    )
    absolute: Quantity | None = Field(
        description="The change, a fraction; null without evidence, and for levels."
    )
    level: LevelTest | None = Field(
        None, description="The limit and its numbers, where the rule is about a level; else null."
    )
    harm_p: Fraction | None = Field(
        description="One-sided p-value that the margins are exceeded, or a limit broken; null "
        "where too little is known to show harm."
    )
    harm_p_adjusted: Fraction | None = Field(
        description="The same, adjusted over the tests of the variant."
    )
    noninferiority_p: Fraction | None = Field(
        description="P-value that the margins are not exceeded, or the limit kept; null if "
        "untested."
    )
    decided_by: DecidingInterval | None = Field(
        description="The interval that decided; null if untested."
    )
    outlook: Forecast | None = Field(
        description="What would settle an UNSURE; null where it is settled or not known."
    )

    @property
    def unit(self) -> Literal["absolute", "score"]:
        """The kind of its absolute change: a fraction, or in the unit of the score."""
        return "score" if self.metric == "mean_score" else "absolute"


class JudgedVariant(Part):
    """The verdict on one variant: FAIL if one test is, PASS only if all are."""

    name: str = Field(description="The variant.")
    verdict: VerdictWord = Field(description="Its verdict; waived tests do not count.")
    members: Count = Field(description="Models in the smaller of its population and the dense one.")
    top1: Fraction | None = Field(description="Accuracy of its population; null without labels.")
    cies: Count = Field(description="Number of CIEs.")
    outlook: str | None = Field(description="What would settle an UNSURE variant; else null.")
    blocked: tuple[str, ...] = Field(
        (),
        description="What turns a PASS into UNSURE: sentences of `admission` in audit.json; the "
        "key is absent where nothing does.",
    )
    too_small: tuple[str, ...] = Field(
        description="What was too small to judge, with its size: no PASS rests on it."
    )
    sentences: tuple[str, ...] = Field(description="What the verdict rests on, a sentence each.")
    tests: tuple[TestResult, ...] = Field(description="Every test, in the order of the rules.")

    @property
    def counted(self) -> list[TestResult]:
        """The tests that no waiver takes out."""
        return [test for test in self.tests if test.waived is None]

    @property
    def failed(self) -> list[TestResult]:
        """The tests that it fails, the surest first."""
        failed = [test for test in self.counted if test.verdict == "FAIL"]
        return sorted(failed, key=lambda test: test.harm_p_adjusted or 0.0)


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
        description="What `scotoma gate` exits with unless --variant names one: 0 pass, 1 fail, 3 "
        "unsure if that must fail."
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

    def variant(self, name: str) -> JudgedVariant | None:
        """The verdict on one variant; None for the dense one."""
        return next((variant for variant in self.variants if variant.name == name), None)


class GateFile(GateResult):
    """gate.json: the verdict, its day, and the audit that it judges."""

    as_of: datetime.date = Field(description="Day that decides which waivers have expired.")
    audit_sha256: str = Field(description="SHA-256 of the audit.json that was judged.")
