"""Who answered what on which examples? The one thing that every question is asked of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.admission import (
    MOST_CLASSES,
    NO_ANSWER,
    check_language,
    translate,
)
from scotoma.answers.groups import GroupColumn, Groups
from scotoma.answers.note import AdmissionNote
from scotoma.answers.values import (
    MISSING_TEXTS,
    NEVER_A_CLASS,
    ReadValues,
    is_missing_text,
    read_values,
)
from scotoma.errors import DataError
from scotoma.natural import natural_order
from scotoma.printable import listed, quoted

__all__ = [
    "NO_ANSWER",
    "UNANSWERED",
    "Answers",
    "Examples",
    "Pair",
    "SpokenAnswers",
    "cluster_names",
    "label_notes",
    "one_language",
    "read_clusters",
    "read_ids",
    "read_labels",
    "reading_note",
]

Codes: TypeAlias = npt.NDArray[np.intp]
Flags: TypeAlias = npt.NDArray[np.bool_]
Columns: TypeAlias = Mapping[str, pl.Series]

UNANSWERED = -1  # the class id of an example that a model did not answer
OFTEN = 2  # rows of the label column that make a class of a word that may mean a missing value


@dataclass(frozen=True, eq=False, kw_only=True)
class Examples:
    """The rows that both sides answered.

    Attributes:
        ids: What the examples are called, text, shape (N,); None where they are numbered.
        labels: Class ids, shape (N, L); None where the examples have no labels.
        classes: Class names by id: labels, and what models say beside them, in natural order.
        groups: Who belongs to which group.
        cluster: Which examples belong together, ids without gaps, shape (N,); None for none.
        features: Columns that describe examples beside groups, shape (N, F).
        split: `train` or `test`, shape (N,); None where all are tested.
    """

    labels: Codes | None
    classes: tuple[str, ...]
    groups: Groups
    ids: pl.Series | None = None
    cluster: Codes | None = None
    features: pl.DataFrame | None = None
    split: pl.Series | None = None

    @property
    def size(self) -> int:
        """N."""
        return self.groups.size


@dataclass(frozen=True, eq=False)
class Answers:
    """What the models of one variant said.

    Attributes:
        variant: Its name.
        models: What its models are called, K.
        answers: Class ids, `UNANSWERED` where a model gave none, shape (N, K).
        columns: The column that each model's answers came from.
    """

    variant: str
    models: tuple[str, ...]
    answers: Codes
    columns: tuple[str, ...] = ()

    @property
    def unanswered(self) -> Flags:
        """Where a model gave no answer, shape (N, K)."""
        return np.asarray(self.answers == UNANSWERED)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pair:
    """Dense and compressed answers on the same examples, admitted.

    Attributes:
        examples: The examples that have a label.
        compressed: What compressed models said.
        dense: What dense models said; None where there are none.
        paired: Whether each compressed model derives from the dense model at the same place.
        notes: What was folded, dropped or guessed.
    """

    examples: Examples
    compressed: Answers
    dense: Answers | None = None
    paired: bool = False
    notes: tuple[AdmissionNote, ...] = ()

    @classmethod
    def of(
        cls,
        labels: pl.Series | None,
        compressed: Columns,
        dense: Columns | None = None,
        *,
        groups: Columns | None = None,
        rules: Mapping[str, GroupColumn] | None = None,
        crossed: Sequence[Sequence[str]] = (),
        cluster: pl.Series | None = None,
        ids: pl.Series | None = None,
        features: pl.DataFrame | None = None,
        paired: bool = False,
        classes: Sequence[str] = (),
        missing: Sequence[str] = MISSING_TEXTS,
    ) -> Pair:
        """Admit labels and answers as columns hold them.

        Args:
            labels: True classes, of any plain type, shape (N,); None where there are none. Examples
                without one are left out.
            compressed: Name of each compressed model to its answers, shape (N,).
            dense: The same of dense models.
            groups: Attribute to its column.
            rules: See `Groups.of`.
            crossed: See `Groups.of`.
            cluster: Which examples belong together; one that says nothing stands alone.
            ids: What examples are called; unique.
            features: Columns that describe examples.
            paired: Each compressed model derives from the dense model at the same place.
            classes: Classes that models know beside the labels.
            missing: See `read_values`.

        Raises:
            DataError: Answers that are no labels, ids that repeat, or no example with a label.

        >>> pair = Pair.of(pl.Series("y", [0, 1, None]), {"int8": pl.Series(["1.0", "", "0.0"])})
        >>> pair.examples.classes, pair.examples.labels.tolist(), pair.compressed.answers.tolist()
        (('0', '1'), [[0], [1]], [[1], [-1]])
        """
        sides = {**(dense or {}), **compressed}
        rows = len(next(iter(sides.values())))
        truth = None if labels is None else read_labels(labels, missing)
        known = pl.repeat(True, rows, eager=True) if truth is None else truth.values.is_not_null()
        size = int(known.sum())
        if labels is not None and not size:
            raise DataError(
                f"label {quoted(labels.name)} is missing in all {rows:,} rows: name another column"
            )
        spoken = one_language(
            None if truth is None else truth.values.filter(known),
            {name: column.filter(known).alias(name) for name, column in sides.items()},
            classes=classes, missing=missing,
        )  # fmt: skip
        every = natural_order(
            {*classes}.union(
                *(column.drop_nulls().unique() for column in spoken.answers.values()),
                () if spoken.labels is None else spoken.labels.unique(),
            )
        )
        formed = Groups.of(
            {name: column.filter(known) for name, column in (groups or {}).items()},
            rules, size=size, crossed=crossed, missing=missing,
        )  # fmt: skip
        examples = Examples(
            labels=None if spoken.labels is None else _codes(spoken.labels, every)[:, None],
            classes=tuple(every),
            groups=formed,
            ids=None if ids is None else read_ids(ids).filter(known),
            cluster=None if cluster is None else read_clusters(cluster.filter(known), missing),
            features=None if features is None else features.filter(known),
        )

        def side(variant: str, columns: Columns) -> Answers:
            codes = np.stack([_codes(spoken.answers[name], every) for name in columns], axis=1)
            return Answers(variant, tuple(columns), codes, tuple(columns))

        return cls(
            examples=examples,
            compressed=side("compressed", compressed),
            dense=side("dense", dense) if dense else None,
            paired=paired,
            notes=(
                *(label_notes(labels.name, truth) if labels is not None and truth else ()),
                *spoken.notes,
                *(reading_note("groups", note) for note in formed.notes),
            ),
        )  # fmt: skip

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names by the ids of `coded`: with `(no answer)` last, where a model gave none."""
        more = [NO_ANSWER] if self._silent else []
        return (*self.examples.classes, *more)

    @property
    def _silent(self) -> bool:
        sides = [self.compressed, *([self.dense] if self.dense else [])]
        return any(bool(side.unanswered.any()) for side in sides)

    @property
    def labels(self) -> Codes:
        """Class ids of the only label of each example, shape (N,)."""
        assert self.examples.labels is not None
        return np.asarray(self.examples.labels[:, 0])

    def coded(self, side: Answers) -> Codes:
        """What one side said as class ids of `classes`, shape (N, K)."""
        return np.where(side.unanswered, len(self.examples.classes), side.answers)

    def renamed(self, names: Mapping[str, str]) -> Pair:
        """Give classes other names; those that share one become one class.

        >>> pair = Pair.of(pl.Series("y", ["a", "b", "c"]), {"m": pl.Series(["a", "c", "c"])})
        >>> pair.renamed({"b": "b or c", "c": "b or c"}).labels.tolist()
        [0, 1, 1]
        """
        old = self.examples.classes
        new = natural_order(names.get(name, name) for name in old)
        place = np.array([new.index(names.get(name, name)) for name in old] + [UNANSWERED])
        labels = None if self.examples.labels is None else place[self.examples.labels]
        return replace(
            self,
            examples=replace(self.examples, labels=labels, classes=tuple(new)),
            compressed=replace(self.compressed, answers=place[self.compressed.answers]),
            dense=self.dense and replace(self.dense, answers=place[self.dense.answers]),
        )


