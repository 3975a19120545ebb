"""Requests to Kubeflow Pipelines: submit a run, show its progress, retry it.

They go through the client below KFP's SDK. The SDK's own client prints, and waits without a limit.
"""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import json
import os
import re
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from scotoma import storage
from scotoma.config import Kubeflow
from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.extras import needs
from scotoma.pipelines import faults
from scotoma.pipelines.ending import end_at_once
from scotoma.pipelines.faults import NotThere, patiently
from scotoma.pipelines.progress import ENDED, Progress, progress_of, run_place
from scotoma.pipelines.uploads import (
    filter_by_name,
    first,
    kubeflow_experiment_id,
    mlflow_plugin,
    version_ids,
)
from scotoma.printable import printable
from scotoma.run.step_logs import StepLog, Try, tries_of
from scotoma.storage.credentials import looks_secret, masked

OLDEST = (2, 17)
PIPELINE = "scotoma-audit"
PREFLIGHT = "scotoma-preflight"
PIPELINES = (PIPELINE, "scotoma-scheduled", PREFLIGHT)
PAGE = 20  # runs an answer; each tells of all its nodes
UNREAD_S = 60.0  # until files that could not be read are asked for again


class KfpClient:
    """A client of Kubeflow Pipelines.

    Attributes:
        endpoint: Its address, without credentials.
        namespace: Of a team; empty where all share one.
        settings: The section `kubeflow` of the configuration.
        api: The client of KFP's API, and its requests for runs and pipelines.
    """

    def __init__(self, settings: Kubeflow, endpoint: str | None, namespace: str | None) -> None:
        address = endpoint or settings.endpoint or os.environ.get("KF_PIPELINES_ENDPOINT", "")
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and not (parts.query or parts.fragment)
        if not usable or looks_secret("", address):
            raise ConfigError(
                "the address of Kubeflow Pipelines must be http:// or https:// without "
                f"credentials and without a query, got {masked(address) or 'none'!r}; give "
                "--endpoint, kubeflow.endpoint or KF_PIPELINES_ENDPOINT"
            )
        self.endpoint = address.rstrip("/")
        self.namespace = namespace or settings.namespace or ""
        self.settings = settings
        api = needs("kfp_server_api", "kubeflow", "Kubeflow")
        self.api = client_of(self.endpoint)
        self.runs = api.RunServiceApi(self.api)
        self.pipelines = api.PipelineServiceApi(self.api)
        self._specs: dict[str, Any] = {}
        self._known: dict[tuple[StepLog, str], Try] = {}
        self._tries: list[Try] = []
        self._unread, self._unread_until = "", 0.0

    def submit(
        self, definition: Path, run_uri: str, name: str, experiment: str, pipeline: str = PIPELINE
    ) -> Progress:
        """Start a run of a compiled pipeline.

        Args:
            definition: The YAML; uploaded unless KFP has it.
            run_uri: Place of the audit, as the steps see it.
            name: The project, and the run's name; made unique, so that a lost answer does not start
                two.
            experiment: Of KFP; made unless KFP has it.
            pipeline: Name of the pipeline in KFP.

        Returns:
            The run.
        """
        import kfp_server_api as api

        in_experiment = kubeflow_experiment_id(self, experiment)
        self.refuse_older()
        pipeline_id, version_id = version_ids(self, definition, pipeline)
        unique = f"{name} {uuid.uuid4().hex[:8]}"
        body = api.V2beta1Run(
            display_name=unique,
            experiment_id=in_experiment,
            pipeline_version_reference=api.V2beta1PipelineVersionReference(
                pipeline_id=pipeline_id, pipeline_version_id=version_id
            ),
            runtime_config=api.V2beta1RuntimeConfig(parameters={"run_uri": run_uri}),
            service_account=self.settings.service_account,
            plugins_input=mlflow_plugin(name) if pipeline == PIPELINE else None,
        )

        def started() -> Any:
            answer = self.runs.run_service_list_runs(
                experiment_id=in_experiment, filter=filter_by_name(unique)
            )
            return first(answer, "runs")

        run = self.ask(lambda: self.runs.run_service_create_run(run=body), "start the run", started)
        return self.progress(run.run_id)

    def progress(self, run_id: str) -> Progress:
        """Tell the state of a run, which Kubeflow knows, and of its steps, which its files tell.

        Raises:
            ConfigError: The run is no audit.
        """
        run = self.ask(lambda: self._run(run_id), "show the run")
        now = self.time()
        spec = self._pipeline_of(run)
        complete_run(run, spec)
        name = spec.get("pipelineInfo", {}).get("name", "")
        if not run_place(run) or (name and name not in PIPELINES):
            raise ConfigError(
                f"the run {run_id} is no audit of Scotoma but of the pipeline "
                f"{printable(name) or 'of somebody else'}; scotoma kubeflow status shows the audits"
            )
        place = run_place(run)
        tries, unread = self._read(place)
        progress = progress_of(run, spec, tries, now, unread)
        skipped = storage.join(place, "skipped.json")
        scheduled = "root" in (run.runtime_config.parameters or {})
        if scheduled and progress.ended and not unread and storage.exists(skipped):
            newest = str(json.loads(storage.read_bytes(skipped))["newest"])
            progress = replace(progress, nothing_new=newest)
        return progress

    def tries(self, place: str) -> list[Try]:
        """Read what the logs of a run tell; each is read once.

        Raises:
            DataError: This machine cannot read them.
        """
        if not storage.is_remote(place) and not Path(place).is_dir():
            raise DataError(f"{place} is on a volume that this machine does not have")
        return tries_of(place, self._known)

    def _read(self, place: str) -> tuple[list[Try], str]:
        """What the logs of a run tell, and why they cannot be read now; that is tried seldom."""
        if time.monotonic() >= self._unread_until:
            try:
                self._tries, self._unread = self.tries(place), ""
            except ScotomaError as error:
                self._unread, self._unread_until = str(error), time.monotonic() + UNREAD_S
        return self._tries, self._unread

    def retry(self, run_id: str) -> None:
        """Run the failed steps of an ended run again, and those after them."""
        self.progress(run_id)  # refuses what is no audit
        self.ask(
            lambda: self.runs.run_service_retry_run(run_id=_id(run_id)),
            "retry the run",
            lambda: self._with_state(run_id, lambda state: state not in ENDED),
        )

    def cancel(self, run_id: str) -> None:
        """Stop the steps of a run; its exit step still runs, and it can be retried.

        The second time also its exit step is ended, whose pod may never start.

        Raises:
            ConfigError: It has ended, or Kubernetes no longer has it, or may not be asked.
        """
        if (run := self.progress(run_id)).ended:
            raise ConfigError(
                f"the run {run_id} has ended ({run.state}); there is nothing to cancel"
            )
        if run.state == "CANCELING":
            end_at_once(_id(run_id), self.namespace)
            return
        self.ask(
            lambda: self.runs.run_service_terminate_run(run_id=_id(run_id)),
            "cancel the run",
            lambda: self._with_state(run_id, lambda state: state in (*ENDED, "CANCELING")),
        )

    def newest_runs(self, what: str, **query: str) -> Iterator[Any]:
        """Yield runs, the newest first, page by page.

        Args:
            what: Their purpose, as the end of "cannot ...".
            query: Which runs, as parameters of the request.
        """
        token: str | None = ""
        while token is not None:
            page = self.ask(
                lambda token=token: self.runs.run_service_list_runs(  # type: ignore[misc]
                    page_size=PAGE, page_token=token, sort_by="created_at desc", **query
                ),
                what,
            )
            yield from page.runs or ()
            token = page.next_page_token or None

    def completed(self, run: Any) -> Any:
        """A run of a list, with the name and the place that its compiled pipeline gives it."""
        complete_run(run, self._pipeline_of(run))
        return run

    def _with_state(self, run_id: str, wanted: Callable[[str], bool]) -> Any:
        """The run, if it has a state that is wanted."""
        run = self._run(run_id)
        return run if wanted(run.state) else None

    def _run(self, run_id: str) -> Any:
        return self.runs.run_service_get_run(run_id=_id(run_id))

    def _pipeline_of(self, run: Any) -> Any:
        """The compiled pipeline of a run; empty if Kubeflow no longer has it."""
        reference = run.pipeline_version_reference
        if reference is None or not reference.pipeline_version_id:
            return _inner(run.pipeline_spec or {})
        key = reference.pipeline_version_id
        if key not in self._specs:
            try:
                version = self.ask(
                    lambda: self.pipelines.pipeline_service_get_pipeline_version(
                        pipeline_id=reference.pipeline_id, pipeline_version_id=key
                    ),
                    "show the pipeline of the run",
                )
            except NotThere:
                self._specs[key] = {}
            else:
                self._specs[key] = _inner(version.pipeline_spec or {})
        return self._specs[key]

    @property
    def renewable(self) -> bool:
        """Whether its token is read again for each request, so that a refusal may pass."""
        return self.api.configuration.refresh_api_key_hook is not None

    def time(self) -> datetime.datetime:
        """The server's time of its last answer, or this machine's."""
        date = self.api.last_response.getheader("Date")
        if date:
            with contextlib.suppress(ValueError):
                return email.utils.parsedate_to_datetime(date)
        return datetime.datetime.now(datetime.UTC)

    def refuse_older(self) -> None:
        """Refuse a server that would delete running audits with their schedule.

        Kubeflow tells its version by its older API. One that no longer has that API is new enough.

        Raises:
            ConfigError: Its version is below 2.17.
        """
        try:
            answer = patiently(
                lambda: self.api.call_api(
                    "/apis/v1beta1/healthz", "GET", header_params={"Accept": "application/json"},
                    response_type="object", auth_settings=["Bearer"], _return_http_data_only=True,
                ),
                "tell its version",
                self.endpoint,
            )  # fmt: skip
        except NotThere:
            return
        tag = str(answer.get("tag_name", "")) if isinstance(answer, dict) else ""
        version = re.match(r"v?(\d+)\.(\d+)", tag)
        if version and (int(version[1]), int(version[2])) < OLDEST:
            raise ConfigError(
                f"Kubeflow Pipelines at {self.endpoint} is {printable(tag)}; audits need 2.17 or "
                "later, so upgrade it"
            )

    def ask(
        self, call: Callable[[], Any], what: str, lookup: Callable[[], Any] | None = None
    ) -> Any:
        """Send a request as `patiently` does, with the same arguments, and check the answer.

        KFP's client makes an empty object of half an answer, and of an HTML page.
        """

        def read(request: Callable[[], Any]) -> Callable[[], Any]:
            def once() -> Any:
                answer = request()
                json.loads(self.api.last_response.data)
                return answer

            return once

        return patiently(read(call), what, self.endpoint, lookup=lookup and read(lookup))

    @property
    def where(self) -> dict[str, str]:
        """The namespace, as a parameter of requests that concern one team."""
        return {"namespace": self.namespace} if self.namespace else {}


