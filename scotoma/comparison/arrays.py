"""Compare two models, or two populations, from arrays: the first use in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.comparison.effects import GroupScoreEffect, affected, group_effects
from scotoma.comparison.flips import Flip, flips
from scotoma.comparison.means import MeanChange, score_table
from scotoma.comparison.reruns import RerunFloor, align_reruns, rerun_floor
from scotoma.comparison.result import as_html, estimate_columns, frame
from scotoma.errors import DataError
from scotoma.group_keys import group_key
from scotoma.inputs import Flags, Ints, cluster_ids

__all__ = ["Comparison", "compare"]

MISSING = "(missing)"
MOST_GROUPS = 200
ESTIMATE = {"": pl.Float64, "_low": pl.Float64, "_high": pl.Float64}


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
    """

    error: MeanChange
    accuracy: MeanChange
    flip_counts: tuple[Flip, ...]
    effects: tuple[GroupScoreEffect, ...]
    floor: RerunFloor | None
    notes: tuple[str, ...]

    @property
    def overall(self) -> pl.DataFrame:
        """Accuracy before and after, its change and the recovery, with n and interval."""
        rows = {
            "accuracy before": self.accuracy.before,
            "accuracy after": self.accuracy.after,
            "change": self.accuracy.change,
            "recovery": self.accuracy.recovery,
        }
        schema = {"number": pl.String, "n": pl.Int64, "value": pl.Float64, "low": pl.Float64}
        return frame(
            (
                {"number": name, "n": self.accuracy.n} | estimate_columns(estimate)
                for name, estimate in rows.items()
            ),
            schema | {"high": pl.Float64},
        )

    @property
    def flips(self) -> pl.DataFrame:
        """Changed answers by kind: count, share and its interval."""
        schema = {"kind": pl.String, "n": pl.Int64, "count": pl.Float64}
        return frame(
            (
                {"kind": one.kind, "n": self.error.n, "count": one.count}
                | estimate_columns(one.share, "share")
                for one in self.flip_counts
            ),
            schema | {f"share{part}": kind for part, kind in ESTIMATE.items()},
        )

    @property
    def groups(self) -> pl.DataFrame:
        """Error of each group before and after, its rise with interval and adjusted p-value."""
        schema = {"group": pl.String, "n": pl.Int64, "before": pl.Float64, "after": pl.Float64}
        return frame(
            (
                {
                    "group": one.group,
                    "n": one.score.n,
                    "before": one.score.before.value,
                    "after": one.score.after.value,
                }
                | estimate_columns(one.score.change, "rise")
                | {"p_adjusted": one.p_adjusted}
                for one in self.effects
            ),
            schema
            | {f"rise{part}": kind for part, kind in ESTIMATE.items()}
            | {"p_adjusted": pl.Float64},
        )

    @property
    def affected(self) -> pl.DataFrame:
        """Groups whose error surely rises, after Holm's correction, the most affected first."""
        names = [one.group for one in affected(self.effects, higher_is_better=False)]
        order = pl.DataFrame({"group": names}, schema={"group": pl.String})
        return order.join(self.groups, on="group", how="left", maintain_order="left")

    def __str__(self) -> str:
        """The conclusion in a few sentences."""
        return "\n".join(self._sentences())

    def _repr_html_(self) -> str:
        tables = {"All examples": self.overall, "Changed answers": self.flips}
        return as_html(
            "Compressed against dense", tables | {"Error by group": self.groups}, self._sentences()
        )

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
                f"No group's error surely rises, after correction over {len(self.effects)} groups."
            )
        return [*lines, *self.notes]


