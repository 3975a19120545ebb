"""An audit that meets a full disk, a wrong clock, no network, a second audit, and a flipped bit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from scotoma.processes.child import _temporary
from scotoma.run.checksums import CHECKSUMS, seal
from scotoma.run.lock import LOCK, locked
from scotoma.run.mirror import Mirror
from scotoma.storage.files import written
from tests.faults.harness import (
    Undisturbed,
    audit,
    compare,
    in_a_network_of_its_own,
    short_folder,
)
from tests.faults.made import audited_here, predictions_made_elsewhere
from tests.helpers.commands import scotoma

# Imported by every Python process of an audit: a clock that jumps a year back, ten years forth.
JUMPING = """
import random, time
real, drawn = time.time, random.Random(7)
time.time = lambda: real() + drawn.choice([-1, 0, 10]) * 365.25 * 86400
time.time_ns = lambda: int(1e9 * time.time())
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    home = tmp_path_factory.mktemp("whole")
    config = predictions_made_elsewhere(home)
    return Undisturbed(audited_here(config, home / "run"), config, {})


@pytest.fixture
def copy(whole: Undisturbed, tmp_path: Path) -> Path:
    """A finished run, to be spoiled."""
    return shutil.copytree(whole.folder, tmp_path / "run")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own of 64 KB, a fifth of what a run needs."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)],
        check=True,
        capture_output=True,
    )
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence on stderr."""
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith("scotoma: "), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return sentence


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="no rights to mount a disk")
def test_a_full_disk_a_wrong_clock_and_no_network_cost_nothing(
    whole: Undisturbed, disk: Path, tmp_path: Path
) -> None:
    out = disk / "run"
    full = audit(whole.config, out, "--quiet")
    assert full.returncode == 5
    assert "disk" in refused(full)
    assert "full" in refused(full)
    assert "repeat the command" in refused(full)
    assert not [path for path in out.rglob("*") if "partial" in path.name]
    assert not (out / "gate.json").exists()

    remount(disk, "size=64m")
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "sitecustomize.py").write_text(JUMPING)
    tried = tmp_path / "tried"
    with short_folder() as temporary:
        done = audit(
            whole.config,
            out,
            *whole.judged,
            before=in_a_network_of_its_own(tried),
            PYTHONPATH=f"{tmp_path / 'python'}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"),
            TMPDIR=str(temporary),
        )
        assert not list(temporary.iterdir())
    assert done.returncode == 0, done.stderr
    assert tried.read_text() == "0", "packets that were to leave this machine"
    compare(whole.folder, out)
    for record in (out / "steps").iterdir():
        assert 0 <= json.loads(record.read_text())["time_s"] < 3600, record.name

    remount(disk, "ro")
    done = audit(whole.config, out, "--quiet")
    assert done.returncode == 2
    assert "cannot be written: Read-only file system; choose another --out" in refused(done)
    code, _, said = scotoma("verify", out)
    assert (code, said) == (0, f"all {len(files(out))} files match their checksums\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="no rights to mount a disk")
def test_a_full_folder_of_temporary_files_is_done_without(
    whole: Undisturbed, disk: Path, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="No space left"), (disk / "other").open("wb") as other:
        other.write(bytes(2**17))
    out = tmp_path / "run"
    done = audit(whole.config, out, *whole.judged, TMPDIR=str(disk))
    assert done.returncode == 0, done.stderr
    compare(whole.folder, out)
    assert [path.name for path in disk.iterdir()] == ["other"]


def test_a_folder_without_permission_is_refused(whole: Undisturbed, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o555)
    rights = "-dac_override,-dac_read_search,-fowner"
    powerless = ["setpriv", f"--bounding-set={rights}"] if os.geteuid() == 0 else []
    done = audit(whole.config, tmp_path / "theirs" / "run", "--quiet", before=powerless)
    assert done.returncode == 2
    assert "cannot be written: Permission denied; choose another --out" in refused(done)
    assert not list((tmp_path / "theirs").iterdir())


def test_a_second_audit_is_refused_and_changes_nothing(copy: Path, whole: Undisturbed) -> None:
    before = {path: path.read_bytes() for path in files(copy)}
    with locked(copy):
        code, out, said = scotoma("audit", whole.config, "--deterministic", "--out", copy)
    assert (code, out) == (2, "")
    assert said == (
        f"scotoma: output folder {copy} is in use by another audit (process {os.getpid()}); wait "
        "for it, end it, or choose another --out\n"
    )
    assert before == {path: path.read_bytes() for path in files(copy)}


def test_a_changed_configuration_is_refused_by_key_and_values(
    copy: Path, whole: Undisturbed
) -> None:
    code, out, said = scotoma("audit", whole.config, "--deterministic", "--out", copy, "--seed", 9)
    assert (code, out) == (2, "")
    assert said == (
        f"scotoma: output folder {copy} belongs to another configuration: population.seed is 0 "
        "there and 9 here; choose another --out, or remove it\n"
    )


# --- verify ---------------------------------------------------------------------------------------


def files(folder: Path) -> list[Path]:
    """The files that are verified."""
    logs, unlisted = folder / "logs", {".lock", CHECKSUMS}
    every = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in every if logs not in path.parents and path.name not in unlisted]


def test_a_flipped_bit_is_found_and_named_in_every_file(copy: Path) -> None:
    looked_at = [*files(copy), copy / CHECKSUMS]
    assert len(looked_at) > 30
    for number, path in enumerate(looked_at):
        content = path.read_bytes()
        if not content:
            continue
        place = number * 7919 % len(content)
        flipped = bytes([content[place] ^ 1 << number % 8])
        path.write_bytes(content[:place] + flipped + content[place + 1 :])
        code, out, said = scotoma("verify", copy)
        name = path.relative_to(copy).as_posix()
        assert (code, out) == (4, f"damaged  {name}\n"), name
        assert "has 1 damaged file, such as" in said
        path.write_bytes(content)
    assert scotoma("verify", copy, "--quiet") == (0, "", "")


def test_missing_and_extra_files_are_named(copy: Path) -> None:
    (copy / "audit.json").unlink()
    (copy / "sections" / "n\x1bew.json").write_text("{}")
    code, out, said = scotoma("verify", copy)
    assert (code, out) == (4, "missing  audit.json\nextra    sections/n ew.json\n")
    assert said == (
        f"scotoma: run {copy} has 1 missing, 1 extra files, such as audit.json; delete extra "
        "files, then repeat the audit\n"
    )
    code, out, _ = scotoma("verify", copy, "--json")
    found = json.loads(out)
    assert code == 4
    assert (found["damaged"], found["missing"]) == ([], ["audit.json"])
    assert found["extra"] == ["sections/n\x1bew.json"]
    assert found["files"] == len(files(copy)) - 1


def test_a_run_that_has_not_ended_cannot_be_verified(copy: Path) -> None:
    (copy / CHECKSUMS).unlink()
    code, out, said = scotoma("verify", copy)
    assert (code, out) == (4, "")
    assert said == (
        f"scotoma: {copy / CHECKSUMS} is missing, so the audit has not ended; repeat the audit to "
        "resume it\n"
    )
    assert scotoma("verify", copy / "nowhere")[0] == 2


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("audit.json", ("gate",)),
        ("audit.json", ("show", "RUN")),
        ("measurements.json", ("show", "RUN")),
        ("divergence.parquet", ("show", "RUN", "examples")),
        ("config.yaml", ("show", "RUN", "examples")),
        ("examples.parquet", ("compare", "RUN")),
        ("predictions/prune-0.9.parquet", ("compare", "RUN")),
        ("audit.json", ("gate", "--previous", "RUN", "WHOLE")),
    ],
)
def test_what_was_changed_is_not_read(
    copy: Path, whole: Undisturbed, name: str, command: tuple[str, ...]
) -> None:
    path = copy / name
    path.write_bytes(path.read_bytes() + b" ")
    places = {"RUN": copy, "WHOLE": whole.folder}
    arguments = [places.get(part, part) for part in command]
    last = () if "WHOLE" in command or "show" in command else (copy,)
    code, out, said = scotoma(*arguments, *last, "--quiet")
    assert (code, out) == (4, "")
    assert said == (
        f"scotoma: {path} was changed after its audit wrote it; repeat the audit to write it "
        "again\n"
    )
    assert not (copy / "gate.json").exists() or command != ("gate",)


def test_a_broken_audit_is_named_before_its_verdict(copy: Path) -> None:
    (copy / CHECKSUMS).unlink()
    (copy / "audit.json").write_text("{")
    code, out, said = scotoma("show", copy)
    assert (code, out) == (4, "")
    assert said.startswith(f"scotoma: {copy / 'audit.json'} must be JSON that scotoma audit wrote")


@pytest.mark.parametrize(
    "command",
    [("gate", "RUN"), ("show", "RUN"), ("show", "RUN", "examples"), ("compare", "RUN", "RUN")],
)
def test_nothing_is_read_beside_damaged_checksums(copy: Path, command: tuple[str, ...]) -> None:
    path = copy / CHECKSUMS
    path.write_text(path.read_text().replace("audit.json", "audit.jsom"))
    arguments = [copy if part == "RUN" else part for part in command]
    code, out, said = scotoma(*arguments, "--quiet")
    assert (code, out) == (4, "")
    assert said == (
        f"scotoma: {path} is damaged, so nothing says whether the other files are; repeat the "
        "audit to write it again\n"
    )


def test_what_a_command_on_a_finished_run_writes_is_verified_too(copy: Path) -> None:
    assert scotoma("gate", copy, "--as-of", "2027-03-01")[0] in (0, 1, 3)
    assert scotoma("show", copy, "--no-images")[0] == 0
    assert scotoma("verify", copy)[0] == 0
    seal(Mirror(copy))  # as an audit of one step does when it ends
    assert scotoma("verify", copy)[0] == 0


# --- modes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_every_file_has_the_mode_that_the_umask_asks_for(
    mask: int, whole: Undisturbed, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    before = os.umask(mask)
    try:
        run = audited_here(whole.config, home / "run")
        with written(run / "weights") as temporary:  # its writer makes it for its owner alone
            save_file({"w": torch.zeros(1)}, temporary)
        with locked(run), _temporary(run) as private:
            assert private.stat().st_mode & 0o777 == 0o700, "whatever the umask"
    finally:
        os.umask(before)
    looked_at = [home, *home.rglob("*")]
    assert {run / LOCK, run / "report.html", run / "predictions" / "dense.parquet"} < {*looked_at}
    for path in looked_at:
        asked = (0o777 if path.is_dir() else 0o666) & ~mask
        assert path.stat().st_mode & 0o777 == asked, path


# --- nothing is told to anyone --------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "told"), [({}, False), ({"ORT_DISABLE_TELEMETRY": "0"}, True)])
def test_onnx_runtime_tells_its_makers_nothing_unless_asked(
    asked: dict[str, str], told: bool, tmp_path: Path
) -> None:
    hidden = ("XDG_CACHE_HOME", "ORT_DISABLE_TELEMETRY", "CI")  # in CI it tells nothing at all
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"HOME": str(tmp_path), **asked}
    subprocess.run(
        [sys.executable, "-c", "import scotoma, onnxruntime"], env=environment, check=True
    )
    # Before it sends, it leaves an identifier of this machine among the user's files.
    assert bool(list(tmp_path.rglob("deviceid"))) == told
