"""Which output of an ONNX model holds the scores, and which of its axes are the classes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scotoma.errors import DataError
from scotoma.printable import printable

Shape: TypeAlias = Sequence[int | None] | None  # None for a free axis, and for an unknown rank

# Operators that keep values or their order, and those whose result lies between 0 and 1.
PASSING = {"Cast", "Clip", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape"}
PASSING |= {"Squeeze", "Transpose", "Unsqueeze"}
BETWEEN_0_AND_1 = {"HardSigmoid", "QLinearSigmoid", "Reciprocal", "Sigmoid", "Softmax"}
USUAL = ("logits", "scores", "probabilities", "probs")  # names of scores, where several fit
SURE = 1e-7  # a probability of 0 or 1 would be an infinite score


def shown_shape(shape: Shape) -> str:
    """Write a shape for a sentence.

    >>> shown_shape([None, 3, 8, 8]), shown_shape([5])
    ('(any, 3, 8, 8)', '(5,)')
    """
    sides = ["any" if side is None else str(side) for side in shape or ()]
    return f"({sides[0]},)" if len(sides) == 1 else f"({', '.join(sides)})"


def _fit(shape: Shape, classes: int, labels: bool) -> int:
    """Say how well scores fit: 3 a score a class, 2 one for two classes, 1 perhaps, 0 not."""
    if shape is None:
        return 1
    beyond_batch = [side for side in shape[1:] if side != 1]
    known = [side for side in beyond_batch if side is not None]
    if not shape or known not in ([], [classes]):
        return 0
    if not beyond_batch:
        return 2 if classes == 2 and not labels else 0
    return 3 if beyond_batch == [classes] else 1


def is_one_score(shape: Shape) -> bool:
    """Whether an output is known to be one number an image."""
    return _fit(shape, 2, labels=False) == 2


def choose_output(
    outputs: Mapping[str, Shape],
    classes: int,
    *,
    labels: bool = False,
    asked: str = "",
    called: str = "the model",
) -> str:
    """Choose the output that holds a score for each class.

    Args:
        outputs: The shape of each output by name, batch first; axes of length 1 are ignored.
        classes: Number of classes. One score an image will do for two.
        labels: They are labels, of which an image may have several, and each needs its own score.
        asked: The output that the configuration names; empty to choose by shape, of several
            that fit the one with a usual name.
        called: What messages call the model.

    Returns:
        Its name.

    Raises:
        DataError: The output is not there, does not fit the classes, or several fit.

    >>> choose_output({"features": [None, 512], "logits": [None, 10, 1, 1]}, 10)
    'logits'
    """
    names = ", ".join(map(printable, outputs))
    if asked:
        if asked not in outputs:
            raise DataError(
                f"{called} must have the output of source.output, got {names} and not "
                f"{printable(asked)!r}; correct source.output"
            )
        outputs = {asked: outputs[asked]}
    fits = {name: _fit(shape, classes, labels) for name, shape in outputs.items()}
    best = max(fits.values(), default=0)
    chosen = [name for name, fit in fits.items() if fit == best]
    usual = [name for word in USUAL for name in chosen if name.lower() == word]
    chosen = usual[:1] or chosen
    if best and len(chosen) == 1:
        return chosen[0]
    if best:
        raise DataError(
            f"{called} must give one output with a score for each of {classes} classes, got "
            f"{len(chosen)}: {', '.join(map(printable, chosen))}; name one in source.output"
        )
    got = " and ".join(map(shown_shape, outputs.values())) or "nothing"
    way_out = "list its classes in source.classes, in the order of the scores"
    raise DataError(
        f"{called} must give a score for each of {classes} {'labels' if labels else 'classes'}, "
        f"got an output of {got}; {'use a model of these labels' if labels else way_out}"
    )


def is_probability(producers: Mapping[str, tuple[str, Sequence[str]]], output: str) -> bool:
    """Tell whether an output is a probability by the operator that computes it.

    Args:
        producers: By the name of each value, the operator that computes it and what that reads.
        output: The name of the output.

    >>> is_probability({"p": ("Squeeze", ["q"]), "q": ("Sigmoid", ["z"])}, "p")
    True
    """
    for _ in range(len(producers)):
        operator, inputs = producers.get(output, ("", ()))
        if operator not in PASSING or not inputs:
            return operator in BETWEEN_0_AND_1
        output = inputs[0]
    return False


def class_scores(
    values: NDArray[Any], classes: int, *, labels: bool = False, probability: bool = False
) -> NDArray[np.float32]:
    """Bring an output to a score for each class.

    Args:
        values: Shape (B, C), with axes of length 1 anywhere behind the first; or (B,) and the same
            with axes of length 1, one score for the second of two classes.
        classes: Number of classes.
        labels: They are labels; see `choose_output`.
        probability: One score is a probability in [0, 1], and not its logit.

    Returns:
        float32, shape (B, C); whatever else was given in its own shape, without axes of length 1.

    >>> class_scores(np.array([[[0.25]], [[0.75]]]), 2, probability=True).round(3)
    array([[ 0.   , -1.099],
           [ 0.   ,  1.099]], dtype=float32)
    """
    scores = values.astype(np.float32, copy=False)
    scores = scores.reshape(len(scores), *(side for side in scores.shape[1:] if side != 1))
    if scores.ndim > 1 or classes != 2 or labels:
        return scores if scores.ndim > 1 else scores[:, None]
    if probability:
        inside = np.clip(scores.astype(np.float64), SURE, 1 - SURE)
        # A number that is none stays none, and is refused as such.
        scores = np.log(inside / (1 - inside)).astype(np.float32)
    return np.stack([np.zeros_like(scores), scores], axis=1)
