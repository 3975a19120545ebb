"""Where are the published numbers? In JSON files of this package."""

from __future__ import annotations

from importlib import resources
from typing import TypeVar

from scotoma.published.records import (
    AutoSlicer,
    Cie,
    Clarify,
    CommonCorruptions,
    FairnessVariance,
    Pie,
    PublishedFairnessRuns,
    PublishedPart,
)

R = TypeVar("R", bound=PublishedPart)


def cie() -> Cie:
    """Load what Hooker et al. 2020 print of compressed models on CelebA.

    >>> cie().table1.row("0.9")
    {'top1': 94.07, 'modal CIEs': 3229}
    """
    return _load("cie", Cie)


def pie() -> Pie:
    """Load what Hooker et al. 2019 print of pruned models on ImageNet and CIFAR-10.

    >>> pie().table3.column("PIEs")["0.9"]
    216
    """
    return _load("pie", Pie)


def clarify() -> Clarify:
    """Load the worked example of SageMaker Clarify on UCI Adult.

    >>> clarify().metrics["DPL"]
    0.2
    """
    return _load("clarify", Clarify)


def common_corruptions() -> CommonCorruptions:
    """Load what Hendrycks and Dietterich 2019 print of AlexNet on ImageNet-C.

    >>> common_corruptions().alexnet.column("error")["fog"]
    0.819324
    """
    return _load("common_corruptions", CommonCorruptions)


def autoslicer() -> AutoSlicer:
    """Load the counts and costs that Liu et al. 2022 print for AutoSlicer.

    >>> autoslicer().table1["census"].row("batch")["candidate slices"]
    63861
    """
    return _load("autoslicer", AutoSlicer)


def fairness_variance() -> FairnessVariance:
    """Load what Qian et al. 2021 print of training runs that differ in nothing but chance.

    >>> len(fairness_variance().tests)
    77
    """
    return _load("fairness_variance", FairnessVariance)


def fairness_runs() -> PublishedFairnessRuns:
    """Load the 16 runs of each technique that Qian et al. 2021 published.

    >>> fairness_runs().values("S-Base", "DP").shape
    (16, 11)
    """
    return _load("fairness_variance_runs", PublishedFairnessRuns)


def _load(name: str, kind: type[R]) -> R:
    text = resources.files(__package__).joinpath(f"{name}.json").read_text("utf-8")
    return kind.model_validate_json(text)
