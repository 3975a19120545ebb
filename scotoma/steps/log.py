"""Log an audit to MLflow, and write down how long it took, on what."""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scotoma.audit import Audit, GateResult, plain, read_audit, read_part
from scotoma.audit.reading import LoggedAudit
from scotoma.config.sections import Keep
from scotoma.document.jsonable import jsonable
from scotoma.errors import UNLOGGED, NotLogged, ScotomaError
from scotoma.inference.members import manifests, recorded_members
from scotoma.printable import printable
from scotoma.processes import progress
from scotoma.processes.machine import hardware, versions
from scotoma.run import Run, read_json, write_json
from scotoma.run.workers import workers_left
from scotoma.steps.table import Leaves, when_due
from scotoma.verdict.frontier import frontier_rows

NOWHERE = (
    "a run in object storage has no mlflow.db beside it; set tracking.uri or MLFLOW_TRACKING_URI "
    "and repeat the command, or set tracking.uri to off"
)
UNSET = "tracking.uri is `environment`, and MLFLOW_TRACKING_URI is not set; set it, and repeat"


def log(run: Run, *, job: str = "", required: bool = False) -> list[Path]:
    """Log the audit to MLflow, and write down how long each step took, on what.

    One that passed is registered there, if the configuration names a model. What could not be
    logged, because a server is down, leaves the step unfinished: the next call logs it.

    Args:
        run: The run.
        job: Id of the run in Kubeflow; empty outside a pipeline.
        required: Whether the step fails where a server was named and holds nothing of the audit.

    Raises:
        NotLogged: It does.
    """
    from scotoma.tracking.store import tracking_uri

    uri, retraining, measured = tracking_uri(run), run.config.retraining, "measurements.json"
    outputs = write_tracked(run, uri, job)
    run.fetch(*outputs, *manifests(run))
    if reason := read_json(*outputs)["reason"]:
        run.forget("log")
        if required and reason != NOWHERE:
            raise NotLogged(f"{UNLOGGED}: {reason}")
    run.mirror.fetch_folder("steps")
    write_json(run.path(measured), _measurements(run))
    run.publish(run.path(measured))
    if retraining is not None:
        _tidy(run, retraining.keep, uri)
    return outputs


@when_due
def write_tracked(run: Run, uri: str | None, job: str) -> Iterator[Leaves]:
    """Log the audit, and write down where it is, or why it is not."""
    tracked, audit, gate = run.path("tracking.json"), run.path("audit.json"), run.section("verdict")
    retraining = run.config.retraining
    waiting = os.environ.get("MLFLOW_RUN_ID")  # a new one waits for the verdict
    named = (retraining.model, retraining.alias) if retraining and retraining.model else ()
    place = "off" if uri is None else uri or "nowhere"
    yield Leaves(
        [tracked], [audit, gate, run.path("report.html"), *manifests(run)],
        "/".join(filter(None, [place, *named, waiting])), record="log",
    )  # fmt: skip
    unset = UNSET if run.config.tracking.uri == "environment" else NOWHERE
    content: dict[str, Any] = {"reason": "" if uri is None else unset, "link": "", "runs": {}}
    if uri:
        progress.start("log to MLflow", 1)
        content = _logged(run, read_audit(audit), read_part(gate, GateResult), uri, job)
        progress.advance("log to MLflow")
    write_json(tracked, content)


def import_tracking(run: Run) -> None:
    """Import MLflow and create its file where there is none: either takes as long as to log."""
    from scotoma.tracking.connection import import_client, prepare_store, sqlite_file
    from scotoma.tracking.store import tracking_uri

    if uri := tracking_uri(run):
        import_client(uri)
        if (database := sqlite_file(uri)) is not None and not database.exists():
            with contextlib.suppress(Exception):  # the step says what is wrong
                prepare_store(uri)


def _tidy(run: Run, keep: Keep, uri: str | None) -> None:
    """Let old audits beside this one give up what they need not keep; no audit fails by it."""
    from scotoma.steps.retention import delete_unkept, plan_deletion

    root = run.uri.rpartition("/")[0] if run.uri else str(run.root.parent)
    try:
        audits = plan_deletion(run.config.project, root, keep, at_work=run.place)
        for one in audits:
            if one.large and not one.kept:
                _say_kept(
                    f"deleting models and predictions of {one.place}, which ended "
                    f"{one.ended:%Y-%m-%d} ({one.size / 1e6:,.1f} MB)"
                )
        _, notes = delete_unkept(audits, keep, uri)
    except ScotomaError as error:
        notes = [str(error)]
    for note in notes:
        _say_kept(note)


def _say_kept(text: str) -> None:
    """Write a line to the step's log, and to the terminal of the command."""
    line = f"keep    {printable(text)}"
    sys.stderr.write(f"{line}\n")
    progress.note(line)


def _logged(run: Run, audit: Audit, gate: GateResult, uri: str, job: str) -> dict[str, Any]:
    """What MLflow now holds: runs, and the version of the model if the audit passed."""
    from scotoma.tracking.registry import register
    from scotoma.tracking.store import log_audit

    def draw(months: Sequence[LoggedAudit]) -> dict[str, bytes]:
        from scotoma.document.html import html_page
        from scotoma.tracking.trend import draw_trend, trend_document

        trend = trend_document(audit.project, months)
        return {"trend.html": html_page(trend).encode(), "trend.png": draw_trend(trend)}

    retraining = run.config.retraining
    tracked = log_audit(run, audit, uri, gate=gate, job=job, draw=draw)
    logged: dict[str, Any] = jsonable(tracked)
    if tracked.reason or retraining is None or retraining.model is None:
        return logged
    registered = register(
        run, gate, tracked.run, retraining.model, retraining.alias, uri, tracked.repeats
    )
    return logged | {"registered": jsonable(registered), "reason": registered.reason}


def _measurements(run: Run) -> dict[str, Any]:
    """Times, sizes and versions: what the promise of equal bytes does not cover."""
    run.fetch(run.costs, run.path("audit.json"), run.section("verdict"))
    costs = read_json(run.costs) if run.costs.exists() else {}
    gate = read_part(run.section("verdict"), GateResult)
    rows = frontier_rows(read_audit(run.path("audit.json")), gate, costs)
    return {
        "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "hardware": hardware(),
        "versions": versions(),
        "costs": costs,
        "frontier": [plain(row) for row in rows],
        "time_s": {
            path.stem: read_json(path)["time_s"]
            for path in sorted(run.path("steps").glob("*.json"))
        },
        "workers": workers_left(run),
        "bytes_per_member": {
            variant.name: _bytes_per_member(run, variant.name)
            for variant in run.config.resolved_variants
        },
    }


def _bytes_per_member(run: Run, variant: str) -> dict[str, Any]:
    """Mean size of the files of a population; external predictions have none."""
    sizes = [member["bytes"] for member in recorded_members(run, variant) if "bytes" in member]
    if not sizes:
        return {"mean": None, "n": 0, "reason": "the models were not taken in"}
    return {"mean": sum(sizes) / len(sizes), "n": len(sizes)}