def _inner(spec: Any) -> Any:
    """A pipeline without the settings for Kubernetes that may stand beside it."""
    return spec.get("pipeline_spec", spec)


def _id(text: str) -> str:
    """Check a run's id, which becomes part of an address."""
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(text))
    raise ConfigError(
        f"the id of a run is letters and digits such as {uuid.UUID(int=0)}, got {text!r}; "
        "`scotoma kubeflow submit` prints it"
    )


def client_of(endpoint: str) -> Any:
    """Make a client of KFP's API with the credentials of the environment or of this pod.

    The token is SCOTOMA_KFP_TOKEN, else a service account's, from the file that
    KF_PIPELINES_SA_TOKEN_PATH names or from the kubelet's. SCOTOMA_KFP_COOKIE is sent too.

    Raises:
        ConfigError: KF_PIPELINES_SA_TOKEN_PATH names no file.
    """
    import kfp_server_api as api
    from kfp.client import KF_PIPELINES_SA_TOKEN_ENV, KF_PIPELINES_SA_TOKEN_PATH
    from kfp.client.set_volume_credentials import ServiceAccountTokenVolumeCredentials

    settings = api.Configuration(host=endpoint)
    settings.retries = False  # `patiently` repeats; a redirect leads to a login page
    settings.ssl_ca_cert = os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE")
    host, scheme = urlsplit(endpoint).netloc, urlsplit(endpoint).scheme
    if not urllib.request.proxy_bypass(host):
        settings.proxy = urllib.request.getproxies().get(scheme)
    token_file = os.environ.get(KF_PIPELINES_SA_TOKEN_ENV) or KF_PIPELINES_SA_TOKEN_PATH
    settings.api_key_prefix["authorization"] = "Bearer"
    if token := os.environ.get("SCOTOMA_KFP_TOKEN"):
        settings.api_key["authorization"] = token.strip()
    elif Path(token_file).is_file():
        # Read again for each request: the kubelet renews it.
        credentials = ServiceAccountTokenVolumeCredentials(token_file)
        credentials.refresh_api_key_hook(settings)
        settings.refresh_api_key_hook = credentials.refresh_api_key_hook
    elif os.environ.get(KF_PIPELINES_SA_TOKEN_ENV):
        raise ConfigError(
            f"{KF_PIPELINES_SA_TOKEN_ENV} must name a file with a token, got {token_file}; correct "
            "it, or set SCOTOMA_KFP_TOKEN"
        )

    class Client(api.ApiClient):  # type: ignore[misc]
        """A client that waits for no answer for ever, and reads none of another server."""

        def deserialize(self, response: Any, response_type: Any) -> Any:
            answer = super().deserialize(response, response_type)
            if fields := getattr(answer, "attribute_map", None):
                told = json.loads(response.data)
                if told and not {*told} & {*fields.values()}:
                    raise faults.Foreign
            return answer

        def request(self, *arguments: Any, **options: Any) -> Any:
            options["_request_timeout"] = options.get("_request_timeout") or faults.TIMEOUTS_S
            return super().request(*arguments, **options)

    return Client(settings, cookie=os.environ.get("SCOTOMA_KFP_COOKIE"))


