"""Laws that every number of an audit keeps, whatever its question: asked of all rows at once.

What is no matter to a number must not move it: the order of rows and models, names of classes and
groups, rows that are there twice in one cluster. What is swapped must turn its sign. Rows that say
the same agree. A metric that is added is asked as soon as a planted audit has it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scotoma.audit.groups import RATE_NAMES
from scotoma.bias.clarify import METRICS
from scotoma.bias.fairness import NAMES
from tests.golden.addresses import Address, Rows, rows_of
from tests.golden.planted import (
    CLARIFY,
    NO_LABELS,
    PLANTED,
    POSITIVE,
    RATES,
    TWO,
    VARIANTS,
    Documents,
    classes,
    scores,
    searched,
)
from tests.golden.test_rows import ROWS, differences, read_rows

pytestmark = pytest.mark.slow

POSITIVES = {name: own for name, own in CLARIFY.items() if name not in ("over_index", "training")}
WORLDS: dict[str, Callable[..., Documents]] = {
    "one pair": partial(classes, seed=201, models=(1, 1), paired=True),
    "populations": partial(classes, seed=202, models=(5, 5)),
    "pairs": partial(
        classes, seed=204, models=(7, 7), n=300, paired=True, rules=RATES, **POSITIVES
    ),
    "clusters": partial(
        classes, seed=205, models=(5, 5), n=240, names=TWO, label=POSITIVE, clusters=True
    ),
    "missing answers": partial(classes, seed=207, models=(5, 5), silent=0.03),
    "no labels": partial(classes, seed=206, models=(5, 5), names=TWO, **NO_LABELS),
    "scores": partial(scores, seed=208, models=5),
}
INDEPENDENT = [name for name in WORLDS if name != "clusters"]
# What laws leave out: patterns of addresses.
HALVES = "slices / *"  # a search halves the examples by the order of their clusters
SHUFFLED = "slices / * / null.*"  # outcomes are dealt to places
SINGLE_MODELS = ("* / members.[0-9]*", "* / *members.values.*", "* / *members.se.*")
RUNS = ("fairness / * / values.*", "fairness / * / se.*")  # of each member, in their order
DRAWN = "one model / *"  # pairs are drawn by their places
BOUNDS = "clarify / * / data.value"  # classes are resampled in their order


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Documents]:
    """What the audit of a world writes."""

    @functools.cache
    def written(world: str) -> Documents:
        return WORLDS[world](tmp_path_factory.mktemp("world"))

    return written


@pytest.fixture(scope="module")
def plain(documents: Callable[[str], Documents]) -> Callable[[str], Rows]:
    """The rows of a world as it is."""
    return functools.cache(lambda world: rows_of(documents(world)))


def moved(before: Rows, after: Rows, *but: str) -> list[str]:
    """What differs, without patterns of addresses."""
    found = differences(before, after)
    return [str(one) for one in found if not any(fnmatchcase(str(one.address), p) for p in but)]


def named(rows: Rows, old: str, new: str) -> Rows:
    """Rows with another name in their addresses and words."""
    return {
        Address(*(part.replace(old, new) for part in address)): {
            field: new if value == old else value for field, value in row.items()
        }
        for address, row in rows.items()
    }


def answered(frame: pl.DataFrame) -> list[str]:
    """Columns of answers."""
    return [name for name in frame.columns if name.startswith(VARIANTS)]


@pytest.mark.parametrize("world", WORLDS)
def test_the_order_of_examples_moves_nothing(
    world: str, plain: Callable[[str], Rows], tmp_path: Path
) -> None:
    def shuffled(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.sample(fraction=1, shuffle=True, seed=5)

    assert moved(plain(world), rows_of(WORLDS[world](tmp_path, change=shuffled))) == []


@pytest.mark.parametrize("name", [name for name in PLANTED if name.startswith("slices-")])
def test_the_order_of_a_table_with_ids_moves_no_slice(name: str, tmp_path: Path) -> None:
    asked = PLANTED[name].keywords  # type: ignore[attr-defined]
    options = (*asked["options"], "--id", "example_id")
    found = []
    for seed in (None, 3, 9):

        def change(frame: pl.DataFrame, seed: int | None = seed) -> pl.DataFrame:
            return frame if seed is None else frame.sample(fraction=1, shuffle=True, seed=seed)

        again = asked | {"options": options, "change": change}
        found.append(rows_of(searched(tmp_path, **again)))
    assert [moved(found[0], other, SHUFFLED) for other in found[1:]] == [[], []]


@pytest.mark.parametrize("world", WORLDS)
def test_the_order_of_models_moves_nothing_but_their_own_numbers(
    world: str, plain: Callable[[str], Rows], tmp_path: Path
) -> None:
    def turned(frame: pl.DataFrame) -> pl.DataFrame:
        own = [[name for name in answered(frame) if name.startswith(v)] for v in VARIANTS]
        new = {a: b for names in own for a, b in zip(names, reversed(names), strict=True)}
        return frame.select(pl.col(new.get(name, name)).alias(name) for name in frame.columns)

    found = rows_of(WORLDS[world](tmp_path, change=turned))
    assert moved(plain(world), found, *SINGLE_MODELS, *RUNS, DRAWN) == []


@pytest.mark.parametrize("world", [name for name in WORLDS if name != "scores"])
def test_what_classes_are_called_moves_nothing(
    world: str, plain: Callable[[str], Rows], tmp_path: Path
) -> None:
    """A name that sorts last where it sorted first or second, which numbers all classes anew."""

    def called(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col("label", *answered(frame)).replace({"cat": "zebra"}))

    config = {}
    if "label" in WORLDS[world].keywords:  # type: ignore[attr-defined]
        label = WORLDS[world].keywords["label"]  # type: ignore[attr-defined]
        config = {"label": label | {"positive": "zebra"}}
    found = rows_of(WORLDS[world](tmp_path, change=called, **config))
    # Of three classes and five models two may tie, and the first by name is then the majority.
    ties = () if world in ("pairs", "clusters", "no labels") else TIES
    assert moved(plain(world), named(found, "zebra", "cat"), BOUNDS, *ties) == []


TIES = (
    "divergence / * / cie.cie*", "divergence / * / over_index*", "divergence / * / sum of *",
    "divergence / * / top1*", "verdict / * / cies",
)  # fmt: skip


@pytest.mark.parametrize("world", WORLDS)
def test_what_groups_are_called_moves_nothing(
    world: str, plain: Callable[[str], Rows], tmp_path: Path
) -> None:
    def called(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col("sex").replace({"f": "z"}))

    found = named(rows_of(WORLDS[world](tmp_path, change=called)), "sex=z", "sex=f")
    found = named(named(found, "sex = z", "sex = f"), "score of z", "score of f")
    assert moved(plain(world), found) == []


@pytest.mark.parametrize("world", INDEPENDENT)
def test_clusters_of_one_example_are_examples(
    world: str, plain: Callable[[str], Rows], tmp_path: Path
) -> None:
    found = rows_of(WORLDS[world](tmp_path, cluster={"column": "person"}))
    assert moved(plain(world), found, HALVES, BOUNDS) == []


NEIGHBOURS = "clarify / * / FT / *"  # of an example, a fixed number of rows
COUNTS = (
    "* / examples", "* / *.n", "* / n", "* / test", "* / cie.cie.*", "* / *n_flagged",
    "* / taxicab.*", "* / thresholds.*", "* / sum of *", "* / cies",
    "* / selection.n", "* / selection.selected",
)  # fmt: skip


@pytest.mark.parametrize("world", INDEPENDENT)
def test_examples_that_are_there_twice_in_a_cluster_count_once(
    world: str, plain: Callable[[str], Rows], tmp_path: Path
) -> None:
    """Counts of examples double; shares, their intervals, p-values and verdicts stay."""

    def doubled(frame: pl.DataFrame) -> pl.DataFrame:
        return pl.concat([frame, frame.with_columns(pl.col("example_id") + "again")])

    before = plain(world)
    found = rows_of(WORLDS[world](tmp_path, change=doubled, cluster={"column": "person"}))
    # The standard errors of members take a cluster for one that stands for all, which is cautious.
    left_out = (HALVES, BOUNDS, *RUNS, "* / *members.se.*", NEIGHBOURS)
    assert moved(before, found, *COUNTS, *left_out) == []
    for address, row in before.items():
        if address.question == "rates" and address.what == "examples":
            assert found[address]["value"] == 2 * row["value"]  # type: ignore[operator]


SWAPPED = {"dense": "compressed", "compressed": "dense"} | {
    "right_to_wrong": "wrong_to_right", "wrong_to_right": "right_to_wrong",
}  # fmt: skip
SIGNED = {"absolute", "change", "gap", "rise_a", "rise_b", "loss"}
ENDS = {"low": "high", "high": "low"}


def swapped(rows: Rows) -> Iterator[tuple[Address, dict[str, Any]]]:
    """What rates, gaps, Clarify's metrics and flips become where populations change places."""
    for address, row in rows.items():
        parts = [SWAPPED.get(part, part) for part in address.what.split(".")]
        measured = {"rates", "gaps"} | ({"clarify"} if "members" not in address.what else set())
        if address.question in measured and "data" not in parts and "selection" not in parts:
            asked = True
        else:
            asked = address.question == "divergence" and parts[0] == "ledger"
        if not asked or address.what.startswith(("dense_", "compressed_")):
            continue
        known = {name: value for name, value in row.items() if value is not None}
        if parts[-1] in SIGNED and address.what != "ledger.changed":
            turn: Callable[[Any], Any] | None = _negative
        elif parts[-1] == "relative":
            turn = _inverse
        else:
            turn = None
        if turn is not None:
            ends = {ENDS.get(name, name): known[name] for name in ("value", *ENDS) if name in known}
            rest = {name: value for name, value in known.items() if name not in ("value", *ENDS)}
            known = rest | {name: turn(value) for name, value in ends.items()}
        yield address._replace(what=".".join(parts)), known


