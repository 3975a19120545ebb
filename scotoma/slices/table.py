"""Which outcomes, labels and features does a table hold? They are read and checked here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from scotoma.answers.natural import natural_order
from scotoma.answers.pair import Pair, cluster_names, label_notes, read_ids, read_labels
from scotoma.answers.values import infer_type, is_plain, tidy
from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.printable import listed, printable, quoted
from scotoma.readers.columns import check_compared, column, columns, numbers
from scotoma.readers.tables import read_table
from scotoma.run.mirror import place_here
from scotoma.slices.find import find_slices
from scotoma.slices.judging.choose import takes_draws
from scotoma.slices.outcomes import SliceMetric
from scotoma.slices.report import ProgressCallback, SliceReport
from scotoma.slices.settings import SearchFile, SearchSettings

Values = npt.NDArray[np.generic]
FEWEST_CODES, MOST_CODES = 3, 50  # values of a column of whole numbers that may be codes
SURELY, UNSURELY = 0.001, 0.05  # p-values: its values matter; its order does not


@dataclass(frozen=True, kw_only=True)
class SlicesQuestion:
    """The options of a search of a table with one row per example; column names may be patterns.

    Attributes:
        outcome: Columns of errors 0 or 1, or of any score; with `label`, of predictions. Several
            are the members of a population.
        baseline: The same of the population that `outcome` is compared with; may be empty.
        label: Column of the true labels.
        positive: The label that is 1 for metrics of one label.
        features: Columns that may define slices; empty for every column without another part.
        categorical: Columns of numbers that are names: each value is a condition, none is a range.
        identifier: Column of example ids, which must be unique.
        cluster: Column of clusters: rows that belong together.
        runner: `beam` for tables that no machine holds; None for this machine.
        beam_options: Options of Apache Beam.
        settings: All else that decides the search.
    """

    outcome: Sequence[str]
    baseline: Sequence[str] = ()
    label: str | None = None
    positive: str | None = None
    features: Sequence[str] = ()
    categorical: Sequence[str] = ()
    identifier: str | None = None
    cluster: str | None = None
    runner: str | None = None
    beam_options: Sequence[str] = ()
    settings: SearchSettings = field(default_factory=SearchSettings)

    @property
    def asked_of_rows(self) -> list[str]:
        """The columns of outcomes, labels and ids."""
        others = [name for name in (self.label, self.identifier) if name is not None]
        return [*self.outcome, *self.baseline, *others]


def choose_columns(
    table: pl.DataFrame, question: SlicesQuestion
) -> tuple[SlicesQuestion, tuple[str, ...]]:
    """Find the columns that a question names, patterns expanded; say which are left out and why.

    Args:
        table: The table; its rows are not looked at.
        question: The options.

    Raises:
        ConfigError: An option names a column that is not there, or contradicts another.

    >>> table = pl.DataFrame({"age": [31], "wrong_0": [0], "wrong_1": [1]})
    >>> choose_columns(table, SlicesQuestion(outcome=["wrong_*"]))[0].outcome
    ['wrong_0', 'wrong_1']
    """
    _check_label(question.settings.measured, question)
    after = columns(table, question.outcome, "--outcome")
    before = columns(table, question.baseline, "--baseline")
    label = None if question.label is None else column(table, question.label, "--label")
    check_compared("outcome", after, before, label, paired=question.settings.paired)
    key = None if question.identifier is None else column(table, question.identifier, "--id")
    cluster = None if question.cluster is None else column(table, question.cluster, "--cluster")
    features, notes = _features(table, question.features, [*after, *before], [label, key, cluster])
    named = replace(
        question, outcome=after, baseline=before, label=label, identifier=key, cluster=cluster,
        features=features,
    )  # fmt: skip
    return named, notes


def read_sliced(
    table: pl.DataFrame, question: SlicesQuestion
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Turn the table into arrays, and its features into their types.

    Args:
        table: From `read_table`.
        question: The options.

    Returns:
        The arguments of `find_slices` that hold data, by name, and sentences for the reader on how
        the table was read.

    Raises:
        ConfigError: An option names a column or a value that is not there, or contradicts another.
        DataError: Outcomes, labels or ids are missing, or of another kind than the metric takes.

    >>> table = pl.DataFrame({"age": ["31", "42"], "wrong": ["0", "1"]})
    >>> data, _ = read_sliced(table, SlicesQuestion(outcome=["wrong"]))
    >>> data["features"]["age"].to_list(), data["outcome"].ravel().tolist()
    ([31, 42], [0.0, 1.0])
    """
    metric = question.settings.measured
    chosen, left_out = choose_columns(table, question)
    notes, labels, known = list(left_out), None, table
    if chosen.label is not None:
        truth = read_labels(table[chosen.label])
        known = table.filter(truth.values.is_not_null())
    if chosen.label is None or metric.kind == "auc":
        outcome, baseline = _scores(known, chosen, metric)
    if chosen.label is not None and metric.kind == "auc":
        notes += [note.sentence for note in label_notes(chosen.label, truth)]
        values = truth.values.drop_nulls()
        one = _one(natural_order(values.unique()), metric, chosen)
        labels = (values == one).cast(pl.Int64).to_numpy()
    elif chosen.label is not None:
        pair = Pair.of(
            table[chosen.label],
            {name: table[name] for name in chosen.outcome},
            {name: table[name] for name in chosen.baseline},
        )
        notes += [note.sentence for note in pair.notes]
        labels, outcome = pair.labels, pair.compressed.predicted
        baseline = None if pair.dense is None else pair.dense.predicted
        if metric.labels == "needed":
            place = pair.classes.index(
                _one(natural_order({pair.classes[at] for at in labels}), metric, chosen)
            )
            labels, outcome = ((own == place).astype(np.intp) for own in (labels, outcome))
            baseline = None if baseline is None else (baseline == place).astype(np.intp)
    features, more = _typed(known, chosen)
    wrong = outcome if labels is None or metric.kind == "auc" else outcome != labels[:, None]
    more += codes_by_their_look(features, wrong.mean(axis=1))
    ids = None if chosen.identifier is None else _ids(known[chosen.identifier])
    own = None if chosen.cluster is None else cluster_names(known[chosen.cluster])
    data = {
        "labels": labels, "outcome": outcome, "baseline": baseline, "features": features,
        "ids": ids, "clusters": None if own is None else np.array(own.to_list()),
    }  # fmt: skip
    return data, (*notes, *more)


