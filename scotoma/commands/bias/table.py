"""What the bias command reads: labels, predictions and groups out of one table, checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.admission import is_label
from scotoma.answers.groups import GroupColumn, Groups, parse_groups
from scotoma.answers.pair import Pair
from scotoma.answers.values import tidy
from scotoma.bias.clarify.arguments import standardised
from scotoma.commands.shared.tables import Texts, check_compared, column, columns, numbers, texts
from scotoma.errors import ConfigError, DataError
from scotoma.numbers import check_level
from scotoma.printable import listed, quoted

__all__ = [
    "BiasQuestion",
    "BiasTable",
    "Facet",
    "read_bias_table",
    "table_groups",
]

Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class BiasQuestion:
    """What to measure in a table with one row per example.

    Attributes:
        label: Column of the true labels; empty for the four-fifths rule, which needs none.
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
        pair: Labels, answers and groups; several favourable labels are one class.
        positive: Class id of the favourable outcome, or None.
        facets: For the Clarify metrics.
        strata: Shape (N,), or None.
        features: Of standard deviation 1, shape (N, F), or None.
        messages: What a reader should know about how the table was read.
    """

    pair: Pair
    positive: int | None
    facets: list[Facet]
    strata: Texts | None
    features: npt.NDArray[np.float64] | None
    messages: tuple[str, ...] = ()

    @property
    def groups(self) -> Groups:
        """Groups of the examples."""
        return self.pair.examples.groups

    @property
    def populations(self) -> dict[str, Codes]:
        """`baseline`, if there is one, and `predicted` to class ids, shape (N, K)."""
        sides = {"baseline": self.pair.dense, "predicted": self.pair.compressed}
        return {name: side.predicted for name, side in sides.items() if side is not None}


def read_bias_table(table: pl.DataFrame, question: BiasQuestion) -> BiasTable:
    """The table as arrays.

    Raises:
        ConfigError: An option names a column or a value that is not there, or contradicts another.
        DataError: Ids, labels or predictions are missing or repeated, or a group stands alone.
    """
    check_level(question.level)
    label = column(table, question.label, "--label") if question.label else None
    after = columns(table, question.predicted, "--predicted")
    before = columns(table, question.baseline, "--baseline")
    if not after:
        raise ConfigError("--predicted must name at least one column, got none: name one per model")
    check_compared("predicted", after, before, label, paired=question.paired)
    rules = group_rules(table, question.groups)
    cluster = None if question.cluster is None else column(table, question.cluster, "--cluster")
    identifier = None if question.identifier is None else column(table, question.identifier, "--id")
    strata = None if question.strata is None else column(table, question.strata, "--strata")
    features = columns(table, question.features, "--feature")
    more = [*features, *([strata] if strata else [])]
    pair = Pair.of(
        None if label is None else table[label],
        {name: table[name] for name in after},
        {name: table[name] for name in before},
        groups={name: table[name] for name in rules},
        rules=rules,
        crossed=[list(rules)] if question.intersections and len(rules) > 1 else [],
        cluster=None if cluster is None else table[cluster],
        ids=None if identifier is None else table[identifier],
        features=table.select(more) if more else None,
        paired=question.paired,
    )
    messages = [note.sentence for note in pair.notes]
    pair, positive, said = _with_positive(pair, question.positive)
    messages += said
    if len(pair.classes) < 2:
        labels_and = "" if label is None else f"label {quoted(label)} and "
        raise DataError(
            f"{labels_and}all predictions are {quoted(pair.classes[0])}: bias needs "
            "at least two classes"
        )
    groups = pair.examples.groups
    _refuse_one_value(groups)
    described = pair.examples.features
    return BiasTable(
        pair=pair,
        positive=positive,
        facets=list(_facets(groups.coded, _advantaged(question.advantaged, groups.coded))),
        strata=None if strata is None or described is None
        else texts(described, strata).astype(str),
        features=None if described is None else _scaled(described, features),
        messages=tuple(messages),
    )  # fmt: skip


def group_rules(table: pl.DataFrame, options: Sequence[str]) -> dict[str, GroupColumn]:
    """Read which columns hold groups, and how their values form them.

    Raises:
        ConfigError: A column is absent or named twice.
    """
    rules: dict[str, GroupColumn] = {}
    for rule in parse_groups(options, table.columns):
        name = column(table, rule.column, "--group")
        if name in rules:
            raise ConfigError(f"--group names column {quoted(name)} twice: keep one of them")
        rules[name] = rule
    return rules


def table_groups(table: pl.DataFrame, options: Sequence[str], *, crossed: bool) -> Groups:
    """Form the groups of a table without labels; see `group_rules`."""
    rules = group_rules(table, options)
    groups = Groups.of(
        {name: table[name] for name in rules}, rules, size=table.height,
        crossed=[list(rules)] if crossed and len(rules) > 1 else [],
    )  # fmt: skip
    _refuse_one_value(groups)
    return groups


def _refuse_one_value(groups: Groups) -> None:
    for name, (values, _) in groups.coded.items():
        if len(values) < 2:
            raise DataError(
                f"column {quoted(name)} holds one value, {quoted(values[0])}: a comparison of "
                "groups needs two"
            )


def _with_positive(pair: Pair, names: Sequence[str]) -> tuple[Pair, int | None, list[str]]:
    """Make one class of the favourable outcomes; its id, and what a reader should know."""
    favourable, messages = list(dict.fromkeys(map(tidy, names))), list[str]()
    classes = [name for name in pair.classes if is_label(name)]
    holder = "predictions" if pair.examples.labels is None else "label"
    for value in favourable:
        if value not in classes:
            raise ConfigError(
                f"--positive must be a value of the {holder}, got {quoted(value)}: choose among "
                f"{listed(classes)}"
            )
    if not favourable:
        messages.append(
            "no --positive: measuring each class against the rest, without metrics of an outcome"
        )
        return pair, None, messages
    one = " or ".join(favourable)
    if len(favourable) > 1:
        messages.append(f"{listed(favourable)} count as one class, {quoted(one)}")
        others = [value for value in classes if value not in favourable]
        if not others or one in others:
            raise ConfigError(
                f"--positive must leave another label than {quoted(one)}, got "
                f"{listed(favourable)} of {listed(classes)}: name fewer"
            )
        pair = pair.renamed(dict.fromkeys(favourable, one))
    return pair, pair.classes.index(one), messages


def _advantaged(
    choices: Sequence[str], values: dict[str, tuple[list[str], Codes]]
) -> dict[str, list[str]]:
    """The advantaged values of each column that has some."""
    chosen: dict[str, list[str]] = {}
    for choice in map(tidy, choices):
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
