"""What did the papers print? Their tables and protocols as typed records, each with its source."""

from scotoma.published.loading import (
    autoslicer,
    cie,
    clarify,
    fairness_runs,
    fairness_variance,
    pie,
)
from scotoma.published.records import (
    AutoSlicer,
    Cie,
    Clarify,
    FairnessRuns,
    FairnessVariance,
    Pie,
    PublishedTable,
    PublishedTest,
)

__all__ = [
    "AutoSlicer",
    "Cie",
    "Clarify",
    "FairnessRuns",
    "FairnessVariance",
    "Pie",
    "PublishedTable",
    "PublishedTest",
    "autoslicer",
    "cie",
    "clarify",
    "fairness_runs",
    "fairness_variance",
    "pie",
]