def _negative(value: float) -> float:
    return -value


def _inverse(relative: float) -> float:
    return 1 / (1 + relative) - 1


@pytest.mark.parametrize("world", [name for name in WORLDS if name not in ("scores", "no labels")])
def test_changes_turn_their_sign_where_populations_change_places(
    world: str, plain: Callable[[str], Rows], tmp_path: Path
) -> None:
    def other_way(frame: pl.DataFrame) -> pl.DataFrame:
        turned = {"dense": "int8", "int8": "dense"}
        names = {name: name.split("_")[0] for name in answered(frame)}
        return frame.rename({name: name.replace(v, turned[v]) for name, v in names.items()})

    wanted = dict(swapped(plain(world)))
    found = rows_of(WORLDS[world](tmp_path, change=other_way))
    assert len(wanted) > 100
    assert {"relative", "gap", "ledger.right_to_wrong"} <= {address.what for address in wanted}
    assert moved(wanted, found) == []


def quantities(node: Any) -> Iterator[Mapping[str, Any]]:
    """Every estimate of a document."""
    if isinstance(node, dict):
        if {"value", "low", "high", "level"} <= node.keys():
            yield node
        for part in node.values():
            yield from quantities(part)
    elif isinstance(node, list):
        for part in node:
            yield from quantities(part)


