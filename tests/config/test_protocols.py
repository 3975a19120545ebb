"""The protocol files say what the papers say, and can be costed on data of their kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scotoma import published
from scotoma.config import Config, load_config
from tests.conftest import ROOT
from tests.helpers.commands import measured
from tests.helpers.synthetic import celeba

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
CIE, PIE = published.load("cie"), published.load("pie")
# Models of a population, what the paper says of training, table that names its levels.
PAPERS = {
    "celeba-blond": (CIE.protocol.population, CIE.protocol, CIE.table1),
    "imagenet-pie": (PIE.protocol.population, PIE.protocol.imagenet, PIE.table2),
    "cifar10-pie": (PIE.protocol.population, PIE.protocol.cifar10, PIE.table3),
}
MODELS = {"celeba-blond": "resnet18", "imagenet-pie": "resnet50", "cifar10-pie": "wrn-22-8"}


def protocol(name: str) -> Config:
    return load_config(EXAMPLES / f"{name}.yaml")


def trained(config: Config) -> Any:
    source: Any = config.source
    return source


@pytest.mark.parametrize("name", PAPERS)
def test_protocol_is_the_papers(name: str) -> None:
    models, training, table = PAPERS[name]
    config = protocol(name)
    recipe = trained(config).recipe
    first, every = training.pruning.begin_step, training.pruning.every_steps
    updates = (training.pruning.end_step - first) // every
    assert recipe.steps == training.steps
    assert recipe.mask_updates == (first, first + updates * every, every)
    assert config.population.models == models == 30
    levels = [level for level in table.rows if level.replace(".", "").isdigit()]
    found = [v.sparsity for v in config.resolved_variants if v.kind in ("dense", "prune")]
    assert found == [float(level) for level in levels]


def test_protocol_of_celeba_has_the_papers_label_groups_and_batches() -> None:
    config = protocol("celeba-blond")
    assert trained(config).recipe.batch_size == CIE.protocol.batch_size
    columns = [group.column for group in config.groups.attributes.values()]
    assert (
        CIE.protocol.dataset
        == f"CelebA, target {config.label.column}, protected " + " and ".join(columns)
    )
    modes = [v.mode for v in config.resolved_variants if v.kind == "int8"]
    assert modes == ["dynamic", "static"]
    assert [v.images for v in config.resolved_variants if v.mode == "static"] == [100]


@pytest.mark.parametrize("name", MODELS)
def test_protocol_names_the_papers_network(name: str) -> None:
    assert trained(protocol(name)).model == MODELS[name]


def imagenet_like(folder: Path) -> Path:
    """Images of several sizes and both forms, in two classes."""
    rows = ["image,label,partition"]
    for part in ("train", "val"):
        for index in range(6):
            label = f"n{index % 2:08d}"
            name = f"{part}/{label}/{index}.JPEG"
            path = folder / "imagenet" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (300 + 20 * index, 250), (40 * index, 0, 0)).save(path, "JPEG")
            rows.append(f"{name},{label},{part}")
    (folder / "imagenet.csv").write_text("\n".join(rows) + "\n")
    return folder


def planned(path: Path, *arguments: str | Path) -> dict[str, Any]:
    found = measured("audit", path, "--plan", "--quiet", *arguments)
    assert found["total"]["disk_bytes"] > 0
    assert found["total"]["temporary_bytes"] > 0
    return found


def disk_bytes(forecast: dict[str, Any], step: str) -> int:
    return next(row["disk_bytes"] for row in forecast["steps"] if row["step"] == step)


@pytest.mark.thorough
def test_cost_of_the_celeba_protocol_is_told(tmp_path: Path) -> None:
    """With a trial, whose few steps of a whole ResNet-18 take their time."""
    celeba.synthetic_celeba(tmp_path, examples=60)
    found = planned(EXAMPLES / "celeba-blond.yaml", "--data", tmp_path)
    assert found["images"]["shape"] == [128, 128]
    assert found["total"]["seconds"] > 3600
    assert disk_bytes(found, "train") > 30 * 44e6  # 11.2 million parameters in float32


@pytest.mark.thorough
def test_cost_of_the_imagenet_protocol_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scotoma.steps.plan.TRIAL_S", 0.0)
    path = imagenet_like(tmp_path) / "imagenet-pie.yaml"
    path.write_text((EXAMPLES / "imagenet-pie.yaml").read_text())
    found = planned(path)
    assert found["images"]["shape"] == [224, 224]
    assert disk_bytes(found, "train") > 30 * 94e6  # 23.5 million parameters


def test_cost_of_the_cifar10_protocol_is_told(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scotoma.steps.plan.TRIAL_S", 0.0)
    found = planned(EXAMPLES / "cifar10-pie.yaml", "--data", shared / "data" / "cifar10")
    assert found["examples"]["train"] == 50_000
    assert disk_bytes(found, "train") > 30 * 68e6  # 17.2 million parameters
