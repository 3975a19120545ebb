"""What do finished audits say of techniques, one audit a technique?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.audit import Audit
from scotoma.bias.fairness import examples_in_groups, fairness_of_cells, pairs_as_classes
from scotoma.bias.formulas import ClassConfusion, weigh
from scotoma.config.techniques import TechniqueFacts
from scotoma.datasets import AuditedExamples
from scotoma.divergence import over_index
from scotoma.errors import ConfigError, DataError
from scotoma.numbers.inputs import Codes, Flags, Floats, Ints, cluster_ids
from scotoma.predictions.finished import FinishedAudit
from scotoma.printable import listed, quoted
from scotoma.run.finished import open_run
from scotoma.runs.effects import bare
from scotoma.runs.finding import RunFinding
from scotoma.runs.table import ACCURACY, RunSets, VariantSets

DRAWS = 400  # a standard deviation of these is known to 3.5%
CHUNK = 4_000_000  # counts held at once, 32 MB


def resampled_bias(
    labels: npt.ArrayLike,
    populations: Sequence[npt.ArrayLike],
    groups: npt.ArrayLike,
    metrics: Sequence[str],
    *,
    n_classes: int,
    class_id: int | None = None,
    clusters: npt.ArrayLike | None = None,
    of_label: npt.ArrayLike | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Floats:
    """Draw test examples, or whole clusters, Poisson(1) times each, and measure bias again.

    Every population meets the same draws, so that differences between populations are paired.

    Args:
        labels: True class ids, shape (N,).
        populations: Predicted class ids of the members of each, shape (N, K).
        groups: Who belongs to which group, bool, shape (G, N), G at least 2; no row in two groups.
        metrics: Of the seven.
        n_classes: Number of classes.
        class_id: The class against the rest; None for the mean over all classes.
        clusters: Id of each row's cluster, shape (N,); None where every row is its own.
        of_label: Which of several labels each row is about, as `member_fairness` has it; None for
            one label.
        draws: How many.
        seed: Of the draws.

    Returns:
        Mean over the members, shape (draws, populations, metrics); nan where a draw leaves a
        metric undefined.

    Raises:
        DataError: Groups that overlap, or shapes that do not fit together.

    >>> predicted = [[0], [1], [1], [0]] * 50
    >>> groups = np.array([[True, False], [False, True]]).repeat(100, axis=1)
    >>> once = resampled_bias([0, 1] * 100, [predicted], groups, ["DP"], n_classes=2, draws=3)
    >>> once.shape
    (3, 1, 1)
    """
    answer = np.empty((draws, len(populations), len(metrics)))
    ids = cluster_ids(clusters, np.asarray(labels).size)
    weights: Floats | None = None
    for place, predicted in enumerate(populations):
        y, p, group, rows = examples_in_groups(labels, predicted, groups, n_classes)
        shape, each = (len(np.asarray(groups)), n_classes), 1
        if of_label is not None:
            y, p, each = pairs_as_classes(y, p, np.asarray(of_label)[rows])
            shape = (shape[0], each + 1)
        if weights is None:
            weights = _weights(ids, rows, np.asarray(labels).size, draws, seed)
        members = p.shape[1]
        step = max(1, CHUNK // (members * shape[0] * shape[1]))
        for start in range(0, draws, step):
            part = weights[start : start + step]
            cells = _confusion(y, p, group, shape, part, each)
            if of_label is not None:
                cells = ClassConfusion(cells.cells[..., :each])
            for m, metric in enumerate(metrics):
                found = fairness_of_cells(metric, cells)
                values = found.overall if class_id is None else found.per_class[:, class_id]
                by_draw = values.reshape(len(part), members).mean(axis=1)
                answer[start : start + step, place, m] = by_draw
    return answer


def _weights(ids: Codes | None, rows: Codes, n: int, draws: int, seed: int) -> Floats:
    """How often each draw takes each row, shape (draws, rows)."""
    rng = np.random.Generator(np.random.Philox(key=seed))
    own = np.arange(n) if ids is None else ids
    return rng.poisson(1.0, (draws, int(own.max(initial=-1)) + 1))[:, own[rows]].astype(np.float64)


def _confusion(
    y: Codes, p: Codes, group: Codes, shape: tuple[int, int], weights: Floats,
    rows_an_example: int,
) -> ClassConfusion:  # fmt: skip
    """Weighted counts of each class against the rest, (G, draws x M, C)."""
    own = group * shape[1]
    # Of every prediction of a class whether it is right: the last of two cells.
    codes = 2 * (own[:, None] + p) + (p == y[:, None])
    counts = weigh(codes, weights, (*shape, 2))
    positive, tp = counts.sum(axis=-1), counts[..., 1]
    actual = weigh((own + y)[:, None], weights, (*shape, 1))[..., 0].repeat(p.shape[1], axis=1)
    n = actual.sum(axis=2, keepdims=True) / rows_an_example
    return ClassConfusion.of(positive, tp, actual, n)


Cells: TypeAlias = Mapping[str, tuple[Flags, Ints]]  # of each group who is in it, and class counts


@dataclass(frozen=True, eq=False)
class FinishedTechniques:
    """Techniques whose models were audited, one run a technique.

    Attributes:
        audits: What each technique's audit has left.
        variants: The variants that all have, dense first.
        metrics: Names of the metrics.
        attribute: Whose groups are compared.
        sets: Bias and accuracy, one value a seed.
    """

    audits: Mapping[str, FinishedAudit]
    variants: tuple[str, ...]
    metrics: tuple[str, ...]
    attribute: str
    sets: VariantSets

    def runs(self, variant: str | None) -> RunSets:
        """Take the runs of every technique under a variant, None for dense.

        Raises:
            ConfigError: Not every technique has the variant.
        """
        if variant is not None and variant not in self.variants:
            raise ConfigError(
                f"--predicted must be one that all runs have, got {quoted(variant)}: choose among "
                f"{listed(self.variants)}"
            )
        chosen = variant or self.variants[0]
        return {(t, m): own for (t, v, m), own in self.sets.items() if v == chosen}

    def trained(self, holds: Callable[[TechniqueFacts], bool]) -> list[str]:
        """Name the audits that trained with a technique of which something holds."""
        asked = {name: one.run.config.mitigation for name, one in self.audits.items()}
        return [name for name, one in asked.items() if one is not None and holds(one.facts)]

    @property
    def unpaired(self) -> list[str]:
        """Name the compressed variants whose members do not derive from dense ones."""
        compressed = next(iter(self.audits.values())).audit.compressed
        return [one.name for one in compressed if one.name in self.variants and not one.paired]


def read_finished(places: Sequence[str], attribute: str | None) -> FinishedTechniques:
    """Read the members of finished audits, one audit a technique.

    Args:
        places: `FOLDER` or `TECHNIQUE=FOLDER`; without a name, the folder's own.
        attribute: The attribute whose groups are compared; None where the audits have one.

    Raises:
        ConfigError: A place without an audit, a name that stands twice, an attribute to choose.
        DataError: Audits of other seeds, or without a metric.
    """
    every: dict[str, FinishedAudit] = {}
    for place in places:
        name, _, folder = place.rpartition("=")
        name = name or Path(folder.rstrip("/")).name
        if name in every:
            raise ConfigError(
                f"technique {quoted(name)} stands twice: name runs as TECHNIQUE=FOLDER"
            )
        every[name] = FinishedAudit(open_run(folder))
    audits = {name: one.audit for name, one in every.items()}
    chosen = _attribute(audits, attribute)
    first = next(iter(audits.values()))
    variants = [
        one.name
        for one in first.variants
        if all(audit.numbers("fairness", one.name) for audit in audits.values())
    ]
    metrics = list(_by_metric(first, variants[0], chosen))
    _check_paired(audits, variants)
    sets: dict[tuple[str, str, str], Floats] = {}
    for (name, audit), variant in product(audits.items(), variants):
        for metric, values in _by_metric(audit, variant, chosen).items():
            sets[name, variant, metric] = _numbers(values)
        sets[name, variant, ACCURACY] = np.array(audit.accuracies(variant))
    return FinishedTechniques(every, tuple(variants), tuple(metrics), chosen, sets)


def _by_metric(audit: Audit, variant: str, attribute: str) -> dict[str, tuple[float | None, ...]]:
    """What every model has of each metric of an attribute."""
    return {
        str(row.metric): row.models
        for row in audit.numbers("fairness", variant)
        if row.models and row.fact("attribute") == attribute
    }


def _numbers(values: Iterable[float | None]) -> Floats:
    """One value a member; nan where it is undefined."""
    return np.array([np.nan if one is None else one for one in values], np.float64)


def _check_paired(audits: Mapping[str, Audit], variants: Iterable[str]) -> None:
    """Refuse audits whose members are not of the same seeds."""
    if unlabelled := [name for name, audit in audits.items() if not audit.labelled]:
        raise DataError(
            f"run {quoted(unlabelled[0])} has no labels, so no accuracy: audit it with labels"
        )
    if len({audit.seed for audit in audits.values()}) > 1:
        seeds = ", ".join(f"{audit.seed} of {quoted(name)}" for name, audit in audits.items())
        raise DataError(f"runs must share their seed to be paired, got {seeds}: audit them again")
    sizes = {
        (name, variant): len(audit.accuracies(variant))
        for name, audit in audits.items()
        for variant in variants
    }
    if len(set(sizes.values())) > 1:
        least = min(sizes, key=lambda key: sizes[key])
        raise DataError(
            f"runs must have as many members to be paired, got {sizes[least]} of "
            f"{quoted(least[0])} under {quoted(least[1])} and {max(sizes.values())} elsewhere: "
            "train as many of each"
        )


def _attribute(audits: Mapping[str, Audit], attribute: str | None) -> str:
    """The attribute that all audits measured."""
    by_audit = [
        dict.fromkeys(row.fact("attribute") for row in audit.numbers("fairness"))
        for audit in audits.values()
    ]
    shared = [one for one in by_audit[0] if all(one in others for others in by_audit)]
    if not shared:
        raise DataError(
            "no attribute was measured in all runs: audit each technique with the same groups"
        )
    if attribute is None and len(shared) > 1:
        raise ConfigError(f"--group must name one of {listed(shared)}: choose one")
    if attribute is not None and attribute not in shared:
        raise ConfigError(
            f"--group must be measured in all runs, got {quoted(attribute)}: choose among "
            f"{listed(shared)}"
        )
    return attribute or shared[0]


def bias_on_other_test_sets(
    audits: Mapping[str, FinishedAudit],
    variants: Sequence[str],
    attribute: str,
    metrics: Sequence[str],
) -> VariantSets:
    """Measure the mean bias of every technique and variant on test sets drawn anew.

    Args:
        audits: By technique.
        variants: Those that all have.
        attribute: Whose groups are compared.
        metrics: Of the seven.

    Returns:
        One value a draw of test examples.

    Raises:
        DataError: The audits have other test examples.
    """
    first = next(iter(audits.values()))
    test = first.test
    populations = [
        finished.predictions(variant).predicted[_order(name, finished.test, test)]
        for name, finished in audits.items()
        for variant in variants
    ]
    partition = test.partition()
    positive = first.run.config.label.positive
    drawn = resampled_bias(
        test.labels,
        populations,
        partition.masks[[of == (attribute,) for of in partition.attributes]],
        metrics,
        n_classes=len(test.classes),
        class_id=None if positive is None or test.several else test.classes.index(str(positive)),
        clusters=test.clusters,
        of_label=test.of_label,
        seed=first.run.config.population.seed,
    )
    keys = product(audits, variants, metrics)
    return dict(zip(keys, drawn.reshape(len(drawn), -1).T, strict=True))


def cies_of_minority_cells(
    audits: Mapping[str, FinishedAudit], variants: Sequence[str], attribute: str, base: str
) -> list[RunFinding]:
    """Say how many CIEs of each technique lie in the cells that training showed rarely.

    Args:
        audits: By technique.
        variants: Those that all have, dense first.
        attribute: Whose groups, by classes, are the cells.
        base: The audit whose training examples say what is rare.

    Returns:
        Of each technique under each compressed variant the number of `CIEs`, those `in minority
        cells`, the `share of CIEs` and the `share of test set` there, and their ratio as a
        `change`, a fraction. None where the audit has no training examples or no cell is rarer than
        another.
    """
    training, test = audits[base].training, audits[base].test
    if not training.ids or not training.labelled:
        return []
    minority = minority_examples(
        _of_attribute(training, attribute), _of_attribute(test, attribute), _class_ids(test)
    )
    if not minority.any():
        return []
    members = len(audits[base].audit.accuracies(variants[0]))
    rows = []
    for name, finished in audits.items():
        for variant in variants[1:]:
            cies = _flags(finished, variant, test)
            [share] = over_index(
                cies, {"minority": minority}, members=members, clusters=test.clusters
            )
            counts = {
                "CIEs": cies.sum(), "in minority cells": share.n_flagged,
                "share of CIEs": share.share_in_flagged, "share of test set": share.share_in_data,
            }  # fmt: skip
            numbers = {what: bare(float(value), share.n) for what, value in counts.items()}
            numbers["change"] = share.change
            rows.append(RunFinding(name, "CIEs in minority cells", numbers, variant=variant))
    return rows


def minority_examples(training: Cells, test: Cells, labels: Codes) -> Flags:
    """Mark test examples of a class and group that training has less often than another group.

    Args:
        training: Group to which examples are in it and how many of each class.
        test: The same of the test examples; groups of training alone do not count.
        labels: Class ids of the test examples, shape (N,).

    Returns:
        Shape (N,).

    >>> one, two = np.array([True, False]), np.array([3, 1])
    >>> minority_examples({"a": (one, two)}, {"a": (one, two), "b": (~one, two)}, np.array([0, 0]))
    array([False,  True])
    """
    none = np.zeros_like(next(iter(test.values()))[1])
    counts = np.stack([training[key][1] if key in training else none for key in test])
    rare = counts < counts.max(axis=0)
    masks = np.stack([mask for mask, _ in test.values()])
    return np.asarray((masks & rare[:, labels]).any(axis=0))


def _of_attribute(examples: AuditedExamples, attribute: str) -> Cells:
    """Of each group of an attribute which examples are in it, and how many of each class."""
    groups, labels = examples.partition(), _class_ids(examples)
    classes = len(examples.several) or len(examples.classes)
    known = np.arange(classes + 1) < classes  # what has no label is in no rare cell
    return {
        key: (mask, known * np.bincount(labels[mask], minlength=classes + 1))
        for key, mask, of in zip(groups.keys, groups.masks, groups.attributes, strict=True)
        if of == (attribute,)
    }


def _class_ids(examples: AuditedExamples) -> Codes:
    """Class id of each row; of several labels the label that is there, else one more."""
    if examples.of_label is None:
        return examples.labels
    return pairs_as_classes(examples.labels, examples.labels[:, None], examples.of_label)[0]


def _flags(finished: FinishedAudit, variant: str, test: AuditedExamples) -> Flags:
    """Which test examples are CIEs, in the order of `test`."""
    flagged = finished.scores.filter((pl.col("variant") == variant) & pl.col("cie"))
    return test.table["example_id"].is_in(flagged["example_id"].to_list()).to_numpy()


def _order(name: str, own: AuditedExamples, test: AuditedExamples) -> Codes:
    """Rows of an audit's test examples in the order of another's."""
    places = {example: row for row, example in enumerate(own.ids)}
    missing = [example for example in test.ids if example not in places]
    if missing or len(own.ids) != len(test.ids):
        raise DataError(
            f"runs must be audited on the same test examples, got {len(own.ids):,} of "
            f"{quoted(name)} and {len(test.ids):,} of the first: audit them again"
        )
    return np.array([places[example] for example in test.ids], np.intp)
