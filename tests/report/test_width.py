"""Every command's output fits a terminal of 80 columns.

Messages on stderr are one sentence on one line, which a terminal wraps and `grep` finds whole.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.cells import cell_len

from tests.helpers.commands import scotoma

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = pytest.mark.slow

RUN = (
    ("gate", "run"),
    ("show", "run", "examples"),
    ("show", "run", "examples", "--unlabelled"),
    ("show", "run", "examples", "--out", "gallery"),
    ("compare", "run", "other"),
    ("show", "run"),
    ("show", "run", "groups"),
    ("verify", "run"),
    ("show", "run", "paper:cie"),
    ("show", "run", "paper:pie"),
    ("show", "run", "paper:clarify"),
    ("show", "run", "paper:variance"),
    ("show", "run", "paper:autoslicer"),
    ("evidence", "run"),
    ("tidy", "run"),
    ("compare", "a=run", "b=other", "--techniques"),
    ("compare", "base.csv", "int8.csv", "--label", "label", "--group", "sex"),
)
TABLE = (
    ("compare", "t.csv", "--label", "y", "--predicted", "m*", "--group", "sex",
     "--positive", "yes"),
    ("compare", "t.csv", "--label", "y", "--predicted", "m*", "--baseline", "b*", "--group", "sex",
     "--positive", "yes", "--all"),
    ("compare", "t.csv", "--label", "y", "--predicted", "m*", "--group", "sex", "--positive", "yes",
     "--four-fifths"),
    ("compare", "--explain"),
    ("slices", "t.csv", "--outcome", "wrong"),
    ("compare", "runs.csv", "--techniques"),
    ("init", "t.csv"),
    ("audit", "--plan", "missing.yaml"),
    ("compare", "t.csv", "--label", "z", "--predicted", "m*", "--group", "sex"),
)  # fmt: skip
HEADINGS = re.findall(r"^## scotoma (.+)$", (DOCS / "commands.md").read_text("utf-8"), re.M)


@pytest.fixture(scope="module")
def home(make_audit: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished audit whose names are long, a copy of it, and two tables."""
    home: Path = tmp_path_factory.mktemp("width")
    audit = make_audit(
        ("cat", "a class whose name is much longer than others"),
        ("a group whose name alone takes more than half of a line", "b"),
        examples=60, sparsities=(0.9,), members=5,
    )  # fmt: skip
    for name in ("run", "other"):
        shutil.copytree(audit.run.root, home / name)
    rng = np.random.default_rng(0)
    y = rng.choice(["yes", "no"], 300)
    columns = {
        f"{kind}{i}": np.where(rng.random(300) < 0.9, y, "yes") for kind in "mb" for i in range(2)
    }
    sex = rng.choice(["female", "a value that nobody would call short, and still it is one"], 300)
    wrong = (rng.random(300) < 0.2).astype(int)
    pl.DataFrame({"y": y, "sex": sex, "wrong": wrong, **columns}).write_csv(home / "t.csv")
    for name in ("base", "int8"):
        given = np.where(rng.random(300) < 0.9, y, "no")
        compared = {"id": range(300), "label": y, "predicted": given, "sex": sex}
        pl.DataFrame(compared).write_csv(home / f"{name}.csv")
    pl.DataFrame(
        {
            "technique": ["a", "b"] * 10,
            "metric": ["accuracy"] * 20,
            "run": range(20),
            "value": rng.random(20),
        }
    ).write_csv(home / "runs.csv")
    return home


@pytest.mark.parametrize(
    "command", [*RUN, *TABLE, *((*name.split(), "--help") for name in HEADINGS)], ids=str
)
def test_output_fits_80_columns(
    home: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("COLUMNS", "80")
    _, out, err = scotoma(*command)
    assert out + err
    assert [line for line in out.splitlines() if cell_len(line) > 80] == []
