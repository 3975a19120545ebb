"""Which techniques are there, what does each need, and which are not built?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["TECHNIQUES", "TechniqueFacts", "techniques_table"]

Groups = Literal["no", "yes", "each example", "transductive"]


@dataclass(frozen=True)
class TechniqueFacts:
    """What a user must know of a technique before choosing it.

    Attributes:
        name: As `mitigation.technique` has it.
        training: What is done while members are trained.
        train_groups: Whether training reads groups.
        test_groups: Whether a decision reads the group of the example; `transductive`: and all
            other test examples with theirs.
        source: Who proposed it.
        built: Whether an audit can train it.
    """

    name: str
    training: str
    train_groups: Groups
    test_groups: Groups
    source: str
    built: bool = True


TECHNIQUES = (
    TechniqueFacts(
        "RS", "examples of a class's rarer groups repeated to its largest", "yes", "no",
        "Qian et al. 2021",
    ),
    TechniqueFacts(
        "SUBG", "every (class, group) cut to the smallest, drawn anew by seed", "yes", "no",
        "Idrissi et al. 2022",
    ),
    TechniqueFacts(
        "DD1", "one softmax over (group, class); probabilities added", "yes", "no",
        "Wang et al. 2020",
    ),
    TechniqueFacts(
        "DD2", "as DD1; the largest probability over training counts", "yes", "no",
        "Wang et al. 2020",
    ),
    TechniqueFacts(
        "DD3", "as DD1; probabilities over training counts added", "yes", "no",
        "Wang et al. 2020",
    ),
    TechniqueFacts(
        "DD4", "as DD1; reducing bias amplification", "yes", "transductive",
        "Zhao et al. 2017",
    ),
    TechniqueFacts(
        "DI1", "a head a group, each trained on its own; the own head decides", "yes",
        "each example", "Wang et al. 2020",
    ),
    TechniqueFacts(
        "DI2", "as DI1; scores of all heads added", "yes", "no", "Wang et al. 2020",
    ),
    TechniqueFacts(
        "UC", "features from which no head can tell the group", "yes", "no",
        "Tzeng et al. 2015",
    ),
    TechniqueFacts(
        "GR", "gradient reversal by name, a projection of gradients by its code", "yes", "no",
        "Zhang, Lemoine, Mitchell 2018",
    ),
    TechniqueFacts(
        "group-dro", "cells weighted by their losses, drawn alike", "yes", "no",
        "Sagawa et al. 2020",
    ),
    TechniqueFacts(
        "JTT", "errors of a first training repeated in a second", "no", "no", "Liu et al. 2021",
    ),
    TechniqueFacts(
        "L2", "squared gap of two groups' losses added; two classes", "yes", "no",
        "Lokhande et al. 2020",
    ),
    TechniqueFacts(
        "ALM", "augmented Lagrangian of that gap, five steps a batch", "yes", "no",
        "Lokhande et al. 2020",
    ),
    TechniqueFacts(
        "distil", "pruned members learn from the dense one of their seed", "no", "no",
        "Blakeney et al. 2021",
    ),
    TechniqueFacts(
        "CEAG", "pruning with a bound on each group's excess fall of accuracy", "yes", "no",
        "Hashemizadeh et al. 2024",
    ),
    TechniqueFacts(
        "R1", "a subset in which two groups are as many for every label; several labels too", "yes",
        "no", "Wang et al. 2019",
    ),
    TechniqueFacts(
        "R2", "as R1, with up to twice as many", "yes", "no", "Wang et al. 2019",
    ),
    TechniqueFacts(
        "R3", "as R1, with up to three times as many", "yes", "no", "Wang et al. 2019",
    ),
    TechniqueFacts(
        "size1", "as many rows as R1 keeps, drawn at random: its control; several labels too",
        "only to count", "no", "ours",
    ),
    TechniqueFacts("size2", "the control of R2", "only to count", "no", "ours"),
    TechniqueFacts("size3", "the control of R3", "only to count", "no", "ours"),
    TechniqueFacts(
        "A4", "an adversary on the map of a ResNet's third stage; several labels too", "yes", "no",
        "Wang et al. 2019",
    ),
    TechniqueFacts("A5", "as A4, on the map of the fourth stage", "yes", "no", "Wang et al. 2019"),
    TechniqueFacts(
        "N-Flow", "an invertible flow before training; not built", "yes", "no",
        "Kehrenberg et al. 2020", built=False,
    ),
)  # fmt: skip


def techniques_table() -> str:
    """Write the techniques as a table in Markdown.

    >>> techniques_table().splitlines()[-1].split(" | ")[:2]
    ['| N-Flow', 'an invertible flow before training; not built']
    """
    rows = ["| technique | training | groups in training | groups at test | source |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for one in TECHNIQUES:
        name = f"`{one.name}`" if one.built else one.name
        cells = (name, one.training, one.train_groups, one.test_groups, one.source)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
