"""What a run that a schedule started is called, and where its audit lies.

Kubeflow calls it `monthlykbpl6-1-743973173`, and may not tell parameters that it was not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


def complete_run(run: Any, spec: Mapping[str, Any]) -> None:
    """Give a run the parameters of its pipeline, and the name of its project and day.

    Args:
        run: As KFP's client answers it; one that no schedule started keeps its name.
        spec: Its compiled pipeline; empty if Kubeflow no longer has it.
    """
    import kfp_server_api as api

    root = spec.get("root", {})
    inputs = root.get("inputDefinitions", {}).get("parameters", {})
    defaults = {name: one["defaultValue"] for name, one in inputs.items() if "defaultValue" in one}
    if run.runtime_config is None:
        run.runtime_config = api.V2beta1RuntimeConfig()
    run.runtime_config.parameters = defaults | (run.runtime_config.parameters or {})
    if run.recurring_run_id and (project := _project(root)):
        run.display_name = f"{project} {run.created_at:%Y-%m-%d}"


def _project(root: Mapping[str, Any]) -> str:
    """The project in the configuration that the exit step is given; empty if there is none."""
    for task in root.get("dag", {}).get("tasks", {}).values():
        config = task.get("inputs", {}).get("parameters", {}).get("config", {})
        text = config.get("runtimeValue", {}).get("constant", "")
        try:
            return str(yaml.safe_load(text)["project"])
        except (yaml.YAMLError, TypeError, KeyError):
            continue
    return ""
