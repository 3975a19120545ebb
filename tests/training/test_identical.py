"""One seed for all members of a variant: what the software alone adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from scotoma.commands.shared.configuration import configuration
from scotoma.config import Config, parse_config
from scotoma.datasets import AuditedExamples, store_images
from scotoma.errors import ConfigError
from scotoma.run import Run, read_json
from scotoma.stages.prepare import prepare
from scotoma.storage.files import file_digest
from scotoma.training import population

AUDIT = """
source: {kind: digits-s, recipe: {steps: 10, batch_size: 16}}
label: {column: digit}
variants: [dense, {prune: [0.5]}]
population: {models: 3, identical: true}
"""


def config() -> Config:
    return parse_config(AUDIT, "test")


def test_members_of_a_variant_share_their_seed_and_on_a_processor_their_weights(
    tmp_path: Path,
) -> None:
    run = Run.create(tmp_path / "run", config())
    prepare(run)
    examples = AuditedExamples.read(run.examples).split("train")
    stored = store_images(run.examples, "train", tmp_path)
    shared = population._start_worker(run, (stored, examples.labels, 10))
    digest, records = file_digest(run.examples), []
    for variant in ("dense", "prune-0.5"):
        for index in range(3):
            population._train_chunk(shared, variant, [index], "loop", digest, "test")
            records.append(read_json(run.member(variant, index).with_suffix(".json")))
    seeds = [record["seed"] for record in records]
    assert len({*seeds[:3]}) == len({*seeds[3:]}) == 1
    assert seeds[0] != seeds[3]
    weights = [record["sha256"] for record in records]
    assert len({*weights[:3]}) == len({*weights[3:]}) == 1


def test_deterministic_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"keeps them from differing; leave out one of them"):
        parse_config(AUDIT + "deterministic: true\n", "test")
    (tmp_path / "audit.yaml").write_text(AUDIT)
    with pytest.raises(ConfigError, match=r"^--deterministic keeps runs of one seed from differ"):
        configuration(tmp_path / "audit.yaml", deterministic=True, seed=None, data=None)


def test_models_made_elsewhere_have_no_seeds_to_share() -> None:
    text = """
source: {kind: onnx, models: m, images: i, attributes: a.csv,
         split: {column: s, train: 0, test: 1}}
label: {column: y}
variants: [dense, {onnx: [small]}]
population: {identical: true}
"""
    with pytest.raises(ConfigError, match=r"identical is for networks .*kind is onnx"):
        parse_config(text, "test")
