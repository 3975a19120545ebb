"""What do results of promptfoo hold: `promptfoo eval --output results.json`?

Held against files that promptfoo itself wrote. A provider is a model, a test an example.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.files import json_file, objects, part
from scotoma.readers.record import Evaluation, Format, Record, counted, hash_text


def records(path: Path) -> Iterator[Record]:
    """Read the results, in their order; repeats of a test are reruns."""
    content = json_file(path)
    rows = objects(part(content, "results").get("results"))
    if not rows:
        raise DataError(
            f"{printable(path.name)} must hold results.results of promptfoo, and has none; write "
            "it again with promptfoo eval --output FILE.json"
        )
    task = str(part(content, "config").get("description") or "promptfoo")
    prompts = len({row.get("promptIdx") for row in rows})
    seen: dict[tuple[str, str, str], int] = {}
    for row in rows:
        prompt, response = part(row, "prompt"), part(row, "response")
        case = part(row, "testCase")
        asked = row.get("vars") or case.get("vars") or {}
        model = _model(row)
        label = str(prompt.get("label") or row.get("promptIdx")) if prompts > 1 else ""
        test = hash_text(json.dumps([asked, case.get("assert")], sort_keys=True))
        again = seen[model, label, test] = seen.get((model, label, test), -1) + 1
        output, reason = response.get("output"), response.get("finishReason")
        reason = "refusal" if response.get("isRefusal") is True else reason
        text = output if output is None or isinstance(output, str) else json.dumps(output)
        yield Record(
            Evaluation(model, task, label),
            test,
            {"success": row.get("success"), "score": row.get("score"), **_named(row)},
            {"vars": asked, "metadata": part(case, "metadata")},
            rerun=again,
            content_hash=test,
            prompt=prompt.get("raw"),
            text=text,
            answered=bool(text),
            stop_reason=reason and str(reason),
            output_tokens=counted(part(response, "tokenUsage").get("completion")),
        )


def answering_models(path: Path) -> list[str]:
    """The models of a file, in the order in which they answer first."""
    rows = objects(part(json_file(path), "results").get("results"))
    return list(dict.fromkeys(_model(row) for row in rows))


def _model(row: dict[str, Any]) -> str:
    provider = part(row, "provider")
    return str(provider.get("label") or provider.get("id") or "")


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """The scores that assertions were given names for."""
    return {name: value for name, value in part(row, "namedScores").items() if name != "success"}


PROMPTFOO = Format(
    "promptfoo", records, sniff=lambda file: b'"evalId"' in file.begins[:200],
)  # fmt: skip
