"""What was corrupted, and which other test sets were tried; their numbers are rows."""

from __future__ import annotations

from pydantic import Field

from scotoma.audit.base import At, Count, Flag, Part, Row

ALL_KINDS = "all"  # the family of every standard corruption


def depends_on_scale(at: At) -> bool:
    """Whether the scales of a loss disagree on who loses more."""
    scales = ("absolute", "relative", "log_odds")
    values = [at[scale].number.value or 0.0 for scale in scales if scale in at]
    return min(values, default=0.0) < 0 < max(values, default=0.0)


class Corruption(Part):
    """One corruption of the suite."""

    kind: str = Field(description="Its name: `gaussian_noise`.")
    family: str = Field(description="`noise`, `blur`, `weather`, `digital` or `extended`.")
    standard: Flag = Field(description="Whether it is one of the 15 that mCE is a mean of.")


class TriedSet(Part):
    """Another test set."""

    name: str = Field(description="What the configuration calls it.")
    n: Count = Field(description="Its pictures.")
    classes: Count = Field(description="Classes that it has pictures of.")
    masked: Flag = Field(description="Whether models chose among these classes alone.")
    selected_against: str | None = Field(
        description="The model that failed on these pictures, if they were chosen for that: only "
        "differences of accuracy are given then."
    )


class RobustnessReport(Part):
    """What was corrupted, and which other test sets were tried.

    The numbers are rows of question `robustness`, told apart by what they are and by their facts:
    `family` of corruptions (`all` for every standard one, `clean` for clean pictures), `kind` (one
    corruption, or `all`), `severity` (0 for clean pictures), `name` of another test set.

    - `curves.accuracy`: accuracy of a variant, dense too, mean over the corruptions of a family
    - `by_corruption.accuracy`, `.top5_accuracy`: the same under one corruption, all severities
    - `by_corruption.relative_robustness`, `.top5_relative_robustness`: 100 times that over the clean accuracy, as the PIE paper has it
    - `by_corruption.ce`: corruption error: error over that of dense; of `all` mCE
    - `by_corruption.relative_ce`: the same of what the corruption adds to the clean error
    - `by_corruption.alexnet_ce`: error over AlexNet's published one, for published files of ImageNet-C
    - `losses.dense_clean`, `.dense`, `.compressed_clean`, `.compressed`: accuracies of a group on clean and corrupted pictures, by metric
    - `losses.absolute`, `.relative`, `.log_odds`: loss of accuracy, compressed minus dense: a fraction, a share of the clean accuracy, log-odds
    - `losses.contrast`, `.p`, `.p_adjusted`: `absolute` of the group minus that of all others; its two-sided p-value; the same after Holm
    - `losses.misled`: share of single pairs of models that do not show the sign of `absolute`
    - `losses.draw_variance`: part of the variance of `absolute` that random corruptions make
    - `floor`: by family: the absolute loss of one half of the dense models less that of the other
    - `distortion.change`, `.similarity`: how far pictures changed, in grey levels of 255; structural similarity, 1 for no change
    - `disagreement.cie_share`, `.taxicab`, `.flips`: share of CIEs, of votes that differ, and of models that differ, at one severity
    - `confidence.rows.gap`, `.gap_change`: mean confidence minus accuracy, and that less dense's
    - `confidence.detection.auroc`, `.auroc_change`: chance that a clean picture looks more familiar by `measure`, and that less dense's
    - `matched.clean`, `.matched_clean`, `.absolute`, `.relative`, `.log_odds`: a variant beside `matched`, another one that is as accurate on clean pictures
    - `sets.dense`, `.dense_test`: accuracy of dense on another test set, and on the test examples
    - `sets.rows.accuracy`, `.difference`, `.absolute`, `.relative`, `.log_odds`: accuracy of a variant there, that minus dense's, and the loss from the test set to this one beyond dense
    """  # noqa: E501

    profile: str | None = Field(
        description="The severities: `cifar-c`, `imagenet-c`, `scaled`; `predictions` where models "
        "predicted elsewhere; null where no picture was corrupted and `sets` alone were tried."
    )
    note: str = Field(description="What to know before comparing with published tables.")
    examples: Count = Field(description="Test examples that were corrupted.")
    test: Count = Field(description="Test examples of the audit.")
    severities: tuple[Count, ...] = Field(description="The severities.")
    corruption_seeds: Count = Field(description="Draws of each random corruption.")
    members: dict[str, Count] = Field(description="Members that were run, by variant.")
    corruptions: tuple[Corruption, ...] = Field(description="The corruptions.")
    left_out: dict[str, str] = Field(description="Corruptions that were not made, and why.")
    sets: tuple[TriedSet, ...] = Field((), description="Other test sets.")


class RobustnessSection(Part):
    """What the step `robustness` leaves."""

    robustness: RobustnessReport = Field(description="What was run.")
    rows: tuple[Row, ...] = Field(description="Its numbers.")
