"""The rules of compiled pipelines: what kfp compiles without a word and runs wrongly."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from kfp import compiler

IR = dict[str, Any]
PLACEHOLDER = re.compile(r"\{\{\$\.inputs\.(parameters|artifacts)\['([^']+)'\]")


def documents(pipeline: Any) -> list[IR]:
    """The compiled pipeline, and what Kubernetes is to do with it where that is said."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.yaml"
        compiler.Compiler().compile(pipeline, str(path))
        return list(yaml.safe_load_all(path.read_text()))


def compiled(pipeline: Any) -> IR:
    return documents(pipeline)[0]


def dags(ir: IR) -> Iterator[tuple[str, IR]]:
    """Every component that has tasks inside, the root first."""
    yield "root", ir["root"]
    yield from ((name, spec) for name, spec in ir["components"].items() if "dag" in spec)


def tasks(ir: IR) -> Iterator[tuple[str, IR, IR]]:
    """Every task: where it stands, the component it stands in, and itself."""
    for name, spec in dags(ir):
        for task_name, task in spec["dag"]["tasks"].items():
            yield f"{name}/{task_name}", spec, task


def component_of(ir: IR, task: IR) -> IR:
    found: IR = ir["components"].get(task["componentRef"]["name"], {})
    return found


def declared(spec: IR, side: str, kind: str) -> set[str]:
    """Names of the inputs or outputs that a component declares."""
    return set(spec.get(f"{side}Definitions", {}).get(kind, {}))


def dangling_inputs(ir: IR) -> list[str]:
    """Inputs of tasks that come from a task or from an input that is not there."""
    faults = []
    for where, spec, task in tasks(ir):
        beside = spec["dag"]["tasks"]
        for kind, one in (("parameters", "Parameter"), ("artifacts", "Artifact")):
            for name, given in task.get("inputs", {}).get(kind, {}).items():
                outer = given.get(f"componentInput{one}")
                if outer is not None and outer not in declared(spec, "input", kind):
                    faults.append(f"{where}: {name} comes from {outer}, which is no input here")
                if output := given.get(f"taskOutput{one}"):
                    producer, key = output["producerTask"], output[f"output{one}Key"]
                    if producer not in beside:
                        faults.append(f"{where}: {name} comes from {producer}, no task here")
                    elif key not in declared(component_of(ir, beside[producer]), "output", kind):
                        faults.append(f"{where}: {producer} has no output {key}")
        faults += [
            f"{where}: waits for {name}, no task here"
            for name in task.get("dependentTasks", [])
            if name not in beside
        ]
    return faults


def missing_inputs(ir: IR) -> list[str]:
    """Inputs that a component needs and its task does not give."""
    faults = []
    for where, _, task in tasks(ir):
        spec = component_of(ir, task)
        item = task.get("parameterIterator", {}).get("itemInput")
        for kind in ("parameters", "artifacts"):
            given = set(task.get("inputs", {}).get(kind, {})) | {item}
            for name, definition in spec.get("inputDefinitions", {}).get(kind, {}).items():
                if name not in given and not definition.get("isOptional"):
                    faults.append(f"{where}: {name} is not given")
    return faults


def dangling_placeholders(ir: IR) -> list[str]:
    """Placeholders, as resource setters leave them, that name an input their task does not have."""
    faults = []
    for where, _, task in tasks(ir):
        executor = ir["deploymentSpec"]["executors"].get(
            component_of(ir, task).get("executorLabel")
        )
        text = json.dumps([task.get("inputs"), executor])
        faults += [
            f"{where}: {name} is not given"
            for kind, name in PLACEHOLDER.findall(text)
            if name not in task.get("inputs", {}).get(kind, {})
        ]
    return faults


def dangling_outputs(ir: IR) -> list[str]:
    """Outputs of a component with tasks inside that no task in it makes."""
    faults = []
    for where, spec in dags(ir):
        for name, output in spec["dag"].get("outputs", {}).get("artifacts", {}).items():
            for selector in output["artifactSelectors"]:
                task = spec["dag"]["tasks"].get(selector["producerSubtask"])
                made = (
                    set()
                    if task is None
                    else declared(component_of(ir, task), "output", "artifacts")
                )
                if selector["outputArtifactKey"] not in made:
                    faults.append(f"{where}: no task makes {name}")
    return faults


