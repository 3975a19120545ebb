"""What do the test examples of finished audits say, beside the values of their members?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from scotoma.datasets import AuditedExamples
from scotoma.divergence import over_index
from scotoma.errors import DataError
from scotoma.numbers.inputs import Codes, Flags, Ints
from scotoma.printable import quoted
from scotoma.runs import RunFinding, VariantSets, resampled_bias
from scotoma.runs.effects import bare

if TYPE_CHECKING:
    from scotoma.papers.finished import FinishedAudit

__all__ = ["bias_on_other_test_sets", "cies_of_minority_cells", "minority_examples"]

Cells: TypeAlias = Mapping[str, tuple[Flags, Ints]]  # of each group who is in it, and class counts


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
        class_id=None if positive is None else test.classes.index(str(positive)),
        clusters=test.clusters,
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
        `change`, per cent. None where the audit has no training examples or no cell is rarer than
        another.
    """
    training, test = audits[base].training, audits[base].test
    if not training.ids or not training.labelled:
        return []
    minority = minority_examples(
        _of_attribute(training, attribute), _of_attribute(test, attribute), test.labels
    )
    if not minority.any():
        return []
    members = len(audits[base].audit.accuracy[variants[0]].members)
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
    groups = examples.partition()
    return {
        key: (mask, np.bincount(examples.labels[mask], minlength=len(examples.classes)))
        for key, mask, of in zip(groups.keys, groups.masks, groups.attributes, strict=True)
        if of == (attribute,)
    }


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
