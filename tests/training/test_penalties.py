"""A-L2 and A-ALM in training, against a plain loop of torch in the notation of the papers."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
from torch.nn import functional

from scotoma.config import Mitigation, Recipe
from scotoma.mitigation.groups import TrainingGroups
from scotoma.mitigation.learning.samplers import cell_sizes
from scotoma.training import engine
from scotoma.training.engine import Member, Training
from scotoma.training.models import build_model
from scotoma.training.randomness import minibatch
from scotoma.training.technique import technique_task

STEPS, BATCH, RATE = 8, 14, 0.01  # five batches an epoch: eta grows once
RECIPE = Recipe(
    steps=STEPS, batch_size=BATCH, learning_rate=RATE, momentum=0.0, weight_decay=0.0,
    schedule="constant", warmup=0.0, precision="float32",
)  # fmt: skip


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("technique", "protocol"), [("L2", "sound"), ("ALM", "sound"), ("ALM", "published")]
)
def test_penalties_are_those_of_the_papers(
    data, technique: Literal["L2", "ALM"], protocol: Literal["sound", "published"]
) -> None:
    images, labels = torch.from_numpy(data[0]), data[1] % 2
    codes = np.random.default_rng(4).integers(0, 2, 70)
    groups = TrainingGroups(("a", "b"), codes, cell_sizes(labels, codes, (2, 2)), positive=1)
    asked = Mitigation(technique=technique, attribute="sex", eta=0.5, protocol=protocol)
    training = Training(
        [Member("a", 0, 5)], data[0], labels, model="tiny-convnet", recipe=RECIPE,
        task=technique_task(asked, RECIPE, labels, groups, 2), attributes=codes[:, None],
    )  # fmt: skip
    state = training.advance(training.start())

    network = build_model("tiny-convnet", 2, 5)
    sgd = torch.optim.SGD(network.parameters(), lr=RATE)
    lam0 = lam1 = 0.0
    for step in range(STEPS):
        eta = 0.5 * 1.01 ** (step // 5)
        rows = minibatch(5, step, BATCH, 70)
        x, y = engine.normalise(images[rows]), torch.from_numpy(labels[rows])
        a = torch.from_numpy(codes[rows])
        for _ in range(5 if technique == "ALM" else 1):
            each = functional.cross_entropy(network(x), y, reduction="none")
            own = [each[(y == 1) & (a == s)] for s in (0, 1)]
            l10, l11 = (part.mean() if len(part) else torch.zeros(()) for part in own)
            if technique == "L2":
                loss = each.mean() + eta / 2 * (l10 - l11) ** 2
            else:
                loss = each.mean() + (eta / 4 + (lam0 - lam1) / 2) * l10
                loss = loss + (eta / 4 + (lam1 - lam0) / 2) * l11
            sgd.zero_grad()
            loss.backward()
            sgd.step()
        gap, old = (l10 - l11).item(), lam0
        lam0 = (lam0 - lam1) / 2 + eta / 2 * gap
        lam1 = (lam1 - (lam0 if protocol == "published" else old)) / 2 - eta / 2 * gap
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(state.parameters[name][0], parameter.detach())
    if technique == "ALM":
        assert state.values["gap-duals"][0].tolist() == pytest.approx([lam0, lam1])
