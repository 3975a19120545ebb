"""An audit that passed, in MLflow's model registry: a version of the model, and its alias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scotoma.audit import GateResult
from scotoma.errors import ScotomaError
from scotoma.extras import needs
from scotoma.printable import printable
from scotoma.tracking.connection import fault, quiet
from scotoma.tracking.database import prepare_store

__all__ = ["Registered", "register"]

MODEL, VERSION = "scotoma.model", "scotoma.model_version"  # tags of the audit's dense run


@dataclass(frozen=True)
class Registered:
    """What the registry now holds.

    Attributes:
        model: Name of the registered model.
        version: That of the audit; empty where there is none.
        alias: Its alias; empty where a later version has it.
        reason: What kept it from being registered, as a sentence without credentials; else empty.
    """

    model: str
    version: str = ""
    alias: str = ""
    reason: str = ""


def register(
    gate: GateResult, dense_run: str, place: str, model: str, alias: str, uri: str
) -> Registered:
    """Make an audit that passed a version of a registered model, and move the alias to it.

    The version's source are the artifacts of the audit's dense run; its tags say which variants
    passed and where their members lie. A call that is repeated finds its version again, and an
    alias never goes back to an earlier one.

    Args:
        gate: The verdict on the audit. Unless it is PASS, nothing is done.
        dense_run: Id of the MLflow run that stands for the audit.
        place: Where the run's folder lies, as others may read it.
        model: Name of the registered model, created where there is none.
        alias: The alias.
        uri: MLflow tracking URI.

    Returns:
        The version. A server that is down is no error: `reason` says what went wrong.
    """
    if gate.verdict != "PASS":
        return Registered(model)
    try:
        with quiet(uri):
            mlflow = needs("mlflow", "tracking", "tracking")
            prepare_store(uri)
            client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
            version = _version(mlflow, client, gate, dense_run, place, model)
            moved = version > _aliased(mlflow, client, model, alias)
            if moved:
                client.set_registered_model_alias(model, alias, str(version))
            holds = moved or version == _aliased(mlflow, client, model, alias)
            return Registered(model, str(version), alias if holds else "")
    except ScotomaError as error:
        reason = str(error)
    except Exception as error:
        reason = f"{fault(error, uri)}; the audit passed and is not registered: repeat the command"
    return Registered(model, reason=reason)


def _version(
    mlflow: Any, client: Any, gate: GateResult, dense_run: str, place: str, model: str
) -> int:
    """The number of the audit's version, created where there is none."""
    tags = client.get_run(dense_run).data.tags
    if tags.get(MODEL) == model:
        return int(tags[VERSION])
    try:
        client.create_registered_model(model)
    except mlflow.exceptions.MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    created = client.create_model_version(
        model,
        client.get_run(dense_run).info.artifact_uri,
        dense_run,
        tags={
            "scotoma.audit": gate.config_sha256,
            "scotoma.result": tags["scotoma.result"],
            "scotoma.verdict": gate.verdict,
            "scotoma.variants": printable(", ".join(variant.name for variant in gate.variants)),
            "scotoma.place": printable(place),
        },
    )
    client.set_tag(dense_run, MODEL, model)
    client.set_tag(dense_run, VERSION, str(created.version))
    return int(created.version)


def _aliased(mlflow: Any, client: Any, model: str, alias: str) -> int:
    """The version that has the alias; 0 for none."""
    try:
        return int(client.get_model_version_by_alias(model, alias).version)
    except mlflow.exceptions.MlflowException as error:
        if error.error_code in ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"):
            return 0
        raise
