from __future__ import annotations

import copy
import datetime
import functools
import unicodedata
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scotoma.audit import plain
from scotoma.audit.base import At
from scotoma.config import parse_config
from scotoma.config.gate import default_rules
from scotoma.datasets import AuditedExamples
from scotoma.datasets.select_examples import examples_from_source
from scotoma.document.text import document_text
from scotoma.impact import worst_change as worst
from scotoma.predictions import Predictions
from scotoma.printable import printable
from scotoma.report import summary as summaries
from scotoma.run import Run, write_json
from tests.helpers.audits import accuracy, addresses, changes, judge, rows_at, whole
from tests.helpers.networks import write_network_predictions

CONFIG = """\
project: digits-s
label: {column: digit}
groups:
  style: {column: style}
  exposure: {column: exposure}
cluster: {column: source_id}
advantaged: {style: styled}
variants: [dense, {prune: [0.5, 0.95]}, {int8: [static]}]
population: {models: 10}
"""
gaps = functools.partial(addresses, question="gaps")
ERRORS = {"dense": 0.03, "prune-0.5": 0.05, "prune-0.95": 0.15, "int8-static": 0.03}
SOURCES = 150  # of the test split; each stands there once in each style


@pytest.fixture(scope="module")
def assembled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What audit.json holds, from predictions made up in which the error rises for the minority."""
    from scotoma.steps.bias import bias
    from scotoma.steps.divergence import divergence
    from scotoma.steps.judging import assemble as assembling

    config = parse_config(CONFIG, "audit.yaml")
    run = Run.create(tmp_path_factory.mktemp("summary") / "run", config)
    rng = np.random.default_rng(3)
    digits = rng.integers(0, 5, SOURCES)
    rows = [
        {
            "example_id": f"{split}-{source}-{style}",
            "split": split,
            "digit": str(digit),
            "style": style,
            "exposure": "majority" if (style == "plain") == (digit % 2 == 0) else "minority",
            "source_id": f"{split}-{source}",
            "image": {"bytes": b"", "path": ""},
        }
        for split in ("train", "test")
        for source, digit in enumerate(digits)
        for style in ("plain", "styled")
    ]
    examples_from_source(pl.DataFrame(rows), config, "digits-s").write(run.examples)
    test = AuditedExamples.read(run.examples).split("test")
    run.path("predictions").mkdir()
    factor = np.where(test.table["exposure"] == "minority", 3.0, 0.5)[:, None]
    for variant, rate in ERRORS.items():
        wrong = rng.random((len(test.ids), 10)) < rate * factor
        predicted = np.where(wrong, (test.labels[:, None] + 1) % 5, test.labels[:, None])
        predictions = Predictions(
            variant,
            predicted.astype(np.uint16),
            tuple(test.ids),
            tuple(range(10)),
            test.classes,
            "dense" if variant.startswith("int8") else "",
        )
        predictions.write(run.predictions(variant))
        if variant == "dense":
            write_network_predictions(run, predictions)
    divergence(run)
    bias(run)
    write_json(run.section("slices"), {})
    return plain(assembling.assemble(run, AuditedExamples.read(run.examples)))


@pytest.fixture
def audit(assembled: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(assembled)


def summary(audit: dict[str, Any]) -> str:
    gate = judge(audit, default_rules(positive=False), datetime.date(2027, 3, 1))
    return document_text(summaries.summary(whole(audit), gate)) + "\n"


def worst_change(audit: dict[str, Any], variant: str) -> At | None:
    return worst.worst_change(whole(audit), variant)


def audit_names(audit: dict[str, Any]) -> dict[str, str]:
    return {group["key"]: group["name"] for group in audit["groups"]}


def line_of(audit: dict[str, Any], variant: str) -> str:
    lines = summary(audit).split("\n")
    return next(line for line in lines if line.split()[1:2] == [variant])


def cells_of(audit: dict[str, Any], variant: str) -> list[str]:
    """Words of a line: verdict, variant, top-1 and half its interval, CIEs, the rest."""
    return line_of(audit, variant).split()


def renamed(audit: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    for group in audit["groups"]:
        group["name"] = names.get(group["key"], group["name"])
    return audit


# --- its shape ------------------------------------------------------------------------------------


def test_the_summary_fits_80_columns(audit: dict[str, Any]) -> None:
    wide = [line for line in summary(audit).split("\n") if len(line) > 80]
    assert wide == []


def test_the_summary_of_a_large_audit_fits_80_columns(audit: dict[str, Any]) -> None:
    """Numbers of the size of CelebA's, as the CIE paper prints them."""
    audit["examples"] |= {"test": 19_962, "clusters": 19_962}
    audit["project"] = "celeba-blond"
    renamed(audit, {"exposure=minority": "male & old", "exposure=majority": "female & young"})
    for variant in audit["divergence"]:
        cie = changes(audit, variant)["cie"]
        cie["n"] = 19_962
        cie["cie"]["count"] = 5_057
        cie["floor"] |= {"value": 0.1234, "low": 0.12, "high": 0.13}
        cie["excess"] |= {"value": 0.203, "low": 0.181, "high": 0.225}
    for row in audit["rows"]["rates"]:
        if row["group"] == "exposure=minority" and "class" not in row:
            row["metric"] = "fpr"
            if row["what"] == "relative":
                row["number"] |= {"value": 10.2, "low": 8.8, "high": 11.7}
            if row["what"] == "absolute":
                row["number"] |= {"value": 0.351, "low": 0.332, "high": 0.37}
    text = summary(audit)
    assert "5,057" in text
    assert "male & old" in text
    assert [line for line in text.split("\n") if len(line) > 80] == []


