"""The class ids of one variant in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from scotoma.answers.note import AdmissionNote
from scotoma.answers.pair import Answers
from scotoma.errors import DataError
from scotoma.numbers.inputs import first_difference, integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    ClassIds: TypeAlias = NDArray[np.unsignedinteger[Any]]


TOP, FEW_CLASSES = 5, 10


def kept_classes(classes: int) -> int:
    """How many of a member's best classes are kept: five of more than ten classes, else one.

    >>> kept_classes(10), kept_classes(11)
    (1, 5)
    """
    return TOP if classes > FEW_CLASSES else 1


@dataclass(frozen=True)
class Predictions(Answers):
    """The answers of one variant of an audit.

    Attributes:
        variant: Its name.
        predicted: Class ids, uint8 or uint16, shape (N, K).
        example_ids: Shape (N,), unique.
        members: Indices of the members in their population, ascending, shape (K,).
        classes: Class names by id.
        paired_with: Variant whose member of the same index each member derives from, or "".
        scores: Softmax probability of each predicted class, float16, shape (N, K), or None.
        runtimes: What ran the members, in words, each way once.
        top5: The five classes of the highest scores, the highest first, shape (N, K, 5), or None.
        admission: How the answers were read, where they are others'.
    """

    example_ids: tuple[str, ...]
    members: tuple[int, ...]
    classes: tuple[str, ...]
    paired_with: str = ""
    scores: NDArray[np.float16] | None = None
    runtimes: tuple[str, ...] = ()
    top5: ClassIds | None = None
    admission: tuple[AdmissionNote, ...] = ()

    def __post_init__(self) -> None:
        shape = (len(self.example_ids), len(self.members))
        refuse_ids(self.variant, shape, len(self.classes), self.predicted)
        if self.scores is not None:
            refuse_unless("scores", self.variant, shape, self.scores)
        if self.top5 is not None:
            refuse_unless("top-5", self.variant, (*shape, TOP), self.top5)
            refuse_ids(self.variant, (*shape, TOP), len(self.classes), self.top5)
        if len(set(self.example_ids)) < len(self.example_ids):
            twice = next(i for i, n in Counter(self.example_ids).items() if n > 1)
            raise DataError(
                f"predictions of {self.variant} hold example {twice!r} twice; ids must be unique"
            )

    def write(self, path: Path) -> None:
        """Write Parquet: see `write_predictions`."""
        from scotoma.predictions.files import ROWS, write_predictions

        cuts = [slice(at, at + ROWS) for at in range(0, max(1, len(self.example_ids)), ROWS)]
        write_predictions(
            path,
            (
                (
                    self.example_ids[c],
                    self.predicted[c],
                    None if self.scores is None else self.scores[c],
                    None if self.top5 is None else self.top5[c],
                )
                for c in cuts
            ),
            variant=self.variant,
            members=self.members,
            classes=self.classes,
            paired_with=self.paired_with,
            keep_scores=self.scores is not None,
            keep_top5=self.top5 is not None,
            runtimes=self.runtimes,
            admission=self.admission,
        )

    @classmethod
    def read(cls, path: Path, *, top5: bool = False) -> Predictions:
        """Read what `write` wrote; `top5`, five times as large as the rest, only if asked for."""
        from scotoma.predictions.files import PredictionFile

        return PredictionFile.open(path).read(top5=top5)

    @classmethod
    def gather(cls, parts: list[Predictions]) -> Predictions:
        """Put the members of several shards side by side, in the order of their indices.

        Raises:
            DataError: The shards are not of one variant and the same examples.
        """
        first = parts[0]
        for part in parts[1:]:
            if part.variant != first.variant:
                raise DataError(
                    f"shards of {first.variant} must hold its members, got those of "
                    f"{part.variant}; run the predict step again"
                )
            if apart := first_difference(first.example_ids, part.example_ids):
                raise DataError(
                    f"shards of {first.variant} must hold the same examples in the same order, got "
                    f"{apart}; run the predict step again"
                )
            if part.classes != first.classes:
                raise DataError(
                    f"shards of {first.variant} count different classes; run the predict step again"
                )
        members = np.concatenate([part.members for part in parts])
        if len(set(members.tolist())) < len(members):
            raise DataError(
                f"shards of {first.variant} hold a member twice, {sorted(members.tolist())}; "
                "run the predict step again"
            )
        order = np.argsort(members, kind="stable")
        scores = [part.scores for part in parts if part.scores is not None]
        top5 = [part.top5 for part in parts if part.top5 is not None]
        return cls(
            variant=first.variant,
            example_ids=first.example_ids,
            members=tuple(members[order].tolist()),
            classes=first.classes,
            predicted=np.concatenate([part.predicted for part in parts], axis=1)[:, order],
            paired_with=first.paired_with,
            scores=np.concatenate(scores, axis=1)[:, order] if len(scores) == len(parts) else None,
            runtimes=tuple(sorted({runtime for part in parts for runtime in part.runtimes})),
            top5=np.concatenate(top5, axis=1)[:, order] if len(top5) == len(parts) else None,
            admission=tuple(dict.fromkeys(note for part in parts for note in part.admission)),
        )


def refuse_ids(
    variant: str, shape: tuple[int, ...], classes: int, predicted: NDArray[np.integer]
) -> None:
    """Refuse class ids of another shape, or out of range."""
    if predicted.shape != shape:
        raise DataError(
            f"predictions of {variant} have shape {predicted.shape} for {shape[0]} examples and "
            f"{shape[1]} members"
        )
    if predicted.size and not 0 <= predicted.min() <= predicted.max() < classes:
        wrong = predicted.min() if predicted.min() < 0 else predicted.max()
        raise DataError(
            f"predictions of {variant} hold class id {int(wrong)}; ids go from 0 to {classes - 1}"
        )


def refuse_unless(
    what: str, variant: str, shape: tuple[int, ...] | None, kept: NDArray[Any] | None
) -> None:
    """Refuse scores or top-5 class ids of another shape."""
    held = None if kept is None else kept.shape
    if held != shape:
        got, wanted = ("none" if one is None else f"shape {one}" for one in (held, shape))
        way_out = "leave them out" if shape is None else "keep one per prediction"
        raise DataError(f"{what} of {variant} must have {wanted}, got {got}; {way_out}")


def smallest_type(classes: int) -> type[np.uint8 | np.uint16]:
    """The type that class ids of so many classes are kept in.

    >>> smallest_type(256).__name__, smallest_type(257).__name__
    ('uint8', 'uint16')
    """
    if classes > 2**16:
        raise DataError(f"classes must be at most 65,536, got {classes:,}; audit fewer at a time")
    return np.uint8 if classes <= 2**8 else np.uint16


def label_counts(predicted: NDArray[np.integer], classes: int) -> NDArray[np.int64]:
    """How many members give each example each class.

    Args:
        predicted: Class ids, shape (N, K).
        classes: Number of classes C.

    Returns:
        Counts b[x, i], int64, shape (N, C); every row sums to K.

    Raises:
        DataError: A class id is out of range.

    References:
        Hooker et al. (2020), "Characterising Bias in Compressed Models", section 2.

    >>> label_counts(np.array([[0, 2, 2], [1, 1, 1]]), 3)
    array([[1, 0, 2],
           [0, 3, 0]])
    """
    predicted = integers(predicted, "predicted", "an examples by members table of class ids")
    if predicted.ndim != 2:
        raise DataError(
            f"predicted must be a table of examples by members, got shape {predicted.shape}: pass "
            "one column per member"
        )
    if predicted.size and not 0 <= predicted.min() <= predicted.max() < classes:
        raise DataError(
            f"predicted holds a class id outside 0 to {classes - 1}: "
            f"{predicted.min()} to {predicted.max()}; number the classes from 0"
        )
    n = len(predicted)
    cells = predicted.astype(np.int64) + classes * np.arange(n)[:, None]
    return np.bincount(cells.ravel(), minlength=n * classes).reshape(n, classes)
