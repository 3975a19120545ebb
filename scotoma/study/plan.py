"""What was decided before anyone was asked? The plan of a study, its hash and its files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from scotoma.errors import ConfigError, DataError
from scotoma.run.records import read_json, write_json
from scotoma.unreadable import reason

__all__ = ["Arm", "KeyEntry", "MeasuredNumber", "Orders", "StudyFolder", "StudyPlan"]

Arm = Literal["A", "B", "C"]


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
        per_arm: Images an arm.
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
    per_arm: int
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
        weight: Examples of its stratum for which it stands; None in arm C, which is matched.
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


class StudyFolder:
    """The files of a study.

    Attributes:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def key_file(self) -> Path:
        """Item id to arm, for its owner alone; `serve` never opens it."""
        return self.root / "key.json"

    @property
    def items_file(self) -> Path:
        """Images and labels by item id."""
        return self.root / "items.parquet"

    @property
    def answers_file(self) -> Path:
        """The database of answers."""
        return self.root / "answers.sqlite"

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

    def write_key(self, key: dict[str, KeyEntry]) -> None:
        """Write which item is what, readable for its owner alone."""
        _write_private(
            self.key_file, {one: entry.model_dump(mode="json") for one, entry in key.items()}
        )

    def key(self) -> dict[str, KeyEntry]:
        """Read which item is what.

        Raises:
            DataError: The file is missing or damaged.
        """
        content = self._json("key.json", DataError)
        try:
            return {name: KeyEntry.model_validate(entry) for name, entry in content.items()}
        except (ValidationError, AttributeError) as error:
            raise DataError(f"{self.key_file} is damaged; restore it from a backup") from error

    @property
    def offline_keys_file(self) -> Path:
        """Keys that stamp answers given without the server, for its owner alone."""
        return self.root / "offline_keys.json"

    def write_offline_keys(self, keys: dict[int, bytes]) -> None:
        """Write the key of each annotator who answers without the server."""
        _write_private(self.offline_keys_file, {str(who): key.hex() for who, key in keys.items()})

    def offline_keys(self) -> dict[int, bytes]:
        """Read these keys; none where nobody answers without the server.

        Raises:
            DataError: The file is damaged.
        """
        if not self.offline_keys_file.exists():
            return {}
        content = self._json("offline_keys.json", DataError)
        try:
            return {int(who): bytes.fromhex(key) for who, key in content.items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(
                f"{self.offline_keys_file} is damaged; restore it from a backup"
            ) from error

    def write_orders(self, orders: list[Orders]) -> None:
        """Write the order of items for every annotator."""
        rows = [one.model_dump(mode="json") for one in orders]
        write_json(self.root / "orders.json", rows, indent=None)

    def orders(self, annotator: int) -> Orders:
        """Read the order of one annotator, counted from 1.

        Raises:
            ConfigError: There is no such annotator.
        """
        rows = self._json("orders.json", ConfigError)
        if not 1 <= annotator <= len(rows):
            raise ConfigError(
                f"--annotator must be a number from 1 to {len(rows)}, got {annotator}"
            )
        return Orders.model_validate(rows[annotator - 1])

    def every_order(self) -> dict[int, Orders]:
        """Read the orders of all annotators, by number.

        Raises:
            ConfigError: There are none.
        """
        rows = self._json("orders.json", ConfigError)
        return {number: Orders.model_validate(row) for number, row in enumerate(rows, 1)}

    def _json(self, name: str, kind: type[ConfigError] | type[DataError]) -> Any:
        path = self.root / name
        try:
            return read_json(path)
        except OSError as error:
            raise kind(f"{path} is missing; name a folder that scotoma study new made") from error
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is damaged; restore it from a backup") from error


def _write_private(path: Path, content: Any) -> None:
    """Write JSON that only its owner may read."""
    mask = os.umask(0o077)
    try:
        write_json(path, content)
    finally:
        os.umask(mask)
