"""`scotoma kubeflow stop`."""

from __future__ import annotations

from scotoma.commands.asking import Answer, argument
from scotoma.commands.kubeflow import KubeflowOptions


class StopOptions(KubeflowOptions):
    """Which run is stopped."""

    run: str = argument("The id that `submit` printed.")


def stop(options: StopOptions) -> Answer:
    """Stop a run; what is finished stays, and `submit --resume` resumes it.

    Repeat the command to end its exit step too, where that cannot start.
    """
    from scotoma.pipelines.documents import run_values

    client = options.client()
    client.cancel(options.run)
    values = run_values(client.progress(options.run), client)
    note = f"stopped; resume it with scotoma kubeflow submit --resume {options.run}"
    return Answer(options.run, values, [note])
