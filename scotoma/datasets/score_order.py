"""Which class does each score of an external model stand for?"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

import polars as pl

from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.config import OnnxSource
from scotoma.errors import DataError
from scotoma.natural import natural_order
from scotoma.printable import ONE_OF_THEM, nearest, printable
from scotoma.readers.hugging_face import CONFIG, class_names, in_words_of_labels, read_beside

__all__ = ["score_order"]

SHOWN = 4  # classes that a sentence names


def score_order(
    table: pl.DataFrame, source: OnnxSource, origin: str
) -> tuple[Sequence[str], AdmissionNote]:
    """List the classes of external models in the order of their scores.

    `source.classes` decides. Without it `id2label` in a config.json beside the models does, and
    without that the labels in the order of text, as ImageFolder sorts names of folders; numbers
    that are no names of folders are class ids, and go by value.

    Args:
        table: `example_id` and `label`, without gaps, of both splits.
        source: Where models and examples are.
        origin: What messages call the table.

    Returns:
        The classes, and a note on where their order comes from.

    Raises:
        DataError: A label is not among the classes.
    """
    labels = set(table["label"].unique().to_list())
    named = class_names(read_beside(source.models, CONFIG))
    in_words = in_words_of_labels(named, labels) if named else None
    if source.classes:
        if unknown := natural_order(labels - {*source.classes}):
            raise DataError(
                f"label {printable(unknown[0])!r} of {origin} must be in source.classes, which "
                f"lists {_listed(source.classes)}"
                f"{nearest(unknown[0], source.classes, ONE_OF_THEM)}"
            )
        other = in_words is not None and in_words != source.classes
        but = f"; id2label in {CONFIG} says {_listed(in_words or ())}" if other else ""
        return source.classes, _told(source.classes, f"source.classes{but}")
    if in_words is not None:
        return in_words, _told(in_words, f"id2label in {CONFIG} beside the models")
    held = labels & {*named}
    if held:
        unknown = natural_order(labels - {*named})
        problem = f"label {printable((unknown or natural_order(held))[0])!r} of {origin}"
        raise DataError(
            f"{problem} must be one class of id2label in {CONFIG}, which lists {_listed(named)}; "
            "correct it, or list all classes in source.classes"
        )
    unread = f"; id2label in {CONFIG} names none of them" if named else ""
    if all(label.isdecimal() for label in labels) and not _names_of_folders(table):
        classes = natural_order(labels)
        return classes, _told(classes, f"the labels by value{unread}")
    classes = sorted(labels)
    return classes, _told(classes, f"the labels as text, as ImageFolder sorts them{unread}")


def _names_of_folders(table: pl.DataFrame) -> bool:
    """Whether every image lies in a folder that is named as its label."""
    pairs = table.select("example_id", "label").iter_rows()
    return all(posixpath.basename(posixpath.dirname(name)) == label for name, label in pairs)


def _told(classes: Sequence[str], by: str) -> AdmissionNote:
    sentence = f"the models' scores are read in the order {_listed(classes)} ({by})"
    return reading_note("source.classes", sentence)


def _listed(classes: Sequence[str]) -> str:
    more = f", ... ({len(classes):,} in all)" if len(classes) > SHOWN else ""
    return f"{', '.join(map(printable, classes[:SHOWN]))}{more}"
