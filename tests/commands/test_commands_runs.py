"""Commands on finished audits and before a first one: examples, diff, init, planted harm, guide."""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image
from scipy import stats

from scotoma.bias.clarify import METRICS
from scotoma.bias.clarify.guide import GUIDE
from scotoma.config import load_config
from scotoma.predictions.finished import FinishedAudit
from scotoma.run import Run
from scotoma.steps.planted import PLANTED, self_test
from scotoma.verdict.since_previous import Change
from scotoma.verdict.two_audits import compare_audits as compare_finished
from tests.helpers.commands import measured, scotoma
from tests.helpers.external_predictions import CONFIG, audited, said, write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return audited(write(tmp_path_factory.mktemp("first")))


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same, but that `int8` is now wrong about every cat of every woman."""
    home = write(tmp_path_factory.mktemp("second"))
    examples = pl.read_csv(home / "examples.csv")
    harmed = examples.filter(label="cat", sex="f")["example_id"]
    path = home / "preds" / "int8" / "seed0.csv"
    changed = pl.when(pl.col("example_id").is_in(harmed)).then(pl.lit("=dog()"))
    table = pl.read_csv(path).with_columns(changed.otherwise("predicted").alias("predicted"))
    table.write_csv(path)
    return audited(home)


# --- examples -------------------------------------------------------------------------------------


def test_the_examples_to_annotate_are_those_that_diverge_most(first: Run) -> None:
    code, out, err = scotoma("show", first.root, "examples", "--percentile", "95", "--csv")
    assert (code, err) == (0, "")
    table = pl.read_csv(io.StringIO(out), infer_schema=False)
    assert table.columns[:10] == [
        "variant", "rank", "example_id", "label", "dense_modal", "dense_votes", "compressed_modal",
        "compressed_votes", "cie", "taxicab",
    ]  # fmt: skip
    assert table.height == round(0.05 * 300)
    home = first.root.parent
    now = dict(zip(pl.read_csv(home / "examples.csv")["example_id"], said(home, "int8", 0),
                   strict=True))  # fmt: skip
    for row in table.iter_rows(named=True):
        assert row["cie"] == "true"  # of one model a side, all that differ are flips
        # What a spreadsheet would take for a formula has an apostrophe before it.
        assert row["compressed_modal"].removeprefix("'") == now[row["example_id"]]
        assert not any(cell and cell[0] in "=+-@" for cell in row.values())


def test_the_list_does_not_depend_on_the_order_of_rows(first: Run, tmp_path: Path) -> None:
    before = measured("show", first.root, "examples", "--percentile", "98")
    path = first.path("divergence.parquet")
    held = path.read_bytes()
    try:
        pl.read_parquet(path).sample(fraction=1, shuffle=True, seed=1).write_parquet(path)
        assert measured("show", first.root, "examples", "--percentile", "98") == before
    finally:
        path.write_bytes(held)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--percentile", "100"), 2, "--percentile must be less than 100"),
        (("--variant", "int4"), 2, "--variant must be one of int8, got 'int4'; did you mean 'int"),
        (("--csv", "--json"), 2, "--json and --csv exclude each other; choose one"),
    ],
)
def test_examples_refuses(first: Run, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    found = scotoma("show", first.root, "examples", *arguments)
    assert found[:2] == (code, "")
    assert sentence in found[2]


def test_a_folder_that_is_no_run_is_refused(first: Run, tmp_path: Path) -> None:
    for command in (("show", tmp_path, "examples"), ("compare", first.root, tmp_path)):
        code, out, err = scotoma(*command)
        assert (code, out) == (2, "")
        assert "holds no config.yaml; name a folder that scotoma audit made" in err


# --- compare ------------------------------------------------------------------------------------


def compare_audits(first: Run, second: Run) -> tuple[list[Change], dict[str, Any]]:
    return compare_finished(FinishedAudit(first), FinishedAudit(second))


def test_a_rate_that_rose_is_worse_one_that_fell_better(first: Run, second: Run) -> None:
    rows, facts = compare_audits(first, second)
    assert facts["examples"] == 300
    found = {(row.variant, row.metric, row.group): row.verdict for row in rows}
    assert found["int8", "fnr", "f"] == "worse"
    assert {v for (name, _, _), v in found.items() if name == "dense"} == {"undecided"}
    back = {
        (row.variant, row.metric, row.group): row.verdict
        for row in compare_audits(second, first)[0]
    }  # fmt: skip
    assert back["int8", "fnr", "f"] == "better"


def test_the_change_is_that_of_paired_examples(first: Run, second: Run) -> None:
    """One model a run: the t test of the differences, example by example."""
    row = next(
        row for row in compare_audits(first, second)[0]
        if (row.variant, row.metric, row.group) == ("int8", "fnr", "all")
    )  # fmt: skip
    label = pl.read_csv(first.root.parent / "examples.csv")["label"]
    cats = np.flatnonzero((label == "cat").to_numpy())
    missed = [
        (np.array(said(run.root.parent, "int8", 0)) != "cat")[cats].astype(float)
        for run in (first, second)
    ]
    change = missed[1] - missed[0]
    assert row.change.value == pytest.approx(change.mean())
    sizes = (change - change.mean()) ** 2
    changed = sizes.sum() ** 2 / (sizes**2).sum()
    assumed = max(0.0, 2 - changed / 5)  # the variance floor: flips of which few are seen
    m2 = (sizes.sum() + assumed) / (changed + assumed)
    floor = 4 * m2 / (len(change) + 4) ** 2
    assert row.change.se == pytest.approx(np.sqrt(stats.sem(change) ** 2 + floor), rel=1e-9)


def test_p_values_are_adjusted_over_the_whole_table(first: Run, second: Run) -> None:
    rows, _ = compare_audits(first, second)
    tested = sorted((row for row in rows if not np.isnan(row.p)), key=lambda row: row.p)
    before = 0.0
    for place, row in enumerate(tested):  # Holm, step by step
        before = max(before, min(1.0, row.p * (len(tested) - place)))
        assert row.p_adjusted == pytest.approx(before, abs=0)


def test_the_page_of_a_difference(first: Run, second: Run) -> None:
    code, out, err = scotoma("compare", first.root, second.root)
    assert (code, err) == (0, "")
    assert "Rates are compared on 300 test examples that both hold." in out
    assert "No verdicts changed\n" in out
    assert re.search(r"\d+ worse, 0 better, \d+ undecided of \d+ rates", " ".join(out.split()))
    worse = out.partition("\nUndecided")[0].partition("\nWorse")[2]
    assert re.search(r"int8 +FNR +f +\d", worse)
    found = measured("compare", first.root, second.root)
    assert {row["verdict"] for row in found["rows"]} == {"worse", "undecided"}


def test_audits_of_two_months_are_compared_without_a_shared_example(
    first: Run, tmp_path: Path
) -> None:
    """The change is that of the two audits' own rates, and their variances add."""
    home = write(tmp_path)
    for path in [home / "examples.csv", *home.glob("preds/*/*.csv")]:
        path.write_text(path.read_text().replace("img/", "other/"))
    second = audited(home)
    code, out, _ = scotoma("compare", first.root, second.root)
    assert code == 0
    assert "No verdicts changed\n" in out
    assert "! No test example is in both runs: each rate is measured" in out
    rows, facts = compare_audits(first, second)
    assert facts["examples"] == 0
    row = next(row for row in rows if (row.variant, row.metric, row.group) == ("int8", "fnr", "f"))
    assert row.verdict == "undecided"
    rates = [row.before, row.after]
    variances = [(e.se * e.value * (1 - e.value)) ** 2 for e in rates]
    assert row.change.value == pytest.approx(rates[1].value - rates[0].value)
    assert row.change.se == pytest.approx(math.sqrt(sum(variances)))
    assert {row.metric for row in rows if row.variant == "dense"} == {"error", "fpr", "fnr"}


