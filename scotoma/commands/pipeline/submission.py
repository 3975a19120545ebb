"""An audit before it is sent: its configuration, its gate file, its pipeline, its place."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scotoma import storage
from scotoma.commands.shared.configuration import configuration
from scotoma.config import Config, Kubeflow
from scotoma.config.gate import load_rules
from scotoma.errors import ConfigError

__all__ = ["Submission", "check_place", "size_text"]


@dataclass(frozen=True)
class Submission:
    """An audit that is to be sent.

    Attributes:
        path: Configuration.
        rules: Gate file; None for the default rules.
        seed: Replaces `population.seed`.
        data: Replaces `source.data`.
        deterministic: Sets `deterministic`.
    """

    path: Path
    rules: Path | None = None
    seed: int | None = None
    data: str | None = None
    deterministic: bool = False

    def read(self) -> tuple[Config, Kubeflow]:
        """Read the configuration, with its variants, and the cluster that it names."""
        from scotoma.steps.inputs import with_variants

        config = configuration(
            self.path, deterministic=self.deterministic, seed=self.seed, data=self.data
        )
        return with_variants(config), config.kubeflow or Kubeflow()

    @contextmanager
    def definition(
        self, config: Config, kubeflow: Kubeflow, *, scheduled_root: str | None = None
    ) -> Iterator[Path]:
        """Compile the pipeline, with configuration and gate file, into a temporary file.

        Args:
            config: As `read` returns it.
            kubeflow: As `read` returns it.
            scheduled_root: Compile the pipeline of a schedule, whose audits lie below this place.
        """
        from scotoma.pipelines.audit import compile_pipeline

        rules = ""
        if self.rules is not None:
            load_rules(self.rules)  # refused here and not in a pod
            rules = self.rules.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "pipeline.yaml")
            compile_pipeline(
                config, path, kubeflow=kubeflow, rules=rules, scheduled_root=scheduled_root
            )
            yield path


def size_text(definition: Path) -> str:
    """Say how large a compiled pipeline becomes in Kubernetes, and what follows if it is too large.

    Args:
        definition: The compiled pipeline (YAML), and in a second document its settings for
            Kubernetes.
    """
    import yaml

    from scotoma.pipelines.nodes import LARGEST_BYTES, node_count, workflow_bytes

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    spec, *platform = yaml.load_all(definition.read_text(encoding="utf-8"), loader)
    nodes = node_count(spec)
    size = workflow_bytes({"pipeline_spec": spec, "platform_spec": platform}, nodes)
    text = f"{nodes} nodes in Argo, about {size / 1e6:.1f} MB"
    if size <= LARGEST_BYTES:
        return text
    return (
        f"{text}; above {LARGEST_BYTES / 1e6:.1f} MB Kubeflow's page no longer shows how far the "
        "steps are, scotoma pipeline status does"
    )


def check_place(run_uri: str, kubeflow: Kubeflow, *, wait: bool = False) -> None:
    """Refuse a place that the steps cannot share, or that --wait could not read here."""
    if storage.is_remote(run_uri):
        storage.split_uri(run_uri)
        return
    mount = kubeflow.volume.mount if kubeflow.volume else None
    if mount is None or not Path(run_uri).is_relative_to(mount):
        raise ConfigError(
            f"--out {run_uri} is not storage that all steps on a cluster share; give "
            "s3://BUCKET/PREFIX, or a folder below kubeflow.volume.mount"
        )
    if wait:
        raise ConfigError(
            f"--wait cannot read a verdict in {run_uri}, which is on a volume of the cluster; "
            "leave out --wait, or give s3://BUCKET/PREFIX"
        )