def unknown_parts(ir: IR) -> list[str]:
    """Tasks without a component, and components without something that runs."""
    faults = [
        f"{where}: no component" for where, _, task in tasks(ir) if not component_of(ir, task)
    ]
    executors = ir["deploymentSpec"]["executors"]
    return faults + [
        f"{name}: no executor"
        for name, spec in ir["components"].items()
        if "dag" not in spec and spec.get("executorLabel") not in executors
    ]


def task_outputs_in_loops(ir: IR) -> list[str]:
    """Parameters that a task puts out and a loop's body takes in: kfp's local mode replaces them,
    silently, by the loop's item. Followed through conditions and nested pipelines. A condition
    hands its operand to every loop below; where no task takes it there, nothing is replaced."""
    faults = []

    def taken(body: IR) -> set[str]:
        inputs = [task.get("inputs", {}).get("parameters", {}) for task in
                  body.get("dag", {}).get("tasks", {}).values()]  # fmt: skip
        return {
            given.get("componentInputParameter", "") for one in inputs for given in one.values()
        }

    def visit(where: str, spec: IR, from_tasks: set[str]) -> None:
        for name, task in spec["dag"]["tasks"].items():
            carried = {
                key
                for key, given in task.get("inputs", {}).get("parameters", {}).items()
                if "taskOutputParameter" in given
                or given.get("componentInputParameter") in from_tasks
            }
            here, body = f"{where}/{name}", component_of(ir, task)
            if loop := task.get("parameterIterator") or task.get("artifactIterator"):
                entering = (carried - {loop["items"].get("inputParameter")}) & taken(body)
                faults.extend(f"{here}: {key} enters a loop" for key in sorted(entering))
            if "dag" in body:
                visit(here, body, carried)

    visit("root", ir["root"], set())
    return faults


def cache_keys(ir: IR) -> list[str]:
    """Tasks cached by a key of ours: such a cache ignores their arguments."""
    return [where for where, _, task in tasks(ir) if task.get("cachingOptions", {}).get("cacheKey")]


def loop_items_that_fail(ir: IR) -> list[str]:
    """Loops over nothing, which fail where outputs are collected, and over other items than words:
    whole numbers come back as fractions."""
    faults = []
    for where, _, task in tasks(ir):
        if "raw" in (items := task.get("parameterIterator", {}).get("items", {})):
            values = json.loads(items["raw"])
            if not values or not all(isinstance(value, str) for value in values):
                faults.append(f"{where}: {items['raw']}")
    return faults


def repeated_artifacts(ir: IR) -> list[str]:
    """Tasks that are handed one artifact twice, through however many inputs around them: the driver
    of Kubeflow Pipelines 2.17 dies of it, since ML Metadata admits it once an execution."""
    faults = []

    def visit(where: str, spec: IR, outer: dict[str, str]) -> None:
        for name, task in spec["dag"]["tasks"].items():
            origins = {
                parameter: outer[given["componentInputArtifact"]]
                if "componentInputArtifact" in given
                else f"{where}/{given['taskOutputArtifact']['producerTask']}"
                f".{given['taskOutputArtifact']['outputArtifactKey']}"
                for parameter, given in task.get("inputs", {}).get("artifacts", {}).items()
            }
            faults.extend(
                f"{where}/{name}: {origin} is handed {count} times"
                for origin, count in Counter(origins.values()).items()
                if count > 1
            )
            if "dag" in (body := component_of(ir, task)):
                visit(f"{where}/{name}", body, origins)

    visit("root", ir["root"], {})
    return faults


RULES = [
    dangling_inputs,
    missing_inputs,
    dangling_placeholders,
    dangling_outputs,
    unknown_parts,
    task_outputs_in_loops,
    repeated_artifacts,
    cache_keys,
    loop_items_that_fail,
]


def task_of(ir: IR, name: str) -> IR:
    """The task of that name, whatever it stands in."""
    (found,) = (task for where, _, task in tasks(ir) if where.endswith(f"/{name}"))
    return found


def loop(ir: IR) -> tuple[IR, IR]:
    """The loop's task and its component."""
    (task,) = (task for _, _, task in tasks(ir) if "parameterIterator" in task)
    return task, component_of(ir, task)
