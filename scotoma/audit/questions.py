"""Which questions does an audit answer? A line each: the rows of audit.json that do, in words."""

from __future__ import annotations

# In the order of numbers.parquet.
QUESTIONS: dict[str, str] = {
    "accuracy": (
        "`top1`, the share of test examples that the members of a variant get right; absent "
        "without labels. Do not read a difference off two overlapping intervals: the populations "
        "share their examples, so differences are more certain than the values."
    ),
    "divergence": "which examples change, see [divergence](#divergence).",
    "impact": (
        "the recall of each class (`dense`, `compressed`), and what it loses beyond the accuracy "
        "that the model loses (`beyond accuracy`), above 0 where it loses more."
    ),
    "rates": (
        "the error of each group, and its false positive and false negative rates (`fpr`, `fnr`), "
        "of the positive class or of each class against the rest: `dense`, `compressed`, their "
        "difference (`absolute`, a fraction), and compressed / dense - 1 (`relative`); a large "
        "relative change of a small rate can be few examples: see its `effective_events`."
    ),
    "unanswered": "the same of the share without an answer; absent where everything has one.",
    "gaps": (
        "how much more the error of `group_b` rises than that of `group_a`, which is the "
        "advantaged one where the configuration names it (`rise_a`, `rise_b`, and `gap`, with the "
        "covariance of the two groups in its interval); `p_adjusted` by Holm over all gaps of the "
        "audit."
    ),
    "clarify": (
        "[the 21 metrics](metrics.md#the-21-metrics-of-clarify) of `labels`, of the training "
        "examples and of the test examples (`split`), and of predictions (`dense`, `compressed`, "
        "`change`). Facet a is the advantaged, d the disadvantaged. If the configuration names "
        "the advantaged value, d is all others; if not, of two values the one that is rarer among "
        "the training examples (without any, the test examples), and of more each in turn, "
        "against the rest. Strata are the values of all other attributes together. Metric "
        "`selected` holds the four-fifths rule: the `rate` at which a group gets the favourable "
        "class, and its `ratio` to that of the group selected most."
    ),
    "fairness": (
        "how far models of other seeds lie apart in the seven metrics of the fixed-seed study, "
        "and whether compression moves that."
    ),
    "slices": "the error on slices that nobody named, and what tested them.",
    "labels": "whole examples that change in any of several labels, and average precision.",
    "boxes": "AP and AR of detectors, whose n are images.",
    "scores": "means and quantiles, where each example has a score.",
    "robustness": (
        "what corrupted pictures and other test sets cost; `curves` accuracy against severity, "
        "`by_corruption` each corruption by itself, `losses` every group under every family, "
        "compressed beside dense, `confidence` how sure models are."
    ),
}
