"""Processes that are forked from one that has imported what they need."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scotoma.forking import Source, hand_over

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")

ROOT = str(Path(__file__).parents[1])


def forked(how: str, left: str, descriptors: list[int]) -> None:
    """What the forked processes of this module do."""
    if how == "exit":
        sys.exit(7)
    if how == "wait":
        time.sleep(60)
    if how == "fork":  # one more, from the same process
        assert not os.get_inheritable(descriptors[-1])
        hand_over(descriptors[-1])
        from scotoma.forking import source

        sys.exit(source().fork(__name__, {"how": "write", "left": left}).wait())
    if how == "describe":
        handler = signal.getsignal(signal.SIGINT)
        facts = [Path("/proc/self/comm").read_text().strip(), gc.isenabled()]
        facts += [handler is signal.default_int_handler, len(os.listdir("/proc/self/fd"))]
        Path(left).write_text(str(facts))
    if how == "write":
        Path(left).write_text(f"{os.getppid()} {'wave' in sys.modules}")


def no_process() -> None:
    """Called in a source: its next fork is refused, as where there are too many processes."""
    fork = os.fork

    def refuse() -> int:
        os.fork = fork
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    os.fork = refuse


if os.environ.get("TEST_NO_PROCESS"):
    no_process()


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    with Source.start(PYTHONPATH=ROOT) as started:
        yield started


def test_it_is_a_child_of_the_source_and_has_its_imports(source: Source, tmp_path: Path) -> None:
    for name, modules in (("first", []), ("second", ["wave"]), ("third", [])):
        left = str(tmp_path / name)
        assert source.fork(__name__, {"how": "write", "left": left}, modules=modules).wait() == 0
    parents, loaded = zip(
        *((tmp_path / name).read_text().split() for name in ("first", "second", "third")),
        strict=True,
    )
    assert loaded == ("False", "True", "True")
    assert len(set(parents)) == 1
    assert parents[0] != str(os.getpid())


def test_it_is_as_a_process_of_its_own(source: Source, tmp_path: Path) -> None:
    """Its name, garbage collection, Ctrl-C; no descriptor but the standard ones and its listing."""
    left = tmp_path / "left"
    assert source.fork(__name__, {"how": "describe", "left": str(left)}).wait() == 0
    assert left.read_text() == "['scotoma test_fo', True, True, 4]"


@pytest.mark.parametrize(("how", "code"), [("exit", 7), ("wait", -signal.SIGKILL)])
def test_how_it_ended_is_told(source: Source, how: str, code: int) -> None:
    process = source.fork(__name__, {"how": how, "left": ""})
    if how == "wait":
        process.kill()
    assert process.wait() == code


def test_it_may_have_others_forked_from_the_same_process(source: Source, tmp_path: Path) -> None:
    left = tmp_path / "left"
    given = {"how": "fork", "left": str(left)}
    assert source.fork(__name__, given, may_ask=True).wait() == 0
    again = tmp_path / "again"
    assert source.fork(__name__, {"how": "write", "left": str(again)}).wait() == 0
    assert left.read_text().split()[0] == again.read_text().split()[0]


def test_a_process_that_the_system_refuses_is_told_as_killed_and_the_next_begins(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = {"how": "write", "left": str(tmp_path / "left")}
    with Source.start(__name__, PYTHONPATH=ROOT, TEST_NO_PROCESS="yes") as source:
        refused = source.fork(__name__, given)
        refused.kill()  # whom? nobody
        assert refused.wait() == -signal.SIGKILL
        assert not (tmp_path / "left").exists()
        assert source.fork(__name__, given).wait() == 0
    assert "no process could be forked: [Errno 11] " in capfd.readouterr().err


ASKED = """
import os
from scotoma.forking import source
print(os.getpid(), flush=True)
process = source().fork("tests.test_forking", {"how": "wait", "left": ""})
print(process.number, flush=True)
process.wait()
"""


def test_a_source_of_ones_own_ends_with_who_asked_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ASKED],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": ROOT},
    ) as process:
        assert process.stdout is not None
        own, begun = (int(process.stdout.readline()) for _ in range(2))
        (started,) = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        process.kill()
    end = time.monotonic() + 10
    while Path("/proc", started).exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path("/proc", started).exists()
    os.kill(begun, signal.SIGKILL)  # it is told nothing: a worker watches who asks it
