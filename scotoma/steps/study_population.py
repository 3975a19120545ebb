"""What is a study drawn from? Opens a finished audit: examples, votes, scores, changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.special import softmax

from scotoma.answers.group_keys import group_key
from scotoma.datasets import AuditedExamples
from scotoma.divergence import score
from scotoma.errors import ConfigError, DataError
from scotoma.predictions import Predictions, label_counts, read_heads, read_scores
from scotoma.printable import quoted
from scotoma.run import Run, checksums
from scotoma.steps.measures.pairs import read_predictions, read_test_examples

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StudyPopulation:
    """What a study is drawn from: one row a test example.

    Attributes:
        examples: The test examples.
        dense: Predictions of the dense members.
        compressed: Predictions of the compressed members.
        cie: Whether compression changes an example, by the members that define it.
        still: The same by the other half of the members; None unless halved.
        agreement: Largest share of all votes on one class, in (0, 1].
        groups: Group of each example; None unless arms are stratified by groups.
    """

    examples: AuditedExamples
    dense: Predictions
    compressed: Predictions
    cie: npt.NDArray[np.bool_]
    still: npt.NDArray[np.bool_] | None
    agreement: npt.NDArray[np.float64]
    groups: list[str] | None

    @property
    def strata(self) -> Ints:
        """Class of each example, or class and group, shape (N,)."""
        labels = self.examples.labels
        if self.groups is None:
            return labels
        _, codes = np.unique(self.groups, return_inverse=True)
        return np.asarray(labels * (codes.max() + 1) + codes, np.int64)

    def shares(self, rows: Ints) -> npt.NDArray[np.float64]:
        """Share of dense votes plus share of compressed votes, shape (rows, C)."""
        classes = len(self.examples.classes)
        parts = [one.predicted[rows] for one in (self.dense, self.compressed)]
        return np.asarray(
            sum(label_counts(part, classes) / part.shape[1] for part in parts), np.float64
        )


def population_of(run: Run, variant: str, *, define_on: str, group: str) -> StudyPopulation:
    """Read what a study is drawn from.

    Args:
        run: A finished audit.
        variant: Whose changes are studied.
        define_on: `all` members define what is changed, or `half` of them.
        group: Attribute by whose values arms are stratified; empty for none.

    Raises:
        ScotomaError: The run is not finished, or its examples cannot be studied.
    """
    audit, files = run.path("audit.json"), [run.predictions(v) for v in ("dense", variant)]
    run.fetch(audit, run.examples, *files)
    if not all(path.exists() for path in (audit, run.examples, *files)):
        raise DataError(f"{run.place} holds no finished audit; finish it first")
    checksums.refuse_changed(
        run.mirror,
        [path.relative_to(run.root).as_posix() for path in (audit, run.examples, *files)],
    )
    examples = read_test_examples(run)
    if not examples.labelled:
        raise DataError("the examples have no labels, which a study shows; audit labelled ones")
    folded: dict[str, str] = {}
    for name in examples.classes:
        if (other := folded.setdefault(name.casefold(), name)) != name:
            raise DataError(
                f"classes {quoted(other)} and {quoted(name)} differ only in case, so that people "
                "would confuse them; rename one"
            )
    if group and group not in examples.attributes:
        raise ConfigError(
            f"--group must be one of {', '.join(examples.attributes) or 'no attributes'}, got "
            f"{quoted(group)}; leave it out, or audit with groups"
        )
    dense, compressed = (read_predictions(run, name, examples) for name in ("dense", variant))
    classes = len(examples.classes)
    b, v = dense.predicted, compressed.predicted
    still = None
    if define_on == "half":
        if min(b.shape[1], v.shape[1]) < 2:
            raise DataError(
                f"--define-on half needs 2 members a variant, got {min(b.shape[1], v.shape[1])}; "
                "leave it out"
            )
        cie = score(b[:, ::2], v[:, ::2], classes).cie
        still = score(b[:, 1::2], v[:, 1::2], classes).cie
    else:
        cie = score(b, v, classes).cie
    agreement = np.empty(len(examples.ids))
    for start in range(0, len(agreement), 2**16):
        rows = np.arange(start, min(start + 2**16, len(agreement)))
        pooled = sum(label_counts(one[rows], classes) / one.shape[1] for one in (b, v))
        agreement[rows] = np.asarray(pooled).max(axis=1) / 2
    groups = [group_key([(group, value)]) for value in examples.table[group]] if group else None
    return StudyPopulation(examples, dense, compressed, cie, still, agreement, groups)


def mean_scores(
    run: Run, population: StudyPopulation, rows: Ints
) -> npt.NDArray[np.float64] | None:
    """Mean probability of each class by dense members plus that by compressed ones.

    Args:
        run: The audit.
        population: From `population_of`.
        rows: Examples.

    Returns:
        Sums of two means, shape (rows, C); None unless every member kept every score.
    """
    members = (population.dense, population.compressed)
    files = [[run.scores(one.variant, member) for member in one.members] for one in members]
    flat = [path for paths in files for path in paths]
    if not run.mirror.exists(flat[0]):
        return None
    run.fetch(*flat, *(path.with_suffix(".json") for path in flat))
    names = pl.DataFrame({"example_id": [population.examples.ids[row] for row in rows]})
    total = np.zeros((len(rows), len(population.examples.classes)))
    for paths in files:
        for path in paths:
            if not path.exists():
                return None
            if read_heads(path).shape != (1, total.shape[1]):
                return None  # heads of groups: no one score of a class
            ids, logits = read_scores(path)
            table = pl.DataFrame({"example_id": ids, "row": np.arange(len(ids))})
            found = names.join(table, on="example_id", how="left", maintain_order="left")["row"]
            if found.null_count():
                return None
            total += softmax(logits[found.to_numpy()].astype(float), axis=1) / len(paths)
    return total
