"""What did the papers print? Their tables and protocols as typed records, each with its source."""

from scotoma.published.loading import (
    autoslicer,
    cie,
    clarify,
    common_corruptions,
    fairness_runs,
    fairness_variance,
    pie,
)
from scotoma.published.records import (
    AutoSlicer,
    Cie,
    Clarify,
    CommonCorruptions,
    FairnessVariance,
    Pie,
    PublishedFairnessRuns,
    PublishedTable,
    PublishedTest,
)

__all__ = [
    "AutoSlicer",
    "Cie",
    "Clarify",
    "CommonCorruptions",
    "FairnessVariance",
    "Pie",
    "PublishedFairnessRuns",
    "PublishedTable",
    "PublishedTest",
    "autoslicer",
    "cie",
    "clarify",
    "common_corruptions",
    "fairness_runs",
    "fairness_variance",
    "pie",
]