def compare(
    y: npt.ArrayLike,
    dense: npt.ArrayLike,
    compressed: npt.ArrayLike,
    *,
    groups: Mapping[str, npt.ArrayLike] | None = None,
    clusters: npt.ArrayLike | None = None,
    reruns: bool = False,
    level: float = 0.95,
) -> Comparison:
    """Compare the predictions of two models, or of two populations, on the same examples.

    Args:
        y: True labels, text or numbers, shape (n,).
        dense: Predicted labels of the dense model, shape (n,); of several, shape (n, K).
        compressed: Predicted labels of the compressed model on the same rows.
        groups: Attribute name to its value for every example, shape (n,). Missing values form the
            group `(missing)`.
        clusters: Id of each row's cluster, shape (n,), such as one person's; None where every row
            is its own.
        reruns: Columns are reruns of one model, not models of other training runs. Then examples
            alone are random, and a floor says how much reruns differ.
        level: Coverage of the intervals, a fraction in (0, 1).

    Returns:
        Accuracy, flips and groups; its properties are polars frames.

    Raises:
        DataError: Arrays that do not fit together, missing labels, or more than 200 groups.

    >>> import scotoma
    >>> y = np.arange(600) % 2
    >>> sex = np.where(np.arange(600) < 200, "f", "m")
    >>> int8 = np.where((sex == "f") & (np.arange(600) % 5 == 0), 1 - y, y)
    >>> comparison = scotoma.compare(y, y, int8, groups={"sex": sex})
    >>> comparison.affected.select("group", "n", "rise").rows()
    [('sex=f', 200, 0.2)]
    """
    labels, d, c = _codes(y, dense, compressed)
    masks = _masks(groups or {}, len(labels))
    rows = cluster_ids(clusters, len(labels))
    floor = None
    if reruns:
        if d.shape[1] > 1:
            floor = rerun_floor(_outcomes(d, labels), _outcomes(c, labels), level=level)
        before, after = align_reruns(d.shape[1], c.shape[1])
        times = len(before)
        rows = np.repeat(np.arange(len(labels)) if rows is None else rows, times)
        d, c = d[:, before].reshape(-1, 1), c[:, after].reshape(-1, 1)
        labels = np.repeat(labels, times)
        masks = {name: np.repeat(mask, times) for name, mask in masks.items()}
    wrong = score_table(d != labels[:, None], c != labels[:, None], rows)
    right = score_table(d == labels[:, None], c == labels[:, None], rows)
    effects = group_effects(wrong, np.stack(list(masks.values())), list(masks), level=level) if (
        masks
    ) else []  # fmt: skip
    return Comparison(
        error=wrong.change(level=level),
        accuracy=right.change(level=level),
        flip_counts=flips(labels, d, c, clusters=rows),
        effects=tuple(effects),
        floor=floor,
        notes=_notes(min(d.shape[1], c.shape[1]), reruns=reruns),
    )


def _codes(
    y: npt.ArrayLike, dense: npt.ArrayLike, compressed: npt.ArrayLike
) -> tuple[Ints, Ints, Ints]:
    """Labels as numbers that all three share."""
    tables = {"y": np.asarray(y), "dense": np.asarray(dense), "compressed": np.asarray(compressed)}
    n = len(tables["y"]) if tables["y"].ndim == 1 else -1
    flat: dict[str, list[str]] = {}
    for name, table in tables.items():
        fits = table.ndim in ((1,) if name == "y" else (1, 2)) and len(table) == n and table.size
        if not fits:
            raise DataError(
                f"{name} must hold a label for each of the examples of y, got shape {table.shape} "
                f"beside {tables['y'].shape}; pass one row an example"
            )
        series = pl.Series(table.ravel().tolist(), strict=False)
        if series.null_count() or (series.dtype.is_float() and series.is_nan().any()):
            raise DataError(
                f"{name} must hold a label in every row, got missing ones; leave them out"
            )
        flat[name] = _text(series).to_list()
    every = np.unique(np.concatenate([np.array(values) for values in flat.values()]))
    codes = {name: np.searchsorted(every, values) for name, values in flat.items()}
    shapes = {name: (n, -1) if name != "y" else (n,) for name in tables}
    labels, d, c = (codes[name].reshape(shapes[name]).astype(np.int64) for name in tables)
    return labels, d, c


def _text(series: pl.Series) -> pl.Series:
    """Values as text: 1, 1.0 and True are one label, as comparisons of arrays have it."""
    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int64)
    if series.dtype.is_float() and (series == series.round()).all():
        series = series.cast(pl.Int64)
    return series.cast(pl.String)


def _masks(groups: Mapping[str, npt.ArrayLike], rows: int) -> dict[str, Flags]:
    masks: dict[str, Flags] = {}
    for name, values in groups.items():
        column = np.asarray(values)
        if column.shape != (rows,):
            raise DataError(
                f"groups[{name!r}] must give a value for each of the {rows:,} examples, got shape "
                f"{column.shape}"
            )
        text = _text(pl.Series(column.tolist(), strict=False).fill_nan(None) if (
            column.dtype.kind == "f"
        ) else pl.Series(column.tolist(), strict=False)).fill_null(MISSING).to_numpy()  # fmt: skip
        for value in sorted(set(text)):
            masks[group_key([(str(name), str(value))])] = np.asarray(text == value)
    if len(masks) > MOST_GROUPS:
        raise DataError(
            f"groups must form at most {MOST_GROUPS} groups, got {len(masks):,}; bin numbers first"
        )
    return masks


def _outcomes(predicted: Ints, labels: Ints) -> Ints:
    """0 where right, the label and 1 elsewhere: what counts as the same answer."""
    return np.where(predicted == labels[:, None], 0, predicted + 1)


def _notes(models: int, *, reruns: bool) -> tuple[str, ...]:
    if reruns or models == 1:
        return ("One model a side: another training run may differ.",)
    return ()
