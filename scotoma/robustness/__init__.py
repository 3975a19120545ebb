"""How much more does a compressed model lose on worse pictures, and for whom?

Every number is a function of right answers to clean and corrupted pictures of the same examples:
differences are paired by example, and by member where variants share one.
"""

from __future__ import annotations

from scotoma.robustness.amplification import (
    Amplification,
    GroupTest,
    amplification,
    group_contrast,
    group_tests,
)
from scotoma.robustness.corruption_error import CorruptionErrors, corruption_errors
from scotoma.robustness.disagreement import Disagreement, disagreement
from scotoma.robustness.distortion import distortion, example_mean, structural_similarity
from scotoma.robustness.losses import SCALES, Loss, Scale, loss, relative_robustness
from scotoma.robustness.right_answers import Answered, RightAnswers

__all__ = [
    "SCALES",
    "Amplification",
    "Answered",
    "CorruptionErrors",
    "Disagreement",
    "GroupTest",
    "Loss",
    "RightAnswers",
    "Scale",
    "amplification",
    "corruption_errors",
    "disagreement",
    "distortion",
    "example_mean",
    "group_contrast",
    "group_tests",
    "loss",
    "relative_robustness",
    "structural_similarity",
]
