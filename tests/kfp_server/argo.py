"""The nodes of an Argo Workflow that Kubeflow would run for a pipeline, named and told as it does.

Stock settings give every template a retry strategy, so every driver, DAG and executor is a node of
its own around its attempts, `NAME(0)`. A node's id ends in the hash of its full name.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Fate", "Node", "details", "fnv", "hook_state", "nodes"]

DRIVER_S, EXECUTOR_S, PULL_S, STOP_S = 10.0, 20.0, 5.0, 9.0
NOTICED_S = 3.0  # after its end, by Argo
NEVER = "0001-01-01T00:00:00Z"


@dataclass(frozen=True)
class Fate:
    """What happens to a run.

    Attributes:
        failing: Step whose container ends with 1 in the first shard.
        driver: Step whose driver fails.
        stuck: Step whose pod never starts, and ends at its deadline; `*`: those of all steps.
        cancelled_s: Second in which it is terminated.
        shut_s: Second in which its Workflow is shut down, the exit step with it.
        retried_s: Second in which a run whose step failed goes on, and succeeds.
    """

    failing: str = ""
    driver: str = ""
    stuck: str = ""
    cancelled_s: float = math.inf
    shut_s: float = math.inf
    retried_s: float | None = None


@dataclass
class Node:
    """A node of a Workflow; times in seconds since its start."""

    name: str
    display: str
    pod: bool
    start_s: float
    end_s: float
    state: str  # at its end; empty for what is never started
    children: list[str] = field(default_factory=list)
    again: bool = False
    stuck: bool = False  # its pod never starts


def fnv(text: str) -> int:
    """The 32-bit FNV-1a hash, with which Argo ends the ids of nodes."""
    value = 2166136261
    for byte in text.encode():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def hook_state(state: str) -> str:
    """The state that a run's exit step is told; SKIPPED: by a condition around all other steps."""
    told = {"SUCCEEDED": "COMPLETE", "FAILED": "FAILED"}
    told |= {"CANCELING": "RUNNING", "SKIPPED": "RUNNING"}
    return told[state]


def nodes(
    spec: dict[str, Any], workflow: str, fate: Fate, platform: dict[str, Any] | None = None
) -> list[Node]:
    """All nodes of a Workflow from its start to its end.

    Args:
        spec: The compiled pipeline.
        workflow: Name of the Workflow.
        fate: What happens to it.
        platform: What Kubernetes is to do with it, which has the deadlines of pods.
    """
    built = _Building(spec, fate, platform or {})
    built.retried(workflow, workflow, 0, lambda path, start: built.root(path, start))
    if fate.retried_s is None:
        return built.nodes
    before = nodes(spec, workflow, Fate(fate.failing), platform)
    hooks = [node for node in before if ".onExit" in node.name]  # it is not run again
    return [node for node in built.nodes if ".onExit" not in node.name] + hooks


