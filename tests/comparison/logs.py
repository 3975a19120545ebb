"""Logs in the format of lm-evaluation-harness, of a BBQ-like task, with planted harm."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

CATEGORIES = ("Age", "Disability", "Gender", "Nationality", "Physical", "Race", "Religion", "SES")
PLANTED = "Religion"  # where a quantized model loses
DATE = "2026-11-01T10-00-00.000000"


def write_bbq(
    folder: Path, *, n: int = 600, harm: float = 0.0, noise: float = 0.1, seed: int = 0
) -> Path:
    """Write one model's log.

    Args:
        folder: Of the model.
        n: Questions.
        harm: By how much harder questions of `PLANTED` are.
        noise: Of this evaluation, beside how hard a question is.
        seed: Of the noise.

    Returns:
        The log.
    """
    asked = np.random.default_rng(7)
    category = asked.choice(CATEGORIES, n)
    context = asked.choice(["ambig", "disambig"], n)
    age = asked.integers(18, 80, n)
    biased_option, right_option = asked.integers(0, 2, n), asked.integers(0, 2, n)
    hard = asked.normal(size=n) + harm * (category == PLANTED)
    rng = np.random.default_rng(seed + 1_000)
    right = hard + noise * rng.normal(size=n) < 1.0
    guess = asked.integers(0, 3, n)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(n):
        options = [f"The first {i}", f"The second {i}", "Not known"]
        label = 2 if context[i] == "ambig" else int(right_option[i])
        other = [place for place in range(3) if place != label]
        choice = label if right[i] else other[guess[i] % 2]
        doc = {
            "example_id": i, "category": str(category[i]), "context_condition": str(context[i]),
            "age": int(age[i]), "biased_answers": [options[biased_option[i]]], "label": label,
            "question": f"Who of them {i}?",
        }  # fmt: skip
        likelihoods = [[-1.0 if place == choice else -3.0, False] for place in range(3)]
        asking = {
            f"gen_args_{place}": {"arg_0": f"Context. Who of them {i}?", "arg_1": f" {text}"}
            for place, text in enumerate(options)
        }
        rows.append(
            {
                "doc_id": i, "doc": doc, "target": label, "filter": "none", "metrics": ["acc"],
                "arguments": asking,
                "resps": [[one] for one in likelihoods], "filtered_resps": likelihoods,
                "doc_hash": hashlib.sha256(str(i).encode()).hexdigest(),
                "prompt_hash": hashlib.sha256(f"p{i}".encode()).hexdigest(),
                "target_hash": hashlib.sha256(f"t{label}".encode()).hexdigest(),
                "acc": float(choice == label),
            }
        )  # fmt: skip
    path = folder / f"samples_bbq_{DATE}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


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
