"""Answers in memory are measured and judged as the same answers in files are."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import scotoma
from scotoma.errors import DataError
from tests.helpers.commands import scotoma as command

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("steps_here")]

N = 400
CONFIG = """\
source: {{kind: predictions, files: "{{variant}}.csv", examples: examples.csv}}
label: {{{label}}}
groups: {{sex: {{column: sex}}, age: {{column: age}}, intersections: []}}
variants: [dense, {{predictions: [int8], paired: {paired}}}]
{more}
tracking: {{uri: "off"}}
"""


def planted(models: int, *, silent: bool = False) -> dict[str, Any]:
    """Three classes, two attributes, clusters; the second population errs more on `f`."""
    rng = np.random.default_rng(models)
    y = rng.integers(0, 3, N)
    sex, age = np.where(rng.random(N) < 0.4, "f", "m"), rng.integers(18, 90, N)

    def side(share: Any) -> Any:
        wrong = rng.random((N, models)) < np.broadcast_to(share, N)[:, None]
        answers = np.array(["cat", "dog", "owl"], object)[(y[:, None] + wrong) % 3]
        if silent:
            answers[:7, 0] = None
        return answers

    return {
        "y": np.array(["cat", "dog", "owl"])[y], "dense": side(0.08),
        "compressed": side(np.where(sex == "f", 0.2, 0.08)), "sex": sex, "age": age,
        "person": rng.integers(0, 200, N),
    }  # fmt: skip


def by_command(home: Path, one: dict[str, Any], **said: Any) -> Any:
    """The audit that `scotoma audit` makes of the same answers."""
    ids = [f"e{row:03}" for row in range(N)]
    table = {"example_id": ids, "label": one["y"], "sex": one["sex"], "age": one["age"]}
    pl.DataFrame(table | {"person": one["person"]}).write_csv(home / "examples.csv")
    for name, side in (("dense", "dense"), ("int8", "compressed")):
        parts = [
            pl.DataFrame(
                {"example_id": ids, "predicted": pl.Series(list(own)), "model": [str(k)] * N}
            )
            for k, own in enumerate(one[side].T)
        ]
        pl.concat(parts, how="vertical_relaxed").write_csv(home / f"{name}.csv")
    (home / "audit.yaml").write_text(CONFIG.format(**said))
    code, _, err = command("audit", home / "audit.yaml", "--out", home / "run", "--quiet")
    assert code in (0, 1, 3), err
    return scotoma.open(home / "run")


@pytest.mark.parametrize(("models", "paired"), [(1, True), (5, False)])
@pytest.mark.parametrize(
    ("positive", "clusters", "silent"),
    [(None, False, False), ("dog", True, False), (None, False, True)],
)
def test_a_notebook_and_the_command_say_the_same(
    models: int, paired: bool, positive: str | None, clusters: bool, silent: bool, tmp_path: Path
) -> None:
    one = planted(models, silent=silent)
    label = "column: label" + (f", positive: {positive}" if positive else "")
    more = "cluster: {column: person}" if clusters else ""
    audited = by_command(tmp_path, one, label=label, paired=str(paired).lower(), more=more)
    pair = scotoma.pair(
        one["y"], one["dense"], one["compressed"], paired=paired,
        groups={"sex": one["sex"], "age": one["age"]},
        clusters=one["person"] if clusters else None,
    )  # fmt: skip
    found = scotoma.judge(pair, positive=positive)
    assert (found.verdict, found.tests.height) == (audited.verdict, audited.tests.height)
    renamed = found.tests.with_columns(variant=pl.lit("int8"))
    assert_frame_equal(renamed, audited.tests, check_row_order=False)
    everything = scotoma.measure(pair, positive=positive).with_columns(
        variant=pl.col("variant").replace("compressed", "int8")
    )
    expected = audited.numbers.filter(pl.col("question") != "slices")
    assert everything.height > 50
    assert_frame_equal(everything, expected, check_row_order=False)


def test_the_page_on_notebooks_says_what_they_say() -> None:
    page = Path(__file__).parents[2] / "docs" / "notebook.md"
    done = doctest.testfile(str(page), module_relative=False)
    assert (done.failed, done.attempted > 10) == (0, True)
    assert_every_task_has_rows(page.read_text())


def assert_every_task_has_rows(page: str) -> None:
    """Each task of the page's table is a filter that finds something."""
    one = planted(5)
    pair = scotoma.pair(
        one["y"], one["dense"], one["compressed"], groups={"sex": one["sex"]}, paired=True
    )
    names = {"rows": scotoma.measure(pair, positive="dog"), "pair": pair, "scotoma": scotoma}
    tasks = re.findall(r"^\| [^|]+ \| `([^`]+)` \|$", page, re.MULTILINE)
    assert len(tasks) == 8
    for task in tasks:
        assert eval(task, names).height, task


def test_pairs_without_labels_are_judged_by_what_changes() -> None:
    answers = np.arange(600) % 3
    changed = np.where(np.arange(600) < 60, (answers + 1) % 3, answers)
    found = scotoma.judge(scotoma.pair(None, answers, changed))
    assert found.verdict == "FAIL"
    assert found.deciding["change"].to_list() == [0.1]
    same = scotoma.judge(scotoma.pair(None, answers, answers))
    assert same.verdict == "PASS"


def test_rules_are_a_file_or_its_text(tmp_path: Path) -> None:
    y = [0, 1] * 400
    pair = scotoma.pair(y, y, [1, 1] * 40 + y[80:])
    text = "rules:\n  - {id: all, metric: error, over: all, max_increase: {absolute: 0.2}}\n"
    (tmp_path / "gate.yaml").write_text(text)
    for rules in (text, tmp_path / "gate.yaml", str(tmp_path / "gate.yaml")):
        found = scotoma.judge(pair, rules)
        assert (found.verdict, found.tests["rule"].to_list()) == ("PASS", ["all"])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda p: scotoma.judge(p, positive="bird"),
            "positive must be one of .* got 'bird'",
        ),
        (
            lambda p: scotoma.judge(
                scotoma.pair([0, 1], [0, 1], [0, 1], groups={"split": ["a", "b"]})
            ),
            "groups must have names of their own, got 'split'; call the attribute something else",
        ),
        (lambda p: scotoma.find_slices(p), "slices need .* got none; pass them to scotoma.pair"),
        (
            lambda p: scotoma.judge(scotoma.pair(None, ["a"] * 9, ["a"] * 9)),
            "y must hold at least two classes, got 'a' alone; pass examples of every class",
        ),
        (lambda p: scotoma.judge(p, advantaged={"sex": "m"}), "advantaged .* 'sex'"),
    ],
)
def test_bad_input_gets_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        call(scotoma.pair([0, 1], [0, 1], [0, 1]))


def test_a_search_for_slices_is_shown_as_a_table_without_markup_of_names() -> None:
    rows = np.arange(2000)
    sex = np.where(rows % 2, "<b>f</b>", "m")
    y, dense = rows % 3 == 0, rows % 3 == 0
    int8 = np.where((rows % 2 == 1) & (rows % 5 == 0), ~dense, dense)
    report = scotoma.find_slices(scotoma.pair(y, dense, int8, groups={"sex": sex}))
    html = report._repr_html_()
    assert "<table" in html
    assert "sex = &lt;b&gt;f&lt;/b&gt;" in html
    assert "<b>" not in html
