"""Can what an audit reads be audited? Asked here, before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scotoma import storage
from scotoma.config import Config, Kubeflow
from scotoma.errors import MissingExtra, UnreachableError

__all__ = ["require_inputs"]

ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


def require_inputs(config: Config, kubeflow: Kubeflow, message: Callable[[str], None]) -> None:
    """Read what `scotoma audit --plan` reads, if this machine can.

    Args:
        config: What is audited.
        kubeflow: The cluster, whose endpoint of object storage is asked where none is set here.
        message: Told what only the step `prepare` will read.

    Raises:
        ScotomaError: What `scotoma audit --plan` would say of the data.
    """
    from scotoma.pipelines.placing import places_read

    source = config.source
    if not (places := places_read(config)):
        return
    if source.registered is not None:
        _unread(message, "the models are in MLflow's registry")
        return
    from scotoma.steps.plan import require_sound

    if not all(map(storage.is_remote, places.values())):
        _unread(message, "the data are on a volume of the cluster")
        return

    try:
        with _endpoint(kubeflow):
            require_sound(config, network=source.has_models)
    except (UnreachableError, MissingExtra) as error:
        _unread(message, str(error))


def _unread(message: Callable[[str], None], why: str) -> None:
    message(f"note    not checked before sending: {why}")


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