def complete_run(run: Any, spec: Mapping[str, Any]) -> None:
    """Give a run the parameters of its pipeline, and the name of its project and day.

    Args:
        run: As KFP's client answers it; one that no schedule started keeps its name.
        spec: Its compiled pipeline; empty if Kubeflow no longer has it.
    """
    import kfp_server_api as api

    root = spec.get("root", {})
    inputs = root.get("inputDefinitions", {}).get("parameters", {})
    defaults = {name: one["defaultValue"] for name, one in inputs.items() if "defaultValue" in one}
    if run.runtime_config is None:
        run.runtime_config = api.V2beta1RuntimeConfig()
    run.runtime_config.parameters = defaults | (run.runtime_config.parameters or {})
    if run.recurring_run_id and (project := _project(root)):
        run.display_name = f"{project} {run.created_at:%Y-%m-%d}"


def _project(root: Mapping[str, Any]) -> str:
    """The project in the configuration that the exit step is given; empty if there is none."""
    for task in root.get("dag", {}).get("tasks", {}).values():
        config = task.get("inputs", {}).get("parameters", {}).get("config", {})
        text = config.get("runtimeValue", {}).get("constant", "")
        try:
            return str(yaml.safe_load(text)["project"])
        except (yaml.YAMLError, TypeError, KeyError):
            continue
    return ""
