"""How members are trained to be fairer: one technique for an audit, and its settings."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from scotoma.config.variants import Frozen

__all__ = [
    "DENSE_TEACHER", "HEADS", "TEST_GROUPS", "WITHOUT_GROUPS", "Contest", "Mitigation", "Technique",
]  # fmt: skip

Technique = Literal[
    "RS", "SUBG", "DD1", "DD2", "DD3", "DD4", "DI1", "DI2", "UC", "GR", "group-dro", "JTT", "L2",
    "ALM", "distil", "CEAG",
]  # fmt: skip
WITHOUT_GROUPS = ("JTT", "distil")  # in training
HEADS = ("DD1", "DD2", "DD3", "DD4", "DI1", "DI2")  # a score for every (group, class)
TEST_GROUPS = ("DI1", "DD4")  # whose decision reads the group of the example it decides
DENSE_TEACHER = ("distil", "CEAG")  # pruned members learn beside the dense one of their seed
ADVERSARIES = ("UC", "GR")
BINARY = ("L2", "ALM")
STUDIED_ETA = {"L2": 1.0, "ALM": 20.0}


class Mitigation(Frozen):
    """A technique that trains every member, and what it needs."""

    technique: Technique = Field(description="Way of training and deciding: `docs/mitigation.md`.")
    attribute: str | None = Field(
        None, description="The attribute of `groups` whose values are the groups in training."
    )
    protocol: Literal["sound", "published"] = Field(
        "sound",
        description="ALM: both multipliers from the old values, or one after the other, as "
        "published; DD4: see its page.",
    )
    alpha: float = Field(1.0, ge=0, description="UC, GR: weight of the adversary's term.")
    adversary_rate: float = Field(1e-3, gt=0, description="UC, GR: Adam's rate of the adversary.")
    eta: float | None = Field(
        None, ge=0, description="L2, ALM: weight of the penalty; empty: 1 for L2, 20 for ALM."
    )
    group_rate: float = Field(0.01, ge=0, description="group-dro: step size of the group weights.")
    first_steps: float = Field(
        0.2, gt=0, lt=1, description="JTT: length of the first training, fraction of the steps."
    )
    repeats: int = Field(
        20, ge=1, le=10_000, description="JTT: how often each error of the first training stands."
    )
    temperature: float = Field(
        4.0, gt=0, description="distil: divisor of the scores of both members."
    )
    margin: float = Field(
        0.01, ge=0, lt=1, description="CEAG: largest excess fall of a group's accuracy, a fraction."
    )
    dual_rate: float = Field(0.1, gt=0, description="CEAG: step size of the multipliers.")
    remembered: int = Field(
        64, ge=1, le=10_000, description="CEAG: newest examples of a group that its accuracy is of."
    )

    @property
    def family(self) -> str:
        """Name of the training, which techniques that only decide differently share.

        >>> Mitigation(technique="DI2", attribute="style").family
        'DI'
        """
        return self.technique[:2] if self.technique in HEADS else self.technique

    @property
    def penalty(self) -> float:
        """The `eta` that holds: of L2 and ALM."""
        return STUDIED_ETA.get(self.technique, 0.0) if self.eta is None else self.eta

    def deciding_training(self) -> dict[str, Any]:
        """What decides the members; how they decide is not among it."""
        kept = self.model_dump(mode="json", exclude={"technique", "protocol"})
        order = {"protocol": self.protocol} if self.technique == "ALM" else {}
        return {"family": self.family, **kept, **order}

    @model_validator(mode="after")
    def _attribute_is_there_where_it_counts(self) -> Mitigation:
        if self.technique in WITHOUT_GROUPS and self.attribute is not None:
            raise ValueError(
                f"mitigation.attribute has no effect on {self.technique}, which reads no groups; "
                "leave it out"
            )
        if self.technique not in WITHOUT_GROUPS and self.attribute is None:
            raise ValueError(
                f"mitigation.technique {self.technique} needs an attribute, got none; name one of "
                "groups as mitigation.attribute"
            )
        return self

    @model_validator(mode="after")
    def _every_key_has_an_effect(self) -> Mitigation:
        owners = {
            "protocol": ("ALM", "DD4"),
            "alpha": ADVERSARIES,
            "adversary_rate": ADVERSARIES,
            "eta": BINARY,
            "group_rate": ("group-dro",),
            "first_steps": ("JTT",),
            "repeats": ("JTT",),
            "temperature": ("distil",),
            "margin": ("CEAG",),
            "dual_rate": ("CEAG",),
            "remembered": ("CEAG",),
        }
        for key, techniques in owners.items():
            value = getattr(self, key)
            default = type(self).model_fields[key].default
            if self.technique not in techniques and value != default:
                raise ValueError(
                    f"mitigation.{key} is for {' and '.join(techniques)}, and the technique is "
                    f"{self.technique}; leave it out"
                )
        return self


class Contest(Frozen):
    """The techniques that a tournament trains beside the baseline, which has none."""

    techniques: list[Technique] = Field(
        min_length=1, description="Techniques, each with an audit of its own."
    )
    attribute: str | None = Field(
        None, description="The attribute of `groups` whose values are the groups of all of them."
    )

    @model_validator(mode="after")
    def _each_technique_stands_once(self) -> Contest:
        twice = [name for name in self.techniques if self.techniques.count(name) > 1]
        if twice:
            raise ValueError(f"tournament.techniques names {twice[0]} twice; keep one of them")
        return self

    def mitigations(self) -> dict[str, Mitigation]:
        """Each technique with its defaults, by name.

        >>> Contest(techniques=["JTT", "DI2"], attribute="style").mitigations()["DI2"].attribute
        'style'
        """
        return {
            name: Mitigation(
                technique=name, attribute=None if name in WITHOUT_GROUPS else self.attribute
            )
            for name in self.techniques
        }
