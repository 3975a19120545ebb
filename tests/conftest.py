"""Fixtures that many tests share."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from scotoma.processes.machine import cores
from scotoma.processes.pool import kept_workers
from tests import tiers

settings.register_profile("scotoma", deadline=None)  # no test asserts a time
settings.register_profile("commit", deadline=None, max_examples=50)
settings.register_profile("quick", deadline=None, max_examples=15)
settings.load_profile("scotoma")

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
SHARED = Path(os.environ.get("SCOTOMA_SHARED", ROOT.parent / "shared"))

# As root in a container Chromium has no sandbox; the rest keeps it from calling home.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


NO_SHARED = "no raw data"
# No rights to run an engine, or a Python that is not the base image's.
NO_ENGINE = ("no Docker engine can be had here", "the image's packages are for another Python")

# `make quick` leaves out what is marked slow, and these: folders, and tests with such a fixture.
SLOW_FOLDERS = ("charts", "components", "faults", "fuzz", "pipelines", "tracking", "training")
SLOW_FIXTURES = {"browser", "s3", "s3_client", "shared"}
SLOW_MODULE = re.compile(r"^pytestmark = .*\b(slow|thorough)\b", re.MULTILINE)


# A file that is to survive a power failure costs a disk 5 ms; an audit writes a hundred.
MEMORY = Path("/dev/shm")
ROOM = 6 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples where not all tests run, and keep files in memory if it has room.

    PYTEST_DEBUG_TEMPROOT names another folder for them.
    """
    if _quick(config):
        settings.load_profile("quick")
    elif "not thorough" in config.option.markexpr:
        settings.load_profile("commit")
    if os.access(MEMORY, os.W_OK):
        memory = os.statvfs(MEMORY)
        if not memory.f_flag & os.ST_NOEXEC and memory.f_bavail * memory.f_frsize > ROOM:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _quick(config: pytest.Config) -> bool:
    return "not slow" in config.option.markexpr


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules unread whose tests are all deselected: importing torch takes seconds."""
    asked, inside = config.option.markexpr, collection_path.is_relative_to(ROOT)
    if "heavy" not in asked or not inside or collection_path.suffix != ".py":
        return None
    name, text = collection_path.relative_to(ROOT).as_posix(), collection_path.read_text("utf-8")
    if not tiers.may_hold(name, text, heavy="not heavy" not in asked):
        return True
    if not _quick(config) or not collection_path.is_relative_to(TESTS):
        return None
    slow = set(SLOW_FOLDERS) & set(collection_path.relative_to(TESTS).parts)
    return bool(slow or SLOW_MODULE.search(text)) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts other programs and what is heavy; put the longest files first.

    `--no-loadscope-reorder` then deals the longest first.
    """
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if SLOW_FIXTURES & fixtures:
            item.add_marker(pytest.mark.slow)
        if tiers.is_heavy(item.nodeid, fixtures):
            item.add_marker(pytest.mark.heavy)
    items.sort(key=lambda item: tiers.place(item.nodeid))


def pytest_collection() -> None:
    """Collect no garbage while modules are imported."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Look at what stands by now no more: walking 800,000 objects took 10 s a process."""
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # else triton names, on the way out, what it takes for leaks


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than cores: tests wait for servers and other processes, but for the quick ones."""
    return cores() if _quick(config) else cores() + 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in CI which skipped tests could have run."""
    if os.environ.get("SCOTOMA_CI"):
        for report in _unexcused(terminalreporter.stats.get("skipped", [])):
            terminalreporter.write_line(f"skipped without an excuse: {report.nodeid}", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test that could have run is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    watched = os.environ.get("SCOTOMA_CI") and exitstatus == 0 and reporter is not None
    if watched and _unexcused(reporter.stats.get("skipped", [])):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unexcused(skipped: list[pytest.TestReport]) -> list[pytest.TestReport]:
    """Skips that CI does not accept: all but those for what cannot be had there."""
    excuses = NO_ENGINE if SHARED.is_dir() else (NO_SHARED, *NO_ENGINE)
    return [r for r in skipped if not any(excuse in str(r.longrepr) for excuse in excuses)]


@pytest.fixture(autouse=True, scope="session")
def _kept_workers() -> Iterator[None]:
    """Keep workers for the next test, as an audit keeps them for its next step.

    To start one costs more than what most tests have it do.
    """
    with kept_workers():
        yield


@pytest.fixture
def steps_here(tmp_path: Path) -> Iterator[None]:
    """Audits of the test make their steps in this process: a child costs 2 s of processor time."""
    from tests.helpers.steps import steps_in_this_process

    with steps_in_this_process(tmp_path):
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with raw data (CIFAR-10, Adult) that stands beside some checkouts."""
    if not SHARED.is_dir():
        pytest.skip(f"{NO_SHARED} at {SHARED}")
    return SHARED


# Object storage in a process of its own, which ends when its standard input does.
S3_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Storage:
    """An S3 service over HTTP, with an empty bucket.

    Attributes:
        endpoint: Its address.
        bucket: Name of the bucket.
        environment: What the AWS SDK is to read; it is set in this process too.
        client: A client of the test's own, to look and to meddle.
    """

    endpoint: str
    bucket: str
    environment: dict[str, str]
    client: Any = field(repr=False)

    def uri(self, *names: str) -> str:
        """A place in the bucket."""
        return "/".join([f"s3://{self.bucket}", *names])

    def put(self, key: str, content: bytes) -> str:
        """An object as another program would leave it, and its place."""
        self.client.put_object(Bucket=self.bucket, Key=key, Body=content)
        return self.uri(key)

    def names(self) -> list[str]:
        """The keys of all objects, sorted."""
        listed = self.client.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return sorted(entry["Key"] for entry in listed)


@pytest.fixture(scope="session")
def s3_client() -> Iterator[Any]:
    """A client of an S3 service that runs for this session."""
    import boto3

    with (
        open(os.devnull, "wb") as silence,
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", S3_SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=silence,
        ) as server,
    ):
        endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
        yield boto3.session.Session("AKIATEST", "s3cret", region_name="us-east-1").client(
            "s3", endpoint_url=endpoint
        )
        server.stdin.close()
        server.wait(timeout=10)


@pytest.fixture
def s3(s3_client: Any, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """An S3 service, a fresh bucket in it, and the environment that leads there."""
    environment = {
        "AWS_ENDPOINT_URL": s3_client.meta.endpoint_url,
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_MAX_ATTEMPTS": "2",
        "NO_PROXY": "127.0.0.1",
    }
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    bucket = f"bucket-{uuid.uuid4().hex}"
    s3_client.create_bucket(Bucket=bucket)
    return Storage(environment["AWS_ENDPOINT_URL"], bucket, environment, s3_client)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, headless; skipped where it or its driver is not installed."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium on the path")
    with driver.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=found, args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()