@pytest.mark.parametrize("world", WORLDS)
def test_what_is_undefined_says_why(world: str, documents: Callable[[str], Documents]) -> None:
    found = [one for name in ("audit", "gate") for one in quantities(documents(world)[name])]
    assert len(found) > 50
    for one in found:
        if one["value"] is None or one["low"] is None or one["high"] is None:
            assert one["reason"], one
        if one["n"] == 0:
            assert one["value"] is None, one


# --- of all planted audits, as their rows are held ------------------------------------------------


@pytest.fixture(scope="module")
def held() -> dict[str, Rows]:
    """The rows of every planted audit."""
    return {path.name.partition(".")[0]: read_rows(path) for path in sorted(ROWS.glob("*.csv.gz"))}


def test_every_metric_is_planted(held: dict[str, Rows]) -> None:
    known = {(a.question, a.metric) for rows in held.values() for a in rows}
    assert known >= {("clarify", name) for name in METRICS}
    assert known >= {("fairness", name) for name in NAMES}
    assert known >= {("rates", name) for name in RATE_NAMES}


def test_intervals_hold_their_numbers_and_p_values_are_fractions(held: dict[str, Rows]) -> None:
    p_values = {"p", "q", "p_adjusted", "harm_p", "harm_p_adjusted", "noninferiority_p", "u_p"}
    for name, rows in held.items():
        for address, row in rows.items():
            where = f"{name}: {address} {row}"
            value, low, high = (row.get(field) for field in ("value", "low", "high"))
            if isinstance(value, float) and "level" in row:
                assert row["n"] != 0, where
                if isinstance(low, float):
                    assert low <= value + 1e-12, where
                if isinstance(high, float):
                    assert value <= high + 1e-12, where
            if row.get("scale") == "logit" and isinstance(low, float) and isinstance(high, float):
                assert 0 <= low <= high <= 1, where
            if address.what.rpartition(".")[2] in p_values and isinstance(value, float):
                assert 0 <= value <= 1, where


