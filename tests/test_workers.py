from __future__ import annotations

import ctypes
import gc
import os
import signal
import struct
import subprocess
import sys
import textwrap
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import pytest

from scotoma.errors import ConfigError, DataError
from scotoma.workers import Died, Worker, worker_pool

pytestmark = pytest.mark.slow

ROOT = str(Path(__file__).parents[1])


def no_preparation() -> None:
    """What a worker does before its first task."""


def asked(name: str) -> str | None:
    return os.environ.get(name)


def refuse(message: str) -> NoReturn:
    raise ConfigError(message)


class Particular(Exception):  # noqa: N818  an error that cannot be put together again
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raise_particular() -> NoReturn:
    raise Particular(1, 2)


def end_of_file() -> NoReturn:
    raise EOFError("of a task's own")


def unpicklable() -> Any:
    return lambda: None


def interrupted() -> NoReturn:
    raise KeyboardInterrupt


def memory_is_kept() -> bool:
    """Whether what malloc gave out does not go back to the system with free."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    size = 2**26
    before = int(Path("/proc/self/statm").read_text().split()[0])
    block = library.malloc(size)
    library.free(ctypes.c_void_p(block))
    after = int(Path("/proc/self/statm").read_text().split()[0])
    return (after - before) * os.sysconf("SC_PAGESIZE") >= size // 2


def parent(wait_s: float) -> int:
    time.sleep(wait_s)
    return os.getppid()


def threads_of_torch() -> int:
    import torch

    return torch.get_num_threads()


@pytest.fixture(params=["forked", "started"])
def _begun(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which workers begin: the second is that of systems other than Linux."""
    if request.param == "started":
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.setenv("PYTHONPATH", ROOT)
    elif sys.platform != "linux":
        pytest.skip("processes are forked on Linux alone")


@pytest.mark.usefixtures("_begun")
def test_a_worker_has_the_environment_of_who_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = []
    for value in ("first", "second"):  # both are forked from one process, which saw neither
        monkeypatch.setenv("SCOTOMA_TRIED", value)
        (folder := tmp_path / value).mkdir()
        monkeypatch.chdir(folder)
        with worker_pool(1, no_preparation, modules=()) as pool:
            found.append(pool.submit(asked, "SCOTOMA_TRIED").result())
            assert pool.submit(asked, "OMP_NUM_THREADS").result() == "1"
            assert pool.submit(os.getcwd).result() == str(folder)
    assert found == ["first", "second"]


@pytest.mark.usefixtures("_begun")
def test_what_goes_wrong_in_a_worker_is_told_where_it_was_asked() -> None:
    with worker_pool(1, no_preparation, modules=()) as pool:
        with pytest.raises(ConfigError, match="this is why") as caught:
            pool.submit(refuse, "this is why").result()
        assert "in refuse" in caught.value.__notes__[0]  # where, for the log
        with pytest.raises(RuntimeError, match=r"Particular: 1 and 2"):
            pool.submit(raise_particular).result()
        with pytest.raises(EOFError, match="own"):
            pool.submit(end_of_file).result()
        with pytest.raises((AttributeError, TypeError), match="pickle"):
            pool.submit(unpicklable).result()
        assert list(pool.map(abs, [-1, 2])) == [1, 2]  # by the same worker


@pytest.mark.usefixtures("_begun")
def test_a_worker_that_is_killed_is_told_from_one_that_crashed() -> None:
    for number, killed in ((signal.SIGKILL, True), (signal.SIGSEGV, False)):
        worker = Worker()
        with pytest.raises(Died) as caught:
            worker.call(signal.raise_signal, number)
        assert caught.value.killed == killed
        assert worker.ended
        worker.kill()  # nothing is left to stop


@pytest.mark.usefixtures("_begun")
def test_a_worker_is_waited_for_as_long_as_is_said_and_can_be_killed_then() -> None:
    worker = Worker()
    process = worker.call(os.getpid)
    with pytest.raises(TimeoutError):
        worker.call(time.sleep, 60, limit_s=0.1)
    worker.kill()
    assert worker.end() == -signal.SIGKILL
    assert not Path("/proc", str(process)).exists()


