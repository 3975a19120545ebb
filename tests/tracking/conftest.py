"""A made-up audit, the folder that a pipeline leaves of it, and stores to log it to."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scotoma.audit import write_part
from scotoma.config import parse_config
from scotoma.numbers import Estimate
from scotoma.run import Run, write_json
from tests.helpers.audits import rows_at, whole
from tests.tracking.servers import ADMIN, PASSWORD, Mlflow, postgres, postgres_programs

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = ["dense", "prune-0.9", "int8-static"]

CONFIG = """\
version: 1
project: {project}
label: {{column: digit, positive: 1}}
variants: [dense, {{prune: [0.9]}}, {{int8: [static]}}]
population: {{models: 2, seed: 7}}
source: {{kind: digits-s, recipe: {{steps: 40}}}}
{tracking}
"""


def estimate(value: float, se: float, n: int = 500) -> dict[str, Any]:
    return Estimate.on_scale(value, se, 9.0, n=n, members=2).as_dict()


def _change(
    group: str, metric: str, value: float, of_class: str | None = None, se: float = 2.0
) -> dict[str, Any]:
    return {
        "group": group,
        "metric": metric,
        "class": of_class,
        "dense": estimate(0.1, 0.01),
        "compressed": estimate(0.2, 0.01) | {"effective_events": 40.0},
        "relative": estimate(value / 100, se / 100),
        "absolute": estimate(value / 1000, se / 1000),
    }


def contrast(
    variant: str, attribute: str, low: str, high: str, value: float
) -> list[dict[str, Any]]:
    facts = {"attribute": attribute, "group_a": low, "group_b": high}
    address = {"variant": variant, "metric": "error", "facts": facts}
    rises = {key: {"value": None} for key in ("rise_a", "rise_b")}
    alone = {"value": 0.2, "n": 250, "reason": "a p-value has no interval"}
    tests = dict.fromkeys(("p", "p_adjusted"), alone)
    return rows_at(address, rises | {"gap": estimate(value, 0.01)} | tests)


def _audit_of(run: Run) -> dict[str, Any]:
    """The parts of an audit.json that are logged, every number another."""
    compressed = VARIANTS[1:]
    return {
        "project": run.config.project,
        "config_sha256": run.config.digest(),
        "seed": 7,
        "examples": {"train": 1000, "test": 500, "clusters": 250, "dataset_sha256": "d" * 64},
        "groups": [],
        "variants": [
            {
                "name": variant.name,
                "kind": variant.kind,
                "sparsity": variant.sparsity,
                "mode": variant.mode,
                "bits": variant.bits,
                "paired": variant.paired,
                "members": 2,
            }
            for variant in run.config.resolved_variants
        ],
        "accuracy": {
            name: {
                "top1": estimate(0.9 - 0.1 * k, 0.01 + k / 100),
                "members": [0.91 - k / 10, 0.92 - k / 10],
            }
            for k, name in enumerate(VARIANTS)
        },
        "divergence": {
            name: {
                "cie": {
                    "n": 500,
                    "cie": {"count": 55 + k, "low": 50, "high": 60, "ties": 10},
                    "cie_share": estimate(0.11 + k / 100, 0.01),
                    "excess": estimate(0.06 + k / 100, 0.01),
                    "floor": estimate(0.05, 0.01),
                },
                "flips": None,
            }
            for k, name in enumerate(compressed)
        },
        "subgroups": {
            name: [
                _change("all", "error", 50.0 + k),
                _change("sex=male", "error", 40.0 + k),
                _change("sex=male,age=old", "error", 70.0 + k),
                _change("age=old", "error", 90.0 + k, se=20.0),  # the largest, and the least sure
                _change("sex=male", "fpr", 770.0, "0"),
                _change("sex=male", "fpr", -5.0),
                _change("sex=male", "fnr", 8.0),
            ]
            for k, name in enumerate(compressed)
        },
        "rows": {
            "gaps": [
                row
                for name in compressed
                for row in (
                    *contrast(name, "sex", "sex=female", "sex=male", 0.03),
                    *contrast(name, "age", "the rest", "age=old", 0.04),
                    *contrast(name, "age", "the rest", "age=young", -0.02),
                )
            ]
        },
    }


def _folder(root: Path, project: str, tracking: str = "") -> Run:
    """A folder as the pipeline leaves it, with what logging reads."""
    run = Run.create(root, parse_config(CONFIG.format(project=project, tracking=tracking), "test"))
    for name in VARIANTS:
        members = []
        for index in range(2):
            member: dict[str, Any] = {
                "index": index,
                "seed": 2**63 + index,
                "sha256": f"{name}-{index}".encode().hex(),
                "file": f"member-{index:03d}.{'onnx' if name == 'int8-static' else 'safetensors'}",
            }
            if name == "int8-static":
                member["paired_with"] = {"variant": "dense", "sha256": f"dense-{index}"}
            else:
                member["recipe"] = run.config.source.recipe.model_dump(mode="json")
                member["loss"] = [2.0, 1.0 + index, 0.5]
            members.append(member)
            path = run.population(name) / member["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"weights of {name} {index}".encode())
        write_json(run.population(name) / "manifest.json", {"members": members})
    run.path("report.html").write_text("<p>the report</p>")
    write_part(run.path("audit.json"), whole(_audit_of(run)))
    return run


@pytest.fixture(scope="session")
def change() -> Callable[..., dict[str, Any]]:
    """A row of an audit's subgroups: group, metric, relative change, class, standard error."""
    return _change


