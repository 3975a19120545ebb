"""Workers do what they are asked, say what went wrong, and end with who started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from scotoma.errors import ConfigError, DataError
from scotoma.processes import (
    CrashedError,
    IsolatedProcess,
    MemoryLimitError,
    kept_workers,
    worker_pool,
)
from scotoma.storage import is_remote

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that all tests share are left alone."""
    monkeypatch.setattr("scotoma.processes.pool._kept", None)


def do_nothing() -> None:
    """Prepare a worker that needs nothing."""


def refuse(message: str) -> NoReturn:
    raise ConfigError(message)


class TwoArgumentsError(Exception):
    """Cannot be put together again by pickle, which gives it one argument."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raise_two_arguments() -> NoReturn:
    raise TwoArgumentsError(1, 2)


def unpicklable() -> Any:
    return lambda: None


def threads_of_torch() -> int:
    import torch

    return torch.get_num_threads()


def test_a_worker_has_the_environment_and_folder_of_who_asks_and_one_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = []
    for value in ("first", "second"):  # both are forked from one server, which saw neither
        monkeypatch.setenv("SCOTOMA_TRIED", value)
        (folder := tmp_path / value).mkdir()
        monkeypatch.chdir(folder)
        with worker_pool(1) as pool:
            seen.append(pool.submit(os.getenv, "SCOTOMA_TRIED", task="").result())
            assert pool.submit(os.getenv, "OMP_NUM_THREADS", task="").result() == "1"
            assert pool.submit(os.getcwd, task="").result() == str(folder)
            assert pool.submit(threads_of_torch, task="").result() == 1
    assert seen == ["first", "second"]


def stray(number: int) -> int:
    """Leave in a worker what the next task must not see."""
    import torch

    os.environ["SCOTOMA_TRIED"] = "stray"
    torch.set_num_threads(2)
    torch.set_deterministic_debug_mode("error")
    return number


def settings(*prepared: int) -> tuple[int, str | None, int, int, tuple[int, ...]]:
    import torch

    return (
        os.getpid(),
        os.getenv("SCOTOMA_TRIED"),
        torch.get_num_threads(),
        torch.get_deterministic_debug_mode(),
        prepared,
    )


def test_a_kept_worker_goes_on_as_a_new_one_and_ends_with_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with kept_workers():
        with worker_pool(1, stray, 7) as pool:
            process, *_, prepared = pool.submit(settings, task="").result()
            assert prepared == (7,)
        monkeypatch.setenv("SCOTOMA_TRIED", "next")
        with worker_pool(1) as pool:
            assert pool.submit(settings, task="").result() == (process, "next", 1, 0, ())
    assert not Path("/proc", str(process)).exists()


def test_a_kept_worker_follows_who_asks_into_another_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with kept_workers():
        with worker_pool(1) as pool:
            process = pool.submit(os.getpid, task="").result()
        monkeypatch.chdir(tmp_path)
        with worker_pool(1) as pool:
            assert pool.submit(os.getpid, task="").result() == process
            assert pool.submit(os.getcwd, task="").result() == str(tmp_path)


def test_a_block_within_a_block_leaves_the_workers_to_the_outer_one() -> None:
    seen = []
    with kept_workers():
        for _ in range(2):
            with kept_workers(), worker_pool(1) as pool:
                seen.append(pool.submit(os.getpid, task="").result())
        assert seen[0] == seen[1]
    assert not Path("/proc", str(seen[0])).exists()


def test_a_kept_worker_that_died_is_replaced() -> None:
    with kept_workers():
        with worker_pool(1) as pool:
            process = pool.submit(os.getpid, task="").result()
        os.kill(process, signal.SIGKILL)
        with worker_pool(1) as pool:
            assert pool.submit(os.getpid, task="").result() != process


def test_workers_of_a_pool_that_failed_are_not_kept() -> None:
    def fail() -> None:
        with worker_pool(1) as pool:
            processes.append(pool.submit(os.getpid, task="").result())
            raise KeyError

    processes: list[int] = []
    with kept_workers():
        with pytest.raises(KeyError):
            fail()
        assert not Path("/proc", str(processes[0])).exists()


def test_what_goes_wrong_in_a_worker_is_told_where_it_was_asked() -> None:
    with worker_pool(1) as pool:
        with pytest.raises(ConfigError, match="this is why") as caught:
            pool.submit(refuse, "this is why", task="").result()
        assert "in refuse" in caught.value.__notes__[0]  # where, for the log
        with pytest.raises(RuntimeError, match=r"TwoArgumentsError: 1 and 2"):
            pool.submit(raise_two_arguments, task="").result()
        with pytest.raises((AttributeError, TypeError), match="pickle"):
            pool.submit(unpicklable, task="").result()
        assert pool.submit(abs, -1, task="").result() == 1  # by the same worker


def test_an_error_of_the_preparation_is_told() -> None:
    with pytest.raises(ConfigError, match="never"), worker_pool(2, refuse, "never") as pool:
        pool.submit(abs, 1, task="").result()


def test_a_worker_that_dies_is_named_by_its_task_and_the_others_are_ended() -> None:
    others: list[Future[None]] = []

    def ask() -> None:
        with worker_pool(2) as pool:
            others.append(pool.submit(time.sleep, 600, task="sleeping"))
            died = pool.submit(signal.raise_signal, 9, task="training dense member 3")
            others.append(pool.submit(time.sleep, 600, task="waiting"))
            died.result()

    with pytest.raises(DataError, match="a worker process died while training dense member 3: "):
        ask()
    assert all(other.done() for other in others)


POOL = """
import os, time
from scotoma.processes import worker_pool
if __name__ == "__main__":
    with worker_pool(2) as pool:
        tasks = [pool.submit(time.sleep, 0.3, task="") for _ in range(2)]
        [task.result() for task in tasks]
        tasks = [pool.submit(os.getpid, task="") for _ in range(8)]
        print(*{task.result() for task in tasks}, flush=True)
        pool.submit(time.sleep, 60, task="")
        time.sleep(60)
