"""Which external models are these, where do they come from, and what is known of them?"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.errors import ConfigError, DataError
from scotoma.inference.members import recorded_members
from scotoma.printable import printable
from scotoma.processes import progress
from scotoma.readers.hugging_face import CONFIG, class_names, in_words_of_labels, read_json_file
from scotoma.readers.onnx_outputs import is_one_score, is_probability
from scotoma.run import Run, read_record, write_json
from scotoma.storage.files import file_digest, written
from scotoma.tracking.registry import download_model
from scotoma.tracking.store import tracking_uri

if TYPE_CHECKING:
    import onnx

    from scotoma.config import Config, Variant
    from scotoma.inference import Network


MODELS, RECORD = "models", "models.json"
RUNS = "runs/one"  # a folder among them


def registry_of(config: Config, place: str) -> str:
    """The tracking URI of the server whose registry is meant.

    Args:
        config: It may name a server.
        place: Of the run, beside which a database lies where no server is named; empty for where
            an audit puts runs.

    Raises:
        ConfigError: MLflow is off, or no server is named.
    """
    if uri := tracking_uri(Run.of(place or RUNS, config)):
        return uri
    raise ConfigError(
        f"source.models {config.source.registered} is asked of MLflow, which is off or not named; "
        "name the server in tracking.uri or MLFLOW_TRACKING_URI"
    )


def download_models(config: Config, place: str, folder: Path) -> None:
    """Bring the models of every variant from the registry into a folder.

    Args:
        config: Its source names a version of a registered model.
        place: As of `registry_of`.
        folder: It exists.

    Raises:
        ConfigError: As of `registry_of`.
        DataError: They cannot be had, or are not laid out as source.kind onnx wants them.
    """
    assert config.source.registered is not None
    names = [variant.name for variant in config.resolved_variants]
    download_model(config.source.registered, names, folder, registry_of(config, place))


def fetch_models(run: Run) -> list[Path]:
    """Bring the models into the run's folder, unless they are there as they came.

    Returns:
        The files, and last the record that names them; none where the source names a folder.

    Raises:
        ScotomaError: As of `download_models`; what was there before stays.
    """
    if run.config.source.registered is None:
        return []
    record, models = run.path(RECORD), str(run.config.source.registered)
    run.fetch(record)
    known = read_record(record)
    files = {run.path(MODELS, name): digest for name, digest in known.get("files", {}).items()}
    if known.get("models") == models and run.mirror.digests(files) == files:
        return [*files, record]
    progress.start("download models", 1)
    with tempfile.TemporaryDirectory() as folder:
        download_models(run.config, run.place, Path(folder))
        shutil.rmtree(run.path(MODELS), ignore_errors=True)
        digests = {}
        for path in sorted(filter(Path.is_file, Path(folder).rglob("*"))):
            name = path.relative_to(folder).as_posix()
            with written(run.path(MODELS, name)) as temporary:
                shutil.copyfile(path, temporary)
            digests[name] = file_digest(path)
    write_json(record, {"models": models, "files": digests})
    outputs = [*(run.path(MODELS, name) for name in digests), record]
    run.publish(*outputs)  # the record last: what it names is there
    progress.advance("download models")
    return outputs


def models_here(run: Run) -> Config:
    """The run's configuration with its models in a folder of this machine."""
    if run.config.source.registered is None:
        return run.config
    run.mirror.fetch_folder(MODELS)
    return run.config.with_source(models=str(run.path(MODELS)))


def facts_of_model(
    model: onnx.ModelProto, network: Network, classes: Sequence[str]
) -> dict[str, Any]:
    """Return how weights are stored, what the model takes and gives, and notes on what was guessed.

    Args:
        model: From `read_model`.
        network: What it is run as.
        classes: Those of the scores, in their order.
    """
    from scotoma.inference.external import image_input, output_shapes, score_output
    from scotoma.quantization.stored_weights import stored_weights

    shapes, name = output_shapes(model), score_output(model, network, "the model")
    dtype, shape = image_input(model) or ("", [])
    taken, notes = network.preprocessing.fitted(dtype, shape), []
    if len(shapes) > 1 and not network.output:
        notes.append(f"scores are read from {printable(name)}, one of {len(shapes)} outputs")
    if is_one_score(shapes[name]) and not network.thresholds:
        nodes = model.graph.node
        producers = {value: (one.op_type, one.input) for one in nodes for value in one.output}
        kind = "probability" if is_probability(producers, name) else "logit"
        notes.append(f"its one score is read as the {kind} of {printable(classes[1])}")
    if dtype == "uint8" and not taken.keeps_pixels:
        notes.append("takes uint8, so it is given pixels as they are, not scaled")
    return {
        "input": {"dtype": dtype, "layout": taken.layout},
        "notes": notes,
        "output": name,
        "weights": stored_weights(model)._asdict(),
    }


def refuse_other_order(
    path: Path, classes: Sequence[str], named: Sequence[str], called: str
) -> None:
    """Refuse a model whose own `id2label` has the classes in another order.

    Args:
        path: The model.
        classes: In the order in which scores are read.
        named: Classes that the source names; if there are any, they overrule the file.
        called: What messages call the model.

    Raises:
        DataError: The order is another.
    """
    said = class_names(read_json_file(path.parent / CONFIG))
    own = in_words_of_labels(said, set(classes)) if said and not named else None
    if own is not None and own != list(classes):
        raise DataError(
            f"{called} must have the classes in the order of the dense models, "
            f"{', '.join(map(printable, classes[:3]))}, and id2label in its {CONFIG} says "
            f"{', '.join(map(printable, own[:3]))}; name the right order in source.classes"
        )


def _exports(run: Run, variant: str) -> list[dict[str, Any]]:
    return [one.get("export", {}) for one in recorded_members(run, variant)]


def weights_of(run: Run, variant: Variant) -> dict[str, Any]:
    """Return `sparsity` and `bits` of a variant: as made here, or measured; None where unknown."""
    if run.config.source.has_models:
        stored = [one.get("weights", {}) for one in _exports(run, variant.name)]
        bits = {one.get("bits") for one in stored}
        zeros = [one.get("sparsity") for one in stored]
        return {
            "sparsity": None if None in zeros else sum(zeros) / len(zeros),
            "bits": bits.pop() if len(bits) == 1 else None,
        }
    if run.config.source.trains:
        return {"sparsity": variant.sparsity, "bits": variant.bits}
    return {"sparsity": None, "bits": variant.bits if variant.made_elsewhere else None}


def notes_on_models(run: Run) -> list[AdmissionNote]:
    """Write what was guessed of external models, and of which variants."""
    variants_by_note: dict[str, list[str]] = {}
    for variant in run.config.resolved_variants if run.config.source.has_models else ():
        notes = [note for one in _exports(run, variant.name) for note in one.get("notes", ())]
        bits = weights_of(run, variant)["bits"]
        if variant.made_elsewhere and variant.bits and bits and variant.bits != bits:
            notes.append(
                f"variants say {variant.bits} bits a weight, and the weights are stored in {bits}"
            )
        for note in dict.fromkeys(notes):
            variants_by_note.setdefault(note, []).append(printable(variant.name))
    return [
        reading_note(
            "source.models", f"{', '.join(names)}: {note}", names[0] if len(names) == 1 else ""
        )
        for note, names in variants_by_note.items()
    ]  # fmt: skip
