"""The CSV files of a run's tables, read back by another program."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scotoma.run import Run, checksums
from scotoma.steps.report import draw
from tests.helpers.audits import rates

pytestmark = pytest.mark.slow


def test_every_table_that_the_page_links_lies_in_the_run(audit: Any) -> None:
    links = set(re.findall(r'href="(tables/[^"]+)"', audit.page))
    files = {f"tables/{path.name}" for path in audit.run.path("tables").iterdir()}
    assert links == files
    assert {"tables/groups.csv", "tables/gate.csv", "tables/examples.csv"} <= files
    for name in files:
        assert audit.run.path(*name.split("/")).read_bytes().startswith(b"\xef\xbb\xbf")


def test_files_hold_every_row_unrounded(audit: Any) -> None:
    groups = pl.read_csv(audit.run.path("tables", "groups.csv"), infer_schema_length=None)
    names = {group["key"]: group["name"] for group in audit.content["groups"]}
    wanted = [
        (variant, row)
        for variant in (one["name"] for one in audit.content["variants"][1:])
        for row in rates(audit.content, variant)
        if row["class"] is None
    ]
    assert groups.height == len(wanted)
    for variant, row in wanted:
        (found,) = groups.filter(variant=variant, group=names[row["group"]]).to_dicts()
        assert found["n"] == row["absolute"]["n"]
        for part, key in (("dense", "dense"), ("compressed", "compressed"), ("absolute", "change")):
            ends = (found[key], found[f"{key}_low"], found[f"{key}_high"])
            assert ends == (row[part]["value"], row[part]["low"], row[part]["high"])
            assert (found[f"{key}_reason"] or "") == row[part]["reason"]
    tests = sum(len(variant["tests"]) for variant in audit.gate["variants"])
    gate = pl.read_csv(audit.run.path("tables", "gate.csv"), infer_schema_length=None)
    assert gate.height == tests


def test_drawn_again_they_are_written_and_sealed_again(audit: Any, tmp_path: Path) -> None:
    run = Run.open(shutil.copytree(audit.run.root, tmp_path / "run"))
    checksums.seal(run.mirror)
    before = run.path("tables", "groups.csv").read_bytes()
    shutil.rmtree(run.path("tables"))
    draw(run)
    assert run.path("tables", "groups.csv").read_bytes() == before
    sealed = json.loads((run.root / "checksums.json").read_text())
    assert "tables/groups.csv" in json.dumps(sealed)
    assert checksums.compare_checksums(run.mirror).missing == ()
