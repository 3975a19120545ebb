"""`scotoma kubeflow unschedule`."""

from __future__ import annotations

from pathlib import Path

from scotoma.commands.asking import Answer, argument
from scotoma.commands.kubeflow import KubeflowOptions


class UnscheduleOptions(KubeflowOptions):
    """Which schedule is removed."""

    schedule: str = argument("Configuration (YAML) or name of the schedule.")


def unschedule(options: UnscheduleOptions) -> Answer:
    """Remove a schedule; its audits stay, and a running audit continues."""
    from scotoma.config import load_config
    from scotoma.pipelines.schedules import Schedules

    name, kubeflow = options.schedule, None
    if Path(name).suffix in (".yaml", ".yml"):
        config = load_config(Path(name))
        name, kubeflow = config.project, config.kubeflow
    count = Schedules(options.client(kubeflow)).remove(name)
    note = f"removed   {name}" if count else f"unchanged no schedule is called {name}"
    return Answer("", {"name": name, "removed": count}, [note])
