"""Which column is the target, or which columns where an example has several labels?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from scotoma.config.shared import Frozen, twice
from scotoma.config.techniques import TECHNIQUES

if TYPE_CHECKING:
    from scotoma.config.model import Config


PRESENT, ABSENT = "present", "absent"
# Columns of the table of pairs that several labels make; see `datasets.label_pairs`.
IS_PRESENT, EXAMPLE = "label_present", "labelled_example"
OF_FILES = ("example_id", "variant", "model", "predicted", "score", "rerun", "split")
THRESHOLD = 0.5
SEVERAL = ("columns", "thresholds", "attribute")

Share = Annotated[float, Field(gt=0, lt=1)]


class Label(Frozen):
    """The target: which column, and which value is the positive class where there is one.

    Where an example has several labels, every (example, label) is a row: is this label present?
    """

    column: str | None = Field(description="Column of the labels; null where there are none.")
    positive: str | int | None = Field(
        None, description="The positive class: it gives FPR and FNR, and Clarify's metrics."
    )
    threshold: float | None = Field(
        None, description="Numbers from it upwards are the positive class; of predictions too."
    )
    columns: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description="Columns of 0 and 1, one a label, where an example has several labels.",
    )
    thresholds: Annotated[
        Annotated[Share, Tag("one")] | Annotated[dict[str, Share], Tag("each")],
        Discriminator(lambda value: "each" if isinstance(value, Mapping) else "one"),
    ] = Field(
        THRESHOLD,
        description="With `columns`: the score from which a label is predicted, one or by label.",
    )
    attribute: str = Field(
        "label_name", min_length=1, description="With `columns`: what groups of labels are called."
    )

    @model_validator(mode="before")
    @classmethod
    def _numbers_from_the_threshold_are_positive(cls, value: Any) -> Any:
        match value:
            case {"threshold": bool()}:
                return value
            case {"threshold": int() | float() as threshold}:
                return {"positive": threshold_classes(threshold)[0], **value}
        return value

    @model_validator(mode="before")
    @classmethod
    def _several_labels_are_present_or_absent(cls, value: Any) -> Any:
        match value:
            case {"columns": [_, *_], **others}:
                derived = {"column": IS_PRESENT, "positive": PRESENT}
                for key, own in derived.items():
                    if others.get(key, own) != own:
                        raise ValueError(
                            f"label.{key} is for one label, and label.columns names several; leave "
                            "out one of them"
                        )
                if others.get("threshold") is not None:
                    raise ValueError(
                        "label.threshold cuts the numbers of one column; with label.columns write "
                        "label.thresholds"
                    )
                return value | derived
        return value

    def _misfits(self) -> Iterator[str]:
        asked = [key for key in SEVERAL if key in self.model_fields_set]
        if not self.columns and asked:
            yield f"label.{asked[-1]} is for several labels; name their columns in label.columns"
        if len(self.columns) == 1:
            yield f"label.columns names one label, {self.columns[0]!r}; write label.column"
        yield from twice(self.columns, "label.columns names {!r} twice; keep one of them")
        if clash := [name for name in self.columns if name in OF_FILES]:
            yield (
                f"label.columns names {clash[0]!r}, which is a column of every table of "
                "predictions; rename the label"
            )
        if isinstance(self.thresholds, dict) and (
            unknown := [name for name in self.thresholds if name not in self.columns]
        ):
            yield f"label.thresholds names {unknown[0]!r}, which is not among label.columns"

    @model_serializer(mode="wrap")
    def _without_keys_of_several_labels(self, write: SerializerFunctionWrapHandler) -> Any:
        """Leave out what one label has no use for, so that its audits keep their digests."""
        content = write(self)
        return content if self.columns else {k: v for k, v in content.items() if k not in SEVERAL}

    @property
    def several(self) -> dict[str, float]:
        """Each of several labels and the score from which it is predicted; empty for one label.

        >>> Label(columns=["cat", "dog"], thresholds={"dog": 0.3}).several
        {'cat': 0.5, 'dog': 0.3}
        """
        if isinstance(self.thresholds, dict):
            return {name: self.thresholds.get(name, THRESHOLD) for name in self.columns}
        return dict.fromkeys(self.columns, self.thresholds)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that are known whatever is tested; none for a column of class names."""
        if self.columns:
            return ABSENT, PRESENT
        return () if self.threshold is None else threshold_classes(self.threshold)


