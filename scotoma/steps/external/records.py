"""What do the records of external members say: how weights are stored, and what was guessed?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scotoma.answers.note import AdmissionNote, reading_note
from scotoma.config import Variant
from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.readers.hugging_face import CONFIG, class_names, in_words_of_labels, read_json_file
from scotoma.readers.onnx_outputs import is_one_score, is_probability
from scotoma.run import Run, read_json

if TYPE_CHECKING:
    import onnx

    from scotoma.inference import Network

__all__ = ["facts_of_model", "manifests", "notes_on_models", "refuse_other_order", "weights_of"]


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


def manifests(run: Run) -> list[Path]:
    """Name what says of external models how they are stored; nothing of others."""
    if not run.config.source.has_models:
        return []
    return [run.population(one.name) / "manifest.json" for one in run.config.resolved_variants]


def _members(run: Run, variant: str) -> list[dict[str, Any]]:
    path = run.population(variant) / "manifest.json"
    return [one.get("export", {}) for one in read_json(path)["members"]]


def weights_of(run: Run, variant: Variant) -> dict[str, Any]:
    """Return `sparsity` and `bits` of a variant: as made here, or measured; None where unknown."""
    if run.config.source.has_models:
        stored = [one.get("weights", {}) for one in _members(run, variant.name)]
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
    for variant in run.config.resolved_variants if manifests(run) else ():
        notes = [note for one in _members(run, variant.name) for note in one.get("notes", ())]
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
