"""What a pull request meets: the action's own lines in a shell, the plugin of pytest, the hook."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.conftest import ROOT
from tests.helpers.commands import scotoma

pytestmark = pytest.mark.slow
pytest_plugins = ["pytester"]

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
PAGE = "https://github.com/somebody/model/actions/runs/1/artifacts/2"


class GitHub(BaseHTTPRequestHandler):
    """Comments of an issue, as GitHub's REST API documents them: pages of 30, or of `per_page`."""

    comments: ClassVar[list[dict[str, Any]]]
    writes = True
    address = ""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        asked = parse_qs(address.query)
        size, page = int(asked.get("per_page", ["30"])[0]), int(asked.get("page", ["1"])[0])
        more = len(self.comments) > page * size
        port = self.server.server_address[1]
        following = f"http://127.0.0.1:{port}{address.path}?per_page={size}&page={page + 1}"
        self._answer(
            200,
            self.comments[(page - 1) * size : page * size],
            {"Link": f'<{following}>; rel="next", <{following}>; rel="last"'} if more else {},
        )

    def do_POST(self) -> None:
        assert self.path == "/repos/somebody/model/issues/7/comments"
        if not self.writes:
            self._answer(403, {"message": "Resource not accessible by integration"})
            return
        self.comments.append({"id": 900 + len(self.comments), "body": self._body()["body"]})
        self._answer(201, self.comments[-1])

    def do_PATCH(self) -> None:
        found = re.fullmatch(r"/repos/somebody/model/issues/comments/(\d+)", self.path)
        assert found
        (own,) = (one for one in self.comments if one["id"] == int(found[1]))
        own["body"] = self._body()["body"]
        self._answer(200, own)

    def _body(self) -> Any:
        assert self.headers["Authorization"] == "Bearer secret"
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, code: int, content: object, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def github() -> Iterator[type[GitHub]]:
    class Own(GitHub):
        pass

    Own.comments = [{"id": number, "body": "somebody else's"} for number in range(130)]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Own.address = f"http://127.0.0.1:{server.server_address[1]}"
    yield Own
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    command = [sys.executable, str(ROOT / "examples" / "evaluation_logs.py")]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def run_action(
    folder: Path, inputs: dict[str, str], github: type[GitHub], event: object
) -> tuple[int, str, dict[str, str]]:
    """Run the lines of the action as a runner does: a shell for each step, files between them.

    Installing is left out: this Python has Scotoma. So are the steps of other actions.

    Returns:
        The last exit code, all that was printed, and the outputs of the step that judges.
    """
    temp = folder / "runner"
    (temp / "scotoma").mkdir(parents=True, exist_ok=True)
    programs = temp / "scotoma" / "bin"
    if not programs.exists():
        programs.symlink_to(Path(sys.executable).parent)
    (temp / "event.json").write_text(json.dumps(event))
    files = {name: temp / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("")
    values = {f"inputs.{name}": one.get("default", "") for name, one in ACTION["inputs"].items()}
    values |= {f"inputs.{name}": value for name, value in inputs.items()}
    values |= {
        "inputs.token": "secret",
        "github.action_path": str(ROOT),
        "steps.page.outputs.artifact-url": PAGE,
        "strategy.job-index": "0",
    }
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(temp),
        "GITHUB_EVENT_PATH": str(temp / "event.json"),
        "GITHUB_API_URL": github.address,
        "GITHUB_REPOSITORY": "somebody/model",
        "GITHUB_WORKFLOW": "Compression",
        "GITHUB_JOB": "compare",
        **{name: str(file) for name, file in files.items()},
    }
    printed = ""
    outputs: dict[str, str] = {}
    for step in ACTION["runs"]["steps"]:
        condition = step.get("if", "")
        judged = bool(outputs.get("verdict"))
        if "run" not in step or step["name"].startswith("Install"):
            continue
        if "verdict" in condition and not judged:
            continue
        if "inputs.comment" in condition and values["inputs.comment"] != "true":
            continue
        own = {name: filled(str(value), values) for name, value in step.get("env", {}).items()}
        assert "${{" not in step["run"]  # what an input holds is never read as shell
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=folder, env=environment | own, capture_output=True, text=True,
        )  # fmt: skip
        printed += done.stdout + done.stderr
        if step.get("id"):
            lines = files["GITHUB_OUTPUT"].read_text().splitlines()
            outputs |= dict(line.split("=", 1) for line in lines)
            values |= {f"steps.judge.outputs.{name}": value for name, value in outputs.items()}
        if done.returncode:
            return done.returncode, printed, outputs
    return 0, printed, outputs


def filled(text: str, values: Mapping[str, str]) -> str:
    """A text with the values of its expressions."""
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values[found[1]], text)


PULL = {"pull_request": {"number": 7}}
HARMED = {"base": "bf16/run1", "compressed": "w4a16/run1\n\n", "group": "category"}


