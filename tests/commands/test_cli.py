"""The command as a stranger meets it: what goes in wrong comes out as one sentence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from scotoma._version import __version__
from scotoma.config import parse_config
from scotoma.run import Run
from tests.helpers.commands import scotoma as called
from tests.helpers.steps import steps_in_this_process

pytestmark = pytest.mark.slow

TABLE = """\
image,part,face,sex
a.png,train,yes,m
b.png,train,no,f
c.png,test,yes,m
d.png,test,no,f
"""
CONFIG = """\
version: 1
source:
  kind: image_folder
  images: pictures
  attributes: table.csv
  split: {column: part, train: train, test: test}
  recipe: {steps: 2, batch_size: 2}
label: {column: face}
groups:
  sex: {column: sex}
variants: [dense, {prune: [0.5]}]
population: {models: 1}
tracking: {uri: "off"}
"""


@dataclass(frozen=True)
class Case:
    """One thing that is wrong, and what is said about it.

    Attributes:
        code: Exit code.
        sentence: What stands on stderr, without the folder of the case.
        change: Text of the configuration, and what stands in its place.
        table: Text of the table, and what stands in its place.
        options: Beside the configuration.
    """

    code: int
    sentence: str
    change: tuple[str, str] = ("", "")
    table: tuple[str, str] = ("", "")
    options: tuple[str, ...] = ("--out", "out")


CONFIG_CASES = {
    "an unknown key": Case(
        2,
        "audit.yaml:12 populaton is not a key here; known are version, project, data_date, "
        "source, label, groups, cluster, advantaged, over_index, baseline, variants, population, "
        "mitigation, tournament, slices, clarify, tracking, kubeflow, retraining, robustness, "
        "limits, keep_scores, deterministic; did you mean 'population'?",
        change=("population:", "populaton:"),
    ),
    "a wrong type": Case(
        2,
        "audit.yaml:12 population.models should be a valid integer, got 'many'",
        change=("models: 1", "models: many"),
    ),
    "sparsity 1.5": Case(
        2,
        "audit.yaml:11 variants.1.prune.0 must be less than 1.0, got 1.5",
        change=("[0.5]", "[1.5]"),
    ),
    "0 members": Case(
        2,
        "audit.yaml:12 population.models must be at least 1, got 0",
        change=("models: 1", "models: 0"),
    ),
    "0 members, quietly": Case(
        2,
        "audit.yaml:12 population.models must be at least 1, got 0",
        change=("models: 1", "models: 0"),
        options=("--out", "out", "--quiet"),
    ),
    "a folder of another configuration": Case(
        2,
        'output folder other belongs to another configuration: source.kind is "digits-s" there and '
        '"image_folder" here, source.skew is 0.95 there and absent here, source.styled is '
        '"paper" there and absent here, and 9 more; choose another --out, or remove it',
        options=("--out", "other"),
    ),
    "a folder with other things in it": Case(
        2,
        "output folder pictures holds other files and no config.yaml; choose another --out",
        options=("--out", "pictures"),
    ),
    "a file in place of the folder": Case(
        2,
        "output folder table.csv is a file; choose another --out",
        options=("--out", "table.csv"),
    ),
    "a folder below a file": Case(
        2,
        "output folder table.csv/out is below a file; choose another --out",
        options=("--out", "table.csv/out"),
    ),
}
DATA_CASES = {
    "a missing table, in folders to be made": Case(
        4,
        "source.attributes DIR/tabel.csv is not a file; name a CSV with a row for each image",
        change=("table.csv", "tabel.csv"),
        options=("--out", "deep/down/out"),
    ),
    "an absent label column, where runs go by default": Case(
        4,
        "label column 'faces' is not in DIR/table.csv; it has face, part, sex",
        change=("{column: face}", "{column: faces}"),
        options=(),
    ),
    "an attribute with one value": Case(
        4,
        "attribute 'sex' has one value, 'm', in the test split of DIR/table.csv; a comparison of "
        "groups needs two, so remove it or choose another column",
        table=("d.png,test,no,f", "d.png,test,no,m"),
    ),
    "a missing image, in an empty folder": Case(
        4,
        "1 of 4 rows of DIR/table.csv has no image in DIR/pictures: 'z.png'; add it or remove its "
        "row",
        table=("d.png", "z.png"),
        options=("--out", "empty"),
    ),
    "an image that is none": Case(
        4,
        "image of example 'e.png' cannot be decoded",
        table=("c.png,test", "e.png,train,no,f\nc.png,test"),
    ),
}
CASES = CONFIG_CASES | DATA_CASES
# One refused by the command, one by its first step with nothing begun, one by a step at work.
OWN_PROCESS = (
    "an unknown key",
    "a missing table, in folders to be made",
    "an image that is none",
)


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit code, its words, and the files before and after."""

    code: int
    stdout: str
    stderr: str
    before: dict[str, bytes]
    after: dict[str, bytes]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file with its bytes, and every folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


