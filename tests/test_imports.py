"""The arrows: which module may import which, read from the sources and seen in real imports."""

from __future__ import annotations

import ast
import functools
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "scotoma": ROOT / "scotoma",
    "scotoma.components": ROOT / "components",
    "scotoma.pipelines": ROOT / "pipelines",
}

# From left to right: a question imports only those of the rows before its own, and itself.
SERVING = {"_version", "audit", "config", "errors", "extras", "printable", "published"}
SERVING |= {"document", "page", "processes", "questions", "run", "storage"}
CHAIN = [
    {"numbers"},
    {"answers"},
    {"readers"},
    {"detection"},
    {"datasets"},
    {"mitigation"},
    {"training", "corruptions"},
    {"quantization"},
    {"inference"},
    {"predictions"},
    {"sources"},
    {"power"},
    {"divergence", "impact", "bias", "slices", "robustness"},
    {"comparison", "fix", "runs", "verdict"},
    {"costs"},
    {"tracking", "papers", "review", "study"},
    {"report"},
    {"evidence"},
]
TOP = {"notebook", "pytest", "cli", "__main__", "commands", "components", "pipelines", "steps"}
RANK = {name: rank for rank, names in enumerate([SERVING, *CHAIN, TOP]) for name in names}
BESIDE = {
    ("audit", "answers"),
    ("config", "answers"),
    ("config", "sources"),
    ("review", "study"),
    ("robustness", "divergence"),
}  # neighbours that may be imported
APART = {("report", "tracking")}
APART |= {("answers", name) for name in ("audit", "config", "processes", "run", "storage")}

MEASURING = {"answers", "predictions", "numbers", "power"}
MEASURING |= next(row for row in CHAIN if "bias" in row)
DECIDING = "scotoma.mitigation.decide"
NOT_MEASURING = {"torch", "torchvision", "kfp", "kfp_kubernetes", "mlflow"}
HEAVY = {"torch", "kfp", "mlflow", "polars", "scipy", "numpy", "pydantic"}