class _Building:
    """Nodes in the order of their start; every function returns an end, a state, and if again."""

    def __init__(self, spec: dict[str, Any], fate: Fate, platform: dict[str, Any]) -> None:
        self.spec, self.fate, self.nodes = spec, fate, list[Node]()
        kubernetes = platform.get("platforms", {}).get("kubernetes", {})
        self.placed = kubernetes.get("deploymentSpec", {}).get("executors", {})
        self.first_shard = self.in_hook = False

    def retried(
        self,
        name: str,
        display: str,
        start: float,
        run: Any,
        *,
        pod: bool = False,
        stuck: bool = False,
    ) -> Any:
        """A node around the one attempt that it takes."""
        around = Node(name, display, False, start, start, "")
        attempt = Node(f"{name}(0)", f"{display}(0)", pod, start, start, "", stuck=stuck)
        around.children = [attempt.name]
        self.nodes += [around, attempt]
        first = len(self.nodes)
        end, state, again = run(attempt.name, start)
        inside = self.nodes[first:]
        if not pod and inside:
            attempt.children = [inside[0].name]
        for node in (around, attempt):
            node.end_s, node.state, node.again = end, state, again
        if again and self.fate.retried_s is not None:
            around.start_s = self.fate.retried_s
            if pod:
                attempt.start_s = self.fate.retried_s
        if pod:
            attempt.end_s -= NOTICED_S
        return end, state, again

    def pod(self, length: float, fate: str = "", deadline_s: float = math.inf) -> Any:
        cancelled, retried = self.fate.cancelled_s, self.fate.retried_s

        def run(_path: str, start: float) -> Any:
            if fate == "fails" and retried is not None:
                return retried + length, "SUCCEEDED", True
            end = start + (deadline_s if fate == "stuck" else length)
            stopped = self.fate.shut_s if self.in_hook else min(cancelled, self.fate.shut_s)
            if start < stopped < end:
                return stopped + STOP_S, "FAILED", False
            return end, "FAILED" if fate in ("fails", "stuck") else "SUCCEEDED", False

        return run

    def driver(self, path: str, name: str, then: str, start: float, *, fails: bool = False) -> Any:
        """The pod of a driver, after which another node begins."""
        number = len(self.nodes) + 1
        pod = self.pod(DRIVER_S, "fails" if fails else "")
        ended = self.retried(f"{path}.{name}", name, start, pod, pod=True)
        self.nodes[number].children = [f"{path}.{then}"]
        return ended

    def root(self, path: str, start: float) -> Any:
        end, state, _ = self.driver(path, "root-driver", "root", start)
        if state == "FAILED":
            self.omit(path, "root", end)
            return end, state, False
        return self.retried(f"{path}.root", "root", end, self.dag(self.spec["root"]["dag"]))

    def omit(self, path: str, name: str, time: float, *, loop: bool = False) -> None:
        driver, task = f"{path}.{name}-driver", f"{path}.{name}"
        if not loop:
            self.nodes.append(Node(driver, f"{name}-driver", False, time, time, "", [task]))
        self.nodes.append(Node(task, name, False, time, time, ""))

    def dag(self, dag: dict[str, Any]) -> Any:
        tasks = dag["tasks"]
        hooks = {
            name for name, task in tasks.items() if "strategy" in task.get("triggerPolicy", {})
        }

        def run(path: str, start: float) -> Any:
            ends: dict[str, tuple[float, str, bool]] = {}
            waiting = [name for name in sorted(tasks) if name not in hooks]
            while waiting:
                name = next(n for n in waiting if ends.keys() >= set(_before(tasks[n]) - hooks))
                waiting.remove(name)
                before = [ends[one] for one in _before(tasks[name]) - hooks]
                begin = max([start, *(end for end, _, _ in before)])
                broken = any(state != "SUCCEEDED" for _, state, _ in before)
                if broken or (begin >= self.fate.cancelled_s and not self.in_hook):
                    self.omit(path, name, begin, loop="parameterIterator" in tasks[name])
                    ends[name] = (begin, "", False)
                elif math.isinf(begin):
                    ends[name] = (begin, "SUCCEEDED", False)
                else:
                    ends[name] = self.task(path, name, tasks[name], begin)
            self.link(path, tasks)
            for name in sorted(hooks):
                (main,) = _before(tasks[name])
                self.hook(path, main, name, tasks[name], ends)
            end = max([start, *(end for end, _, _ in ends.values())])
            failed = any(state != "SUCCEEDED" for _, state, _ in ends.values())
            again = any(again for _, _, again in ends.values())
            return end, "FAILED" if failed else "SUCCEEDED", again

        return run

    def link(self, path: str, tasks: dict[str, Any]) -> None:
        """Let the tasks that wait for another be its children, as in Argo."""
        here = {node.name: node for node in self.nodes if node.name.startswith(f"{path}.")}
        for name, task in tasks.items():
            for one in _before(task):
                node = here.get(f"{path}.{one}(0)") or here.get(f"{path}.{one}")
                first = f"{path}.{name}{'' if 'parameterIterator' in task else '-driver'}"
                if node is not None and first in here:
                    node.children.append(first)

    def hook(self, path: str, main: str, name: str, task: dict[str, Any], ends: Any) -> None:
        begin = ends[main][0]
        if math.isinf(begin):
            return
        self.in_hook = True
        display = f"{main}.onExit"
        ends[name] = self.retried(
            f"{path}.{display}", display, begin, lambda p, start: self.task(p, name, task, start)
        )
        self.in_hook = False

    def task(self, path: str, name: str, task: dict[str, Any], start: float) -> Any:
        fate = self.fate
        component = self.spec["components"][task["componentRef"]["name"]]
        if "parameterIterator" in task:  # its driver is inside
            return self.retried(f"{path}.{name}", name, start, self.loop(task, component))
        if "dag" in component:
            inside = self.dag(component["dag"])
        else:
            fails = name == fate.failing and not self.first_shard
            stays = "stuck" if fate.stuck in (name, "*") else "fails" if fails else ""
            if fails:
                self.first_shard = True
            placed = self.placed.get(component.get("executorLabel"), {})
            deadline_s = float(placed.get("activeDeadlineSeconds", math.inf))
            pod = self.pod(EXECUTOR_S, stays, deadline_s)

            def inside(p: str, s: float) -> Any:
                stuck = stays == "stuck"
                return self.retried(f"{p}.executor", "executor", s, pod, pod=True, stuck=stuck)

        end, state, _ = self.driver(path, f"{name}-driver", name, start, fails=name == fate.driver)
        if state == "FAILED":
            self.nodes.append(Node(f"{path}.{name}", name, False, end, end, ""))
            return end, state, False
        return self.retried(f"{path}.{name}", name, end, inside)

    def loop(self, task: dict[str, Any], component: dict[str, Any]) -> Any:
        count = len(json.loads(task["parameterIterator"]["items"]["raw"]))

        def iteration(path: str, start: float) -> Any:
            end, state, _ = self.driver(path, "iteration-item-driver", "iteration-item", start)
            if state == "FAILED":
                return end, state, False
            dag = self.dag(component["dag"])
            return self.retried(f"{path}.iteration-item", "iteration-item", end, dag)

        def run(path: str, start: float) -> Any:
            begin, state, _ = self.driver(path, "iteration-driver", "iteration-iterations", start)
            if state == "FAILED":
                return begin, state, False
            around = Node(
                f"{path}.iteration-iterations", "iteration-iterations", False, begin, 0, ""
            )
            self.nodes.append(around)
            ends = []
            for i in range(count):
                display = f"iteration-iterations({i}:{i})"
                around.children.append(f"{path}.{display}")
                ends.append(self.retried(f"{path}.{display}", display, begin, iteration))
            around.end_s = max(end for end, _, _ in ends)
            failed = any(state != "SUCCEEDED" for _, state, _ in ends)
            around.state = "FAILED" if failed else "SUCCEEDED"
            around.again = any(again for _, _, again in ends)
            return around.end_s, around.state, around.again

        return run


