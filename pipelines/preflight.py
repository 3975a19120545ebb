"""What would fail in hours? One short task in each image, before an audit is sent."""

import copy
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kfp import compiler, dsl, kubernetes

from scotoma import storage
from scotoma.components.image import CORE_IMAGE, IMAGE
from scotoma.config import Config, Kubeflow
from scotoma.errors import ConfigError
from scotoma.pipelines import wait
from scotoma.pipelines.client import PREFLIGHT, KfpClient
from scotoma.pipelines.pending import kubectl, pending_lines
from scotoma.pipelines.placing import STEP_LABEL, check_for_kubeflow, place
from scotoma.printable import printable
from scotoma.run import code_digest, shareable
from scotoma.steps.kubeflow.preflight import record_of
from scotoma.steps.table import skipped_steps

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
    from scotoma.steps.kubeflow.preflight import preflight

    preflight(run_uri, part, config, job, code)


def parts_of(config: Config, kubeflow: Kubeflow) -> list[str]:
    """Name the combinations of image and nodes that an audit uses.

    Args:
        config: The audit.
        kubeflow: The Kubeflow.
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
        kubeflow: The Kubeflow.

    Raises:
        ConfigError: The configuration cannot run on Kubeflow.
    """
    check_for_kubeflow(config, kubeflow)
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


def run_preflight(
    config: Config, client: KfpClient, out: str, experiment: str, say: Callable[[str], None]
) -> None:
    """Run a short task in each image, and wait for it.

    Args:
        config: The audit that is to be sent.
        client: The Kubeflow.
        out: Place of the audit.
        experiment: Experiment in KFP.
        say: Told what each task found.

    Raises:
        ConfigError: A pod does not start, or what a step needs is not there. Nothing was sent.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "preflight.yaml")
        compile_preflight(config, path, client.settings)
        run = client.submit(path, out, f"{config.project} preflight", experiment, PREFLIGHT)
    _wait(client, run.run_id, say)
    faults = 0
    for part in parts_of(config, client.settings):
        for line in _faults(client, run.run_id, part, out):
            faults += 1
            say(f"preflight  {part}: {line}")
    if faults:
        raise ConfigError(
            f"the preflight found {faults} fault{'s' * (faults > 1)}, so no audit was sent; "
            f"correct {'them' if faults > 1 else 'it'} and repeat the command"
        )
    say("preflight  images, secrets, storage, MLflow and GPU are as needed")


def _wait(client: KfpClient, run_id: str, say: Callable[[str], None]) -> None:
    """Wait for the end, or until a pod has not started for two minutes."""
    while not (run := client.progress(run_id)).ended:
        if lines := pending_lines(run, client):
            for line in lines:
                say(f"preflight  {line}")
            client.cancel(run_id)
            raise ConfigError(
                "a pod of the preflight does not start, so no audit was sent; remove the cause and "
                "repeat the command"
            )
        time.sleep(wait.POLL_S)


def _faults(client: KfpClient, run_id: str, part: str, out: str) -> list[str]:
    """What a part found, from its record; without one, whether its task failed."""
    address = record_of(out, part)
    task = next(t for t in client.progress(run_id).tasks if t.name == f"preflight-{part}")
    if task.state == "SUCCEEDED":
        return []
    if storage.is_remote(out) and storage.exists(address):
        record = json.loads(storage.read_bytes(address))
        if record["job"] == run_id:  # and not of an earlier preflight
            return [printable(fault) for fault in record["faults"]]
    return [
        "its pod failed and left no record: its image is not Scotoma's, or it cannot write to "
        f"--out; see {kubectl('logs --tail=-1', client, run_id, f'preflight-{part}')}"
    ]
