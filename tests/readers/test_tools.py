"""Tools that are installed anew write what the files of this folder hold."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import polars as pl
import pytest

from tests.readers.conftest import FILES, Read

TOOLS = {
    "lm_eval": ("lm_eval==0.4.13", ["bf16", "bf16-2", "w4a16"]),
    "inspect_ai": ("inspect_ai==0.3.285", ["eval/bf16", "eval/w4a16", "json/w4a16"]),
}


@pytest.mark.thorough
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_writes_the_files_that_the_tests_read(read: Read, tmp_path: Path, tool: str) -> None:
    package, places = TOOLS[tool]
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", package], check=True)
    script = Path(__file__).with_name("make_files.py")
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    subprocess.run(
        [python, script, tool, "made"], cwd=tmp_path, env=os.environ | offline, check=True
    )
    for place in places:
        options = {} if tool == "inspect_ai" else {"filter": "strict-match"}
        made = read(tmp_path / "made" / place, **options)
        for task, log in read(FILES / tool / place, **options).items():
            kept = pl.exclude("row")
            assert made[task].examples.select(kept).equals(log.examples.select(kept))
            assert made[task].settings == log.settings
