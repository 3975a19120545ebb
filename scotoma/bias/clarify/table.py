"""What each of the 21 metrics asks, and how to read its sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A metric in words.

    Attributes:
        name: Its short name, as in the table.
        title: Its full name.
        question: What it answers, for a reader who knows no formula.
        formula: How it is computed; a is the advantaged, d the disadvantaged facet.
        neutral: The value that means "no bias".
        sign: What the two sides of the neutral value mean.
        stage: `pre-training` metrics describe the data, `post-training` ones the predictions.
        needs: Arguments of `metric` that it uses besides `d`.
        swap: What exchanging a and d does to it.
    """

    name: str
    title: str
    question: str
    formula: str
    neutral: float
    sign: str
    stage: Literal["pre-training", "post-training"]
    needs: tuple[str, ...]
    swap: Literal["negates", "inverts", "keeps", "changes"]


DISTANCE = "0 for equal distributions, larger for more different ones; never negative"

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "CI",
            "Class imbalance",
            "Are both facets present in equal numbers?",
            "(examples of a - examples of d) / all examples",
            0.0,
            "+ d is the smaller facet",
            "pre-training",
            (),
            "negates",
        ),
        Metric(
            "DPL",
            "Difference in positive proportions in labels",
            "Do the labels favour one facet?",
            "share of positive labels in a - the same in d",
            0.0,
            "+ a has more positive labels",
            "pre-training",
            ("y",),
            "negates",
        ),
        Metric(
            "KL",
            "Kullback-Leibler divergence",
            "How far are the labels of a from those of d?",
            "sum over labels of P_a ln(P_a / P_d), in nats; infinite where only a has a label",
            0.0,
            DISTANCE,
            "pre-training",
            ("labels",),
            "changes",
        ),
        Metric(
            "JS",
            "Jensen-Shannon divergence",
            "How far are the labels of both facets from their average?",
            "mean of KL(P_a, M) and KL(P_d, M), M = (P_a + P_d) / 2, in nats, at most ln 2",
            0.0,
            DISTANCE,
            "pre-training",
            ("labels",),
            "keeps",
        ),
        Metric(
            "LP",
            "L2 norm",
            "How far apart are the label distributions, large differences counting most?",
            "root of the summed squares of P_a - P_d",
            0.0,
            DISTANCE,
            "pre-training",
            ("labels",),
            "keeps",
        ),
        Metric(
            "TVD",
            "Total variation distance",
            "What share of d would need other labels to match a?",
            "half the summed absolute values of P_a - P_d, at most 1",
            0.0,
            DISTANCE,
            "pre-training",
            ("labels",),
            "keeps",
        ),
        Metric(
            "KS",
            "Kolmogorov-Smirnov",
            "Which single label differs most, and by how much?",
            "largest absolute value of P_a - P_d over labels, at most 1",
            0.0,
            DISTANCE,
            "pre-training",
            ("labels",),
            "keeps",
        ),
        Metric(
            "CDDL",
            "Conditional demographic disparity in labels",
            "Within strata, is d rejected more often than accepted?",
            "mean over strata, weighted by size, of d's share of the negative labels - d's share "
            "of the positive labels",
            0.0,
            "+ worse for d",
            "pre-training",
            ("y", "strata"),
            "negates",
        ),
        Metric(
            "DPPL",
            "Difference in positive proportions in predicted labels",
            "Does the model favour one facet?",
            "share of positive predictions in a - the same in d",
            0.0,
            "+ a gets more positive predictions",
            "post-training",
            ("p",),
            "negates",
        ),
        Metric(
            "DI",
            "Disparate impact",
            "How many positive predictions does d get for each one of a?",
            "share of positive predictions in d / the same in a",
            1.0,
            "below 1: d gets fewer positive predictions",
            "post-training",
            ("p",),
            "inverts",
        ),
        Metric(
            "AD",
            "Accuracy difference",
            "Is the model right equally often?",
            "accuracy in a - accuracy in d",
            0.0,
            "+ more errors in d",
            "post-training",
            ("y", "p"),
            "negates",
        ),
        Metric(
            "RD",
            "Recall difference",
            "Are positives found equally often?",
            "recall in a - recall in d",
            0.0,
            "+ more positives of d are missed",
            "post-training",
            ("y", "p"),
            "negates",
        ),
        Metric(
            "DAR",
            "Difference in acceptance rates",
            "Are positive predictions right equally often?",
            "precision in a - precision in d",
            0.0,
            "+ positive predictions are less often right in d",
            "post-training",
            ("y", "p"),
            "negates",
        ),
        Metric(
            "DCA",
            "Difference in conditional acceptance",
            "Are positives recognised as often as they occur?",
            "positive labels per positive prediction, in a - in d",
            0.0,
            "+ a is accepted less often than its labels say, compared with d",
            "post-training",
            ("y", "p"),
            "negates",
        ),
        Metric(
            "SD",
            "Specificity difference",
            "Are negatives recognised equally often?",
            "specificity in d - specificity in a",
            0.0,
            "+ more negatives of a are called positive; the sign of Clarify's documentation, "
            "opposite to its blog",
            "post-training",
            ("y", "p"),
            "negates",
        ),
        Metric(
            "DRR",
            "Difference in rejection rates",
            "Are negative predictions right equally often?",
            "share of right ones among negative predictions, in d - in a",
            0.0,
            "+ negative predictions are less often right in a",
            "post-training",
            ("y", "p"),
            "negates",
        ),
        Metric(
            "DCR",
            "Difference in conditional rejection",
            "Are negatives rejected as often as they occur?",
            "negative labels per negative prediction, in d - in a",
            0.0,
            "+ a is rejected more often than its labels say, compared with d",
            "post-training",
            ("y", "p"),
            "negates",
        ),
        Metric(
            "TE",
            "Treatment equality",
            "Do both facets suffer the same kind of error?",
            "missed positives per false alarm, in d - in a",
            0.0,
            "+ errors in d are more often missed positives",
            "post-training",
            ("y", "p"),
            "negates",
        ),
        Metric(
            "CDDPL",
            "Conditional demographic disparity in predicted labels",
            "Within strata, does the model reject d more often than it accepts?",
            "CDDL on predictions",
            0.0,
            "+ worse for d",
            "post-training",
            ("p", "strata"),
            "negates",
        ),
        Metric(
            "FT",
            "Counterfactual fliptest",
            "Would decisions about members of d change if they were in a?",
            "(members of d predicted negative whose nearest neighbours in a are predicted positive "
            "- the reverse) / members of d; 5 neighbours, or 1 where a has 9 rows or fewer; every "
            "choice among rows that lie equally far counts alike",
            0.0,
            "+ worse for d",
            "post-training",
            ("p", "features"),
            "changes",
        ),
        Metric(
            "GE",
            "Generalised entropy",
            "How unequally are right and wrong decisions spread over all examples?",
            "half the squared coefficient of variation of b = prediction - label + 1",
            0.0,
            "0 if no error is made; larger for more unequal benefits; never negative",
            "post-training",
            ("y", "p"),
            "keeps",
        ),
    )
}
