"""Logs as older and other tools write them, through the command: what strangers tried in vain."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest

from tests.helpers.commands import measured, scotoma, stderr_of

pytestmark = pytest.mark.slow


@pytest.fixture
def cases(shared: Path) -> Path:
    return shared / "data" / "cases"


def compared(case: Path, *options: object, sides: tuple[str, str] = ("bf16", "int4")) -> Any:
    (one,) = measured("compare", *(case / side for side in sides), *options)["comparisons"]
    return one


def means(one: Any) -> tuple[float, float]:
    return one["score"]["before"]["value"], one["score"]["after"]["value"]


def rows(case: Path, side: str) -> list[dict[str, Any]]:
    (path,) = (case / side).rglob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("case", ["lm-eval-0.4.2-array", "lm-eval-0.4.5-no-filter"])
@pytest.mark.parametrize("place", [0, 1])
def test_filters_without_a_name_are_those_of_the_results_in_their_order(
    cases: Path, case: str, place: int
) -> None:
    folder, name = cases / case, ("strict-match", "flexible-extract")[place]
    err = stderr_of("compare", folder / "bf16", folder / "int4", code=2)
    assert "scored after 2 filters (strict-match, flexible-extract); choose one with --fil" in err
    right = []
    for side in ("bf16", "int4"):
        (path,) = (folder / side).rglob("*gsm8k*.jsonl")
        text = path.read_text()
        one = json.loads(text) if text[0] == "[" else [*map(json.loads, text.splitlines())]
        half = len(one) // 2  # the first filter's answers stand above the second's
        right.append(fmean(row["exact_match"] for row in one[place * half :][:half]))
    found = compared(folder, "--filter", name)
    assert (found["examples"], found["paired_by"]) == (100, "content_hash")
    assert means(found) == pytest.approx(right)


def test_a_perplexity_is_compared_by_the_log_likelihood_of_a_word(cases: Path) -> None:
    folder = cases / "lm-eval-perplexity-pairs"
    sides = ([row["word_perplexity"] for row in rows(folder, side)] for side in ("bf16", "int4"))
    right = [fmean(likelihood / words for likelihood, words in one) for one in sides]
    found = compared(folder)
    assert found["metric"] == "log_likelihood_per_word"
    assert not found["lower_is_better"]
    assert means(found) == pytest.approx(right)
    assert found["score"]["change"]["value"] == pytest.approx(-0.05)
    _, out, _ = scotoma("compare", folder / "bf16", folder / "int4")
    assert f"perplexity: times {math.exp(0.05):.3f}" in out


def test_a_metric_that_is_an_object_is_its_score_and_no_id(cases: Path) -> None:
    folder = cases / "lmms-eval-score-is-id"
    right = [
        fmean(row["pope_accuracy"]["score"] for row in rows(folder, side))
        for side in ("bf16", "int4")
    ]
    found = compared(folder, "--group", "category")
    assert (found["metric"], len(found["groups"])) == ("pope_accuracy.score", 3)
    assert means(found) == pytest.approx(right)
    assert [round(100 * one, 1) for one in means(found)] == [91.7, 79.3]


@pytest.mark.parametrize("options", [(), ("--reruns",)])
def test_of_a_failed_try_and_its_retry_the_retry_counts(
    cases: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    folder = cases / "inspect-retry"
    found = compared(folder, *options, sides=("bf16", "w4"))
    assert (found["examples"], tuple(found["reruns"])) == (60, (1, 1))
    assert means(found) == pytest.approx((49 / 60, 40 / 60))  # accuracy in the headers of both
    out = tmp_path / "run"
    _, _, err = scotoma("compare", folder / "bf16", folder / "w4", "--out", out, *options)
    failed, retry = sorted(path.name for path in (folder / "w4").iterdir())
    told = f"{failed} is another try of the evaluation in {retry}: left out"
    assert told in err
    whole = measured("compare", folder / "bf16", folder / "w4", *options)
    assert told in {note["sentence"] for note in whole["admission"]}
    audit = json.loads((out / "audit.json").read_text())
    assert told in {note["sentence"] for note in audit["admission"]}


def test_details_of_lighteval_before_0_10(cases: Path) -> None:
    folder = cases / "lighteval-before-0.10"
    right = []
    for side in ("bf16", "w4"):
        (path,) = (folder / side).rglob("*.parquet")
        right.append(
            fmean(ast.literal_eval(one)["acc"] for one in pl.read_parquet(path)["metrics"])
        )
    found = compared(folder, "--group", "subject", sides=("bf16", "w4"))
    assert (found["examples"], found["metric"], len(found["groups"])) == (150, "acc", 2)
    assert means(found) == pytest.approx(right)
