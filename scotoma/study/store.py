"""Where are answers kept? One SQLite file that only grows: nothing that was saved is lost."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scotoma.errors import ConfigError, DataError
from scotoma.run.lock import try_lock
from scotoma.study.plan import StudyPlan

__all__ = ["AnswerStore", "Event", "back_up", "token_hash"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS study (sha256 TEXT NOT NULL, plan TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS annotators (
  annotator INTEGER PRIMARY KEY, token BLOB UNIQUE, expires_s INTEGER NOT NULL,
  revoked INTEGER NOT NULL DEFAULT 0, consented INTEGER NOT NULL DEFAULT 0,
  erased INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE IF NOT EXISTS sessions (
  session BLOB PRIMARY KEY, annotator INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS events (
  number INTEGER PRIMARY KEY AUTOINCREMENT, annotator INTEGER NOT NULL, key TEXT NOT NULL,
  place TEXT NOT NULL, item TEXT NOT NULL, question TEXT NOT NULL, value TEXT NOT NULL,
  shown_ms INTEGER NOT NULL, UNIQUE (annotator, key)) STRICT;
CREATE TABLE IF NOT EXISTS outsiders (
  person BLOB PRIMARY KEY, annotator INTEGER NOT NULL UNIQUE) STRICT;
"""
COLUMNS = "annotator, key, place, item, question, value, shown_ms"


@dataclass(frozen=True)
class Event:
    """One answer, as it was given.

    Attributes:
        annotator: Who, counted from 1.
        key: Chosen by the page: the same event sent twice is kept once.
        place: Part and place in the annotator's order: `p0` practice, `m0` main, `g0` second pass.
        item: The item there.
        question: `q1` to `q6`, `comment`, `skip` or `guess`.
        value: The answer.
        shown_ms: Milliseconds from the first paint of the image to the answer.
    """

    annotator: int
    key: str
    place: str
    item: str
    question: str
    value: str
    shown_ms: int


