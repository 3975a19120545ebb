"""What does a log of lm-evaluation-harness or lmms-eval hold: `samples_TASK_DATE.jsonl`?

Written with `--log_samples`; held against files of lm_eval 0.4.13. One row is one example after
one filter. Up to 0.4.2 the file is `MODELARGS_TASK.jsonl`, one array; up to 0.4.6 a row does not
name its filter. lmms-eval calls the file `DATE_samples_TASK.jsonl`, and a metric may be an object.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.files import json_lines, object_beside, objects, part
from scotoma.readers.record import About, Evaluation, Format, Record, hash_text, likeliest

HASHES = ("doc_hash", "prompt_hash", "target_hash")
KEYS = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
KEYS |= {"input", "token_counts", *HASHES}
NAMES = (
    r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)",
    r"(?P<date>\d{8}_\d{6})_samples_(?P<task>.+)",
    r"samples_(?P<task>.+)",
    # The first underscore that stands alone ends the model's arguments.
    r"(?P<model>[^_]+__.*?)(?<!_)_(?P<task>[^_].*)",
)
NO_SCORE = "bypass"  # the only metric of --predict_only; it is 999 for every example
# The log-likelihood of a text, and how many of these it has.
PAIRS = {"word_perplexity": "word", "byte_perplexity": "byte", "bits_per_byte": "byte"}


class _Named(NamedTuple):
    """What the name of a log and the results beside it say."""

    model: str
    task: str
    beside: str  # what the file of results is called
    results: Mapping[str, Any]


def _is_row(names: Collection[str]) -> bool:
    """Whether these are keys of a row; lmms-eval leaves out `doc`."""
    needed = {"doc_id", "target", "filtered_resps"}
    return needed <= {*names} and bool({"doc", "input"} & {*names})


def records(path: Path) -> Iterator[Record]:
    """Read the rows of a log, in its order."""
    named = _named(path)
    model, task = named.model, named.task
    filters: list[str] | None = None
    seen: Counter[str] = Counter()
    for number, row in enumerate(json_lines(path)):
        if not _is_row(row):
            raise DataError(
                f"{printable(path.name)} must hold rows of lm-evaluation-harness, and row "
                f"{number + 1:,} lacks doc_id, doc, target or filtered_resps; write the log again"
            )
        own_filter, example_id = row.get("filter"), str(row["doc_id"])
        if own_filter is None:
            filters = _filters(path, named) if filters is None else filters
            place = min(seen[example_id], len(filters) - 1)
            own_filter = filters[place] if filters else ""
            seen[example_id] += 1
        requests = _requests(row)
        options = [one[1] for one in requests if len(one) > 1 and isinstance(one[1], str)]
        answer, text, choice = None, None, None
        if options:
            choice = _likeliest(row["filtered_resps"], len(options))
            answer = None if choice is None else options[choice].strip()
        elif not requests or len(requests[0]) > 1:  # else the likelihood of a text was asked for
            answer, text = _text(row["filtered_resps"]), _text(row.get("resps"))
        content, prompt_hash, target_hash = (row.get(name) for name in HASHES)
        doc = row.get("doc")
        yield Record(
            Evaluation(model, task, str(own_filter)),
            example_id,
            _scores(row, path) | _margin(row, len(options)),
            {name: one for name, one in row.items() if isinstance(one, dict) and name not in KEYS}
            if doc is None
            else {"doc": doc},
            content_hash=content or hash_text(json.dumps(doc, sort_keys=True)),
            prompt_hash=prompt_hash,
            target_hash=target_hash,
            prompt=_prompt(requests),
            target=_target(row["target"], options),
            answer=answer,
            text=text,
            choice=choice,
        )


def _scores(row: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Read the metrics of an example; of the likelihood of a text, that of a word or byte."""
    names = row.get("metrics")
    if not isinstance(names, list):
        names = [name for name in row if name not in KEYS]
    if names == [NO_SCORE]:
        raise DataError(
            f"{printable(path.name)} must have scores, and --predict_only left them out; run "
            "lm_eval again without --predict_only"
        )
    scores: dict[str, Any] = {}
    for name, value in ((str(name), row.get(str(name))) for name in names):
        if name in PAIRS and isinstance(value, list) and len(value) == 2:
            likelihood, count = map(_number, value)
            if likelihood is not None and count:
                scores[f"log_likelihood_per_{PAIRS[name]}"] = likelihood / count
                continue
        # A perplexity is at least 1: of an example, lm_eval logs what it takes the mean of.
        below = name == "perplexity" and (_number(value) or 0) < 0
        scores["log_likelihood" if below else name] = value
    return scores


