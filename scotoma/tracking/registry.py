"""MLflow's registry: an audit that passed becomes a version of a model, and models are fetched."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scotoma import storage
from scotoma.audit import GateResult
from scotoma.config.newest import RegisteredModel
from scotoma.errors import DataError, ScotomaError
from scotoma.inference.members import recorded_members
from scotoma.printable import printable
from scotoma.run import Run
from scotoma.storage.credentials import masked
from scotoma.tracking.audits import audit_place
from scotoma.tracking.connection import (
    LONGEST,
    fault,
    holds_experiments,
    mlflow_client,
    passing_over,
    reading,
    sqlite_file,
)

MODEL, VERSION = "scotoma.model", "scotoma.model_version"  # tags of the audit's run
FOLDER = "models"  # among the artifacts of the audit's run: a folder for each variant
NO_MODELS = "nothing to register: this audit has predictions, and no model"


@dataclass(frozen=True)
class Registered:
    """What the registry now holds.

    Attributes:
        model: Name of the registered model.
        version: That of the audit; empty where there is none.
        alias: Its alias; empty where a later version has it.
        reason: What kept it from being registered, as a sentence without credentials; else empty.
        note: Why there is nothing to register, as a sentence; else empty.
    """

    model: str
    version: str = ""
    alias: str = ""
    reason: str = ""
    note: str = ""


def register(
    run: Run, gate: GateResult, run_id: str, model: str, alias: str, uri: str, repeats: str = ""
) -> Registered:
    """Make an audit that passed a version of a registered model, and move the alias to it.

    The version's source are the models: dense and each variant that passed has a folder of its own.
    Models in object storage, and versions that were audited, are linked; those of this machine are
    copied to the artifacts of the audit's run. A call that is repeated finds its version again, and
    an alias never goes back to an earlier one.

    Args:
        run: Folder of the audit.
        gate: The verdict on it. Unless it is PASS, nothing is done.
        run_id: Id of the MLflow run that stands for the audit.
        model: Name of the registered model, created where there is none.
        alias: The alias.
        uri: MLflow tracking URI.
        repeats: Which earlier audit rests on the same inputs: nothing new is to be registered.

    Returns:
        The version. A server that is down is no error: `reason` says what went wrong.
    """
    if gate.verdict != "PASS":
        return Registered(model)
    if repeats:
        return Registered(model, note=repeats)
    variants = ["dense", *(variant.name for variant in gate.variants)]
    if not any("file" in member for name in variants for member in recorded_members(run, name)):
        return Registered(model, note=NO_MODELS)
    try:
        with mlflow_client(uri) as (client, _):
            version = _version(client, run, gate, run_id, model, variants)
            later = _aliased(client, model, alias)
            if version > later:
                client.set_registered_model_alias(model, alias, str(version))
            return Registered(model, str(version), alias if version >= later else "")
    except ScotomaError as error:
        return Registered(model, reason=str(error))
    except Exception as error:
        reason = f"{fault(error, uri)}; the audit passed and is not registered"
        return Registered(model, reason=reason)


def _version(
    client: Any, run: Run, gate: GateResult, run_id: str, model: str, variants: Sequence[str]
) -> int:
    """The number of the audit's version, created where there is none."""
    tags = client.get_run(run_id).data.tags
    if tags.get(MODEL) == model:
        return int(tags[VERSION])
    with passing_over("RESOURCE_ALREADY_EXISTS"):
        client.create_registered_model(model)
    created = client.create_model_version(
        model,
        _source(client, run, run_id, variants),
        run_id,
        tags={
            "scotoma.audit": gate.config_sha256,
            "scotoma.result": tags["scotoma.result"],
            "scotoma.verdict": gate.verdict,
            "scotoma.variants": printable(", ".join(variants[1:])),
            "scotoma.place": audit_place(run, client.tracking_uri),
        },
    )
    client.set_tag(run_id, MODEL, model)
    client.set_tag(run_id, VERSION, str(created.version))
    return int(created.version)


