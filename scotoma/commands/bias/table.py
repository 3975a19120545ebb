"""What the bias command reads: labels, predictions and groups out of one table, checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.bias.clarify.arguments import standardised
from scotoma.commands.shared.tables import (
    MISSING,
    Texts,
    check_compared,
    column,
    columns,
    listed,
    numbers,
    quoted,
    texts,
)
from scotoma.config.groups import GroupColumn, parse_groups
from scotoma.datasets.group_values import group_values
from scotoma.errors import ConfigError, DataError
from scotoma.group_keys import group_key
from scotoma.inputs import cluster_ids
from scotoma.natural import natural_order
from scotoma.uncertainty import check_level

__all__ = [
    "BiasQuestion",
    "BiasTable",
    "Facet",
    "group_columns",
    "read_bias_table",
    "table_group_masks",
]

Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class BiasQuestion:
    """What to measure in a table with one row per example.

    Attributes:
        label: Column of the true labels.
        predicted: Columns of predicted labels, one a model, or patterns such as `pruned_*`.
        baseline: The same for the models that `predicted` is compared with; may be empty.
        groups: Columns whose values are groups, or COLUMN: and how they are put together, as
            `parse_groups` reads them.
        advantaged: Values of group columns, VALUE or COLUMN=VALUE, against whom the Clarify metrics
            set the rest; a column without one has each value set against the rest in turn.
        intersections: Also measure every combination of values of the group columns.
        positive: The label that is the favourable outcome, or several, which then count as one
            class; empty for every class against the rest.
        identifier: Column of example ids, which must be unique.
        cluster: Column of clusters: rows that belong together.
        strata: Column of the strata of CDDL and CDDPL.
        features: Columns of numbers by which FT finds an example's likes.
        paired: Each predicted model derives from the baseline model at the same place.
        level: Coverage of the intervals, a fraction in (0, 1).
        seed: Of the bootstraps behind upper bounds.
    """

    label: str
    predicted: Sequence[str]
    groups: Sequence[str]
    baseline: Sequence[str] = ()
    advantaged: Sequence[str] = ()
    intersections: bool = False
    positive: Sequence[str] = ()
    identifier: str | None = None
    cluster: str | None = None
    strata: str | None = None
    features: Sequence[str] = ()
    paired: bool = False
    level: float = 0.95
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Facet:
    """Who is set against whom in one column.

    Attributes:
        column: The group column.
        disadvantaged: Name of facet d.
        advantaged: Name of facet a.
        d: Members of facet d, shape (N,).
    """

    column: str
    disadvantaged: str
    advantaged: str
    d: Flags


@dataclass(frozen=True, eq=False, kw_only=True)
class BiasTable:
    """A table as arrays, checked.

    Attributes:
        classes: Label values by class id.
        labels: Class ids, shape (N,).
        predicted: Class ids, shape (N, K).
        baseline: Class ids, shape (N, K'); None without a baseline.
        positive: Class id of the favourable outcome, or None.
        groups: Key of each group to its members, shape (N,); the first is all.
        values: Group column to its values and each row's value as their place, shape (N,).
        facets: For the Clarify metrics.
        clusters: Cluster ids, shape (N,), or None.
        strata: Shape (N,), or None.
        features: Of standard deviation 1, shape (N, F), or None.
        messages: What a reader should know about how the table was read.
    """

    classes: tuple[str, ...]
    labels: Codes
    predicted: Codes
    baseline: Codes | None
    positive: int | None
    groups: dict[str, Flags]
    values: dict[str, tuple[list[str], Codes]]
    facets: list[Facet]
    clusters: Codes | None
    strata: Texts | None
    features: npt.NDArray[np.float64] | None
    messages: tuple[str, ...] = ()


def read_bias_table(table: pl.DataFrame, question: BiasQuestion) -> BiasTable:
    """The table as arrays.

    Raises:
        ConfigError: An option names a column or a value that is not there, or contradicts another.
        DataError: Ids, labels or predictions are missing or repeated, or a group stands alone.
    """
    check_level(question.level)
    label = column(table, question.label, "--label")
    after = columns(table, question.predicted, "--predicted")
    before = columns(table, question.baseline, "--baseline")
    if not after:
        raise ConfigError("--predicted must name at least one column, got none: name one per model")
    check_compared("predicted", after, before, label, paired=question.paired)
    _unique_ids(table, question.identifier)
    truth = texts(table, label)
    predictions = {name: texts(table, name) for name in [*before, *after]}
    classes, messages = _classes(truth, predictions, label)
    favourable = list(dict.fromkeys(question.positive))
    for value in favourable:
        _known_label(value, classes)
    if len(favourable) > 1:
        one = " or ".join(favourable)
        messages.append(f"{listed(favourable)} count as one class, {quoted(one)}")
        truth = _as_one(truth, favourable, one)
        predictions = {name: _as_one(of, favourable, one) for name, of in predictions.items()}
        others = [value for value in classes if value not in favourable]
        if not others or one in others:
            raise ConfigError(
                f"--positive must leave another label than {quoted(one)}, got "
                f"{listed(favourable)} of {listed(classes)}: name fewer"
            )
        classes, favourable = natural_order([*others, one]), [one]
    positive = classes.index(favourable[0]) if favourable else None
    values, said = group_columns(table, question.groups)
    messages += said
    if positive is None:
        messages.append(
            "no --positive: measuring each class against the rest, without metrics of an outcome"
        )
    cluster = None if question.cluster is None else column(table, question.cluster, "--cluster")
    strata = None if question.strata is None else column(table, question.strata, "--strata")
    features = columns(table, question.features, "--feature")
    return BiasTable(
        classes=tuple(classes),
        labels=_ids(truth, classes),
        predicted=np.stack([_ids(predictions[name], classes) for name in after], axis=1),
        baseline=np.stack([_ids(predictions[name], classes) for name in before], axis=1)
        if before
        else None,
        positive=positive,
        groups=table_group_masks(values, table.height, crossed=question.intersections),
        values=values,
        facets=list(_facets(values, _advantaged(question.advantaged, values))),
        clusters=cluster_ids(None if cluster is None else texts(table, cluster), table.height),
        strata=None if strata is None else texts(table, strata).astype(str),
        features=_scaled(table, features),
        messages=tuple(messages),
    )


def group_columns(
    table: pl.DataFrame, options: Sequence[str]
) -> tuple[dict[str, tuple[list[str], Codes]], list[str]]:
    """Read the columns whose values are groups.

    Args:
        table: The table.
        options: Columns, or COLUMN: and how values are put together, as `parse_group` reads them.

    Returns:
        Column to its values and each row's value as their place; and what a reader should know.

    Raises:
        ConfigError: A column is absent or named twice.
        DataError: A column holds one value.
    """
    values: dict[str, tuple[list[str], Codes]] = {}
    messages: list[str] = []
    for rule in parse_groups(options, table.columns):
        name = column(table, rule.column, "--group")
        if name in values:
            raise ConfigError(f"--group names column {quoted(name)} twice: keep one of them")
        rows, said = _grouped(texts(table, name, missing=MISSING), rule)
        messages += said
        if empty := int((rows == MISSING).sum()):
            messages.append(
                f"column {quoted(name)} is empty in {empty:,} of {len(rows):,} rows: these form "
                f"the group {quoted(MISSING)}"
            )
        values[name] = _coded(rows, name)
    return values, messages


def _grouped(rows: Texts, rule: GroupColumn) -> tuple[Texts, tuple[str, ...]]:
    """The groups that the values of a column form, and what a reader should know of them."""
    known = pl.Series(rows.tolist(), dtype=pl.String)
    known = known.set(known == MISSING, None)
    every = pl.repeat(True, len(rows), eager=True)
    formed = group_values(known, rule, every, quoted(rule.column))
    return np.array(formed.values.fill_null(MISSING).to_list(), dtype=object), formed.notes


def _unique_ids(table: pl.DataFrame, name: str | None) -> None:
    if name is None:
        return
    ids, times = np.unique(
        texts(table, column(table, name, "--id")).astype(str), return_counts=True
    )
    if len(ids) < table.height:
        most = int(times.argmax())
        raise DataError(
            f"example ids must be unique, but {quoted(ids[most])} stands in column {quoted(name)} "
            f"{times[most]:,} times: keep one row per example"
        )


def _classes(
    truth: Texts, predictions: dict[str, Texts], label: str
) -> tuple[list[str], list[str]]:
    """List the values of labels and predictions, and messages where they differ."""
    known, messages = set(truth), []
    for name, rows in predictions.items():
        new = natural_order(set(rows) - known)
        if new and not set(rows) & known:
            raise DataError(
                f"predictions must be labels, but column {quoted(name)} holds {listed(new)} and "
                f"label {quoted(label)} {listed(natural_order(known))}: write both with the same "
                "names"
            )
        if fraction := next((value for value in new if _is_fraction(value)), None):
            raise DataError(
                f"predictions must be labels, got {quoted(fraction)} in column {quoted(name)}: "
                "turn scores into labels with a threshold"
            )
        if new:
            messages.append(
                f"column {quoted(name)} predicts {listed(new)}, which is the label of no example"
            )
    classes = natural_order(known.union(*predictions.values()))
    if len(classes) < 2:
        raise DataError(
            f"label {quoted(label)} and all predictions are {quoted(classes[0])}: bias needs at "
            "least two classes"
        )
    return classes, messages


def _is_fraction(value: str) -> bool:
    try:
        return float(value) % 1 != 0
    except ValueError:
        return False


def _known_label(value: str, classes: list[str]) -> None:
    if value not in classes:
        raise ConfigError(
            f"--positive must be a value of the label, got {quoted(value)}: choose among "
            f"{listed(classes)}"
        )


def _as_one(rows: Texts, values: list[str], one: str) -> Texts:
    """Give several values one name."""
    return np.where(np.isin(rows, values), one, rows)


def _ids(rows: Texts, classes: list[str]) -> Codes:
    place = {name: number for number, name in enumerate(classes)}
    return np.fromiter((place[value] for value in rows), np.intp, len(rows))


def _coded(rows: Texts, name: str) -> tuple[list[str], Codes]:
    values = natural_order(rows)
    if len(values) < 2:
        raise DataError(
            f"column {quoted(name)} holds one value, {quoted(values[0])}: a comparison of groups "
            "needs two"
        )
    return values, _ids(rows, values)


def table_group_masks(
    values: dict[str, tuple[list[str], Codes]], rows: int, *, crossed: bool
) -> dict[str, Flags]:
    """Key of each group to its members, shape (rows,); the first is all.

    Args:
        values: From `group_columns`.
        rows: Rows of the table.
        crossed: Whether every combination of values of the columns is a group, too.
    """
    groups = {group_key([]): np.ones(rows, np.bool_)}
    cells = {
        name: {(name, value): codes == place for place, value in enumerate(distinct)}
        for name, (distinct, codes) in values.items()
    }
    for masks in cells.values():
        groups |= {group_key([pair]): mask for pair, mask in masks.items()}
    if crossed and len(cells) > 1:
        for parts in product(*(masks.items() for masks in cells.values())):
            pairs, crossed_masks = zip(*parts, strict=True)
            groups[group_key(pairs)] = np.logical_and.reduce(crossed_masks)
    return groups


def _advantaged(
    choices: Sequence[str], values: dict[str, tuple[list[str], Codes]]
) -> dict[str, list[str]]:
    """The advantaged values of each column that has some."""
    chosen: dict[str, list[str]] = {}
    for choice in choices:
        owners = [(name, choice) for name, (distinct, _) in values.items() if choice in distinct]
        name, _, value = choice.partition("=")
        if name in values and value in values[name][0]:
            owners = [(name, value)]
        if len(owners) != 1:
            have = "no group column has" if not owners else "several group columns have"
            raise ConfigError(
                f"--advantaged must be a value of one --group, but {have} {quoted(choice)}: write "
                "COLUMN=VALUE"
            )
        chosen.setdefault(owners[0][0], []).append(owners[0][1])
    for name, favoured in chosen.items():
        if set(favoured) == set(values[name][0]):
            raise ConfigError(
                f"--advantaged names every value of column {quoted(name)}: leave out those that "
                "are not advantaged"
            )
    return chosen


def _facets(
    values: dict[str, tuple[list[str], Codes]], advantaged: dict[str, list[str]]
) -> Iterator[Facet]:
    for name, (distinct, codes) in values.items():
        if name in advantaged:
            others = [value for value in distinct if value not in advantaged[name]]
            d = np.isin(codes, [distinct.index(value) for value in others])
            yield Facet(name, " or ".join(others), " or ".join(advantaged[name]), d)
            continue
        for place, value in enumerate(distinct):
            rest = distinct[1 - place] if len(distinct) == 2 else "the rest"
            yield Facet(name, value, rest, codes == place)


def _scaled(table: pl.DataFrame, names: list[str]) -> npt.NDArray[np.float64] | None:
    if not names:
        return None
    return standardised(np.stack([numbers(table, name) for name in names], axis=1))
