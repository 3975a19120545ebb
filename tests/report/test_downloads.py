"""The CSV files inside the page, read back by another program."""

from __future__ import annotations

import base64
import copy
import io
from typing import Any

import polars as pl
import pytest

from scotoma.report.downloads import Download
from tests.report.drawing import card, downloads, readable

pytestmark = pytest.mark.slow


def table(file: Download) -> pl.DataFrame:
    content = base64.b64decode(file.uri.partition(",")[2])
    return pl.read_csv(io.BytesIO(content), infer_schema_length=None)


def test_files_hold_every_row_unrounded(audit: Any) -> None:
    shown = readable(audit.content)
    files = {file.name: file for file in downloads(shown, audit.gate)}
    assert set(files) >= {"topline.csv", "gate.csv", "groups.csv", "classes.csv", "clarify.csv"}
    for file in files.values():
        assert table(file).height == file.rows
    groups = table(files["groups.csv"])
    for variant, rows in shown.subgroups.items():
        mine = groups.filter(variant=variant).sort("group", "metric", "class")
        assert mine.height == len(rows)
        for row in rows:
            found = mine.filter(
                (pl.col("group") == row.group)
                & (pl.col("metric") == row.metric)
                & pl.col("class").eq_missing(pl.lit(row.class_name))
            ).to_dicts()[0]
            for part in ("dense", "compressed", "relative", "absolute"):
                quantity = getattr(row, part)
                for end in ("value", "low", "high"):
                    assert found[f"{part}_{end}"] == getattr(quantity, end)
                assert (found[f"{part}_reason"] or "") == quantity.reason
    tests = sum(len(variant["tests"]) for variant in audit.gate["variants"])
    assert files["gate.csv"].rows == tests


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@x", "\tx", "\r=1"])
def test_text_that_a_spreadsheet_would_run_has_an_apostrophe(audit: Any, name: str) -> None:
    content = copy.deepcopy(audit.content)
    for group in content["groups"]:
        group["name"] = name
    (groups,) = (f for f in downloads(readable(content), None) if f.name == "groups.csv")
    assert set(table(groups)["group"]) == {f"'{name}"}


def test_a_file_too_large_for_the_page_is_named_and_left_out(audit: Any) -> None:
    content = copy.deepcopy(audit.content)
    for variant, rows in content["classes"].items():
        content["classes"][variant] = rows * 700
    (classes,) = (f for f in downloads(readable(content), None) if f.name == "classes.csv")
    assert (classes.uri, classes.rows) == ("", 3 * 3 * 700)


def test_the_model_card_has_a_row_a_variant_and_names_as_code(audit: Any) -> None:
    content = copy.deepcopy(audit.content)
    for group in content["groups"]:
        group["name"] = "a|b`<b>"
    text = card(readable(content), audit.gate)
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [v["name"] for v in content["variants"]]
    assert "``a\\|b`<b>``" in text
    assert f"Gate: {audit.gate['verdict']}." in text
