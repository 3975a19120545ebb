"""How members are trained to be fairer: one technique for an audit, and its settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from scotoma.config.shared import Frozen, twice
from scotoma.config.techniques import BASE, REFITS, TECHNIQUES, TRAINED, TechniqueFacts
from scotoma.config.variants import WORDS

if TYPE_CHECKING:
    Technique: TypeAlias = str
    Playing: TypeAlias = str
else:
    Technique = Literal[TRAINED]
    Playing = Literal[TRAINED + REFITS]
CHOICES = ("tried_first_steps", "tried_repeats")  # which groups of held-out examples decide
WITH_STAGES = r"tiny-convnet|cifar-resnet18|resnet(18|34|50|101|152)|(resnext|wide_resnet)\d+_.*"


class Mitigation(Frozen):
    """A technique that trains every member, and what it needs."""

    technique: Technique = Field(description="One of the techniques below.")
    attribute: str | None = Field(
        None, description="The attribute of `groups` whose values are the groups in training."
    )
    protocol: Literal["sound", "published"] = Field(
        "sound",
        description="ALM, DD4: sound, or as published",
    )
    alpha: float | None = Field(
        None,
        ge=0,
        description="UC, GR: weight of the adversary's term; empty: 1 for UC, 0.1 for GR.",
    )
    reversal: float | None = Field(
        None,
        ge=0,
        description="A4, A5: lambda, the weight of the adversary's reversed gradient; empty: 2 for "
        "several labels, 1 for one.",
    )
    frozen_steps: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="A4, A5: first fraction of the steps, in which the last layer and the "
        "adversary learn alone.",
    )
    eta: float | None = Field(
        None, ge=0, description="L2, ALM: weight of the penalty; empty: 0.1 for L2, 1 for ALM."
    )
    first_steps: float = Field(
        0.2, gt=0, lt=1, description="JTT: length of the first training, fraction of the steps."
    )
    repeats: int = Field(
        20, ge=1, le=10_000, description="JTT: how often each error of the first training stands."
    )
    tried_first_steps: list[Annotated[float, Field(gt=0, lt=1)]] | None = Field(
        None,
        min_length=1,
        description="JTT: values of first_steps to choose among.",
    )
    tried_repeats: list[Annotated[int, Field(ge=1, le=10_000)]] | None = Field(
        None, min_length=1, description="JTT: values of repeats to choose among."
    )
    temperature: float = Field(
        4.0, gt=0, description="distil: divisor of the scores of both members."
    )
    margin: float = Field(
        0.01, ge=0, lt=1, description="CEAG: largest excess fall of a group's accuracy, a fraction."
    )

    @property
    def facts(self) -> TechniqueFacts:
        """Its row in the registry."""
        return TECHNIQUES[self.technique]

    @property
    def heads(self) -> bool:
        """Whether a member has a score for every group and class, and a rule that decides."""
        return self.facts.slot == "heads"

    @property
    def family(self) -> str:
        """Name of the training, which techniques that only decide differently share.

        >>> Mitigation(technique="DI2", attribute="style").family
        'DI'
        """
        return self.facts.family or self.technique

    @property
    def chooses(self) -> bool:
        """Whether settings are chosen on held-out training examples, whose groups count then."""
        return self.tried_first_steps is not None or self.tried_repeats is not None

    @property
    def reads_groups(self) -> bool:
        """Whether training reads groups, or who chooses its settings does."""
        return self.facts.train_groups != "no" or self.chooses

    @property
    def tried(self) -> tuple[list[float], list[int]]:
        """The settings of JTT to choose among: of `first_steps`, and of `repeats`.

        >>> Mitigation(technique="JTT", attribute="style", tried_repeats=[5, 50]).tried
        ([0.2], [5, 50])
        """
        return self.tried_first_steps or [self.first_steps], self.tried_repeats or [self.repeats]

    @property
    def weight(self) -> float:
        """The weight beside the task's loss that holds: `alpha` or `eta`, else the default."""
        asked = self.eta if self.alpha is None else self.alpha
        return self.facts.number if asked is None else asked

    @property
    def note(self) -> str:
        """What readers of the results must know, as a clause.

        >>> Mitigation(technique="DI1", attribute="style").note
        'all models are trained by DI1 on groups of style, and decide by the group of each example'
        """
        groups = "without groups" if self.attribute is None else f"on groups of {self.attribute}"
        if self.chooses:
            groups = f"without groups, its settings chosen by groups of {self.attribute}"
        return f"all models are trained by {self.technique} {groups}{self.facts.note}"

    def deciding_training(self) -> dict[str, Any]:
        """What decides the members; how they decide is not among it."""
        kept = self.model_dump(mode="json", exclude={"technique", "protocol"})
        trains = not self.heads and "protocol" in self.facts.settings
        order = {"protocol": self.protocol} if trains else {}
        return {"family": self.family, **kept, **order}

    def _misfits(self) -> Iterator[str]:
        if not self.reads_groups and self.attribute is not None:
            yield (
                f"mitigation.attribute has no effect on {self.technique}, which reads no groups; "
                "leave it out"
            )
        if self.reads_groups and self.attribute is None:
            yield (
                f"mitigation.technique {self.technique} needs an attribute, got none; name one of "
                "groups as mitigation.attribute"
            )
        yield from self._keys_without_effect()

    def _keys_without_effect(self) -> Iterator[str]:
        for key in {key: None for one in TECHNIQUES.values() for key in one.settings}:
            if key not in self.facts.settings and key in self.changed():
                owners = [name for name, one in TECHNIQUES.items() if key in one.settings]
                yield (
                    f"mitigation.{key} is for {_and(owners)}, and the technique is "
                    f"{self.technique}; leave it out"
                )


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + [names[-1]])