def _before(task: dict[str, Any]) -> set[str]:
    return set(task.get("dependentTasks", ()))


def details(
    built: list[Node], run_id: str, workflow: str, base: datetime.datetime, now_s: float
) -> Iterator[dict[str, Any]]:
    """What Kubeflow tells of the nodes that have begun by a second.

    Args:
        built: The nodes.
        run_id: Of the run.
        workflow: Name of the Workflow.
        base: When it began.
        now_s: The second.
    """

    def at(time_s: float) -> str:
        return (base + datetime.timedelta(seconds=time_s)).strftime("%Y-%m-%dT%H:%M:%SZ")

    begun = {node.name for node in built if node.start_s <= now_s}
    for number, node in enumerate(built):
        if node.name not in begun:
            continue
        ended = node.end_s <= now_s
        first = "PENDING" if node.pod else "RUNNING"
        history = [{"update_time": at(node.start_s), "state": first}]
        state = node.state
        if not ended and node.stuck:
            state = first
        elif not ended:
            state = "RUNNING" if not node.pod or now_s >= node.start_s + PULL_S else "PENDING"
        if node.again:
            history += [{**history[0], "state": "FAILED"}, history[0]]
        if state == "":
            history = [{"update_time": at(node.start_s)}]
        elif state != first:
            history.append({"update_time": at(min(node.end_s, now_s)), "state": state})
        detail: dict[str, Any] = {
            "run_id": run_id,
            "task_id": f"{fnv(run_id):08x}-0000-4000-8000-{number:012d}",
            "display_name": node.display,
            "create_time": at(0),
            "start_time": at(node.start_s),
            "end_time": at(node.end_s) if ended else NEVER,
        }
        if state:
            detail["state"] = state
        detail["state_history"] = history
        children = [name for name in node.children if name in begun]
        if children:
            ids = [{"pod_name": f"{workflow}-{fnv(name)}"} for name in children]
            detail["child_tasks"] = ids
        yield detail