def half_an_answer() -> NoReturn:
    (connection,) = (found for found in gc.get_objects() if isinstance(found, Connection))
    os.write(connection.fileno(), struct.pack("!i", 1000) + b"no more")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_worker_that_dies_while_it_answers_has_died_and_can_be_asked_no_more() -> None:
    worker = Worker()
    for _ in range(2):
        with pytest.raises(Died):
            worker.call(half_an_answer)
        assert worker.ended


def said(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A script that is run in a folder, and what it says."""
    path = folder / "script.py"
    path.write_text("import os, signal, time\nfrom scotoma.workers import Worker, worker_pool\n")
    with path.open("a") as file:
        file.write("import tests.test_workers as here\n" + textwrap.dedent(script))
    return subprocess.run(
        [sys.executable, "-P", str(path)],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": ROOT},
        check=False,
        timeout=60,
    )


INTERRUPTED = """
try:
    Worker().call(here.interrupted)
except Exception as error:
    print(type(error).__name__)
"""
ONE_SOURCE = """
with worker_pool(2, int, modules=()) as pool:
    parents = {*pool.map(here.parent, [0.2] * 4)}
print(len(parents))
"""
KILLED_SOURCE = """
def parent():
    worker = Worker()
    found = worker.call(os.getppid)
    worker.end()
    return found

first = parent()
os.kill(first, signal.SIGKILL)
while os.path.exists(f"/proc/{first}/fd/0"):
    time.sleep(0.01)
print(parent() != first)
"""
FORKED = """
import multiprocessing
worker = Worker()
multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True).start()
print(worker.end())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")
@pytest.mark.parametrize(
    ("script", "out"),
    [(INTERRUPTED, "Died"), (ONE_SOURCE, "1"), (KILLED_SOURCE, "True"), (FORKED, "0")],
    ids=["interrupted", "one source", "a source that was killed", "a fork holds the connection"],
)
def test_what_a_program_sees_of_its_workers(script: str, out: str, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise ImportError('the working folder is not ours')")
    done = said(script, tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == (f"{out}\n", "", 0)


def test_an_error_of_the_preparation_is_told() -> None:
    with (
        pytest.raises(ConfigError, match="never"),
        worker_pool(2, refuse, "never", modules=()) as pool,
    ):
        list(pool.map(abs, [1, 2, 3]))


@pytest.mark.skipif(sys.platform != "linux", reason="malloc keeps memory by its own rules")
def test_a_forked_worker_keeps_memory_and_one_thread_as_a_started_one() -> None:
    with worker_pool(1, no_preparation) as pool:
        assert pool.submit(memory_is_kept).result()
        assert pool.submit(threads_of_torch).result() == 1


POOL = """
import os, time
from tests.test_workers import no_preparation
from scotoma.workers import worker_pool
if __name__ == "__main__":
    with worker_pool(2, no_preparation, modules=()) as pool:
        for _ in pool.map(time.sleep, [0.2] * 2):
            pass
        print(*{pool.submit(os.getpid).result() for _ in range(8)}, flush=True)
        pool.submit(time.sleep, 60)
        time.sleep(60)
"""


def test_workers_end_with_the_pool_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "pool.py")],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": ROOT},
    ) as process:
        assert process.stdout is not None
        workers = [Path("/proc", pid) for pid in process.stdout.readline().split()]
        assert workers
        assert all(worker.exists() for worker in workers)
        process.kill()
    end = time.monotonic() + 10
    while any(worker.exists() for worker in workers) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(worker.exists() for worker in workers)


@pytest.mark.parametrize("begun_s", [0.0, 1.0])
def test_a_pool_whose_worker_died_says_so_and_stops_the_rest(begun_s: float) -> None:
    """Those that work, those that have only just begun, and what waits for them."""
    others = []

    def ask() -> None:
        with worker_pool(2, no_preparation, modules=()) as pool:
            others.extend(pool.submit(time.sleep, 600) for _ in range(3))
            time.sleep(begun_s)
            raise Died(-signal.SIGKILL)

    with pytest.raises(DataError, match="a worker process died"):
        ask()
    assert all(future.done() for future in others)
    assert others[2].cancelled()


def test_a_worker_that_is_killed_ends_the_call_that_it_worked_on() -> None:
    def ask() -> None:
        with worker_pool(2, no_preparation, modules=()) as pool:
            died, lived = pool.submit(signal.raise_signal, 9), pool.submit(abs, -1)
            assert lived.result() == 1
            died.result()

    with pytest.raises(DataError, match="a worker process died"):
        ask()
