"""What does MLflow's page of an experiment open with: which runs, columns and charts?"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from urllib.parse import quote, urlencode

__all__ = ["shared_view", "view_address"]

TAG = "mlflow.sharedViewState."  # begins the tags in which MLflow's page keeps views
KEY_SIGNS = 16  # of the digest of an audit's result, in the name of its view
SECTION = "0_charts"  # sorts before the sections of single metrics
AXES = (  # each that the audit has, in this order
    "1_quality/top1",
    "2_cie/excess_points",
    "3_worst/error_points",
    "3_worst/changed_points",
)


def shared_view(
    name: str, result: str, metrics: Collection[str], created_ms: int
) -> tuple[str, str]:
    """Make the view of one audit: a tag of the experiment, and its value.

    MLflow keeps a view in the browser, or in a tag of the experiment, as its button "Save and share
    view" writes it. The page then lists the variants of this audit alone, shows their verdicts in
    the table, and begins its charts with the worst group against accuracy. The bars of single
    metrics follow, as MLflow makes them.

    Args:
        name: What the menu of views calls it.
        result: Digest of the audit's result, the tag `scotoma.result` of its runs.
        metrics: Names of the metrics of its runs.
        created_ms: When it was made, in milliseconds since 1970.

    Returns:
        Name and value of the tag.

    References:
        MLflow 3.17, `savedViewEnvelope.ts`; earlier versions read the view beside the envelope.

    >>> tag, value = shared_view("digits-s", "0123456789abcdef0123", {"1_quality/top1"}, 0)
    >>> tag, json.loads(value)["searchFilter"]
    ('mlflow.sharedViewState.0123456789abcdef', "tags.`scotoma.result` = '0123456789abcdef0123'")
    """
    axes = [axis for axis in AXES if axis in metrics]
    view: dict[str, Any] = {
        "searchFilter": f"tags.`scotoma.result` = '{result}'",
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "selectedColumns": ["params.`verdict`", *(f"metrics.`{axis}`" for axis in axes)],
    }
    if len(axes) > 1:
        view["compareRunSections"] = [
            {"uuid": SECTION, "name": SECTION, "display": True, "isReordered": False}
        ]
        view["compareRunCharts"] = [
            _chart("SCATTER", xaxis=_axis(axes[0]), yaxis=_axis(axes[-1])),
            _chart("PARALLEL", selectedParams=[], selectedMetrics=axes),
        ]
    envelope = {"name": name, "createdAt": created_ms, "updatedAt": created_ms}
    return TAG + _key(result), _compact(view | envelope | {"state": _compact(view)})


def view_address(experiment_id: str, result: str) -> str:
    """The page that opens with the view of an audit, from the root of MLflow's pages.

    >>> view_address("3", "0123456789abcdef0123").partition("?")[0]
    '#/experiments/3/runs'
    """
    # A filter in the address would win over the view. Without a workflow MLflow shows the menu of
    # chat applications, in which runs are called evaluations.
    query = {
        "viewStateShareKey": _key(result),
        "compareRunsMode": "CHART",
        "workflowType": "machine_learning",
    }
    return f"#/experiments/{experiment_id}/runs?{urlencode(query, quote_via=quote)}"


def _key(result: str) -> str:
    return result[:KEY_SIGNS]


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _axis(metric: str) -> dict[str, str]:
    return {"key": metric, "type": "METRIC"}


def _chart(kind: str, **fields: Any) -> dict[str, Any]:
    """A chart as MLflow's page keeps it."""
    return {
        "uuid": f"{SECTION}-{kind.lower()}", "type": kind, "runsCountToCompare": 10,
        "metricSectionId": SECTION, "deleted": False, "isGenerated": False, **fields,
    }  # fmt: skip