def reading_note(subject: str, sentence: str) -> AdmissionNote:
    """Tell what was folded, dropped or guessed in reading."""
    return AdmissionNote(rule="reading", subject=subject, sentence=sentence)


def read_labels(labels: pl.Series, missing: Sequence[str] = MISSING_TEXTS) -> ReadValues:
    """Read true classes; a word such as `None` is a class where two rows have it, and 1.0 is 1.

    >>> read_labels(pl.Series(["None", "None", "Yes", "?", ""])).values.to_list()
    ['None', 'None', 'Yes', None, None]
    """
    read = read_values(labels, missing=missing)
    classes = [
        mark for mark, rows in read.missing.items()
        if rows >= OFTEN and mark.lower() not in NEVER_A_CLASS
    ]  # fmt: skip
    if classes:
        read = read_values(labels, missing=missing, classes=classes)
    names = read.values.drop_nulls().unique()
    same = translate(names, []).labels if len(names) <= MOST_CLASSES else {}
    if not same:
        return read
    shown = ", ".join(f"{quoted(one)} as {quoted(same[one])}" for one in natural_order(same)[:3])
    note = f"label {quoted(labels.name)}: numbers are compared: {shown}"
    return read._replace(values=read.values.replace(same), notes=(*read.notes, note))


def label_notes(name: str, truth: ReadValues) -> tuple[AdmissionNote, ...]:
    """Tell of a column of labels what was folded, which rows were left out, and odd classes."""
    notes = [reading_note(name, note) for note in truth.notes]
    if empty := sum(truth.missing.values()):
        marks = listed([mark for mark in truth.missing if mark])
        sentence = (
            f"label {quoted(name)} is missing in {empty:,} of {len(truth.values):,} rows"
            f"{f' ({marks})' if marks else ''}: they are left out"
        )
        notes.append(reading_note(name, sentence))
    odd = [value for value in truth.values.drop_nulls().unique() if is_missing_text(value)]
    if odd:
        sentence = f"label {quoted(name)}: {listed(natural_order(odd))} is taken for a class"
        notes.append(reading_note(name, sentence))
    return tuple(notes)