def spelled_out(value: Any) -> Any:
    """Take `none` for a label without a column."""
    return {"column": None} if value == "none" else value


def threshold_classes(threshold: float) -> tuple[str, str]:
    """The two classes that a threshold makes of numbers, the positive one first.

    >>> threshold_classes(0.5)
    ('at least 0.5', 'below 0.5')
    """
    return f"at least {threshold:g}", f"below {threshold:g}"


def labels_as_groups(content: Any) -> Any:
    """Add what several labels mean for a configuration: groups of labels, examples as clusters.

    Args:
        content: A configuration as it was written; one of one label stays as it is.

    >>> written = {"label": {"columns": ["cat", "dog"]}}
    >>> labels_as_groups(written)["groups"], labels_as_groups(written)["cluster"]
    ({'label_name': {'column': 'label_name'}}, {'column': 'labelled_example'})
    """
    match content:
        case {"label": {"columns": [_, *_]} as label, **others}:
            name = label.get("attribute", Label.model_fields["attribute"].default)
            groups, cluster = others.get("groups", {}), others.get("cluster")
            if not isinstance(name, str) or not isinstance(groups, Mapping):
                return content  # refused where it is read
            named = groups.get(name, {})
            column = named.get("column", name) if isinstance(named, Mapping) else name
            if column != name:
                raise ValueError(
                    f"groups.{name} is what the labels of label.columns are called; rename the "
                    "attribute, or name another label.attribute"
                )
            return content | {
                "groups": {name: {"column": name}} | dict(groups),
                "cluster": {"column": EXAMPLE} if cluster is None else cluster,
            }
    return content


def unread_labels(config: Config) -> Iterator[str]:
    """What of the labels nothing reads, a sentence each."""
    label, source, mitigation = config.label, config.source, config.mitigation
    retraining = config.retraining
    if (score := source.score) is not None:
        yield from _unread_label(label, of_error=not score.given)
        if retraining is not None and retraining.no_worse_than_previous is not False:
            yield (
                "retraining.no_worse_than_previous compares classes, and source.kind scores has "
                "numbers; set it to false"
            )
    if not label.columns:
        return
    if not source.may_have_several_labels:
        yield (
            f"label.columns names several labels, and source.kind {source.kind} reads one; audit "
            "predictions or onnx models, or train with image_folder or coco"
        )
    if config.robustness is not None and config.robustness.sets:
        yield (
            "robustness.sets has a folder a class and label.columns names several labels; leave "
            "out one of them"
        )
    asked = [("mitigation.technique", mitigation)] if mitigation is not None else []
    if config.tournament is not None:
        asked += [("tournament.techniques", one) for one in config.tournament.techniques]
    for key, one in asked:
        if not one.facts.several_labels:
            known = [name for name, facts in TECHNIQUES.items() if facts.several_labels]
            yield (
                f"{key} {one.technique} is for one label and label.columns names several; choose "
                f"among {', '.join(known)}"
            )
    if source.columns_of_answers:
        yield (
            "source.columns holds one prediction a model and label.columns names several labels; "
            "write one file a model, {variant}/{model}.csv, with a column for each label"
        )


def _unread_label(label: Label, *, of_error: bool) -> Iterator[str]:
    """A label that scores have no use for, and an error without one."""
    if label.columns or label.threshold is not None or label.positive is not None:
        yield (
            "label.columns, label.threshold and label.positive are for classes, and source.kind "
            "scores has numbers; leave them out"
        )
    if of_error and label.column is None:
        yield (
            "label.column is missing, the column of the true numbers that source.measure compares "
            "with; name it, or write measure: given"
        )
    if not of_error and label.column is not None:
        yield (
            "label.column is not read where the score is given; leave it out, or write measure: "
            "absolute_error"
        )
