"""An audit into MLflow when all of it is on disk: the audit's run, its variants, its models."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scotoma import storage
from scotoma.audit import Audit, GateResult
from scotoma.audit.reading import LoggedAudit
from scotoma.errors import ScotomaError
from scotoma.extras import needs
from scotoma.inference.members import recorded_members
from scotoma.printable import printable
from scotoma.run import Run, portable
from scotoma.run.workers import workers_left
from scotoma.storage.credentials import masked
from scotoma.tracking.audits import audit_place, close_failures, logged_audits
from scotoma.tracking.connection import (
    DATA_DATE,
    UNATTACHED,
    does_not_answer,
    experiment_id,
    fault,
    mlflow_client,
    pages_of,
    passes,
    refused_artifacts,
    runs_of,
    wait_for_server,
)
from scotoma.tracking.kubeflow import PARENT, KubeflowRun, describe_root, kubeflow_run
from scotoma.tracking.records import (
    NOTE,
    RunRecord,
    audit_records,
    escape_markdown,
    member_records,
    model_name,
)
from scotoma.tracking.view import describe_experiment, shared_view, view_address

ARTIFACTS = (
    "report.html", "audit.json", "numbers.parquet", "config.yaml", "gate.json", "junit.xml",
    "summary.md",
)  # fmt: skip
# With a server that answers, but slowly; that it is silent ends the first request.
PATIENCE_S, PATIENCE_A_RUN_S = 300.0, 5.0
MOST_METRICS = 1000  # that MLflow takes in one request
MADE_BY = {"train": "dense", "prune": "prune"}  # step: kind of the variants that it trains
MOST_MONTHS = 24  # audits that the chart of an audit's run goes back

Draw = Callable[[Sequence[LoggedAudit]], Mapping[str, bytes]]


@dataclass(frozen=True)
class Tracked:
    """What MLflow now holds.

    Attributes:
        experiment: Name of the experiment with a run for each audit, its variants nested below it.
        models_experiment: Name of the experiment with one run per member.
        run: Id of the run of this audit.
        runs: Variant to run id.
        link: Where to look: an address, or the command that serves a local store.
        reason: Why not everything was logged, as a sentence without credentials; empty if it was.
        mended: What was put right in a local store, as a sentence; empty where nothing was.
        repeats: Which earlier audit rests on the same inputs, as a sentence; empty for none.
    """

    experiment: str
    models_experiment: str
    runs: dict[str, str]
    link: str
    reason: str = ""
    mended: str = ""
    run: str = ""
    repeats: str = ""


def tracking_uri(run: Run, environment: Mapping[str, str] = os.environ) -> str | None:
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


def log_audit(
    run: Run,
    audit: Audit,
    uri: str,
    *,
    gate: GateResult | None = None,
    job: str = "",
    draw: Draw | None = None,
) -> Tracked:
    """Log a finished audit.

    Experiment PROJECT gets a run for the audit and one nested below it for each variant; experiment
    PROJECT.models one run and one model per member. A run is known by the digest of the
    configuration and by what was measured (a member: by its weights). One that is there and
    finished stays, what an interrupted call left is replaced, so that the call can be repeated;
    another result of the same configuration is logged beside the first, never over it. What
    `log_failure` logged of an earlier try is closed.

    Args:
        run: Folder with the manifests of its populations, and the files to attach.
        audit: The audit.
        gate: The verdict on it.
        uri: MLflow tracking URI; a sqlite file keeps artifacts in `mlartifacts` beside it.
        job: Id of the run in Kubeflow; empty outside a pipeline.
        draw: Makes files for the run, name to content, of the project's audits, this one last; None
            for none.

    Returns:
        Where the runs are. A server that is down or slow, a full disk or an absent mlflow is no
        error: the audit is on disk, and `reason` says what kept it from being logged. Where the
        server takes numbers and this machine cannot write its artifacts, parameters and metrics are
        logged, and the run of the audit ends FAILED.
    """
    experiment, models = audit.project, f"{audit.project}.models"
    link, reason, mended, repeats, run_id = "", "", "", "", ""
    runs: dict[str, str] = {}
    members_of = {one.name: recorded_members(run, one.name) for one in audit.variants}
    total = 1 + len(members_of) + sum(map(len, members_of.values()))
    writer: _Writer | None = None
    try:
        with mlflow_client(uri) as (client, mended):
            wait_for_server(client)
            end = time.monotonic() + PATIENCE_S + PATIENCE_A_RUN_S * total
            pipeline = kubeflow_run(client, run.config, job)
            whole, variants, members = _records(run, audit, gate, members_of, pipeline, uri)
            home = experiment_id(client, experiment)
            writer = _Writer(client, audit, end)
            now_ms = time.time_ns() // 10**6
            metrics = {metric for record in variants for metric, _, _ in record.metrics}
            comparison = view_address(home, whole.tags["scotoma.result"])
            whole.tags[NOTE] += f"\n- [its variants beside one another]({comparison})"
            repeats = _repeated(client, home, whole)
            with _attached(run, client, home, draw) as files:
                run_id, runs = writer.log_family(home, whole, variants, files, pipeline)
            client.set_experiment_tag(
                home, *shared_view(whole.name, whole.tags["scotoma.result"], metrics, now_ms)
            )
            describe_experiment(client, home, now_ms)
            writer.log_members(experiment_id(client, models), members)
            link = _link(uri, comparison)
            close_failures(client, home, run)
            if pipeline.root is not None and gate is not None:
                describe_root(client, pipeline.root, audit, gate, comparison)
            reason = writer.refused
    except ScotomaError as error:
        reason = str(error)
    except Exception as error:
        logged = writer.logged if writer is not None else 0
        reason = f"{fault(error, uri)}; {logged} of {total} runs were logged"
        if passes(error):
            reason += f"; once it answers: scotoma audit --resume --step log --out {run.place}"
    return Tracked(experiment, models, runs, link, reason, mended, run_id, repeats)


def _records(
    run: Run,
    audit: Audit,
    gate: GateResult | None,
    members_of: Mapping[str, Sequence[Mapping[str, Any]]],
    pipeline: KubeflowRun,
    uri: str,
) -> tuple[RunRecord, list[RunRecord], list[RunRecord]]:
    """What the run of the audit, those of its variants and those of its members hold."""
    dated = _of_data(run)
    date = dated.get(DATA_DATE) or _day(run)
    place = audit_place(run, uri)
    tags = {"scotoma.place": place, **dated, **pipeline.tags()}
    whole, variants = audit_records(audit, gate, date, tags)
    links = [f"- files of the audit: {escape_markdown(place)}", *pipeline.links()]
    for record in (whole, *variants):
        record.tags[NOTE] = "\n".join([record.tags[NOTE], *links])
    source = run.config.source
    recipe = source.recipe.model_dump(mode="json") if source.trains else {}
    members = member_records(audit, recipe, members_of, date, tags)
    kinds = {variant.name: variant.kind for variant in audit.variants}
    for step, measured in workers_left(run).items():
        made, machine = MADE_BY.get(step.rpartition("-")[0]), measured.get("machine")
        for record in members if made and machine else ():
            trained = kinds[record.tags["scotoma.variant"]] == made
            if trained and int(record.tags["scotoma.member"]) in machine["members"]:
                record.samples = machine["samples"]
    return whole, variants, members


def _repeated(client: Any, home: str, whole: RunRecord) -> str:
    """Say which earlier audit rests on the same inputs; nothing of this one logged before."""
    setup = whole.tags.get("scotoma.setup")
    if not setup:
        return ""
    query = f"tags.`scotoma.setup` = '{setup}' and tags.`scotoma.kind` = 'audit'"
    for other in runs_of(client, home, query, "attributes.start_time ASC"):
        if other.info.status != "FINISHED":
            continue
        if other.data.tags.get("scotoma.place") != whole.tags["scotoma.place"]:
            return f"nothing new: {other.info.run_name} rests on the same inputs"
    return ""


@contextlib.contextmanager
def _attached(run: Run, client: Any, home: str, draw: Draw | None) -> Iterator[Path]:
    """A folder with the files to attach to the run of the audit."""
    paths = [run.path(name) for name in ARTIFACTS]
    run.fetch(*paths)
    contents = {path.name: path.read_bytes() for path in paths if path.exists()}
    contents["config.yaml"] = portable(contents["config.yaml"].decode()).encode()
    if draw is not None:
        date = _of_data(run).get(DATA_DATE, "")
        own = LoggedAudit(datetime.datetime.now(datetime.UTC), "finished", "", data_date=date)
        own = own.with_files(contents["audit.json"], contents["gate.json"])
        contents |= draw([*logged_audits(client, home, MOST_MONTHS), own])
    with tempfile.TemporaryDirectory() as folder:
        for name, content in contents.items():
            Path(folder, name).write_bytes(content)
        yield Path(folder)


class _Writer:
    """Records into MLflow with as few requests as it takes.

    Attributes:
        refused: Why the server's place of artifacts takes no files from here; empty if it does.
        logged: How many runs it holds of this audit.
    """

    def __init__(self, client: Any, audit: Audit, end: float) -> None:
        self.entities = needs("mlflow.entities", "tracking", "tracking")
        self.client, self.audit, self.end = client, audit, end
        self.refused = ""
        self.logged = 0
        self.remote = bool(pages_of(client.tracking_uri))

    def log_family(
        self,
        home: str,
        whole: RunRecord,
        variants: Sequence[RunRecord],
        files: Path,
        pipeline: KubeflowRun,
    ) -> tuple[str, dict[str, str]]:
        """Log the run of the audit and those of its variants below it, unless they are there.

        Returns:
            Id of the run of the audit, and variant to run id.
        """
        root = pipeline.root.info.run_id if pipeline.root is not None else ""
        if root:
            whole.tags[PARENT] = root
        present = self._present(home, [whole, *variants])
        known = present.get(whole.key())
        if known is not None:
            run_id = known.info.run_id
            if root and known.data.tags.get(PARENT) != root:  # submitted again
                for key, text in whole.texts().items():
                    self.client.set_tag(run_id, key, text)
            runs = {r.tags["scotoma.variant"]: present[r.key()].info.run_id for r in variants
                    if r.key() in present}  # fmt: skip
            self.logged += 1 + len(runs)
            return run_id, runs
        for stale in present.values():  # below a run of the audit that was never finished
            self.client.delete_run(stale.info.run_id)
        runs = {}
        with self._run(home, whole) as run:
            for record in variants:
                record.tags[PARENT] = run.info.run_id
                with self._run(home, record) as below:
                    runs[record.tags["scotoma.variant"]] = below.info.run_id
            self._attach(run, files)
        return run.info.run_id, runs

    def log_members(self, home: str, members: Sequence[RunRecord]) -> None:
        """Log a run and a model for each member that is not there yet."""
        present = self._present(home, members)
        for record in members:
            if record.key() in present:
                self.logged += 1
                continue
            with self._run(home, record):
                pass

    def _present(self, home: str, records: Sequence[RunRecord]) -> dict[Any, Any]:
        """The finished runs of these records; unfinished ones are deleted."""
        wanted = {record.key() for record in records}
        present: dict[Any, Any] = {}
        query = f"tags.`scotoma.audit` = '{self.audit.config_sha256}'"
        for run in runs_of(self.client, home, query):
            if (key := records[0].key(run.data.tags)) not in wanted:
                continue
            if run.info.status == "FINISHED":
                present[key] = run
            else:
                self.client.delete_run(run.info.run_id)
        return present

    @contextlib.contextmanager
    def _run(self, home: str, record: RunRecord) -> Iterator[Any]:
        """A run with the numbers of a record, that ends whatever happens in the block.

        Raises:
            TimeoutError: It has taken too long in all; no further run is begun.
        """
        if time.monotonic() > self.end:
            raise TimeoutError("too slow to be waited for")
        run = self.client.create_run(home, tags=record.texts(), run_name=record.name)
        run_id = run.info.run_id
        try:
            self._log_numbers(home, run_id, record)
            yield run
        except BaseException as error:
            if not does_not_answer(error):
                with contextlib.suppress(Exception):
                    self.client.set_terminated(run_id, "FAILED")
            raise
        if self.refused and record.key()[0] is None:
            self.client.set_tag(run_id, UNATTACHED, self.refused)
            self.client.set_terminated(run_id, "FAILED")
        else:
            self.client.set_terminated(run_id)
        self.logged += 1

    def _log_numbers(self, home: str, run_id: str, record: RunRecord) -> None:
        now = int(time.time() * 1000)
        model = self._model(home, run_id, record) if "scotoma.file" in record.tags else None
        metrics = [
            self.entities.Metric(name, value, now, step, model_id=model)
            for name, value, step in record.metrics
        ]
        metrics += [  # where MLflow's page of a run shows its system metrics
            self.entities.Metric(f"system/{name}", value, round(1000 * sample["time"]), step)
            for step, sample in enumerate(record.samples)
            for name, value in sample.items()
            if name != "time"
        ]
        params = [self.entities.Param(key, str(value)) for key, value in record.params.items()]
        self.client.log_batch(run_id, metrics[: MOST_METRICS - len(params)], params)
        for begin in range(MOST_METRICS - len(params), len(metrics), MOST_METRICS):
            self.client.log_batch(run_id, metrics[begin : begin + MOST_METRICS])
        if record.examples:
            self.client.log_inputs(run_id, self._datasets(record.examples))

    def _model(self, home: str, run_id: str, record: RunRecord) -> str:
        """Make a member one of MLflow's models, which links to its file where the audit lies."""
        place = storage.join(record.tags["scotoma.place"], record.tags["scotoma.file"])
        model = self.client.create_logged_model(
            home,
            name=model_name(record),
            source_run_id=run_id,
            tags={
                "mlflow.model.isExternal": "true",
                "scotoma.place": printable(place),
                "scotoma.weights": record.tags["scotoma.weights"],
            },
            params={key: str(value) for key, value in record.params.items()},
            model_type="external",
        )
        self.client.finalize_logged_model(model.model_id, "READY")
        output = self.entities.LoggedModelOutput(model.model_id, step=0)
        self.client.log_outputs(run_id, [output])
        return str(model.model_id)

    def _attach(self, run: Any, files: Path) -> None:
        """Attach files; where the server's place of artifacts takes none, keep the reason."""
        run_id, place = run.info.run_id, str(run.info.artifact_uri)
        try:
            self.client.log_artifacts(run_id, str(files))
            if self.remote and urlsplit(place).scheme in ("", "file"):
                self._refuse_unseen(run_id)
        except Exception as error:
            if not self.remote or place.startswith(("mlflow-artifacts:", "http")):
                raise  # of this disk, or of the server itself
            self.client.get_run(run_id)  # raises where it is the server that is down
            self.refused = refused_artifacts(error, place, self.audit.project)

    def _refuse_unseen(self, run_id: str) -> None:
        """Refuse a folder that this machine has too, where the server does not see what it wrote.

        Raises:
            FileNotFoundError: It does not.
        """
        from mlflow.utils.credentials import get_default_host_creds
        from mlflow.utils.rest_utils import http_request_safe

        endpoint = "/api/2.0/mlflow/artifacts/list"
        creds = get_default_host_creds(self.client.tracking_uri)
        answer = http_request_safe(creds, endpoint, "GET", params={"run_id": run_id})
        if not answer.json().get("files"):
            raise FileNotFoundError("the server does not see what this machine writes there")

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


def _day(run: Run) -> str:
    """The day of an audit whose data have no date: that on which its numbers were written."""
    written = run.path("audit.json").stat().st_mtime
    return f"{datetime.datetime.fromtimestamp(written, datetime.UTC):%Y-%m-%d}"


def _link(uri: str, comparison: str) -> str:
    """A page of MLflow, as an address or as the command that serves it."""
    if pages := pages_of(uri):
        return f"{pages}/{comparison}"
    return f"mlflow ui --backend-store-uri {shlex.quote(masked(uri))}"
