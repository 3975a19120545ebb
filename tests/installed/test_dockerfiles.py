"""What makes the images: rules that the Dockerfile keeps, locks that agree with pyproject."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scotoma._version import __version__
from scotoma.config import parse_config
from scotoma.pipelines import compile_pipeline

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
LOCKS = ("core", "components", "mlflow", "tools")
PYTHONS = ("3.11", "3.12", "3.13")
PIN = re.compile(r"^(?P<name>[\w.-]+)(\[[\w,-]+\])?==(?P<version>\S+?)(?: ; (?P<marker>.+?))? \\$")


def instructions() -> list[str]:
    """The Dockerfile without comments, one instruction a line."""
    text = re.sub(r"^\s*#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.M)
    return [" ".join(line.split()) for line in re.sub(r"\\\n", " ", text).splitlines() if line]


def stages() -> dict[str, list[str]]:
    """The instructions of every stage, after those of the stages that it stands on."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in instructions():
        if named := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            base, name = named.groups()
            found[name] = [*found.get(base, []), line]
        elif name:
            found[name].append(line)
    return found


def pins(lock: str, python: str = "3.11") -> dict[str, Version]:
    """Package: version, of a lock, for a Python on Linux."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    found: dict[str, Version] = {}
    for line in (DOCKER / "locks" / f"{lock}.txt").read_text().splitlines():
        if (pin := PIN.match(line)) and (
            not pin["marker"] or Marker(pin["marker"]).evaluate(environment)
        ):
            name = canonicalize_name(pin["name"])
            assert name not in found, f"{lock}: {name} twice"
            found[name] = Version(pin["version"])
    return found


def wanted(lock: str) -> list[Requirement]:
    """What the packages of a lock were chosen for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    extra = DOCKER / "wanted" / f"{lock}.in"
    lines = extra.read_text().splitlines() if extra.exists() else []
    if lock in ("core", "components"):
        lines += [*project["dependencies"], *extras["kubeflow"], *extras["s3"]]
    if lock == "components":
        lines += [*extras["train"], *extras["tracking"]]
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", LOCKS)
def test_locks_agree_with_what_is_wanted(lock: str, python: str) -> None:
    found = pins(lock, python)
    for requirement in wanted(lock):
        name = canonicalize_name(requirement.name)
        assert name in found, f"{lock}.txt lacks {name}; run docker/lock"
        assert found[name] in requirement.specifier, f"{lock}.txt: {name}; run docker/lock"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_of_a_lock_has_a_version_and_hashes(lock: str) -> None:
    text = (DOCKER / "locks" / f"{lock}.txt").read_text()
    for entry in re.sub(r"\\\n\s+", r"\\", text).splitlines():
        package, *hashes = entry.split("\\")
        assert PIN.match(f"{package.strip()} \\"), entry[:80]
        assert hashes, package
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}\s*", found) for found in hashes)


@pytest.mark.parametrize("python", PYTHONS)
def test_all_steps_have_the_same_packages_where_they_have_any(python: str) -> None:
    core, components = pins("core", python), pins("components", python)
    assert core.items() <= components.items()


def test_the_core_image_has_no_torch() -> None:
    heavy = {"torch", "torchvision", "onnx", "onnxruntime", "mlflow", "scikit-learn", "triton"}
    assert not heavy & pins("core").keys()
    assert heavy <= pins("components").keys()


def test_images_run_as_nobody_and_say_what_they_are() -> None:
    for target in ("core", "components", "mlflow"):
        lines = stages()[target]
        users = [line for line in lines if line.startswith("USER ")]
        assert re.fullmatch(r"USER [1-9]\d*:[1-9]\d*", users[-1]), (
            target
        )  # a number: Kubernetes asks
        after = lines[lines.index(users[-1]) :]
        assert not [line for line in after if line.startswith(("RUN", "COPY"))], target
        labels = " ".join(line for line in lines if line.startswith("LABEL"))
        for key in ("title", "description", "version", "revision", "licenses"):
            assert f"org.opencontainers.image.{key}=" in labels, f"{target}: {key}"


def test_nothing_is_fetched_but_locked_packages() -> None:
    lines = instructions()
    assert not [line for line in lines if line.startswith("ADD")]
    assert not re.search(r"https?://|curl|wget|apt-get|git clone", "\n".join(lines))
    bases = {line.split()[1] for line in lines if line.startswith("FROM")}
    assert bases <= {"${BASE_IMAGE}"} | stages().keys()
    script = re.sub(r"\\\n", " ", (DOCKER / "pip").read_text())
    installing = re.compile(r"\bpip(?: --python \S+)? install ")
    found = [line for line in [*lines, *script.splitlines()] if installing.search(line)]
    assert len(found) == 3
    for line in found:
        assert "--require-hashes" in line or "--no-index" in line, line


