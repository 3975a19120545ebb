"""Which of the 21 metrics answers which question, and with which to start."""

from __future__ import annotations

from dataclasses import dataclass

from scotoma.bias.clarify.table import METRICS
from scotoma.document import Document, Facts, Section


@dataclass(frozen=True)
class Concern:
    """A worry in plain words, and the metrics that speak to it.

    Attributes:
        key: One word for it.
        question: The worry, as a question.
        start: The metric to look at first.
        why: Why that one.
    """

    key: str
    question: str
    start: str
    why: str

    @property
    def also(self) -> list[str]:
        """The others that answer the same question in another way."""
        others = (name for name, metric in METRICS.items() if metric.concern == self.key)
        return [name for name in others if name != self.start]


GUIDE = (
    Concern(
        "representation",
        "Is one group too rare in the data to learn or measure anything about it?",
        "CI",
        "it counts examples and nothing else; a rare group has wide intervals everywhere below",
    ),
    Concern(
        "labels",
        "Do the labels themselves favour one group, before any model?",
        "DPL",
        "it is signed and in shares of positive labels; the others have no direction and serve "
        "labels of many values",
    ),
    Concern(
        "outcome",
        "Does the model give one group more of the good outcome, whether deserved or not?",
        "DPPL",
        "a difference in shares, which is easy to read; DI is the same as a ratio, for the "
        "four-fifths rule",
    ),
    Concern(
        "strata",
        "Is the difference only because the groups apply for different things?",
        "CDDPL",
        "it compares within strata, so that a third factor (department, region) is held fixed; "
        "CDDL does the same for the labels",
    ),
    Concern(
        "accuracy",
        "Is the model wrong more often about one group?",
        "AD",
        "the first look, but it nets both kinds of error: a zero can hide opposite ones, which TE "
        "shows",
    ),
    Concern(
        "missed",
        "Are the deserving of one group overlooked more often (screening, hiring, retrieval)?",
        "RD",
        "the difference in recall: of those whose label is positive, how many are found",
    ),
    Concern(
        "accused",
        "Are members of one group flagged wrongly more often (fraud, arrest, moderation)?",
        "SD",
        "the difference in specificity: of those whose label is negative, how many are left alone",
    ),
    Concern(
        "trust",
        "Does the same decision mean something else for one group?",
        "DAR",
        "the difference in precision of acceptances; DRR is that of rejections",
    ),
    Concern(
        "likes",
        "Would the decision change if only the person's group changed?",
        "FT",
        "it compares people with the most similar people of the other group; it needs features",
    ),
)


def guide_document() -> Document:
    """Show each question with the metric to start with, why, and the others."""
    sections = [
        Section(
            concern.key,
            f"{concern.key}: {concern.question}",
            [f"Start with {concern.start}: {concern.why}"],
            [Facts([_explained(name) for name in (concern.start, *concern.also)])],
        )
        for concern in GUIDE
    ]
    return Document(
        "Choose your question and start with its metric",
        "a is the advantaged group, d the disadvantaged one. With --baseline, the column `change` "
        "shows what compression changes.",
        sections,
    )


def _explained(name: str) -> tuple[str, str]:
    metric = METRICS[name]
    return name, (
        f"{metric.title}: {metric.question} {metric.formula}; {metric.neutral:g} means no "
        f"difference; {metric.sign}"
    )
