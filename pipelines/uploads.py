"""What a run or a schedule on Kubeflow needs: its experiment, and a version of its pipeline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.errors import ScotomaError
from scotoma.pipelines.faults import Conflict

if TYPE_CHECKING:
    from scotoma.pipelines.client import KfpClient


EQUALS = 1


def kubeflow_experiment_id(client: KfpClient, name: str) -> str:
    """Return the id of an experiment; make the experiment unless KFP has it."""
    import kfp_server_api as api

    experiments = api.ExperimentServiceApi(client.api)
    body = api.V2beta1Experiment(display_name=name, namespace=client.namespace or None)

    def lookup() -> Any:
        answer = experiments.experiment_service_list_experiments(
            filter=filter_by_name(name), **client.where
        )
        return first(answer, "experiments")

    def make() -> Any:
        return experiments.experiment_service_create_experiment(experiment=body)

    return str(_get_or_make(client, "use the experiment", lookup, make).experiment_id)


def version_ids(client: KfpClient, definition: Path, name: str, code: str = "") -> tuple[str, str]:
    """Return the ids of a pipeline and of its version; upload what KFP does not have.

    Args:
        client: The Kubeflow.
        definition: The YAML of the version.
        name: Of the pipeline.
        code: Last part of the version's name.
    """
    import kfp_server_api as api

    uploads = api.PipelineUploadServiceApi(client.api)
    digest = hashlib.sha256(definition.read_bytes()).hexdigest()[:16]
    version_name = f"{name} {digest} {code}".rstrip()

    def upload_pipeline() -> Any:
        return uploads.upload_pipeline(str(definition), name=name, **client.where)

    what = "upload the pipeline"
    pipeline = _get_or_make(client, what, lambda: pipeline_by_name(client, name), upload_pipeline)
    pipeline_id = str(pipeline.pipeline_id)

    def version_by_name() -> Any:
        answer = client.pipelines.pipeline_service_list_pipeline_versions(
            pipeline_id=pipeline_id, filter=filter_by_name(version_name)
        )
        return first(answer, "pipeline_versions")

    def upload_version() -> Any:
        return uploads.upload_pipeline_version(
            str(definition), name=version_name, pipelineid=pipeline_id
        )

    version = _get_or_make(client, what, version_by_name, upload_version)
    return pipeline_id, str(version.pipeline_version_id)


def pipeline_by_name(client: KfpClient, name: str) -> Any:
    """Send one request for a pipeline; None if KFP has none of this name."""
    answer = client.pipelines.pipeline_service_list_pipelines(
        filter=filter_by_name(name), **client.where
    )
    return first(answer, "pipelines")


def mlflow_plugin(project: str) -> dict[str, Any]:
    """What Kubeflow's MLflow plugin is asked for; a server without it takes no notice."""
    return {"mlflow": {"experiment_name": project}}


def filter_by_name(name: str) -> str:
    """KFP's filter for all that has a name."""
    predicate = {"operation": EQUALS, "key": "display_name", "stringValue": name}
    return json.dumps({"predicates": [predicate]})


def first(answer: Any, kind: str) -> Any:
    """The first item of a list that KFP answered; None if it is empty."""
    return next(iter(getattr(answer, kind) or ()), None)


def _get_or_make(
    client: KfpClient, what: str, lookup: Callable[[], Any], make: Callable[[], Any]
) -> Any:
    """Look a thing up, or make it; somebody else may make it in between."""
    existing = client.ask(lookup, what)
    if existing is not None:
        return existing
    try:
        return client.ask(make, what, lookup)
    except Conflict as error:
        existing = client.ask(lookup, what)
        if existing is None:
            raise ScotomaError(str(error)) from error
        return existing