def modules() -> dict[str, Path]:
    """Dotted name of every module of the package, and its file."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *parts))
            found[name.removesuffix(".__init__")] = path
    return found


def imported(source: str, module: str, *, package: bool = False) -> set[str]:
    """Every name that a module imports, wherever in it: dotted, `needs` and `import_module` too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = module.split(".")
                above = here[: len(here) - node.level + package]
                base = ".".join([*above, *([base] if base else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func).rpartition(".")[2]
            name = node.args[0]
            if called in ("needs", "import_module", "__import__") and isinstance(
                name, ast.Constant
            ):
                found.add(str(name.value))
    return found


@functools.cache
def imports() -> dict[str, set[str]]:
    """Every name that each module imports: 550 files are parsed once for all tests."""
    return {
        name: imported(path.read_text("utf-8"), name, package=path.name == "__init__.py")
        for name, path in modules().items()
    }


def strings(source: str) -> set[str]:
    """Every text in a module, such as the argument after `python -m`."""
    return {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def question(name: str) -> str | None:
    """The question that a module of ours belongs to: `bias` for scotoma.bias.clarify.cells."""
    parts = name.split(".")
    return parts[1] if parts[0] == "scotoma" and len(parts) > 1 else None


def forbidden(importer: str, target: str) -> bool:
    """Whether an arrow from one question to another points the wrong way."""
    if importer == target or (importer, target) in BESIDE:
        return False
    if (importer, target) in APART:
        return True
    if "__main__" in (importer, target) or RANK[importer] == RANK["cli"]:
        return False
    if importer in SERVING:
        return target not in SERVING
    return RANK[target] >= RANK[importer]


def arrows() -> Iterator[tuple[str, str, str]]:
    """Module, its question, and the question of each module of ours that it imports."""
    known = modules()
    for name, targets in imports().items():
        source = question(name)
        for target in targets:
            aim = question(target)
            if source is not None and aim is not None and f"scotoma.{aim}" in known:
                yield name, source, aim


def is_heavy(name: str, heavy: set[str]) -> bool:
    root = name.partition(".")[0]
    return root in heavy or root.startswith("onnx")


# --- the scanner itself ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "module", "found"),
    [
        ("import torch.nn as nn, math", "scotoma.bias", {"torch.nn", "math"}),
        ("from torch import nn", "scotoma.bias", {"torch.nn"}),
        ("def f():\n    import torch", "scotoma.bias", {"torch"}),
        ("if TYPE_CHECKING:\n    from scotoma import run", "scotoma.bias", {"scotoma.run"}),
        ("from ..run import Run", "scotoma.bias.counting", {"scotoma.run.Run"}),
        ("from . import rates", "scotoma.bias.counting", {"scotoma.bias.rates"}),
        ('torch = needs("torch", "train", "training")', "scotoma.steps", {"torch"}),
        ('importlib.import_module("kfp.local")', "scotoma.steps", {"kfp.local"}),
    ],
)
def test_scanner_finds_every_way_to_import(source: str, module: str, found: set[str]) -> None:
    assert imported(source, module) == found


def test_scanner_takes_a_package_as_the_folder_that_it_is() -> None:
    assert imported("from . import rates", "scotoma.bias", package=True) == {"scotoma.bias.rates"}


@pytest.mark.parametrize(
    ("importer", "target", "wrong"),
    [
        ("bias", "predictions", False),
        ("audit", "answers", False),
        ("answers", "errors", False),
        ("answers", "audit", True),
        ("answers", "run", True),
        ("predictions", "bias", True),
        ("bias", "divergence", True),
        ("slices", "bias", True),
        ("run", "config", False),
        ("config", "datasets", True),
        ("run", "steps", True),
        ("report", "tracking", True),
        ("report", "verdict", False),
        ("report", "bias", False),
        ("verdict", "report", True),
        ("training", "inference", True),
        ("training", "mitigation", False),
        ("steps", "report", False),
        ("report", "steps", True),
        ("cli", "commands", False),
    ],
)
def test_arrows_point_to_the_left(importer: str, target: str, wrong: bool) -> None:
    assert forbidden(importer, target) is wrong


# --- the package ----------------------------------------------------------------------------------


def drawn() -> str:
    """The arrows as CONTRIBUTING.md shows them."""
    rows = (sorted(names) for names in CHAIN)
    parts = (names[0] if len(names) == 1 else f"{{{', '.join(names)}}}" for names in rows)
    lines = [""]
    for part in parts:
        step = f" -> {part}" if lines[0] else part
        if len(lines[-1]) + len(step) > 90:
            lines.append("        ")
        lines[-1] += step
    return "\n".join(lines)


def test_the_arrows_in_the_guide_are_those_that_hold() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"```text\n{drawn()}\n```" in guide, f"CONTRIBUTING.md must show\n{drawn()}"
    serving = ", ".join(f"`{name}`" for name in sorted(SERVING))
    assert serving in " ".join(guide.split()), f"CONTRIBUTING.md must name {serving}"


def test_the_table_of_packages_in_the_guide_is_what_their_docstrings_say() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "modules.py"))
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert guide == script["page"](), "run python docs/modules.py"
    packages = {f"`scotoma/{path.parent.name}`" for path in ROOT.glob("scotoma/*/__init__.py")}
    assert packages <= {*re.findall(r"`scotoma/\w+`", guide)}


def test_every_module_has_its_place_in_the_house() -> None:
    assert {question(name) for name in modules()} - {None} <= RANK.keys()


def test_no_module_imports_what_stands_right_of_it() -> None:
    wrong = {f"{name} imports {aim}" for name, source, aim in arrows() if forbidden(source, aim)}
    assert sorted(wrong) == []
    assert len(list(arrows())) > 60  # the scanner has seen the house


def test_measuring_half_names_no_training_pipeline_or_tracking_library() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, targets in imports().items()
        if question(name) in MEASURING or name.startswith(DECIDING)
        for target in targets
        if is_heavy(target, NOT_MEASURING)
    ]
    assert wrong == []


IMPORT_EACH = """
import importlib, json, sys
seen = {}
for name in json.loads(sys.argv[1]):
    before = set(sys.modules)
    importlib.import_module(name)
    seen[name] = sorted({new.partition(".")[0] for new in set(sys.modules) - before})
print(json.dumps(seen))
"""


