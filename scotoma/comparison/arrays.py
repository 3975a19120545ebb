"""Compare two models, or two populations, from arrays: the first use in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from scotoma.answers.arrays import pair_of
from scotoma.answers.note import AdmissionNote
from scotoma.comparison.flips import Flip, flips
from scotoma.comparison.means import (
    GroupScoreEffect,
    MeanChange,
    affected,
    group_effects,
    score_table,
)
from scotoma.comparison.reruns import RerunFloor, align_reruns, rerun_floor
from scotoma.errors import DataError
from scotoma.numbers import Estimate
from scotoma.numbers.inputs import Ints

MOST_GROUPS = 200


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two models on the same examples.

    Attributes:
        error: Share of wrong answers before and after.
        accuracy: Share of right answers, its change, and recovery = after / before.
        flip_counts: Answers that change, and how.
        effects: What happens to the error of each group.
        floor: How much reruns of the dense model differ; None without reruns.
        notes: Sentences that a reader should know.
        admission: What was folded, left out or guessed, and what admits no PASS; among the notes.
    """

    error: MeanChange
    accuracy: MeanChange
    flip_counts: tuple[Flip, ...]
    effects: tuple[GroupScoreEffect, ...]
    floor: RerunFloor | None
    notes: tuple[str, ...]
    admission: tuple[AdmissionNote, ...] = ()

    @property
    def overall(self) -> pl.DataFrame:
        """Accuracy before and after, its change and the recovery, with n and interval."""
        own = self.accuracy
        names = ("accuracy before", "accuracy after", "change", "recovery")
        numbers = (own.before, own.after, own.change, own.recovery)
        rows = [(name, own.n, *_ends(one)) for name, one in zip(names, numbers, strict=True)]
        return _frame("number n value low high", rows)

    @property
    def flips(self) -> pl.DataFrame:
        """Changed answers by kind: count, share and its interval."""
        rows = [(one.kind, self.error.n, one.count, *_ends(one.share)) for one in self.flip_counts]
        return _frame("kind n count share share_low share_high", rows)

    @property
    def groups(self) -> pl.DataFrame:
        """Error of each group before and after, its rise with interval and adjusted p-value."""
        rows = [
            (
                one.group, one.score.n, one.score.before.value, one.score.after.value,
                *_ends(one.score.change), one.p_adjusted,
            )
            for one in self.effects
        ]  # fmt: skip
        return _frame("group n before after rise rise_low rise_high p_adjusted", rows)

    @property
    def affected(self) -> pl.DataFrame:
        """Groups whose error surely rises, and more than the rest's, after Holm's correction.

        The most affected comes first.
        """
        names = [one.group for one in affected(self.effects, higher_is_better=False)]
        order = pl.DataFrame({"group": names}, schema={"group": pl.String})
        return order.join(self.groups, on="group", how="left", maintain_order="left")

    def __str__(self) -> str:
        """The conclusion in a few sentences."""
        return "\n".join(self._sentences())

    def _repr_html_(self) -> str:
        from scotoma.comparison.section import effect_table
        from scotoma.document import Document, Section
        from scotoma.document.html import fragment

        table = effect_table("group", self.effects, binary=True, lower_is_better=True)
        sections = [Section("answer", "", self._sentences())]
        sections += [Section("groups", "Error by group", parts=[table])] if self.effects else []
        return fragment(Document("Compressed against dense", sections=sections))

    def _sentences(self) -> list[str]:
        change, recovery = self.accuracy.change, self.accuracy.recovery
        first = (
            f"Accuracy changes by {100 * change.value:+.1f} points "
            f"[{100 * change.low:+.1f}, {100 * change.high:+.1f}] over {self.accuracy.n:,} "
            f"examples; recovery {100 * recovery.value:.1f}%."
        )
        changed = next(one for one in self.flip_counts if one.kind == "changed")
        lines = [first, f"{changed.count:,.0f} answers change ({100 * changed.share.value:.1f}%)."]
        hit = affected(self.effects, higher_is_better=False)
        if hit:
            rise = hit[0].score.change
            lines.append(
                f"Most affected: {hit[0].group}, error {100 * rise.value:+.1f} points "
                f"[{100 * rise.low:+.1f}, {100 * rise.high:+.1f}] over {hit[0].score.n:,} examples."
            )
        elif self.effects:
            lines.append(
                "No group's error surely rises more than the rest's, after correction over "
                f"{len(self.effects)} groups."
            )
        return [*lines, *self.notes]


