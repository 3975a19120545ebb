"""One input, one answer: a result or one sentence, in time, in memory, and nothing else done."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from types import FrameType
from typing import Any

from scotoma.errors import ScotomaError
from scotoma.printable import printable
from tests.fuzz.mutate import mutants
from tests.fuzz.targets import Target, bombs_of, seeds

__all__ = ["MEMORY_BYTES", "SECONDS", "Tally", "Watch", "fuzz"]

SECONDS = 12  # of work that one input may take: readers end after 10
MEMORY_BYTES = 1 << 30  # by which the process may grow on one target
READER = "scotoma.processes.answer_calls"  # the process that reads what comes from outside
SENTENCE = 20  # characters, at least
DONE = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class"}
DONE |= {"socket.connect", "socket.bind", "shutil.rmtree", "os.remove", "os.rename", "os.symlink"}


class Hang(BaseException):
    """More time than an input may take; no reader catches it."""


@dataclass
class Tally:
    """What became of the inputs of one target."""

    tried: int = 0
    results: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    failures: dict[str, bytes] = field(default_factory=dict)  # by the place where it failed


class Watch:
    """Hears of what Python code does: processes begun, modules unpickled, files written."""

    def __init__(self) -> None:
        self.folder = Path(os.devnull)
        self.heard: list[str] = []
        self.on = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "subprocess.Popen" and READER in arguments[1]:
            return
        if event == "os.remove" and arguments[1] != -1:  # of shutil.rmtree, which is heard itself
            return
        if event in DONE and not self._inside(arguments[0]):
            self.heard.append(f"{event} {arguments[0]!r}")
        elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            flags = arguments[2] or 0
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and arguments[0] != os.devnull and not self._inside(arguments[0]):
                self.heard.append(f"wrote {arguments[0]!r}")

    def _inside(self, path: Any) -> bool:
        with contextlib.suppress(TypeError, ValueError):
            place = Path(os.fsdecode(path)).resolve()
            own = Path(tempfile.gettempdir()).resolve() / "scotoma-"  # of the process that reads
            return place.is_relative_to(self.folder) or str(place).startswith(str(own))
        return False

    @contextlib.contextmanager
    def over(self, folder: Path) -> Iterator[None]:
        """Listen while a reader may write into this folder alone."""
        self.folder, self.heard, self.on = folder.resolve(), [], True
        try:
            yield
        finally:
            self.on = False


def fuzz(
    target: Target, folder: Path, watch: Watch, *, seed: int, inputs: int, seconds: float
) -> Tally:
    """Try the corpus and what is left of it after changes.

    Args:
        target: What reads.
        folder: Of its own; each input gets a folder in it.
        watch: Listens to all.
        seed: Decides the inputs.
        inputs: Of them, at most; of the corpus and of bombs every one is tried.
        seconds: After which no other is begun.
    """
    tally, known = Tally(), seeds(target)
    with contextlib.suppress(Exception, Hang):  # what imports do is not what an input does
        (folder / "warm").mkdir(parents=True)
        with _limit(12 * SECONDS):
            target.read(known[0], folder / "warm")
    shutil.rmtree(folder / "warm")
    bombs = bombs_of(target, folder)
    (folder / "bomb").unlink(missing_ok=True)
    began, grown = time.monotonic(), _memory()
    tried = islice(mutants(known, target.words, seed), max(inputs, len(known)))
    for data in chain(bombs, tried):
        if time.monotonic() - began > seconds and tally.tried >= len(known):
            break
        _try(target, data, folder, watch, tally)
        if _memory() - grown > MEMORY_BYTES:
            tally.failures.setdefault("memory beyond the budget", data)
            break
    return tally


def _try(target: Target, data: bytes, folder: Path, watch: Watch, tally: Tally) -> None:
    home = folder / "in"
    home.mkdir(parents=True)
    (folder / "last").write_bytes(data)  # what a process that dies has died of
    tally.tried += 1
    began = time.monotonic()
    failure = ""
    try:
        with _limit(SECONDS), watch.over(home), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(data, home)
        tally.results += 1
    except ScotomaError as error:
        tally.refused += 1
        said = printable(str(error)).strip()  # as the command line says it
        if len(said) < SENTENCE:
            failure = f"no sentence: {said!r}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "scotoma" in f.filename]
        where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[:-4:-1])
        failure = f"{type(error).__name__} at {where}: {str(error)[:80]!r}"
    tally.slowest_s = max(tally.slowest_s, time.monotonic() - began)
    if watch.heard:
        failure = f"{failure} did {watch.heard[0]}"
    stray = sorted({path.name for path in folder.iterdir()} - {"in", "last"})
    if stray:
        failure = f"{failure} left {stray[0]!r} outside"
    if failure and failure.split(": ")[0] not in {said.split(": ")[0] for said in tally.failures}:
        tally.failures[failure] = data
    shutil.rmtree(home)


@contextlib.contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """End the block after so much work, or after ten times as long on a busy machine."""
    last, worked = time.monotonic() + 10 * seconds, time.process_time() + seconds

    def ring(number: int, frame: FrameType | None) -> None:
        if time.process_time() > worked or time.monotonic() > last:
            raise Hang(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds / 4)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _memory() -> int:
    """The most that this process has held, and the largest of those that it has ended."""
    own, ended = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return (own.ru_maxrss + ended.ru_maxrss) * 1024
