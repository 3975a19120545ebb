"""What a configuration may hold, and the rules that hold inside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from scotoma.config.kubeflow import Kubeflow
from scotoma.config.label import (
    Label,
    labels_as_groups,
    spelled_out,
    unread_labels,
)
from scotoma.config.limits import ReaderLimits
from scotoma.config.mitigation import Contest, Mitigation, has_stages
from scotoma.config.own_code import is_code
from scotoma.config.robustness import Robustness
from scotoma.config.sections import (
    ClarifyFeatures,
    Cluster,
    GroupSection,
    Population,
    Retraining,
    SliceSettings,
    Tracking,
)
from scotoma.config.shared import Frozen, twice
from scotoma.config.sheet import Says
from scotoma.config.techniques import BASE
from scotoma.config.variants import MADE_ELSEWHERE, WORDS, Variant, VariantEntry, resolve, way_of
from scotoma.printable import nearest
from scotoma.sources.digits import DigitsSource
from scotoma.sources.registry import AnySource, with_implied
from scotoma.storage.files import content_digest

# Networks of plain layers: those of ours that members can be stacked into; a test holds it.
STACKED = ("tiny-convnet",)
# Keys that decide what is measured and no prediction.
MEASURED = (
    "project",
    "label",
    "groups",
    "cluster",
    "advantaged",
    "over_index",
    "slices",
    "clarify",
)


def _as_text(value: Any) -> Any:
    """Turn a whole number into the text that a group of this value is called."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


GroupValue = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | int)]


