"""Select the examples of an audit from a source's table, and refuse what cannot work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from scotoma.answers.admission import translate
from scotoma.answers.groups import group_values
from scotoma.answers.natural import natural_order
from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.answers.pair import label_notes, lost_groups, read_labels
from scotoma.answers.values import MISSING, NEVER_A_CLASS, as_numbers, is_plain, look_alikes
from scotoma.config.label import threshold_classes
from scotoma.datasets.examples import FEATURES, AuditedExamples
from scotoma.datasets.image_statistics import STATISTICS
from scotoma.datasets.text_columns import checked_text, refuse_empty_labels
from scotoma.errors import DataError
from scotoma.printable import ONE_OF_THEM, nearest, printable

if TYPE_CHECKING:
    from scotoma.config.model import Config


RESERVED = ("example_id", "split", "label", "cluster", "image", "image_name", FEATURES)


def examples_from_source(
    source: pl.DataFrame,
    config: Config,
    origin: str,
    notes: Sequence[str] = (),
    admission: Sequence[AdmissionNote] = (),
) -> AuditedExamples:
    """Pick label, attributes and cluster out of a source's table, and refuse what cannot work.

    Args:
        source: `example_id`, `split`, the source's own columns, and `image` where it was read.
        config: Names of the columns.
        origin: What messages call the table.
        notes: Notes of the source itself.
        admission: What was folded, guessed or not read of it.

    Returns:
        The examples of the audit. Values that are absent, empty, nan or null are missing:
        of an attribute they form the group `(missing)`, with a note.

    Raises:
        DataError: A column is absent or holds no plain values, an id stands twice, a split is
            empty, a label has one value or is not met in training, or an attribute has one value
            among the test examples, or not its advantaged one; or a test example has no number in
            a column of `clarify.features`.
    """
    attributes = config.groups.attributes
    if clash := sorted(set(attributes) & set(RESERVED)):
        raise DataError(f"groups.{clash[0]} has a reserved name; rename the attribute")
    put_together: list[str] = []
    admitted = [*admission]
    label: list[pl.Expr] = []
    if config.label.column is not None:
        truths, said = _labels(source, config, origin)
        whole, labelled = source, truths.is_not_null()
        source = source.filter(truths.is_not_null())
        label = [pl.lit(truths.drop_nulls()).alias("label")]
        admitted += said
    chosen = [pl.col("example_id"), pl.col("split"), *label]
    missing = config.limits.missing
    tested = source["split"] == "test"
    for name, group in attributes.items():
        read = checked_text(source, group.column, f"groups.{name}", origin, missing)
        formed = group_values(read.values, group, tested, repr(printable(name)))
        chosen.append(pl.lit(formed.values).fill_null(MISSING).alias(name))
        put_together += formed.notes
        admitted += [
            reading_note(name, note) for note in (*read.notes, *look_alikes(name, formed.values))
        ]
    if label:
        asked = whole["split"] == "test"
        columns = {name: whole[group.column].filter(asked) for name, group in attributes.items()}
        admitted += lost_groups(
            columns, labelled.filter(asked), attributes, crossed=config.groups.intersections,
            missing=missing,
        )  # fmt: skip
    if config.cluster is not None:
        alone = pl.concat_str(pl.lit("row "), pl.col("example_id"))  # no source named: its own
        cluster = checked_text(source, config.cluster.column, "cluster", origin, missing)
        chosen.append(pl.lit(cluster.values).fill_null(alone).alias("cluster"))
    if features := features_of_source(source, config, origin):
        chosen.append(pl.struct(features).alias(FEATURES))
    binary = _binary_columns(source, config) if config.over_index == "all" else {}
    chosen += [pl.lit(value).fill_null(MISSING).alias(name) for name, (value, _) in binary.items()]
    shown = [name for name in ("image", "image_name") if name in source.columns]
    table = source.select(*chosen, *shown)

    if table["example_id"].n_unique() < table.height:
        twice = table.filter(pl.col("example_id").is_duplicated())["example_id"][0]
        raise DataError(f"example id {twice!r} stands in {origin} twice; ids must be unique")
    classes, untested, order = _classes(table, config, origin)
    for name in attributes:
        values = table.filter(pl.col("split") == "test")[name].unique().to_list()
        if len(values) < 2:
            raise DataError(
                f"attribute {name!r} has one value, {values[0]!r}, in the test split of {origin}; "
                "a comparison of groups needs two, so remove it or choose another column"
            )
        advantaged = config.advantaged.get(name)
        if advantaged is not None and advantaged not in values:
            known = natural_order(values)
            raise DataError(
                printable(
                    f"advantaged.{name} is {advantaged!r}, but the test split of {origin} holds "
                    f"{', '.join(known[:10])}{nearest(advantaged, known, ONE_OF_THEM)}"
                )
            )
    return AuditedExamples(
        table,
        tuple(classes),
        tuple(attributes),
        tuple(tuple(names) for names in config.groups.intersections),
        (*notes, *untested, *_missing(table, config), *put_together),
        size=config.source.image_size,
        over_indexed=tuple((name, counted) for name, (_, counted) in binary.items()),
        several=tuple(config.label.columns),
        admission=(*admitted, *order),
    )


def _binary_columns(source: pl.DataFrame, config: Config) -> dict[str, tuple[pl.Series, str]]:
    """Columns of two values beside label, groups and cluster: each, and the value that counts.

    That is the one that sorts last: `1` of `-1` and `1`, `yes` of `no` and `yes`.
    """
    used = {config.label.column, *RESERVED, *config.groups.attributes}
    used |= {group.column for group in config.groups.attributes.values()}
    used |= {config.cluster.column} if config.cluster else set()
    used |= {split} if (split := config.source.split_column) else set()
    binary = {}
    for name in source.columns:
        if name in used or not is_plain(source.schema[name]):
            continue
        value = checked_text(source, name, "over_index", "the source", config.limits.missing).values
        known = value.drop_nulls().unique()
        if len(known) == 2:
            binary[name] = (value, natural_order(known)[-1])
    return binary


def _labels(
    source: pl.DataFrame, config: Config, origin: str
) -> tuple[pl.Series, tuple[AdmissionNote, ...]]:
    """The label of every row, null where it has none, and what a reader should know of them."""
    column, threshold = str(config.label.column), config.label.threshold
    checked_text(source, column, "label", origin)  # refuses what is no column of words or numbers
    truth = read_labels(source[column], config.limits.missing)
    if truth.values.null_count() == len(truth.values):
        refuse_empty_labels(truth.values, source["example_id"], origin)
    notes = label_notes(column, truth)
    if threshold is None:
        return truth.values, notes
    labels = pl.DataFrame({"example_id": source["example_id"], column: truth.values})
    return labels.select(_thresholded(labels, threshold, origin)).to_series(), notes


def _thresholded(table: pl.DataFrame, threshold: float, origin: str) -> pl.Expr:
    """Split numeric labels, beside their ids, into the two classes of a threshold."""
    labels = table.to_series(1)
    number = labels.cast(pl.Float64, strict=False).fill_nan(None)
    if (wrong := number.is_null() & labels.is_not_null()).any():
        first = table.filter(wrong).row(0)
        raise DataError(
            printable(
                f"label column {labels.name!r} of {origin} must hold numbers for "
                f"label.threshold, got {first[1]!r} in the row of {first[0]!r}; correct it, or "
                "leave the threshold out"
            )
        )
    above, below = threshold_classes(threshold)
    high = pl.when(pl.lit(number) >= threshold).then(pl.lit(above))
    return high.when(pl.lit(number) < threshold).then(pl.lit(below))


def _classes(
    table: pl.DataFrame, config: Config, origin: str
) -> tuple[Sequence[str], Iterator[str], tuple[AdmissionNote, ...]]:
    """List the classes by id, notes on those never tested, and one on a guessed order."""
    known = _known_classes(config)
    train, test = (table.filter(pl.col("split") == split) for split in ("train", "test"))
    where = f"the train split of {origin}"
    source = config.source
    if config.label.column is None or source.tests_all:
        train, where = table, origin
    for split, part in (("train", train), ("test", test)):
        if not part.height:
            raise DataError(f"the {split} split of {origin} holds no row; check source.split")
    if source.score is not None:
        return (), iter(()), ()
    if config.label.column is None:
        return _unlabelled_classes(known, config), iter(()), ()
    column, positive = config.label.column, config.label.positive
    labels = train["label"].unique().to_list()
    written = translate(labels, known).answers  # `1.0` is the label `1`, and no class of its own
    known = [written.get(name, name) for name in known]
    classes: Sequence[str] = natural_order({*labels, *known})
    order: tuple[AdmissionNote, ...] = ()
    if (
        not config.label.classes
        and not config.label.columns
        and (of_scores := source.class_order(table, origin))
    ):
        classes, order = of_scores[0], (of_scores[1],)
    if len(classes) < 2:
        raise DataError(
            f"label column {column!r} has one value, {classes[0]!r}, in {where}; a classifier "
            "needs two"
        )
    tested = set(test["label"].unique().to_list())
    if unseen := sorted(tested - set(classes)):
        raise DataError(
            f"label {unseen[0]!r} is in the test split of {origin} but never in training; "
            "move or remove its rows"
        )
    if positive is not None and str(positive) not in classes:
        raise DataError(
            f"label.positive is {positive!r}, but column {column!r} holds {', '.join(classes[:10])}"
        )
    if positive is not None and str(positive) not in tested:
        raise DataError(
            f"label.positive {positive!r} has no row in the test split of {origin}, so its rates "
            "cannot be measured; move some rows there"
        )
    return classes, _untested(classes, tested), order


def _known_classes(config: Config) -> list[str]:
    """List the classes that models know whatever is tested."""
    known = list(config.source.known_classes)
    if no_class := [n for n in known if not n.strip() or n.lower() in NEVER_A_CLASS]:
        raise DataError(
            f"source.classes names {no_class[0]!r}, which stands for a missing value; rename the "
            "class"
        )
    if doubled := [name for name in known if known.count(name) > 1]:
        raise DataError(f"source.classes names {doubled[0]!r} twice; keep one of them")
    return [*known, *(name for name in config.label.classes if name not in known)]


def _unlabelled_classes(known: Sequence[str], config: Config) -> Sequence[str]:
    """Take the classes from the configuration, where no example has a label."""
    positive = config.label.positive
    if len(known) < 2:
        raise DataError(
            f"source.files hold one predicted class, {', '.join(map(repr, known))}; a classifier "
            "needs two, so list the classes in source.classes"
        )
    if positive is not None and str(positive) not in known:
        raise DataError(
            f"label.positive is {positive!r}, but the classes are {', '.join(known[:10])}"
        )
    # Scores of ONNX models come in the order that the configuration gives.
    return natural_order(known) if config.source.has_answers else known


def _untested(classes: Sequence[str], tested: set[str]) -> Iterator[str]:
    """The note on classes that are trained for and never tested."""
    if untested := [name for name in classes if name not in tested]:
        one = len(untested) == 1
        yield (
            f"{len(untested):,} of {len(classes):,} classes {'has' if one else 'have'} no row in "
            f"the test split (the first is {printable(untested[0])!r}); nothing can be said about "
            f"{'it' if one else 'them'}"
        )


def _missing(table: pl.DataFrame, config: Config) -> Iterator[str]:
    """A note on each attribute with missing values."""
    for name in config.groups.attributes:
        for split, rows in (("test", "test rows"), ("train", "training rows")):
            values = table.filter(pl.col("split") == split)[name]
            if missing := int((values == MISSING).sum()):
                yield (
                    f"attribute {printable(name)!r} is missing in {missing:,} of {len(values):,} "
                    f"{rows} ({missing / len(values):.1%}); they form the group {MISSING!r}; fill "
                    "them, or keep the group"
                )
                break


CODE = r"^[+-]?0\d"


def feature_columns(config: Config) -> dict[str, str]:
    """Name the columns that are features beside the attributes, and the key that asks for each.

    >>> from scotoma.config import default_config
    >>> feature_columns(default_config())
    {}
    """
    own = {*config.groups.attributes, "class"}
    if not config.source.has_answers:  # which has no images to measure
        own |= STATISTICS.keys()
    columns = {name: "slices.features" for name in config.slices.features if name not in own}
    return columns | dict.fromkeys(config.clarify.features, "clarify.features")


def features_of_source(source: pl.DataFrame, config: Config, origin: str) -> list[pl.Expr]:
    """Read the columns that are features: numbers as float64, all others and codes as text."""
    features = []
    for name, key in feature_columns(config).items():
        text = checked_text(source, name, key, origin, config.limits.missing).values
        number = as_numbers(text)
        if name in config.clarify.features:
            good = number.is_finite().fill_null(value=False)
            bad = source.filter(~good & (source["split"] == "test"))
            if bad.height:
                raise DataError(
                    printable(
                        f"clarify.features column {name!r} of {origin} must hold a finite number "
                        f"for every test example, got {bad[name][0]!r} in the row of "
                        f"{bad['example_id'][0]!r}; correct it, or name another column"
                    )
                )
        # A column of numbers is one in CSV as in Parquet; codes such as 02139 stay text.
        wholly = number.null_count() == text.null_count() and not text.str.contains(CODE).any()
        wholly &= name not in config.slices.categorical
        value = number if name in config.clarify.features or wholly else text
        features.append(pl.lit(value).alias(name))
    return features