def compare(
    y: Any,
    dense: Any,
    compressed: Any,
    *,
    groups: Any = None,
    clusters: Any = None,
    paired: bool = False,
    reruns: bool = False,
    level: float = 0.95,
) -> Comparison:
    """Compare the predictions of two models, or of two populations, on the same examples.

    Args:
        y: True labels, text or numbers, shape (n,): a list, an array, or a column of pandas, polars
            or Arrow. Examples without a label are left out.
        dense: Predicted labels of the dense model, shape (n,). Of several models: shape (n, K), a
            frame, a list of columns, or a mapping from a model's name to its column. Where a model
            gives no answer it counts as wrong.
        compressed: Predicted labels of the compressed model on the same rows.
        groups: Attribute name to its value for every example, or a frame with a column an
            attribute. More than 20 numbers form four bins; missing values form `(missing)`.
        clusters: Id of each row's cluster, shape (n,), such as one person's; None where every row
            is its own.
        paired: Each compressed model was made from the dense model at the same place.
        reruns: Columns are reruns of one model, not models of other training runs. Then examples
            alone are random, and a floor says how much reruns differ.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Accuracy, flips and groups; its properties are polars frames, its notes say what was folded,
        left out or is no label.

    Raises:
        DataError: Columns that do not fit together, answers that are no labels, such as
            probabilities, or more than 200 groups.

    >>> import scotoma
    >>> y = np.arange(600) % 2
    >>> sex = np.where(np.arange(600) < 200, "f", "m")
    >>> int8 = np.where((sex == "f") & (np.arange(600) % 5 == 0), 1 - y, y)
    >>> comparison = scotoma.compare(y, y, int8, groups={"sex": sex})
    >>> comparison.affected.select("group", "n", "rise").rows()
    [('sex=f', 200, 0.2)]
    """
    if paired and reruns:
        raise DataError(
            "reruns are of one model a side, and paired is for several; leave out one of them"
        )
    pair = pair_of(y, dense, compressed, groups=groups, clusters=clusters, paired=paired)
    assert pair.dense is not None
    labels, d, c = pair.labels, pair.dense.predicted, pair.compressed.predicted
    admission = (*pair.notes, *pair.examples.chance(pair.dense, level=level))
    masks = {name: mask for name, mask in pair.examples.groups.by_key.items() if name != "all"}
    if len(masks) > MOST_GROUPS:
        raise DataError(
            f"groups must form at most {MOST_GROUPS} groups, got {len(masks):,}; leave out what "
            "names single examples"
        )
    rows = pair.examples.cluster
    floor = None
    if reruns:
        if d.shape[1] > 1:
            floor = rerun_floor([_outcomes(d, labels)], [_outcomes(c, labels)], level=level)
        before, after = align_reruns(d.shape[1], c.shape[1])
        times = len(before)
        rows = np.repeat(np.arange(len(labels)) if rows is None else rows, times)
        d, c = d[:, before].reshape(-1, 1), c[:, after].reshape(-1, 1)
        labels = np.repeat(labels, times)
        masks = {name: np.repeat(mask, times) for name, mask in masks.items()}
    wrong = score_table(d != labels[:, None], c != labels[:, None], rows, paired=paired)
    right = score_table(d == labels[:, None], c == labels[:, None], rows, paired=paired)
    several = min(d.shape[1], c.shape[1]) > 1
    sentences = [note.sentence for note in admission]
    return Comparison(
        error=wrong.change(level=level),
        accuracy=right.change(level=level),
        flip_counts=flips(labels, d, c, clusters=rows, paired=paired),
        effects=group_effects(wrong, masks, level=level),
        floor=floor,
        notes=(
            *(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences),
            *(() if several else ("One model a side: another training run may differ.",)),
        ),
        admission=admission,
    )


def _outcomes(predicted: Ints, labels: Ints) -> Ints:
    """0 where right, the label and 1 elsewhere: what counts as the same answer."""
    return np.where(predicted == labels[:, None], 0, predicted + 1)


def _ends(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.low, estimate.high


def _frame(names: str, rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """Rows of a text, a count and numbers as a polars frame; nan is null."""
    text, count, *numbers = names.split()
    schema = {text: pl.String, count: pl.Int64, **dict.fromkeys(numbers, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        pl.col(numbers).fill_nan(None)
    )
