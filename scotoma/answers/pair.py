"""Who answered what on which examples? The one thing that every question is asked of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.admission import (
    MOST_CLASSES,
    NO_ANSWER,
    NO_LABEL,
    SHOWN,
    WAY_OUT,
    chance_note,
    check_language,
    class_skill,
    is_label,
    share_words,
    translate,
    unanswered_note,
    unasked_chance,
)
from scotoma.answers.groups import GroupColumn, Groups
from scotoma.answers.natural import natural_order
from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.answers.values import (
    MISSING_TEXTS,
    NEVER_A_CLASS,
    ReadValues,
    is_missing_text,
    read_values,
    refuse_null,
)
from scotoma.errors import DataError
from scotoma.printable import listed, printable, quoted

Codes: TypeAlias = npt.NDArray[np.intp]
Flags: TypeAlias = npt.NDArray[np.bool_]
Columns: TypeAlias = Mapping[str, pl.Series]

LEAST_LOST = 30  # examples of a group without labels that admit no PASS: fewer show no harm
OFTEN = 2  # rows of the label column that make a class of a word that may mean a missing value


@dataclass(frozen=True, eq=False)
class Answers:
    """What the models of one variant said.

    Attributes:
        variant: Its name.
        predicted: Class ids, a column a model, shape (N, K).
    """

    variant: str
    predicted: npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Examples:
    """The rows that both sides answered.

    Attributes:
        ids: What the examples are called, text, shape (N,); None where they are numbered.
        labels: Class ids, shape (N, L); None where the examples have no labels.
        classes: Class names by id; see `NumberedClasses`.
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

    def unanswered(self, answers: Answers) -> Flags:
        """Where a model gave no answer, shape (N, K)."""
        silent = len(self.classes) - 1 if self.classes[-1:] == (NO_ANSWER,) else -1
        return np.asarray(answers.predicted == silent)

    def chance(
        self, dense: Answers, *, strata: npt.ArrayLike | None = None, level: float = 0.95
    ) -> tuple[AdmissionNote, ...]:
        """Ask whether the baseline is better than its answers dealt to other examples (rule 2).

        Args:
            dense: The answers of the baseline.
            strata: See `class_skill`.
            level: Coverage of its interval.

        Returns:
            A note where it is not shown to be, or where nobody can ask; else none.
        """
        if self.labels is None:
            return (unasked_chance("the examples have no labels"),)
        answers, labels = dense.predicted, self.labels[:, 0]
        right = f"right on {share_words(float((answers == labels[:, None]).mean()))}"
        skill = class_skill(answers, labels, clusters=self.cluster, strata=strata, level=level)
        note = chance_note(skill, right)
        return () if note is None else (note,)


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
        >>> pair.classes, pair.labels.tolist(), pair.compressed.predicted.tolist()
        (('0', '1', '(no answer)'), [0, 1], [[1], [2]])
        """
        sides = {**(dense or {}), **compressed}
        rows = len(next(iter(sides.values())))
        truth = None if labels is None else read_labels(labels, missing)
        known = pl.repeat(True, rows, eager=True) if truth is None else truth.values.is_not_null()
        if labels is not None and not known.any():
            raise DataError(
                f"label {quoted(labels.name)} is missing in all {rows:,} rows: name another column"
            )
        names = None if truth is None else truth.values.filter(known)
        spoken = [*classes] if names is None else [*names.unique(), *classes]
        # Beside a single label every other answer is wrong, whatever it is called.
        outcomes = names is not None and len({*spoken}) == 1
        answers: dict[str, pl.Series] = {}
        notes = [] if labels is None or truth is None else [*label_notes(labels.name, truth)]
        for name, column in sides.items():
            answers[name], own_notes = admit_answers(
                column.filter(known).alias(name), spoken, labelled=names is not None,
                strangers=not outcomes, missing=missing,
            )  # fmt: skip
            if not spoken:  # all speak the language of the first
                spoken = answers[name].drop_nulls().unique().to_list()
            silent = answers[name].is_null().to_numpy()[:, None]
            # Words of millions of answers would take as much memory as anything measured on them.
            answers[name] = answers[name].cast(pl.Categorical)
            notes += own_notes
            notes += unanswered_note(silent, _column(name), labelled=names is not None)
        columns = list(answers.values())
        # Where nobody has a label, or all have the same, every answer names a class.
        named = {*spoken}
        if names is None or outcomes:
            named |= {*pl.concat(columns).drop_nulls().unique()}
        numbered = NumberedClasses.of(named, columns)
        formed = Groups.of(
            {name: column.filter(known) for name, column in (groups or {}).items()},
            rules, size=int(known.sum()), crossed=crossed, missing=missing,
        )  # fmt: skip
        lost = lost_groups(groups or {}, known, rules, crossed=crossed, missing=missing)
        examples = Examples(
            labels=None if names is None else numbered.ids(names)[:, None],
            classes=numbered.classes,
            groups=formed,
            ids=None if ids is None else read_ids(ids).filter(known),
            cluster=None if cluster is None else read_clusters(cluster.filter(known), missing),
            features=None if features is None else features.filter(known),
        )

        def side(variant: str, columns: Columns) -> Answers:
            size = (int(known.sum()), len(columns))
            codes = np.empty(size, np.min_scalar_type(len(numbered.names)))
            for place, name in enumerate(columns):
                codes[:, place] = numbered.ids(answers[name])
            return Answers(variant, codes)

        return cls(
            examples=examples,
            compressed=side("compressed", compressed),
            dense=side("dense", dense) if dense else None,
            paired=paired,
            notes=(*notes, *(reading_note("groups", note) for note in formed.notes), *lost),
        )

    def __repr__(self) -> str:
        """What is held, and what was folded, dropped or guessed."""
        return "\n".join(self._sentences())

    def _repr_html_(self) -> str:
        from scotoma.document import Cell, Column, Document, Section, Table
        from scotoma.document.html import fragment

        masks = self.examples.groups.by_key
        rows: list[dict[str, Cell]] = [
            {"group": key, "n": int(mask.sum())} for key, mask in masks.items()
        ]
        columns = (Column("group", "group"), Column("n", "examples", "count"))
        parts = [Table("groups", "", columns, rows)] if len(rows) > 1 else []
        held = Section("pair", "", self._sentences(), parts)
        return fragment(Document("Answers on the same examples", sections=[held]))

    def _sentences(self) -> list[str]:
        sides = [one for one in (self.dense, self.compressed) if one is not None]
        models = ", ".join(f"{one.predicted.shape[1]} {one.variant}" for one in sides)
        own = self.examples
        known = sum(map(is_label, self.classes))
        labels = "no labels" if own.labels is None else f"{known} classes"
        found = f"{own.size:,} examples, {labels}; models: {models}{', paired' * self.paired}"
        told = (found, *(note.sentence for note in self.notes))
        return [f"{sentence[0].upper()}{sentence[1:]}." for sentence in told]

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names by id; see `Examples`."""
        return self.examples.classes

    @property
    def labels(self) -> Codes:
        """Class ids of the only label of each example, shape (N,)."""
        assert self.examples.labels is not None
        return np.asarray(self.examples.labels[:, 0])

    def renamed(self, names: Mapping[str, str]) -> Pair:
        """Give classes other names; those that share one become one class.

        >>> pair = Pair.of(pl.Series("y", ["a", "b", "c"]), {"m": pl.Series(["a", "c", "c"])})
        >>> pair.renamed({"b": "b or c", "c": "b or c"}).labels.tolist()
        [0, 1, 1]
        """
        labels = natural_order(names.get(name, name) for name in self.classes if is_label(name))
        new = [*labels, *(name for name in self.classes if not is_label(name))]
        place = np.array([new.index(names.get(name, name)) for name in self.classes])

        def side(answers: Answers) -> Answers:
            return replace(answers, predicted=place[answers.predicted])

        own = self.examples
        truth = None if own.labels is None else place[own.labels]
        return replace(
            self,
            examples=replace(own, labels=truth, classes=tuple(new)),
            compressed=side(self.compressed),
            dense=self.dense and side(self.dense),
        )


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


