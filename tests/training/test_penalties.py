"""A-L2 and A-ALM in training, against a plain loop of torch in the notation of the papers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

from scotoma.config import Mitigation, Recipe, parse_config
from scotoma.errors import ConfigError
from scotoma.mitigation.groups import TrainingGroups
from scotoma.mitigation.learning.samplers import cell_sizes
from scotoma.run import Run, read_json
from scotoma.training import engine
from scotoma.training.engine import Member, Training
from scotoma.training.jtt_settings import held_out_quarter, try_settings
from scotoma.training.models import build_model
from scotoma.training.randomness import minibatch
from scotoma.training.task import classification
from scotoma.training.technique import technique_task
from tests.helpers.commands import scotoma
from tests.helpers.steps import steps_in_this_process

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


# --- settings of JTT that are chosen: by a worst group that training has not seen -----------------


JTT_RECIPE = Recipe(
    steps=12, batch_size=14, learning_rate=0.05, prune_begin=0.3, precision="float32"
)
CPU = torch.device("cpu")
ASKED = Mitigation(
    technique="JTT", attribute="style", tried_first_steps=[0.5], tried_repeats=[1, 9]
)
CONFIG = """\
source: {kind: digits-s, styled: dim, recipe: {steps: 12}}
label: {column: digit}
groups: {style: {column: style}}
cluster: {column: source_id}
variants: [dense, {prune: [0.5]}]
population: {models: 2, seed: 0}
tracking: {uri: "off"}
"""


def tried(data: tuple[Any, Any], labels: Any, held: Any) -> Any:
    cells = 4 * (np.arange(70) % 2) + data[1]
    return try_settings(
        ASKED, classification(4, JTT_RECIPE), data[0], labels, cells, held, model="tiny-convnet",
        recipe=JTT_RECIPE, seed=5, device=CPU,
    )  # fmt: skip


def test_the_worst_cell_is_that_of_a_network_that_saw_the_other_rows_alone(data: Any) -> None:
    """Each setting trained on copies of the rows, and run by torch's own forward pass."""
    images, labels = data
    cells = 4 * (np.arange(70) % 2) + labels
    held = held_out_quarter(cells, None, seed=3)
    assert 10 <= held.sum() <= 25
    found = tried(data, labels, held)
    assert [(one["first_steps"], one["repeats"]) for one in found] == [(0.5, 1), (0.5, 9)]
    for one in found:
        task = replace(classification(4, JTT_RECIPE), first_steps=0.5, repeats=one["repeats"])
        (member,) = Training(
            [Member("dense", 0, 5)], images[~held], labels[~held], model="tiny-convnet", task=task,
            recipe=JTT_RECIPE,
        ).run()  # fmt: skip
        network = build_model("tiny-convnet", 4, 0).eval()
        network.load_state_dict(member.state)
        with torch.inference_mode():
            shown = engine.normalise(torch.from_numpy(images[held]))
            right = network(shown).argmax(1).numpy() == labels[held]
        by_cell = {c: right[cells[held] == c].mean() for c in set(cells[held].tolist())}
        assert one["worst_accuracy"] == pytest.approx(min(by_cell.values()))
        assert one["n"] in [
            (cells[held] == c).sum() for c in by_cell if by_cell[c] == min(by_cell.values())
        ]


def test_clusters_are_held_out_whole_and_every_cell_is() -> None:
    cells, clusters = np.repeat(np.arange(4), 40), np.arange(160) // 2
    held = held_out_quarter(cells, clusters, seed=1)
    assert (held[::2] == held[1::2]).all()
    assert [int(held[cells == c].sum()) for c in range(4)] == [10] * 4


@pytest.mark.parametrize(
    ("mitigation", "sentence"),
    [
        ("{technique: JTT, tried_repeats: [5, 50]}", "JTT needs an attribute, got none"),
        ("{technique: JTT, attribute: style}", "attribute has no effect on JTT"),
        ("{technique: RS, attribute: style, tried_repeats: [5]}", "tried_repeats is for JTT"),
        ("{technique: JTT, attribute: style, tried_first_steps: [1.5]}", "tried_first_steps"),
        ("{technique: JTT, attribute: style, tried_repeats: []}", "tried_repeats"),
    ],
)
def test_settings_to_try_are_refused_where_they_choose_nothing(
    mitigation: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config(f"{CONFIG}mitigation: {mitigation}\n", "a.yaml")
    assert sentence in str(refused.value)


def test_a_tournament_gives_its_attribute_to_a_jtt_that_chooses() -> None:
    text = "tournament: {attribute: style, techniques: [{technique: JTT, tried_repeats: [2]}, DI2]}"
    contest = parse_config(f"{CONFIG}{text}\n", "a.yaml").tournament
    assert contest is not None
    assert contest.mitigations()["JTT"].attribute == "style"
    assert contest.mitigations()["JTT"].note.endswith(
        "JTT without groups, its settings chosen by groups of style"
    )


@pytest.mark.slow
@pytest.mark.thorough
def test_members_are_those_of_the_settings_that_were_chosen(tmp_path: Path) -> None:
    """An audit that chooses, and one that is told the choice: the same weights."""
    trying = "{technique: JTT, attribute: style, tried_repeats: [2, 9]}"
    (tmp_path / "chooses.yaml").write_text(f"{CONFIG}mitigation: {trying}\n")
    with steps_in_this_process(tmp_path):
        assert scotoma("audit", "chooses.yaml", "--out", "chooses")[0] in (0, 1)
        run = Run.open(str(tmp_path / "chooses"))
        kept = read_json(run.path("training", "settings.json"))
        assert [one["repeats"] for one in kept["tried"]] == [2, 9]
        best = max(kept["tried"], key=lambda one: one["worst_accuracy"])
        assert kept["repeats"] == best["repeats"]
        told = f"{{technique: JTT, repeats: {kept['repeats']}}}"
        (tmp_path / "told.yaml").write_text(f"{CONFIG}mitigation: {told}\n")
        assert scotoma("audit", "told.yaml", "--out", "told")[0] in (0, 1)
    other = Run.open(str(tmp_path / "told"))
    for variant in ("dense", "prune-0.5"):
        own, same = (load_file(one.member(variant, 1)) for one in (run, other))
        assert all(torch.equal(own[name], same[name]) for name in own)
    record = read_json(run.member("prune-0.5", 1).with_suffix(".json"))
    assert record["repeats"] == kept["repeats"]