def _typed(table: pl.DataFrame, chosen: SlicesQuestion) -> tuple[pl.DataFrame, list[str]]:
    """The features in the types that their values have, and what is odd about them."""
    features: list[pl.Series] = []
    notes: list[str] = []
    for name in chosen.features:
        try:
            series, note = infer_type(table[name], named=name in chosen.categorical)
        except DataError as error:  # bytes that are no text
            notes.append(f"{error}: it was left out")
            continue
        features.append(series)
        notes += [note] if note else []
    if not features:
        raise DataError(f"slices need at least one feature, got none that can be read: {notes[0]}")
    return pl.DataFrame(features), notes


def codes_by_their_look(
    features: pl.DataFrame, outcome: npt.NDArray[np.floating[Any]]
) -> list[str]:
    """Tell of columns of few whole numbers whose values matter, but not in their order.

    Args:
        features: From `_typed`, shape (N, F).
        outcome: Mean over the models, shape (N,).

    >>> rng = np.random.default_rng(0)
    >>> region = rng.integers(0, 5, 2000)
    >>> wrong = (rng.random(2000) < np.array([0.1, 0.5, 0.1, 0.5, 0.1])[region]).astype(float)
    >>> codes_by_their_look(pl.DataFrame({"region": region}), wrong)[0][:50]
    "column 'region' looks like codes: its 5 whole numb"
    """
    from scipy.stats import kruskal, spearmanr

    notes = []
    for feature in features:
        known = feature.is_not_null().to_numpy()
        values = feature.drop_nulls().to_numpy()
        few = feature.dtype.is_integer() and FEWEST_CODES <= feature.n_unique() <= MOST_CODES
        if not few or np.ptp(outcome[known]) == 0:
            continue
        parts = [outcome[known][values == one] for one in np.unique(values)]
        if kruskal(*parts).pvalue < SURELY and spearmanr(values, outcome[known]).pvalue > UNSURELY:
            notes.append(
                f"column {quoted(feature.name)} looks like codes: its {len(parts)} whole numbers "
                f"matter, but not in their order; --categorical {printable(feature.name)} takes "
                "them for names"
            )
    return notes