class SpokenAnswers(NamedTuple):
    """Labels and answers in one language.

    Attributes:
        labels: Shape (N,).
        answers: Column to its answers, null where there is none, shape (N,).
        notes: What was folded, and what is no label.
    """

    labels: pl.Series | None
    answers: dict[str, pl.Series]
    notes: tuple[AdmissionNote, ...]


def one_language(
    labels: pl.Series | None,
    sides: Mapping[str, pl.Series],
    *,
    classes: Sequence[str] = (),
    missing: Sequence[str] = MISSING_TEXTS,
) -> SpokenAnswers:
    """Write the answers of every column in the language of the labels (rule 1 of admission).

    Args:
        labels: From `read_labels`, without missing ones, shape (N,); None where there are none, and
            all columns speak the language of the first.
        sides: Column to its answers, of any plain type, shape (N,).
        classes: Classes that models know beside the labels.
        missing: See `read_values`.

    Raises:
        DataError: None of a column's answers is a label.

    >>> spoken = one_language(pl.Series(["no", "yes"]), {"int8": pl.Series(["No ", "YES"])})
    >>> spoken.answers["int8"].to_list()
    ['no', 'yes']
    """
    truths = list(classes) if labels is None else [*labels.unique(), *classes]
    read = {
        name: read_values(column, missing=missing, classes=truths) for name, column in sides.items()
    }
    if labels is None and not truths:
        truths = next(iter(read.values())).values.drop_nulls().unique().to_list()
    known = natural_order(truths)
    answers: dict[str, pl.Series] = {}
    notes: list[AdmissionNote] = []
    for name, side in read.items():
        subject = f"column {quoted(name)}"
        counts = dict(side.values.drop_nulls().value_counts().iter_rows())
        own: tuple[AdmissionNote, ...] = ()
        if labels is None:
            translation = translate(known, counts)
        else:
            translation, own = check_language(subject, known, counts)
        folded = translation.answers
        answers[name] = side.values.replace(folded) if folded else side.values
        notes += [reading_note(name, note) for note in side.notes]
        notes += own
        if silent := side.values.null_count():
            sentence = (
                f"{subject} has no answer in {silent:,} of {len(side.values):,} rows: they count "
                "as wrong"
            )
            notes.append(AdmissionNote(rule="unanswered", subject=subject, sentence=sentence))
    return SpokenAnswers(labels, answers, tuple(notes))


def read_ids(ids: pl.Series) -> pl.Series:
    """Read what examples are called.

    Raises:
        DataError: One is missing, or stands twice.
    """
    text = read_values(ids, missing=("",)).values
    if empty := text.null_count():
        raise DataError(
            f"column {quoted(ids.name)} is empty in {empty:,} of {len(text):,} rows, first in row "
            f"{int(text.is_null().arg_max() or 0) + 1:,}: fill or remove them"
        )
    counts = text.value_counts(sort=True)
    if counts.height < len(text):
        most, times = counts.row(0)
        raise DataError(
            f"example ids must be unique, but {quoted(most)} stands in column {quoted(ids.name)} "
            f"{times:,} times: keep one row per example"
        )
    return text


def cluster_names(column: pl.Series, missing: Sequence[str] = MISSING_TEXTS) -> pl.Series:
    """Read which rows belong together, as text; a row that names no cluster is one of its own."""
    text = read_values(column, missing=missing).values
    if not text.null_count():
        return text
    alone = pl.Series([f"row {row}\x1f" for row in range(len(text))])
    return text.zip_with(text.is_not_null(), alone)


def read_clusters(column: pl.Series, missing: Sequence[str] = MISSING_TEXTS) -> Codes:
    """Number the clusters of a column from 0; see `cluster_names`.

    >>> read_clusters(pl.Series(["a", None, "a"])).tolist()
    [0, 1, 0]
    """
    names = cluster_names(column, missing)
    return np.asarray(names.rank("dense").to_numpy().astype(np.intp) - 1)


def _codes(values: pl.Series, classes: Sequence[str]) -> Codes:
    """Class ids, `UNANSWERED` where there is no value, shape (N,)."""
    codes = values.cast(pl.Enum(list(classes))).to_physical().cast(pl.Int64)
    return np.asarray(codes.fill_null(UNANSWERED).to_numpy().astype(np.intp))
