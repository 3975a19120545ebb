"""Kubeflow Pipelines as this machine asks it: submit, look, retry, read logs.

Through the client that KFP's SDK is built on, without the SDK's own: that one prints, waits without
an end and asks without time limits.
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
from scotoma.errors import ConfigError, ScotomaError
from scotoma.files import redact
from scotoma.pipelines.faults import Conflict, patiently
from scotoma.pipelines.login import client_of
from scotoma.pipelines.progress import Progress, progress_of

__all__ = ["TIMEOUTS_S", "Cluster", "named"]

TIMEOUTS_S = (10.0, 60.0)  # to connect, and between two pieces of an answer
EQUALS = 1
PIPELINE = "scotoma-audit"


class Cluster:
    """A client of Kubeflow Pipelines.

    Attributes:
        endpoint: Its address, without credentials.
        namespace: Of a team; empty where there is one for all.
    """

    def __init__(self, settings: Kubeflow, endpoint: str | None, namespace: str | None) -> None:
        address = endpoint or settings.endpoint or os.environ.get("KF_PIPELINES_ENDPOINT", "")
        if urlsplit(address).scheme not in ("http", "https") or "@" in address:
            raise ConfigError(
                "the address of Kubeflow Pipelines must be http:// or https:// without "
                f"credentials, got {redact(address) or 'none'!r}; give --endpoint, "
                "kubeflow.endpoint or KF_PIPELINES_ENDPOINT"
            )
        self.endpoint = address.rstrip("/")
        self.namespace = namespace or settings.namespace or ""
        self.settings = settings
        self.client = client_of(self.endpoint)

    def submit(self, definition: Path, run_uri: str, name: str, experiment: str) -> Progress:
        """Start a run of a compiled pipeline.

        Args:
            definition: The YAML; one that is there already is not uploaded again.
            run_uri: Where the audit keeps its files, as the steps see it.
            name: Of the run; made unique, so that a lost answer does not start two.
            experiment: Of KFP; made if it is not there.

        Returns:
            The run.
        """
        import kfp_server_api as api

        home = self.experiment(experiment)
        pipeline, version = self.version(definition, PIPELINE)
        unique = f"{name} {uuid.uuid4().hex[:8]}"
        body = api.V2beta1Run(
            display_name=unique,
            experiment_id=home,
            pipeline_version_reference=api.V2beta1PipelineVersionReference(
                pipeline_id=pipeline, pipeline_version_id=version
            ),
            runtime_config=api.V2beta1RuntimeConfig(parameters={"run_uri": run_uri}),
            service_account=self.settings.service_account,
        )
        runs = api.RunServiceApi(self.client)

        def found() -> Any:
            listed = runs.run_service_list_runs(
                experiment_id=home, filter=named(unique), _request_timeout=TIMEOUTS_S
            )
            return _only(listed, "runs")

        made = self.ask(
            lambda: runs.run_service_create_run(run=body, _request_timeout=TIMEOUTS_S),
            "start the run",
            found,
        )
        return self.progress(made.run_id)

    def progress(self, run_id: str) -> Progress:
        """How far a run is."""
        import kfp_server_api as api

        runs = api.RunServiceApi(self.client)
        found = self.ask(
            lambda: runs.run_service_get_run(run_id=_id(run_id), _request_timeout=TIMEOUTS_S),
            "show the run",
        )
        return progress_of(found)

    def retry(self, run_id: str) -> None:
        """Let the steps of an ended run that failed, and those after them, run again."""
        import kfp_server_api as api

        runs = api.RunServiceApi(self.client)

        def found() -> Any:
            run = runs.run_service_get_run(run_id=_id(run_id), _request_timeout=TIMEOUTS_S)
            return None if progress_of(run).ended else run

        self.ask(
            lambda: runs.run_service_retry_run(run_id=_id(run_id), _request_timeout=TIMEOUTS_S),
            "retry the run",
            found,
        )

    def logs(self, run_id: str, pod: str) -> str:
        """What a step has written, from its pod or from where Kubeflow archived it.

        KFP's user interface serves it, under the address where it passes the API's calls on.
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
        self, call: Callable[[], Any], what: str, found: Callable[[], Any] | None = None
    ) -> Any:
        """What KFP answers; the client makes an empty object of half an answer, or of a page."""

        def read(ask: Callable[[], Any]) -> Callable[[], Any]:
            def once() -> Any:
                answer = ask()
                json.loads(self.client.last_response.data)
                return answer

            return once

        return patiently(read(call), what, self.endpoint, found=found and read(found))

    def experiment(self, name: str) -> str:
        """The id of an experiment, made where there is none."""
        import kfp_server_api as api

        experiments = api.ExperimentServiceApi(self.client)
        body = api.V2beta1Experiment(display_name=name, namespace=self.namespace or None)

        def found() -> Any:
            listed = experiments.experiment_service_list_experiments(
                filter=named(name), **self.where, _request_timeout=TIMEOUTS_S
            )
            return _only(listed, "experiments")

        def make() -> Any:
            return experiments.experiment_service_create_experiment(
                experiment=body, _request_timeout=TIMEOUTS_S
            )

        return str(self._made("use the experiment", found, make).experiment_id)

    def version(self, definition: Path, name: str, code: str = "") -> tuple[str, str]:
        """Ids of a pipeline and of the version that is this definition, uploaded if need be.

        Args:
            definition: The YAML.
            name: Of the pipeline.
            code: What else the version is named by.
        """
        import kfp_server_api as api

        pipelines = api.PipelineServiceApi(self.client)
        uploads = api.PipelineUploadServiceApi(self.client)
        digest = hashlib.sha256(definition.read_bytes()).hexdigest()[:16]
        version = f"{name} {digest} {code}".rstrip()

        def pipeline() -> Any:
            listed = pipelines.pipeline_service_list_pipelines(
                filter=named(name), **self.where, _request_timeout=TIMEOUTS_S
            )
            return _only(listed, "pipelines")

        def upload() -> Any:
            return uploads.upload_pipeline(
                str(definition), name=name, **self.where, _request_timeout=TIMEOUTS_S
            )

        home = str(self._made("upload the pipeline", pipeline, upload).pipeline_id)

        def there() -> Any:
            listed = pipelines.pipeline_service_list_pipeline_versions(
                pipeline_id=home, filter=named(version), _request_timeout=TIMEOUTS_S
            )
            return _only(listed, "pipeline_versions")

        def upload_version() -> Any:
            return uploads.upload_pipeline_version(
                str(definition), name=version, pipelineid=home, _request_timeout=TIMEOUTS_S
            )

        made = self._made("upload the pipeline", there, upload_version)
        return home, str(made.pipeline_version_id)

    def _made(self, what: str, found: Callable[[], Any], make: Callable[[], Any]) -> Any:
        """What is there, or is made now, or was made by another meanwhile."""
        there = self.ask(found, what)
        if there is not None:
            return there
        try:
            return self.ask(make, what, found)
        except Conflict as error:
            there = self.ask(found, what)
            if there is None:
                raise ScotomaError(str(error)) from error
            return there

    @property
    def where(self) -> dict[str, str]:
        """Of a request that concerns one team: whose namespace."""
        return {"namespace": self.namespace} if self.namespace else {}


def named(name: str) -> str:
    """KFP's filter for what has a name."""
    predicate = {"operation": EQUALS, "key": "display_name", "stringValue": name}
    return json.dumps({"predicates": [predicate]})


def _only(listed: Any, kind: str) -> Any:
    """The one thing that a list by name holds; None if it holds none."""
    return next(iter(getattr(listed, kind) or ()), None)


def _id(text: str) -> str:
    """A run's id, which goes into a path."""
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(text))
    raise ConfigError(
        f"the id of a run is letters and digits such as {uuid.UUID(int=0)}, got {text!r}; "
        "`scotoma pipeline submit` prints it"
    )
