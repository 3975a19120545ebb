"""Models of MLflow's registry, in the folder of the run that audits them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from scotoma import progress, storage
from scotoma.config import Config
from scotoma.errors import ConfigError
from scotoma.run import Run, read_record, write_json
from scotoma.run.mirror import local_folder
from scotoma.storage.files import file_digest, written
from scotoma.tracking import tracking_uri
from scotoma.tracking.registry import download_model

__all__ = ["download_models", "fetch_models", "models_here", "registry_of"]

MODELS, RECORD = "models", "models.json"
RUNS = "runs/one"  # a folder among them


def registry_of(config: Config, place: str) -> str:
    """The tracking URI of the server whose registry is meant.

    Args:
        config: It may name a server.
        place: Of the run, beside which a database lies where no server is named; empty for where
            an audit puts runs.

    Raises:
        ConfigError: MLflow is off, or no server is named.
    """
    root = local_folder(place or RUNS)
    here = Run(root, config, place if storage.is_remote(place) else "")
    if uri := tracking_uri(here, dict(os.environ)):
        return uri
    raise ConfigError(
        f"source.models {config.source.registered} is asked of MLflow, which is off or not named; "
        "name the server in tracking.uri or MLFLOW_TRACKING_URI"
    )


def download_models(config: Config, place: str, folder: Path) -> None:
    """Bring the models of every variant from the registry into a folder.

    Args:
        config: Its source names a version of a registered model.
        place: As of `registry_of`.
        folder: It exists.

    Raises:
        ConfigError: As of `registry_of`.
        DataError: They cannot be had, or are not laid out as source.kind onnx wants them.
    """
    assert config.source.registered is not None
    names = [variant.name for variant in config.resolved_variants]
    download_model(config.source.registered, names, folder, registry_of(config, place))


def fetch_models(run: Run) -> list[Path]:
    """Bring the models into the run's folder, unless they are there as they came.

    Returns:
        The files, and last the record that names them; none where the source names a folder.

    Raises:
        ScotomaError: As of `download_models`; what was there before stays.
    """
    if run.config.source.registered is None:
        return []
    record, models = run.path(RECORD), str(run.config.source.registered)
    run.fetch(record)
    known = read_record(record)
    files = {run.path(MODELS, name): digest for name, digest in known.get("files", {}).items()}
    if known.get("models") == models and run.mirror.digests(files) == files:
        return [*files, record]
    progress.start("download models", 1)
    with tempfile.TemporaryDirectory() as folder:
        download_models(run.config, run.place, Path(folder))
        shutil.rmtree(run.path(MODELS), ignore_errors=True)
        found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        names = [path.relative_to(folder).as_posix() for path in found]
        for path, name in zip(found, names, strict=True):
            with written(run.path(MODELS, name)) as temporary:
                shutil.copyfile(path, temporary)
    outputs = [run.path(MODELS, name) for name in names]
    digests = {name: file_digest(path) for name, path in zip(names, outputs, strict=True)}
    write_json(record, {"models": models, "files": digests})
    run.publish(*outputs)
    run.publish(record)  # last: what it names is there
    progress.advance("download models")
    return [*outputs, record]


def models_here(run: Run) -> Config:
    """The run's configuration with its models in a folder of this machine."""
    if run.config.source.registered is None:
        return run.config
    run.mirror.fetch_folder(MODELS)
    source = run.config.source.model_copy(update={"models": str(run.path(MODELS))})
    return run.config.model_copy(update={"source": source})
