"""Names that others chose come out as text wherever they go: a whole audit of nothing else."""

from __future__ import annotations

import io
import re
import sqlite3
import unicodedata
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from scotoma.run import Run
from tests.faults.made import predictions_made_elsewhere
from tests.helpers.commands import scotoma
from tests.helpers.external_predictions import audited

pytestmark = pytest.mark.slow

NAMES = [
    "<script>alert(1)</script>",
    "=cmd('/C calc')!A0",
    "\x1b[31mred\x1b[0m",
    "a\x00b\x0bc\ufffe",
    "\u202eevil\u202c \u200f",
    "x" * 300,
    "\U0001f40d|`](javascript:1)",
    "../../x",
    "line\u2028separator\u2029",
]
CONFIG = """\
project: hostile
source: {kind: predictions, files: "preds/*.parquet", examples: examples.parquet}
label: {column: label}
groups: {who: {column: who}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(5)
    n = 400
    labels, groups = rng.integers(0, len(NAMES), n), rng.integers(0, len(NAMES), n)
    ids = [f"{NAMES[row % len(NAMES)]}{row}" for row in range(n)]
    named = np.array(NAMES, dtype=object)
    (home / "preds").mkdir()
    table = {"example_id": ids, "label": named[labels].tolist(), "who": named[groups].tolist()}
    pl.DataFrame(table).write_parquet(home / "examples.parquet")
    for variant, rate in {"dense": 0.1, "int8": 0.3}.items():
        for model in range(5):
            said = np.where(rng.random(n) < rate, rng.integers(0, len(NAMES), n), labels)
            pl.DataFrame(
                {"example_id": ids, "variant": variant, "model": NAMES[model]}
                | {"predicted": named[said].tolist()}
            ).write_parquet(home / "preds" / f"{variant}{model}.parquet")
    return audited(home, CONFIG)


def steering(text: str) -> list[str]:
    """Characters that could steer a terminal, an editor or a parser."""
    kinds = {c: unicodedata.category(c) for c in text if c != "\n"}
    return [c for c in kinds if kinds[c][0] == "C" or kinds[c] in ("Zl", "Zp")]


def test_terminal_markdown_and_junit_hold_no_steering(run: Run) -> None:
    code, out, err = scotoma("gate", run.root, "--as-of", "2027-03-01")
    assert code in (0, 1)
    assert steering(out) == steering(err) == []
    page = run.path("summary.md").read_text(encoding="utf-8")
    assert steering(page) == []
    assert "<script>" not in page.replace("`<script>", "").replace(" <script>", "")
    suites = ElementTree.parse(run.path("junit.xml")).getroot()
    assert len(list(suites.iter("testcase"))) > len(NAMES)


def test_the_page_holds_names_as_text(run: Run) -> None:
    page = run.path("report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_no_cell_of_a_table_is_a_formula(run: Run) -> None:
    code, out, _ = scotoma("show", run.root, "examples", "--percentile", "50", "--csv", "--quiet")
    assert code == 0
    table = pl.read_csv(io.StringIO(out), infer_schema=False)
    armed = [c for row in table.iter_rows() for c in row if c and c[0] in "=+-@\t\r"]
    assert armed == []
    assert any(cell.startswith("'=cmd") for cell in table["label"])


def test_the_terminal_lists_them_without_their_escapes(run: Run) -> None:
    for arguments in (("show", run.root, "examples"), ("compare", run.root, run.root)):
        code, out, err = scotoma(*arguments)
        assert code == 0
        assert steering(out) == steering(err) == []


def test_mlflow_takes_every_name(run: Run) -> None:
    database = run.root.parent / "mlflow.db"
    with sqlite3.connect(database) as file:
        tags = dict(file.execute("select key, value from tags where key = 'mlflow.note.content'"))
        verdicts = {v for (v,) in file.execute(
            "select value from tags where key = 'scotoma.verdict'"
        )}  # fmt: skip
        metrics = {k for (k,) in file.execute("select key from latest_metrics")}
        values = [v for (v,) in file.execute("select value from tags")]
    assert verdicts & {"PASS", "UNSURE", "FAIL"}
    assert {"tests_failed", "accuracy"} <= metrics
    rises = [name for name in metrics if re.fullmatch(r"detail/[^/]*/error/rise_relative", name)]
    assert len(rises) == len(NAMES) + 1
    assert "<script>" not in tags["mlflow.note.content"]
    assert [c for value in values for c in steering(value)] == []


def test_nothing_was_written_outside_the_run(run: Run) -> None:
    home = run.root.parent
    known = {"preds", "examples.parquet", "audit.yaml", "run", "mlflow.db", "mlartifacts"}
    extra = {path.name for path in home.iterdir()} - known
    assert {name for name in extra if not name.startswith("mlflow.db-")} == set()
    assert not Path(home.parent, "x").exists()


def test_a_folder_may_be_named_as_a_placeholder_of_kubeflow(tmp_path: Path) -> None:
    config, out = predictions_made_elsewhere(tmp_path), tmp_path / "run{{$}}"
    code, listed, err = scotoma("audit", config, "--out", out, "--step", "prepare")
    assert (code, out.is_dir()) == (0, True), err
    assert "examples.parquet" in listed


def test_a_variant_whose_name_no_file_can_have_is_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    config = predictions_made_elsewhere(tmp_path)
    config.write_text(config.read_text().replace("preds/{variant}/{model}.csv", "long.csv"))
    rows = [f"e{row},{variant},1" for row in range(300) for variant in ("dense", "v" * 260)]
    (tmp_path / "long.csv").write_text("\n".join(["example_id,variant,predicted", *rows]))
    code, out, err = scotoma("audit", "--plan", config)
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "must have a name of at most 80 letters" in err