def lost_groups(
    columns: Columns,
    known: pl.Series,
    rules: Mapping[str, GroupColumn] | None = None,
    *,
    crossed: Sequence[Sequence[str]] = (),
    missing: Sequence[str] = MISSING_TEXTS,
) -> tuple[AdmissionNote, ...]:
    """Tell of groups that vanish, because none of their examples has a label.

    Args:
        columns: Attribute to its column, rows without a label among them, shape (N,).
        known: Whether a row has a label, bool, shape (N,).
        rules: See `Groups.of`.
        crossed: See `Groups.of`.
        missing: See `read_values`.

    Returns:
        A note, which admits no PASS if one of them is large enough to be judged; else none.

    >>> sex, known = pl.Series(["f"] * 40 + ["m"] * 60), pl.Series([False] * 40 + [True] * 60)
    >>> (note,) = lost_groups({"sex": sex}, known)
    >>> note.sentence, note.blocks_pass
    ('no example of sex=f (40) has a label, so nothing is known of it, and no PASS is given', True)
    """
    if not columns or known.all():
        return ()
    sizes: dict[frozenset[tuple[str, str]], tuple[str, int]] = {}
    with contextlib.suppress(DataError):  # rows that nobody judges may hold what forms no group
        groups = Groups.of(columns, rules, size=len(known), crossed=crossed, missing=missing)
        labelled = known.to_numpy()
        for (key, mask), pairs in zip(groups.by_key.items(), groups.members, strict=True):
            parts = frozenset(pairs)
            if mask.any() and not (mask & labelled).any() and not any(one < parts for one in sizes):
                sizes[parts] = key, int(mask.sum())
    if not sizes:
        return ()
    largest = sorted(sizes.values(), key=lambda one: -one[1])
    shown = ", ".join(f"{printable(key)} ({size:,})" for key, size in largest[:SHOWN])
    more = f" and {len(largest) - SHOWN:,} more groups" if len(largest) > SHOWN else ""
    blocks = largest[0][1] >= LEAST_LOST
    end = f"nothing is known of {'it' if len(largest) == 1 else 'them'}"
    end += ", and no PASS is given" if blocks else ""
    sentence = f"no example of {shown}{more} has a label, so {end}"
    return (AdmissionNote(rule="reading", subject="groups", sentence=sentence, blocks_pass=blocks),)


