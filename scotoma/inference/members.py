"""Which files hold the members of a run, and what are they run as?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.datasets import AuditedExamples
from scotoma.datasets.parts import part_digest
from scotoma.errors import DataError
from scotoma.inference import Network
from scotoma.run import Run, read_json
from scotoma.run.shards import Shard

if TYPE_CHECKING:
    from scotoma.config import Config, Variant


def members_of(config: Config, variant: str, shard: Shard) -> range:
    """List the members of a shard that a variant has: where it has fewer models, perhaps none."""
    models = config.models_of(variant)
    return range(min(shard.members.start, models), min(shard.members.stop, models))


def member_files(run: Run, variants: list[str], shard: Shard) -> list[Path]:
    """List the weights and the record of every member of a shard."""
    return [
        path
        for variant in variants
        for index in members_of(run.config, variant, shard)
        for path in (run.member(variant, index), run.member(variant, index).with_suffix(".json"))
    ]


def held_members(run: Run, variant: str, count: int | None = None) -> list[Path]:
    """The files of a variant's members, or of the first of them.

    Raises:
        DataError: One is gone.
    """
    many = run.config.models_of(variant) if count is None else count
    members = [run.member(variant, index) for index in range(many)]
    run.fetch(*members)
    refuse_absent(members, variant)
    return members


def refuse_absent(members: list[Path], variant: str) -> None:
    """Refuse a variant of which a member is gone."""
    if absent := [path for path in members if not path.is_file()]:
        raise DataError(
            f"{variant} must have its members to run or compress them again, got no "
            f"{absent[0].name}; repeat the audit, which makes them again"
        )


def quantized_variants(run: Run) -> list[Variant]:
    """List the variants that are made of trained members without training."""
    return [v for v in run.config.resolved_variants if v.derived_from and not v.made_elsewhere]


def graph_files(run: Run, shard: Shard) -> list[Path]:
    """List the file of the network as a graph, if the audit exports one."""
    return (
        [run.path("shards", f"{shard.index:03d}", "graph.onnx")] if quantized_variants(run) else []
    )


def manifests(run: Run) -> list[Path]:
    """List what says of each population of an audit what it is, and of its members."""
    return [run.population(one.name) / "manifest.json" for one in run.config.resolved_variants]


def recorded_members(run: Run, variant: str) -> list[dict[str, Any]]:
    """Read what the manifest of a population says of its members."""
    members: list[dict[str, Any]] = read_json(run.population(variant) / "manifest.json")["members"]
    return members


def score_files(run: Run, variant: str, members: range) -> list[Path]:
    """List the files of every score of a variant's members; none where none are kept."""
    if not run.config.keeps_every_score:
        return []
    paths = [run.scores(variant, index) for index in members]
    return [path for one in paths for path in (one, one.with_suffix(".json"))]


def calibration_digest(run: Run, variants: list[Variant]) -> str:
    """Digest of what calibration images are chosen from; of their groups too where they count."""
    digest = part_digest(run, "calibration")
    if any(variant.protocol == "group-balanced" for variant in variants):
        digest += part_digest(run, "balanced calibration")
    return digest


def labels_network(config: Config, examples: AuditedExamples) -> Network:
    """What members are run as where labels are asked of them, one an image or several."""
    several = tuple(config.label.several.values())
    network = network_of(config, len(examples.several) or len(examples.classes))
    return replace(network, thresholds=several)


def network_of(config: Config, classes: int) -> Network:
    """What the members of an audit are run as."""
    return config.source.run_as(config, classes)