# --- planted harm and the guide -------------------------------------------------------------------


def test_what_is_planted_is_recovered_and_dense_against_dense_passes() -> None:
    rows, verdicts = self_test(0)
    assert verdicts == {"dense again": "PASS", "harmed": "FAIL"}
    assert {(row.variant, row.group) for row in rows} == {
        (variant, group) for variant in verdicts for group in PLANTED
    }
    assert all(row.inside for row in rows)


def test_a_plan_fails_where_nothing_is_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANTED, "women", 1.0)
    rows, verdicts = self_test(0)
    missed = [replace(row, planted=row.planted + 90) for row in rows]
    monkeypatch.setattr("scotoma.steps.planted.self_test", lambda seed: (missed, verdicts))
    code, out, err = scotoma("audit", "--plan", "--planted", "--quiet")
    assert code == 5
    assert "missed" in out
    assert "--planted must find what it planted" in err


def test_the_guide_names_every_metric_once() -> None:
    named = Counter(name for concern in GUIDE for name in (concern.start, *concern.also))
    assert named == Counter(METRICS.keys())
    code, out, _ = scotoma("compare", "--explain")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for metric in METRICS.values():
        assert metric.title in " ".join(out.split())


# --- init -----------------------------------------------------------------------------------------


def test_a_draft_of_predictions_is_a_configuration_that_runs(tmp_path: Path) -> None:
    home = write(tmp_path)
    out = home / "draft.yaml"
    code, shown, err = scotoma(
        "init", home / "examples.csv", "--predictions", str(home / "preds/{variant}/{model}.csv"),
        "--out", out,
    )  # fmt: skip
    assert (code, shown) == (0, "")
    assert err.startswith(f"{out}: label 'label', groups 'sex'\n")
    config = load_config(out)
    assert config.label.column == "label"
    assert list(config.groups.attributes) == ["sex"]
    assert config.baseline == "fp32"
    text = out.read_text() + "tracking: {uri: 'off'}\n"
    assert audited(home, text).path("gate.json").exists()


