"""Which questions does an audit answer? Each with its words, step, metrics and sections."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

_METRICS = Path(__file__).with_name("bias") / "clarify" / "metrics.json"
CLARIFY: dict[str, dict[str, Any]] = {
    f"clarify.{row['name']}": row for row in json.loads(_METRICS.read_text("utf-8"))
}
STUDY = ("DP", "DI", "SPSF", "FPSF", "EOFP", "EOTP", "BA")
OF_PREDICTIONS = ("DP", "DI", "SPSF")  # those that no label enters


@dataclass(frozen=True)
class Question:
    """One question of an audit.

    Attributes:
        words: What its rows say, for docs/results.md.
        step: The step that answers it.
        metrics: What rules of a gate may name: changes, or levels such as `clarify.DI`.
        unlabelled: Those of them that need no labels.
        sections: Modules and functions of its sections of the document, by their place on the page.
    """

    words: str
    step: str = "bias"
    metrics: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()
    sections: Mapping[int, str] = field(default_factory=dict)

    def drawn(self) -> dict[int, Callable[..., Any]]:
        """Load its sections of the document, by their place."""
        return {place: resolve_name(f"scotoma.{name}") for place, name in self.sections.items()}


# In the order of numbers.parquet.
QUESTIONS: dict[str, Question] = {
    "accuracy": Question(
        "`top1`, the share of test examples that the members of a variant get right; absent "
        "without labels. Do not read a difference off two overlapping intervals: the populations "
        "share their examples, so differences are more certain than the values.",
    ),
    "divergence": Question(
        "which examples change, see [divergence](#divergence).",
        step="divergence",
        metrics=("cie_share_excess", "labels_changed"),
        unlabelled=("cie_share_excess", "labels_changed"),
        sections={
            60: "divergence.gallery_section:gallery_section",
            120: "divergence.section:topline_section",
            130: "divergence.section:flips_section",
            230: "divergence.gallery_section:parity_section",
        },
    ),
    "impact": Question(
        "the recall of each class (`dense`, `compressed`), and what it loses beyond the accuracy "
        "that the model loses (`beyond accuracy`), above 0 where it loses more.",
        metrics=("classes_hurt",),
        sections={160: "impact.classes_section:classes_section"},
    ),
    "rates": Question(
        "the error of each group, and its false positive and false negative rates (`fpr`, `fnr`), "
        "of the positive class or of each class against the rest: `dense`, `compressed`, their "
        "difference (`absolute`, a fraction), and compressed / dense - 1 (`relative`); a large "
        "relative change of a small rate can be few examples: see its `effective_events`.",
        metrics=("fpr", "fnr", "error"),
        sections={20: "impact.groups_section:groups_section"},
    ),
    "unanswered": Question(
        "the same of the share without an answer; absent where everything has one.",
        metrics=("unanswered",),
        unlabelled=("unanswered",),
        sections={40: "bias.section:unanswered_section"},
    ),
    "endings": Question(
        "how answers ended, where compared logs say it: the shares `cut_off`, `refused` and "
        "without a tool call (`tool_call`), and the number of `output_tokens`; `unknown` is the "
        "share of examples whose ending is not known: they are left out.",
        step="prepare",
        metrics=("cut_off", "refused", "tool_call", "output_tokens"),
        unlabelled=("cut_off", "refused", "tool_call", "output_tokens"),
    ),
    "gaps": Question(
        "how much more the error of `group_b` rises than that of `group_a`, which is the "
        "advantaged one where the configuration names it (`rise_a`, `rise_b`, and `gap`, with the "
        "covariance of the two groups in its interval); `p_adjusted` by Holm over all gaps of the "
        "audit.",
        metrics=("error_gap",),
    ),
    "clarify": Question(
        "[the 21 metrics](metrics.md#the-21-metrics-of-clarify) of `labels`, of the training "
        "examples and of the test examples (`split`), and of predictions (`dense`, `compressed`, "
        "`change`). Facet a is the advantaged, d the disadvantaged. If the configuration names "
        "the advantaged value, d is all others; if not, of two values the one that is rarer among "
        "the training examples (without any, the test examples), and of more each in turn, "
        "against the rest. Strata are the values of all other attributes together. Metric "
        "`selected` holds the four-fifths rule: the `rate` at which a group gets the favourable "
        "class, and its `ratio` to that of the group selected most.",
        metrics=tuple(CLARIFY),
        unlabelled=tuple(
            name for name, one in CLARIFY.items() if {"p"} <= {*one["needs"]} <= {"p", "strata"}
        ),
        sections={180: "bias.section:clarify_section"},
    ),
    "fairness": Question(
        "how far models of other seeds lie apart in the seven metrics of the fixed-seed study, "
        "and whether compression moves that.",
        metrics=tuple(f"fairness.{name}" for name in STUDY),
        unlabelled=tuple(f"fairness.{name}" for name in OF_PREDICTIONS),
        sections={190: "runs.seeds_section:seeds_section"},
    ),
    "slices": Question(
        "the error on slices that nobody named, and what tested them.",
        step="slices",
        metrics=("slices_hurt",),
        sections={70: "slices.section:slices_section"},
    ),
    "labels": Question(
        "whole examples that change in any of several labels, and average precision.",
        sections={140: "impact.labels_section:labels_section"},
    ),
    "boxes": Question(
        "AP and AR of detectors, whose n are images.",
        step="prepare",
        sections={150: "detection.section:precision_section"},
    ),
    "scores": Question(
        "means and quantiles, where each example has a score.",
        metrics=("mean_score",),
        unlabelled=("mean_score",),
        sections={
            30: "impact.scores_section:means_section",
            50: "impact.scores_section:examples_section",
            100: "impact.scores_section:quantiles_section",
        },
    ),
    "robustness": Question(
        "what corrupted pictures and other test sets cost; `curves` accuracy against severity, "
        "`by_corruption` each corruption by itself, `losses` every group under every family, "
        "compressed beside dense, `confidence` how sure models are.",
        step="robustness",
        metrics=("robustness_loss", "overconfidence", "unnoticed_pictures"),
        unlabelled=("unnoticed_pictures",),
        sections={170: "robustness.section:robustness_section"},
    ),
}


def question_of(metric: str) -> str:
    """Look up the question of a metric that a rule names; empty where it is of two audits.

    >>> question_of("fnr"), question_of("clarify.DI"), question_of("since_previous")
    ('rates', 'clarify', '')
    """
    return next((name for name, one in QUESTIONS.items() if metric in one.metrics), "")


def asked_by(step: str) -> list[str]:
    """List the questions that a step answers.

    >>> asked_by("robustness")
    ['robustness']
    """
    return [name for name, one in QUESTIONS.items() if one.step == step]
