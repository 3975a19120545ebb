"""Which group is each training example of, and can a technique work with them?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from scotoma.answers.group_keys import group_key
from scotoma.answers.natural import natural_order
from scotoma.config import Config, Mitigation
from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.mitigation.learning.samplers import cell_sizes
from scotoma.numbers.inputs import Ints
from scotoma.printable import printable


@dataclass(frozen=True)
class TrainingGroups:
    """The groups of the training examples.

    Attributes:
        values: Values of the attribute by code; empty for techniques that read no groups.
        codes: Group code of each training example, shape (N,); zeros where there are no groups.
        counts: Training examples of every (group, class), shape (G, C); of several labels those
            that have each, shape (G, L).
        positive: Class id of the positive class, of techniques for two classes.
    """

    values: tuple[str, ...]
    codes: Ints
    counts: Ints
    positive: int = 1


def training_groups(config: Config, examples: AuditedExamples) -> TrainingGroups:
    """Code the groups of the training examples, and refuse what a technique cannot work with.

    Args:
        config: With `mitigation`.
        examples: The training split.

    Raises:
        DataError: There is one group only, a class or label has no example in a group, or a
            technique for two classes or two groups is asked for more.
    """
    asked = config.mitigation
    assert asked is not None
    labels, classes = examples.shown_labels, len(examples.classes)
    if asked.attribute is None:
        counts = np.bincount(labels, minlength=classes)[None]
        return TrainingGroups((), np.zeros(len(labels), np.int64), counts)
    column = examples.pictured.table[asked.attribute]
    values = tuple(natural_order(column.unique().to_list()))
    numbers = list(range(len(values)))
    coded = column.replace_strict(list(values), numbers, return_dtype=pl.Int64)
    codes = coded.to_numpy(writable=True)
    if examples.several:
        counts = np.stack([labels[codes == code].sum(axis=0) for code in numbers])
    else:
        counts = cell_sizes(labels, codes, (len(values), classes))
    _refuse_unfit(asked, examples.several or examples.classes, values, counts)
    positive = config.label.positive
    named = examples.classes.index(str(positive)) if str(positive) in examples.classes else 1
    return TrainingGroups(values, codes, counts, named)


def _refuse_unfit(
    asked: Mitigation, classes: tuple[str, ...], values: tuple[str, ...], counts: Ints
) -> None:
    attribute, technique, facts = str(asked.attribute), asked.technique, asked.facts
    shown = printable(attribute)
    if len(values) < 2:
        raise DataError(
            f"mitigation.technique {technique} needs at least two groups in training, got only "
            f"{printable(group_key([(attribute, values[0])]))}; name another attribute"
        )
    if facts.two_groups and not facts.two_classes and len(values) != 2:
        raise DataError(
            f"mitigation.technique {technique} is for two groups, got {len(values)} values of "
            f"{shown}; merge values under groups.{shown}"
        )
    for code, value in enumerate(values):
        for label, name in enumerate(classes):
            if not counts[code, label] and facts.slot != "map adversary":
                raise DataError(
                    f"mitigation.technique {technique} needs training examples of every class in "
                    f"every group, got none of class {printable(name)!r} with "
                    f"{printable(group_key([(attribute, value)]))}; name another attribute, or "
                    f"merge values under groups.{shown}"
                )
    if facts.two_classes and (len(values), len(classes)) != (2, 2):
        raise DataError(
            f"mitigation.technique {technique} is for two classes and two groups, got "
            f"{len(classes)} classes and {len(values)} values of {shown}; choose another technique"
        )


def network_outputs(config: Config, examples: AuditedExamples) -> int:
    """Count the scores of a member for one image.

    Args:
        config: With or without `mitigation`.
        examples: With the training split.

    Returns:
        G * C where there is a score for every group and class, the number of labels where an image
        has several, else C.

    >>> from scotoma.config import default_config
    >>> from scotoma.sources.reading import survey_examples
    >>> network_outputs(default_config(), survey_examples(default_config()).examples)
    10
    """
    asked, classes = config.mitigation, len(examples.several) or len(examples.classes)
    if asked is None or not asked.heads:
        return classes
    trained = examples.table.filter(examples.table["split"] == "train")
    return classes * trained[str(asked.attribute)].n_unique()
