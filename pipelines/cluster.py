"""Requests to Kubeflow Pipelines: submit a run, show its progress, retry it, read its logs.

They go through the client below KFP's SDK. The SDK's own client prints, and waits without a limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from scotoma.config import Kubeflow
from scotoma.credentials import looks_secret, masked
from scotoma.errors import ConfigError, ScotomaError
from scotoma.pipelines.faults import Conflict, patiently
from scotoma.pipelines.login import client_of
from scotoma.pipelines.progress import Progress, progress_of

__all__ = ["TIMEOUTS_S", "KfpClient", "filter_by_name"]

TIMEOUTS_S = (10.0, 60.0)  # to connect, and between two pieces of an answer
EQUALS = 1
PIPELINE = "scotoma-audit"


class KfpClient:
    """A client of Kubeflow Pipelines.

    Attributes:
        endpoint: Its address, without credentials.
        namespace: Of a team; empty where all share one.
        settings: The section `kubeflow` of the configuration.
        client: The client of KFP's API.
    """

    def __init__(self, settings: Kubeflow, endpoint: str | None, namespace: str | None) -> None:
        address = endpoint or settings.endpoint or os.environ.get("KF_PIPELINES_ENDPOINT", "")
        if urlsplit(address).scheme not in ("http", "https") or looks_secret("", address):
            raise ConfigError(
                "the address of Kubeflow Pipelines must be http:// or https:// without "
                f"credentials, got {masked(address) or 'none'!r}; give --endpoint, "
                "kubeflow.endpoint or KF_PIPELINES_ENDPOINT"
            )
        self.endpoint = address.rstrip("/")
        self.namespace = namespace or settings.namespace or ""
        self.settings = settings
        self.client = client_of(self.endpoint)

    def submit(self, definition: Path, run_uri: str, name: str, experiment: str) -> Progress:
        """Start a run of a compiled pipeline.

        Args:
            definition: The YAML; uploaded unless KFP has it.
            run_uri: Place of the audit, as the steps see it.
            name: Of the run; made unique, so that a lost answer does not start two.
            experiment: Of KFP; made unless KFP has it.

        Returns:
            The run.
        """
        import kfp_server_api as api

        experiment_id = self.experiment(experiment)
        pipeline_id, version_id = self.version(definition, PIPELINE)
        unique = f"{name} {uuid.uuid4().hex[:8]}"
        body = api.V2beta1Run(
            display_name=unique,
            experiment_id=experiment_id,
            pipeline_version_reference=api.V2beta1PipelineVersionReference(
                pipeline_id=pipeline_id, pipeline_version_id=version_id
            ),
            runtime_config=api.V2beta1RuntimeConfig(parameters={"run_uri": run_uri}),
            service_account=self.settings.service_account,
        )
        runs = api.RunServiceApi(self.client)

        def started() -> Any:
            answer = runs.run_service_list_runs(
                experiment_id=experiment_id,
                filter=filter_by_name(unique),
                _request_timeout=TIMEOUTS_S,
            )
            return _first(answer, "runs")

        run = self.ask(
            lambda: runs.run_service_create_run(run=body, _request_timeout=TIMEOUTS_S),
            "start the run",
            started,
        )
        return self.progress(run.run_id)

    def progress(self, run_id: str) -> Progress:
        """Ask for the state of a run and of its steps."""
        import kfp_server_api as api

        runs = api.RunServiceApi(self.client)
        run = self.ask(
            lambda: runs.run_service_get_run(run_id=_id(run_id), _request_timeout=TIMEOUTS_S),
            "show the run",
        )
        return progress_of(run)

    def retry(self, run_id: str) -> None:
        """Run the failed steps of an ended run again, and those after them."""
        import kfp_server_api as api

        runs = api.RunServiceApi(self.client)

        def restarted() -> Any:
            run = runs.run_service_get_run(run_id=_id(run_id), _request_timeout=TIMEOUTS_S)
            return None if progress_of(run).ended else run

        self.ask(
            lambda: runs.run_service_retry_run(run_id=_id(run_id), _request_timeout=TIMEOUTS_S),
            "retry the run",
            restarted,
        )

    def logs(self, run_id: str, pod: str) -> str:
        """Read the log of a step from its pod or from Kubeflow's archive.

        KFP's user interface serves it, at the address under which it also serves the API.
        """
        query = {"podname": pod, "runid": _id(run_id)}
        if self.namespace:
            query["podnamespace"] = self.namespace
        headers = dict(self.client.default_headers)
        if self.client.cookie:
            headers["Cookie"] = self.client.cookie
        self.client.update_params_for_auth(headers, [], ["Bearer"])
        address = f"{self.endpoint}/k8s/pod/logs?{urlencode(query)}"
        answer = patiently(
            lambda: self.client.rest_client.GET(
                address, headers=headers, _request_timeout=TIMEOUTS_S
            ),
            f"show the log of {pod}",
            self.endpoint,
        )
        return str(answer.data.decode("utf-8", "replace"))

    def ask(
        self, call: Callable[[], Any], what: str, lookup: Callable[[], Any] | None = None
    ) -> Any:
        """Send a request as `patiently` does, with the same arguments, and check the answer.

        KFP's client makes an empty object of half an answer, and of an HTML page.
        """

        def read(request: Callable[[], Any]) -> Callable[[], Any]:
            def once() -> Any:
                answer = request()
                json.loads(self.client.last_response.data)
                return answer

            return once

        return patiently(read(call), what, self.endpoint, lookup=lookup and read(lookup))

    def experiment(self, name: str) -> str:
        """Return the id of an experiment; make the experiment unless KFP has it."""
        import kfp_server_api as api

        experiments = api.ExperimentServiceApi(self.client)
        body = api.V2beta1Experiment(display_name=name, namespace=self.namespace or None)

        def lookup() -> Any:
            answer = experiments.experiment_service_list_experiments(
                filter=filter_by_name(name), **self.where, _request_timeout=TIMEOUTS_S
            )
            return _first(answer, "experiments")

        def make() -> Any:
            return experiments.experiment_service_create_experiment(
                experiment=body, _request_timeout=TIMEOUTS_S
            )

        return str(self._get_or_make("use the experiment", lookup, make).experiment_id)

    def version(self, definition: Path, name: str, code: str = "") -> tuple[str, str]:
        """Return the ids of a pipeline and of its version; upload what KFP does not have.

        Args:
            definition: The YAML of the version.
            name: Of the pipeline.
            code: Last part of the version's name.
        """
        import kfp_server_api as api

        pipelines = api.PipelineServiceApi(self.client)
        uploads = api.PipelineUploadServiceApi(self.client)
        digest = hashlib.sha256(definition.read_bytes()).hexdigest()[:16]
        version_name = f"{name} {digest} {code}".rstrip()

        def pipeline_by_name() -> Any:
            answer = pipelines.pipeline_service_list_pipelines(
                filter=filter_by_name(name), **self.where, _request_timeout=TIMEOUTS_S
            )
            return _first(answer, "pipelines")

        def upload_pipeline() -> Any:
            return uploads.upload_pipeline(
                str(definition), name=name, **self.where, _request_timeout=TIMEOUTS_S
            )

        what = "upload the pipeline"
        pipeline = self._get_or_make(what, pipeline_by_name, upload_pipeline)
        pipeline_id = str(pipeline.pipeline_id)

        def version_by_name() -> Any:
            answer = pipelines.pipeline_service_list_pipeline_versions(
                pipeline_id=pipeline_id,
                filter=filter_by_name(version_name),
                _request_timeout=TIMEOUTS_S,
            )
            return _first(answer, "pipeline_versions")

        def upload_version() -> Any:
            return uploads.upload_pipeline_version(
                str(definition),
                name=version_name,
                pipelineid=pipeline_id,
                _request_timeout=TIMEOUTS_S,
            )

        version = self._get_or_make(what, version_by_name, upload_version)
        return pipeline_id, str(version.pipeline_version_id)

    def _get_or_make(self, what: str, lookup: Callable[[], Any], make: Callable[[], Any]) -> Any:
        """Look a thing up, or make it; somebody else may make it in between."""
        existing = self.ask(lookup, what)
        if existing is not None:
            return existing
        try:
            return self.ask(make, what, lookup)
        except Conflict as error:
            existing = self.ask(lookup, what)
            if existing is None:
                raise ScotomaError(str(error)) from error
            return existing

    @property
    def where(self) -> dict[str, str]:
        """The namespace, as a parameter of requests that concern one team."""
        return {"namespace": self.namespace} if self.namespace else {}


def filter_by_name(name: str) -> str:
    """KFP's filter for all that has a name."""
    predicate = {"operation": EQUALS, "key": "display_name", "stringValue": name}
    return json.dumps({"predicates": [predicate]})


def _first(answer: Any, kind: str) -> Any:
    """The first item of a list that KFP answered; None if it is empty."""
    return next(iter(getattr(answer, kind) or ()), None)


def _id(text: str) -> str:
    """Check a run's id, which becomes part of an address."""
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(text))
    raise ConfigError(
        f"the id of a run is letters and digits such as {uuid.UUID(int=0)}, got {text!r}; "
        "`scotoma pipeline submit` prints it"
    )
