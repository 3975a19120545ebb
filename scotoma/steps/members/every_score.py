"""Keep every score of members, and decide by them where a technique's classes are not one each."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scotoma.answers.group_keys import group_key
from scotoma.datasets import AuditedExamples
from scotoma.errors import DataError
from scotoma.inference import MemberAnswers
from scotoma.mitigation.decide import Rule, fit
from scotoma.mitigation.groups import TrainingGroups, training_groups
from scotoma.predictions.scores import SCORE_ROWS, ScoreHeads, write_scores
from scotoma.printable import printable
from scotoma.run import Run

if TYPE_CHECKING:
    from scotoma.predictions.scores import ScoredPart

__all__ = ["EveryScore"]


@dataclass
class EveryScore:
    """The scores of members while they arrive, on disk; nothing where they are not wanted.

    Attributes:
        run: Whose members they are.
        examples: The test examples.
        folder: For scores that are not whole yet.
        rule: Decides by all scores of a member; None where the highest score decides.
        groups: The groups in training; None where no technique reads any.
        codes: Group codes of the test examples, shape (N,), for rules that read them.
    """

    run: Run
    examples: AuditedExamples
    folder: Path
    rule: Rule | None = None
    groups: TrainingGroups | None = None
    codes: NDArray[np.int64] | None = None
    _missing: dict[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def open(cls, run: Run, examples: AuditedExamples, folder: Path) -> EveryScore:
        """Prepare the rule of the run's technique.

        Args:
            run: Its examples are prepared.
            examples: Of the test split.
            folder: An empty one.

        Raises:
            DataError: A test example is of a group that training did not have.
        """
        asked = run.config.mitigation
        if asked is None or not run.config.keeps_every_score:
            return cls(run, examples, folder)
        training = AuditedExamples.read(run.examples, images=False, split="train")
        groups = training_groups(run.config, training)
        if not asked.heads:
            return cls(run, examples, folder, groups=groups)
        width = groups.counts.size
        options = {"protocol": asked.protocol} if "protocol" in asked.facts.settings else {}
        rule = fit(
            asked.technique, np.zeros((len(training.labels), width)), training.labels,
            groups.codes, classes=len(examples.classes), **options,
        )  # fmt: skip
        codes = None
        if rule.needs.attributes == "each example":
            codes = _test_codes(examples, str(asked.attribute), groups.values)
        return cls(run, examples, folder, rule, groups, codes)

    @property
    def wanted(self) -> bool:
        """Whether inference is to give every score."""
        return self.run.config.keeps_every_score

    def take(self, variant: str, member: int, answers: MemberAnswers) -> NDArray[np.int64] | None:
        """Keep the scores of some rows; of the last ones of a member, write its file.

        Args:
            variant: Name of the variant.
            member: Index of the member.
            answers: With every score.

        Returns:
            The member's class ids, shape (N,), once all rows are there and if a rule decides.
        """
        whole = self._put(variant, member, answers)
        if whole is None:
            return None
        heads = self._heads(variant, member)
        ids = pl.Series(self.examples.image_ids, dtype=pl.String)

        def parts() -> Iterator[ScoredPart]:
            for start in range(0, len(ids), SCORE_ROWS):
                yield ids[start : start + SCORE_ROWS], whole[start : start + SCORE_ROWS]

        write_scores(self.run.scores(variant, member), parts(), heads)
        return self._decide(whole)

    def decide(self, variant: str, member: int, answers: MemberAnswers) -> NDArray[np.int64] | None:
        """Decide as `take` does, and write no file."""
        whole = self._put(variant, member, answers)
        return None if whole is None else self._decide(whole)

    def _put(self, variant: str, member: int, answers: MemberAnswers) -> NDArray[np.float32] | None:
        """Keep scores on disk; return a member's whole table once it is there."""
        scores, key = answers.every_score, (variant, member)
        assert scores is not None
        path = self.folder / f"{hashlib.sha256(variant.encode()).hexdigest()}-{member}.npy"
        rows = len(self.examples.image_ids)
        new = key not in self._missing
        table = np.lib.format.open_memmap(
            path,
            mode="w+" if new else "r+",
            dtype=np.float32 if new else None,
            shape=(rows, scores.shape[1]) if new else None,
        )
        table[answers.rows] = scores
        self._missing[key] = self._missing.get(key, rows) - len(scores)
        if self._missing[key]:
            return None
        del self._missing[key]
        path.unlink()  # the open table keeps what it holds
        return table

    def _decide(self, scores: NDArray[np.float32]) -> NDArray[np.int64] | None:
        if self.rule is None:
            return None
        if not np.isfinite(scores).all():  # a member that diverged says the first class
            return np.zeros(len(scores), np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            return self.rule(scores, self.codes)

    def _heads(self, variant: str, member: int) -> ScoreHeads:
        asked = self.run.config.mitigation
        classes = self.examples.several or self.examples.classes
        technique = asked.technique if asked else ""
        if self.rule is None or self.groups is None:
            return ScoreHeads(variant, member, classes, technique)
        return ScoreHeads(
            variant, member, classes, technique, str(asked.attribute if asked else ""),
            self.groups.values, tuple(map(tuple, self.groups.counts.tolist())),
        )  # fmt: skip


def _test_codes(
    examples: AuditedExamples, attribute: str, values: tuple[str, ...]
) -> NDArray[np.int64]:
    column = examples.table[attribute]
    unknown = sorted(set(column.unique().to_list()) - set(values))
    if unknown:
        raise DataError(
            "mitigation decides by the head of each test example's group, and training had none of "
            f"{printable(group_key([(attribute, unknown[0])]))}; leave out these examples, or "
            "choose DI2"
        )
    codes = column.replace_strict(list(values), list(range(len(values))), return_dtype=pl.Int64)
    return codes.to_numpy()
