"""What was decided before anyone was asked? The plan of a study, its hash and its files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from scotoma.errors import ConfigError, DataError
from scotoma.processes.unreadable import reason
from scotoma.storage.files import read_json, write_json

Arm = Literal["A", "B", "C"]


@contextmanager
def owner_only() -> Iterator[None]:
    """Let files that are made meanwhile be readable for their owner alone."""
    mask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(mask)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MeasuredNumber(_Part):
    """A number with its interval.

    Attributes:
        value: The number.
        low: Lower limit.
        high: Upper limit.
    """

    value: float
    low: float
    high: float


class StudyPlan(_Part):
    """A study as it was planned: preregistration in one file.

    Attributes:
        version: Of this format.
        project: Project of the audit.
        audit_sha256: SHA-256 of its audit.json.
        variant: Whose CIEs are studied.
        group: Attribute by whose values arms are stratified; empty for none.
        changed: CIEs of the variant.
        per_arm: Images an arm.
        matched: Arm A holds the CIEs that have an equally contested unchanged example; otherwise
            it is drawn from all.
        draws: How many plans were drawn.
        kept: How many of them were blind and balanced; the first of these is this plan.
        seed: Decides arms, orders and bootstraps.
        classes: Number of classes.
        labels: Rule of the labels beside an image.
        define_on: Members on which CIEs are chosen.
        still_cie: Share of arm A that are CIEs of the other half of the members; None unless
            `define_on` is `half`.
        questions: Keys of the questions.
        primary: Question and contrast of the primary outcome.
        level: Confidence level.
        annotators: How many are planned.
        repeats: Images that each annotator sees twice.
        practice: Images before the first that counts.
        guesses: Images of the second pass.
        consistency_screen: Share of equal answers to repeated images below which an annotator is
            left out of the second result.
        time_screen_s: Median seconds an answer below which the same holds.
        analysis: How differences are judged, in words.
        leak: AUC of telling the arms apart by machine, by contrast.
        imbalance: Standardised mean difference of agreement between arms A and C.
        leaky: Whether the study went on although a machine can tell the arms.
        contact: Who asks.
        purpose: Why.
        keep: How long answers are kept.
        faces: Legal basis for showing faces; empty where none are declared.
        blurred: Whether images are blurred.
    """

    version: Literal[1] = 1
    project: str
    audit_sha256: str
    variant: str
    group: str
    changed: int
    per_arm: int
    matched: bool
    draws: int
    kept: int
    seed: int
    classes: int
    labels: Literal["pooled", "paper", "true"]
    define_on: Literal["all", "half"]
    still_cie: float | None
    questions: tuple[str, ...]
    primary: tuple[str, str]
    level: float
    annotators: int
    repeats: int
    practice: int
    guesses: int
    consistency_screen: float
    time_screen_s: float
    analysis: str
    leak: dict[str, MeasuredNumber]
    imbalance: float
    leaky: bool
    contact: str
    purpose: str
    keep: str
    faces: str
    blurred: bool

    @property
    def sha256(self) -> str:
        """Hash of everything that was planned."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


class KeyEntry(_Part):
    """What an item is: never sent, read by the analysis alone.

    Attributes:
        example_id: The example.
        arm: Its arm.
        class_name: Its true class.
        group: Its group, such as `side=left`; empty unless the plan has groups.
        agreement: Largest share of all votes on one class.
        weight: Examples of its stratum for which it stands; None in an arm that is matched.
        label_rule: What named its third label.
    """

    example_id: str
    arm: Arm
    class_name: str
    group: str
    agreement: float
    weight: float | None
    label_rule: str


class Orders(_Part):
    """Item ids as one annotator sees them.

    Attributes:
        practice: Before the first that counts.
        main: Those that count; the second time an id occurs is a repeat.
        guess: Those of the second pass.
    """

    practice: tuple[str, ...]
    main: tuple[str, ...]
    guess: tuple[str, ...]


class StudyKey(_Part):
    """What every item is, and the order in which each annotator sees them.

    Attributes:
        items: By item id; practice images are none of them.
        orders: Of annotators 1, 2 and so on.
    """

    items: dict[str, KeyEntry]
    orders: tuple[Orders, ...]


class StudyFolder:
    """The files of a study.

    Attributes:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def key_file(self) -> Path:
        """What every item is and who sees which when, for its owner alone."""
        return self.root / "key.json"

    @property
    def send(self) -> Path:
        """Folder of the files for those who answer; nothing in it says which arm an item is of."""
        return self.root / "send"

    @property
    def result_file(self) -> Path:
        """What `scotoma study result` found."""
        return self.root / "result.json"

    def write_plan(self, plan: StudyPlan) -> None:
        """Write the plan with its hash."""
        content = {"plan": plan.model_dump(mode="json"), "sha256": plan.sha256}
        write_json(self.root / "plan.json", content)

    def plan(self) -> StudyPlan:
        """Read the plan.

        Raises:
            ConfigError: The folder holds none.
            DataError: It was edited since it was written.
        """
        content = self._json("plan.json", ConfigError)
        try:
            plan, sha256 = StudyPlan.model_validate(content["plan"]), str(content["sha256"])
        except (ValidationError, LookupError, TypeError) as error:
            raise DataError(
                f"{self.root / 'plan.json'} must hold the plan of a study ({reason(error)}); "
                "make the study again with scotoma study new"
            ) from error
        if plan.sha256 != sha256:
            raise DataError(
                f"{self.root / 'plan.json'} was edited after it was written, so its hash no longer "
                "holds; put it back, or make a new study with scotoma study new"
            )
        return plan

    def write_key(self, key: StudyKey) -> None:
        """Write which item is what, readable for its owner alone."""
        with owner_only():
            write_json(self.key_file, key.model_dump(mode="json"), indent=None)

    def key(self) -> StudyKey:
        """Read which item is what.

        Raises:
            DataError: The file is missing or damaged.
        """
        content = self._json("key.json", DataError)
        try:
            return StudyKey.model_validate(content)
        except ValidationError as error:
            raise DataError(f"{self.key_file} is damaged; restore it from a backup") from error

    def _json(self, name: str, kind: type[ConfigError] | type[DataError]) -> Any:
        path = self.root / name
        try:
            return read_json(path)
        except OSError as error:
            raise kind(f"{path} is missing; name a folder that scotoma study new made") from error
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is damaged; restore it from a backup") from error