def test_every_variant_has_its_line_in_the_order_of_the_audit(audit: dict[str, Any]) -> None:
    seconds = [line.split()[1] for line in summary(audit).split("\n") if len(line.split()) > 2]
    assert [second for second in seconds if second in ERRORS] == list(ERRORS)
    assert summary(audit).endswith("\n")


def test_what_the_numbers_rest_on_stands_above_them(audit: dict[str, Any]) -> None:
    head, rest = summary(audit).split("dense", 1)
    for part in ("digits-s", "300 test examples", "150 clusters", ", 10 members a", "95%"):
        assert part in head
    assert "300 test examples" not in rest


def test_a_line_shows_accuracy_cies_excess_and_the_worst_change(audit: dict[str, Any]) -> None:
    for variant in list(ERRORS)[1:]:
        line = line_of(audit, variant)
        top1 = accuracy(audit, variant)["top1"]
        cie = changes(audit, variant)["cie"]
        worst = worst_change(audit, variant)
        assert worst is not None
        half = max(top1["value"] - top1["low"], top1["high"] - top1["value"])
        assert f"{100 * top1['value']:.1f}% ±{100 * half:.1f} " in line
        assert f" {cie['cie']['count']} " in line
        differ = changes(audit, variant)["flips"] or cie["disagreement"]
        half = max(differ["value"] - differ["low"], differ["high"] - differ["value"])
        assert f" {100 * differ['value']:.1f}% ±{100 * half:.1f} " in line
        rise = worst["absolute"].number
        low, high = 100 * (rise.low or 0.0), 100 * (rise.high or 0.0)
        shown = f"{100 * (rise.value or 0.0):+.1f} [{low:+.1f}, {high:+.1f}]"
        assert shown.replace("-", "−") in line
        assert audit_names(audit)[str(worst["absolute"].group)] in summary(audit)


def test_dense_is_compared_with_nothing_but_other_dense_models(audit: dict[str, Any]) -> None:
    floor = changes(audit, "prune-0.5")["cie"]["floor"]
    floor |= {"value": 0.0449, "low": 0.04, "high": 0.05}
    assert cells_of(audit, "dense")[4:] == ["4.5%", "±0.5"]
    assert "[" not in line_of(audit, "dense")


def test_it_names_the_group_whose_error_rises_more(audit: dict[str, Any]) -> None:
    start = summary(audit).index("prune-0.95: error rises")
    worst = " ".join(summary(audit)[start:].split())
    (at,) = gaps(audit, variant="prune-0.95", attribute="exposure")
    gap = at["gap"]["number"]
    assert worst.index("minority") < worst.index("majority")
    shown = [abs(100 * gap[key]) for key in ("value", "low", "high")]
    assert f"{shown[0]:.1f} points" in worst
    assert f"[{min(shown[1:]):.1f}, {max(shown[1:]):.1f}]" in worst


def test_a_gap_of_too_few_events_is_printed_with_its_n_and_shows_no_harm(
    audit: dict[str, Any],
) -> None:
    (gap,) = gaps(audit, variant="prune-0.95", attribute="exposure")
    gap["p"]["number"]["value"], gap["p_adjusted"]["number"]["value"] = 1e-9, None
    few = next(key for key in ("a", "b") if "minority" in gap[f"group_{key}"])
    gap[f"rise_{few}"]["number"] |= {"n": 4, "effective_events": 0.0}
    text = " ".join(summary(audit).split())
    assert "than for majority: too few to show harm (4 examples of minority)" in text
    gap["p"]["number"]["value"] = 0.2
    assert "too few" not in summary(audit)


