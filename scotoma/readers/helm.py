"""What does a run of HELM hold: `per_instance_stats.json` and the files beside it?

Held against files of crfm-helm 0.5.16. A perturbed example is an example of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.files import Glimpse, json_file, object_beside, objects, part
from scotoma.readers.record import About, Evaluation, Format, Record, hash_text

Key = tuple[str, str, int]
EXAMPLES = re.compile(rb'\s*\[\s*\{\s*"instance_id"\s*:')
STATISTICS = re.compile(rb'"stats"\s*:\s*\[')
# Counts and costs that HELM keeps beside scores; they come last.
COUNTED = (
    "num_",
    "training_",
    "inference_",
    "batch_size",
    "finish_reason_",
    "max_prob",
    "logprob",
    "prompt_",
)


def records(path: Path) -> Iterator[Record]:
    """Read every example's statistics, with its text where `scenario_state.json` has it."""
    rows = json_file(path)
    evaluation = evaluation_of(path)
    states = _states(path)
    if not isinstance(rows, list):
        raise _not_helm(path)
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("stats"), list):
            raise _not_helm(path)
        key = _key(row, row.get("instance_id"))
        state = states.get(key, {})
        instance = part(state, "instance")
        references = objects(instance.get("references"))
        correct = [
            str(part(one, "output").get("text"))
            for one in references
            if "correct" in (one.get("tags") or [])
        ]
        completions = part(state, "result").get("completions") or [{}]
        text = completions[0].get("text") if isinstance(completions[0], dict) else None
        mapping = part(state, "output_mapping")
        letters = list(mapping)
        extracted = text.strip() if isinstance(text, str) else None
        content = [part(instance, "input").get("text"), references]
        yield Record(
            evaluation,
            " ".join(filter(None, key[:2])),
            _scores(row["stats"]),
            {"perturbation": key[1] or None, "split": instance.get("split"),
             "sub_split": instance.get("sub_split"), "extra_data": instance.get("extra_data")},
            rerun=key[2],
            content_hash=hash_text(json.dumps(content, sort_keys=True)) if state else None,
            prompt=_prompt(state),
            target=", ".join(correct) if correct else None,
            answer=extracted if extracted is None else mapping.get(extracted, extracted),
            text=text,
            choice=letters.index(extracted) if extracted in letters else None,
        )  # fmt: skip


def _not_helm(path: Path) -> DataError:
    return DataError(
        f"{printable(path.name)} must be a list of examples with stats, as HELM writes it; copy "
        "the run again"
    )


def _key(row: Mapping[str, Any], example_id: Any) -> Key:
    """Read what tells two answers of a run apart."""
    perturbation = part(row, "perturbation")
    name = str(perturbation.get("name") or "")
    if "seed" in perturbation:
        name += f" {perturbation['seed']}"
    trial = row.get("train_trial_index")
    return str(example_id), name, trial if isinstance(trial, int) else 0


def _scores(stats: list[Any]) -> dict[str, Any]:
    """Read the mean of each statistic, nan where nothing was counted; scores first."""
    numbers: dict[str, Any] = {}
    for stat in objects(stats):
        name = part(stat, "name").get("name")
        if name is None:
            continue
        count = stat.get("count")
        mean = stat.get("mean", stat["sum"] / count if count and "sum" in stat else None)
        numbers[str(name)] = mean if count else None
    return dict(sorted(numbers.items(), key=lambda one: one[0].startswith(COUNTED)))


def _states(path: Path) -> dict[Key, dict[str, Any]]:
    """Read requests and answers from `scenario_state.json`, examples from `instances.json`."""
    states: dict[Key, dict[str, Any]] = {}
    if path.with_name("instances.json").is_file():
        for instance in objects(json_file(path.with_name("instances.json"))):
            states[_key(instance, instance.get("id"))] = {"instance": instance}
    if path.with_name("scenario_state.json").is_file():
        for state in json_file(path.with_name("scenario_state.json")).get("request_states") or []:
            instance = part(state, "instance")
            row = {**instance, "train_trial_index": state.get("train_trial_index")}
            # Where every option is asked apart, the first request stands for the example.
            states.setdefault(_key(row, instance.get("id")), {}).setdefault("instance", instance)
            known = states[_key(row, instance.get("id"))]
            if "request" not in known:
                known |= state
    return states


def _prompt(state: Mapping[str, Any]) -> str | None:
    request = part(state, "request")
    prompt, messages = request.get("prompt"), request.get("messages")
    if messages:
        return json.dumps(messages)
    return prompt if isinstance(prompt, str) else None


def _spec(path: Path) -> dict[str, Any]:
    return object_beside(path.with_name("run_spec.json"))


def evaluation_of(path: Path) -> Evaluation:
    """Name model and task: the run's name without its model."""
    spec = _spec(path)
    adapter = part(spec, "adapter_spec")
    name, _, arguments = str(spec.get("name") or path.parent.name).partition(":")
    kept = [one for one in arguments.split(",") if one and not one.startswith("model=")]
    model = adapter.get("model_deployment") or adapter.get("model") or ""
    return Evaluation(str(model), name + (f":{','.join(kept)}" if kept else ""))


def about(path: Path, _: Evaluation) -> About:
    """Read how `run_spec.json` says that examples were asked."""
    spec = _spec(path)
    adapter = dict(part(spec, "adapter_spec"))
    for name in ("model", "model_deployment"):
        adapter.pop(name, None)
    settings = {
        "few_shot": adapter.pop("max_train_instances", None),
        "limit": adapter.pop("max_eval_instances", None),
        "adapter": adapter,
        "scenario": spec.get("scenario_spec"),
        "augmentation": spec.get("data_augmenter_spec"),
        "metrics": spec.get("metric_specs"),
    }
    notes = tuple(
        f"{name} is not beside {path.name}: {what} not checked."
        for name, what in (
            ("run_spec.json", "few-shot examples, limit and generation settings are"),
            ("scenario_state.json", "prompts and targets are"),
        )
        if not path.with_name(name).is_file()
    )
    return About(settings, notes)


def _sniff(file: Glimpse) -> bool:
    return bool(EXAMPLES.match(file.begins) and STATISTICS.search(file.begins))


HELM = Format("helm", records, about, _sniff)
