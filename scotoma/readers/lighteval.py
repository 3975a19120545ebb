"""What do the details of lighteval hold: `details_TASK_DATE.parquet`?

Held against files of lighteval 0.13.0. Since 0.10 a row has `doc`, `model_response` and `metric`, a
nested value may be text of Python; before, every cell is, and an example has no id.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from scotoma.readers.files import Glimpse, object_beside, part, table_frames
from scotoma.readers.record import About, Evaluation, Format, Record, hash_text, likeliest

COLUMNS = {"doc", "metric", "model_response"}
COLUMNS_BEFORE = {"full_prompt", "gold_index", "metrics", "predictions"}
NAME = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.parquet")
BATCH = 5_000  # rows that are read at a time
LONGEST_CELL = 2**20  # characters of text of Python that are parsed
NUMPY = re.compile(r"(np|numpy|torch)?\.?(float|int|bool|uint|array|tensor)_?\d*")


def _sniff(file: Glimpse) -> bool:
    return any({*file.columns} >= known for known in (COLUMNS, COLUMNS_BEFORE))


def records(path: Path) -> Iterator[Record]:
    """Read the rows of a file, in its order."""
    evaluation = Evaluation(_model(path), _named(path)[0])
    frames = table_frames(path, BATCH)
    rows = chain.from_iterable(frame.iter_rows(named=True) for frame in frames)
    for number, row in enumerate(rows):
        yield _record(row, evaluation, number) if "doc" in row else _before(row, evaluation, number)


def _record(row: Mapping[str, Any], evaluation: Evaluation, number: int) -> Record:
    doc, response, metric = (_object(row.get(name)) for name in ("doc", "model_response", "metric"))
    choices = [str(one) for one in doc.get("choices") or []]
    gold = doc.get("gold_index")
    golds = gold if isinstance(gold, list) else [gold]
    targets = [choices[one] for one in golds if isinstance(one, int) and one < len(choices)]
    texts = response.get("text_post_processed") or response.get("text") or []
    choice = None
    if not any(map(str, texts)):
        choice = likeliest(response.get("logprobs") or [], len(choices))
    asked = response.get("input") or doc.get("query")
    own_id = doc.get("id")
    return Record(
        evaluation,
        str(number if own_id in (None, "") else own_id),
        metric,
        {"doc": doc},
        content_hash=hash_text(str(doc.get("query")), json.dumps(choices), json.dumps(gold)),
        prompt=asked if isinstance(asked, str) else json.dumps(asked, default=str),
        target=", ".join(targets) if targets else None,
        answer=_first(texts) if choice is None else choices[choice].strip(),
        text=_first(response.get("text") or []) if choice is None else None,
        choice=choice,
    )


def _before(row: Mapping[str, Any], evaluation: Evaluation, number: int) -> Record:
    """Read a row as lighteval wrote it before 0.10."""
    choices, golds, response = (
        one if isinstance(one, list) else [] if one is None else [one]
        for one in map(_value, (row.get("choices"), row.get("gold"), row.get("predictions")))
    )
    choices = [str(one) for one in choices]
    pairs = [one[0] if isinstance(one, (list, tuple)) and one else one for one in response]
    choice = likeliest(pairs, len(choices))
    text = None if choice is not None or not response else str(response[0])
    asked = row.get("example")
    targets = [str(one).strip() for one in golds]
    return Record(
        evaluation,
        str(number),
        _object(row.get("metrics")),
        {"specifics": _object(row.get("specifics"))},
        content_hash=hash_text(str(asked), json.dumps(choices), json.dumps(targets)),
        prompt=None if row.get("full_prompt") is None else str(row["full_prompt"]),
        target=", ".join(targets) if targets else None,
        answer=text if choice is None else choices[choice].strip(),
        text=text,
        choice=choice,
    )


def _first(texts: Any) -> str | None:
    if isinstance(texts, list):
        return str(texts[0]) if texts else None
    return str(texts) if texts else None


def _object(value: Any) -> dict[str, Any]:
    """Read a nested value, also where lighteval wrote it as text.

    >>> _object("{'acc': np.float64(1.0)}"), _object("{'em': np.True_}"), _object("no object")
    ({'acc': 1.0}, {'em': True}, {})
    """
    value = _value(value)
    return value if isinstance(value, dict) else {}


def _value(value: Any) -> Any:
    """Read a value from its text in Python, never running it; text that is none stays text.

    >>> _value("[(-1.0, False)]"), _value("nan"), _value("open('x')")
    ([(-1.0, False)], nan, "open('x')")
    """
    if not isinstance(value, str) or len(value) > LONGEST_CELL:
        return value
    try:
        return ast.literal_eval(_Literals().visit(ast.parse(value.strip(), mode="eval")))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return value


class _Literals(ast.NodeTransformer):
    """Write nan, infinity and numbers of numpy and torch as what they hold."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(float(node.id)) if node.id in ("nan", "inf") else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Constant(node.attr == "True_") if node.attr in ("True_", "False_") else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        known = len(node.args) == 1 and NUMPY.fullmatch(ast.unparse(node.func))
        return self.visit(node.args[0]) if known else node


def _named(path: Path) -> tuple[str, str]:
    match = NAME.fullmatch(path.name)
    return (match["task"], match["date"]) if match else (path.stem.removeprefix("details_"), "")


def _results(path: Path) -> dict[str, Any]:
    """Read the results of the same date: details/MODEL/DATE/ lies beside results/MODEL/."""
    _, date = _named(path)
    for above in path.parents:
        if above.name == "details":
            model = path.parent.parent.relative_to(above)
            return object_beside(above.parent / "results" / model / f"results_{date}.json")
    return {}


def _model(path: Path) -> str:
    config = part(_results(path), "config_general")
    own = config.get("model_name") or part(config, "model_config").get("model_name")
    return str(own or path.parent.parent.name)


def about(path: Path, evaluation: Evaluation) -> About:
    """Read what `results_DATE.json` says of an evaluation."""
    results = _results(path)
    config = part(results, "config_general")
    task = part(results, "config_tasks", evaluation.task)
    generation = part(config, "generation_parameters") or part(
        config, "model_config", "generation_parameters"
    )
    settings = {
        "few_shot": task.get("num_fewshots", evaluation.task.rpartition("|")[2]),
        "few_shot_seeds": config.get("num_fewshot_seeds"),
        "limit": config.get("max_samples"),
        "generation": {name: one for name, one in generation.items() if one is not None},
        "task_version": task.get("version"),
    }
    note = f"results_DATE.json of {path.name} is missing: limit and generation are not checked."
    return About(settings if results else {}, () if results else (note,))


LIGHTEVAL = Format("lighteval", records, about, _sniff)
