"""MLflow as a place that may be down: silence, patience, and faults without credentials."""

from __future__ import annotations

import contextlib
import glob
import importlib
import logging
import os
import re
import sqlite3
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.extras import needs
from scotoma.processes.exhausted import error_chain
from scotoma.run.lock import try_lock
from scotoma.storage.credentials import masked
from scotoma.storage.files import written

DATA_DATE = "scotoma.data_date"  # a tag: the day or month that the data of an audit are from
UNATTACHED = "scotoma.unattached"  # a tag: why the files of an audit are not with its numbers
LONGEST = 5000  # of a tag
OTHER = "what answers at"
WRITTEN = ("MLFLOW_WORKSPACE",)  # by MLflow, once it has found out from Kubernetes which it is

# Forced: no call home, nothing on the terminal.
SILENCE = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
AUTHENTICATION = "MLFLOW_TRACKING_AUTH"  # makes MLflow send the token of a Kubernetes account
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
    wanted = {name: value for name, value in PATIENCE.items() if name not in os.environ} | SILENCE
    withheld = () if _is_named_by_environment(uri) else (*CREDENTIALS, AUTHENTICATION)
    disabled = logging.root.manager.disable
    # By level and for all: alembic's migrations configure their loggers anew. What goes wrong
    # arrives as an exception.
    logging.disable(logging.ERROR)
    try:
        with _environment(wanted, withheld, WRITTEN), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


@contextlib.contextmanager
def _environment(
    wanted: Mapping[str, str], withheld: Sequence[str] = (), written: Sequence[str] = ()
) -> Iterator[None]:
    """Set environment variables, and take others away, as long as the block.

    Args:
        wanted: To set.
        withheld: To take away.
        written: What the block may set itself.
    """
    before = {name: os.environ.get(name) for name in (*wanted, *withheld, *written)}
    os.environ.update(wanted)
    for name in withheld:
        os.environ.pop(name, None)
    try:
        yield
    finally:
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


@contextlib.contextmanager
def mlflow_client(uri: str, purpose: str = "tracking") -> Iterator[tuple[Any, str]]:
    """MLflow's client of a tracking URI, quiet as long as the block, and what `prepare_store` says.

    Raises:
        ScotomaError: MLflow is not installed, or the URI names no store that it can use.
    """
    refuse_file_store(uri)
    with quiet(uri):
        mlflow = needs("mlflow", "tracking", purpose)
        mended = prepare_store(uri)
        yield mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri), mended


@contextlib.contextmanager
def reading(uri: str, failed: str, purpose: str = "tracking") -> Iterator[Any]:
    """Give a client, and say whatever goes wrong in the block in one sentence, after `failed`."""
    try:
        with mlflow_client(uri, purpose) as (client, _):
            yield client
    except ScotomaError:
        raise
    except Exception as error:
        raise DataError(f"{failed}: {fault(error, uri)}; repeat the command later") from error


@contextlib.contextmanager
def passing_over(*codes: str) -> Iterator[None]:
    """Go on after the block where MLflow refuses it with one of these codes."""
    try:
        yield
    except Exception as error:
        if getattr(error, "error_code", "") not in codes:
            raise