def token_hash(token: str) -> bytes:
    """SHA-256 of a token: what is kept of it."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


class AnswerStore:
    """The answers to one study. Threads, and commands beside a server, take turns to write."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; use `opened`."""
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            if (state := self._connection.execute("PRAGMA integrity_check").fetchone()) != ("ok",):
                raise sqlite3.DatabaseError(str(state))
            self._connection.executescript(SCHEMA)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise DataError(
                f"{path} is no whole database of answers ({error}); restore it from a backup"
            ) from error

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[AnswerStore]:
        """Open the file, also beside a server: every change is one short transaction.

        Raises:
            DataError: It is damaged.
        """
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        store = cls(path)
        try:
            yield store
        except sqlite3.OperationalError as error:
            raise DataError(f"{path} cannot be written now ({error}); try again") from error
        finally:
            store._connection.close()

    @classmethod
    @contextmanager
    def served(cls, path: Path) -> Iterator[AnswerStore]:
        """Open the file for the one server of the study.

        Raises:
            ConfigError: Another server has it open.
            DataError: It is damaged.
        """
        guard = path.with_name(f".{path.name}.lock")
        descriptor = os.open(guard, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            if not try_lock(descriptor):
                raise ConfigError(f"{path} is served already; use that server, or end it")
            with cls.opened(path) as store:
                yield store
        finally:
            os.close(descriptor)

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """A transaction, kept whole or not at all."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    def register(self, plan: StudyPlan) -> None:
        """Hold the study to the plan under which its first annotator was invited.

        Raises:
            DataError: It was another plan.
        """
        with self._change() as connection:
            row = connection.execute("SELECT sha256 FROM study").fetchone()
            if row is None:
                text = json.dumps(plan.model_dump(mode="json"), sort_keys=True)
                connection.execute("INSERT INTO study VALUES (?, ?)", (plan.sha256, text))
            elif row[0] != plan.sha256:
                raise DataError(
                    "the plan was changed after annotators were invited (its hash was "
                    f"{row[0][:16]} and is {plan.sha256[:16]}); restore it, or make a new study"
                )

    def invite(self, annotator: int, token: bytes, expires_s: int) -> None:
        """Keep the hash of an annotator's token; one that they had before stops working.

        Raises:
            ConfigError: Their answers were erased.
        """
        with self._change() as connection:
            _refuse_erased(connection, annotator)
            connection.execute(
                "INSERT INTO annotators (annotator, token, expires_s) VALUES (?, ?, ?) "
                "ON CONFLICT (annotator) DO UPDATE SET token = excluded.token, "
                "expires_s = excluded.expires_s, revoked = 0",
                (annotator, token, expires_s),
            )
            connection.execute("DELETE FROM sessions WHERE annotator = ?", (annotator,))

    def revoke(self, annotator: int) -> bool:
        """Stop an annotator's token and sessions; what was answered stays."""
        with self._change() as connection:
            changed = connection.execute(
                "UPDATE annotators SET revoked = 1 WHERE annotator = ?", (annotator,)
            ).rowcount
            connection.execute("DELETE FROM sessions WHERE annotator = ?", (annotator,))
        return bool(changed)

    def invited(self) -> list[int]:
        """Numbers of the annotators that were invited, ascending."""
        with self._lock:
            rows = self._connection.execute("SELECT annotator FROM annotators ORDER BY 1")
            return [number for (number,) in rows]

    def holder(self, token: str) -> tuple[int, bool] | None:
        """The annotator of a token and whether they consented; None if it opens nothing.

        The token is looked up by its SHA-256, so that the time this takes tells nothing of it.
        """
        with self._lock:
            row = self._connection.execute(
                "SELECT annotator, consented FROM annotators "
                "WHERE token = ? AND NOT revoked AND expires_s > ?",
                (token_hash(token), int(time.time())),
            ).fetchone()
        return None if row is None else (row[0], bool(row[1]))

    def consent(self, annotator: int, session: str) -> None:
        """Keep that an annotator consented, and open a session."""
        with self._change() as connection:
            connection.execute(
                "UPDATE annotators SET consented = 1 WHERE annotator = ?", (annotator,)
            )
            connection.execute(
                "INSERT INTO sessions VALUES (?, ?)", (token_hash(session), annotator)
            )

    def session(self, session: str) -> int | None:
        """The annotator of a session; None if there is none, or their time is over."""
        with self._lock:
            row = self._connection.execute(
                "SELECT annotator FROM sessions JOIN annotators USING (annotator) "
                "WHERE session = ? AND NOT revoked AND expires_s > ?",
                (token_hash(session), int(time.time())),
            ).fetchone()
        return None if row is None else int(row[0])

    def append(self, events: Iterable[Event]) -> int:
        """Keep events, all or none; when this returns they are on the disk.

        Returns:
            How many are new.

        Raises:
            ConfigError: The answers of one of the people were erased.
            DataError: A key was used for another event before.
        """
        rows = [tuple(vars(event).values()) for event in events]
        new = 0
        with self._change() as connection:
            for annotator in sorted({row[0] for row in rows}):
                _refuse_erased(connection, annotator)
            for row in rows:
                new += connection.execute(
                    f"INSERT INTO events ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT (annotator, key) DO NOTHING",
                    row,
                ).rowcount
                kept = connection.execute(
                    f"SELECT {COLUMNS} FROM events WHERE annotator = ? AND key = ?", row[:2]
                ).fetchone()
                if kept != row:
                    raise DataError(f"event {row[1]} was saved before with another content")
        return new

    def expect(self, annotator: int) -> None:
        """Keep that an annotator takes part without a link.

        Raises:
            ConfigError: Their answers were erased.
        """
        with self._change() as connection:
            _refuse_erased(connection, annotator)
            connection.execute(
                "INSERT INTO annotators (annotator, expires_s) VALUES (?, 0) "
                "ON CONFLICT (annotator) DO NOTHING",
                (annotator,),
            )

    def outsiders(self, people: Sequence[bytes], most: int) -> dict[bytes, int]:
        """Numbers of people who answered with another tool; new ones get the highest free ones.

        Args:
            people: Who, as hashes.
            most: Number of annotators for whom there are orders.

        Raises:
            DataError: There are too many.
        """
        with self._change() as connection:
            known = dict(connection.execute("SELECT person, annotator FROM outsiders"))
            invited = connection.execute("SELECT annotator FROM annotators").fetchall()
            taken = {number for (number,) in invited}
            free = [number for number in range(most, 0, -1) if number not in taken]
            new = [one for one in people if one not in known]
            if len(new) > len(free):
                raise DataError(
                    f"{len(new):,} more people would be over {most} annotators; make a new study"
                )
            for person, number in zip(new, free, strict=False):
                connection.execute("INSERT INTO outsiders VALUES (?, ?)", (person, number))
                connection.execute(
                    "INSERT INTO annotators (annotator, expires_s) VALUES (?, 0)", (number,)
                )
                known[person] = number
        return {one: known[one] for one in people}

    def outside(self) -> set[int]:
        """Annotators who answered with another tool."""
        with self._lock:
            return {n for (n,) in self._connection.execute("SELECT annotator FROM outsiders")}

    def erased_annotators(self) -> set[int]:
        """Annotators whose answers were deleted."""
        with self._lock:
            rows = self._connection.execute("SELECT annotator FROM annotators WHERE erased")
            return {number for (number,) in rows}

    def events(self, annotator: int | None = None) -> list[Event]:
        """All events in the order in which they came, of one annotator or of all."""
        where = "" if annotator is None else "WHERE annotator = ?"
        with self._lock:
            rows = self._connection.execute(
                f"SELECT {COLUMNS} FROM events {where} ORDER BY number",
                () if annotator is None else (annotator,),
            ).fetchall()
        return [Event(*row) for row in rows]

    def erase(self, annotator: int) -> int:
        """Delete an annotator's events, token and sessions; that they were erased is kept.

        Returns:
            How many events were deleted.
        """
        with self._change() as connection:
            count = connection.execute(
                "DELETE FROM events WHERE annotator = ?", (annotator,)
            ).rowcount
            connection.execute("DELETE FROM sessions WHERE annotator = ?", (annotator,))
            connection.execute(
                "INSERT INTO annotators (annotator, expires_s, erased) VALUES (?, 0, 1) "
                "ON CONFLICT (annotator) DO UPDATE SET token = NULL, revoked = 1, erased = 1",
                (annotator,),
            )
        with self._lock:  # so that the disk holds nothing of it either
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return count


def _refuse_erased(connection: sqlite3.Connection, annotator: int) -> None:
    row = connection.execute(
        "SELECT erased FROM annotators WHERE annotator = ?", (annotator,)
    ).fetchone()
    if row is not None and row[0]:
        raise ConfigError(
            f"annotator {annotator} was erased, so no answers of theirs are taken; choose another "
            "number"
        )


def back_up(path: Path, copy: Path) -> None:
    """Copy a database of answers, also while a server writes to it.

    Raises:
        DataError: There is none, or it is damaged.
    """
    try:
        with (
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            copy.chmod(0o600)
            source.backup(target)
    except sqlite3.Error as error:
        raise DataError(f"{path} cannot be copied ({error}); see that it is there") from error
