"""`scotoma show RUN`: the page drawn again from the run's folder alone."""

from __future__ import annotations

import base64
import datetime
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scotoma.config.gate import parse_rules
from scotoma.config.newest import Newest
from scotoma.errors import DataError
from scotoma.processes.machine import versions
from scotoma.run import Run, checksums, write_json
from scotoma.run.mirror import Mirror
from scotoma.steps.judging.previous import leave_previous
from scotoma.steps.report import draw
from scotoma.steps.verdict import give_verdict
from tests.helpers.commands import measured, scotoma

pytestmark = pytest.mark.slow

STRICT = "version: 1\nrules: [{id: nothing_changes, metric: cie_share_excess, max: 0}]\n"


@pytest.fixture
def run(audit: Any, tmp_path: Path) -> Run:
    """A finished audit in a folder of its own; its images are nowhere else."""
    root = shutil.copytree(audit.run.root, tmp_path / "run")
    (root / "examples.parquet").unlink()
    write_json(root / "measurements.json", {"versions": versions()})
    return Run.open(root)


def images_of(page: Path) -> list[bytes]:
    found = re.findall(r'src="data:image/\w+;base64,([^"]*)"', page.read_text(encoding="utf-8"))
    return [base64.b64decode(one) for one in found]


def test_drawn_again_it_has_the_bytes_that_the_audit_wrote(audit: Any, run: Run) -> None:
    run.path("report.html").unlink()
    code, out, err = scotoma("show", run.root)
    assert run.path("report.html").read_text(encoding="utf-8") == audit.page
    assert (code, out) == (0, f"{run.path('report.html')}\n")
    assert "works offline" in err


def test_a_section_is_shown_in_every_form_and_writes_nothing(run: Run) -> None:
    before = run.path("report.html").stat().st_mtime_ns
    rows = measured("show", run.root, "groups")["groups"]
    whole = pl.read_csv(run.path("tables", "groups.csv"))
    assert [row["group"] for row in rows] == whole["group"].to_list()
    assert scotoma("show", run.root, "groups", "--csv")[1].count("\n# ") > 0
    assert "Who is affected by" in scotoma("show", run.root, "groups", "--markdown")[1]
    assert scotoma("show", run.root, "--html")[1].startswith("<!doctype html>")
    assert run.path("report.html").stat().st_mtime_ns == before
    code, out, err = scotoma("show", run.root, "grops")
    assert (code, out) == (2, "")
    assert "got 'grops'; did you mean 'groups'?" in err


@pytest.mark.parametrize("kind", ["several", "one", "previous"])
def test_a_page_drawn_from_gate_json_never_judges(
    audit: Any, shipped: Any, tmp_path: Path, kind: str
) -> None:
    audited = shipped if kind == "one" else audit
    run = Run.open(shutil.copytree(audited.run.root, tmp_path / "run"))
    write_json(run.path("measurements.json"), {"versions": versions()})
    if kind == "previous":
        leave_previous(run.mirror, str(shipped.run.root), 0.01)
    judged = json.loads(give_verdict(run.mirror, None, datetime.date(2027, 3, 1)).content)
    first = draw(run).read_bytes()
    assert draw(run, blur=True).read_bytes() != first
    assert draw(run).read_bytes() == first
    assert (first.decode() == audited.page) is (kind != "previous")
    # Another word in gate.json is another word on the page, whatever the numbers say.
    other = "PASS" if judged["verdict"] == "FAIL" else "FAIL"
    run.path("gate.json").write_text(json.dumps(judged | {"verdict": other}))
    checksums.amend(run.mirror, ["gate.json"])
    assert f"</span> {other}</span></h2>" in draw(run).read_text(encoding="utf-8")


def test_without_a_verdict_no_page_is_drawn(run: Run) -> None:
    run.path("gate.json").unlink()
    with pytest.raises(DataError, match=r"gate\.json is not there; run scotoma gate"):
        draw(run)


def test_what_was_newest_stands_on_the_page(audit: Any, run: Run) -> None:
    assert "Newest input" not in audit.page
    run.leave_newest(Newest("<b>2026-11", "models:/faces@champion", "models:/faces/7"))
    page = draw(run).read_text(encoding="utf-8")
    assert (
        "<dt><bdi>Newest input</bdi></dt><dd><bdi>&lt;b&gt;2026-11, faces version 7</bdi></dd>"
        in page
    )


def test_without_images_none_is_in_the_file(run: Run) -> None:
    page = draw(run, images=False)
    assert images_of(page) == []
    assert "Images are left out." in page.read_text(encoding="utf-8")


def test_blurred_images_hold_eight_squares_and_nothing_of_the_original(
    audit: Any, run: Run
) -> None:
    pillow = pytest.importorskip("PIL.Image")
    page = draw(run, blur=True)
    found = images_of(page)
    assert found
    assert all(max(pillow.open(io.BytesIO(one)).size) <= 8 for one in found)
    assert not set(found) & set(audit.images.values())
    assert "reduced to 8 squares" in page.read_text(encoding="utf-8")


def test_it_speaks_of_the_newest_verdict(run: Run, audit: Any) -> None:
    assert audit.gate["verdict"] == "FAIL"
    rules = parse_rules(STRICT, "rules.yaml")
    given = give_verdict(Mirror(run.root), rules, datetime.date(2027, 3, 1))
    text = draw(run).read_text(encoding="utf-8")
    assert "nothing_changes" in text
    assert "error_groups" not in text
    assert f"</span> {given.gate.verdict}</span></h2>" in text


def test_a_verdict_on_another_audit_is_not_drawn(run: Run) -> None:
    give_verdict(Mirror(run.root), None, datetime.date(2027, 3, 1))
    audit = run.path("audit.json")
    audit.write_text(audit.read_text().replace('"project": "tiny"', '"project": "other"'))
    with pytest.raises(DataError, match=r"gate\.json must judge the audit beside it, got another"):
        draw(run)


def test_what_cannot_be_drawn_is_said_in_a_sentence(run: Run, tmp_path: Path) -> None:
    code, out, err = scotoma("show", run.root, "--no-images", "--blur")
    assert (code, out) == (2, "")
    assert "--no-images and --blur exclude each other; choose one" in err
    assert "holds no config.yaml; name a folder" in scotoma("show", tmp_path)[2]
    before = run.path("report.html").read_bytes()
    run.path("audit.json").unlink()
    code, out, err = scotoma("show", run.root)
    assert (code, out) == (4, "")
    assert "audit.json is not there; let scotoma audit end first" in err
    assert run.path("report.html").read_bytes() == before


def test_the_page_names_its_sections_in_words(audit: Any) -> None:
    found = re.search(r"<nav[^>]*>(.*?)</nav>", audit.page, re.DOTALL)
    assert found is not None
    names = re.findall(r">([^<>\n]+)</a>", found[1])
    assert names[:3] == ["Verdict", "Who", "Examples"]
    assert all(re.fullmatch(r"[A-Z][A-Za-z]*( [a-zA-Z]+)*", name) for name in names)
    assert not any(re.search(r"[a-z][A-Z]", name.replace("CIEs", "")) for name in names)
