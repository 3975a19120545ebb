"""What does a log of inspect_ai hold: `.eval`, a zip of JSON, or `.json`?

Held against files of inspect_ai 0.3.285. An epoch is a rerun. What a scorer left unscored is nan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.files import Glimpse, ZipMembers, json_file, objects, parsed, part
from scotoma.readers.record import (
    About,
    Attempt,
    Evaluation,
    Format,
    Record,
    counted,
    hash_text,
)

# As inspect_ai's value_to_float: correct, partial, incorrect, no answer.
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
ATTACHMENT = "attachment://"
JSON_LOG = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:')
HEADERS = ("header.json", "_journal/start.json")
SETTINGS = (
    "limit",
    "sample_id",
    "sample_shuffle",
    "message_limit",
    "token_limit",
    "turn_limit",
    "time_limit",
    "working_limit",
    "cost_limit",
)


def records(path: Path) -> Iterator[Record]:
    """Read the samples of a log, in the order in which they were written."""
    if not Glimpse(path).members:
        log = json_file(path)
        evaluation = _evaluation(log)
        for sample in log.get("samples") or []:
            yield _record(sample, evaluation, path)
        return
    with ZipMembers(path) as members:
        evaluation = _evaluation(_zip_header(members))
        for name in members.names:
            if name.startswith("samples/") and name.endswith(".json"):
                yield _record(parsed(members.read(name), path.name, name), evaluation, path)


def _zip_header(members: ZipMembers) -> dict[str, Any]:
    """Read the header; that of an evaluation which has not ended is its start."""
    name = next((name for name in HEADERS if name in members.names), None)
    if name is None:
        raise DataError(
            f"{printable(members.path.name)} must hold header.json, as logs of inspect_ai do; "
            "copy the log again"
        )
    content = parsed(members.read(name), members.path.name, name)
    return content if isinstance(content, dict) else {}


def _evaluation(log: Mapping[str, Any]) -> Evaluation:
    spec = part(log, "eval")
    return Evaluation(str(spec.get("model") or ""), str(spec.get("task") or ""))


def _record(sample: Any, evaluation: Evaluation, path: Path) -> Record:
    if not isinstance(sample, dict) or not {"id", "epoch", "input", "target"} <= sample.keys():
        raise DataError(
            f"{printable(path.name)} must hold samples with id, epoch, input and target, and one "
            "lacks some; copy the log again"
        )
    attached = part(sample, "attachments")
    prompt = _chat(_asked(sample), attached)
    targets = sample["target"] if isinstance(sample["target"], list) else [sample["target"]]
    target = ", ".join(_whole(str(one), attached) for one in targets)
    choices = sample.get("choices")
    text = part(sample, "output").get("completion")
    invalid = sample.get("invalidation") is not None
    choice = next(iter(objects(part(sample, "output").get("choices"))), {})
    limit, reason = part(sample, "limit").get("type"), choice.get("stop_reason")
    called = [one.get("tool_calls") for one in objects(sample.get("messages"))]
    scores, answer = _scores({} if invalid else part(sample, "scores"))
    return Record(
        evaluation,
        str(sample["id"]),
        scores,
        {"metadata": part(sample, "metadata")},
        rerun=_epoch(sample["epoch"], path),
        content_hash=hash_text(_chat(sample["input"], attached), json.dumps(choices), target),
        prompt=prompt,
        target=target,
        answer=answer,
        text=None if text is None else _whole(str(text), attached),
        choice=_choice(answer, choices),
        answered=True if invalid else None,  # marked as invalid by a person, whatever was answered
        stop_reason=f"{limit} limit" if limit else reason and str(reason),
        output_tokens=counted(part(sample, "output", "usage").get("output_tokens")),
        tool_calls=sum(len(one) for one in called if isinstance(one, list)),
    )


def _epoch(epoch: Any, path: Path) -> int:
    if not isinstance(epoch, int) or epoch < 1:
        raise DataError(
            f"{printable(path.name)} must number epochs from 1, got {printable(repr(epoch))[:40]}; "
            "copy the log again"
        )
    return epoch - 1


def _scores(scores: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Read scores as numbers where they stand for some, and the first extracted answer.

    A scorer that gives several values has a score for each, named SCORER.VALUE.
    """
    numbers: dict[str, Any] = {}
    answer = None
    for name, score in scores.items():
        if not isinstance(score, dict):
            continue
        value = score.get("value")
        if isinstance(value, dict):
            numbers |= {f"{name}.{key}": _graded(one) for key, one in value.items()}
        else:
            numbers[name] = _graded(value)
        answer = score.get("answer") if answer is None else answer
    return numbers, None if answer is None else str(answer)


