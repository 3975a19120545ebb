"""A gzipped log reads as the one that was packed, under the same limits."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from scotoma.errors import DataError
from tests.comparison.logs import write_generation
from tests.comparison.test_behaviour import drawn, nemo_gym, nemo_skills, plain_table
from tests.helpers.commands import measured, scotoma
from tests.readers.conftest import FILES, Read

pytestmark = pytest.mark.slow

LOGS = ("samples_*.jsonl", "*_samples.jsonl", "eval_results_table.json", "*_bbq_*.json")


def packed(source: Path, folder: Path, *patterns: str) -> Path:
    """A copy of a folder of logs, of which those that fit a pattern are gzipped."""
    shutil.copytree(source, folder)
    for path in [own for pattern in patterns for own in folder.rglob(pattern)]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return folder


@pytest.mark.parametrize("tool", [
    "lm_eval/bf16", "every_eval_ever/w4a16", "mlflow/bf16", "inspect_ai/json/w4a16",
])  # fmt: skip
def test_gzipped_logs_of_tools_read_as_they_are(read: Read, tmp_path: Path, tool: str) -> None:
    usual: dict[str, Any] = {"filter": "strict-match"} if "eval" in tool else {}
    plain = read(FILES / tool, **usual)
    other = read(packed(FILES / tool, tmp_path / Path(tool).name, *LOGS), **usual)
    assert [*plain] == [*other]
    for task, own in plain.items():
        assert other[task].format == own.format
        assert other[task].examples.equals(own.examples)
        assert all(one.endswith(".gz") for one in other[task].files)


def test_gzipped_logs_are_compared(tmp_path: Path) -> None:
    for write in (nemo_skills, nemo_gym, plain_table):
        home = tmp_path / write.__name__
        home.mkdir()
        plain = [write(home / name, drawn(side)).relative_to(home)
                 for side, name in enumerate("ab")]  # fmt: skip
        other = packed(home, tmp_path / f"{write.__name__}-gz", "*.jsonl")
        places = [other / own if (other / own).exists() else other / f"{own}.gz" for own in plain]
        whole, again = (
            measured("compare", *sides)["comparisons"][0]
            for sides in ([home / own for own in plain], places)
        )
        assert whole == again


def test_what_is_cut_off_or_no_gzip_is_one_sentence(tmp_path: Path) -> None:
    whole = gzip.compress(write_generation(tmp_path / "log").read_bytes())
    fine = tmp_path / "a" / "samples_sums.jsonl.gz"
    fine.parent.mkdir()
    fine.write_bytes(whole)
    for content in (whole[:-9], whole[:200], whole[:10], whole[:300] + b"\0" * 50 + whole[350:]):
        path = tmp_path / "b.jsonl.gz"
        path.write_bytes(content)
        code, _, err = scotoma("compare", fine, path)
        assert code == 4
        assert " ".join(err.split()) == (
            "scotoma: b.jsonl.gz must be a whole gzip file, and is damaged or was cut off; copy it "
            "again"
        )


def test_a_small_file_that_unpacks_to_much_is_refused(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(4_000):
            file.write(b" " * 2**20)
        file.write(json.dumps({"id": 1, "score": 1}).encode())
    assert path.stat().st_size < 2**25
    with pytest.raises(DataError, match=r"t\.jsonl\.gz must be read within .* make it smaller"):
        read(path)


@pytest.mark.parametrize(("name", "content"), [
    ("s.jsonl", b""), ("s.jsonl", b"\n\n"), ("s.jsonl.gz", b""), ("s.jsonl.gz", gzip.compress(b"")),
    ("s.csv", b""),
])  # fmt: skip
def test_an_empty_log_is_called_empty(tmp_path: Path, name: str, content: bytes) -> None:
    fine, empty = write_generation(tmp_path / "log"), tmp_path / "empty" / name
    empty.parent.mkdir()
    empty.write_bytes(content)
    for place in (empty, empty.parent):
        code, _, err = scotoma("compare", fine, place)
        assert code == 2
        assert f"must hold the answers of a model, and {name} is empty; evaluate again" in " ".join(
            err.split()
        )