def test_no_secret_comes_by_another_way_than_a_mount() -> None:
    named = re.findall(r"^(?:ARG|ENV) (\w+)", "\n".join(instructions()), re.M)
    assert {"BASE_IMAGE", "VERSION", "REVISION"} <= set(named)
    assert not [name for name in named if re.search("TOKEN|PASSW|SECRET|KEY|INDEX", name)]
    copied = [line for line in instructions() if line.startswith("COPY") and "--from" not in line]
    assert all(not line.startswith("COPY . ") for line in copied)


def test_the_pipeline_asks_for_the_images_that_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are asked of docker/build itself, with a docker that only writes them down."""
    for name in ("SCOTOMA_IMAGE", "SCOTOMA_CORE_IMAGE"):
        assert name not in os.environ
    engine = tmp_path / "docker"
    engine.write_text('#!/bin/sh\necho "$@" >>"$0.log"\n')
    engine.chmod(0o755)
    environment = os.environ | {"DOCKER": str(engine), "SBOM": str(tmp_path / "sbom")}
    subprocess.run([DOCKER / "build"], env=environment, check=True)
    lines = (tmp_path / "docker.log").read_text().splitlines()
    calls = [line for line in lines if line.startswith("build ")]
    assert {path.name for path in (tmp_path / "sbom").iterdir()} == {
        f"{name}-{__version__}.json" for name in ("scotoma-core", "scotoma", "scotoma-mlflow")
    }
    built = {re.findall(r"--target (\S+) --tag (\S+)", call)[0] for call in calls}
    assert built == {
        ("core", f"scotoma-core:{__version__}"),
        ("components", f"scotoma:{__version__}"),
        ("mlflow", f"scotoma-mlflow:{__version__}"),
    }
    config = parse_config("variants: [dense, {int8: [static]}]", "a.yaml")
    compile_pipeline(config, tmp_path / "pipeline.yaml")
    (definition, *_) = yaml.safe_load_all((tmp_path / "pipeline.yaml").read_text())
    executors = definition["deploymentSpec"]["executors"].values()
    asked = {executor["container"]["image"] for executor in executors}
    assert asked == {f"scotoma-core:{__version__}", f"scotoma:{__version__}"}


def test_an_image_that_is_none_is_refused() -> None:
    done = subprocess.run([DOCKER / "build", "tiny"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "docker/build makes core, components and mlflow, got tiny; name one of these\n"
    )


def test_an_image_on_a_base_that_may_change_is_not_signed() -> None:
    environment = os.environ | {"COSIGN_KEY": "cosign.key", "BASE_IMAGE": "python:3.13-slim"}
    done = subprocess.run(
        [DOCKER / "build"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        2,
        "BASE_IMAGE must be named by digest to be signed, got python:3.13-slim; give "
        "NAME@sha256:...\n",
    )


def test_a_base_that_is_named_by_digest_reaches_the_build_without_a_note() -> None:
    base = f"python@sha256:{'0' * 64}"
    environment = os.environ | {"DOCKER": "echo", "BASE_IMAGE": base}
    environment.pop("COSIGN_KEY", None)
    done = subprocess.run(
        [DOCKER / "build", "core"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"--build-arg BASE_IMAGE={base} " in done.stdout


def test_an_image_started_alone_answers_nobody_without_a_password() -> None:
    (command,) = [line for line in stages()["mlflow"] if line.startswith("CMD")]
    assert '"--host", "127.0.0.1"' in command


def test_the_context_holds_the_sources_and_nothing_else() -> None:
    allowed = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    assert allowed[1] == "*"
    assert not {"!.git", "!runs", "!.venv", "!."} & set(allowed)


def test_a_pod_gets_the_drivers_libraries_only_where_it_asks_for_a_gpu() -> None:
    (line,) = (one for one in stages()["components"] if "NVIDIA" in one)
    assert line == "ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility"  # libcuda, nvidia-smi
    # It would give every pod of the image every GPU of its node.
    assert "NVIDIA_VISIBLE_DEVICES" not in "".join(instructions())
    assert not any("NVIDIA" in one for one in stages()["core"])
    cuda = [name for name in pins("components") if name.startswith("nvidia-")]
    assert {"nvidia-cudnn-cu13", "nvidia-cublas", "nvidia-cuda-runtime"} <= set(cuda)
    assert not [name for name in pins("core") if name.startswith("nvidia-")]
