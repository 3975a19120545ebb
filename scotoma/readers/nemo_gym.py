"""What do rollouts of NeMo Gym hold: JSONL of `gym eval run`, a row an answer with its reward?

Keys are those of rollouts in its repository (2026): `responses_create_params` is what was asked,
`response` what OpenAI's Responses API answered, `_ng_task_index` and `_ng_rollout_index` say which
question and which repeat a row is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scotoma.readers.files import json_lines, objects, part
from scotoma.readers.record import About, Evaluation, Format, Record, counted, hash_text

ASKED, REWARD = "responses_create_params", "reward"
ADDED = {ASKED, REWARD, "response", "agent_ref", "expected_answer", "extracted_answer"}
SETTINGS = ("temperature", "top_p", "max_output_tokens", "instructions")


def records(path: Path) -> Iterator[Record]:
    """Read the rows in their order; one without a reward is unscored."""
    seen: dict[tuple[str, str], int] = {}
    for row in json_lines(path):
        asked, response = part(row, ASKED), part(row, "response")
        task = str(part(row, "agent_ref").get("name") or "nemo-gym")
        target, answer = row.get("expected_answer"), row.get("extracted_answer")
        question = asked.get("input")
        content = hash_text(json.dumps(question, sort_keys=True), str(target))
        example = str(row.get("_ng_task_index", content))
        again = seen[task, example] = seen.get((task, example), -1) + 1
        text = "\n".join(
            _text(one.get("content")) for one in objects(response.get("output"))
            if one.get("type") == "message"
        )  # fmt: skip
        yield Record(
            Evaluation(str(response.get("model") or ""), task),
            example,
            {REWARD: row.get(REWARD)},
            {name: value for name, value in row.items() if name not in ADDED and name[0] != "_"},
            rerun=int(row.get("_ng_rollout_index", again)),
            content_hash=content,
            prompt=_text(question),
            target=None if target is None else str(target),
            answer=None if answer is None else str(answer),
            text=text,
            answered=bool(text or response.get("output")),
            stop_reason=_ended(response),
            output_tokens=counted(part(response, "usage").get("output_tokens")),
            tool_calls=sum(one.get("type") == "function_call" for one in objects(output))
            if isinstance(output := response.get("output"), list)
            else None,
        )


def _ended(response: Mapping[str, Any]) -> str | None:
    """Why the answer ended; model servers that convert chats may leave it and the status out."""
    reason = part(response, "incomplete_details").get("reason")
    if reason or response.get("status") != "completed":
        return str(reason) if reason else None
    return "completed"


def _text(content: Any) -> str:
    """The text of messages, or of the parts of one."""
    if isinstance(content, str):
        return content
    texts = (one.get("text") or _text(one.get("content")) for one in objects(content))
    return "\n".join(filter(None, texts))


def about(path: Path, _: Evaluation) -> About:
    """How the model was asked: settings of the first row that are set."""
    asked: Mapping[str, Any] = part(next(iter(json_lines(path))), ASKED)
    return About({name: asked[name] for name in SETTINGS if asked.get(name) is not None})


NEMO_GYM = Format(
    "nemo-gym", records, about, sniff=lambda file: {ASKED, REWARD} <= {*file.columns},
)  # fmt: skip
