"""What do the details of lighteval hold: `details_TASK_DATE.parquet`?

Held against files of lighteval 0.13.0.
Since 0.10 a row has `doc`, `model_response` and `metric`; a nested value may be text of Python.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scotoma.readers.files import json_file, rows_of_table
from scotoma.readers.record import About, Evaluation, Format, Record, hash_text

__all__ = ["LIGHTEVAL", "LIGHTEVAL_COLUMNS"]

LIGHTEVAL_COLUMNS = {"doc", "metric", "model_response"}
NAME = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.parquet")


def records(path: Path) -> Iterator[Record]:
    """Read the rows of a file, in its order."""
    evaluation = Evaluation(_model(path), _named(path)[0])
    for number, row in enumerate(rows_of_table(path)):
        doc, said, metric = (_object(row.get(name)) for name in ("doc", "model_response", "metric"))
        choices = [str(one) for one in doc.get("choices") or []]
        gold = doc.get("gold_index")
        golds = gold if isinstance(gold, list) else [gold]
        targets = [choices[one] for one in golds if isinstance(one, int) and one < len(choices)]
        texts = said.get("text_post_processed") or said.get("text") or []
        raw = said.get("text") or []
        likelihoods = said.get("logprobs") or []
        choice = None
        if not any(map(str, texts)) and len(likelihoods) == len(choices) > 1:
            choice = max(range(len(choices)), key=lambda place: likelihoods[place])
        asked = said.get("input") or doc.get("query")
        own_id = doc.get("id")
        yield Record(
            evaluation,
            str(number if own_id in (None, "") else own_id),
            metric,
            {"doc": doc},
            content_hash=hash_text(str(doc.get("query")), json.dumps(choices), json.dumps(gold)),
            prompt=asked if isinstance(asked, str) else json.dumps(asked, default=str),
            target=", ".join(targets) if targets else None,
            answer=_first(texts) if choice is None else choices[choice].strip(),
            text=_first(raw) if choice is None else None,
            choice=choice,
        )


def _first(texts: Any) -> str | None:
    if isinstance(texts, list):
        return str(texts[0]) if texts else None
    return str(texts) if texts else None


def _object(value: Any) -> dict[str, Any]:
    """Read a nested value, also where lighteval had to write it as text.

    >>> _object("{'acc': 1}"), _object({"acc": 1}), _object("no object")
    ({'acc': 1}, {'acc': 1}, {})
    """
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            value = None
    return value if isinstance(value, dict) else {}


def _named(path: Path) -> tuple[str, str]:
    match = NAME.fullmatch(path.name)
    return (match["task"], match["date"]) if match else (path.stem.removeprefix("details_"), "")


def _results(path: Path) -> dict[str, Any]:
    """Read the results of the same date: details/MODEL/DATE/ lies beside results/MODEL/."""
    _, date = _named(path)
    for above in path.parents:
        if above.name == "details":
            model = path.parent.parent.relative_to(above)
            beside = above.parent / "results" / model / f"results_{date}.json"
            results = json_file(beside) if beside.is_file() else {}
            return results if isinstance(results, dict) else {}
    return {}


def _model(path: Path) -> str:
    config = _part(_results(path), "config_general")
    own = config.get("model_name") or _part(config, "model_config").get("model_name")
    return str(own or path.parent.parent.name)


def about(path: Path, evaluation: Evaluation) -> About:
    """Read what `results_DATE.json` says of an evaluation."""
    results = _results(path)
    config = _part(results, "config_general")
    model = _part(config, "model_config")
    task = _part(_part(results, "config_tasks"), evaluation.task)
    generation = _part(config, "generation_parameters") or _part(model, "generation_parameters")
    settings = {
        "few_shot": task.get("num_fewshots", evaluation.task.rpartition("|")[2]),
        "few_shot_seeds": config.get("num_fewshot_seeds"),
        "limit": config.get("max_samples"),
        "generation": {name: one for name, one in generation.items() if one is not None},
        "task_version": task.get("version"),
    }
    details = {"model_args": model, "version": config.get("lighteval_sha"), "date": _named(path)[1]}
    note = f"results_DATE.json of {path.name} is missing: limit and generation are not checked."
    return About(settings if results else {}, details, () if results else (note,))


def _part(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = value.get(name)
    return part if isinstance(part, dict) else {}


LIGHTEVAL = Format("lighteval", records, about)
