"""What does the page of an audit of scores show?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scotoma.audit import Audit, GateResult
from scotoma.audit.scores import QuantileRow, ScoreChange
from scotoma.audit.worst_change import worst_mean
from scotoma.numbers import few_runs
from scotoma.report import answers
from scotoma.report.downloads import downloads
from scotoma.report.judged import certainty_words, open_tests, rule_words
from scotoma.report.marks import scale_of
from scotoma.report.readable import with_group_names

__all__ = ["ScoredVariant", "score_context"]

MOST_ROWS = 60  # of the table of groups on the page; means.csv has all
TITLES = {
    "verdict": "Verdict",
    "groups": "Who",
    "examples": "Examples",
    "slices": "Why",
    "gate": "Gate",
    "quantiles": "Quantiles",
    "methods": "Methods",
}


@dataclass(frozen=True)
class ScoredVariant:
    """What the page shows of a compressed variant.

    Attributes:
        name: Its name.
        verdict: PASS, UNSURE or FAIL; empty where nobody judged.
        everyone: The mean of all examples.
        worst: The group whose mean surely gets worse most; None where no group has an interval.
        groups: The means, all examples first, then the surest losses.
        left_out: How many groups the page leaves to means.csv.
        quantiles: In the order of `groups`.
    """

    name: str
    verdict: str
    everyone: ScoreChange
    worst: ScoreChange | None
    groups: tuple[ScoreChange, ...]
    left_out: int
    quantiles: tuple[tuple[str, tuple[QuantileRow, ...]], ...]


def score_context(
    audit: Audit, gate: GateResult | None, versions: Mapping[str, str]
) -> dict[str, Any]:
    """Collect all that the templates of the page of scores read.

    Args:
        audit: An audit of scores.
        gate: The verdict; None where there is none.
        versions: Package to version.
    """
    audit = with_group_names(audit)
    scores = audit.scores
    assert scores is not None
    words = few_runs(min(variant.members for variant in audit.variants))
    variants = [_variant(audit, gate, variant.name) for variant in audit.compressed]
    there = {"gate": gate, "slices": audit.slices, "examples": any(scores.examples.values())}
    return {
        "audit": audit,
        "scores": scores,
        "unit": f", {scores.unit}" if scores.unit else "",
        "dense": audit.dense,
        "compressed": audit.compressed,
        "clustered": audit.examples.clusters != audit.examples.test,
        "few_runs": f"{words.capitalize()}." if words else "",
        "variants": variants,
        "slugs": {one.name: f"v{place}" for place, one in enumerate(variants, 1)},
        "focus": answers.in_focus(audit, gate),
        "verdict_sentence": answers.verdict_sentence(gate) if gate else "",
        "next_steps": answers.next_steps(gate, scored=True) if gate else [],
        "open_tests": {v.name: open_tests(v) for v in gate.variants} if gate else {},
        "rule_words": rule_words,
        "certainty_words": certainty_words,
        "scale": scale_of(row.relative for one in variants for row in one.groups),
        "slices": audit.slices,
        "downloads": downloads(audit, gate),
        "versions": sorted(versions.items()),
        "contents": [(key, title) for key, title in TITLES.items() if there.get(key, True)],
    }


def _variant(audit: Audit, gate: GateResult | None, name: str) -> ScoredVariant:
    scores = audit.scores
    assert scores is not None
    verdicts = {} if gate is None else {one.name: one.verdict for one in gate.variants}
    everyone, *groups = scores.means[name]
    ranked = sorted(groups, key=_least_loss, reverse=True)
    shown = (everyone, *ranked[: MOST_ROWS - 1])
    quantiles: dict[str, list[QuantileRow]] = {row.group: [] for row in shown}
    for row in scores.quantiles[name]:
        if row.group in quantiles:
            quantiles[row.group].append(row)
    return ScoredVariant(
        name=name,
        verdict=verdicts.get(name, ""),
        everyone=everyone,
        worst=worst_mean(audit, name),
        groups=shown,
        left_out=len(ranked) + 1 - len(shown),
        quantiles=tuple((group, tuple(rows)) for group, rows in quantiles.items()),
    )


def _least_loss(row: ScoreChange) -> float:
    return float("-inf") if row.worse.low is None else row.worse.low