def _graded(value: Any) -> Any:
    return GRADES.get(value, value) if isinstance(value, str) else value


def _choice(answer: str | None, choices: Any) -> int | None:
    """Read the place of a chosen letter.

    >>> _choice("B", ["yes", "no"]), _choice("D", ["yes", "no"])
    (1, None)
    """
    if not isinstance(choices, list) or answer is None or len(answer.strip()) != 1:
        return None
    place = ord(answer.strip().upper()) - ord("A")
    return place if 0 <= place < len(choices) else None


def _asked(sample: Mapping[str, Any]) -> Any:
    """Read what the model was shown before its first answer."""
    messages = sample.get("messages")
    if not isinstance(messages, list) or not messages:
        return sample["input"]
    asked = []
    for message in messages:
        if not isinstance(message, dict):
            break
        if message.get("role") == "assistant" and message.get("source") != "input":
            break
        asked.append(message)
    return asked or sample["input"]


def _chat(messages: Any, attached: Mapping[str, Any]) -> str:
    """Write messages as text, one after the other."""
    if isinstance(messages, str):
        return _whole(messages, attached)
    parts = []
    for message in messages if isinstance(messages, list) else []:
        content = message.get("content") if isinstance(message, dict) else message
        texts = content if isinstance(content, list) else [content]
        texts = [
            one.get("text", one.get("type")) if isinstance(one, dict) else one for one in texts
        ]
        whole = "\n".join(_whole(str(one), attached) for one in texts if one is not None)
        parts.append(f"{message.get('role')}: {whole}" if isinstance(message, dict) else whole)
    return "\n\n".join(parts)


def _whole(text: str, attached: Mapping[str, Any]) -> str:
    """Put back a long text that the log keeps apart."""
    if text.startswith(ATTACHMENT):
        return str(attached.get(text.removeprefix(ATTACHMENT), text))
    return text


def about(path: Path, _: Evaluation) -> About:
    """Read how a log says that examples were asked, and whether its evaluation has ended."""
    log = header(path) if Glimpse(path).members else json_file(path)
    spec, config = part(log, "eval"), part(log, "eval", "config")
    generation = part(spec, "model_generate_config") | part(log, "plan", "config")
    steps = [
        {"solver": step.get("solver"), "params": step.get("params_passed", step.get("params"))}
        for step in objects(part(log, "plan").get("steps"))
    ]
    scorers = [
        {"name": one.get("name"), "options": one.get("options")}
        for one in objects(spec.get("scorers"))
    ]
    settings = {
        **{name: config.get(name) for name in SETTINGS},
        "generation": generation,
        "solver": steps,
        "scorers": scorers,
        "task_args": spec.get("task_args"),
        "task_version": spec.get("task_version"),
    }
    notes = []
    status = log.get("status", "started")
    if status != "success":
        notes.append(
            f"{printable(path.name)} is of an evaluation that did not finish (status "
            f"{printable(str(status))[:20]!r}): examples may be missing."
        )
    if log.get("invalidated"):
        notes.append(f"{printable(path.name)} has samples that were marked as invalid.")
    attempt = Attempt(
        str(spec.get("task_id") or ""), status == "success", str(spec.get("created") or "")
    )
    return About(settings, tuple(notes), attempt)


def header(path: Path) -> dict[str, Any]:
    """Read what an .eval file says of the evaluation as a whole."""
    with ZipMembers(path) as members:
        return _zip_header(members)


INSPECT_AI = Format(
    "inspect", records, about,
    lambda file: bool({*HEADERS} & {*file.members} or JSON_LOG.match(file.begins)),
)  # fmt: skip
