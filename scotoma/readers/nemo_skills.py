"""What do rollouts of NeMo-Skills hold: `BENCHMARK/output-rsN.jsonl`, a row an answer?

Each file is one answer to every question of a benchmark: rs0 to rsN are reruns of one model. Keys
are those that nemo_skills/evaluation/metrics reads (June 2025).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.files import json_lines, part
from scotoma.readers.record import Evaluation, Format, Record, called, counted, hash_text

QUESTIONS = ("problem", "question", "prompt")
IDS = ("id", "problem_id", "question_id", "task_id", "key")
PLAIN = ("symbolic_correct", "is_correct", "is_correct-plus")
STATED = {"yes": True, "correct": True, "no": False, "incorrect": False}
# What generation and evaluation add to a question; whatever else a row holds describes it.
ADDED = {
    *PLAIN, *QUESTIONS, "generation", "reasoning_content", "judgement", "predicted_answer",
    "expected_answer", "graded_list", "status", "strict_eval", "loose_eval", "finish_reason",
    "num_generated_tokens", "num_input_tokens", "generation_time", "generation_start_time",
    "generation_end_time", "completion", "serialized_output", "num_code_executions", "code_rounds",
    "tool_calls", "error", "metadata_list", "details",
}  # fmt: skip
NAME = re.compile(r"output(-rs\d+)?\.jsonl(\.gz)?")


def records(path: Path) -> Iterator[Record]:
    """Read the rows of a file; one that no metric has judged is unscored."""
    for number, row in enumerate(json_lines(path)):
        if "generation" not in row:
            raise DataError(
                f"{printable(path.name)} must hold rollouts of NeMo-Skills, and row {number + 1:,} "
                "lacks generation; write it again with ns eval"
            )
        question = next((str(row[name]) for name in QUESTIONS if row.get(name)), None)
        target, answer = row.get("expected_answer"), row.get("predicted_answer")
        yield Record(
            Evaluation("", path.absolute().parent.name),
            str(next((row[name] for name in IDS if row.get(name) is not None), number)),
            _scores(row),
            {name: value for name, value in row.items() if name not in ADDED},
            content_hash=None if question is None else hash_text(question, str(target)),
            prompt=question,
            target=None if target is None else str(target),
            answer=None if answer is None else str(answer),
            text=str(row["generation"]),
            stop_reason=row.get("finish_reason") and str(row["finish_reason"]),
            output_tokens=counted(row.get("num_generated_tokens")),
            tool_calls=called(row["tool_calls"] or [])
            if "tool_calls" in row
            else counted(row.get("num_code_executions")),
        )


def _scores(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read the scores that the benchmark's metrics have written."""
    scores = {name: row[name] for name in PLAIN if name in row}
    if "judgement" in row:
        scores["judge_correct"] = _judged(str(row["judgement"]))
    if isinstance(row.get("graded_list"), list) and row["graded_list"]:  # of LiveCodeBench
        scores["accuracy"] = row["graded_list"][0]
    if "status" in row:  # of BigCodeBench
        scores["accuracy"] = row["status"] == "pass"
    for name in ("strict", "loose"):  # of IFEval and IFBench
        if f"{name}_eval" in row:
            followed = part(row, f"{name}_eval").get("follow_all_instructions")
            scores[f"prompt_{name}"] = followed
    return scores


def _judged(text: str) -> bool:
    """Whether a judge calls an answer right: what is no judgement counts as wrong, as there.

    >>> _judged("Reasoning: equal. Judgement: Yes"), _judged("[Incorrect]"), _judged("")
    (True, False, False)
    """
    found = re.search(r"judgement:\s*(yes|no)|\[(correct|incorrect)\]", text, re.IGNORECASE)
    return found is not None and STATED[(found[1] or found[2]).lower()]


NEMO_SKILLS = Format(
    "nemo-skills", records,
    sniff=lambda file: NAME.fullmatch(file.path.name) is not None and "generation" in file.columns,
)  # fmt: skip
