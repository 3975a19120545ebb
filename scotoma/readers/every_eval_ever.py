"""What does a log in the form of Every Eval Ever hold: instance-level JSONL, schema 0.3?

Held against files that every_eval_ever 0.3.0 converted from those of lm-evaluation-harness.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.files import json_lines, objects
from scotoma.readers.record import About, Evaluation, Format, Record

KEYS = {"sample_id", "evaluation_name", "evaluation", "input"}
LOSES_DOC = (
    "{name} was converted to Every Eval Ever, which drops the attributes in doc: compare the logs "
    "of lm-evaluation-harness themselves for groups."
)


def records(path: Path) -> Iterator[Record]:
    """Read the rows of a log; one whose conversion found no score is unscored."""
    for number, row in enumerate(json_lines(path), 1):
        outcome, asked = row.get("evaluation"), row.get("input")
        if not isinstance(outcome, dict) or not isinstance(asked, dict) or "sample_id" not in row:
            raise DataError(
                f"{printable(path.name)} must hold rows of Every Eval Ever, and row {number:,} "
                "lacks sample_id, input or evaluation; convert the log again"
            )
        metadata = row.get("metadata") or {}
        output = row.get("output") or {}
        references = asked.get("reference") or []
        scored = str(metadata.get("filter") or "")
        # The converter names each of several filters of a task TASK/FILTER.
        task = str(row.get("evaluation_name") or "").removesuffix(f"/{scored}")
        # A sample has a row for each of several results, as for each of several filters.
        scored = scored or str(row.get("evaluation_result_id") or "")
        yield Record(
            Evaluation(str(row.get("model_id") or ""), task, scored),
            str(row["sample_id"]),
            _scores(outcome, metadata),
            {"metadata": {k: v for k, v in metadata.items() if not k.endswith("_hash")}},
            content_hash=metadata.get("doc_hash") or row.get("sample_hash"),
            prompt_hash=metadata.get("prompt_hash"),
            target_hash=metadata.get("target_hash"),
            prompt=asked.get("formatted") or asked.get("raw"),
            target=", ".join(map(str, references)) if references else None,
            answer=_answer(row.get("answer_attribution")),
            text=_text(output.get("raw"), row.get("messages")),
        )


def _scores(outcome: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Read the score, and the metrics of lm-evaluation-harness if they were kept.

    The converter writes 0 and false where no metric of an example is a number.
    """
    try:
        kept = json.loads(metadata.get("lm_eval_metrics") or "{}")
    except (ValueError, TypeError, RecursionError):
        kept = {}
    if kept and not any(isinstance(one, (int, float)) for one in kept.values()):
        return dict(kept)
    return {"score": outcome.get("score"), "is_correct": outcome.get("is_correct"), **kept}


def _answer(attributions: Any) -> str | None:
    """Read the extracted answer: the last that is final."""
    final = [one for one in objects(attributions) if one.get("is_terminal")]
    value = final[-1].get("extracted_value") if final else None
    return None if value is None else str(value)


def _text(raw: Any, messages: Any) -> str | None:
    """Read the raw answer: the output, or the last message of the model."""
    if isinstance(raw, list):
        return "\n".join(map(str, raw)) if raw else None
    if raw is not None:
        return str(raw)
    own = [one for one in objects(messages) if one.get("role") == "assistant"]
    return None if not own or own[-1].get("content") is None else str(own[-1]["content"])


def about(path: Path, evaluation: Evaluation) -> About:
    """Warn of what conversion has dropped; the id of a result need not agree, as a filter must."""
    first = next(json_lines(path))
    if not (first.get("metadata") or {}).get("filter"):
        return About({})
    return About({"filter": evaluation.filter}, (LOSES_DOC.format(name=printable(path.name)),))


EVERY_EVAL_EVER = Format("every-eval-ever", records, about, lambda file: {*file.columns} >= KEYS)
