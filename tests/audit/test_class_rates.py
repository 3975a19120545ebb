"""Many rates of classes and groups: numbers.parquet has them, and what is said is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scotoma.audit import read_audit
from scotoma.costs import estimate
from scotoma.run import read_json
from scotoma.steps import bias
from scotoma.steps.measures import rates
from tests.helpers.audits import rates as rates_of
from tests.helpers.commands import measured, scotoma
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

N, CLASSES, PLACES, MODELS = 1500, 20, 15, 3
FEW = 500  # rates of single classes in audit.json; the audit has 640
CONFIG = """\
project: long
source: {kind: predictions, files: preds.parquet, examples: examples.parquet}
label: {column: label}
groups: {place: {column: place}}
tracking: {uri: "off"}
"""
RULES = """\
rules:
- {id: fnr_groups, metric: fnr, over: groups, max_increase: {absolute: 0.1}}
- {id: fpr_classes, metric: fpr, over: classes, max_increase: {absolute: 0.01}}
"""


def write_tables(home: Path) -> None:
    rng = np.random.default_rng(5)
    ids = [f"e{row}" for row in range(N)]
    label = rng.integers(CLASSES, size=N)
    place = rng.integers(PLACES, size=N)
    columns = {"example_id": ids, "label": label, "place": place}
    pl.DataFrame(columns).cast({"label": pl.String, "place": pl.String}).write_parquet(
        home / "examples.parquet"
    )
    tables = []
    for variant, error in (("dense", 0.1), ("int8", 0.3)):
        for model in range(MODELS):
            other = (label + rng.integers(1, 4, size=N)) % CLASSES
            said = np.where(rng.random(N) < error, other, label).astype(str)
            tables.append(
                pl.DataFrame({"example_id": ids, "predicted": said}).with_columns(
                    variant=pl.lit(variant), model=pl.lit(f"m{model}")
                )
            )
    pl.concat(tables).write_parquet(home / "preds.parquet")
    (home / "audit.yaml").write_text(CONFIG)
    (home / "rules.yaml").write_text(RULES)


def audit(home: Path, out: str) -> Path:
    with steps_in_this_process(home):
        code, _, err = scotoma(
            "audit", "audit.yaml", "--out", out, "--gate", "--rules", "rules.yaml"
        )
    assert code in (0, 1), err
    return home / out


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    write_tables(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bias, "MOST_CLASS_ROWS", FEW)
        audit(folder, "run")
        patch.setattr(bias, "MOST_CLASS_ROWS", 10**9)
        audit(folder, "whole")
    return folder


def test_audit_json_names_the_table_that_holds_the_rates_of_single_classes(home: Path) -> None:
    content = read_json(home / "run" / "audit.json")
    whole = read_json(home / "whole" / "audit.json")
    assert {row["class"] for row in rates_of(content, "int8")} == {None}
    table = pl.read_parquet(home / "run" / "numbers.parquet")
    rates = table.filter(pl.col("question") == "rates", pl.col("class").is_not_null())
    assert rates.height == 4 * content["class_rates"]["rows"] == 4 * 2 * CLASSES * (PLACES + 1)
    assert "class_rates" not in whole
    key = ["variant", "metric", "group", "class", "what"]
    own = pl.read_parquet(home / "whole" / "numbers.parquet")
    assert own.sort("question", *key, "condition").equals(table.sort("question", *key, "condition"))
    for row in (row for row in rates_of(whole, "int8") if row["class"] == "3"):
        of_row = rates.filter(**{name: row[name] for name in ("group", "metric", "class")})
        for cells in of_row.iter_rows(named=True):
            number = row[cells["what"]] | {"models": row[cells["what"]]["members"]}
            number |= {
                f"variance_{part}": value
                for part, value in row.get(f"{cells['what']}_variance", {}).items()
            }
            for name in (name for name in cells.keys() & number.keys() if name != "what"):
                assert cells[name] == (float(v) if (v := number[name]) in ("inf",) else v), name
    assert scotoma("verify", home / "run")[0] == 0


def test_check_says_how_large_audit_json_will_be(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setattr(estimate, "MOST_CLASS_ROWS", FEW)
    said = measured("audit", "--plan", "audit.yaml", "--quiet")["measuring"]
    size = (home / "run" / "audit.json").stat().st_size
    assert size / said["within_factor"] < said["audit_json_bytes"] < size * said["within_factor"]


def test_gate_and_page_are_as_if_audit_json_held_all_rates(home: Path) -> None:
    def without(name: str) -> dict[str, Any]:
        return read_json(home / name / "gate.json") | {"audit_sha256": ""}

    assert without("run") == without("whole")
    assert len(without("run")["variants"][0]["tests"]) == CLASSES * PLACES + CLASSES
    run, whole = (
        (home / name / "report.html")
        .read_text()
        .replace("numbers.parquet holds", "audit.json holds")
        for name in ("run", "whole")
    )
    assert _words(run) == _words(whole)
    assert read_audit(home / "run" / "audit.json").class_rates is not None


def _words(page: str) -> str:
    """The page without the downloads, whose table of groups is that of audit.json."""
    return "\n".join(line for line in page.splitlines() if "data:text/csv" not in line)


def test_a_table_of_another_audit_is_refused(home: Path) -> None:
    table = home / "run" / "numbers.parquet"
    content = table.read_bytes()
    try:
        table.write_bytes((home / "whole" / "examples.parquet").read_bytes())
        for command in (("show", "run"), ("gate", "run", "--rules", "rules.yaml")):
            with steps_in_this_process(home):
                code, _, err = scotoma(*command)
            assert code == 4, err
            assert "numbers.parquet must be the table that its audit.json names" in err
        table.unlink()
        with steps_in_this_process(home):
            built_in = "--rules", "built-in"  # ask for none of it
            assert scotoma("gate", "run", *built_in)[0] in (0, 1)
    finally:
        table.write_bytes(content)


def test_a_gate_asks_of_no_more_rates_than_it_can_judge(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "MOST_JUDGED", 100)
    with steps_in_this_process(home):
        code, _, err = scotoma("gate", "run", "--rules", "rules.yaml")
    assert code == 4
    assert "at most 100 rates of single classes may be asked for, got 320" in err