def admit_answers(
    column: pl.Series,
    classes: Sequence[str],
    *,
    labelled: bool = True,
    strangers: bool = True,
    subject: str = "",
    missing: Sequence[str] = MISSING_TEXTS,
    way_out: str = WAY_OUT,
) -> tuple[pl.Series, tuple[AdmissionNote, ...]]:
    """Admit the answers of one column, in the language of the labels (rule 1 of admission).

    Args:
        column: Answers of any plain type, shape (N,).
        classes: Labels, and classes that models know beside them; none for those of the column.
        labelled: Whether examples have labels, so that an answer may be none.
        strangers: Whether to tell which answers are no label; not where an audit of them tells it.
        subject: What messages call the column; empty for its name.
        missing: See `read_values`.
        way_out: See `check_language`.

    Returns:
        Text, null where there is no answer, shape (N,); and what was folded or is no label.

    Raises:
        DataError: None of the answers is a label.

    >>> admit_answers(pl.Series("int8", ["No ", "YES", None]), ["no", "yes"])[0].to_list()
    ['no', 'yes', None]
    """
    read = read_values(column, missing=missing, classes=classes)
    counts = dict(read.values.drop_nulls().value_counts().iter_rows())
    own: tuple[AdmissionNote, ...] = ()
    if labelled:
        subject = subject or _column(column.name)
        folded, own = check_language(subject, natural_order(classes), counts, way_out=way_out)
        own = own if strangers else own[: bool(folded.how)]
    else:
        folded = translate(classes or counts, counts)
    values = read.values.replace(folded.answers) if folded.answers else read.values
    return values, (*(reading_note(column.name, note) for note in read.notes), *own)


def _column(name: str) -> str:
    return f"column {quoted(name)}"


def read_ids(ids: pl.Series) -> pl.Series:
    """Read what examples are called.

    Raises:
        DataError: One is missing, or stands twice.
    """
    text = refuse_null(read_values(ids, missing=("",)).values)
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


class NumberedClasses(NamedTuple):
    """Classes by id: labels, then answers that are none, then no answer.

    Attributes:
        names: As columns write them; those of `classes` without what tells that they are no label.
        classes: Their names.
    """

    names: tuple[str, ...]
    classes: tuple[str, ...]

    @classmethod
    def of(cls, known: Iterable[str], answers: Sequence[pl.Series]) -> NumberedClasses:
        """Number the classes of labels and answers.

        >>> NumberedClasses.of(["cat", "dog"], [pl.Series(["fox", "dog", None])]).classes
        ('cat', 'dog', 'fox (no label)', '(no answer)')
        """
        labels = natural_order(known)
        beside = natural_order({*pl.concat(answers).drop_nulls().unique()} - {*labels})
        silent = [NO_ANSWER] if any(one.null_count() for one in answers) else []
        shown = (f"{name}{NO_LABEL}" for name in beside)
        return cls((*labels, *beside, *silent), (*labels, *shown, *silent))

    def ids(self, values: pl.Series) -> Codes:
        """Class ids, that of no answer where there is no value, shape (N,)."""
        codes = values.cast(pl.Enum(self.names)).to_physical().cast(pl.Int64)
        return np.asarray(codes.fill_null(len(self.names) - 1).to_numpy().astype(np.intp))
