"""A run that was received from others: links, FIFOs and sockets in it lead nowhere."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.made import audited_here, predictions_made_elsewhere
from tests.helpers.commands import scotoma

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