def _check_label(metric: SliceMetric, question: SlicesQuestion) -> None:
    if metric.labels == "needed" and question.label is None:
        raise ConfigError(
            f"--metric {metric.name} needs the true labels, got none: name their column with "
            "--label"
        )
    if metric.labels == "none" and question.label is not None:
        raise ConfigError(
            f"--metric {metric.name} is computed from the outcome alone, got --label too: leave "
            "it out, or choose --metric error"
        )
    if question.positive is not None and metric.labels != "needed":
        raise ConfigError(
            f"--positive is for metrics of one label, got --metric {metric.name}: leave it out"
        )


def _features(
    table: pl.DataFrame, patterns: Sequence[str], used: list[str], known: list[str | None]
) -> tuple[list[str], tuple[str, ...]]:
    """List the columns that may define slices: those named, or all that no other option names."""
    if clash := set(patterns) & set(used):
        raise ConfigError(
            f"--feature must not name an outcome or a baseline, got {quoted(min(clash))}: leave it "
            "out"
        )
    named = columns(table, patterns, "--feature") if patterns else table.columns
    parts = {*used, *(name for name in known if name is not None and name not in patterns)}
    features: list[str] = []
    notes: list[str] = []
    for name in named:
        dtype = table[name].dtype
        if name in parts:
            continue
        if name not in patterns and not is_plain(dtype):
            notes.append(f"column {quoted(name)} holds nested values: it was left out")
            continue
        if name not in patterns and re.search(r"\d", name) and _stem(name) in map(_stem, used):
            notes.append(
                f"column {quoted(name)} is named like an outcome: it was left out; add it with "
                "--feature and its full name"
            )
            continue
        features.append(name)
    if not features:
        raise ConfigError(
            f"slices need at least one feature, got none beside {listed(sorted(parts))}: add "
            "columns that describe the examples"
        )
    return features, tuple(notes)


def _stem(name: str) -> str:
    """Replace the numbers of a name: what remains is shared by the columns of a population."""
    return re.sub(r"\d+", "#", name)


def _scores(
    table: pl.DataFrame, chosen: SlicesQuestion, metric: SliceMetric
) -> tuple[Values, Values | None]:
    """Numbers of the outcome and of the baseline, shape (N, K) and (N, K')."""

    def read(names: Sequence[str]) -> Values:
        auc = metric.kind == "auc"
        columns = [numbers(table, n) if auc else _score(table, n, metric) for n in names]
        return np.stack(columns, axis=1)

    return read(chosen.outcome), read(chosen.baseline) if chosen.baseline else None


def _one(classes: Sequence[str], metric: SliceMetric, chosen: SlicesQuestion) -> str:
    """The label that is 1 for a metric of one label."""
    positive = None if chosen.positive is None else tidy(chosen.positive)
    if positive is not None and positive not in classes:
        raise ConfigError(
            f"--positive must be a value of the label, got {quoted(positive)}: choose among "
            f"{listed(classes)}"
        )
    if positive is None and not set(classes) <= {"0", "1"}:
        raise ConfigError(
            f"--metric {metric.name} needs labels 0 and 1, got {listed(classes)} in column "
            f"{quoted(str(chosen.label))}: name the label that is 1 with --positive"
        )
    return "1" if positive is None else positive


def _score(table: pl.DataFrame, name: str, metric: SliceMetric) -> npt.NDArray[np.float64]:
    """Read one outcome column as numbers; true is 1, false 0."""
    values = numbers(table, name, truths=True)
    outside = (values < 0) | (values > 1)
    if metric.kind == "rate" and outside.any():
        row = int(outside.argmax())
        way = f"choose --metric mean for any other score than a rate like {metric.name}"
        if metric.labels == "optional":
            way = f"compare predicted labels with --label, or {way}"
        raise DataError(
            f"column {quoted(name)} must lie in [0, 1] for --metric {metric.name}, got "
            f"{values[row]:g} in row {row + 1:,}: {way}"
        )
    return values