class Contestant(Mitigation):
    """A technique of a tournament, with its settings."""

    technique: Playing = Field(
        description="A technique, or dfr, dfr-dense: a new last layer for the baseline's members."
    )
    name: Annotated[str, WORDS] = Field(
        "",
        max_length=40,
        pattern=r"^(\w[\w .-]*)?$",
        description="Name of its audit; empty: that of the technique.",
    )

    def _misfits(self) -> Iterator[str]:
        # The tournament may name the attribute for all, and says once where it does not.
        return self._keys_without_effect()

    @property
    def refits(self) -> bool:
        """Whether it trains no member, and gives those of the baseline a new last layer."""
        return self.technique in REFITS

    @property
    def called(self) -> str:
        """Name of its audit.

        >>> Contestant(technique="DI2", attribute="style").called
        'DI2'
        """
        return self.name or self.technique

    @property
    def mitigation(self) -> Mitigation:
        """What trains its members."""
        return Mitigation(**{key: getattr(self, key) for key in Mitigation.model_fields})


def has_stages(model: str) -> bool:
    """Whether a network has the stages whose maps A4 and A5 read, by its name.

    >>> [has_stages(name) for name in ("tiny-convnet", "resnet8", "resnet50", "vgg11")]
    [True, False, True, False]
    """
    return re.fullmatch(WITH_STAGES, model) is not None


def _reads_groups(technique: Any) -> bool:
    known = TECHNIQUES.get(technique) if isinstance(technique, str) else None
    return known is None or known.train_groups != "no"


def _spelled_out(content: Any) -> Any:
    """Take the name of a technique for its section, and give each the attribute of all."""
    if not isinstance(content, dict) or not isinstance(content.get("techniques"), list):
        return content
    shared = content.get("attribute")
    entries = []
    for entry in content["techniques"]:
        one = {"technique": entry} if isinstance(entry, str) else entry
        reads = isinstance(one, dict) and (
            _reads_groups(one.get("technique")) or any(key in one for key in CHOICES)
        )
        if reads and shared:
            one = {"attribute": shared, **one}
        entries.append(one)
    return {**content, "techniques": entries}


class Contest(Frozen):
    """The techniques that a tournament compares with the baseline, which has none."""

    techniques: list[Contestant] = Field(
        min_length=1, description="Techniques by name, or with their settings; an audit each."
    )
    attribute: str | None = Field(
        None, description="The attribute of `groups` whose values are the groups of all of them."
    )
    identical: bool = Field(
        False,
        description="Train all once more with one seed for all members: what do seeds add to the "
        "spread?",
    )

    _spell_out = model_validator(mode="before")(_spelled_out)

    def _misfits(self) -> Iterator[str]:
        for one in self.techniques:
            if one.reads_groups and one.attribute is None:
                yield (
                    f"tournament.techniques {one.called} needs an attribute, got none; name one of "
                    "groups as tournament.attribute"
                )
        names = [one.called for one in self.techniques]
        yield from twice(
            names, "tournament.techniques names {} twice; keep one of them, or give each a name"
        )
        if BASE in names:
            yield (f"tournament.techniques calls one {BASE}, as the baseline; rename it")

    def mitigations(self) -> dict[str, Mitigation]:
        """Each technique that trains members, by name.

        >>> Contest(techniques=["JTT", "DI2"], attribute="style").mitigations()["DI2"].attribute
        'style'
        """
        return {one.called: one.mitigation for one in self.techniques if not one.refits}

    def refits(self) -> dict[str, Contestant]:
        """Each technique that gives the baseline's members a new last layer, by name.

        >>> list(Contest(techniques=["DI2", "dfr"], attribute="style").refits())
        ['dfr']
        """
        return {one.called: one for one in self.techniques if one.refits}
