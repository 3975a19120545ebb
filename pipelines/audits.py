"""The audits that a Kubeflow has run or runs, the newest first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from scotoma.pipelines.cluster import PIPELINES, KfpClient
from scotoma.pipelines.progress import run_place, shown_state
from scotoma.pipelines.uploads import pipeline_by_name

__all__ = ["ListedAudit", "list_audits"]

PAGE = 20  # runs an answer; each tells of all its nodes


@dataclass(frozen=True)
class ListedAudit:
    """An audit on a cluster.

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


def list_audits(cluster: KfpClient, most: int) -> tuple[list[ListedAudit], bool]:
    """List the newest audits.

    Args:
        cluster: The Kubeflow; with a namespace, the audits of that team.
        most: Their largest number.

    Returns:
        The audits, and whether there may be older ones.
    """
    import kfp_server_api as api

    runs = api.RunServiceApi(cluster.client)
    made = (
        cluster.ask(lambda name=name: pipeline_by_name(cluster, name), "list the audits")  # type: ignore[misc]
        for name in PIPELINES[:2]
    )
    pipelines = {pipeline.pipeline_id for pipeline in made if pipeline is not None}
    audits: list[ListedAudit] = []
    token = ""
    while pipelines:
        page = cluster.ask(
            lambda token=token: runs.run_service_list_runs(  # type: ignore[misc]
                **cluster.where, page_size=PAGE, page_token=token, sort_by="created_at desc"
            ),
            "list the audits",
        )  # fmt: skip
        now = cluster.time()
        for run in page.runs or ():
            reference = run.pipeline_version_reference
            if reference is None or reference.pipeline_id not in pipelines:
                continue
            if len(audits) == most:
                return audits, True
            if run.recurring_run_id:
                run = cluster.completed(run)
            audits.append(_listed(run, (now - run.created_at).total_seconds()))
        token = page.next_page_token or ""
        if not token:
            break
    return audits, False


def _listed(run: Any, age_s: float) -> ListedAudit:
    project = re.sub(r" [0-9a-f]{8}$", "", run.display_name or "")  # `submit` makes names unique
    return ListedAudit(project, shown_state(run), age_s, run.run_id, run_place(run))
