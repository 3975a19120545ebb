"""An audit into MLflow when all of it is on disk: client, silence, links, reasons, sqlite."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotoma.audit import Audit, GateResult
from scotoma.credentials import masked
from scotoma.errors import ScotomaError
from scotoma.extras import needs
from scotoma.run import Run, portable, read_json
from scotoma.tracking.connection import (
    DATA_DATE,
    UNATTACHED,
    does_not_answer,
    experiment_id,
    fault,
    pages_of,
    quiet,
    refused_artifacts,
)
from scotoma.tracking.database import prepare_store
from scotoma.tracking.failed import close_failures
from scotoma.tracking.kubeflow import ROOT, describe_root, point_to_root, root_run
from scotoma.tracking.records import member_records, variant_records
from scotoma.tracking.run_record import NOTE, RunRecord
from scotoma.tracking.view import shared_view, view_address

__all__ = ["Tracked", "log_audit", "tracking_uri"]

ARTIFACTS = (
    "report.html", "audit.json", "config.yaml", "gate.json", "junit.xml", "summary.md"
)  # fmt: skip
# With a server that answers, but slowly; that it is silent ends the first request.
PATIENCE_S, PATIENCE_A_RUN_S = 300.0, 5.0


@dataclass(frozen=True)
class Tracked:
    """What MLflow now holds.

    Attributes:
        experiment: Name of the experiment with one run per variant.
        models_experiment: Name of the experiment with one run per member.
        runs: Variant to run id.
        link: Where to look: an address, or the command that serves a local store.
        reason: Why not everything was logged, as a sentence without credentials; empty if it was.
        mended: What was put right in a local store, as a sentence; empty where nothing was.
    """

    experiment: str
    models_experiment: str
    runs: dict[str, str]
    link: str
    reason: str = ""
    mended: str = ""


def tracking_uri(run: Run, environment: Mapping[str, str]) -> str | None:
    """Where to log: SCOTOMA_TRACKING_URI, the configuration, MLFLOW_TRACKING_URI, a file.

    Args:
        run: Its configuration may name a server. A URI with the mark of a redacted credential is
            not usable, and passed over.
        environment: Environment variables; MLFLOW_TRACKING_URI alone counts where the
            configuration says `environment`.

    Returns:
        An MLflow tracking URI; without any, that of `mlflow.db` in the folder that holds the run,
        so that the runs of one project meet there; None for `off`. Empty for a run in object
        storage when none is named: a database beside one machine's copy is seen by no other.

    >>> from scotoma.config import default_config
    >>> run = Run(Path("/runs/first"), default_config())
    >>> tracking_uri(run, {}), tracking_uri(run, {"SCOTOMA_TRACKING_URI": "off"})
    ('sqlite:////runs/mlflow.db', None)
    """
    configured = run.config.tracking.uri or ""
    candidates = (
        environment.get("SCOTOMA_TRACKING_URI"),
        "" if "***" in configured else configured,
        environment.get("MLFLOW_TRACKING_URI"),
        "" if run.uri else f"sqlite:///{run.root.resolve().parent / 'mlflow.db'}",
    )
    chosen = next((uri for uri in candidates if uri), "")
    if chosen == "environment":
        chosen = environment.get("MLFLOW_TRACKING_URI", "")
    return None if chosen == "off" else chosen


def log_audit(run: Run, audit: Audit, uri: str, *, gate: GateResult | None = None) -> Tracked:
    """Log a finished audit.

    Experiment PROJECT gets one flat run per variant, dense last so that it is listed first;
    experiment PROJECT.models one run per member. A run is known by the digest of the configuration
    and by what was measured (a member: by its weights). One that is there and finished stays, one
    that an interrupted call left is replaced, so that the call can be repeated; another result of
    the same configuration is logged beside the first, never over it. What `log_failure` logged of
    an earlier try is closed.

    Args:
        run: Folder with the manifests of its populations, and the files to attach.
        audit: The audit.
        gate: The verdict on it.
        uri: MLflow tracking URI; a sqlite file keeps artifacts in `mlartifacts` beside it.

    Returns:
        Where the runs are. A server that is down or slow, a full disk or an absent mlflow is no
        error: the audit is on disk, and `reason` says what kept it from being logged. Where the
        server takes numbers and this machine cannot write its artifacts, parameters and metrics are
        logged, and the runs of variants end FAILED.
    """
    experiment, models = audit.project, f"{audit.project}.models"
    trained = getattr(run.config.source, "recipe", None)
    recipe = trained.model_dump(mode="json") if trained else {}
    manifests = {
        variant.name: read_json(run.population(variant.name) / "manifest.json")
        for variant in audit.variants
    }
    variants = variant_records(audit, recipe, gate)
    members = member_records(audit, recipe, manifests)
    for record in variants:
        record.tags |= _of_data(run)
    attached = [path for path in map(run.path, ARTIFACTS) if path.exists()]
    runs: dict[str, str] = {}
    total = len(variants) + len(members)
    end = time.monotonic() + PATIENCE_S + PATIENCE_A_RUN_S * total
    link, logged, reason, mended = "", 0, "", ""
    try:
        with quiet(uri):
            mlflow = needs("mlflow", "tracking", "tracking")
            mended = prepare_store(uri)
            client = mlflow.MlflowClient(tracking_uri=uri)
            root = root_run(mlflow, client, uri)
            if root is not None:
                point_to_root([*variants, *members], root)
            writer = _Writer(mlflow, client, audit, end, uri)
            home = experiment_id(mlflow, client, uri, experiment)
            for record, run_id in writer.log(home, variants, attached):
                runs[record.tags["scotoma.variant"]] = run_id
                logged += 1
            for _ in writer.log(experiment_id(mlflow, client, uri, models), members):
                logged += 1
            result = variants[0].tags["scotoma.result"]
            name = variants[0].name.rpartition(" · ")[0]
            metrics = {metric for record in variants for metric, _, _ in record.metrics}
            view = shared_view(name, result, metrics, time.time_ns() // 10**6)
            client.set_experiment_tag(home, *view)
            comparison = view_address(home, result)
            link = _link(uri, comparison)
            close_failures(client, home, run)
            if root is not None and gate is not None:
                describe_root(mlflow, client, root, audit, gate, comparison)
            if writer.refused:
                reason = f"{writer.refused}, then repeat the command"
    except ScotomaError as error:
        reason = str(error)
    except Exception as error:
        reason = (
            f"{fault(error, uri)}; {logged} of {total} runs were logged, the audit itself is "
            "complete: repeat the command to log it"
        )
    return Tracked(experiment, models, runs, link, reason, mended)


class _Writer:
    """Records into MLflow with as few requests as it takes.

    Attributes:
        refused: Why the server's place of artifacts takes no files from here; empty if it does.
    """

    def __init__(self, mlflow: Any, client: Any, audit: Audit, end: float, uri: str) -> None:
        self.entities, self.client, self.audit, self.end = mlflow.entities, client, audit, end
        self.refused = ""
        self.remote = uri.startswith("http")

    def log(
        self, experiment_id: str, records: Sequence[RunRecord], attached: Sequence[Path] = ()
    ) -> Iterator[tuple[RunRecord, str]]:
        """Log what is not there yet; yields each record with the id of its run.

        Raises:
            TimeoutError: It has taken too long in all; no further run is begun.
        """
        wanted = {record.key() for record in records}
        present: dict[tuple[str | None, ...], Any] = {}
        for run in list(self._logged_runs(experiment_id)):
            key = records[0].key(run.data.tags)
            if run.info.status == "FINISHED":
                present[key] = run
            elif key in wanted:
                self.client.delete_run(run.info.run_id)
        for record in records:
            logged = present.get(record.key())
            if logged is not None:
                self._tag_root(logged, record)
                yield record, logged.info.run_id
                continue
            if time.monotonic() > self.end:
                raise TimeoutError("too slow to be waited for")
            yield record, self._write(experiment_id, record, attached)

    def _tag_root(self, run: Any, record: RunRecord) -> None:
        """Let a run that another run of Kubeflow logged point to the newest."""
        if run.data.tags.get(ROOT) != record.tags.get(ROOT, run.data.tags.get(ROOT)):
            for key in (ROOT, NOTE):
                self.client.set_tag(run.info.run_id, key, record.texts()[key])

    def _logged_runs(self, experiment_id: str) -> Iterator[Any]:
        """The runs of this configuration."""
        query, token = f"tags.`scotoma.audit` = '{self.audit.config_sha256}'", None
        while True:
            page = self.client.search_runs([experiment_id], query, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _write(self, experiment_id: str, record: RunRecord, attached: Sequence[Path]) -> str:
        run = self.client.create_run(experiment_id, tags=record.texts(), run_name=record.name)
        run_id: str = run.info.run_id
        try:
            self._log_numbers(run_id, record)
            if attached:
                self._attach(run, attached)
        except Exception as error:
            if not does_not_answer(error):
                with contextlib.suppress(Exception):
                    self.client.set_terminated(run_id, "FAILED")
            raise
        if attached and self.refused:
            self.client.set_tag(run_id, UNATTACHED, self.refused)
            self.client.set_terminated(run_id, "FAILED")
        else:
            self.client.set_terminated(run_id)
        return run_id

    def _log_numbers(self, run_id: str, record: RunRecord) -> None:
        now = int(time.time() * 1000)
        metrics = [
            self.entities.Metric(name, value, now, step) for name, value, step in record.metrics
        ]
        params = [self.entities.Param(key, str(value)) for key, value in record.params.items()]
        self.client.log_batch(run_id, metrics, params)
        if record.examples:
            self.client.log_inputs(run_id, self._datasets(record.examples))

    def _attach(self, run: Any, attached: Sequence[Path]) -> None:
        """Attach files; where the server's place of artifacts takes none, keep the reason."""
        run_id = run.info.run_id
        if self.refused:
            return
        try:
            for path in attached:
                if path.name == "config.yaml":
                    content = portable(path.read_text(encoding="utf-8"))
                    self.client.log_text(run_id, content, path.name)
                else:
                    self.client.log_artifact(run_id, str(path))
        except Exception as error:
            place = str(run.info.artifact_uri)
            if not self.remote or place.startswith(("mlflow-artifacts:", "http")):
                raise  # of this disk, or of the server itself
            self.client.get_run(run_id)  # raises where it is the server that is down
            self.refused = refused_artifacts(error, place, self.audit.project)

    def _datasets(self, examples: Mapping[str, int]) -> list[Any]:
        digest = self.audit.examples.dataset_sha256
        return [
            self.entities.DatasetInput(
                self.entities.Dataset(
                    name=f"{self.audit.project} {split}",
                    digest=digest[:32],  # 36 is the most that MLflow takes; `source` has it whole
                    source_type="scotoma",
                    source=json.dumps({"dataset_sha256": digest, "split": split}),
                    profile=json.dumps({"num_rows": rows}),
                ),
                [self.entities.InputTag("mlflow.data.context", split)],
            )
            for split, rows in examples.items()
            if rows
        ]


def _of_data(run: Run) -> dict[str, str]:
    """Tags that say of when the data are: the newest input, and its day or month."""
    newest = run.newest or ""
    dated = re.search(r"(?<!\d)\d{4}-\d{2}(-\d{2})?(?!\d)", newest)
    date = run.config.data_date or (dated[0] if dated else "")
    tags = {"scotoma.newest": newest, DATA_DATE: date}
    return {name: text for name, text in tags.items() if text}


def _link(uri: str, comparison: str) -> str:
    """A page of MLflow, as an address or as the command that serves it."""
    if pages := pages_of(uri):
        return f"{pages}/{comparison}"
    return f"mlflow ui --backend-store-uri {shlex.quote(masked(uri))}"
