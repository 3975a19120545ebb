"""MLflow as a place that may be down: silence, patience, and faults without credentials."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from scotoma.credentials import masked
from scotoma.errors import ConfigError
from scotoma.tracking.database import sqlite_file

__all__ = [
    "DATA_DATE",
    "UNATTACHED",
    "does_not_answer",
    "experiment_id",
    "fault",
    "import_client",
    "pages_of",
    "quiet",
    "refused_artifacts",
]

DATA_DATE = "scotoma.data_date"  # a tag: the day or month that the data of an audit are from
UNATTACHED = "scotoma.unattached"  # a tag: why the files of an audit are not with its numbers
LONGEST = 5000  # of a tag

# Forced: no call home, nothing on the terminal.
SILENCE = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
CREDENTIALS = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
# Unless set: MLflow's own are 7 retries of 120 s, minutes of silence before a dead server.
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


def _is_named_by_environment(uri: str) -> bool:
    """Whether a server is the one in MLFLOW_TRACKING_URI: its scheme, host and port."""
    named = os.environ.get("MLFLOW_TRACKING_URI", "")
    return _origin(uri) == _origin(named) != ("", "")


def _origin(uri: str) -> tuple[str, str]:
    parts = urlsplit(uri)
    return parts.scheme.lower(), parts.netloc.rpartition("@")[2].lower()


@contextlib.contextmanager
def quiet(uri: str) -> Iterator[None]:
    """Keep MLflow from the terminal, from its makers, and from waiting long.

    Args:
        uri: Tracking URI. Unless MLFLOW_TRACKING_URI names its host, MLflow does not see the
            password of the environment: a configuration may come from anybody.
    """
    wanted = {**{k: v for k, v in PATIENCE.items() if k not in os.environ}, **SILENCE}
    withheld = () if _is_named_by_environment(uri) else CREDENTIALS
    before = {name: os.environ.get(name) for name in (*wanted, *withheld)}
    disabled = logging.root.manager.disable
    os.environ.update(wanted)
    for name in withheld:
        os.environ.pop(name, None)
    # By level and for all: alembic's migrations configure their loggers anew. What goes wrong
    # arrives as an exception.
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def import_client(uri: str) -> None:
    """Import what a client of a tracking URI needs, as far as it is installed."""
    with quiet(uri), contextlib.suppress(ImportError):
        importlib.import_module("mlflow")
        if sqlite_file(uri):
            importlib.import_module("mlflow.store.tracking.sqlalchemy_store")


def experiment_id(mlflow: Any, client: Any, uri: str, name: str) -> str:
    """Find the id of an experiment, and create it where there is none.

    Raises:
        ConfigError: It was deleted.
    """
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        database = sqlite_file(uri)
        location = database and (database.parent / "mlartifacts" / name).as_uri()
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except mlflow.exceptions.MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            experiment = client.get_experiment_by_name(name)
    if experiment.lifecycle_stage != "active":
        raise ConfigError(f"MLflow experiment {name} was deleted; restore it, or change `project`")
    return str(experiment.experiment_id)


def pages_of(uri: str) -> str:
    """The address of MLflow's pages, without credentials; empty where no server serves them.

    >>> pages_of("https://me:secret@mlflow.example/?x=1"), pages_of("sqlite:///runs/mlflow.db")
    ('https://mlflow.example', '')
    """
    if not uri.startswith(("http://", "https://")):
        return ""
    return re.split("[?#;]", masked(uri).replace("***@", ""))[0].rstrip("/")


def fault(error: BaseException, uri: str) -> str:
    """What went wrong, in words that hold no credentials."""
    chain = _chain(error)
    where = masked(uri)
    if does_not_answer(error):
        words = next((e.strerror for e in chain if isinstance(e, OSError) and e.strerror), "")
        return f"tracking server {where} does not answer ({words or type(chain[-1]).__name__})"
    words = masked(" ".join(str(error).replace(uri, where).split()))
    sentence = f"MLflow at {where} failed ({type(error).__name__}: {words[:300].rstrip('.')})"
    unsent = [name for name in CREDENTIALS if name in os.environ]
    if unsent and uri.startswith("http") and not _is_named_by_environment(uri):
        return f"{sentence}; {unsent[-1]} is sent only to the host that MLFLOW_TRACKING_URI names"
    return sentence


def does_not_answer(error: BaseException) -> bool:
    """Whether an error says that the server is down, or silent."""
    silent = ("ConnectionError", "ConnectTimeout", "ReadTimeout")
    return any(type(one).__name__ in silent for one in _chain(error))


def _chain(error: BaseException) -> list[BaseException]:
    """An error and those that it came from."""
    chain = [error]
    while (below := chain[-1].__cause__ or chain[-1].__context__) and below not in chain:
        chain.append(below)
    return chain


def refused_artifacts(error: BaseException, place: str, project: str) -> str:
    """Say where a server keeps artifacts that this machine cannot write, and what to do.

    Args:
        error: What came of writing one.
        place: Where a run's artifacts are to lie.
        project: Name of the experiment.

    >>> told = refused_artifacts(PermissionError(13, "denied"), "s3://b/1/0a/artifacts", "faces")
    >>> told.startswith("its files: MLflow keeps artifacts of experiment faces at s3://b/1, which")
    True
    """
    words = masked(" ".join(str(error).split()))[:200].rstrip(".")
    sentence = (
        f"its files: MLflow keeps artifacts of experiment {project} at "
        f"{masked(place.rsplit('/', 2)[0])}, which this machine cannot write "
        f"({type(error).__name__}: {words}); parameters and metrics are logged; give it access or "
        "credentials, or start the server with --artifacts-destination and choose another project"
    )
    return sentence[:LONGEST]
