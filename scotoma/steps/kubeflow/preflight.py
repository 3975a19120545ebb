"""What an audit on Kubeflow needs from its pods, tried before hours depend on it."""

from __future__ import annotations

import os
import uuid

from scotoma import storage
from scotoma._version import __version__
from scotoma.config import Config, Kubeflow
from scotoma.errors import ConfigError, ScotomaError
from scotoma.processes.machine import missing_gpus
from scotoma.run import Run, code_digest, write_json
from scotoma.run.mirror import Mirror
from scotoma.run.step_logs import FOLDER
from scotoma.steps.kubeflow.begin import read_configuration


def record_of(run_uri: str, part: str) -> str:
    """The place of a part's record.

    >>> record_of("s3://bucket/run", "core")
    's3://bucket/run/logs/preflight-core.json'
    """
    return storage.join(run_uri, f"{FOLDER}/preflight-{part}.json")


def preflight(run_uri: str, part: str, config: str, job: str, code: str) -> None:
    """Try the image, the secrets, the storage, MLflow and the GPU, and record what fails.

    Args:
        run_uri: Place of the audit, a folder or `s3://BUCKET/PREFIX`.
        part: `training`, `full` or `core`: the image and the nodes that this runs on.
        config: Configuration (YAML) of the audit.
        job: Id of the pipeline's run.
        code: Digest of the code of the machine that sent it.

    Raises:
        ConfigError: Something would fail; the sentence names all of it. The record, which the
            command that waits for it reads, has a sentence for each.
    """
    audited = read_configuration(config)
    kubeflow = audited.kubeflow or Kubeflow()
    trains = not audited.source.has_models
    gpu = kubeflow.training.gpu if trains else None
    tried = (
        _other_code(code),
        _missing_variables(kubeflow),
        unwritable := _storage_fault(run_uri),
        _mlflow_fault(run_uri, audited) if part == "full" else "",
        missing_gpus(gpu.count) if part == "training" and gpu else "",
    )
    faults = [fault for fault in tried if fault]
    if not unwritable:
        mirror = Mirror.of(run_uri)
        record = mirror.root / FOLDER / f"preflight-{part}.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        write_json(record, {"job": job, "faults": faults})
        mirror.publish([record])
    if faults:
        raise ConfigError("; ".join(faults))


def _other_code(code: str) -> str:
    """Say that this image holds other code than the machine that sent it; empty if it does not."""
    if code == code_digest():
        return ""
    return (
        f"the image holds other code of Scotoma ({__version__}, {code_digest()[:8]}) than this "
        f"machine ({code[:8]}); build and push the images anew, or install their version here"
    )


def _missing_variables(kubeflow: Kubeflow) -> str:
    missing = [
        f"{variable} of the secret {secret}"
        for secret, variables in kubeflow.secrets.items()
        for variable in variables
        if not os.environ.get(variable)
    ]
    return f"these variables are empty: {', '.join(missing)}; correct the secrets" * bool(missing)


def _storage_fault(run_uri: str) -> str:
    """Why a file cannot be written, read again and removed; empty if it can."""
    mirror = Mirror.of(run_uri)
    probe = mirror.root / FOLDER / f"preflight-{uuid.uuid4().hex}.json"
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        write_json(probe, {"written": probe.name})
        mirror.publish([probe])
        place = storage.join(run_uri, f"{FOLDER}/{probe.name}")
        same = storage.read_bytes(place) == probe.read_bytes()
        storage.remove(place)
    except (ScotomaError, OSError) as error:
        return str(error)
    probe.unlink(missing_ok=True)
    return "" if same else f"{run_uri} does not return what was written there; choose another --out"


def _mlflow_fault(run_uri: str, config: Config) -> str:
    """Why MLflow's server does not answer; empty if it does, or if there is none."""
    from scotoma.tracking.connection import fault, quiet
    from scotoma.tracking.store import tracking_uri

    run = Run.of(run_uri, config)
    uri = tracking_uri(run, dict(os.environ))
    if not uri or uri.startswith("sqlite:"):
        return ""
    with quiet(uri):
        import mlflow

        try:
            mlflow.MlflowClient(uri).search_experiments(max_results=1)
        except Exception as error:  # whatever a client of MLflow raises
            return f"{fault(error, uri)}; correct tracking.uri, or the secret with its password"
    return ""