def test_no_number_rests_on_more_events_than_it_has_examples(held: dict[str, Rows]) -> None:
    for name, rows in held.items():
        for address, row in rows.items():
            events, n = row.get("effective_events"), row.get("n")
            if isinstance(events, float) and isinstance(n, float):
                assert events <= n * (1 + 1e-9), f"{name}: {address} {row}"


def test_rows_that_say_the_same_agree(held: dict[str, Rows]) -> None:
    """Differences are those of their parts, and no two questions answer one thing in two ways."""
    asked = 0
    for name, rows in held.items():
        for address, row in rows.items():
            for wanted, how in implied(rows, address):
                value = row.get(how)
                assert isinstance(value, float), f"{name}: {address}.{how}"
                assert math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-9), (
                    f"{name}: {address}.{how} is {value:.12g}, others say {wanted:.12g}"
                )
                asked += 1
    assert asked > 5_000


def implied(rows: Rows, at: Address) -> Iterator[tuple[float, str]]:
    """What other rows say of a row: number and field."""

    def value(field: str = "value", **place: str) -> Any:
        return rows.get(at._replace(**place), {}).get(field, math.nan)

    if (at.question, at.what) in DIFFERENCES:
        minuend, subtrahend = (value(what=w) for w in DIFFERENCES[at.question, at.what])
        # One of a few members may have no ratio: the change then counts all members together.
        if not (at.metric == "TE" or math.isnan(minuend - subtrahend) or at.metric == "CDDPL"):
            yield minuend - subtrahend, "value"
    if at.question == "rates" and at.what == "absolute":
        total = value(what="absolute_variance.total")
        if "se" in rows[at]:
            yield math.sqrt(total), "se"
    if at.question == "rates" and at.what == "relative" and "value" in rows[at]:
        yield value(what="compressed") / value(what="dense") - 1, "value"
    if at.question == "accuracy" and at.what == "top1":
        side = "dense" if at.variant == "dense" else "compressed"
        rate = Address("rates", "int8", "error", "all", what=side)
        for field, other in (("value", "value"), ("low", "high"), ("high", "low")):
            if rate in rows and field in rows[at]:
                yield 1 - rows[rate][other], field  # type: ignore[operator]
    if at.question == "impact" and at.what.endswith("_recall"):
        rate = Address("rates", at.variant, "fnr", "all", at.class_name, what=at.what[:-7])
        if "value" in rows.get(rate, {}) and "value" in rows[at]:
            yield 1 - rows[rate]["value"], "value"  # type: ignore[operator]
    if at.question == "verdict" and at.what in ("absolute", "relative") and at.metric in RATE_NAMES:
        rate = Address("rates", at.variant, at.metric, at.group, at.class_name, what=at.what)
        for field, number in rows.get(rate, {}).items():
            if isinstance(number, float) and field in rows[at] and field != "level":
                yield number, field
    if at.question == "slices" and at.what == "overall":
        rate = Address("rates", at.variant, "error", "all", what="compressed")
        for field in ("value", "low", "high"):
            if field in rows.get(rate, {}):
                yield rows[rate][field], field  # type: ignore[misc]


DIFFERENCES = {
    ("clarify", "change"): ("compressed", "dense"),
    ("divergence", "cie.excess"): ("cie.disagreement", "cie.floor"),
    ("gaps", "gap"): ("rise_b", "rise_a"),
    ("rates", "absolute"): ("compressed", "dense"),
    ("robustness", "sets.rows.difference"): ("sets.rows.accuracy", "sets.dense"),
    ("scores", "means.absolute"): ("means.compressed", "means.dense"),
    ("scores", "quantiles.absolute"): ("quantiles.compressed", "quantiles.dense"),
    ("boxes", "change"): ("compressed", "dense"),
}
