"""Small files that take gigabytes, or for ever, and places that are no files: one sentence each."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.bombed import BOMBS, pictures, predictions
from tests.faults.made import audited_here, predictions_made_elsewhere
from tests.helpers import bombs
from tests.helpers.commands import scotoma

QUICK = ("examples, empty cells", "examples, Parquet", "predictions, gz", "image", "constant")
PICTURED = ("attributes", "image", "constant", "endless on batches", "sparse weights")


QUICK += ("endless on batches", "sparse weights", "stars")


AUDITED = ("image", "images, Parquet", "predictions, Parquet")  # `check` reads no pixels, no rows
LESS = "limits: {reader_memory_gib: 0.25, reader_seconds: 1}\n"


@pytest.mark.parametrize(
    "bomb", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.thorough) for one in BOMBS]
)
def test_a_bomb_is_refused_in_a_sentence(bomb: str, tmp_path: Path) -> None:
    """Smaller ones, and less for each reader."""
    plant, expected = BOMBS[bomb]
    config = plant(tmp_path, 0.25)
    config.write_text(config.read_text() + LESS)
    command = ("audit", "--out", tmp_path / "run") if bomb in AUDITED else ("audit", "--plan")
    code, out, said = scotoma(*command, config, "--quiet")
    assert (code, out) == (4, "")
    assert re.search(expected, said), said
    assert said.startswith("scotoma: ")
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_takes_a_gibibyte_and_ten_seconds_at_most(bomb: str, tmp_path: Path) -> None:
    """Beyond what the same audit takes without it."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "bomb").mkdir()
    plain = (pictures if bomb in PICTURED else predictions)(tmp_path / "plain")
    held, took = watched("audit", plain, "--out", tmp_path / "plain" / "run")
    config = BOMBS[bomb][0](tmp_path / "bomb", 1.0)
    most, seconds = watched("audit", config, "--out", tmp_path / "bomb" / "run")
    print(f"{bomb}: {(most - held) / 2**20:.0f} MiB more, {seconds:.1f} s of {took:.1f} s")
    assert most - held < 1.1 * 2**30  # a look every 50 ms misses peaks of either: 965 to 1,033 MiB
    waited = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # for other work, in its place
    assert seconds - took < 12 * waited


def watched(*arguments: str | Path) -> tuple[int, float]:
    """The most memory that a command and all its processes hold at once, bytes, and its time, s."""
    began, most = time.monotonic(), 0
    command = [sys.executable, "-m", "scotoma", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, _tree_bytes(process.pid))
            time.sleep(0.05)
    return most, time.monotonic() - began


def _tree_bytes(root: int) -> int:
    """Resident memory of a process and all below it."""
    children: dict[int, list[int]] = {}
    resident = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            facts = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        children.setdefault(int(facts[1]), []).append(int(entry.name))
        resident[int(entry.name)] = int(facts[21]) * os.sysconf("SC_PAGE_SIZE")
    waiting, total = [root], 0
    while waiting:
        process = waiting.pop()
        total += resident.get(process, 0)
        waiting += children.get(process, [])
    return total


def test_a_command_on_a_table_has_the_same_limits(tmp_path: Path) -> None:
    table = bombs.csv_of_empty_cells(tmp_path / "t.csv", "label,dense,int8,sex")
    options = ("--label", "label", "--baseline", "dense", "--predicted", "int8", "--group", "sex")
    code, out, said = scotoma("compare", table, *options)
    assert (code, out) == (4, "")
    assert said == (
        "scotoma: t.csv must be read within 1.0 GiB of memory, and takes more; make it smaller\n"
    )


@pytest.mark.parametrize(
    "name", ["audit.yaml", "examples.csv", "preds/int8.csv", "rules.yaml", "models", "table", "x"]
)
def test_what_is_no_file_is_not_waited_for(name: str, tmp_path: Path) -> None:
    config = (pictures if name in ("models", "table", "x") else predictions)(tmp_path)
    place = {"models": "models/small/a.onnx", "table": "table.csv", "x": "pictures/9.png"}
    path = tmp_path / place.get(name, name)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    command = {
        "rules.yaml": ("audit", "--rules", path, "--out", tmp_path / "run"),
        "x": ("audit", "--out", tmp_path / "run"),
    }.get(name, ("audit", "--plan"))
    code, out, said = scotoma(*command, config, "--quiet")
    assert (code, out) == (2 if name.endswith("yaml") else 4, "")
    assert said.startswith("scotoma: ")
    assert said.count("\n") == 1
    sentences = "must be a regular file, and is a FIFO|is not a file|got no file|has no image"
    assert re.search(sentences, said), said
    assert not (tmp_path / "run").exists()


# --- a run that was received from others: links, FIFOs and sockets in it lead nowhere -------------


SECRET = b"do not overwrite\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("whole")
    return audited_here(predictions_made_elsewhere(home), home / "run")


@pytest.fixture
def received(whole: Path, tmp_path: Path) -> Path:
    """A run, and beside it a folder of its reader's."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_bytes(SECRET)
    return shutil.copytree(whole, tmp_path / "run")


def link(path: Path, mine: Path) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(mine / "notes")


def folder_link(path: Path, mine: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.symlink_to(mine)


def fifo(path: Path, mine: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def socket_of(path: Path, mine: Path) -> None:
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(os.path.relpath(path))


PLACED: dict[str, tuple[str, Callable[[Path, Path], None], str]] = {
    "lock": (".lock", link, "a link"),
    "log": ("logs/pipeline.log", link, "a link"),
    "steps": ("steps", folder_link, "a link"),
    "sections": ("sections", folder_link, "a link"),
    "audit": ("audit.json", link, "a link"),
    "record": ("steps/prepare.json", fifo, "a FIFO"),
    "checksums": ("checksums.json", fifo, "a FIFO"),
    "socket": ("extra", socket_of, "a socket"),
}


@pytest.mark.parametrize("placed", PLACED)
def test_no_command_follows_a_link_out_of_a_run(
    placed: str, received: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = received.parent / "mine"
    monkeypatch.chdir(received.parent)
    name, place, kind = PLACED[placed]
    place(received / name, mine)
    for command in (
        ("audit", "--resume", "--out", received),
        ("gate", received),
        ("show", received),
        ("verify", received),
    ):
        code, out, said = scotoma(*command)
        assert (code, out) == (2, ""), command
        assert said == (
            f"scotoma: run {received} must hold files and folders only, and {name!r} is {kind}; "
            "remove it\n"
        )
    assert [path.name for path in mine.iterdir()] == ["notes"]
    assert (mine / "notes").read_bytes() == SECRET


def test_a_run_may_itself_be_named_by_a_link(received: Path) -> None:
    latest = received.with_name("latest")
    latest.symlink_to(received)
    assert scotoma("verify", latest)[0] == 0
    assert scotoma("gate", latest, "--as-of", "2027-03-01")[0] in (0, 1, 3)


def test_a_second_name_of_a_file_is_not_written_to(received: Path) -> None:
    notes = received.parent / "mine" / "notes"
    log = received / "logs" / "pipeline.log"
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    log.hardlink_to(notes)
    assert scotoma("audit", "--resume", "--out", received, "--quiet")[0] == 0
    assert notes.read_bytes() == SECRET
    (received / ".lock").unlink()
    (received / ".lock").hardlink_to(notes)
    code, _, said = scotoma("audit", "--resume", "--out", received)
    assert code == 2
    assert said == (
        f"scotoma: {received / '.lock'} must be the lock of an audit, and is not; remove it\n"
    )
    assert notes.read_bytes() == SECRET
