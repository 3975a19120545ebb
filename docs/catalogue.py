"""Write every component as kubeflow/pipelines-components asks for one: a folder of its own.

python docs/catalogue.py FOLDER
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from scotoma import __version__, components
from scotoma.pipelines.placing import CORE


class Entry(NamedTuple):
    """What no signature says of a component."""

    category: str
    stability: str
    tags: tuple[str, ...]


VERIFIED = "2026-11-28T00:00:00Z"  # the day on which the tests last ran against these versions
PIPELINES = {"name": "Pipelines", "version": ">=2.17.0"}
STEP = Entry("evaluation", "beta", ("compression", "audit"))
ENTRIES = {
    "paired_verdict": Entry("evaluation", "beta", ("compression", "quantization", "gate")),
    "prepare_data": STEP._replace(category="data_processing"),
    "train_dense": STEP._replace(category="training"),
    "prune_magnitude": STEP._replace(category="training", tags=("compression", "pruning")),
    "quantize_int8": STEP._replace(category="training", tags=("compression", "quantization")),
}
TYPES = {"String": "str", "Integer": "int", "Boolean": "bool"}
HEAD = re.compile(r"from scotoma\.components\.image import \w+\n\n\n@dsl\.component\([^)]*\)")


def write(folder: Path) -> list[Path]:
    """Write `components/CATEGORY/NAME` for every component.

    Args:
        folder: A checkout of kubeflow/pipelines-components, or an empty folder.

    Returns:
        The folders of the components.
    """
    written = []
    for name in components.__all__:
        entry, component = ENTRIES.get(name, STEP), getattr(components, name)
        own = folder / "components" / entry.category / name
        own.mkdir(parents=True, exist_ok=True)
        metadata = {
            "name": name,
            "stability": entry.stability,
            "dependencies": {"kubeflow": [PIPELINES]},
            "tags": list(entry.tags),
            "lastVerified": VERIFIED,
        }
        files = {
            "__init__.py": f'from .component import {name}\n\n__all__ = ["{name}"]\n',
            "component.py": standing_alone(component),
            "example_pipelines.py": example(name, component.component_spec),
            "metadata.yaml": yaml.safe_dump(metadata, sort_keys=False),
            "OWNERS": yaml.safe_dump({"approvers": [], "reviewers": []}),
            "README.md": readme(name, component.component_spec, entry),
        }
        for file, text in files.items():
            (own / file).write_text(text, encoding="utf-8")
        written.append(own)
    return written


def standing_alone(component: Any) -> str:
    """The source of a component that installs what it imports, in a plain image of Python."""
    extra = "" if component.name in CORE else "[all]"
    head = (
        f'\n@dsl.component(\n    base_image="python:3.11",\n'
        f'    packages_to_install=["scotoma{extra}=={__version__}"],\n)'
    )
    source = inspect.getsource(sys.modules[component.python_func.__module__])
    return HEAD.sub(lambda _: head, source)


def example(name: str, spec: Any) -> str:
    """A pipeline of the one component: values are parameters, artifacts are imported."""
    parameters, body, arguments = [], [], []
    for key, one in spec.inputs.items():
        if one.optional:
            continue
        kind = _type(one)
        given = f"{key}.output"
        if kind in TYPES:
            parameters.append(f"{key}: {TYPES[kind]}")
            given = key
        elif one.is_artifact_list:
            parameters.append(f"{key}_uris: list")
            body.append(f"with dsl.ParallelFor({key}_uris) as uri:")
            body.append(f"    {key} = {_imported('uri', kind)}")
            given = f"dsl.Collected({given})"
        else:
            parameters.append(f"{key}_uri: str")
            body.append(f"{key} = {_imported(f'{key}_uri', kind)}")
        arguments.append(f"{key}={given}")
    call = f"{name}({', '.join(arguments)})"
    if any(_type(one) == "PipelineTaskFinalStatus" for one in spec.inputs.values()):
        body += [f"with dsl.ExitHandler({call}):", f"    {_imported('run_uri', 'Artifact')}"]
    else:
        body.append(call)
    return "\n".join((
        "from kfp import dsl\n",
        f"from .component import {name}\n\n",
        f'@dsl.pipeline(name="{name.replace("_", "-")}-example")',
        f"def {name}_example({', '.join(parameters)}) -> None:",
        f'    """{spec.description}"""',
        *(f"    {line}" for line in body), "",
    ))  # fmt: skip


def _imported(uri: str, kind: str) -> str:
    return f"dsl.importer(artifact_uri={uri}, artifact_class=dsl.{kind})"


def readme(name: str, spec: Any, entry: Entry) -> str:
    """What the component does, takes and leaves, by its signature."""
    lines = [f"# {name}", "", f"Stability: {entry.stability}", "", spec.description, ""]
    lines += ["## Inputs", "", "| name | type | default | what it is |", "|---|---|---|---|"]
    for key, one in spec.inputs.items():
        default = f"`{one.default!r}`" if one.default is not None else "none"
        lines.append(
            f"| `{key}` | {_type(one)} | {default if one.optional else 'required'} "
            f"| {one.description} |"
        )
    if spec.outputs:
        lines += ["", "## Outputs", "", "| name | type | what it is |", "|---|---|---|"]
        lines += [
            f"| `{key}` | {_type(one)} | {one.description} |" for key, one in spec.outputs.items()
        ]
    lines += ["", "`example_pipelines.py` holds a pipeline that compiles.", ""]
    return "\n".join(lines)


def _type(one: Any) -> str:
    return str(one.type).removeprefix("system.").partition("@")[0]


if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        print(path)