def _source(client: Any, run: Run, run_id: str, variants: Sequence[str]) -> str:
    """Where the models lie, a folder for each variant."""
    if (audited := run.config.source.registered) is not None:
        return str(client.get_model_version_download_uri(audited.name, audited.version))
    if run.uri:
        return storage.join(run.uri, "populations")
    for name in variants:
        with tempfile.TemporaryDirectory() as folder:
            for member in recorded_members(run, name):
                path = run.population(name) / member["file"]
                Path(folder, path.name).symlink_to(path.resolve())
            client.log_artifacts(run_id, folder, f"{FOLDER}/{name}")
    return f"{client.get_run(run_id).info.artifact_uri}/{FOLDER}"


def _aliased(client: Any, model: str, alias: str) -> int:
    """The version that has the alias; 0 for none."""
    with passing_over("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"):
        return int(client.get_model_version_by_alias(model, alias).version)
    return 0


# --- versions that somebody else registered -----------------------------------------------------


def promote(
    model: RegisteredModel, alias: str, gate: GateResult, verdict: str, place: str, uri: str
) -> str:
    """Tag a version with the verdict on it, and move an alias to it if that is PASS.

    Args:
        model: The version, or the alias that it has.
        alias: The alias that a PASS moves.
        gate: The verdict on every variant.
        verdict: The one that counts: of the variant that is shipped, or the worst.
        place: Where the audit lies.
        uri: MLflow tracking URI.

    Returns:
        What was done, as a sentence.

    Raises:
        DataError: There is no such version, or the registry does not answer.
    """
    own = model if model.version else aliased(model, uri, "--promote")
    decided = (text for one in gate.variants if one.verdict == verdict for text in one.sentences)
    tags = {
        "scotoma.verdict": verdict,
        "scotoma.worst": printable(next(decided, "")),
        "scotoma.place": masked(place),
    }
    with _registry(own, uri, "--promote") as client:
        for name, value in tags.items():
            client.set_model_version_tag(own.name, own.version, name, value[:LONGEST])
        if verdict == "PASS":
            client.set_registered_model_alias(own.name, alias, own.version)
    moved = f"and is {alias}" if verdict == "PASS" else f"{alias} stays where it is"
    return f"{printable(str(own))} is tagged {verdict}, {moved}"


# --- models to audit ------------------------------------------------------------------------------


def aliased(model: RegisteredModel, uri: str, called: str = "source.models") -> RegisteredModel:
    """The version that an alias stands for, as of now.

    Args:
        model: It has an alias.
        uri: MLflow tracking URI.
        called: What messages call it.

    Raises:
        DataError: The registry has no such model, the model no such alias, or does not answer.
    """
    with _registry(model, uri, called) as client:
        aliases = client.get_registered_model(model.name).aliases
    if model.alias not in aliases:
        known = ", ".join(map(printable, sorted(aliases))) or "none"
        raise DataError(
            f"{called} {printable(str(model))} must name an alias of the model, which has "
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
    with _registry(model, uri) as client:
        from mlflow.tracking.artifact_utils import get_artifact_repository

        source = client.get_model_version_download_uri(model.name, model.version)
        artifacts = get_artifact_repository(source, tracking_uri=uri, registry_uri=uri)
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


def _unknown(model: RegisteredModel, uri: str, called: str) -> DataError:
    address = "tracking.uri" if called == "source.models" else "--tracking"
    return DataError(
        f"{called} must be in MLflow's registry at {masked(uri)}, got {printable(str(model))}; "
        f"correct it, or {address}"
    )


@contextmanager
def _registry(model: RegisteredModel, uri: str, called: str = "source.models") -> Iterator[Any]:
    """Give a client of MLflow, and say whatever goes wrong in the block in one sentence."""
    database = sqlite_file(uri)
    if database is not None and not holds_experiments(database):
        raise _unknown(model, uri, called)  # the check creates none
    named = f"{called} {printable(str(model))}"
    with reading(uri, f"{named} cannot be read", named) as client:
        with passing_over("RESOURCE_DOES_NOT_EXIST"):
            yield client
            return
        raise _unknown(model, uri, called)
