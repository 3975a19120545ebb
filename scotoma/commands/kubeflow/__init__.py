"""The commands `scotoma kubeflow ...`, and the options that several of them take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from scotoma.commands.asking import Answer, TextOptions, option

if TYPE_CHECKING:
    from scotoma.config import Config, Kubeflow
    from scotoma.pipelines.client import KfpClient

__all__ = ["KubeflowOptions", "SentOptions", "WaitOptions"]


class KubeflowOptions(TextOptions):
    """Which Kubeflow is asked."""

    endpoint: str | None = option(
        None, "Address of Kubeflow. Default: kubeflow.endpoint, then KF_PIPELINES_ENDPOINT."
    )
    namespace: str | None = option(
        None, "Your team's namespace in Kubeflow. Default: kubeflow.namespace."
    )

    def client(self, settings: Kubeflow | None = None) -> KfpClient:
        """A client of it, with what a configuration says; nothing is sent yet."""
        from scotoma.config import Kubeflow
        from scotoma.pipelines.client import KfpClient

        return KfpClient(settings or Kubeflow(), self.endpoint, self.namespace)

    @property
    def say(self) -> Callable[[str], None]:
        """Print a line on stderr now, before the answer, unless --quiet."""
        from rich.console import Console

        from scotoma.pipelines.wait import say_line

        return partial(say_line, Console(stderr=True, quiet=self.quiet))


class WaitOptions(KubeflowOptions):
    """Whether to wait for the end of a run."""

    wait: bool = option(
        False,
        "Show the steps until the run ends; exit with the code of `scotoma gate`, or with 7 if "
        "only MLflow does not have the audit.",
    )

    def waited(self, client: KfpClient, run_id: str, *, known: bool = True) -> Answer:
        """The verdict of a run, once it has ended.

        Args:
            client: The Kubeflow.
            run_id: The run.
            known: Whether Kubeflow has answered before, so that no answer is an outage.
        """
        from rich.console import Console

        from scotoma.pipelines.wait import end_of, watch

        run = watch(client, run_id, Console(stderr=True, quiet=self.quiet), known=known)
        end = end_of(run, client.namespace)
        return Answer(end.text, end.content, end.notes, end.exit_code)


class SentOptions(KubeflowOptions):
    """What is audited, beside the configuration."""

    rules: Path | None = option(None, "Gate file (YAML). Default: the built-in rules.")
    seed: int | None = option(None, "Replace population.seed.", ge=0, le=2**32 - 1)
    data: str | None = option(None, "Replace source.data: an s3:// prefix.")
    deterministic: bool = option(
        False, "Make the same bytes from the same configuration and machine."
    )

    def audit(self, path: Path) -> tuple[Config, Kubeflow]:
        """The audit of a configuration, with these in the place of what it says."""
        from scotoma.pipelines.submission import audit_to_send

        return audit_to_send(path, deterministic=self.deterministic, seed=self.seed, data=self.data)
