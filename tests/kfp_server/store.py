"""What the stand-in knows: experiments, pipelines, versions, runs, recurring runs.

Everything is kept and told in the forms that Kubeflow Pipelines 2.17.0 was recorded with; see
`recorded/README.md`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
import re
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

from scotoma.pipelines.nodes import LARGEST_BYTES, workflow_bytes
from tests.kfp_server.argo import Fate, Node, details, fnv, nodes

__all__ = ["RECORDED", "Refused", "Store", "recorded"]

Thing = dict[str, Any]
RECORDED = Path(__file__).with_name("recorded")
EPOCH = "1970-01-01T00:00:00Z"
ENDED = ("SUCCEEDED", "FAILED")
# The code of gRPC and the status of HTTP that it becomes.
STATUSES = {3: 400, 5: 404, 6: 409, 7: 403, 10: 409, 13: 500, 16: 401}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def recorded(name: str) -> Any:
    """An answer of a real server."""
    return json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))


class Refused(Exception):  # noqa: N818  it reads as what it is
    """An answer that is no success.

    Args:
        code: Of gRPC.
        reason: For a reader.
        context: What the server was about, before the reason.
    """

    def __init__(self, code: int, reason: str, context: str = "") -> None:
        super().__init__(reason)
        self.code, self.status = code, STATUSES[code]
        self.message = f"{context}: {reason}" if context else reason

    @property
    def body(self) -> Thing:
        kind = "type.googleapis.com/google.rpc.Status"
        reason = "Internal Server Error" if self.code == 13 else str(self)
        detail = {"@type": kind, "code": self.code, "message": reason}
        return {"code": self.code, "message": self.message, "details": [detail]}


@dataclass
class Store:
    """All that was made through the API.

    Attributes:
        outcome: State that runs end in.
        failing: Name of the step that fails where the outcome is FAILED.
        driver: Name of a step whose driver fails instead.
        stuck: Name of a step whose pod cannot start, in every run; `*`: those of all steps.
        looks: How many times a run must be looked at until it has ended.
        elapsed_s: Seconds since a run's start, whenever it is looked at; None: as `looks` has it.
        multi_user: Whether every experiment is in a namespace.
        plugin: Whether KFP's MLflow plugin is on.
        lightweight: Recurring runs that ask plugins for something beside a version: Kubeflow makes
            a ScheduledWorkflow of them that has forgotten its parameters.
        controller_log: What the controller of schedules writes of times at which no run began.
        gone: Runs whose Workflow was deleted: nothing of them changes any more.
        stale: Whether a Workflow that Argo has compressed keeps the details that it had; else it
            has none.
    """

    outcome: str = "SUCCEEDED"
    failing: str = "train-dense"
    driver: str = ""
    stuck: str = ""
    looks: int = 3
    elapsed_s: float | None = None
    multi_user: bool = False
    stale: bool = False
    plugin: bool = False
    experiments: dict[str, Thing] = field(default_factory=dict)
    pipelines: dict[str, Thing] = field(default_factory=dict)
    versions: dict[str, Thing] = field(default_factory=dict)
    runs: dict[str, Thing] = field(default_factory=dict)
    recurring: dict[str, Thing] = field(default_factory=dict)
    lightweight: set[str] = field(default_factory=set)
    controller_log: list[str] = field(default_factory=list)
    looked: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    replayed: set[str] = field(default_factory=set)
    _fates: dict[str, Fate] = field(default_factory=dict)
    _ended_s: dict[str, float] = field(default_factory=dict)

    def add(self, things: dict[str, Thing], key: str, thing: Thing, *, unique: bool) -> Thing:
        """Keep something under a new id; a name that must be unique is refused the second time."""
        named = [one for one in things.values() if one["display_name"] == thing["display_name"]]
        same = [one for one in named if one.get("pipeline_id") == thing.get("pipeline_id")]
        if unique and (same if key == "pipeline_version_id" else named):
            raise Refused(6, f"{thing['display_name']} exists already")
        kept = {key: str(uuid.uuid4()), **thing, "created_at": now()}
        things[kept[key]] = kept
        return kept

    def experiment(self, body: Thing) -> Thing:
        """Make an experiment."""
        self.demand_namespace(body.get("namespace"), "An experiment")
        made = {"storage_state": "AVAILABLE", "last_run_created_at": EPOCH}
        return self.add(self.experiments, "experiment_id", body | made, unique=True)

    def demand_namespace(self, namespace: str | None, whose: str) -> None:
        if self.multi_user and not namespace:
            reason = f"{whose} cannot have an empty namespace in multi-user mode"
            raise Refused(3, reason, "Failed to authorize with API: Invalid input error")

    def listed(self, things: dict[str, Thing], query: dict[str, str], kind: str) -> Thing:
        """Those that pass KFP's filter, as a list answer."""
        matching = list(things.values())
        context = "Failed to create list options"
        try:
            predicates = json.loads(query.get("filter", "{}")).get("predicates", [])
        except ValueError:
            reason = f'failed to parse valid filter from "{query["filter"]}": proto: syntax error'
            raise Refused(3, reason, f"{context}: Invalid input error") from None
        for predicate in predicates:
            if predicate["operation"] != 1:
                raise Refused(3, "only EQUALS is known here", context)
            matching = [
                one for one in matching if one[predicate["key"]] == predicate["stringValue"]
            ]
        for key in ("experiment_id", "pipeline_id", "namespace"):
            if query.get(key):
                matching = [one for one in matching if self._of(one, key) == query[key]]
        if query.get("sort_by") == "created_at desc":
            matching.reverse()
        try:
            start = int(base64.b64decode(query.get("page_token") or b"MA==", validate=True))
        except (binascii.Error, ValueError):
            reason = "Invalid page token"
            raise Refused(3, reason, f"{context}: InvalidInputError") from None
        size = int(query.get("page_size") or 10)
        page: Thing = {kind: matching[start : start + size], "total_size": len(matching)}
        if start + size < len(matching):
            page["next_page_token"] = base64.b64encode(str(start + size).encode()).decode()
        if kind == "runs":
            page[kind] = [self._told(one, self._elapsed_s(one)) for one in page[kind]]
        return page if matching else {}

    def _of(self, one: Thing, key: str) -> Any:
        """A key of a thing; a run's namespace is that of its experiment."""
        if key == "namespace" and "experiment_id" in one:
            return self.experiments[one["experiment_id"]].get(key)
        return one.get(key)

    def specification(self, text: bytes) -> Thing:
        """A compiled pipeline, read as KFP's backend reads it: unknown fields are refused."""
        documents = list(yaml.load_all(text, LOADER))
        try:
            json_format.ParseDict(documents[0], pipeline_spec_pb2.PipelineSpec())
            if documents[1:]:
                json_format.ParseDict(documents[1], pipeline_spec_pb2.PlatformSpec())
        except (json_format.ParseError, IndexError) as error:
            raise Refused(3, f"this is no pipeline: {error}") from error
        if documents[1:]:
            return {"pipeline_spec": documents[0], "platform_spec": documents[1]}
        spec: Thing = documents[0]
        return spec

    def start(self, body: Thing, **more: Any) -> Thing:
        """Make a run of a version that is there, with the parameters that it asks for."""
        version_id = body["pipeline_version_reference"]["pipeline_version_id"]
        version = self.versions.get(version_id)
        experiment = self.experiments.get(body["experiment_id"])
        if version is None or experiment is None:
            raise Refused(5, "no such version, or no such experiment", "Failed to create a run")
        wanted = _spec(version)["root"]["inputDefinitions"]["parameters"]
        parameters = body.get("runtime_config", {}).get("parameters", {})
        for name in sorted(wanted.keys() - parameters.keys()):
            if "defaultValue" not in wanted[name]:
                raise Refused(
                    3,
                    f"invalid pipeline job inputs: parameter {name} is not optional, yet has "
                    "neither default value nor user provided value",
                )
        asked = body.get("plugins_input", {}).get("mlflow", {})
        body = {name: value for name, value in body.items() if name != "plugins_input"}
        if self.plugin:
            output = recorded("run-with-mlflow-plugin")["plugins_output"]
            if "experiment_name" in asked:
                output["mlflow"]["entries"]["experiment_name"]["value"] = asked["experiment_name"]
            more |= {"plugins_output": output}
        made = {
            "storage_state": "AVAILABLE", "scheduled_at": now(), "finished_at": EPOCH,
            "state": "PENDING", "state_history": [{"update_time": now(), "state": "PENDING"}],
        }  # fmt: skip
        run = self.add(
            self.runs,
            "run_id",
            {"service_account": "pipeline-runner"} | body | made | more,
            unique=False,
        )
        experiment["last_run_created_at"] = now()
        self.looked[run["run_id"]] = 0
        return run

    def serve(self, name: str) -> str:
        """Keep a recorded run, which is told as it was; returns its id."""
        run: Thing = recorded(name)
        self.runs[run["run_id"]] = run
        self.replayed.add(run["run_id"])
        return str(run["run_id"])

    def schedule(self, body: Thing) -> Thing:
        """Keep a recurring run that Kubeflow could start; its calendar is never kept here."""
        version_id = body["pipeline_version_reference"]["pipeline_version_id"]
        experiment = self.experiments.get(body["experiment_id"])
        if version_id not in self.versions or experiment is None:
            raise Refused(5, "no such version, or no such experiment", "Failed to create a job")
        cron = body["trigger"]["cron_schedule"]["cron"]
        if len(cron.split()) != 6:
            raise Refused(3, f"the cron {cron!r} has not six fields")
        kept = {
            "service_account": "pipeline-runner",
            **{name: value for name, value in body.items() if name != "plugins_input"},
            "max_concurrency": str(body["max_concurrency"]),
            "updated_at": now(),
            "status": "ENABLED",
            "namespace": experiment.get("namespace", "kubeflow"),
        }
        made = self.add(self.recurring, "recurring_run_id", kept, unique=False)
        if body.get("plugins_input"):
            self.lightweight.add(made["recurring_run_id"])
        return made

    def fire(self, recurring_run_id: str) -> str:
        """Start the run whose time has come, named as the controller names it.

        Returns:
            Its id; empty if it could not be started, which only the controller's log tells.
        """
        recurring = self.recurring[recurring_run_id]
        copied = ["pipeline_version_reference", "experiment_id", "service_account"]
        if recurring_run_id not in self.lightweight:
            copied.append("runtime_config")
        body = {key: recurring[key] for key in copied}
        before = sum(r.get("recurring_run_id") == recurring_run_id for r in self.runs.values())
        body["display_name"] = _next_name(recurring, before + 1)
        try:
            run = self.start({"runtime_config": {}} | body, recurring_run_id=recurring_run_id)
        except Refused as refused:
            self.controller_log.append(f"rpc error: code = InvalidArgument desc = {refused}")
            return ""
        self.looked[run["run_id"]] = 1
        return str(run["run_id"])

    def unschedule(self, recurring_run_id: str, propagation_policy: str) -> None:
        """Delete a recurring run, and with it what its ScheduledWorkflow owns unless orphaned."""
        self.one(self.recurring, recurring_run_id, "Job")
        del self.recurring[recurring_run_id]
        if propagation_policy != "ORPHAN":
            runs = self.runs.values()
            owned = {r["run_id"] for r in runs if r.get("recurring_run_id") == recurring_run_id}
            self.gone |= owned

    def look(self, run_id: str) -> Thing:
        """A run, a little further than the last time."""
        run = self.one(self.runs, run_id, "Run")
        if run_id in self.gone or run_id in self.replayed:
            return run
        self.looked[run_id] += 1
        elapsed_s = self._elapsed_s(run)
        if run["state"] not in ENDED:
            waiting = self.elapsed_s is None and self.looked[run_id] == 1
            wanted = "PENDING" if waiting else "RUNNING"
            if run["state"] == "CANCELING":
                wanted = "CANCELING"
            if self._over(run, elapsed_s):
                built = self.nodes(run)
                wanted, run["finished_at"] = built[0].state, now()
                self._ended_s[run_id] = built[0].end_s
            passed = ["RUNNING", wanted] if run["state"] == "PENDING" else [wanted]
            for state in dict.fromkeys(passed):
                if state != run["state"] and wanted != "PENDING":
                    run["state_history"].append({"update_time": now(), "state": state})
                    run["state"] = state
        return self._told(run, elapsed_s)

    def retry(self, run_id: str) -> Thing:
        """Let a run that failed go on; now it succeeds, and its exit step is not run again."""
        run = self.one(self.runs, run_id, "Run")
        context = f"Failed to retry a run: Failed to retry run {run_id}: BadRequestError"
        if run["state"] != "FAILED":
            refused = Refused(10, "Workflow must be Failed/Error to retry", context)
            refused.message += ": workflow cannot be retried"
            raise refused
        fate = self._fates.pop(run_id, None) or self._fate()
        self.outcome, self.looked[run_id] = "SUCCEEDED", 1
        if fate.failing:
            retried_s = self._ended_s.pop(run_id, 0.0) + 30
            self._fates[run_id] = Fate(fate.failing, retried_s=retried_s)
        run["state"], run["finished_at"] = "RUNNING", EPOCH
        run["state_history"].append({"update_time": now(), "state": "RUNNING"})
        return {}

    def terminate(self, run_id: str) -> Thing:
        """Stop a run: it is CANCELING, its exit step runs, and it is FAILED in the end."""
        run = self.one(self.runs, run_id, "Run")
        workflow = _workflow(run)
        if run_id in self.gone or run["state"] in ENDED:
            reason = f'workflows.argoproj.io "{workflow}" not found'
            context = (
                f"Failed to terminate a run: InternalServerError: Failed to terminate run {run_id} "
                "due to error terminating its workflow: Failed to terminate workflow "
                f"{workflow} due to patching error"
            )
            raise Refused(13, reason, context)
        self._fates[run_id] = Fate(stuck=self.stuck, cancelled_s=self._elapsed_s(run))
        run["state"] = "CANCELING"
        run["state_history"].append({"update_time": now(), "state": "CANCELING"})
        return {}

    def shut_down(self, run_id: str) -> None:
        """Patch `spec.shutdown` of a run's Workflow, as one may in Kubernetes: all its pods end."""
        fate = self._fates.get(run_id) or self._fate()
        self._fates[run_id] = replace(fate, shut_s=self._elapsed_s(self.runs[run_id]))

    def one(self, things: dict[str, Thing], key: str, kind: str) -> Thing:
        if key not in things:
            contexts = {
                "Run": f"Failed to get a run: Failed to fetch run {key}",
                "Job": "Failed to fetch a recurring run",
                "Pipeline": f"Failed to get a pipeline {key}. Check error stack: Failed to get a "
                f"pipeline with id {key}",
                "PipelineVersion": f"Failed to get a pipeline version with id {key}",
            }
            context = f"{contexts[kind]}: ResourceNotFoundError"
            raise Refused(5, f"{kind} {key} not found", context)
        return things[key]

    def _fate(self) -> Fate:
        failing = self.failing if self.outcome == "FAILED" and not self.driver else ""
        return Fate(failing, self.driver, self.stuck)

    def nodes(self, run: Thing) -> list[Node]:
        """The nodes of a run's Workflow, from its start to its end."""
        version = self.versions[run["pipeline_version_reference"]["pipeline_version_id"]]
        fate = self._fates.get(run["run_id"]) or self._fate()
        platform = version["pipeline_spec"].get("platform_spec")
        return nodes(_spec(version), _workflow(run), fate, platform)

    def _elapsed_s(self, run: Thing) -> float:
        """Seconds since the run's start."""
        if self.elapsed_s is not None:
            return self.elapsed_s
        if run["run_id"] in self.replayed:
            return 0.0
        looked = self.looked[run["run_id"]]
        built = self.nodes(run)
        finite = [node.end_s for node in built if not math.isinf(node.end_s)]
        fate = self._fates.get(run["run_id"], Fate())
        begin = fate.retried_s or (0.0 if math.isinf(fate.cancelled_s) else fate.cancelled_s)
        if waiting := [node.start_s for node in built if node.stuck]:
            return float(min([built[0].end_s, min(waiting) + 20.0 * looked]))
        share = min(max(looked - 1, 0) / self.looks, 1.0)
        return begin + share * (max(finite) - begin)

    def _over(self, run: Thing, elapsed_s: float) -> bool:
        if self.elapsed_s is None and self.looked[run["run_id"]] == 1:
            return False
        return elapsed_s >= self.nodes(run)[0].end_s

    def _told(self, run: Thing, elapsed_s: float) -> Thing:
        """A run with the details of its tasks."""
        run_id = run["run_id"]
        if run_id in self.replayed or run["state"] == "PENDING":
            return run
        base = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=elapsed_s)
        version = self.versions[run["pipeline_version_reference"]["pipeline_version_id"]]
        built = self.nodes(run)
        begun = sorted(node.start_s for node in built if node.start_s <= elapsed_s)
        compressed_s = [
            start_s for number, start_s in enumerate(begun, 1)
            if workflow_bytes(version["pipeline_spec"], number) > LARGEST_BYTES
        ]  # fmt: skip
        if compressed_s and not self.stale:
            return {**run, "run_details": {}}
        known_s = compressed_s[0] - 1 if compressed_s else elapsed_s
        told = details(built, run_id, _workflow(run), base, known_s)
        tasks = sorted(told, key=lambda task: task["task_id"])
        return {**run, "run_details": {"task_details": tasks}}


def _spec(version: Thing) -> Thing:
    spec: Thing = version["pipeline_spec"]
    inner: Thing = spec.get("pipeline_spec", spec)
    return inner


def _next_name(recurring: Thing, number: int) -> str:
    """The name of a run that a schedule starts: of its ScheduledWorkflow, a number, a hash."""
    letters = re.sub(r"[^a-z0-9]", "", recurring["display_name"].lower())[:25]
    name = f"{letters}{recurring['recurring_run_id'][:5]}-{number}"
    return f"{name}-{fnv(name)}"


def _workflow(run: Thing) -> str:
    return f"scotoma-audit-{fnv(run['run_id']) % 36**5:05d}"[:20]


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
