"""Logs that the real tools wrote, and small ones made for a test."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from scotoma.readers.logs import read_logs
from scotoma.readers.record import EvaluationLog

FILES = Path(__file__).parent / "files"
Read = Callable[..., dict[str, EvaluationLog]]
Write = Callable[..., Path]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read logs at one or more places into a folder of the test's own."""

    def read(places: str | Path | Sequence[str | Path], **options: Any) -> dict[str, EvaluationLog]:
        folder = tmp_path / f"texts-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        listed = [places] if isinstance(places, (str, Path)) else places
        return read_logs(listed, folder, **options)

    return read


def lm_eval_row(number: int, **changed: Any) -> dict[str, Any]:
    """A row as lm-evaluation-harness 0.4.13 writes it."""
    row = {
        "doc_id": number,
        "doc": {"question": f"q{number}", "age": number % 7, "sex": "fm"[number % 2]},
        "target": str(number),
        "arguments": {"gen_args_0": {"arg_0": f"Q: q{number}\nA:", "arg_1": {"until": ["\n"]}}},
        "resps": [[f"It is {number}."]],
        "filtered_resps": [str(number)],
        "filter": "none",
        "metrics": ["exact_match"],
        "doc_hash": f"doc-{number}",
        "prompt_hash": f"prompt-{number}",
        "target_hash": f"target-{number}",
        "exact_match": 1.0,
    }
    return row | changed


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write rows as the log of a task, in a folder named after the model."""

    def write(rows: list[dict[str, Any]], model: str = "org__m", task: str = "sums") -> Path:
        folder = tmp_path / model
        folder.mkdir(exist_ok=True)
        path = folder / f"samples_{task}_2026-01-01T00-00-00.000000.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write
