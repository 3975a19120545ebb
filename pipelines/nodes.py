"""The nodes of a run's Argo Workflow, matched to the steps of the pipeline and their shards.

Kubeflow gives a task a display name and the ids of its children, never its own id. An id is the
Workflow's name and the FNV-1a hash of the node's full name, so full names can be found by trial.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

BASIS, PRIME = 2166136261, 16777619
# As measured on Kubeflow 2.17.0 with Argo 4.0.5, whose largest Workflow is a constant.
NODE_BYTES, SPEC_BYTES, LARGEST_BYTES = 7_800, 100_000, 1024 * 1024


def full_names(tasks: Iterable[Any]) -> dict[str, Any]:
    """Find the full name of every node of a run.

    Args:
        tasks: Task details as KFP's client answers them.

    Returns:
        The task of each full name, such as `WORKFLOW(0).root(0).prepare-data`.
    """
    displayed: dict[str, list[Any]] = {}
    for task in tasks:
        displayed.setdefault(task.display_name or "", []).append(task)
    ids = [id_ for each in displayed.values() for task in each for id_ in _children(task)]
    if not ids:
        return {}
    workflow = ids[0].rpartition("-")[0]
    hashes = {_hash_of(id_) for id_ in ids}
    names = {_fnv(name): (name, name) for name in (workflow, f"{workflow}(0)")}
    todo = list(names)
    while todo:
        container = todo.pop()
        for display in displayed:
            hash_ = _fnv(display, _fnv(".", container))
            if hash_ in hashes and hash_ not in names:
                names[hash_] = (f"{names[container][0]}.{display}", display)
                todo.append(hash_)
    return _matched(displayed, names)


def steps_of(spec: Mapping[str, Any]) -> dict[str, int | None]:
    """List the steps of a compiled pipeline, without those that run only at its exit.

    Returns:
        By the name of each step, the number of its shards; None for a step without.
    """
    steps: dict[str, int | None] = {}
    components = spec.get("components", {})

    def walk(dag: Mapping[str, Any], shards: int | None) -> None:
        for name, task in dag.get("tasks", {}).items():
            if "strategy" in task.get("triggerPolicy", {}):
                continue
            component = components.get(task["componentRef"]["name"], {})
            items = task.get("parameterIterator", {}).get("items", {}).get("raw")
            inner = len(json.loads(items)) if items else shards
            if "dag" in component:
                walk(component["dag"], inner)
            else:
                steps[name] = inner

    walk(spec.get("root", {}).get("dag", {}), None)
    return steps


def node_count(spec: Mapping[str, Any]) -> int:
    """Count the nodes that Argo makes of a compiled pipeline if nothing fails.

    Stock settings retry every driver, DAG and container, so that each is two nodes: itself and its
    one attempt.

    Args:
        spec: The compiled pipeline, without the settings for Kubernetes.
    """
    components = spec.get("components", {})

    def inside(dag: Mapping[str, Any]) -> int:
        return sum(map(of_task, dag.get("tasks", {}).values()))

    def of_task(task: Mapping[str, Any]) -> int:
        component = components.get(task["componentRef"]["name"], {})
        own = inside(component["dag"]) if "dag" in component else 2
        if items := task.get("parameterIterator", {}).get("items", {}).get("raw"):
            # The loop, its driver, what holds its items; each item with its driver and its body.
            return 5 + len(json.loads(items)) * (6 + own)
        hook = 2 if "strategy" in task.get("triggerPolicy", {}) else 0
        return 4 + hook + own

    return 6 + inside(spec.get("root", {}).get("dag", {}))


def workflow_bytes(pipeline: Mapping[str, Any], nodes: int) -> int:
    """Estimate the size of a Workflow, which Argo compresses above `LARGEST_BYTES`.

    Kubeflow 2.17 no longer tells of the nodes of a compressed one.

    Args:
        pipeline: The compiled pipeline, with the settings for Kubernetes if there are any.
        nodes: Its nodes so far, or `node_count`.

    Returns:
        Its bytes, as JSON.
    """
    return nodes * NODE_BYTES + max(SPEC_BYTES, len(json.dumps(pipeline)))


def shard_of(name: str) -> int | None:
    """The shard of a node, by its full name; None outside a loop.

    >>> shard_of("w(0).root(0).for-loop-3(0).iteration-iterations(1:1)(0).iteration-item(0).train")
    1
    """
    found = re.search(r"\.iteration-iterations\((\d+):", name)
    return int(found[1]) if found else None


def _matched(displayed: dict[str, list[Any]], names: dict[int, tuple[str, str]]) -> dict[str, Any]:
    """The task of each full name: the one of its display name whose children are beside it.

    One without children, which has not begun or is a pod, is the first of those that are left.
    """
    tasks: dict[str, Any] = {}
    unmatched = {display: list(each) for display, each in displayed.items()}
    leaves: list[tuple[str, str]] = []
    for name, display in names.values():
        around = name.removesuffix(display)
        for task in unmatched.get(display, ()):
            children = (names.get(_hash_of(id_), ("", ""))[0] for id_ in _children(task))
            if any(child.startswith(around) for child in children):
                tasks[name] = task
                unmatched[display].remove(task)
                break
        else:
            leaves.append((name, display))
    for name, display in leaves:
        tasks[name] = next(iter(unmatched.get(display, ())), None)
    return tasks


def _children(task: Any) -> list[str]:
    return [child.pod_name for child in task.child_tasks or () if child.pod_name]


def _hash_of(id_: str) -> int:
    number = id_.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def _fnv(text: str, value: int = BASIS) -> int:
    for byte in text.encode():
        value = ((value ^ byte) * PRIME) & 0xFFFFFFFF
    return value
