"""A finished audit in a notebook: its frames, its charts, and the notebooks that are shipped."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import scotoma
from scotoma.errors import ConfigError, DataError
from scotoma.notebook.opened import OpenedAudit
from tests.helpers.audits import accuracy, rates
from tests.helpers.commands import scotoma as command
from tests.helpers.external_predictions import write

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run `run`: one model a side, whose int8 errs above all on women."""
    home = write(tmp_path_factory.mktemp("notebook"))
    path = home / "audit.yaml"
    path.write_text(path.read_text().replace("sex: {", f"'{HOSTILE}': {{column: sex}}\n  sex: {{"))
    code, _, err = command("audit", path, "--out", home / "run", "--quiet")
    assert code == 0, err
    return home


@pytest.fixture(scope="module")
def audit(home: Path) -> OpenedAudit:
    return scotoma.open(home / "run")


def test_importing_scotoma_imports_nothing_heavy() -> None:
    text = "import sys, scotoma; print({'polars', 'numpy', 'pydantic'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    with pytest.raises(AttributeError, match="module 'scotoma' has no attribute 'opne'"):
        scotoma.opne  # type: ignore[attr-defined]  # noqa: B018


def test_completion_shows_what_notebooks_use() -> None:
    import rlcompleter

    completer, found = rlcompleter.Completer({"scotoma": scotoma}), []
    while (name := completer.complete("scotoma.", len(found))) is not None:
        found.append(name.rstrip("("))
    names = {name for name in found if "._" not in name}
    assert names == {f"scotoma.{name}" for name in scotoma.__all__[1:]}
    assert {"scotoma.judge", "scotoma.measure", "scotoma.pair"} <= names


def test_a_printed_audit_is_a_line_and_one_for_each_variant(audit: OpenedAudit) -> None:
    head, *lines = str(audit).splitlines()
    assert head.startswith(f"elsewhere: {audit.verdict}, {audit.audit.examples.test:,} examples")
    assert [line.split(":")[0] for line in lines] == [f"{audit.verdict} int8"]
    assert len(str(audit)) < 500
    assert len(repr(audit.plot)) < 100
    assert len(repr(audit.plot.groups())) < 400


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_chart_shows_in_a_page_that_has_no_style_of_ours(
    theme: str, audit: OpenedAudit, browser: Any
) -> None:
    import io

    import numpy as np
    from PIL import Image

    page = browser.new_page(color_scheme=theme)
    ground = {"light": "#ffffff", "dark": "#111111"}[theme]
    charts = [audit.plot.groups()]
    if audit.slices.height:
        charts.append(audit.plot.slices())
    for chart in charts:
        page.set_content(f'<body style="background:{ground}">{chart._repr_html_()}</body>')
        picture = Image.open(io.BytesIO(page.locator("svg").screenshot())).convert("RGB")
        pixels = np.asarray(picture).reshape(-1, 3).astype(int)
        assert (pixels[0] == 255).all()  # paper of its own
        marks = np.abs(pixels - (0xB8, 0x50, 0x0F)).max(1) < 8  # what stands for compressed
        ink = pixels.max(1) < 100
        assert marks.sum() > 20
        assert ink.sum() > 100
        # Nothing is cut off at the sides, whatever font the page has.
        sides = np.asarray(picture)[:, [0, 1, -2, -1]]
        assert (sides > 200).all()
    page.close()


def test_the_frames_hold_the_numbers_of_the_files(audit: OpenedAudit, home: Path) -> None:
    content: dict[str, Any] = json.loads((home / "run" / "audit.json").read_text())
    gate = json.loads((home / "run" / "gate.json").read_text())
    assert audit.verdict == gate["verdict"]
    assert audit.variants["variant"].to_list() == ["dense", "int8"]
    assert audit.variants["verdict"].to_list() == [None, gate["variants"][0]["verdict"]]
    assert audit.variants["top1"][1] == accuracy(content, "int8")["top1"]["value"]
    rows = rates(content, "int8")
    assert audit.groups.height == len(rows)
    for key in ("value", "low", "high"):
        column = "change" if key == "value" else f"change_{key}"
        assert audit.groups[column].to_list() == [row["absolute"][key] for row in rows]
    assert audit.groups["n"].to_list() == [row["absolute"]["n"] for row in rows]
    assert audit.groups["dense"].to_list() == [row["dense"]["value"] for row in rows]
    slices = content["slices"]["int8"]["slices"]
    assert audit.slices["slice"].to_list() == [row["text"] for row in slices]
    assert {"change_low", "change_high", "n", "q"} <= {*audit.slices.columns}


def test_a_notebook_shows_verdict_groups_and_slices_and_no_markup_of_theirs(
    audit: OpenedAudit,
) -> None:
    shown = [
        one._repr_html_() for one in (audit, audit.verdict, audit.variants, audit.groups,
                                      audit.slices, audit.plot.groups())
    ]  # fmt: skip
    assert audit.verdict in shown[0]
    assert "most affected" in shown[0]
    top1 = audit.variants["top1"].to_list()
    assert all(f"{100 * one:.1f}%" in shown[0] for one in top1)
    assert all(sentence.split(":")[0] in shown[1] for sentence in audit.verdict.sentences)
    assert HOSTILE in audit.groups["group"].str.join("")[0]
    assert all("<img" not in html for html in shown)


def test_a_chart_is_the_one_of_the_report(audit: OpenedAudit) -> None:
    chart = audit.plot.groups("int8")
    assert chart.svg.startswith("<svg")
    assert chart.table["n"].len() == chart.table.height > 0
    with pytest.raises(ConfigError, match=r"variant 'int' is not in the audit, which has int8"):
        audit.plot.groups("int")


def test_a_run_that_is_no_run_or_was_changed_is_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no config\.yaml"):
        scotoma.open(tmp_path)
    (tmp_path / "run").mkdir()
    for name in ("config.yaml", "audit.json", "gate.json", "numbers.parquet", "checksums.json"):
        (tmp_path / "run" / name).write_bytes((home / "run" / name).read_bytes())
    gate = tmp_path / "run" / "gate.json"
    gate.write_text(gate.read_text().replace("UNSURE", "PASS").replace("FAIL", "PASS"))
    with pytest.raises(DataError, match=r"gate\.json"):
        scotoma.open(tmp_path / "run")
    gate.unlink()
    with pytest.raises(DataError, match=r"gate\.json"):
        scotoma.open(tmp_path / "run")


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.ipynb")), ids=lambda path: path.stem)
def test_every_cell_of_a_shipped_notebook_runs_and_shows_something(
    path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (
        4,
        len(notebook["cells"]),
    )
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "clear its outputs"
            assert _shown("".join(cell["source"]), names) is not None


def _shown(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does, and give back what it shows: its last expression."""
    *before, last = ast.parse(source).body
    exec(compile(ast.Module(before, []), "cell", "exec"), names)
    assert isinstance(last, ast.Expr)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)
