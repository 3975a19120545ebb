"""Rollouts of NeMo Gym, in the form that its documents show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import measured, stderr_of

N, REPEATS = 120, 4


def rollout(i: int, repeat: int, reward: float, **more: Any) -> dict[str, Any]:
    """A row as `resources_servers/mcqa/README.md` of NVIDIA-NeMo/Gym shows it."""
    said = [{"type": "output_text", "text": f"The answer is {i}, surely.", "annotations": []}]
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": f"How much is {i}?"}], "temperature": 0.6,
            "top_p": None,
        },
        "response": {
            "model": "org/m", "object": "response", "status": "completed",
            "output": [
                {"type": "reasoning", "summary": []},
                {"type": "message", "role": "assistant", "content": said},
            ],
        },
        "reward": reward, "expected_answer": "E", "extracted_answer": "E" if reward else "A",
        "level": "hard" if i % 3 else "easy", "_ng_task_index": i, "_ng_rollout_index": repeat,
        "agent_ref": {"name": "mcqa_agent"},
    } | more  # fmt: skip


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    able = rng.beta(5, 1, (N, 1))
    before, after = (rng.random((N, REPEATS)) < able - lost for lost in (0.0, 0.1))
    for name, right in (("bf16", before), ("fp4", after)):
        rows = [rollout(i, k, float(right[i, k])) for k in range(REPEATS) for i in range(N)]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "bf16.jsonl", tmp_path / "fp4.jsonl", before, after


def test_rewards_are_compared_with_their_repeats(
    sides: tuple[Path, Path, np.ndarray, np.ndarray],
) -> None:
    bf16, fp4, before, after = sides
    (one,) = measured("compare", bf16, fp4, "--group", "level")["comparisons"]
    assert (one["metric"], one["examples"], one["reruns"]) == ("reward", N, [REPEATS, REPEATS])
    assert one["paired_by"] == "content_hash"
    change = after.mean() - before.mean()
    assert one["score"]["change"]["value"] == pytest.approx(change)
    assert {row["group"] for row in one["groups"]} == {"level=easy", "level=hard"}
    assert one["floor"]["n"] == N


def test_settings_that_differ_are_refused(
    sides: tuple[Path, Path, np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    bf16, fp4, *_ = sides
    text = fp4.read_text().replace('"temperature": 0.6', '"temperature": 1.0')
    (tmp_path / "warm.jsonl").write_text(text)
    err = stderr_of("compare", bf16, tmp_path / "warm.jsonl", code=4)
    assert "temperature is 0.6" in " ".join(err.split())


def test_rows_without_numbers_of_questions_are_paired_by_content(tmp_path: Path) -> None:
    """Older rollouts say neither which task, nor which repeat, nor whose they are."""
    for name, reward in (("a", 1.0), ("b", 0.0)):
        rows = [rollout(i, k, reward if i < 10 else 1.0) for k in range(2) for i in range(40)]
        kept = [{key: value for key, value in row.items() if not key.startswith(("_ng", "agent"))}
                for row in rows]  # fmt: skip
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in kept))
    (one,) = measured("compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl")["comparisons"]
    assert one["examples"] == 40
    assert one["score"]["change"]["value"] == pytest.approx(-0.25)
