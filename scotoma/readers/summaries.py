"""Which averages does a file hold that keeps no samples: results of tools, or `{task: score}`?"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.processes.untrusted import read_apart
from scotoma.readers.files import files_below, json_file, objects, part
from scotoma.readers.helm import COUNTED, evaluation_of
from scotoma.readers.inspect_ai import header

SUFFIXES = (".json", ".json.gz", ".eval")
# Of a folder, other files of numbers, such as the configuration of a model, hold no scores.
NAMED_SCORES = re.compile(r"result|score|metric|eval|summary|bench", re.IGNORECASE)
KEPT_BY = {
    "lm-eval": "run lm_eval again with --log_samples",
    "lighteval": "run lighteval again with --save-details",
    "inspect": "run inspect eval again without --no-log-samples",
    "helm": "keep per_instance_stats.json of the run",
    "every-eval-ever": "name its file of samples",
    "scores": "evaluate with a tool that keeps samples, as lm_eval does with --log_samples",
}


class Average(NamedTuple):
    """One score of one task.

    Attributes:
        task: Its name.
        metric: The score's name.
        value: The average.
        n: Examples behind it; None where the file does not say.
        stderr: Its standard error; None likewise.
    """

    task: str
    metric: str
    value: float
    n: int | None = None
    stderr: float | None = None


@dataclass(frozen=True)
class Summary:
    """The averages at one place.

    Attributes:
        averages: One for each task and score.
        files: Names of the files that hold them.
        way_out: How samples would have been kept.
    """

    averages: tuple[Average, ...]
    files: tuple[str, ...]
    way_out: str


def read_summaries(places: Sequence[str | Path]) -> Summary | None:
    """Read the averages in files or folders; of one score in several files the last by name.

    Args:
        places: Files, or folders that are searched.

    Returns:
        None where there is none.

    Raises:
        DataError: A file cannot be read.
    """
    averages: dict[tuple[str, str], Average] = {}
    files, tools = [], []
    for path, named in _candidates(places):
        summary = read_apart(summary_of, path, named, path=path, called=path.name)
        if summary is None:
            continue
        tool, rows = summary
        files.append(path.name)
        tools.append(tool)
        averages |= {(row[0], row[1]): Average(*row) for row in rows}
    if not averages:
        return None
    return Summary(tuple(averages.values()), tuple(files), KEPT_BY[tools[0]])


def summary_of(path: Path, named: bool) -> tuple[str, list[Average]] | None:
    """Read the tool and the averages of a file; called in the process that reads from outside.

    Args:
        path: The file.
        named: Whether the user named it, so that numbers by name are scores.
    """
    if path.suffix.lower() == ".eval":
        return "inspect", list(_of_inspect(header(path)))
    content = json_file(path)
    if isinstance(content, list):
        return ("helm", list(_of_helm(content, path))) if path.name == "stats.json" else None
    if not isinstance(content, dict):
        return None
    readers: list[tuple[bool, str, Callable[[dict[str, Any]], Iterator[Average]]]] = [
        ("eval" in content and "status" in content, "inspect", _of_inspect),
        ("evaluation_results" in content, "every-eval-ever", _of_every_eval_ever),
        ("config_general" in content, "lighteval", _of_results),
        (isinstance(content.get("results"), dict), "lm-eval", _of_results),
        (named or NAMED_SCORES.search(path.stem) is not None, "scores", _of_scores),
    ]
    for holds, tool, read in readers:
        if holds:
            averages = [one for one in read(content) if math.isfinite(one.value)]
            if any(one.metric == "bypass" for one in averages):
                raise DataError(
                    f"{printable(path.name)} must have scores, and --predict_only left them out; "
                    "run lm_eval again without --predict_only"
                )
            return (tool, averages) if averages else None
    return None


def _candidates(places: Sequence[str | Path]) -> Iterator[tuple[Path, bool]]:
    for place in map(str, places):
        root = Path(os.path.abspath(place))
        if not root.is_dir():
            if root.name.lower().endswith(SUFFIXES):
                yield root, True
            continue
        yield from ((path, False) for path in files_below(root, SUFFIXES, printable(place)))


def _of_results(content: Mapping[str, Any]) -> Iterator[Average]:
    """Read results of lm-evaluation-harness, of its forks, and of lighteval.

    A score is called `acc,FILTER` or `acc`, its error `acc_stderr,FILTER` or `acc_stderr`.
    """
    for task, scores in part(content, "results").items():
        if not isinstance(scores, dict) or task == "all":
            continue
        known = [part(content, "n-samples", task).get("effective"), scores.get("sample_len")]
        known.append(part(content, "config_tasks", task).get("effective_num_docs"))
        n = next((one for one in map(_count, known) if one is not None), None)
        for name, value in scores.items():
            metric, comma, scored = str(name).partition(",")
            if metric.endswith("_stderr") or name == "sample_len" or _number(value) is None:
                continue
            called = metric if scored in ("", "none") else f"{metric},{scored}"
            error = _number(scores.get(f"{metric}_stderr{comma}{scored}"))
            yield Average(task, called, float(value), n, error)


def _of_every_eval_ever(content: Mapping[str, Any]) -> Iterator[Average]:
    for one in objects(content.get("evaluation_results")):
        details, metric = part(one, "score_details"), part(one, "metric_config")
        value, uncertainty = _number(details.get("score")), part(details, "uncertainty")
        error = uncertainty.get("standard_error")
        error = error.get("value") if isinstance(error, dict) else error
        called = metric.get("metric_name") or metric.get("metric_id") or "score"
        if value is not None:
            n = _count(uncertainty.get("num_samples"))
            yield Average(str(one.get("evaluation_name")), str(called), value, n, _number(error))


def _of_inspect(content: Mapping[str, Any]) -> Iterator[Average]:
    results, task = part(content, "results"), str(part(content, "eval").get("task") or "")
    for scorer in objects(results.get("scores")):
        known = (scorer.get("scored_samples"), results.get("completed_samples"))
        n = next((one for one in map(_count, known) if one is not None), None)
        metrics = part(scorer, "metrics")
        error = _number(part(metrics, "stderr").get("value"))
        for name in metrics:
            value = _number(part(metrics, name).get("value"))
            if value is not None and name not in ("stderr", "std", "var"):
                own = error if name in ("accuracy", "mean") else None
                yield Average(task, f"{scorer.get('name')}.{name}", value, n, own)


def _of_helm(content: Sequence[Any], path: Path) -> Iterator[Average]:
    """Read the statistics of a run; those of perturbed examples are left out."""
    rows = []
    for stat in content:
        about = part(stat, "name")
        value = _number(stat.get("mean")) if about else None
        if value is not None and not about.get("perturbation"):
            rows.append((str(about.get("name")), str(about.get("split") or ""), value))
    counts = {split: _count(value) for name, split, value in rows if name == "num_instances"}
    task = evaluation_of(path).task
    for name, split, value in rows:
        if not name.startswith(COUNTED):
            called = f"{name},{split}" if split else name
            yield Average(task, called, value, counts.get(split))


def _of_scores(content: Mapping[str, Any]) -> Iterator[Average]:
    """Read `{task: score}` and `{task: {score: value}}`."""
    for task, one in content.items():
        scores = one if isinstance(one, dict) else {"score": one}
        for name, value in scores.items():
            error = _number(scores.get(f"{name}_stderr"))
            counts = name == "n" or str(name).endswith("_stderr")
            if _number(value) is not None and not counts:
                yield Average(str(task), str(name), float(value), _count(scores.get("n")), error)


def _number(value: Any) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if known and abs(value) < 1e300 else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 1 else None