def test_an_audit_compares_with_the_advantaged_group_of_its_configuration(
    audit: dict[str, Any],
) -> None:
    for variant in ("prune-0.5", "prune-0.95"):
        found = gaps(audit, variant=variant)
        pairs = {gap["attribute"]: (gap["group_a"], gap["group_b"]) for gap in found}
        assert pairs == {
            "style": ("style=styled", "style=plain"),  # without it plain, the first of the two
            "exposure": ("exposure=majority", "exposure=minority"),
        }
    rows = (row["facts"] for row in audit["rows"]["clarify"] if row["what"] == "labels")
    facets = {facts["attribute"]: facts["advantaged"] for facts in rows}
    assert facets["style"] == "style=styled"


def test_the_more_affected_group_does_not_depend_on_which_group_is_named_first(
    audit: dict[str, Any],
) -> None:
    before = summary(audit)
    for row in audit["rows"]["gaps"]:
        facts, number = row["facts"], row["number"]
        facts["group_a"], facts["group_b"] = facts["group_b"], facts["group_a"]
        if row["what"] == "gap":
            turned = {key: number[key] for key in ("value", "low", "high")}
            number |= {
                "value": -turned["value"],
                "low": -turned["high"],
                "high": -turned["low"],
            }
    assert summary(audit) == before


def test_nobody_is_said_to_pay_where_an_interval_holds_zero(audit: dict[str, Any]) -> None:
    text = summary(audit)
    for gap in gaps(audit):
        if gap["gap"]["number"]["low"] <= 0 <= gap["gap"]["number"]["high"]:
            names = [key.partition("=")[2] for key in (gap["group_a"], gap["group_b"])]
            assert not [
                line
                for line in text.split("\n")
                if line.startswith(f"{gap['variant']}: ") and all(name in line for name in names)
            ]


@pytest.mark.parametrize(("members", "warned"), [(1, True), (2, True), (4, True), (10, False)])
def test_few_members_are_said_to_be_few(audit: dict[str, Any], members: int, warned: bool) -> None:
    for variant in audit["variants"]:
        variant["members"] = members
    words = "One model a side: CIEs are the flips" if members == 1 else "unstable"
    assert (words in summary(audit)) == warned


def test_relative_changes_are_left_out_where_they_would_break_a_line(
    audit: dict[str, Any],
) -> None:
    """With a name of 8 letters one line would be longer than 80 columns: no line has them."""
    assert line_of(audit, "prune-0.95").endswith("]  minority")
    assert "%)" not in summary(audit)
    assert "After the group: the relative change" not in " ".join(summary(audit).split())


def test_what_corruption_costs_is_said_with_the_group_that_surely_loses_most(
    audit: dict[str, Any],
) -> None:
    def loss(group: str, family: str, value: float, p: float | None) -> list[dict[str, Any]]:
        number = {"value": value, "low": value - 0.01, "high": value + 0.02, "n": 300}
        numbers: dict[str, Any] = {"losses.absolute": number}
        if p is not None:
            numbers |= {"losses.contrast": number, "losses.p_adjusted": p}
        address = {"variant": "prune-0.95", "group": group, "metric": "error"}
        return rows_at(address | {"facts": {"family": family}}, numbers)

    audit["rows"]["robustness"] = [
        row
        for one in (
            loss("all", "all", -0.003, None), loss("style=plain", "noise", 0.02, 0.01),
            loss("style=styled", "blur", 0.028, 0.04), loss("style=plain", "fog", 0.5, 0.06),
        )
        for row in one
    ]  # fmt: skip
    text = " ".join(summary(audit).split())
    assert (
        "prune-0.95: corrupted pictures cost −0.3 points [−1.3, 1.7] of accuracy more than dense "
        "loses; under blur, styled loses 2.8 points [1.8, 4.8] more than the other examples"
    ) in text
    assert "prune-0.5: corrupted" not in text


# --- undefined stays undefined --------------------------------------------------------------------

UNDEFINED = {"value": None, "low": None, "high": None, "reason": "not estimable"}


