"""What did the team say of an example? reviews.parquet: one row a verdict, the last one counts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import polars as pl

from scotoma.errors import ConfigError, DataError
from scotoma.processes.unreadable import readable
from scotoma.run import Run
from scotoma.run.lock import try_lock
from scotoma.run.mirror import Mirror
from scotoma.storage.files import written

FILE = "reviews.parquet"
LONGEST_COMMENT = 500
Verdict = Literal["label wrong", "ambiguous", "model wrong", "ignore"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
AGAIN = "restore it from a backup, or remove it to begin anew"


@dataclass(frozen=True)
class Review:
    """One verdict.

    Attributes:
        example_id: The example.
        variant: Under which variant it was looked at.
        verdict: What was said.
        label: The corrected label; empty unless the verdict is `label wrong`.
        comment: A remark; empty for none.
        by: Who said it.
        at: When, ISO 8601, UTC.
    """

    example_id: str
    variant: str
    verdict: str
    label: str
    comment: str
    by: str
    at: str


COLUMNS = tuple(Review.__dataclass_fields__)


def checked_review(review: Review, classes: tuple[str, ...]) -> Review:
    """Refuse a verdict that makes no sense.

    Raises:
        DataError: The verdict is unknown, or its label is no class.
    """
    if review.verdict not in VERDICTS:
        raise DataError(f"verdict must be one of {', '.join(VERDICTS)}")
    if (review.verdict == "label wrong") != bool(review.label):
        raise DataError("a corrected label belongs to `label wrong`, and to no other verdict")
    if review.label and review.label not in classes:
        raise DataError("a corrected label must be a class of the audit")
    if len(review.comment) > LONGEST_COMMENT or not review.comment.isprintable():
        raise DataError(f"a comment has at most {LONGEST_COMMENT} characters, on one line")
    return review


class Reviews:
    """The verdicts of a run; each is on the disk when `add` returns."""

    def __init__(self, mirror: Mirror) -> None:
        """Read the file, where there is one."""
        self._mirror, self._path = mirror, mirror.root / FILE
        mirror.fetch([self._path])
        self.rows = read_reviews(self._path)
        self._known = self._digest()

    def _digest(self) -> str | None:
        """Hash of the file in object storage; None in a folder, whose lock keeps others out."""
        return self._mirror.digests([self._path])[self._path] if self._mirror.uri else None

    def add(self, review: Review) -> None:
        """Keep one more verdict.

        Raises:
            DataError: Somebody else reviews the same run in object storage.
        """
        if self._digest() != self._known:
            raise DataError(
                f"{self._mirror.place(self._path)} was changed by another reviewer; start "
                "scotoma review again"
            )
        rows = [*self.rows, review]
        table = pl.DataFrame(
            [asdict(row) for row in rows], schema=dict.fromkeys(COLUMNS, pl.String)
        )
        with written(self._path) as temporary:
            table.write_parquet(temporary)
        self._mirror.publish([self._path])
        self.rows, self._known = rows, self._digest()


def read_reviews(path: Path) -> list[Review]:
    """Read all verdicts, in order; none where there is no file.

    Raises:
        DataError: It is no such file.
    """
    if not path.exists():
        return []
    with readable(path, AGAIN):
        table = pl.read_parquet(path, glob=False)
    if dict(table.schema) != dict.fromkeys(COLUMNS, pl.String) or any(table.null_count().row(0)):
        raise DataError(f"{path} must hold verdicts as scotoma review leaves them; {AGAIN}")
    return [Review(*row) for row in table.iter_rows()]


def last_reviews(rows: list[Review]) -> dict[str, Review]:
    """The verdict that counts, by example: the last one.

    >>> rows = [Review("a", "v", one, "", "", "me", "") for one in ("ambiguous", "ignore")]
    >>> last_reviews(rows)["a"].verdict
    'ignore'
    """
    return {row.example_id: row for row in rows}


@contextmanager
def open_reviews(run: Run) -> Iterator[Reviews]:
    """Open the verdicts of a run for this process alone.

    Raises:
        ConfigError: Another process has them open.
    """
    guard = run.root / "logs" / ".reviews.lock"
    guard.parent.mkdir(exist_ok=True)
    descriptor = os.open(guard, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        if not try_lock(descriptor):
            raise ConfigError(
                f"{run.place} is being reviewed by another command; end it, or use it"
            )
        yield Reviews(run.mirror)
    finally:
        os.close(descriptor)