class Config(Frozen):
    """An audit: data, label, groups, variants and the size of the population."""

    version: Literal[1] = Field(1, description="Version of this format.")
    project: Annotated[str, WORDS] = Field(
        "digits-s",
        min_length=1,
        max_length=80,
        pattern=r"^[\w][\w .-]*$",
        description="Name of the audit, and of its experiment in MLflow.",
    )
    data_date: Annotated[str | None, Says("be a day or month, such as 2027-03-31 or 2027-03")] = (
        Field(
            None,
            pattern=r"^\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?$",
            description="Day or month of the data, by which `scotoma show trend` orders audits: "
            "2027-03-31 or 2027-03. Default: that in `{newest}`, else the day of the audit.",
        )
    )
    source: AnySource = DigitsSource()
    label: Annotated[
        Label, BeforeValidator(spelled_out, json_schema_input_type=Label | Literal["none"])
    ] = Label(column="digit")
    groups: GroupSection = GroupSection()
    cluster: Cluster | None = None
    advantaged: dict[str, GroupValue] = Field(
        default_factory=dict,
        description="Attribute: the value that its others are compared with, as `{sex: male}`. "
        "Default: two values are compared with each other, each of more with the rest.",
    )
    over_index: Literal["groups", "all"] = Field(
        "groups",
        description="Whose share among the CIEs is measured: groups, or also every other column of "
        "two values, without a test of the gate; the value that sorts last counts.",
    )
    baseline: str | None = Field(
        None, description="predictions, detections, scores: the variant that is dense."
    )
    variants: list[VariantEntry] = Field(default_factory=list, validate_default=True)
    population: Population = Population()
    mitigation: Mitigation | None = None
    tournament: Contest | None = None
    slices: SliceSettings = SliceSettings()
    clarify: ClarifyFeatures = ClarifyFeatures()
    tracking: Tracking = Tracking()
    kubeflow: Kubeflow | None = None
    retraining: Retraining | None = None
    robustness: Robustness | None = None
    limits: ReaderLimits = ReaderLimits()
    keep_scores: Literal[False, True, "full"] = Field(
        False,
        description="Keep the probability of every predicted class, as `score`; full: every score "
        "too, in `scores`.",
    )
    deterministic: bool = Field(
        False, description="The same configuration gives the same bytes on the same machine."
    )

    @model_validator(mode="before")
    @classmethod
    def _parts_of_an_example_are_rows(cls, content: Any) -> Any:
        return labels_as_groups(with_implied(content))

    def _misfits(self) -> Iterator[str]:
        yield from unread_labels(self)
        yield from self._misfits_of_variants()
        yield from self._misfits_of_training()
        yield from self._misfits_of_mitigation()
        yield from self._misfits_of_tournament()
        yield from self.source.misfits_beside(self)
        if (strata := self.cluster and self.cluster.across) and strata not in self.advantaged:
            yield (
                f"cluster.across names {strata!r}, whose values are compared with that in "
                f"advantaged, got none there; write advantaged: {{{strata}: VALUE}}"
            )
        if self.robustness is not None:
            yield from self.robustness.misfits_beside(self)

    @field_validator("variants")
    @classmethod
    def _variants_are_distinct_and_have_a_baseline(
        cls, entries: list[VariantEntry], info: ValidationInfo
    ) -> list[VariantEntry]:
        if not entries:
            if (source := info.data.get("source")) and source.has_answers:
                return entries  # those that the files hold
            raise ValueError("variants is missing; it has no default")
        names = [variant.name for variant in resolve(entries)]
        if "dense" not in names:
            raise ValueError("variants must name `dense`: every change is measured against it")
        if len(names) < 2:
            raise ValueError("variants must name a compressed one, such as {prune: [0.9]}")
        for sentence in twice(names, "variants names {} twice; keep one of them"):
            raise ValueError(sentence)
        return entries

    @field_validator("advantaged")
    @classmethod
    def _advantaged_names_attributes(
        cls, values: dict[str, str], info: ValidationInfo
    ) -> dict[str, str]:
        if (groups := info.data.get("groups")) is None:  # refused itself
            return values
        known = list(groups.attributes)
        for name in values:
            if name not in known:
                raise ValueError(
                    f"advantaged names the attribute {name!r}, which is not among "
                    f"{known}{nearest(name, known)}"
                )
        return values

    def _misfits_of_variants(self) -> Iterator[str]:
        """Models come from one place."""
        for way in map(way_of, self.variants):
            taken = way in MADE_ELSEWHERE
            if way == "dense" or (
                not taken if self.source.trains else way == self.source.variants_key
            ):
                continue
            yield f"variants holds {{{way}: ...}}, " + (
                f"which is for source.kind {way}; list external models there"
                if taken
                else f"which needs networks that are trained here; {self.source.name_variants}"
            )
        if self.baseline is not None and not self.source.has_answers:
            yield (
                "baseline is for source.kind predictions; other sources use `dense`, so leave it "
                "out"
            )
        wide = self.source.columns_of_answers
        if self.keep_scores == "full" and (wide or self.source.score or self.source.boxes):
            yield (
                "keep_scores full needs a column scores, a list for each example and model, and "
                f"{'source.columns' if wide else f'source.kind {self.source.kind}'} has none; "
                "choose true or false"
            )

    def _misfits_of_training(self) -> Iterator[str]:
        """What only networks that are trained here can be asked, and what these need."""
        asked = {
            "population.forked": self.population.forked,
            "population.identical": self.population.identical,
            "mitigation": self.mitigation is not None,
        }
        for name in asked:
            if asked[name] and not self.source.trains:
                yield (
                    f"{name} is for networks that are trained here, and source.kind is "
                    f"{self.source.kind}; leave it out"
                )
        if self.label.column is None and self.source.trains:
            yield (
                f"label is none and source.kind {self.source.kind} trains networks, which needs "
                "labels; name label.column, or audit predictions or ONNX models"
            )

    def _misfits_of_mitigation(self) -> Iterator[str]:
        if (asked := self.mitigation) is None:
            return
        known, called = list(self.groups.attributes), f"mitigation.technique {asked.technique}"
        if asked.attribute is not None and asked.attribute not in known:
            yield (
                f"mitigation.attribute {asked.attribute!r} is not among groups {known}"
                f"{nearest(asked.attribute, known)}"
            )
        if asked.facts.slot == "dense beside" and not self.population.forked:
            yield (
                f"{called} needs a dense model of the seed of each pruned one; set "
                "population.forked to true"
            )
        if asked.facts.slot == "map adversary" and not has_stages(self.source.model):
            yield (
                f"{called} reads the map of a stage of a ResNet, and source.model "
                f"{self.source.model!r} has none; choose a ResNet of torchvision, cifar-resnet18 "
                "or tiny-convnet"
            )
        if asked.heads and self.robustness is not None:
            yield (
                f"robustness cannot run models of {called}, which have a score for every group "
                "and class; leave out one of them"
            )
        if asked.heads and self.keep_scores is True:
            yield (
                f"{called} has no probability of a class and keeps every score; leave out "
                "keep_scores"
            )

    def _misfits_of_tournament(self) -> Iterator[str]:
        if self.tournament is None:
            return
        if self.mitigation is not None:
            yield "tournament trains a baseline without mitigation; leave out one of the two"
        known = list(self.groups.attributes)
        for one in self.tournament.refits().values():
            if one.attribute not in known:
                yield (
                    f"tournament.techniques {one.called} needs one of groups {known}, got "
                    f"{one.attribute!r}; name it as tournament.attribute"
                )
        for config in self.contestants().values():
            yield from config._misfits()

    def contestants(self) -> dict[str, Config]:
        """The configuration of each audit of a tournament that trains: `base`, then techniques."""
        if self.tournament is None:
            return {}
        each = {BASE: None, **self.tournament.mitigations()}
        return {
            name: self.model_copy(update={"tournament": None, "mitigation": one})
            for name, one in each.items()
        }

    @property
    def keeps_every_score(self) -> bool:
        """Whether every score of every member is kept, in `scores`."""
        heads = self.mitigation is not None and self.mitigation.heads
        return heads or self.keep_scores == "full"

    def with_source(self, **keys: Any) -> Config:
        """The same with other values of keys of its source."""
        return self.model_copy(update={"source": self.source.model_copy(update=keys)})

    def completed(self) -> Config:
        """The same with what files of the source say: variants, classes, sizes of images."""
        return self.source.completed(self)

    @property
    def resolved_variants(self) -> tuple[Variant, ...]:
        """Every variant with its name, dense first, then in the order of the configuration."""
        return resolve(self.variants, forked=self.population.forked)

    def variant(self, name: str) -> Variant:
        """The resolved variant of that name."""
        return next(variant for variant in self.resolved_variants if variant.name == name)

    def models_of(self, name: str) -> int:
        """How many models the variant of that name has."""
        return self.variant(name).models or self.population.models

    @property
    def most_models(self) -> int:
        """How many models the largest population has."""
        return max(self.models_of(variant.name) for variant in self.resolved_variants)

    @property
    def checkpoints(self) -> int:
        """How many states of each dense model are kept on its way."""
        return 0 if self.robustness is None else self.robustness.checkpoints or 0

    @property
    def stack_members(self) -> int:
        """How many members are trained as one network where that is faster; 1 if each is alone.

        Nothing else decides it, neither cores nor shards: sums inside a stacked step may depend on
        who is stacked with whom, and one configuration must give the same bytes. More members are
        faster, and fewer deal ten of them evenly to two or five workers.

        >>> from scotoma.config import default_config
        >>> default_config().stack_members
        5
        """
        model = self.source.network
        if model not in STACKED and not is_code(model):
            return 1
        return 5 if self.population.models < 30 else 15

    @property
    def fewest_models(self) -> int:
        """How many models the smallest population has."""
        return min(self.models_of(variant.name) for variant in self.resolved_variants)

    def deciding(self) -> dict[str, Any]:
        """What decides the results: not where data lie, nor what runs or tracks them.

        `robustness` decides its own section alone: a finished audit may gain or lose it.
        """
        return self.model_dump(
            mode="json",
            exclude={
                "data_date": True,
                "tournament": True,
                "tracking": True,
                "kubeflow": True,
                "retraining": True,
                "robustness": True,
                "limits": True,
                "source": set(self.source.place_keys()),
            },
        )

    def deciding_models(self) -> dict[str, Any]:
        """What decides models and predictions: not who is compared, nor what anything is called."""
        kept = {key: value for key, value in self.deciding().items() if key not in MEASURED}
        label: dict[str, Any] = {"column": self.label.column, "threshold": self.label.threshold}
        if self.label.columns:
            label |= {"thresholds": self.label.several, "attribute": self.label.attribute}
        return kept | {"label": label}

    def digest(self) -> str:
        """SHA-256 of what decides the results."""
        return content_digest(self.deciding())

    def models_digest(self) -> str:
        """SHA-256 of what decides models and predictions."""
        return content_digest(self.deciding_models())
