"""Is the sqlite file of MLflow there, and whole? Created under another name, then renamed."""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from scotoma.errors import ConfigError, ScotomaError
from scotoma.extras import needs
from scotoma.run.lock import try_lock
from scotoma.storage.files import written

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
