"""Write evaluation logs to compare: a question benchmark, two models, two runs of each.

    python examples/evaluation_logs.py

writes bf16/run1, bf16/run2, w4a16/run1 and w4a16/run2, as lm-evaluation-harness does with
`--log_samples`. The 4-bit model loses on questions about religion.
"""

import hashlib
import json
from pathlib import Path

import numpy as np

CATEGORIES = ("Age", "Disability", "Gender", "Nationality", "Physical", "Race", "Religion", "SES")
PLANTED = "Religion"  # where the quantized model loses
DATE = "2026-11-01T10-00-00.000000"
QUESTIONS = 2_000


def main() -> None:
    """Write the four logs into the current folder."""
    for run in (1, 2):
        for model, harm in (("bf16", 0.0), ("w4a16", 0.5)):
            folder = Path(model, f"run{run}", "org__model")
            write_bbq(folder, n=QUESTIONS, harm=harm, seed=run + 10 * (harm > 0))


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
    guess = asked.integers(0, 2, n) ^ (rng.random(n) < noise)  # another wrong answer now and then
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(n):
        options = [f"The first {i}", f"The second {i}", "Not known"]
        label = 2 if context[i] == "ambig" else int(right_option[i])
        other = [place for place in range(3) if place != label]
        choice = label if right[i] else other[guess[i]]
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


if __name__ == "__main__":
    main()
