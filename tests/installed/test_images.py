"""The core image, built by a real engine: what is in it, and that steps in it give the same bytes.

In CI `.ci/engine` sets up the engine while other tests run; elsewhere Docker's own must be running.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scotoma._version import __version__
from tests.helpers.external_predictions import CONFIG, write

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
IMAGE = f"scotoma-core:{__version__}"
PATIENCE_S = 900
# Times and machines, which no two runs share.
ELSE = re.compile(  # what holds times and places, or the checksums of such
    r"(steps|logs|shards)/|(measurements|tracking|checksums|sources)\.json|pipeline\.yaml|\.lock"
)


@dataclass(frozen=True)
class Engine:
    """A Docker engine with the core image.

    Attributes:
        lent: Folder with `pip.conf` and `ca.crt`, which the build was given as secrets; each has a
            line that stands nowhere else.
    """

    lent: Path

    def docker(self, *arguments: str) -> str:
        """What a command of docker prints."""
        done = self.attempt(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of docker that may fail."""
        command = [os.environ.get("DOCKER", "docker"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def in_image(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command in the image as a cluster would run it: read-only, as anyone, offline."""
        locked = ("--read-only", "--tmpfs", "/tmp", "--user", "12345:12345", "--network", "none")
        return self.attempt("run", "--rm", *locked, IMAGE, *command)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The engine that CI set up, or the one of this machine."""
    if folder := os.environ.get("SCOTOMA_ENGINE"):
        until = time.monotonic() + PATIENCE_S
        while not Path(folder, "ready").exists() and time.monotonic() < until:
            if (reason := Path(folder, "impossible")).exists():
                pytest.skip(reason.read_text())
            if (reason := Path(folder, "failed")).exists():
                pytest.fail(reason.read_text())
            time.sleep(0.5)
        return Engine(Path(folder))
    engine = Engine(tmp_path_factory.mktemp("lent"))
    if not shutil.which("docker") or engine.attempt("info").returncode:
        pytest.skip("no Docker engine answers here")
    subprocess.run([ROOT / "docker" / "lend", engine.lent], check=True)
    lent = {"PIP_CONFIG_FILE": engine.lent / "pip.conf", "SSL_CERT_FILE": engine.lent / "ca.crt"}
    subprocess.run([ROOT / "docker" / "build", "core"], env=os.environ | lent, check=True)
    return engine


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with two populations' predictions and a configuration."""
    write(tmp_path, models=2)
    (tmp_path / "audit.yaml").write_text(CONFIG + "deterministic: true\n")
    return tmp_path


@pytest.fixture(scope="module")
def packages(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of what the image holds, to be run without it."""
    folder = tmp_path_factory.mktemp("packages")
    made = engine.docker("create", IMAGE).strip()
    engine.docker("cp", f"{made}:/opt/scotoma/lib", str(folder))
    engine.docker("rm", made)
    (site,) = folder.glob("lib/python3*/site-packages")
    yield site
    shutil.rmtree(folder)


def run_steps_in(image: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SCOTOMA_IMAGE": image, "SCOTOMA_CORE_IMAGE": image}
    command = [sys.executable, ROOT / "docker" / "audit.py", home / "audit.yaml", home]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def contents(run: Path) -> dict[str, bytes]:
    files = {path.relative_to(run).as_posix(): path for path in run.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if not ELSE.match(name)}


def test_steps_in_the_image_give_the_bytes_of_a_local_run(
    engine: Engine, packages: Path, home: Path
) -> None:
    done = run_steps_in(IMAGE, home)
    assert done.returncode == 0, done.stdout + done.stderr
    if packages.parent.name != f"python3.{sys.version_info.minor}":
        pytest.skip(f"the image's packages are for another Python, {packages.parent.name}")
    local = subprocess.run(
        [sys.executable, "-m", "scotoma", "audit", home / "audit.yaml", "--out", home / "local"],
        env=os.environ | {"PYTHONPATH": str(packages), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert local.returncode == 0, local.stderr
    in_image, here = contents(home / "run"), contents(home / "local")
    assert {"audit.json", "gate.json", "report.html", "divergence.parquet"} <= set(here)
    assert in_image.keys() == here.keys()
    assert [name for name in here if in_image[name] != here[name]] == []


def test_a_container_that_ends_at_once_is_no_success(engine: Engine, home: Path) -> None:
    """KFP can take it for one; the audit does not."""
    made = engine.docker("create", "--entrypoint", "false", IMAGE).strip()
    ends_at_once = f"scotoma-false:{__version__}"
    engine.docker("commit", made, ends_at_once)
    done = run_steps_in(ends_at_once, home)
    engine.docker("rm", made)
    engine.docker("rmi", ends_at_once)
    assert done.returncode != 0
    assert not (home / "run" / "audit.json").exists()


def test_the_image_needs_no_root_no_network_and_no_disk(engine: Engine) -> None:
    assert engine.in_image("scotoma", "--version").stdout == f"scotoma {__version__}\n"
    code = "from importlib.util import find_spec; print([n for n in {} if find_spec(n)])"
    absent = ("torch", "onnx", "onnxruntime", "mlflow", "sklearn", "pip")
    assert engine.in_image("python3", "-c", code.format(absent)).stdout == "[]\n"
    for place in ("/opt/scotoma/bin", "/usr/bin", "/etc"):
        assert engine.in_image("touch", f"{place}/new").returncode != 0, place
    assert engine.in_image("touch", "/tmp/new").returncode == 0


def test_the_image_says_what_it_is(engine: Engine) -> None:
    (found,) = json.loads(engine.docker("inspect", IMAGE))
    config = found["Config"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", config["User"])
    assert not config["Entrypoint"]  # KFP's runner gives a command, and no entrypoint
    labels = {
        key.removeprefix("org.opencontainers.image."): v for key, v in config["Labels"].items()
    }
    assert (labels["title"], labels["version"]) == ("scotoma-core", __version__)
    assert labels["licenses"] == "Apache-2.0"
    assert {"description", "revision"} <= labels.keys()


def test_the_bill_of_materials_is_what_is_installed(engine: Engine) -> None:
    bill = json.loads(engine.in_image("cat", "/opt/scotoma/sbom.json").stdout)
    assert bill["bomFormat"] == "CycloneDX"
    listed = {entry["name"].lower(): entry["version"] for entry in bill["components"]}
    code = (
        "from importlib.metadata import distributions; import json;"
        "print(json.dumps({d.metadata['Name'].lower(): d.version for d in distributions()}))"
    )
    assert listed == json.loads(engine.in_image("python3", "-c", code).stdout)
    assert listed["scotoma"] == __version__


def test_no_layer_holds_what_the_build_was_lent(engine: Engine, tmp_path: Path) -> None:
    """Each file has a line of its own, which is looked for in every layer and in the history."""
    canaries = [
        (engine.lent / name).read_bytes().splitlines()[-1] for name in ("pip.conf", "ca.crt")
    ]
    assert all(re.fullmatch(rb"# canary \w{32}", canary) for canary in canaries)
    words = [canary.split()[-1] for canary in canaries]
    assert not any(w.decode() in engine.docker("history", "--no-trunc", IMAGE) for w in words)
    archive = tmp_path / "image.tar"
    engine.docker("save", "--output", str(archive), IMAGE)
    read = 0
    with tarfile.open(archive) as layers:
        for entry in layers:
            if not (entry.isfile() and (inner := layers.extractfile(entry))):
                continue
            before = b""
            while piece := inner.read(1 << 24):
                assert not any(word in before + piece for word in words), entry.name
                before, read = piece[-64:], read + len(piece)
    archive.unlink()
    assert read > 400e6  # layers are not compressed in the archive: their bytes were seen
