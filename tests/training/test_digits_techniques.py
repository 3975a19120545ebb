"""Techniques on dim and inverted digits: who gains, and where adding heads fails."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from scotoma.config import parse_config
from scotoma.datasets import decode_images
from scotoma.mitigation.decide import fit
from scotoma.mitigation.groups import training_groups
from scotoma.sources.reading import load_examples
from scotoma.training.engine import Member, Training, normalise
from scotoma.training.technique import technique_task

pytestmark = pytest.mark.thorough
AUDIT = """
source: {{kind: digits-s, styled: {styled}, recipe: {{steps: 200, optimiser: adam,
          learning_rate: 0.002, precision: float32}}}}
label: {{column: digit}}
groups: {{style: {{column: style}}}}
variants: [dense, {{prune: [0.5]}}]
mitigation: {{technique: {technique}, attribute: style}}
"""


def accuracy(technique: str, styled: str) -> float:
    """Accuracy of two members over test digits in both styles."""
    config = parse_config(AUDIT.format(technique=technique, styled=styled), "test")
    examples = load_examples(config)
    train, test = examples.split("train"), examples.split("test")
    groups, classes = training_groups(config, train), len(examples.classes)
    assert config.mitigation
    task = technique_task(config.mitigation, config.source.recipe, train.labels, groups, classes)
    training = Training(
        [Member("dense", k, k) for k in range(2)], decode_images(train), train.labels,
        model="tiny-convnet", task=task, recipe=config.source.recipe,
        attributes=groups.codes[:, None],
    )  # fmt: skip
    state = training.advance(training.start())
    shown = normalise(torch.from_numpy(decode_images(test))).expand(2, -1, -1, -1, -1)
    scores = training._scores(state.parameters, state.buffers, shown).numpy()
    width = np.zeros((len(train.labels), scores.shape[-1]))
    name = technique if technique in ("DI1", "DI2") else "argmax"
    rule = fit(name, width, train.labels, groups.codes if name != "argmax" else None)
    codes = (test.table["style"] == "styled").to_numpy().astype(np.int64)
    return float(np.mean([rule(own, codes) == test.labels for own in scores]))


def test_adding_heads_helps_where_groups_share_features_and_fails_where_not() -> None:
    assert accuracy("DI2", "dim") > accuracy("DI1", "dim") + 0.05
    assert accuracy("DI2", "inverted") < accuracy("DI1", "inverted") - 0.05
    assert accuracy("RS", "inverted") > 0.8