def test_models_that_differ_stand_beside_the_floor_and_copies_alone(audit: dict[str, Any]) -> None:
    cie = changes(audit, "prune-0.5")["cie"]
    cie["disagreement"]["value"], cie["floor"]["value"] = 0.0771, 0.0449
    changes(audit, "int8-static")["flips"]["value"] = 0.0112
    assert cells_of(audit, "prune-0.5")[5] == "7.7%"
    assert cells_of(audit, "dense")[4] == "4.5%"
    assert cells_of(audit, "int8-static")[5] == "1.1%"
    assert "the noise floor" in " ".join(summary(audit).split())
    cie["floor"] |= UNDEFINED
    assert len(cells_of(audit, "dense")) == 4
    assert "floor" not in summary(audit)


def test_a_difference_that_is_not_known_is_called_so_with_its_reason(
    audit: dict[str, Any],
) -> None:
    changes(audit, "prune-0.5")["cie"]["disagreement"] |= UNDEFINED
    text = " ".join(summary(audit).split())
    assert "undefined" in line_of(audit, "prune-0.5")
    assert "not estimable" in text
    assert "None" not in text
    assert "nan" not in text


def test_a_value_without_an_interval_stands_alone(audit: dict[str, Any]) -> None:
    for part in (
        changes(audit, "prune-0.5")["cie"]["disagreement"],
        accuracy(audit, "prune-0.5")["top1"],
    ):
        part |= {"low": None, "high": None}
    line = line_of(audit, "prune-0.5")
    assert "±" not in line
    assert "None" not in line
    assert line.count("[") == 1  # that of the worst change


def test_a_change_that_is_nowhere_estimable_is_not_shown(audit: dict[str, Any]) -> None:
    for at in addresses(audit, "rates", variant="prune-0.5"):
        at["absolute"]["number"] |= UNDEFINED
    assert worst_change(audit, "prune-0.5") is None
    assert "[" not in line_of(audit, "prune-0.5")


def test_a_gap_that_is_not_estimable_is_not_told(audit: dict[str, Any]) -> None:
    for row in audit["rows"]["gaps"]:
        row["number"] |= UNDEFINED
    assert not [line for line in summary(audit).split("\n") if line.startswith("prune-0.95: ")]


@given(
    lows=st.lists(st.none() | st.floats(-100, 1000), max_size=6),
    classes=st.lists(st.sampled_from([None, None, "3"]), min_size=6, max_size=6),
    events=st.lists(st.sampled_from([None, 9.9, 10.0, 70.0]), min_size=6, max_size=6),
)
def test_the_worst_change_has_the_highest_lower_end(
    lows: list[float | None], classes: list[str | None], events: list[float | None]
) -> None:
    rows = [
        {
            "group": "all",
            "metric": f"metric {place}",
            "class": name,
            "absolute": {"low": low, "value": -(low or 0.0)},
            "compressed": {"effective_events": carried},
        }
        for place, (name, low, carried) in enumerate(zip(classes, lows, events, strict=False))
    ]
    # Slow twin: look at one after the other.
    best = None
    for row in rows:
        low, carried = row["absolute"]["low"], row["compressed"]["effective_events"]
        if row["class"] is not None or low is None or carried is None or carried < 10:
            continue
        best = low if best is None else max(best, low)
    worst = worst_change(
        {"variants": [{"name": "dense"}, {"name": "v"}], "subgroups": {"v": rows}}, "v"
    )
    assert (None if worst is None else worst["absolute"].number.low) == best


# --- hostile names --------------------------------------------------------------------------------

HOSTILE = ["\x1b[31mred\x1b[2J", "two\nlines", "tab\tand\rreturn", "\u202eturned", "\x9b31m", "\0"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_cannot_steer_the_terminal(audit: dict[str, Any], name: str) -> None:
    keys = [group["key"] for group in audit["groups"]]
    text = summary(renamed(audit, dict.fromkeys(keys, name)))
    # A line break in a name would part it; those of the wrapping do not count.
    assert " ".join(printable(name).split()) in " ".join(text.split())
    assert not [line for line in text.split("\n") if line.startswith(("lines", "return"))]
    assert not [c for c in text if unicodedata.category(c)[0] == "C" and c != "\n"]


def test_a_name_that_looks_like_markup_is_printed_as_it_is(audit: dict[str, Any]) -> None:
    text = summary(renamed(audit, {"exposure=minority": "[red]x[/red]"}))
    assert "[red]x[/red]" in text


@given(text=st.text())
def test_printable_text_has_no_control_characters_and_keeps_its_length(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert not [c for c in shown if unicodedata.category(c)[0] == "C"]
    assert printable(shown) == shown


@given(text=st.text(st.characters(categories=["L", "N", "P", "S"]) | st.just(" ")))
def test_ordinary_text_is_printed_as_it_is(text: str) -> None:
    assert printable(text) == text
