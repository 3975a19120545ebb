"""Logs in the format of lm-evaluation-harness: those of examples/, and of free text."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_SCRIPT: dict[str, Any] = runpy.run_path(
    str(Path(__file__).resolve().parents[2] / "examples" / "evaluation_logs.py")
)
write_bbq: Callable[..., Path] = _SCRIPT["write_bbq"]
PLANTED: str = _SCRIPT["PLANTED"]
DATE: str = _SCRIPT["DATE"]


def write_generation(folder: Path, *, n: int = 300, reword: float = 0.0, seed: int = 0) -> Path:
    """Write a log of free text: some answers are reworded, some refuse, one score is a number."""
    rng = np.random.default_rng(seed)
    asked = np.random.default_rng(9)
    right = asked.random(n) < 0.8
    level = asked.choice(["easy", "hard"], n)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(n):
        answer = str(i if right[i] else i + 1)
        text = f"The answer is {answer}."
        text = f"It must be {answer}, I think." if rng.random() < reword else text
        text = "I'm sorry, I cannot help with that." if rng.random() < reword / 10 else text
        f1 = float(np.clip(right[i] - 0.2 * reword * rng.random(), 0, 1))
        rows.append(
            {
                "doc_id": i, "doc": {"level": str(level[i])}, "target": str(i), "filter": "none",
                "metrics": ["exact_match", "f1"], "arguments": [[f"How much is {i}?", {}]],
                "resps": [[text]], "filtered_resps": [answer], "doc_hash": f"d{i}",
                "prompt_hash": f"p{i}", "target_hash": f"t{i}",
                "exact_match": float(right[i]), "f1": f1,
            }
        )  # fmt: skip
    path = folder / f"samples_sums_{DATE}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
