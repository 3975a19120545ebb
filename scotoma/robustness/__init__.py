"""How much more does a compressed model lose on worse pictures, and for whom?

Every number is a function of right answers to clean and corrupted pictures of the same examples:
differences are paired by example, and by member where variants share one.
"""

from __future__ import annotations

from scotoma.robustness.amplification import (
    Amplification,
    GroupTest,
    amplified_loss,
    group_contrast,
    group_tests,
)
from scotoma.robustness.chance import OnePair, corruption_draw_variance, one_pair
from scotoma.robustness.corruption_error import CorruptionErrors, corruption_errors, errors_over
from scotoma.robustness.distortion import distortion, example_mean, structural_similarity
from scotoma.robustness.losses import SCALES, Loss, Scale, loss, relative_robustness
from scotoma.robustness.other_sets import OtherSet, other_set, set_accuracy
from scotoma.robustness.right_answers import Answered, RightAnswers

__all__ = [
    "SCALES",
    "Amplification",
    "Answered",
    "CorruptionErrors",
    "GroupTest",
    "Loss",
    "OnePair",
    "OtherSet",
    "RightAnswers",
    "Scale",
    "amplified_loss",
    "corruption_draw_variance",
    "corruption_errors",
    "distortion",
    "errors_over",
    "example_mean",
    "group_contrast",
    "group_tests",
    "loss",
    "one_pair",
    "other_set",
    "relative_robustness",
    "set_accuracy",
    "structural_similarity",
]