def _margin(row: Mapping[str, Any], options: int) -> dict[str, float]:
    """By how much the log-likelihood of the right option exceeds that of the best other one."""
    firsts = [one[0] if isinstance(one, list) and one else one for one in _list(row)]
    target, numbers = str(row.get("target")), [_number(one) for one in firsts]
    place = int(target) if target.isdecimal() else options
    known = [one for one in numbers if one is not None and not math.isnan(one)]
    if not 1 < len(known) == len(numbers) == options > place:
        return {}
    return {"margin": known[place] - max(known[:place] + known[place + 1 :])}


def _list(row: Mapping[str, Any]) -> list[Any]:
    filtered = row["filtered_resps"]
    return filtered if isinstance(filtered, list) else []


def _filters(path: Path, named: _Named) -> list[str]:
    """List the filters in the order in which rows that do not name theirs follow each other.

    Where results do not name them, they are numbered if every repeated example repeats its answer.
    """
    listed = part(named.results, "configs", named.task).get("filter_list")
    if isinstance(listed, list):
        return [str(one.get("name")) for one in objects(listed)]
    answers: dict[str, list[str]] = {}
    for row in json_lines(path):
        own = answers.setdefault(str(row.get("doc_id")), [])
        own.append(hash_text(json.dumps(row.get("resps"))))
    times = {len(own) for own in answers.values()}
    alike = all(len(set(own)) == 1 for own in answers.values())
    several = len(times) == 1 and alike and times != {1}
    return [f"filter-{place + 1}" for place in range(max(times))] if several else []


def _requests(row: Mapping[str, Any]) -> list[list[Any]]:
    """Read the arguments of every request that was made for an example."""
    arguments = row.get("arguments", row.get("input"))
    if isinstance(arguments, dict):
        return [
            [one[f"arg_{place}"] for place in range(len(one)) if f"arg_{place}" in one]
            for one in objects([*arguments.values()])
        ]
    if isinstance(arguments, str):  # lmms-eval asks once, and keeps the prompt
        return [[arguments, {}]]
    requests = [one for one in arguments or [] if isinstance(one, list)]
    return requests or ([arguments] if arguments and isinstance(arguments[0], str) else [])


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
    firsts = (one[0] if isinstance(one, list) and one else one for one in filtered)
    return likeliest([_number(one) for one in firsts], options)


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


def _named(path: Path) -> _Named:
    """Read model, task and date from the name of a log, and the results written with it."""
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
    match = next(filter(None, (re.fullmatch(name, stem) for name in NAMES)), None)
    parts = match.groupdict() if match else {}
    date, model, task = parts.get("date", ""), parts.get("model"), parts.get("task", stem)
    of_lmms_eval = path.name.startswith(f"{date}_samples_")
    beside = path.with_name(f"{date}_results.json" if of_lmms_eval else f"results_{date}.json")
    if not date:
        beside = path.with_name("results.json")
    results = object_beside(beside)
    if model:
        known = [one for one in part(results, "configs") if stem.endswith(f"_{one}")]
        task = max(known, key=len, default=task)
        model = stem.removesuffix(f"_{task}")
    own = results.get("model_name") or model or path.parent.name
    return _Named(str(own).replace("__", "/"), task, beside.name, results)


def about(path: Path, evaluation: Evaluation) -> About:
    """Read what `results_DATE.json` says of an evaluation."""
    _, task, beside, results = _named(path)
    # A merged or fused tokenizer may carry another chat template: what was asked stands in prompts.
    config, own = part(results, "config"), part(results, "configs", task)
    few_shot = part(results, "n-shot").get(task, own.get("num_fewshot"))
    settings = {
        "filter": evaluation.filter,
        "filter_definition": next(
            (
                one.get("filter")
                for one in objects(own.get("filter_list"))
                if one.get("name") == evaluation.filter
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
        "task_version": part(results, "versions").get(task),
    }
    note = (
        ()
        if results
        else (
            f"{beside} is not in {printable(path.absolute().parent.name)}: few-shot examples, "
            "limit and generation settings are not checked.",
        )
    )
    return About(settings if results else {"filter": evaluation.filter}, note)


LM_EVAL = Format("lm-eval", records, about, lambda file: _is_row(file.columns))