def loaded_by(*names: str) -> dict[str, list[str]]:
    """Top-level packages that each import loads in a fresh process, beyond those before it."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH, json.dumps(names)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_importing_the_measuring_half_loads_none_of_them() -> None:
    names = [name for name in modules() if question(name) in MEASURING or name.startswith(DECIDING)]
    assert {"scotoma.predictions", "scotoma.numbers", "scotoma.bias.counting"} <= set(names)
    loaded = loaded_by(*names)
    wrong = [
        f"importing {name} loads {package}"
        for name, packages in loaded.items()
        for package in packages
        if is_heavy(package, NOT_MEASURING)
    ]
    assert wrong == []
    assert "numpy" in {package for packages in loaded.values() for package in packages}


COMPARE = """
import sys
from scotoma.cli import main
sys.argv = ["scotoma", "compare", "a.csv", "b.csv", "--label", "label", "--predicted", "said"]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print("loaded", sorted({"scipy.stats", "scipy.optimize", "torch.nn"} & set(sys.modules)))
"""


def test_comparing_loads_no_part_of_scipy_that_is_slow_to_import(tmp_path: Path) -> None:
    """Half a second of processor time each, for a formula or two."""
    for name, wrong in (("a", 7), ("b", 5)):
        rows = [f"{i},{i % 3},{(i + (i % wrong == 0)) % 3},{i % 2}" for i in range(300)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,label,said,sex", *rows]) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", COMPARE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("loaded []\n"), done.stdout + done.stderr


def test_importing_the_command_loads_nothing_heavy() -> None:
    loaded = loaded_by("scotoma.cli", "scotoma.__main__")["scotoma.cli"]
    assert "typer" in loaded
    assert [package for package in loaded if is_heavy(package, HEAVY)] == []


# --- sources --------------------------------------------------------------------------------------


def questions_of_kind(source: str) -> list[str]:
    """Where code asks which kind a source is, and not what it has."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                wrong = re.search(r"\w*Source\b", ast.unparse(kinds))
            case ast.Call(func=ast.Name(id="hasattr" | "getattr"), args=[asked, *_]):
                wrong = re.search(r"(^|\.|_)source$", ast.unparse(asked))
            case ast.MatchMapping(keys=[ast.Constant("source"), *_]):
                wrong = "'kind'" in ast.unparse(node)
            case ast.Compare() | ast.Match():
                compared = (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()
                sides = compared or (node.subject,)
                wrong = any(re.search(r"(^|\.|_)source\.kind$", ast.unparse(one)) for one in sides)
            case _:
                continue
        if wrong:
            found.append(f"{node.lineno}: {ast.unparse(node).splitlines()[0]}")
    return found


@pytest.mark.parametrize(
    "asked",
    [
        "isinstance(config.source, OnnxSource)",
        "isinstance(run.config.source, (PredictionsSource, onnx.OnnxSource))",
        "if not isinstance(source, CelebaSource | CocoSource): pass",
        "config.source.kind == 'onnx'",
        "'scores' != source.kind",
        "source.kind in KINDS",
        "hasattr(config.source, 'recipe')",
        "getattr(wanted_source, 'classes', ())",
        "match source.kind:\n    case 'onnx': pass",
        "match content:\n    case {'source': {'kind': 'scores'}}: pass",
    ],
)
def test_the_scanner_sees_every_way_to_ask_a_source_for_its_kind(asked: str) -> None:
    assert len(questions_of_kind(asked)) == 1


def test_nobody_asks_a_source_for_its_kind() -> None:
    """What it has is asked of `sources/contract.py`: a new kind is a file and a line there."""
    wrong = [
        f"{name}:{found}"
        for name, path in modules().items()
        if not name.startswith("scotoma.sources.")
        for found in questions_of_kind(path.read_text("utf-8"))
    ]
    assert wrong == []


# --- kfp ------------------------------------------------------------------------------------------

KUBEFLOW = ("kfp", "kfp_kubernetes", "kfp_server_api", "scotoma.pipelines", "scotoma.components")
FOR_KUBEFLOW = ("scotoma.pipelines", "scotoma.components", "scotoma.commands.kubeflow")


def test_only_the_pipelines_and_their_commands_use_kfp() -> None:
    """Not even inside a function, nor as `python -m scotoma.pipelines.MODULE`."""
    users = set()
    for name, path in modules().items():
        source = path.read_text("utf-8")
        started = {
            text
            for text in (strings(source) if '"scotoma.' in source else ())
            if text.startswith("scotoma.")
        }
        for target in imports()[name] | started:
            if any(target == part or target.startswith(f"{part}.") for part in KUBEFLOW):
                users.add(name)
    assert "scotoma.pipelines.client" in users
    assert {name for name in users if not name.startswith(FOR_KUBEFLOW)} == set()
