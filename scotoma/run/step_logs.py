"""What did a step print? A log of each try of each step, in the folder of its run.

Kubernetes forgets what a pod printed, and Kubeflow does not say which pod ran a step.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import re
import select
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from scotoma import storage
from scotoma.errors import ScotomaError
from scotoma.run.mirror import local_folder
from scotoma.storage.credentials import masked
from scotoma.storage.files import written

FOLDER = "logs"
MOST_BYTES = 2**20  # of a log: the last ones
COPY_S = 15.0  # between two copies of a log while its step runs: a killed pod loses no more
WAKE_S = 0.2
READERS = 16
# The lines that `step_log` writes itself: the time, the step, what became of it, and its reason.
NOTE = re.compile(
    r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) \S+ (begins|ended after|failed|is stopped)(?:: (.*))?",
    re.MULTILINE,
)
ENDS = {"ended after": "SUCCEEDED", "failed": "FAILED", "is stopped": "FAILED"}


@dataclass(frozen=True, order=True)
class StepLog:
    """The log of one try of one step.

    Attributes:
        step: Name of the step.
        shard: Index of the shard; 0 for steps that are not fanned out.
        attempt: 1 for the first try, counted over retries of the run too.
    """

    step: str
    shard: int
    attempt: int

    @property
    def name(self) -> str:
        """Its place in the run's folder.

        >>> StepLog("train", 2, 1).name
        'logs/train.2.1.log'
        """
        return f"{FOLDER}/{self.step}.{self.shard}.{self.attempt}.log"

    def read(self, place: str) -> str:
        """Read it.

        Args:
            place: The run's folder or `s3://BUCKET/PREFIX`.

        Raises:
            DataError: It cannot be read.
        """
        return storage.read_bytes(storage.join(place, self.name)).decode("utf-8", "replace")


@dataclass(frozen=True)
class Try:
    """One try of one step, as its log tells.

    Attributes:
        log: Its log.
        state: RUNNING, SUCCEEDED or FAILED. The log of a try that was killed says RUNNING for ever.
        began: When it began; None if the log does not say.
        ended: When it ended; None if the log does not say.
        reason: Why it failed, in the step's own sentence; empty if it gave none.
    """

    log: StepLog
    state: str
    began: datetime.datetime | None
    ended: datetime.datetime | None
    reason: str

    @classmethod
    def read(cls, log: StepLog, text: str) -> Try:
        r"""Read a log.

        >>> begins = "2026-11-23T01:17:31Z train begins, attempt 1\n"
        >>> one = Try.read(StepLog("train", 0, 1), f"{begins}2026-11-23T01:17:34Z train failed: x")
        >>> one.state, (one.ended - one.began).seconds, one.reason
        ('FAILED', 3, 'x')
        """
        notes = [(datetime.datetime.fromisoformat(at), *rest) for at, *rest in NOTE.findall(text)]
        began = next((at for at, what, _ in notes if what == "begins"), None)
        at, what, reason = notes[-1] if notes else (None, "", "")
        state = ENDS.get(what, "RUNNING")
        return cls(log, state, began, at if what in ENDS else None, reason)


def step_logs(place: str) -> list[StepLog]:
    """List the logs of a run, by step, shard and attempt.

    Args:
        place: The run's folder or `s3://BUCKET/PREFIX`.

    Raises:
        DataError: The place cannot be listed.
    """
    return sorted(_listed(place))


def tries_of(place: str, known: dict[tuple[StepLog, str], Try]) -> list[Try]:
    """Read what the logs of a run tell of its tries, by step, shard and attempt.

    Args:
        place: The run's folder or `s3://BUCKET/PREFIX`.
        known: What was read before, by log and ETag; what is read now is added. No object is read
            twice.

    Raises:
        DataError: The place cannot be listed, or a log cannot be read.
    """
    logs = _listed(place)
    new = [(log, etag) for log, etag in logs.items() if not etag or (log, etag) not in known]
    if new:
        with ThreadPoolExecutor(min(READERS, len(new))) as pool:
            texts = pool.map(lambda one: one[0].read(place), new)
            known |= {one: Try.read(one[0], text) for one, text in zip(new, texts, strict=True)}
    return [known[log, logs[log]] for log in sorted(logs)]


def last_tries(tries: Iterable[Try]) -> list[Try]:
    """Return the last of the tries of each step and shard."""
    return list({(one.log.step, one.log.shard): one for one in tries}.values())


def _listed(place: str) -> dict[StepLog, str]:
    """The logs of a run, with their ETags in object storage."""
    folder, remote = storage.join(place, FOLDER), storage.is_remote(place)
    names = () if remote else storage.list_names(folder, folders=False)
    etags = storage.list_etags(folder) if remote else dict.fromkeys(names, "")
    return {
        StepLog(m[1], int(m[2]), int(m[3])): etag
        for name, etag in etags.items()
        if (m := re.fullmatch(r"([a-z_-]+)\.(\d+)\.(\d+)\.log", name))
    }


@contextlib.contextmanager
def step_log(place: str, step: str, shard: int = 0) -> Iterator[None]:
    """Copy what the block and its child processes print into a log of the run.

    The log holds its first line and the last MiB, without passwords. It is copied to the run when
    the block begins, while it runs, and when it ends, also by an error or SystemExit. What is
    printed still goes where it went. A log that cannot be written stops nothing.

    Args:
        place: The run's folder or `s3://BUCKET/PREFIX`.
        step: Name of the step.
        shard: Index of its shard.
    """
    try:
        earlier = [log for log in step_logs(place) if (log.step, log.shard) == (step, shard)]
    except (ScotomaError, OSError):  # the block meets the same fault, and says so
        yield
        return
    log = StepLog(step, shard, 1 + max((one.attempt for one in earlier), default=0))
    began = time.monotonic()
    with _Copier(place, log):
        _note(f"{step} begins, attempt {log.attempt}")
        try:
            yield
        except SystemExit:
            _note(f"{step} is stopped by SIGTERM")
            raise
        except ScotomaError as error:
            _note(f"{step} failed: {error}")
            raise
        except BaseException as error:
            _note(f"{step} failed\n{''.join(traceback.format_exception(error))}")
            raise
        else:
            _note(f"{step} ended after {time.monotonic() - began:.1f} s")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _note(text: str) -> None:
    """Print a line with the time, after what was printed before it."""
    _flush()
    now = datetime.datetime.now(datetime.UTC)
    with contextlib.suppress(OSError):
        os.write(2, f"{now:%Y-%m-%dT%H:%M:%SZ} {text.rstrip()}\n".encode())


class _Copier:
    """Reads stdout and stderr of this process, hands them on, and copies their end to the run."""

    def __init__(self, place: str, log: StepLog) -> None:
        self.path = local_folder(place) / log.name
        self.sent_to = storage.join(place, log.name) if storage.is_remote(place) else ""
        self.ended = False
        self.head, self.tail = b"", bytearray()

    def __enter__(self) -> _Copier:
        _flush()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # else a child's words stand before ours
                stream.reconfigure(line_buffering=True)
        self.source, sink = os.pipe()
        self.before = os.dup(1), os.dup(2)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.close(sink)
        self.thread = threading.Thread(target=self._copy, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        _flush()
        os.dup2(self.before[0], 1)
        os.dup2(self.before[1], 2)
        self.ended = True  # the end of the pipe may be far: a child process may hold it
        self.thread.join()
        for descriptor in (self.source, *self.before):
            os.close(descriptor)

    def _copy(self) -> None:
        due, changed = 0.0, False  # at once: a log says that its step has begun
        while True:
            ended = self.ended  # before the last look: what was printed until then is there
            ready, _, _ = select.select([self.source], [], [], 0 if ended else WAKE_S)
            printed = os.read(self.source, 2**16) if ready else b""
            if printed:
                with contextlib.suppress(OSError):
                    os.write(self.before[0], printed)
                self.tail += printed
                changed = True
            last = ended and not printed
            if changed and (last or time.monotonic() >= due):
                changed = False
                self._write()
                due = time.monotonic() + COPY_S
            if last:
                return

    def _write(self) -> None:
        """Write the first line, and the last MiB in whole lines: no half of a password."""
        if len(self.tail) > MOST_BYTES:
            self.head = self.head or bytes(self.tail[: self.tail.find(b"\n") + 1])
            del self.tail[:-MOST_BYTES]
            del self.tail[: self.tail.find(b"\n") + 1]
        with contextlib.suppress(ScotomaError, OSError):
            with written(self.path) as temporary:
                text = (self.head + self.tail).decode("utf-8", "replace")
                temporary.write_text(masked(text), "utf-8")
            if self.sent_to:
                storage.upload(self.path, self.sent_to)