def test_a_draft_of_images_takes_split_and_positive_class(tmp_path: Path) -> None:
    table, faces = tmp_path / "attrs.csv", tmp_path / "faces"
    faces.mkdir()
    rows = ["image,partition,Blond_Hair,Male"]
    for place in range(60):
        name = f"{place}.png"
        Image.new("RGB", (8, 8), (4 * place, 0, 0)).save(faces / name)
        rows.append(f"{name},{(0, 0, 1, 2)[place % 4]},{place // 4 % 2},{place // 8 % 2}")
    table.write_text("\n".join(rows) + "\n")
    arguments = ("init", table, "--images", str(faces), "--label", "Blond_Hair")
    found = measured(*arguments)
    assert found["source"]["split"] == {
        "column": "partition", "train": "0", "calibrate": "1", "test": "2"
    }  # fmt: skip
    assert found["label"] == {"column": "Blond_Hair", "positive": "1"}
    assert list(found["groups"]) == ["Male"]


@pytest.mark.parametrize(
    ("header", "options", "sentence"),
    [
        ("a,b", ("--predictions", "p"), "no column is called label, target or class; name it"),
        (
            "label,b",
            (),
            "init needs predictions of two models, got none in 't.csv'; name",
        ),
        (
            "label,image",
            ("--images", "x"),
            "images need a column that splits rows into train and te",
        ),
        ("label,b", ("--predictions", "p", "--group", "bb"), "did you mean 'b'?"),
    ],
)
def test_init_refuses(tmp_path: Path, header: str, options: tuple[str, ...], sentence: str) -> None:
    table = tmp_path / "t.csv"
    table.write_text(f"{header}\nx,1\ny,2\n")
    code, _, err = scotoma("init", table, "--out", tmp_path / "a.yaml", *options)
    assert code == 2
    assert sentence in err
    assert not (tmp_path / "a.yaml").exists()


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CONFIG)
    table = tmp_path / "t.csv"
    table.write_text("label,b\nx,1\ny,2\n")
    code, _, err = scotoma("init", table, "--predictions", "p", "--out", tmp_path / "a.yaml")
    assert code == 2
    assert "already exists; choose another --out, or remove it" in err
    assert (tmp_path / "a.yaml").read_text() == CONFIG


def test_json_is_json(first: Run, second: Run) -> None:
    for arguments in (("show", first.root, "examples"), ("compare", first.root, second.root)):
        code, out, err = scotoma(*arguments, "--json", "--quiet")
        assert (code, err) == (0, "")
        assert json.loads(out)["version"] == 1


def test_the_guide_stands_in_the_documents() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text("utf-8")
    for concern in GUIDE:
        assert f"| {concern.question} | {concern.start}: {concern.why} |" in page
