"""One short task in each image, with the nodes and secrets of an audit that is to be sent."""

import copy
from pathlib import Path
from typing import Any

from kfp import compiler, dsl, kubernetes

from scotoma.components.image import CORE_IMAGE, IMAGE
from scotoma.config import Config, Kubeflow
from scotoma.pipelines.cluster import PREFLIGHT
from scotoma.pipelines.placing import STEP_LABEL, check_for_cluster, place
from scotoma.run import code_digest, shareable
from scotoma.steps.table import skipped_steps

__all__ = ["compile_preflight", "parts_of"]

LONGEST_HOURS = 0.25  # of a task whose storage or MLflow never answers
# A component whose image and nodes each part shares.
PARTS = {"training": "predict-batch", "full": "prepare-data", "core": "score-divergence"}


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def preflight(run_uri: str, part: str, config: str, job: str, code: str) -> None:
    """Try what the steps of an audit need: image, secrets, storage, MLflow, GPU.

    Args:
        run_uri: Place of the audit.
        part: Which image and nodes this is tried with.
        config: Configuration (YAML) of the audit.
        job: Id of this run of the pipeline.
        code: Digest of the code of the machine that sends it.
    """
    from scotoma.steps.cluster.preflight import preflight

    preflight(run_uri, part, config, job, code)


def parts_of(config: Config, kubeflow: Kubeflow) -> list[str]:
    """Name the combinations of image and nodes that an audit uses.

    Args:
        config: The audit.
        kubeflow: The cluster.
    """
    one_place = kubeflow.training == kubeflow.others
    return [
        part
        for part in PARTS
        if part != "training" or not (one_place or "predict" in skipped_steps(config))
    ]


def compile_preflight(config: Config, path: Path, kubeflow: Kubeflow) -> None:
    """Write the pipeline with one task for each part.

    Args:
        config: The audit that is to be sent.
        path: The file (YAML).
        kubeflow: The cluster.

    Raises:
        ConfigError: The configuration cannot run on a cluster.
    """
    check_for_cluster(config, kubeflow)
    once = kubeflow.limits.model_copy(update={"retries": 0, "task_hours": LONGEST_HOURS})
    tried = kubeflow.model_copy(update={"limits": once})

    @dsl.pipeline(name=PREFLIGHT)
    def pipeline(run_uri: str) -> None:
        for part in parts_of(config, kubeflow):
            component: Any = copy.deepcopy(preflight)
            component.component_spec.name = f"preflight-{part}"
            task = component(
                run_uri=run_uri,
                part=part,
                config=shareable(config),
                job=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
                code=code_digest(),
            )
            task.set_caching_options(enable_caching=False)
            task.set_container_image(CORE_IMAGE if part == "core" else IMAGE)
            place(task, PARTS[part], tried, trains=not config.source.has_models)
            kubernetes.add_pod_label(task, STEP_LABEL, f"preflight-{part}")

    compiler.Compiler().compile(pipeline, str(path))