def in_this_process(*arguments: str, folder: Path) -> Outcome:
    """The same without a process, for its words and what it leaves beside them."""
    before = contents(folder)
    with steps_in_this_process(folder):
        code, out, err = called(*arguments)
    return Outcome(code, out, err, before, contents(folder))


def scotoma(*arguments: str, folder: Path) -> Outcome:
    """Run the command in a folder of its own, whose home and temporary files are there too."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    places = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
    before = contents(folder)
    done = subprocess.run(
        [sys.executable, "-m", "scotoma", *arguments],
        cwd=folder,
        env=os.environ | places | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr, before, contents(folder))


def prepared(folder: Path, case: Case) -> Path:
    """A folder in which everything is right but for one thing."""
    (folder / "pictures").mkdir(parents=True)
    (folder / "empty").mkdir()
    for level, name in enumerate("abcd"):
        Image.new("RGB", (8, 8), (60 * level, 0, 0)).save(folder / "pictures" / f"{name}.png")
    (folder / "pictures" / "e.png").write_text("no image")
    for name, text, (old, new) in (
        ("audit.yaml", CONFIG, case.change),
        ("table.csv", TABLE, case.table),
    ):
        assert old in text
        (folder / name).write_text(text.replace(old, new) if old else text)
    Run.create(folder / "other", parse_config("variants: [dense, {prune: [0.5]}]", "other.yaml"))
    return folder


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All commands; those about data begin the pipeline."""
    root = tmp_path_factory.mktemp("cli").resolve()
    found = {}
    for number, (name, case) in enumerate(CASES.items()):
        folder = prepared(root / f"{number}", case)
        run = scotoma if name in OWN_PROCESS else in_this_process
        found[name] = run("audit", "audit.yaml", *case.options, folder=folder)
    return found


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_answered_in_one_sentence_and_leaves_nothing(
    outcomes: dict[str, Outcome], name: str
) -> None:
    done, case = outcomes[name], CASES[name]
    assert (done.code, done.stdout) == (case.code, "")
    assert done.after == done.before
    last = done.stderr.split("\n")[-2]
    said = re.sub(r"/\S*/cli\d*/\d+(?=/)", "DIR", last)
    assert said.startswith(f"scotoma: {case.sentence}"), done.stderr
    assert "Traceback" not in done.stderr
    if name != "an image that is none":  # steps before that one have said that they began
        assert done.stderr.count("\n") == 1


def test_a_missing_configuration_is_answered_in_one_sentence(tmp_path: Path) -> None:
    done = scotoma("audit", "nowhere.yaml", "--out", "out", folder=tmp_path)
    assert done.code == 2
    assert done.stdout == ""
    assert done.stderr == (
        "scotoma: configuration nowhere.yaml cannot be read: No such file or directory\n"
    )
    assert done.after == done.before


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", "--seed", "-1"),
        ("audit", "--seed", "one"),
        ("audit", "--members", "3"),
        ("audit", "a.yaml", "b.yaml"),
        ("adit",),
    ],
)
def test_a_wrong_command_line_is_explained_and_does_nothing(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = scotoma(*arguments, folder=tmp_path)
    assert done.code == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert arguments[-1] in done.stderr or arguments[-2] in done.stderr
    assert done.after == done.before


def test_a_hostile_key_cannot_steer_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "audit.yaml").write_text('"\\e[2J\\nscotoma: all is well": 1\n')
    done = scotoma("audit", "audit.yaml", folder=tmp_path)
    assert done.code == 2
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def test_version_is_said_on_stdout(tmp_path: Path) -> None:
    done = scotoma("--version", folder=tmp_path)
    assert (done.code, done.stdout, done.stderr) == (0, f"scotoma {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--help",), ("audit", "--version")),
        (("audit", "--help"), ("--out", "--seed", "--deterministic", "--json", "--quiet")),
    ],
)
def test_help_is_said_on_stdout_and_touches_nothing(
    tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = scotoma(*arguments, folder=tmp_path)
    assert done.code == 0
    assert done.stderr == ""
    for word in words:
        assert word in done.stdout
    assert done.after == done.before


def test_the_installed_command_is_the_module(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("scotoma")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"scotoma {__version__}\n"
