"""The texts of examples inside the page: what was asked and answered, cut and within a budget."""

from __future__ import annotations

from collections.abc import Mapping

from scotoma.predictions.reruns import example_of_row

LONGEST = 4_000  # characters of one text; the rest is left out, and says so
BUDGET = 600_000  # characters of all texts of a page

Titled = tuple[tuple[str, str], ...]


class Texts:
    """Hands out the texts of examples until the budget is spent.

    >>> texts = Texts({("int8", "q1"): (("Question", "2 + 2?"), ("Answer", ""))})
    >>> texts.take("int8", "q1"), texts.take("int8", "q2")
    ((('Question', '2 + 2?'),), ())
    """

    def __init__(
        self, texts: Mapping[tuple[str, str], Titled] | None = None, budget: int = BUDGET
    ) -> None:
        """Hold the texts by variant and example id."""
        self._texts = texts or {}
        self._left = budget  # characters

    def take(self, variant: str, example_id: str) -> Titled:
        """The titled texts of an example that are not empty; of a rerun those of its example."""
        rows = self._texts.get((variant, example_id))
        if rows is None:
            rows = self._texts.get((variant, example_of_row(example_id)), ())
        shown = tuple((title, _cut(text)) for title, text in rows if text)
        size = sum(len(text) for _, text in shown)
        if size > self._left:
            return ()
        self._left -= size
        return shown


def _cut(text: str) -> str:
    """Cut a text that is too long.

    >>> _cut("a" * 4_100)[-24:]
    'a… (100 more characters)'
    """
    more = len(text) - LONGEST
    return text if more <= 0 else f"{text[:LONGEST]}… ({more:,} more characters)"
