"""What does a log of lm-evaluation-harness hold: `samples_TASK_DATE.jsonl`?

Written with `--log_samples`; held against files of lm_eval 0.4.13. One row is one example after
one filter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.files import json_lines, parsed
from scotoma.readers.record import About, Evaluation, Format, Record, hash_text
from scotoma.storage.regular import open_regular

__all__ = ["LM_EVAL", "is_lm_eval"]

KEYS = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
HASHES = ("doc_hash", "prompt_hash", "target_hash")
NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")


def is_lm_eval(row: Mapping[str, Any]) -> bool:
    """Whether an object is a row of such a log."""
    return {"doc_id", "doc", "target", "filtered_resps"} <= row.keys()


def records(path: Path) -> Iterator[Record]:
    """Read the rows of a log, in its order."""
    results = _results(path)
    model = results.get("model_name") or path.parent.name.replace("__", "/")
    task, _ = _named(path)
    for number, row in enumerate(json_lines(path)):
        if not is_lm_eval(row):
            raise DataError(
                f"{printable(path.name)} must hold rows of lm-evaluation-harness, and row "
                f"{number + 1:,} lacks doc_id, doc, target or filtered_resps; write the log again"
            )
        names = row.get("metrics")
        if not isinstance(names, list):
            names = [name for name in row if name not in KEYS and name not in HASHES]
        requests = _requests(row.get("arguments"))
        options = [one[1] for one in requests if len(one) > 1 and isinstance(one[1], str)]
        answer, text, choice = None, None, None
        if options:
            choice = _likeliest(row["filtered_resps"], len(options))
            answer = None if choice is None else options[choice].strip()
        elif not requests or len(requests[0]) > 1:  # else the likelihood of a text was asked for
            answer, text = _text(row["filtered_resps"]), _text(row.get("resps"))
        content, prompt_hash, target_hash = (row.get(name) for name in HASHES)
        yield Record(
            Evaluation(str(model), task, str(row.get("filter") or "")),
            str(row["doc_id"]),
            {str(name): row.get(str(name)) for name in names},
            {"doc": row["doc"]},
            content_hash=content or hash_text(json.dumps(row["doc"], sort_keys=True)),
            prompt_hash=prompt_hash,
            target_hash=target_hash,
            prompt=_prompt(requests),
            target=_target(row["target"], options),
            answer=answer,
            text=text,
            choice=choice,
        )


def _requests(arguments: Any) -> list[list[Any]]:
    """Read the arguments of every request that was made for an example."""
    if isinstance(arguments, dict):
        return [
            [one[f"arg_{place}"] for place in range(len(one)) if f"arg_{place}" in one]
            for one in arguments.values()
            if isinstance(one, dict)
        ]
    return [one for one in arguments or [] if isinstance(one, list)]


def _prompt(requests: list[list[Any]]) -> str | None:
    if not requests or not requests[0]:
        return None
    prompt = requests[0][0]
    return prompt if isinstance(prompt, str) else json.dumps(prompt)  # a chat


def _target(target: Any, options: list[str]) -> str | None:
    """Write a target as text: the option, where it is the number of one.

    >>> _target("1", [" no", " yes"]), _target("4", [" 3", " 4"]), _target("7", [])
    ('yes', '4', '7')
    """
    if target is None:
        return None
    text, names = str(target), [option.strip() for option in options]
    if text not in names and text.isdecimal() and int(text) < len(names):
        return names[int(text)]
    return text


def _likeliest(filtered: Any, options: int) -> int | None:
    """Find the option with the highest log-likelihood, as `acc` does."""
    if not isinstance(filtered, list) or len(filtered) != options:
        return None
    numbers = [_number(one[0] if isinstance(one, list) and one else one) for one in filtered]
    known = [number for number in numbers if number is not None]
    return known.index(max(known)) if len(known) == options else None


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str | None:
    """Write an answer as text: that of a list of one is its only element."""
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) or value is None else json.dumps(value)


def _named(path: Path) -> tuple[str, str]:
    """Read task and date from the name of a log."""
    match = NAME.fullmatch(path.name)
    return (match["task"], match["date"]) if match else (path.stem.removeprefix("samples_"), "")


def _results(path: Path) -> dict[str, Any]:
    """Read the results that were written with a log, if they are beside it."""
    _, date = _named(path)
    beside = path.with_name(f"results_{date}.json")
    if not date or not beside.is_file():
        return {}
    with open_regular(beside) as file:
        results = parsed(file.read(), beside.name, "it")
    return results if isinstance(results, dict) else {}


def about(path: Path, evaluation: Evaluation) -> About:
    """Read what `results_DATE.json` says of an evaluation."""
    results, task = _results(path), evaluation.task
    config, own = _part(results, "config"), _part(_part(results, "configs"), task)
    few_shot = _part(results, "n-shot").get(task, own.get("num_fewshot"))
    settings = {
        "filter": evaluation.filter,
        "filter_definition": next(
            (
                one.get("filter")
                for one in own.get("filter_list") or []
                if isinstance(one, dict) and one.get("name") == evaluation.filter
            ),
            None,
        ),
        "few_shot": few_shot,
        "few_shot_seed": config.get("fewshot_seed") if few_shot else None,
        "few_shot_as_multiturn": bool(results.get("fewshot_as_multiturn")),
        "limit": config.get("limit"),
        "system_instruction": results.get("system_instruction_sha"),
        "generation": own.get("generation_kwargs"),
        "gen_kwargs": config.get("gen_kwargs"),
        "output_type": own.get("output_type"),
        "repeats": own.get("repeats"),
        "task_version": _part(results, "versions").get(task),
    }
    details = {
        "model_args": config.get("model_args"),
        "model_source": results.get("model_source"),
        # A merged or fused tokenizer may carry another one: what was asked stands in the prompts.
        "chat_template": results.get("chat_template_sha"),
        "version": results.get("lm_eval_version"),
        "date": _named(path)[1],
    }
    note = (
        ()
        if results
        else (
            f"results_{_named(path)[1] or 'DATE'}.json is not beside {path.name}: few-shot "
            "examples, limit and generation settings are not checked.",
        )
    )
    return About(settings if results else {"filter": evaluation.filter}, details, note)


def _part(results: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = results.get(name)
    return part if isinstance(part, dict) else {}


LM_EVAL = Format("lm-eval", records, about)
