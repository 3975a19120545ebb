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
from collections.abc import Iterator
from dataclasses import dataclass

from scotoma import storage
from scotoma.credentials import masked
from scotoma.errors import ScotomaError
from scotoma.run.mirror import local_folder
from scotoma.storage.files import written

__all__ = ["FOLDER", "StepLog", "ended_well", "step_log", "step_logs"]

FOLDER = "logs"
MOST_BYTES = 2**20  # of a log: the last ones
COPY_S = 15.0  # between two copies of a log while its step runs: a killed pod loses no more
WAKE_S = 0.2
ENDED = "ended after"


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


def step_logs(place: str) -> list[StepLog]:
    """List the logs of a run, by step, shard and attempt.

    Args:
        place: The run's folder or `s3://BUCKET/PREFIX`.

    Raises:
        DataError: The place cannot be listed.
    """
    names = storage.list_names(storage.join(place, FOLDER), folders=False)
    matches = (re.fullmatch(r"([a-z_-]+)\.(\d+)\.(\d+)\.log", name) for name in names)
    return sorted(StepLog(m[1], int(m[2]), int(m[3])) for m in matches if m)


def ended_well(text: str) -> bool:
    r"""Whether a log says that its step ended; that of a step that was killed says nothing.

    >>> ended_well("... train begins\n2026-11-23T01:17:31Z train ended after 3.1 s\n")
    True
    """
    return f" {ENDED} " in text.rstrip("\n").rpartition("\n")[2]


@contextlib.contextmanager
def step_log(place: str, step: str, shard: int = 0) -> Iterator[None]:
    """Copy what the block and its child processes print into a log of the run.

    The log holds the last MiB, without passwords. It is copied to the run while the block runs, and
    when it ends, also by an error or SystemExit. What is printed still goes where it went. A log
    that cannot be written stops nothing.

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
            _note(f"{step} {ENDED} {time.monotonic() - began:.1f} s")


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
        self.tail = bytearray()

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
        due, changed = time.monotonic() + COPY_S, False
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
        """Write the last MiB; from the start of a line, so that half a password is not shown."""
        if len(self.tail) > MOST_BYTES:
            del self.tail[:-MOST_BYTES]
            del self.tail[: self.tail.find(b"\n") + 1]
        with contextlib.suppress(ScotomaError, OSError):
            with written(self.path) as temporary:
                temporary.write_text(masked(self.tail.decode("utf-8", "replace")), "utf-8")
            if self.sent_to:
                storage.upload(self.path, self.sent_to)
