"""An audit before it is sent: its configuration, its data, its pipeline, its place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scotoma import storage
from scotoma.config import Config, Kubeflow
from scotoma.config.gate import load_rules
from scotoma.config.reading import configuration
from scotoma.errors import ConfigError, MissingExtra, UnreachableError

ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


def audit_to_send(
    path: Path, *, deterministic: bool, seed: int | None, data: str | None
) -> tuple[Config, Kubeflow]:
    """Read a configuration, with its variants, and the Kubeflow that it names.

    Args:
        path: The file.
        deterministic: Sets `deterministic`.
        seed: Replaces `population.seed`.
        data: Replaces `source.data`.
    """
    from scotoma.steps.inputs import with_variants

    config = configuration(path, deterministic=deterministic, seed=seed, data=data)
    return with_variants(config), config.kubeflow or Kubeflow()


@contextmanager
def compiled(
    config: Config, kubeflow: Kubeflow, rules: Path | None, *, scheduled_root: str | None = None
) -> Iterator[Path]:
    """Compile the pipeline, with configuration and gate file, into a temporary file.

    Args:
        config: As `audit_to_send` returns it.
        kubeflow: As `audit_to_send` returns it.
        rules: Gate file; None for the default rules.
        scheduled_root: Compile the pipeline of a schedule, whose audits lie below this place.
    """
    from scotoma.pipelines import compile_pipeline

    text = ""
    if rules is not None:
        load_rules(rules)  # refused here and not in a pod
        text = rules.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pipeline.yaml")
        compile_pipeline(config, path, kubeflow=kubeflow, rules=text, scheduled_root=scheduled_root)
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
        "steps are, scotoma kubeflow status does"
    )


def check_place(run_uri: str, kubeflow: Kubeflow, *, wait: bool = False) -> None:
    """Refuse a place that the steps cannot share, or that --wait could not read here."""
    if storage.is_remote(run_uri):
        storage.split_uri(run_uri)
        return
    mount = kubeflow.volume.mount if kubeflow.volume else None
    if mount is None or not Path(run_uri).is_relative_to(mount):
        raise ConfigError(
            f"--out {run_uri} is not storage that all steps on Kubeflow share; give "
            "s3://BUCKET/PREFIX, or a folder below kubeflow.volume.mount"
        )
    if wait:
        raise ConfigError(
            f"--wait cannot read a verdict in {run_uri}, which is on a volume of Kubernetes; "
            "leave out --wait, or give s3://BUCKET/PREFIX"
        )


def require_inputs(config: Config, kubeflow: Kubeflow, say: Callable[[str], None]) -> None:
    """Read what `scotoma audit --plan` reads, if this machine can, before anything is sent.

    Args:
        config: What is audited.
        kubeflow: Its endpoint of object storage is asked where none is set here.
        say: Told what only the step `prepare` will read.

    Raises:
        ScotomaError: What `scotoma audit --plan` would say of the data.
    """
    from scotoma.pipelines.placing import places_read

    if not (places := places_read(config)):
        return
    if config.source.registered is not None:
        why = "the models are in MLflow's registry"
    elif not all(map(storage.is_remote, places.values())):
        why = "the data are on a volume of Kubernetes"
    else:
        from scotoma.steps.plan import require_sound

        try:
            with _endpoint(kubeflow):
                require_sound(config, network=config.source.has_models)
            return
        except (UnreachableError, MissingExtra) as error:
            why = str(error)
    say(f"note    not checked before sending: {why}")


@contextmanager
def _endpoint(kubeflow: Kubeflow) -> Iterator[None]:
    """Ask the object storage that the steps will ask, unless this machine names another."""
    added = {
        name: address
        for name in ENDPOINTS
        if (address := kubeflow.environment.get(name)) and not storage.endpoint()
    }
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
