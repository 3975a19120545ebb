"""Models out of MLflow's registry: the version of an alias, and the files of a version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scotoma.config.registered import RegisteredModel
from scotoma.credentials import masked
from scotoma.errors import DataError, ScotomaError
from scotoma.extras import needs
from scotoma.printable import printable
from scotoma.tracking.connection import fault, quiet
from scotoma.tracking.database import holds_experiments, prepare_store, sqlite_file

__all__ = ["aliased", "download_model"]


def aliased(model: RegisteredModel, uri: str) -> RegisteredModel:
    """The version that an alias stands for, as of now.

    Args:
        model: It has an alias.
        uri: MLflow tracking URI.

    Raises:
        DataError: The registry has no such model, the model no such alias, or does not answer.
    """
    with _registry(model, uri) as (mlflow, client):
        try:
            aliases = client.get_registered_model(model.name).aliases
        except mlflow.exceptions.MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise _unknown(model, uri) from error
    if model.alias not in aliases:
        known = ", ".join(map(printable, sorted(aliases))) or "none"
        raise DataError(
            f"source.models {printable(str(model))} must name an alias of the model, which has "
            f"{known}; correct it, or set it in MLflow"
        )
    return RegisteredModel(model.name, version=str(aliases[model.alias]))


def download_model(model: RegisteredModel, variants: Sequence[str], folder: Path, uri: str) -> None:
    """Bring the folder of every variant here.

    Args:
        model: It has a version.
        variants: Names of the folders among the version's artifacts.
        folder: Where they come to lie; it exists, and what a fault leaves there is no model.
        uri: MLflow tracking URI.

    Raises:
        DataError: There is no such version, it has no folder of a variant, or it cannot be read.
    """
    with _registry(model, uri) as (mlflow, client):
        try:
            source = client.get_model_version_download_uri(model.name, model.version)
        except mlflow.exceptions.MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise _unknown(model, uri) from error
        repository = mlflow.tracking.artifact_utils.get_artifact_repository
        artifacts = repository(source, tracking_uri=uri, registry_uri=uri)
        there = {entry.path for entry in artifacts.list_artifacts("") if entry.is_dir}
        for variant in variants:
            if variant not in there:
                known = ", ".join(map(printable, sorted(there))) or "none"
                raise DataError(
                    f"source.models {printable(str(model))} must have a folder {variant!r} of "
                    f".onnx files among its artifacts, got the folders {known}; register a model "
                    "with such a folder"
                )
        for variant in variants:
            artifacts.download_artifacts(variant, str(folder))


def _unknown(model: RegisteredModel, uri: str) -> DataError:
    return DataError(
        f"source.models must be in MLflow's registry at {masked(uri)}, got "
        f"{printable(str(model))}; correct it, or tracking.uri"
    )


@contextmanager
def _registry(model: RegisteredModel, uri: str) -> Iterator[tuple[Any, Any]]:
    """MLflow and a client of it; whatever goes wrong in the block is one sentence."""
    database = sqlite_file(uri)
    if database is not None and not holds_experiments(database):
        raise _unknown(model, uri)  # the check creates none
    try:
        with quiet(uri):
            mlflow = needs("mlflow", "tracking", f"source.models {model}")
            prepare_store(uri)
            yield mlflow, mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
    except ScotomaError:
        raise
    except Exception as error:
        raise DataError(
            f"source.models {printable(str(model))} cannot be read: {fault(error, uri)}; repeat "
            "the command later"
        ) from error
