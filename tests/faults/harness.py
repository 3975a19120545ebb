"""An audit that is disturbed, taken up again, and compared with one that was not."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scotoma.run.checksums import compare_checksums
from scotoma.run.lock import LOCK, locked
from scotoma.run.mirror import Mirror
from tests.faults.processes import MARK, Memory, chosen, gone, kill

__all__ = [
    "Fault",
    "Outcome",
    "Undisturbed",
    "audit",
    "compare",
    "disturb",
    "in_a_network_of_its_own",
    "short_folder",
    "undisturbed",
]

# In a network without a way out, whose kernel counts what was to leave it.
ALONE = """
import subprocess, sys
done = subprocess.run(sys.argv[2:])
names, counts = (line.split() for line in open("/proc/self/net/snmp") if line.startswith("Ip:"))
open(sys.argv[1], "w").write(dict(zip(names, counts))["OutNoRoutes"])
sys.exit(done.returncode)
"""
GONE_S = 10.0  # in which every process of an audit has ended that lost its command
BEGUN = re.compile(r"^(\d+):(\d+):([\d.]+) ([a-z_]+) begins$", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """What is done to an audit, and when.

    Attributes:
        kind: `SIGKILL`, `SIGTERM` or `memory`.
        target: Which processes: see `processes.chosen`.
        step: The step that is waited for.
        share: How far into it, as a share of the time that it takes undisturbed; for a worker,
            from when there is one.
    """

    kind: str
    target: str
    step: str
    share: float


@dataclass(frozen=True)
class Outcome:
    """How it went.

    Attributes:
        code: Exit code of the disturbed command, negative for a signal.
        said: Its last line on stderr.
        hit: What was hit: the target, or what stood in for a part that was not at work.
        during: The step that was running.
        members: That were finished when it was taken up.
    """

    code: int
    said: str
    hit: str
    during: str
    members: Mapping[str, int]


@dataclass(frozen=True)
class Undisturbed:
    """An audit that nothing happened to.

    Attributes:
        folder: Its run.
        config: Its configuration.
        steps: Step to how long it took, in seconds, in order.
    """

    folder: Path
    config: Path
    steps: Mapping[str, float]

    @classmethod
    def of(cls, folder: Path, config: Path) -> Undisturbed:
        """A run whose last command has done all of it."""
        moments = _log(folder)
        ends = [moment for moment, _ in moments[1:]] + [moments[-1][0] + 1]
        return cls(
            folder,
            config,
            {name: (end - at) % 86400 for (at, name), end in zip(moments, ends, strict=True)},
        )

    @property
    def judged(self) -> tuple[str, str]:
        """Options that judge another audit as of the day of this one, which gate.json names."""
        return "--as-of", json.loads((self.folder / "gate.json").read_text())["as_of"]


def command(config: Path, out: Path, *options: str) -> list[str]:
    """An audit as it is begun or, where there is a run, taken up."""
    there = (out / "config.yaml").exists()
    given = ["--resume"] if there else [str(config), "--deterministic"]
    return [sys.executable, "-m", "scotoma", "audit", *given, "--out", str(out), *options]


def environment(mark: str, temporary: Path) -> dict[str, str]:
    """That of the audit, with the mark by which its processes are known."""
    own = {MARK: mark, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    return os.environ | own


def audit(
    config: Path, out: Path, *options: str, before: Sequence[str] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    """Begin or take up an audit, and wait for its end.

    Args:
        config: Its configuration.
        out: Its folder.
        *options: Of the command.
        before: What stands before the command, such as `unshare -n`.
        **more: Environment variables.
    """
    return subprocess.run(
        [*before, *command(config, out, *options)],
        env=os.environ | more,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def in_a_network_of_its_own(tried: Path) -> list[str]:
    """What stands before a command that is to have no network.

    Args:
        tried: Where to write how many packets were to leave it.
    """
    return ["unshare", "--net", sys.executable, "-c", ALONE, str(tried)]


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder for temporary files whose name leaves room for that of a socket."""
    folder = Path(tempfile.mkdtemp(prefix="f-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def undisturbed(out: Path, config: Path) -> Undisturbed:
    """Run an audit that nothing happens to."""
    done = audit(config, out, "--quiet")
    assert done.returncode == 0, done.stderr
    return Undisturbed.of(out, config)


def _started(out: Path) -> list[str]:
    """The steps that this command has begun."""
    return [name for _, name in _log(out)]


def _log(out: Path) -> list[tuple[float, str]]:
    """When each step of the last command was begun, in seconds of the day, and its name."""
    log = out / "logs" / "pipeline.log"
    found = BEGUN.findall(log.read_text(errors="replace")) if log.exists() else []
    return [(3600 * int(h) + 60 * int(m) + float(s), name) for h, m, s, name in found]


def disturb(faults: Sequence[Fault], whole: Undisturbed, out: Path) -> list[Outcome]:
    """Begin an audit, bring faults upon it, one a command, and hold it to the undisturbed one.

    Args:
        faults: In the order of the steps that they wait for; each command takes up what the one
            before it has left, and after the last fault a command is left in peace.
        whole: The audit to compare with.
        out: Folder of the run.

    Raises:
        AssertionError: Something is not as it must be.
    """
    with short_folder() as temporary:
        outcomes = [_disturb(fault, whole, out, temporary) for fault in faults]
        mark = uuid.uuid4().hex[:12]
        last = audit(whole.config, out, "--quiet", *whole.judged, **environment(mark, temporary))
        assert last.returncode == 0, last.stderr
        assert gone(mark, GONE_S), "processes are left"
        assert not list(temporary.iterdir()), "temporary files are left"
    for outcome in outcomes:
        kept = _members(out).items() & outcome.members.items()
        assert kept == outcome.members.items(), "finished members were made again"
    compare(whole.folder, out)
    return outcomes


def _disturb(fault: Fault, whole: Undisturbed, out: Path, temporary: Path) -> Outcome:
    mark = uuid.uuid4().hex[:12]
    with Memory.limited(mark) as memory:
        (out / "logs" / "pipeline.log").unlink(missing_ok=True)
        process = subprocess.Popen(
            command(whole.config, out, "--quiet", *whole.judged),
            env=environment(mark, temporary),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=memory.enter if fault.kind == "memory" else None,
        )
        while fault.step not in _started(out) and process.poll() is None:
            time.sleep(0.01)
        if fault.target == "worker":
            _wait_for_a_worker(fault.step, out, mark, process)
        time.sleep(fault.share * whole.steps[fault.step])
        during = (_started(out) or ["begin"])[-1]
        hit = _strike(fault, mark, memory)
        _, words = process.communicate(timeout=600)
        assert gone(mark, GONE_S), "processes are left"
    if hit != "tree":
        assert not list(temporary.iterdir()), "temporary files are left"
    _check_ended(process.returncode, words)
    return Outcome(
        process.returncode, words.strip().rpartition("\n")[2], hit, during, _members(out)
    )


def _wait_for_a_worker(step: str, out: Path, mark: str, process: subprocess.Popen[str]) -> None:
    """Until a step has one, or ends: pools are there for a part of their step."""
    while not chosen(mark, "worker") and process.poll() is None:
        if _started(out)[-1:] != [step]:
            return
        time.sleep(0.05)


def _strike(fault: Fault, mark: str, memory: Memory) -> str:
    """Bring the fault upon the audit; a part that is not at work is stood in for by the next."""
    if fault.kind == "memory":
        return memory.exhaust(mark)
    parts = ("worker", "child", "parent")
    stands_in = parts[parts.index(fault.target) :] if fault.target in parts else (fault.target,)
    for target in stands_in:
        if processes := chosen(mark, target):
            kill(processes, signal.Signals[fault.kind])
            return target
    return "nothing"


def _check_ended(code: int, words: str) -> None:
    """The command ended by the signal, or whole, or with a sentence that says how to go on."""
    # Python gives SIGTERM back to the system when it has done all and ends.
    if code not in (0, -signal.SIGKILL, -signal.SIGTERM):
        last = words.strip().rpartition("\n")[2]
        assert last.startswith("scotoma: "), (code, words)
        assert "repeat the command" in last, words
        assert "Traceback" not in words
        # Interrupted in an exec of a text, as of a dataclass, `python -m` ends by SIGINT; a shell
        # shows 130 for that, too.
        assert code in (4, 5, 130, -signal.SIGINT), (code, words)


def _members(out: Path) -> dict[str, int]:
    """Every finished member, and when it was written."""
    found = (out / "populations").rglob("member-*") if (out / "populations").exists() else ()
    return {
        path.relative_to(out).as_posix(): path.stat().st_mtime_ns
        for path in found
        if path.suffix != ".json" and path.with_suffix(".json").exists()
    }


def compare(whole: Path, out: Path) -> None:
    """Hold a run to the promise: the bytes of an undisturbed one, and nothing that should not be.

    Raises:
        AssertionError: It is broken.
    """
    promised = [whole / name for name in ("audit.json", "gate.json", "report.html")]
    promised += [*whole.rglob("*.parquet"), *whole.rglob("*.safetensors"), *whole.rglob("*.onnx")]
    for path in promised:
        assert (out / path.relative_to(whole)).read_bytes() == path.read_bytes(), path.name
    assert (found := _names(out)) == (expected := _names(whole)), found ^ expected
    assert compare_checksums(Mirror(out)).intact
    with locked(out):
        pass


def _names(folder: Path) -> set[str]:
    """Everything in a run's folder but what belongs to the command: its lock and logs."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    return {name for name in names if name != LOCK and name.partition("/")[0] != "logs"}
