"""`scotoma kubeflow logs`."""

from __future__ import annotations

from scotoma.commands.asking import Answer, argument, option
from scotoma.commands.kubeflow import KubeflowOptions
from scotoma.printable import printable


class LogsOptions(KubeflowOptions):
    """Whose logs are printed."""

    run: str = argument("The id that `submit` printed.")
    step: str | None = option(
        None, "Step to show. Default: every step that failed or has not ended."
    )


def logs(options: LogsOptions) -> Answer:
    """Print the logs of the steps that failed or have not ended, or of one step.

    For a step that never started, print the command that asks Kubernetes why.
    """
    from scotoma.pipelines.logs import logs_of

    entries = logs_of(options.client(), options.run, options.step)
    if "command" in entries[0]:
        note = f"{entries[0]['step']} has not printed anything; this command says why:"
        return Answer(entries[0]["command"], entries, [note])
    lines = [
        f"{printable(entry['step'])}.{entry['shard']}: {printable(line)}"
        for entry in entries
        for line in entry["log"].splitlines()
    ]
    return Answer("\n".join(lines), entries)