@pytest.fixture(scope="session")
def audit_of() -> Callable[[Run], dict[str, Any]]:
    return _audit_of


@pytest.fixture(scope="session")
def folder() -> Callable[..., Run]:
    return _folder


@pytest.fixture
def hostile() -> list[dict[str, Any]]:
    """Rows of groups whose names are hostile to HTML, Markdown, SQL, paths and terminals."""
    keys = [
        "a=<script>alert(1)</script>",
        "a=/../../etc",
        "a=b'; DROP TABLE runs;--",
        "a=x\x00\x1b[31m\u202e",
        "a=[x](http://x.example)|`y`\n# h",
        "..",
        "性別=男",
        "性別=女",
        "a=" + "long" * 200,
        "A=X",
        "a=x",
        "a=x_and_b.y",
        "a=x,b=y",
    ]
    values = [99.0 if "http" in key else 10.0 + k for k, key in enumerate(keys)]
    return [_change(key, "error", value) for key, value in zip(keys, values, strict=True)]


# --- stores ---------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def mlflow() -> Any:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow
    return mlflow


@pytest.fixture(scope="session")
def silent(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """What a process said that logged to a new store, where MLflow does not know it is tested."""
    home = tmp_path_factory.mktemp("silent")
    run = _folder(home / "run", "silent")
    script = (
        "import socket, sys; from pathlib import Path\n"
        "def refuse(*arguments): sys.stdout.write(f'connects: {arguments}'); raise OSError\n"
        "socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse\n"
        "from scotoma.run import Run; from scotoma.tracking.store import log_audit, tracking_uri\n"
        "run = Run.open(Path(sys.argv[1]))\n"
        "from scotoma.audit import read_audit; audit = read_audit(run.path('audit.json'))\n"
        "tracked = log_audit(run, audit, tracking_uri(run, {}))\n"
        "assert not tracked.reason, tracked.reason\n"
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "GITHUB_ACTIONS", "MLFLOW_DISABLE_TELEMETRY", "PYTEST_CURRENT_TEST")
    }
    done = subprocess.run(
        [sys.executable, "-c", script, str(run.root)],
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done, home


def _copied(silent: tuple[subprocess.CompletedProcess[str], Path], target: Path) -> Path:
    """A second database without the second that MLflow takes to lay out its tables."""
    with (
        closing(sqlite3.connect(silent[1] / "mlflow.db")) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)
    return target


@pytest.fixture(scope="module")
def sqlite(
    silent: tuple[subprocess.CompletedProcess[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> str:
    return f"sqlite:///{_copied(silent, tmp_path_factory.mktemp('a store') / 'mlflow.db')}"


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    return _free_port


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        address: Where it answers.
        group: Of its processes.
    """

    address: str
    group: int

    def processes(self) -> int:
        """How many processes of the group are still there, by Linux's own list."""
        stats = (_text(path) for path in Path("/proc").glob("[0-9]*/stat"))
        # After the name, which may hold anything: state, parent, group.
        fields = [stat.rpartition(")")[2].split() for stat in stats if stat]
        return sum(int(group) == self.group for state, _, group, *_ in fields if state != "Z")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has just ended
        return ""


@contextmanager
def serving(
    home: Path,
    database: Path,
    *artifacts: str,
    before: tuple[str, ...] = (),
    port: int = 0,
    variables: dict[str, str] | None = None,
) -> Iterator[Server]:
    """A real MLflow server, as docs/operating.md starts it; it is gone afterwards, whole."""
    address = f"http://127.0.0.1:{port or _free_port()}"
    command = [
        *before,
        *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
        *("--host", "127.0.0.1", "--port", address.rpartition(":")[2]),
        *("--backend-store-uri", f"sqlite:///{database}", *artifacts),
    ]
    environment = os.environ | {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        **(variables or {}),
    }
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=home, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    server = Server(address, process.pid)
    try:
        deadline = time.monotonic() + 60
        while not _answers(f"{address}/health"):
            assert process.poll() is None, (home / "log").read_text()
            assert time.monotonic() < deadline, (home / "log").read_text()
            time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(20)
        deadline = time.monotonic() + 20
        while (left := server.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left:
            os.killpg(server.group, signal.SIGKILL)
        assert not left, f"{left} processes of the server outlived it"


@pytest.fixture(scope="session")
def running(
    silent: tuple[subprocess.CompletedProcess[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that keeps artifacts itself."""
    home = tmp_path_factory.mktemp("server")
    artifacts = ("--artifacts-destination", str(home / "artifacts"))
    with serving(home, _copied(silent, home / "server.db"), *artifacts) as server:
        yield server


@pytest.fixture(params=["/proc/scotoma/artifacts", "s3://bucket/artifacts"])
def elsewhere(
    request: pytest.FixtureRequest,
    silent: tuple[subprocess.CompletedProcess[str], Path],
    tmp_path: Path,
) -> Iterator[tuple[str, str]]:
    """A server whose artifacts lie where this machine cannot write; its address, and the place."""
    artifacts = ("--no-serve-artifacts", "--default-artifact-root", request.param)
    with serving(tmp_path, _copied(silent, tmp_path / "server.db"), *artifacts) as server:
        yield server.address, request.param


@pytest.fixture(scope="session")
def server(running: Server) -> str:
    """Address of a real MLflow server, one for all tests: it costs seconds."""
    return running.address


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


# --- a team's server ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def storage(s3_client: Any) -> dict[str, str]:
    """What leads the server to S3; its own, for the tests' environment ends with each test."""
    return {
        "MLFLOW_S3_ENDPOINT_URL": s3_client.meta.endpoint_url,
        "AWS_ACCESS_KEY_ID": "AKIATEST",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture(scope="module")
def team(
    storage: dict[str, str], s3_client: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mlflow]:
    """A server with passwords on PostgreSQL and S3, both empty."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with postgres(programs) as database:
        folder, bucket = tmp_path_factory.mktemp("team"), f"mlflow-{uuid.uuid4().hex}"
        s3_client.create_bucket(Bucket=bucket)
        server = Mlflow(database, f"s3://{bucket}/team", storage, folder)
        server.start()
        yield server
        server.kill()


@pytest.fixture
def login(team: Mlflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", team.address)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", ADMIN)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
