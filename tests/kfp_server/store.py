"""What the contract server knows: experiments, pipelines, versions, runs, recurring runs."""

from __future__ import annotations

import datetime
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

__all__ = ["Refused", "Store"]

Thing = dict[str, Any]


class Refused(Exception):  # noqa: N818  it reads as what it is
    """An answer that is no success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Store:
    """All that was made through the API.

    Attributes:
        outcome: State that runs end in.
        failing: Name of the step that fails where the outcome is FAILED.
        looks: How many times a run must be looked at until it has ended.
    """

    outcome: str = "SUCCEEDED"
    failing: str = "train-dense"
    looks: int = 3
    experiments: dict[str, Thing] = field(default_factory=dict)
    pipelines: dict[str, Thing] = field(default_factory=dict)
    versions: dict[str, Thing] = field(default_factory=dict)
    runs: dict[str, Thing] = field(default_factory=dict)
    recurring: dict[str, Thing] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)

    def add(self, things: dict[str, Thing], key: str, thing: Thing, *, unique: bool) -> Thing:
        """Keep something under a new id; a name that must be unique is refused the second time."""
        named = [one for one in things.values() if one["display_name"] == thing["display_name"]]
        same = [one for one in named if one.get("pipeline_id") == thing.get("pipeline_id")]
        if unique and (same if key == "pipeline_version_id" else named):
            raise Refused(409, f"{thing['display_name']} exists already")
        kept = {**thing, key: str(uuid.uuid4()), "created_at": now()}
        things[kept[key]] = kept
        return kept

    def listed(self, things: dict[str, Thing], query: dict[str, str], kind: str) -> Thing:
        """Those that pass KFP's filter, as a list answer."""
        matching = list(things.values())
        for predicate in json.loads(query.get("filter", "{}")).get("predicates", []):
            if predicate["operation"] != 1:
                raise Refused(400, "only EQUALS is known here")
            matching = [
                one for one in matching if one[predicate["key"]] == predicate["stringValue"]
            ]
        for key in ("experiment_id", "pipeline_id", "namespace"):
            if query.get(key):
                matching = [one for one in matching if self._of(one, key) == query[key]]
        start, size = int(query.get("page_token") or 0), int(query.get("page_size") or 10)
        page: Thing = {kind: matching[start : start + size], "total_size": len(matching)}
        if start + size < len(matching):
            page["next_page_token"] = str(start + size)
        return page if matching else {}

    def _of(self, one: Thing, key: str) -> Any:
        """A key of a thing; a recurring run's namespace is that of its experiment."""
        if key == "namespace" and key not in one and "experiment_id" in one:
            return self.experiments[one["experiment_id"]].get(key)
        return one.get(key)

    def specification(self, text: bytes) -> Thing:
        """A compiled pipeline, read as KFP's backend reads it: unknown fields are refused."""
        documents = list(yaml.safe_load_all(text))
        try:
            json_format.ParseDict(documents[0], pipeline_spec_pb2.PipelineSpec())
            if documents[1:]:
                json_format.ParseDict(documents[1], pipeline_spec_pb2.PlatformSpec())
        except (json_format.ParseError, IndexError) as error:
            raise Refused(400, f"this is no pipeline: {error}") from error
        spec = {"pipeline_spec": documents[0]}
        return {**spec, "platform_spec": documents[1]} if documents[1:] else spec

    def start(self, body: Thing) -> Thing:
        """Make a run of a version that is there, with the parameters that it asks for."""
        reference = body["pipeline_version_reference"]
        version = self.versions.get(reference["pipeline_version_id"])
        if version is None or body["experiment_id"] not in self.experiments:
            raise Refused(404, "no such version, or no such experiment")
        wanted = version["pipeline_spec"]["pipeline_spec"]["root"]["inputDefinitions"]["parameters"]
        parameters = body.get("runtime_config", {}).get("parameters", {})
        if missing := wanted.keys() - parameters.keys():
            raise Refused(400, f"parameters without a value: {', '.join(sorted(missing))}")
        run = self.add(self.runs, "run_id", body | {"state": "PENDING"}, unique=False)
        self.looked[run["run_id"]] = 0
        return run

    def schedule(self, body: Thing) -> Thing:
        """Keep a recurring run that Kubeflow could start; its calendar is never kept here."""
        reference = body["pipeline_version_reference"]
        known = reference["pipeline_version_id"] in self.versions
        if not known or body["experiment_id"] not in self.experiments:
            raise Refused(404, "no such version, or no such experiment")
        cron = body["trigger"]["cron_schedule"]["cron"]
        if len(cron.split()) != 6:
            raise Refused(400, f"the cron {cron!r} has not six fields")
        recurring_run = body | {"status": "ENABLED"}
        return self.add(self.recurring, "recurring_run_id", recurring_run, unique=False)

    def look(self, run_id: str) -> Thing:
        """A run, a little further than the last time."""
        run = self.one(self.runs, run_id)
        self.looked[run_id] += 1
        step = self.looked[run_id]
        if run["state"] in ("PENDING", "RUNNING"):
            run["state"] = "PENDING" if step == 1 else "RUNNING"
            if step > self.looks:
                run["state"], run["finished_at"] = self.outcome, now()
        return {**run, "run_details": {"task_details": self._tasks(run)}}

    def retry(self, run_id: str) -> Thing:
        """Let a run that failed go on; now it succeeds."""
        run = self.one(self.runs, run_id)
        if run["state"] != "FAILED":
            raise Refused(400, f"the run is {run['state']}; only one that failed is retried")
        run["state"], self.outcome, self.looked[run_id] = "RUNNING", "SUCCEEDED", 1
        run.pop("finished_at")
        return {}

    def one(self, things: dict[str, Thing], key: str) -> Thing:
        if key not in things:
            raise Refused(404, f"{key} not found")
        return things[key]

    def _tasks(self, run: Thing) -> list[Thing]:
        """Details as KFP gives them: the root, every step, and the pods of their drivers."""
        if run["state"] == "PENDING":
            return []
        version = self.versions[run["pipeline_version_reference"]["pipeline_version_id"]]
        names = sorted(
            name.removeprefix("exec-")
            for name in version["pipeline_spec"]["pipeline_spec"]["deploymentSpec"]["executors"]
        )
        details = []
        for name in names:
            failed = self.outcome == "FAILED" and name == self.failing
            state = "RUNNING" if run["state"] == "RUNNING" else "SUCCEEDED"
            detail: Thing = {
                "run_id": run["run_id"],
                "task_id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{run['run_id']}/{name}")),
                "display_name": name,
                "create_time": "2026-01-01T00:00:00Z",
                "start_time": "2026-01-01T00:00:05Z",
                "state": "FAILED" if failed and state == "SUCCEEDED" else state,
                "child_tasks": [{"pod_name": f"audit-{name}"}],
                "execution_id": 7,
            }
            if state != "RUNNING":
                detail["end_time"] = "2026-01-01T00:01:05Z"
            if detail["state"] == "FAILED":
                detail["error"] = {"code": 2, "message": "exit status 1"}
            details.append(detail)
        return details


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
