"""What is measured: metrics, and an outcome checked and brought into the form they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scotoma.errors import DataError
from scotoma.numbers import Words
from scotoma.numbers.inputs import Codes, Flags, Floats
from scotoma.slices.judging.tally import Rows

MetricKind = Literal["rate", "mean", "ratio", "auc"]
Risk = Literal["all", "negatives", "positives"]
MetricName = Literal[
    "error", "accuracy", "flip", "loss", "taxicab", "mean", "fpr", "fnr", "recall", "precision",
    "f1", "auc",
]  # fmt: skip


@dataclass(frozen=True)
class SliceMetric:
    """A metric by which slices are compared.

    Attributes:
        name: What the option calls it.
        kind: A rate of 0/1 outcomes, a mean of any scores, a ratio of counts, or AUC.
        worse: Which side is worse.
        risk: The examples that count.
        labels: Whether true labels are needed, may be given, or mean nothing.
    """

    name: str
    kind: MetricKind
    worse: Literal["higher", "lower"]
    risk: Risk = "all"
    labels: Literal["needed", "optional", "none"] = "none"

    @property
    def words(self) -> Words:
        """What a rate of it is of, in words."""
        return Words("event", "examples" if self.risk == "all" else self.risk, "the slice")


SMALLEST, LARGEST = 1e-70, 1e70  # of outcomes: beyond, fourth powers leave double precision

SLICE_METRICS = {
    metric.name: metric
    for metric in (
        SliceMetric("error", "rate", "higher", labels="optional"),
        SliceMetric("accuracy", "rate", "lower", labels="optional"),
        SliceMetric("flip", "rate", "higher"),
        SliceMetric("loss", "mean", "higher"),
        SliceMetric("taxicab", "mean", "higher"),
        SliceMetric("mean", "mean", "higher"),
        SliceMetric("fpr", "rate", "higher", "negatives", "needed"),
        SliceMetric("fnr", "rate", "higher", "positives", "needed"),
        SliceMetric("recall", "rate", "lower", "positives", "needed"),
        SliceMetric("precision", "ratio", "lower", labels="needed"),
        SliceMetric("f1", "ratio", "lower", labels="needed"),
        SliceMetric("auc", "auc", "lower", labels="needed"),
    )
}


@dataclass(frozen=True)
class Scored:
    """One population's part in a metric.

    Attributes:
        above: Outcomes, scores, places of scores (AUC) or numerators of a ratio, shape (n, K).
        below: Denominators of a ratio, shape (n, K); None for others.
    """

    above: npt.NDArray[Any]
    below: Floats | None = None

    @property
    def members(self) -> int:
        """Number of members."""
        return int(self.above.shape[1])

    def take(self, rows: Rows | Flags) -> Scored:
        """Keep some of the rows."""
        return Scored(self.above[rows], None if self.below is None else self.below[rows])


@dataclass(frozen=True, eq=False)
class Outcome:
    """A metric and what it is computed from, on the examples that count.

    Attributes:
        metric: The metric.
        model: The model or population at hand.
        baseline: What it is compared with on the same examples; None for nothing.
        labels: True labels of the examples that count, for AUC; None otherwise.
        rows: The examples that count, ascending, shape (n,).
        paired: Member m of both derives from the same training run.
        binary: All outcomes are 0 or 1.
        clusters: Code of each row's cluster; None where every row is its own.
        weights: How often each row counts, once and in each bootstrap draw, shape (n, B + 1), equal
            for rows of one cluster; None without draws.
    """

    metric: SliceMetric
    model: Scored
    baseline: Scored | None
    labels: Flags | None
    rows: Rows
    paired: bool = False
    binary: bool = False
    clusters: Codes | None = None
    weights: npt.NDArray[np.uint8] | None = None

    @property
    def populations(self) -> list[Scored]:
        """The population at hand, then the baseline where there is one."""
        return [self.model] if self.baseline is None else [self.model, self.baseline]

    def take(self, rows: Rows | Flags) -> Outcome:
        """Keep some of the examples that count."""
        return replace(
            self.having([own.take(rows) for own in self.populations]),
            rows=self.rows[rows],
            labels=None if self.labels is None else self.labels[rows],
            clusters=None if self.clusters is None else self.clusters[rows],
            weights=None if self.weights is None else self.weights[rows],
        )

    def having(self, populations: Sequence[Scored]) -> Outcome:
        """Return the same with other scores of its populations."""
        model, *baseline = populations
        return replace(self, model=model, baseline=baseline[0] if baseline else None)

    def shuffled(self, rng: np.random.Generator) -> Outcome:
        """Exchange model and baseline so that no slice means anything, alike in a cluster."""
        model, baseline = (own.members for own in self.populations)
        if model == baseline:
            return self.exchanged(coins(self.rows.size, self.clusters, rng))
        return self.dealt(rng.permutation(model + baseline))

    def exchanged(self, swap: Flags) -> Outcome:
        """Exchange the two populations on some rows."""
        own, other = (one.above for one in self.populations)
        first, second = (np.where(swap[:, None], a, b) for a, b in ((other, own), (own, other)))
        return self.having([Scored(first), Scored(second)])

    def dealt(self, order: npt.NDArray[np.integer[Any]]) -> Outcome:
        """Deal all members out to the two populations, in some order."""
        members = np.concatenate([one.above for one in self.populations], axis=1)[:, order]
        parts = np.split(members, [self.model.members], axis=1)
        return self.having([Scored(own) for own in parts])


def shuffle(rows: int, clusters: Codes | None, rng: np.random.Generator) -> Rows:
    """Draw the row whose outcome each row gets; outcomes of a cluster stay together.

    The outcomes of a cluster go to another cluster as a whole, in random order within; where
    clusters differ in size, the next ones share what remains.

    >>> moved = shuffle(4, np.array([0, 1, 0, 1]), np.random.default_rng(0))
    >>> len({m % 2 for m in moved[[0, 2]].tolist()})
    1
    """
    if clusters is None:
        return rng.permutation(rows)
    new = np.empty(rows, np.intp)
    lots = [rng.permutation(int(clusters.max(initial=0)) + 1)[clusters] for _ in range(2)]
    there, here = (np.lexsort((rng.random(rows), lot)) for lot in lots)
    new[there] = here
    return new


def coins(rows: int, clusters: Codes | None, rng: np.random.Generator) -> Flags:
    """Toss a coin for each row, the same for rows of one cluster, shape (N,)."""
    many = rows if clusters is None else int(clusters.max(initial=0)) + 1
    tossed = rng.integers(0, 2, many).astype(np.bool_)
    return tossed if clusters is None else np.asarray(tossed[clusters])


def prepare_outcome(
    metric: SliceMetric,
    outcome: npt.ArrayLike,
    baseline: npt.ArrayLike | None,
    labels: npt.ArrayLike | None,
    total: int,
    *,
    paired: bool = False,
) -> Outcome:
    """Check an outcome and bring it into the form that its metric needs.

    >>> prepare_outcome(SLICE_METRICS["fpr"], [1, 0, 1], None, [0, 0, 1], 3).rows.tolist()
    [0, 1]
    """
    truth = _labels(metric, labels, total)
    rows = np.arange(total)
    if metric.risk != "all" and truth is not None:
        rows = np.flatnonzero(truth == (metric.risk == "positives"))
    model = _scored(metric, _table(outcome, "outcome", total), "outcome", truth, labels)
    other = None
    if baseline is not None:
        other = _scored(metric, _table(baseline, "baseline", total), "baseline", truth, labels)
    if paired and (other is None or other.members != model.members):
        raise DataError(
            f"paired populations need as many members, got {model.members} and "
            f"{other.members if other else 0}: drop those without a partner, or leave paired out"
        )
    if metric.name == "precision" and model.below is not None and model.members == 1 and not other:
        # Of one model it is a rate of the examples predicted positive, which has an exact test.
        metric, rows = replace(metric, kind="rate"), np.flatnonzero(model.below)
        model = Scored(model.above)
    binary = all(np.isin(one.above, (0, 1)).all() for one in (model, other) if one is not None)
    whole = Outcome(metric, model, other, truth, np.arange(total), paired, binary)
    return whole.take(rows) if rows.size < total else whole


def none_at_risk(metric: SliceMetric, total: int) -> DataError:
    """Say that none of the examples of a table counts for a metric."""
    if metric.risk == "all":
        return DataError("features must have at least one row, got 0: pass the scored examples")
    return DataError(
        f"metric {metric.name!r} is about {metric.risk}, got none among {total:,} labels: "
        "pass labels in which both classes occur"
    )


def _table(values: npt.ArrayLike, name: str, total: int) -> npt.NDArray[np.generic]:
    table = np.asarray(values)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or len(table) != total or table.shape[1] == 0:
        raise DataError(
            f"{name} must give one value a row of features, or one a row and member, got shape "
            f"{np.shape(values)} for {total:,} rows: pass the outcome of the same examples"
        )
    return table


def _labels(metric: SliceMetric, labels: npt.ArrayLike | None, total: int) -> Flags | None:
    if metric.labels == "none" and labels is not None:
        raise DataError(
            f"metric {metric.name!r} is computed from the outcome alone, got labels too: leave "
            "them out, or ask for metric='error'"
        )
    if metric.labels == "needed" and labels is None:
        raise DataError(f"metric {metric.name!r} needs true labels, got none: pass labels=")
    if labels is None:
        return None
    truth = np.asarray(labels)
    if truth.shape != (total,):
        raise DataError(
            f"labels must give one label a row of features, got shape {truth.shape} for {total:,} "
            "rows: pass the labels of the same examples"
        )
    if metric.labels == "optional":
        return None
    return _zero_one(truth, "labels").astype(np.bool_)


def _zero_one(values: npt.NDArray[np.generic], name: str) -> npt.NDArray[np.generic]:
    bad = ~np.isin(values, (0, 1))
    if bad.any():
        raise DataError(
            f"{name} must be 0 or 1, got {values[bad][0]!s}: code the positive class as 1, all "
            "others as 0"
        )
    return values


def _scored(
    metric: SliceMetric,
    values: npt.NDArray[np.generic],
    name: str,
    truth: Flags | None,
    labels: npt.ArrayLike | None,
) -> Scored:
    if metric.labels == "optional" and labels is not None:
        equal = values == np.asarray(labels)[:, None]
        return Scored((equal == (metric.name == "accuracy")).astype(np.float64))
    numbers = _numbers(values, name)
    if metric.kind in ("mean", "auc"):
        return Scored(numbers)
    if truth is None:
        return Scored(_fractions(numbers, name, metric))
    predicted, positive = _zero_one(numbers, name).astype(np.float64), truth[:, None]
    if metric.kind == "rate":
        return Scored(1.0 - predicted if metric.name == "fnr" else predicted)
    if metric.name == "precision":
        return Scored(predicted * positive, predicted)
    return Scored(2.0 * predicted * positive, predicted + positive)


def _numbers(values: npt.NDArray[np.generic], name: str) -> Floats:
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"{name} must be numbers, got {str(values.flat[0])!r}: pass labels= to compare "
            "predicted classes with, or numbers"
        )
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers).all(1))[0])
        raise DataError(
            f"{name} must be finite, got {numbers[row][~np.isfinite(numbers[row])][0]} in row "
            f"{row}: leave out the examples that have no outcome"
        )
    largest = float(np.abs(numbers).max(initial=0.0))
    if not (largest == 0 or SMALLEST <= largest <= LARGEST):  # their fourth powers are summed
        raise DataError(
            f"{name} must be numbers whose largest lies between {SMALLEST:g} and {LARGEST:g}, got "
            f"{largest:g}: choose another unit"
        )
    return numbers


def _fractions(numbers: Floats, name: str, metric: SliceMetric) -> Floats:
    outside = ((numbers < 0) | (numbers > 1)).any(1)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        value = numbers[row][(numbers[row] < 0) | (numbers[row] > 1)][0]
        way_out = "metric='mean' for any other score"
        if metric.labels == "optional":
            way_out = f"pass labels= to compare predicted classes with, or {way_out}"
        raise DataError(
            f"{name} must lie in [0, 1] for the rate {metric.name!r}, got {value:g} in row {row}: "
            f"{way_out}"
        )
    return numbers