def runs_of(
    client: Any, experiment: str, query: str = "", order: str = "attributes.start_time DESC"
) -> Iterator[Any]:
    """Find the runs of an experiment, page by page."""
    token = None
    while True:
        page = client.search_runs([experiment], query, order_by=[order], page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def experiment_id(client: Any, name: str) -> str:
    """Find the id of an experiment, and create it where there is none.

    Raises:
        ConfigError: It was deleted.
    """
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        database = sqlite_file(client.tracking_uri)
        location = database and (database.parent / "mlartifacts" / name).as_uri()
        with passing_over("RESOURCE_ALREADY_EXISTS"):
            return str(client.create_experiment(name, artifact_location=location))
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


def wait_for_server(client: Any) -> None:
    """Wait until a server answers, and say so; as long as MLflow's own variables let it retry.

    Args:
        client: MLflow's; a database is not waited for.

    Raises:
        Exception: Whatever the last try raised.
    """
    uri = client.tracking_uri
    if not pages_of(uri):
        return
    retries = int(os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"])
    factor = float(os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"])
    patience, began, pause = factor * (2**retries - 1), time.monotonic(), max(0.5, factor)
    with _environment({"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}):
        while True:
            try:
                client.search_experiments(max_results=1)
                return
            except Exception as error:
                waited = time.monotonic() - began
                if not passes(error) or waited + pause > patience:
                    raise
                print(
                    f"log: {cause(error, uri)}; waiting, {waited:.0f} of {patience:.0f} s",
                    file=sys.stderr, flush=True,
                )  # fmt: skip
            time.sleep(pause)
            pause = min(2 * pause, 30.0)


def passes(error: BaseException) -> bool:
    """Whether a fault of a server may pass by itself: no answer, or 500, 502, 503, 504."""
    return does_not_answer(error) or _status(error) in (500, 502, 503, 504)


def fault(error: BaseException, uri: str) -> str:
    """Say what went wrong and what to do, in words that hold no credentials."""
    if isinstance(error, ScotomaError):
        return str(error)
    sentence = cause(error, uri)
    status = _status(error)
    unsent = [name for name in CREDENTIALS if name in os.environ]
    if unsent and uri.startswith("http") and not _is_named_by_environment(uri):
        return f"{sentence}; {unsent[-1]} is sent only to the host that MLFLOW_TRACKING_URI names"
    if status == 401:
        return f"{sentence}; renew MLFLOW_TRACKING_TOKEN, or correct user and password"
    if status == 403:
        return f"{sentence}; give this user the right, or let the server allow this host"
    if sentence.startswith(OTHER):
        return f"{sentence}; correct tracking.uri or MLFLOW_TRACKING_URI"
    return sentence


def cause(error: BaseException, uri: str) -> str:
    """Say what went wrong, in words that hold no credentials."""
    chain = [*error_chain(error)]
    where = masked(uri)
    if does_not_answer(error):
        words = next((e.strerror for e in chain if isinstance(e, OSError) and e.strerror), "")
        return f"tracking server {where} does not answer ({words or type(chain[-1]).__name__})"
    words = masked(" ".join(str(error).replace(uri, where).split()))
    status = _status(error)
    if status in (401, 403):
        refused = "did not take the password or token" if status == 401 else "refused access"
        return f"tracking server {where} {refused} ({status}: {words[:200].rstrip('.')})"
    if any(type(one).__name__ == "JSONDecodeError" for one in chain) or "<html" in words.lower():
        return f"{OTHER} {where} is no MLflow server ({words[:100].rstrip('.')})"
    return f"MLflow at {where} failed ({type(error).__name__}: {words[:300].rstrip('.')})"


def _status(error: BaseException) -> int:
    """The HTTP status of an answer; 0 where it is not known."""
    for one in error_chain(error):
        response = getattr(one, "response", None)
        if (code := getattr(response, "status_code", None)) is not None:
            return int(code)
        if type(one).__name__ == "RestException":
            code = getattr(one, "get_http_status_code", lambda: 0)()
            return int(code)
    found = re.search(
        r"(?:error code|status code:?|response code:?|server-info:) (\d{3})", str(error)
    )
    return int(found[1]) if found else 0


def does_not_answer(error: BaseException) -> bool:
    """Whether an error says that the server is down, or silent."""
    silent = ("ConnectionError", "ConnectTimeout", "ReadTimeout")
    return any(type(one).__name__ in silent for one in error_chain(error))


def refuse_file_store(uri: str) -> None:
    """Refuse a folder, which MLflow 3 no longer keeps runs in.

    Raises:
        ConfigError: It is one.

    >>> refuse_file_store("http://mlflow.example"), refuse_file_store("sqlite:///mlflow.db")
    (None, None)
    """
    scheme = urlsplit(uri).scheme
    if scheme not in ("", "file"):
        return
    folder = masked(uri).removeprefix("file://")
    raise ConfigError(
        f"tracking.uri must be a server or a database, got the folder {folder}, which MLflow 3 "
        f"does not write; use sqlite:///{folder.rstrip('/')}/mlflow.db"
    )


def refused_artifacts(error: BaseException, place: str, project: str) -> str:
    """Say where a server keeps artifacts that this machine cannot write, why, and what to do.

    Args:
        error: What came of writing one.
        place: Where a run's artifacts are to lie.
        project: Name of the experiment.

    >>> told = refused_artifacts(PermissionError(13, "denied"), "/srv/1/0a/artifacts", "faces")
    >>> told.startswith("report and files: MLflow keeps those of experiment faces in /srv/1")
    True
    """
    words = masked(" ".join(str(error).split()))[:200].rstrip(".")
    root = masked(place.rsplit("/", 2)[0]).removeprefix("file://")
    kind = type(error).__name__
    start = "start the server with --artifacts-destination and choose another project"
    if urlsplit(place).scheme in ("", "file"):
        sentence = (
            f"report and files: MLflow keeps those of experiment {project} in {root}, a folder of "
            f"the server that this machine cannot write ({kind}: {words}); {start}"
        )
    else:
        missing = "no credentials" if "redential" in f"{kind} {words}" else f"{kind}: {words}"
        sentence = (
            f"report and files: MLflow keeps those of experiment {project} at {root}, which this "
            f"machine cannot write ({missing}); give it credentials, or {start}"
        )
    return f"{sentence}; parameters and metrics are logged"[:LONGEST]


# A migration writes rows into these before MLflow can log anything.
FILLED_BY_MIGRATIONS = {"alembic_version", "workspaces"}
BESIDE = ("-journal", "-wal", "-shm")  # of sqlite: left by a killed process, they spoil a new file
PATIENCE_S = 60.0  # for another process that creates the file, which takes 2 s


def sqlite_file(uri: str) -> Path | None:
    """The file of a sqlite store; None for a server.

    >>> sqlite_file("https://mlflow.example") is None
    True
    """
    return Path(uri.removeprefix("sqlite:///")).absolute() if uri.startswith("sqlite:///") else None


def prepare_store(uri: str) -> str:
    """Create the file of a sqlite store where there is none, or one that nobody finished.

    MLflow creates 60 tables in 40 steps, and a process that ends between two of them leaves a file
    that MLflow refuses from then on. So they are created under another name, by one process at a
    time, and the file gets its name when it is whole.

    Args:
        uri: MLflow tracking URI. A server prepares its own store.

    Returns:
        What was put right, as a sentence; empty where nothing was.

    Raises:
        ScotomaError: MLflow is not installed, the path cannot stand in a URI, or another process
            has been creating the file for too long.
    """
    if (database := sqlite_file(uri)) is None:
        return ""
    if bad := set("?%") & set(uri):
        raise ConfigError(
            f"tracking URI {uri} has {' and '.join(sorted(bad))} in the path, which a database URI "
            "cannot; choose another --out, or set tracking.uri"
        )
    database.parent.mkdir(parents=True, exist_ok=True)
    mended = ""
    if not holds_experiments(database):
        with _alone(database):
            if not holds_experiments(database) and not _holds_rows(database):
                if database.exists():
                    mended = f"{database} was left unfinished and held no run; it was created anew"
                _create(database)
    # A write-ahead log saves 25 to 42 ms a run. Only speed is lost where the file is busy or its
    # file system has no shared memory.
    with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(database)) as file:
        file.execute("PRAGMA journal_mode=WAL")
    return mended


def holds_experiments(database: Path) -> bool:
    """Whether MLflow has finished a file: an experiment is the last that it writes.

    A file that cannot be read counts as finished, so that MLflow says what is wrong with it.
    """
    if not database.exists():
        return False
    try:
        with closing(sqlite3.connect(database)) as file:
            return file.execute("SELECT 1 FROM experiments").fetchone() is not None
    except sqlite3.Error as error:  # SQLITE_ERROR: there is no such table
        return getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR


def _holds_rows(database: Path) -> bool:
    """Whether a file without experiments holds something else: it is somebody's."""
    if not database.exists():
        return False
    with closing(sqlite3.connect(database)) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_schema "
                                                   "WHERE type = 'table'")]  # fmt: skip
        quoted = ['"' + name.replace('"', '""') + '"' for name in tables
                  if name not in FILLED_BY_MIGRATIONS]  # fmt: skip
        return any(file.execute(f"SELECT 1 FROM {name}").fetchone() for name in quoted)


def _create(database: Path) -> None:
    """Let MLflow create its tables under another name, and put them in their place."""
    store = needs("mlflow.store.tracking.sqlalchemy_store", "tracking", "tracking")
    for leftover in database.parent.glob(f".{glob.escape(database.name)}.*.partial*"):
        leftover.unlink(missing_ok=True)
    with written(database) as temporary:
        artifacts = (database.parent / "mlartifacts").as_uri()
        store.SqlAlchemyStore(f"sqlite:///{temporary}", artifacts).engine.dispose()
        for name in ("", *BESIDE):
            Path(f"{database}{name}").unlink(missing_ok=True)


@contextmanager
def _alone(database: Path) -> Iterator[None]:
    """Wait until no other process creates the file; the lock is on its folder."""
    descriptor = os.open(database.parent, os.O_RDONLY)
    try:
        end = time.monotonic() + PATIENCE_S
        while not try_lock(descriptor):
            if time.monotonic() > end:
                raise ScotomaError(
                    f"another process has been creating {database} for {PATIENCE_S:.0f} s; repeat "
                    "the command to log the audit"
                )
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)
