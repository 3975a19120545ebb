"""Which labels, predictions and groups does one table hold?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.favourable import with_favourable
from scotoma.answers.groups import GroupColumn, Groups, parse_groups
from scotoma.answers.pair import Pair
from scotoma.answers.values import tidy
from scotoma.bias.clarify.arguments import standardised
from scotoma.errors import ConfigError, DataError
from scotoma.numbers import check_level
from scotoma.printable import quoted
from scotoma.readers.columns import (
    Texts,
    check_compared,
    column,
    columns,
    label_column,
    numbers,
    texts,
    widened,
)
from scotoma.readers.tables import read_table
from scotoma.run.mirror import place_here

Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class BiasQuestion:
    """What to measure in a table with one row per example; options of `scotoma compare`.

    Attributes:
        label: Column of the true labels; empty for the four-fifths rule, which needs none.
        predicted: Columns of predicted labels, one a model, or patterns such as `pruned_*`.
        baseline: The same for the models that `predicted` is compared with; may be empty.
        group: Columns whose values are groups, or COLUMN: and how they are put together, as
            `parse_groups` reads them.
        examples: Table of labels and groups, where the other has predictions alone.
        advantaged: Values of group columns, VALUE or COLUMN=VALUE, against whom the Clarify metrics
            set the rest; a column without one has each value set against the rest in turn.
        intersections: Also measure every combination of values of the group columns.
        positive: The label that is the favourable outcome, or several, which then count as one
            class; empty for every class against the rest.
        identifier: Column of example ids, which must be unique.
        cluster: Column of clusters: rows that belong together.
        strata: Column of the strata of CDDL and CDDPL.
        feature: Columns of numbers by which FT finds an example's likes.
        paired: Each predicted model derives from the baseline model at the same place.
        level: Coverage of the intervals, a fraction in (0, 1).
        seed: Of the bootstraps behind upper bounds.
    """

    predicted: Sequence[str]
    group: Sequence[str]
    label: str = ""
    baseline: Sequence[str] = ()
    examples: str = ""
    advantaged: Sequence[str] = ()
    intersections: bool = False
    positive: Sequence[str] = ()
    identifier: str = ""
    cluster: str = ""
    strata: str = ""
    feature: Sequence[str] = ()
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
        name: What the table is called.
        pair: Labels, answers and groups; several favourable labels are one class.
        positive: Class id of the favourable outcome, or None.
        facets: For the Clarify metrics.
        strata: Shape (N,), or None.
        features: Of standard deviation 1, shape (N, F), or None.
        messages: What a reader should know about how the table was read.
    """

    name: str
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


def read_bias_table(place: str, question: BiasQuestion, *, labelled: bool = True) -> BiasTable:
    """The table as arrays.

    Args:
        place: CSV or Parquet, one row per example; with `examples` one row per example and model.
        question: What is asked.
        labelled: Whether labels are needed, so that their column is guessed where none is named.

    Raises:
        ConfigError: An option names a column or a value that is not there, or contradicts another.
        DataError: Ids, labels or predictions are missing or repeated, or a group stands alone.
    """
    check_level(question.level)
    path = place_here(place)
    table, notes = read_table(path)
    if question.examples:
        examples, more = read_table(place_here(question.examples))
        wide = widened(
            table, examples, question.predicted, question.baseline,
            identifier=question.identifier, paired=question.paired,
        )  # fmt: skip
        table, notes = wide.frame, (*notes, *more)
        question = replace(
            question, predicted=wide.predicted, baseline=wide.baseline, identifier=wide.identifier
        )
    label, after, before, more = model_columns(table, question, labelled=labelled)
    notes = (*notes, *more)
    rules = group_rules(table, question.group)
    named = {
        "--cluster": question.cluster,
        "--id": question.identifier,
        "--strata": question.strata,
    }
    cluster, identifier, strata = (name and column(table, name, o) for o, name in named.items())
    features = columns(table, question.feature, "--feature")
    described = [*features, *([strata] if strata else [])]
    pair = Pair.of(
        table[label] if label else None,
        {name: table[name] for name in after},
        {name: table[name] for name in before},
        groups={name: table[name] for name in rules},
        rules=rules,
        crossed=[list(rules)] if question.intersections and len(rules) > 1 else [],
        cluster=table[cluster] if cluster else None,
        ids=table[identifier] if identifier else None,
        features=table.select(described) if described else None,
        paired=question.paired,
    )
    pair, positive, messages = with_favourable(pair, question.positive)
    if not positive:
        messages.append(
            "no --positive: measuring each class against the rest, without metrics of an outcome"
        )
    if len(pair.classes) < 2:
        labels_and = f"label {quoted(label)} and " if label else ""
        raise DataError(
            f"{labels_and}all predictions are {quoted(pair.classes[0])}: bias needs "
            "at least two classes"
        )
    groups = pair.examples.groups
    _refuse_one_value(groups)
    known = pair.examples.features
    return BiasTable(
        name=path.name,
        pair=pair,
        positive=pair.classes.index(positive) if positive else None,
        facets=list(_facets(groups.coded, _advantaged(question.advantaged, groups.coded))),
        strata=texts(known, strata).astype(str) if strata and known is not None else None,
        features=None if known is None else _scaled(known, features),
        messages=(*notes, *(note.sentence for note in pair.notes), *messages),
    )


def model_columns(
    table: pl.DataFrame, question: BiasQuestion, *, labelled: bool
) -> tuple[str, list[str], list[str], tuple[str, ...]]:
    """Find the columns of the label (empty without one), of the models and of their baseline.

    Args:
        table: From `read_table`.
        question: What is asked.
        labelled: Whether a label is needed.

    Returns:
        The columns, and what was guessed.

    Raises:
        ConfigError: A column is not there, or named twice.
    """
    guessed: tuple[str, ...] = ()
    label = question.label
    if label or labelled:
        label, guessed = label_column(table, label)
    after = columns(table, question.predicted, "--predicted")
    before = columns(table, question.baseline, "--baseline")
    if not after:
        raise ConfigError("--predicted must name at least one column, got none: name one per model")
    if not question.group:
        raise ConfigError("--group is missing; name the columns whose values are groups")
    check_compared("predicted", after, before, label or None, paired=question.paired)
    return label, after, before, guessed


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
