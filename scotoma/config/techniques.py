"""Which techniques are there to mitigate bias, and what must be known of each? One row each.

What may be asked for, which settings count, what is refused, what notes and tables say, and which
function trains or decides, all follow from the row. A new technique is a row here, and its code
where `slot` says, unless another technique of that slot has it already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BASE = "base"  # name of a tournament's baseline
Groups = Literal["no", "yes", "only to count", "each example", "transductive"]
Slot = Literal[
    "repeat", "subsample", "ratio", "size", "heads", "adversary", "map adversary", "loss",
    "two trainings", "dense beside", "last layer", "dense last layer", "decision",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TechniqueFacts:
    """What is known of one technique.

    Attributes:
        slot: What it replaces in training: `training/technique.py` fills it. Last layers and
            `decision` follow training.
        words: What it does.
        rule: Module and class in `mitigation/decide` of its own rule of deciding; empty for none.
        train_groups: Whether training, or fitting, reads groups.
        test_groups: Whether a decision reads the group of the example; `transductive`: and all
            other test examples with theirs.
        source: Who proposed it.
        settings: The keys of `mitigation` that count for it.
        family: The training that techniques share which only decide differently; empty: its own.
        number: Of ratio and size the most examples of one group for one of the other, of a map
            adversary the stage of the ResNet, of others the default weight beside the task.
        two_groups: Whether it is for exactly two groups.
        two_classes: Whether it is for exactly two classes.
        several_labels: Whether it trains models of several labels.
        note: What readers of its results must know, as a clause.
    """

    slot: Slot
    words: str
    rule: str = ""
    train_groups: Groups = "yes"
    test_groups: Groups = "no"
    source: str
    settings: tuple[str, ...] = ()
    family: str = ""
    number: float = 0.0
    two_groups: bool = False
    two_classes: bool = False
    several_labels: bool = False
    note: str = ""


def _subset(slot: Literal["ratio", "size"], number: float, words: str) -> TechniqueFacts:
    size = slot == "size"
    return TechniqueFacts(
        slot=slot, words=words, number=number, two_groups=True, several_labels=True,
        train_groups="only to count" if size else "yes",
        source="ours" if size else "Wang et al. 2019",
    )  # fmt: skip


def _map_adversary(stage: int, words: str) -> TechniqueFacts:
    return TechniqueFacts(
        slot="map adversary", words=words, source="Wang et al. 2019", number=stage,
        settings=("reversal", "frozen_steps"), two_groups=True,
        several_labels=True,
    )  # fmt: skip


_UNSTABLE = ", which varies from run to run more than plain training: train longer"
_WANG = "Wang et al. 2020"
TECHNIQUES: dict[str, TechniqueFacts] = {
    "RS": TechniqueFacts(
        slot="repeat", words="examples of a class's rarer groups repeated to its largest",
        source="Qian et al. 2021",
    ),
    "SUBG": TechniqueFacts(
        slot="subsample", words="every (class, group) cut to the smallest, drawn anew by seed",
        source="Idrissi et al. 2022",
    ),
    "DD1": TechniqueFacts(
        slot="heads", rule="heads:JointSum", family="DD",
        words="one softmax over (group, class); probabilities added",
        source=_WANG,
    ),
    "DD2": TechniqueFacts(
        slot="heads", rule="heads:PriorMaximum", family="DD",
        words="as DD1; the largest probability over training counts",
        source=_WANG,
    ),
    "DD3": TechniqueFacts(
        slot="heads", rule="heads:PriorSum", family="DD",
        words="as DD1; probabilities over training counts added",
        source=_WANG,
    ),
    "DD4": TechniqueFacts(
        slot="heads", rule="reduce_amplification:ReduceAmplification", family="DD",
        words="as DD1; reducing bias amplification",
        test_groups="transductive", source="Zhao et al. 2017", settings=("protocol",),
        note=", and decide by the groups of all test examples at once",
    ),
    "DI1": TechniqueFacts(
        slot="heads", rule="heads:OwnHead", family="DI",
        words="a head a group, each trained on its own; the own head decides",
        test_groups="each example", source=_WANG,
        note=", and decide by the group of each example",
    ),
    "DI2": TechniqueFacts(
        slot="heads", rule="heads:SumOfHeads", family="DI",
        words="as DI1; scores of all heads added", source=_WANG,
    ),
    "UC": TechniqueFacts(
        slot="adversary", words="features from which no head can tell the group",
        source="Tzeng et al. 2015", settings=("alpha",), number=1.0,
        note=_UNSTABLE,
    ),
    "GR": TechniqueFacts(
        slot="adversary",
        words="gradient reversal by name, a projection of gradients by its code",
        source="Zhang, Lemoine, Mitchell 2018", settings=("alpha",),
        number=0.1, note=_UNSTABLE,
    ),
    "group-dro": TechniqueFacts(
        slot="loss", words="cells weighted by their losses, drawn alike",
        source="Sagawa et al. 2020",
    ),
    "JTT": TechniqueFacts(
        slot="two trainings", words="errors of a first training repeated in a second",
        train_groups="no", source="Liu et al. 2021",
        settings=("first_steps", "repeats", "tried_first_steps", "tried_repeats"),
    ),
    "L2": TechniqueFacts(
        slot="loss", words="squared gap of two groups' losses added; two classes",
        source="Lokhande et al. 2020", settings=("eta",), number=0.1, two_groups=True,
        two_classes=True,
    ),
    "ALM": TechniqueFacts(
        slot="loss", words="augmented Lagrangian of that gap, five steps a batch",
        source="Lokhande et al. 2020", settings=("protocol", "eta"), number=1.0, two_groups=True,
        two_classes=True,
    ),
    "distil": TechniqueFacts(
        slot="dense beside", words="pruned members learn from the dense one of their seed",
        train_groups="no", source="Blakeney et al. 2021", settings=("temperature",),
    ),
    "CEAG": TechniqueFacts(
        slot="dense beside", words="pruning with a bound on each group's excess fall of accuracy",
        source="Hashemizadeh et al. 2024", settings=("margin",),
    ),
    "R1": _subset("ratio", 1.0, "a subset in which two groups are as many for every label; "
                                "several labels too"),
    "R2": _subset("ratio", 2.0, "as R1, with up to twice as many"),
    "R3": _subset("ratio", 3.0, "as R1, with up to three times as many"),
    "size1": _subset("size", 1.0, "as many rows as R1 keeps, drawn at random: its control; "
                                  "several labels too"),
    "size2": _subset("size", 2.0, "the control of R2"),
    "size3": _subset("size", 3.0, "the control of R3"),
    "A4": _map_adversary(3, "an adversary on the map of a ResNet's third stage; several labels "
                            "too"),
    "A5": _map_adversary(4, "as A4, on the map of the fourth stage"),
    "dfr": TechniqueFacts(
        slot="last layer", rule="last_layer:LastLayer",
        words="a new last layer, fitted to each variant",
        source="Kirichenko et al. 2023",
    ),
    "dfr-dense": TechniqueFacts(
        slot="dense last layer", words="a new last layer, fitted to dense and kept",
        source="Kirichenko et al. 2023",
    ),
    "thresholds": TechniqueFacts(
        slot="decision", rule="thresholds:Thresholds",
        words="two thresholds a group, drawn at random",
        test_groups="each example", source="Hardt et al. 2016", two_classes=True,
    ),
    "offsets": TechniqueFacts(
        slot="decision", rule="offsets:Offsets",
        words="a number added to each score, by group and class",
        test_groups="each example", source="ours",
    ),
    "ensemble": TechniqueFacts(
        slot="decision", rule="heads:Ensemble",
        words="the mean probability of several members", train_groups="no",
        source="ours",
    ),
}  # fmt: skip
REFITS = tuple(name for name, one in TECHNIQUES.items() if one.slot.endswith("last layer"))
AFTERWARDS = tuple(
    name for name, one in TECHNIQUES.items() if one.slot in ("last layer", "decision")
)
TRAINED = tuple(name for name in TECHNIQUES if name not in REFITS + AFTERWARDS)
RULES = {name: one.rule for name, one in TECHNIQUES.items() if one.rule}
