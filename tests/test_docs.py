"""The documents cannot drift: their configurations are parsed and their commands are run."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scotoma.config import Config, parse_config
from scotoma.config.gate import GateRules, Minimum, Waiver, parse_rules
from scotoma.slices.settings import parse_settings
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
ELSEWHERE = "planted_layer.py"  # a block that tests/fix runs, and reads what it leaves


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def run(command: str, folder: Path) -> tuple[int, str]:
    """Exit code and stderr of a line of a page: in this process, where it needs no shell."""
    if command.startswith("scotoma ") and not re.search(r"[>|&]", command):
        with steps_in_this_process(folder):
            code, _, err = scotoma(*shlex.split(command)[1:])
        return code, err
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_documents_run(
    page: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if any("s3://" in block for block in blocks(page, "sh")):
        request.getfixturevalue("s3").client.create_bucket(Bucket="my-bucket")
    for text in [*blocks(page, "yaml"), *blocks(page, "python")]:
        if name := re.match(r"# (\S+\.(yaml|py))\n", text):
            (tmp_path / name[1]).write_text(text)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("scotoma.steps.plan.TRIAL_S", 0.0)
    for block in blocks(page, "sh"):
        for line in () if ELSEWHERE in block else block.splitlines():
            command = line.partition(" #")[0].strip()
            if command.startswith("make "):  # this very command runs the tests
                assert command.split()[1] in targets, f"{page.name}: {command}"
                continue
            code, err = run(command, tmp_path)
            assert code == 0, f"{page.name}: {command}\n{err}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_configurations_in_the_documents_are_valid(page: Path) -> None:
    for text in blocks(page, "yaml"):
        read = parse_rules if re.search(r"^rules:", text, re.M) else parse_config
        if re.match(r"# \S+\n(protocol|reference|runner):", text):
            read = parse_settings
        read(text, page.name)


def test_tables_for_the_documents_are_written_by_examples_that_a_page_runs() -> None:
    commands = "".join(block for page in PAGES for block in blocks(page, "sh"))
    assert "python -c" not in commands
    for script in ROOT.glob("examples/*.py"):
        assert f"python examples/{script.name}" in commands, script.name


def anchors(page: Path) -> set[str]:
    """What a link may name of a page: its headings, as GitHub writes them into addresses."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = (
        re.sub(r"[^\w\- ]", "", title.lower()) for title in re.findall(r"^#+ (.+)$", text, re.M)
    )
    return {title.replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_in_the_documents_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^):]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        there = page.parent / name if name else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


def test_the_page_of_commands_is_what_its_script_writes() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "commands.py"))
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert page == script["page"](), "run python docs/commands.py"
    assert page.count("\n## scotoma ") > 10


def test_every_key_of_a_gate_file_is_in_its_page() -> None:
    text = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    keys = {f"min.{key}" for key in Minimum.model_fields} | GateRules.model_fields.keys()
    for key in keys - {"version", "min"}:
        assert f"| `{key}` |" in text, key
    for key in Waiver.model_fields:
        assert f"`{key}`" in text, key


def test_every_key_of_the_configuration_is_in_its_page() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    script = runpy.run_path(str(ROOT / "docs" / "configuration.py"))
    assert page == script["page"](), "run python docs/configuration.py"
    keys = re.findall(r"^- `([\w.]+)`.*: \S", page, re.M)  # each says something
    sections = {name.partition(".")[0] for name in keys} | {"variants"}  # entries with own keys
    assert sections >= {*Config.model_fields}
    assert {"source.recipe.warmup", "groups.NAME.bins", "robustness.sets.mask"} <= {*keys}
