"""What do MLflow's pages of an experiment open with: which runs, columns and charts?"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import Any
from urllib.parse import quote, urlencode

from scotoma.tracking.records import AUDIT, KIND

TAG = "mlflow.sharedViewState."  # begins the tags in which MLflow's page keeps views
KEY_SIGNS = 16  # of the digest of an audit's result, in the name of its view
ALL = "scotoma-audits"  # the view of all audits
SECTION = "Headline"  # before the charts of single metrics, which MLflow makes itself
ORDER = "tags.`mlflow.runName`"  # by time MLflow would fold the variants below their audit
WIDE = {"worst_group": 150, "worst_rise": 215}  # columns, pixels
AXES = ("accuracy", "cie_excess", "error_rise_worst", "changed_worst")  # each that the audit has
COLUMNS = ("verdict", "worst_group", "worst_rise")
WRITTEN = "[Table of the audits]"  # begins a description that is ours


def shared_view(
    name: str, result: str, metrics: Collection[str], created_ms: int
) -> tuple[str, str]:
    """Make the view of one audit: a tag of the experiment, and its value.

    MLflow keeps a view in the browser, or in a tag of the experiment, as its button "Save and share
    view" writes it. The page then lists the variants of this audit alone, in a flat list: MLflow
    nests and folds runs only where they are sorted by time.

    Args:
        name: What the menu of views calls it.
        result: Digest of the audit's result, the tag `scotoma.result` of its runs.
        metrics: Names of the metrics of its runs.
        created_ms: When it was made, in milliseconds since 1970.

    Returns:
        Name and value of the tag.

    References:
        MLflow 3.17, `savedViewEnvelope.ts`; earlier versions read the view beside the envelope.

    >>> tag, value = shared_view("digits-s", "0123456789abcdef0123", {"accuracy"}, 0)
    >>> tag, json.loads(value)["orderByKey"]
    ('mlflow.sharedViewState.0123456789abcdef', 'tags.`mlflow.runName`')
    """
    axes = [axis for axis in AXES if axis in metrics]
    query = f"tags.`scotoma.result` = '{result}' and tags.`{KIND}` = 'variant'"
    view = _view(query, axes, ascending=True)
    if len(axes) > 1:
        view["isAccordionReordered"] = True  # else MLflow sorts the sections
        view["compareRunSections"] = [
            {"uuid": name, "name": name, "display": True, "isReordered": False}
            for name in (SECTION, "Model metrics")
        ]
        view["compareRunCharts"] = [
            _chart("SCATTER", xaxis=_axis(axes[0]), yaxis=_axis(axes[-1])),
            *(_chart("BAR", axis, metricKey=axis) for axis in axes),
            _chart("PARALLEL", selectedParams=[], selectedMetrics=axes),
        ]
    return TAG + result[:KEY_SIGNS], _enveloped(name, view, created_ms)


def describe_experiment(client: Any, experiment_id: str, created_ms: int) -> None:
    """Lead a reader who opens the experiment to the table of its audits, newest month first.

    MLflow 3.17 opens an experiment with traces; its description stands above them. One that
    somebody else has written stays.
    """
    tags = client.get_experiment(experiment_id).tags
    view = _view(f"tags.`{KIND}` = '{AUDIT}'", AXES[:2], ascending=False)
    if TAG + ALL not in tags:
        client.set_experiment_tag(
            experiment_id, TAG + ALL, _enveloped("All audits", view, created_ms)
        )
    note = (
        f"{WRITTEN}({_address(experiment_id, ALL)}), newest month first. Each has its report, the "
        "chart of all months, and a run for each variant."
    )
    known = tags.get("mlflow.note.content", "")
    if known != note and (not known or known.startswith(WRITTEN)):
        client.set_experiment_tag(experiment_id, "mlflow.note.content", note)


def view_address(experiment_id: str, result: str) -> str:
    """The page that opens with the view of an audit, from the root of MLflow's pages.

    >>> view_address("3", "0123456789abcdef0123").partition("?")[0]
    '#/experiments/3/runs'
    """
    return _address(experiment_id, result[:KEY_SIGNS], compareRunsMode="CHART")


def _address(experiment_id: str, key: str, **more: str) -> str:
    # A filter in the address would win over the view. Without a workflow MLflow shows the menu of
    # chat applications, in which runs are called evaluations.
    query = {"viewStateShareKey": key, **more, "workflowType": "machine_learning"}
    if workspace := os.environ.get("MLFLOW_WORKSPACE"):
        query["workspace"] = workspace
    return f"#/experiments/{experiment_id}/runs?{urlencode(query, quote_via=quote)}"


def _view(query: str, axes: Collection[str], *, ascending: bool) -> dict[str, Any]:
    columns = [
        *(f"params.`{column}`" for column in COLUMNS),
        *(f"metrics.`{axis}`" for axis in axes),
    ]
    return {
        "searchFilter": query,
        "orderByKey": ORDER,
        "orderByAsc": ascending,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {f"params.`{name}`": width for name, width in WIDE.items()},
    }


def _enveloped(name: str, view: dict[str, Any], created_ms: int) -> str:
    envelope = {"name": name, "createdAt": created_ms, "updatedAt": created_ms}
    return _compact(view | envelope | {"state": _compact(view)})


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _axis(metric: str) -> dict[str, str]:
    return {"key": metric, "type": "METRIC"}


def _chart(kind: str, about: str = "", **fields: Any) -> dict[str, Any]:
    """A chart as MLflow's page keeps it."""
    return {
        "uuid": f"{SECTION}-{kind.lower()}-{about}", "type": kind, "runsCountToCompare": 10,
        "metricSectionId": SECTION, "deleted": False, "isGenerated": False, **fields,
    }  # fmt: skip