def test_the_action_comments_once_and_ends_as_the_gate_does(
    logs: Path, github: type[GitHub]
) -> None:
    code, _, outputs = run_action(logs, HARMED, github, PULL)
    assert (code, outputs["verdict"]) == (1, "FAIL")
    written = [one["body"] for one in github.comments if "scotoma" in one["body"]]
    assert len(written) == 1
    assert "error Religion" in written[0]
    assert PAGE in written[0]
    summary = (logs / "runner" / "GITHUB_STEP_SUMMARY").read_text()
    assert summary.startswith("# Gate: FAIL")
    # Again, after the model was mended: the same comment, at whatever page of comments it lies.
    mended = HARMED | {"compressed": "bf16/run2"}
    code, _, outputs = run_action(logs, mended | {"margin": "0.05"}, github, PULL)
    assert (code, outputs["verdict"]) == (0, "PASS")
    again = [one["body"] for one in github.comments if "scotoma" in one["body"]]
    assert len(again) == 1
    assert "# Gate: PASS" in again[0]


def test_the_action_judges_a_finished_audit(
    logs: Path, github: type[GitHub], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    models = [str(logs / "bf16" / "run1"), str(logs / "w4a16" / "run1")]
    assert scotoma("compare", *models, "--group", "category", "--out", str(run), "--quiet")[0] == 0
    assert run_action(logs, {"run": str(run)}, github, PULL)[0] == 1
    wide = {"run": str(run), "margin": "0.3", "comment": "false"}
    before = [dict(one) for one in github.comments]
    assert run_action(logs, wide, github, PULL)[0] == 0
    assert github.comments == before


def test_the_action_says_what_does_not_fit(logs: Path, github: type[GitHub]) -> None:
    hostile = HARMED | {"group": "category$(touch owned)`touch owned`", "options": "--quiet"}
    code, printed, outputs = run_action(logs, hostile, github, PULL)
    assert code == 2
    assert "verdict" not in outputs
    assert "touch owned" in printed  # the sentence names what is not there
    assert not (logs / "owned").exists()
    code, printed, _ = run_action(logs, HARMED | {"margin": "2"}, github, PULL)
    assert (code, "--margin must be less than 1" in printed) == (2, True)
    assert not any("scotoma" in one["body"] for one in github.comments)


def test_a_fork_that_may_not_write_gets_a_warning(logs: Path, github: type[GitHub]) -> None:
    github.writes = False
    code, printed, _ = run_action(logs, HARMED, github, PULL)
    assert code == 1
    assert "::warning::" in printed
    assert "pull-requests: write" in printed
    assert "no pull request" in run_action(logs, HARMED, github, {"ref": "refs/heads/main"})[1]


def test_github_reads_the_action_and_the_workflows() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    workflows = sorted(map(str, (ROOT / ".github" / "workflows").glob("*.yaml")))
    subprocess.run([*check, "vendor.github-workflows", *workflows], check=True)
    subprocess.run([*check, "vendor.github-actions", str(ROOT / "action.yml")], check=True)


TESTS = """
import numpy as np
import pytest
import scotoma
from scotoma.pytest import Unsure, assert_no_harm

rng = np.random.default_rng(0)
y = rng.integers(0, 2, 4_000)
sex = rng.choice(["f", "m"], 4_000)
dense = np.where(rng.random(4_000) < 0.1, 1 - y, y)
noisy = np.where(rng.random(4_000) < 0.1, 1 - dense, dense)
harmed = np.where((sex == "f") & (rng.random(4_000) < 0.2), 1 - dense, dense)


def pair(answers, n=4_000):
    return scotoma.pair(y[:n], dense[:n], answers[:n], groups={"sex": sex[:n]})


def test_lossless(no_harm):
    assert no_harm(pair(dense), margin=0.02).verdict == "PASS"


def test_harmed(no_harm):
    no_harm(pair(harmed), margin=0.02)


def test_few(no_harm):
    with pytest.warns(Unsure, match="UNSURE"):
        no_harm(pair(noisy, 60), margin=0.05)


def test_few_must_not_pass():
    with pytest.raises(AssertionError, match="UNSURE"):
        assert_no_harm(pair(noisy, 60), margin=0.05, on_unsure="fail")
"""


def test_the_plugin_fails_a_test_where_harm_is_shown(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=3, failed=1)
    shown = done.stdout.str()
    assert re.search(r"AssertionError: .*FAIL.*\n.*FAIL compressed: error f ", shown)
    assert "test_lossless: notebook: PASS, 4,000 examples" in shown


def test_the_hook_judges_a_run(logs: Path, tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    run = tmp_path / "run"
    models = [str(logs / "bf16" / "run1"), str(logs / "w4a16" / "run1")]
    scotoma("compare", *models, "--group", "category", "--out", str(run), "--quiet")
    entry = shlex.split(hook["entry"])[1:]
    assert scotoma(*entry, str(run), "--margin=0.02")[0] == 1
    assert scotoma(*entry, str(run), "--margin=0.3")[0] == 0
