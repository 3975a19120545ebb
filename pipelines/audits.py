"""The audits that a Kubeflow has run or runs, the newest first, with their verdicts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from scotoma import storage
from scotoma.audit import parse_gate
from scotoma.errors import ScotomaError
from scotoma.pipelines.client import PIPELINES, KfpClient
from scotoma.pipelines.progress import run_place, shown_state
from scotoma.pipelines.uploads import pipeline_by_name
from scotoma.steps.kubeflow.schedule import SKIPPED


@dataclass(frozen=True)
class ListedAudit:
    """An audit on Kubeflow.

    Attributes:
        project: Its project; of a scheduled audit with the day on which it began.
        state: Of its run.
        age_s: Seconds since it was sent.
        run_id: Id of its run.
        run_uri: Its place.
    """

    project: str
    state: str
    age_s: float
    run_id: str
    run_uri: str


def list_audits(client: KfpClient, most: int) -> tuple[list[ListedAudit], bool]:
    """List the newest audits.

    Args:
        client: The Kubeflow; with a namespace, the audits of that team.
        most: Their largest number.

    Returns:
        The audits, and whether there may be older ones.
    """
    made = (
        client.ask(lambda name=name: pipeline_by_name(client, name), "list the audits")  # type: ignore[misc]
        for name in PIPELINES[:2]
    )
    pipelines = {pipeline.pipeline_id for pipeline in made if pipeline is not None}
    audits: list[ListedAudit] = []
    for run in client.newest_runs("list the audits", **client.where) if pipelines else ():
        reference = run.pipeline_version_reference
        if reference is None or reference.pipeline_id not in pipelines:
            continue
        if len(audits) == most:
            return audits, True
        age_s = (client.time() - run.created_at).total_seconds()
        audits.append(_listed(client.completed(run) if run.recurring_run_id else run, age_s))
    return audits, False


def _listed(run: Any, age_s: float) -> ListedAudit:
    project = re.sub(r" [0-9a-f]{8}$", "", run.display_name or "")  # `submit` makes names unique
    return ListedAudit(project, shown_state(run), age_s, run.run_id, run_place(run))


def verdicts_of(audits: list[ListedAudit]) -> tuple[dict[str, str], str]:
    """Read the verdicts of finished audits in object storage.

    Returns:
        The verdicts by run, and why some are missing.
    """
    verdicts: dict[str, str] = {}
    for audit in audits:
        if audit.state != "SUCCEEDED" or not storage.is_remote(audit.run_uri):
            continue
        address = storage.join(audit.run_uri, "gate.json")
        try:
            if storage.exists(address):
                verdicts[audit.run_id] = parse_gate(storage.read_bytes(address), address).verdict
            elif storage.exists(storage.join(audit.run_uri, SKIPPED)):
                verdicts[audit.run_id] = "nothing new"
        except ScotomaError as error:  # such as no credentials, which all the others lack too
            return verdicts, str(error)
    return verdicts, ""