def _ids(column: pl.Series) -> Values:
    """Read ids, as integers where all are: so they split the examples as in Python."""
    rows = read_ids(column)
    series, _ = infer_type(rows)
    return series.to_numpy() if series.dtype.is_integer() else np.asarray(rows.to_list())


EVERY = 2**31  # slices that a report holds at most
PRINTED = 20
OPTIONS = {  # what the library calls by names of Python: keys of --settings are its own
    r"max_candidates=(\d[\d,]*\d)": r"\1 candidates",
    r"without a runner": "without runner: beam",
    r"pass fewer features": "name fewer with --feature",
    r"pass labels=": "name labels with --label",
    r"pass baseline=": "name it with --baseline",
    r"with positive=": "with --positive",
    r"on Beam (metric|mode) must": r"on Beam \1 must",
    r"\bmetric='(\w+)'": r"--metric \1",
    r"\b(mode|reference)[= ]'(\w+)'": r"\1: \2",
    r"metric '(\w+)'": r"--metric \1",
    r"protocol '(\w+)'": r"protocol: \1",
}


def asked_settings(
    file: SearchFile, *, metric: str | None, paired: bool, compared: bool, every: bool
) -> SearchSettings:
    """The settings of a search: those of the file, with what the command line adds.

    Args:
        file: From `load_settings`.
        metric: Replaces the file's.
        paired: Whether members of the two populations belong together.
        compared: Whether there is a baseline.
        every: Whether the report describes every slice.

    Raises:
        ConfigError: What contradicts the rest.
    """
    known = file.model_dump(exclude_unset=True, exclude={"runner", "beam_options"})
    known |= {"metric": metric} if metric else {}
    known |= {"paired": True} if paired else {}
    if file.runner is not None:
        known.setdefault("permutations", 5)  # each is several pipelines there
    known["limit"] = EVERY if every else known.get("limit", PRINTED)
    asked = SearchSettings(**known)
    with _words_of_the_command(ConfigError):
        reference = asked.compares_with(compared)
    if "bootstrap" in known and not takes_draws(asked.measured, asked.protocol, reference):
        raise ConfigError(
            f"bootstrap is for p-values from a bootstrap, got --metric {asked.metric} with "
            f"protocol: {asked.protocol}, which has none: leave it out"
        )
    return asked


def slices_of_table(
    place: str, question: SlicesQuestion, progress: ProgressCallback | None = None
) -> tuple[SliceReport, Sequence[str]]:
    """Find the slices of a table, and say what a reader should know.

    Args:
        place: CSV or Parquet, one row per example; on Beam a pattern of Parquet files.
        question: What is asked of it.
        progress: Called after each search with how many are done and how many there are.

    Raises:
        ConfigError: An option that contradicts another, or names a column that is not there.
        DataError: Anything that cannot be searched, in the words of the command.
        MissingExtra: Beam is not installed.
    """
    if question.runner is None:
        frame, guessed = read_table(place_here(place))
        data, notes = read_sliced(frame, question)
        with _words_of_the_command():
            report = find_slices(**data, settings=question.settings, progress=progress)
        return report, [*guessed, *notes, *map(_as_options, report.notes)]
    if question.identifier is None:
        raise ConfigError("runner: beam needs ids, got none: name their column with --id")
    if question.cluster is not None:
        raise ConfigError(
            "--cluster works on one machine only, got runner: beam too: leave one of them out"
        )
    from scotoma.slices.beam import open_table, search_parquet

    with _words_of_the_command():
        chosen, notes = choose_columns(open_table(place, question), question)
        report = search_parquet(place, chosen, progress=progress)
    return report, [*notes, *map(_as_options, report.notes)]


@contextmanager
def _words_of_the_command(kind: type[ScotomaError] = DataError) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise kind(_as_options(str(error))) from error


def _as_options(text: str) -> str:
    """Replace the library's names of arguments by the command's options.

    >>> _as_options("use mode='priority', lower max_cross, pass fewer features")
    'use mode: priority, lower max_cross, name fewer with --feature'
    """
    for pattern, option in OPTIONS.items():
        text = re.sub(pattern, option, text)
    return text