"""


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(POOL)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "pool.py")],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
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


def test_a_process_that_is_killed_is_told_from_one_that_crashed_and_replaced() -> None:
    with IsolatedProcess(do_nothing) as process:
        for number, killed in ((signal.SIGKILL, True), (signal.SIGSEGV, False)):
            with pytest.raises(CrashedError) as caught:
                process.call(signal.raise_signal, number, limit_s=60)
            assert caught.value.killed == killed
        assert process.call(abs, -1, limit_s=60) == 1


def taken(mib: int) -> int:
    held = bytearray(mib * 2**20), np.ones(mib * 2**17)
    return len(held[0]) + held[1].nbytes


def written_file(mib: int) -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(mib * 2**20)


def test_a_call_has_the_memory_that_it_is_given_and_no_more() -> None:
    given = {"limit_s": 60, "memory_bytes": 2**28}
    with IsolatedProcess(do_nothing) as process:
        assert process.call(taken, 100, **given) == 200 * 2**20
        with pytest.raises(MemoryLimitError):
            process.call(taken, 200, **given)
        with pytest.raises(MemoryLimitError):
            process.call(written_file, 400, **given)
        assert process.call(taken, 100, **given) == 200 * 2**20


def test_what_a_call_refuses_or_raises_comes_back_as_text() -> None:
    with IsolatedProcess(do_nothing) as process:
        with pytest.raises(ConfigError, match="a place must be a path or a URI without NUL"):
            process.call(is_remote, "\0", limit_s=60)
        with pytest.raises(RuntimeError, match="ZeroDivisionError: integer division"):
            process.call(divmod, 1, 0, limit_s=60)
        pid = process.call(os.getpid, limit_s=60)
        assert process.call(os.getpid, limit_s=60) == pid


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Workers of xdist ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_call_leaves_no_answer_for_the_next() -> None:
    with IsolatedProcess(do_nothing) as process:
        process.call(os.getpid, limit_s=60)
        main = threading.main_thread().ident
        assert main is not None
        timer = threading.Timer(0.2, signal.pthread_kill, [main, signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            process.call(time.sleep, 1, limit_s=60)
        assert process.call(abs, -7, limit_s=60) == 7


def test_a_process_ends_with_the_one_that_started_it_and_leaves_no_files(tmp_path: Path) -> None:
    text = """
import os, time
from scotoma.processes import IsolatedProcess
from tests.processes.test_processes import do_nothing
process = IsolatedProcess(do_nothing)
print(process.call(os.getpid, limit_s=60), flush=True)
process.call(time.sleep, 600, limit_s=600)
"""
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, env=environment, text=True
    ) as parent:
        assert parent.stdout is not None
        child = Path("/proc", parent.stdout.readline().strip())
        assert child.exists()
        time.sleep(0.2)
        parent.kill()
    end = time.monotonic() + 10
    while (child.exists() or list(tmp_path.iterdir())) and time.monotonic() < end:
        time.sleep(0.02)
    assert not child.exists()
    assert not list(tmp_path.iterdir())


def test_a_call_that_takes_too_long_is_ended() -> None:
    with IsolatedProcess(do_nothing) as process:
        pid = process.call(os.getpid, limit_s=60)
        with pytest.raises(TimeoutError):
            process.call(time.sleep, 600, limit_s=0.1)
        assert not Path("/proc", str(pid)).exists()
        assert process.call(os.getpid, limit_s=60) != pid


LONG_FOLDER = """
from scotoma.processes import worker_pool
if __name__ == "__main__":
    with worker_pool(1) as pool:
        print(pool.submit(abs, -1, task="").result())
"""


def test_workers_start_under_a_long_name_of_the_folder_for_temporary_files(tmp_path: Path) -> None:
    long = tmp_path / ("n" * 100)
    long.mkdir()
    (tmp_path / "pool.py").write_text(LONG_FOLDER)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "pool.py")],
        env=os.environ | {"TMPDIR": str(long), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


KILLED_SERVER = """
import multiprocessing, os, signal
from multiprocessing import forkserver
from scotoma.errors import DataError
from scotoma.processes import worker_pool
if __name__ == "__main__":
    with worker_pool(1) as pool:
        server = pool.submit(os.getppid, task="").result()
    # It dies right after it was found running.
    forkserver.ensure_running = forkserver._forkserver.ensure_running = lambda: None
    os.kill(server, signal.SIGKILL)
    try:
        with worker_pool(1) as pool:
            pool.submit(abs, -1, task="training dense member 3").result()
    except DataError as error:
        print(str(error).partition(":")[0])
"""


def test_a_fork_server_that_is_killed_is_a_worker_that_died(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(KILLED_SERVER)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "pool.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "a worker process died while training dense member 3\n", done.stderr
