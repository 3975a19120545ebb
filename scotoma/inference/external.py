"""Find external models, and check that the audit can run each.

A file is read as data first. What it names outside its folder is refused before any runtime sees
it, and libraries of custom operators are never loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import TensorProto

from scotoma import storage
from scotoma.errors import DataError
from scotoma.inference.engines import Network
from scotoma.inference.preprocessing import INPUT_TYPES
from scotoma.printable import printable
from scotoma.readers.onnx_outputs import choose_output, shown_shape
from scotoma.storage.files import bytes_on_disk, open_regular

MOST_BYTES = 2**31 - 2**20  # of a model as one file
SHARED_BYTES = 2**28  # that several tensors may read from one place
# Of the operators that are built into ONNX Runtime.
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"}
DOMAINS |= {"com.ms.internal.nhwc"}


def model_files(models: str, variant: str) -> list[str]:
    """List the models of one variant by the names of their files, in order.

    Args:
        models: Folder or `s3://` prefix with a folder of .onnx files for each variant.
        variant: Its name, and the folder's.

    Raises:
        DataError: There is no such folder or no model in it, a link leads out of it, or a name is
            that of a folder or no UTF-8.
    """
    here, known = storage.join(models, variant), storage.list_names(models, folders=True)
    if variant not in known:
        held = f"holds {', '.join(map(printable, sorted(known)))}" if known else "holds no folder"
        raise DataError(
            f"source.models {models} must hold a folder {variant!r} of .onnx files; it {held}"
        )
    folders = storage.list_names(here, folders=True)
    there = folders | storage.list_names(here, folders=False)
    files = sorted(name for name in there if name.lower().endswith(".onnx"))
    if not files:
        raise DataError(f"{here} must hold the .onnx files of {variant!r}, got none; put one there")
    for name in files:
        path = Path(here, name)
        if not storage.is_remote(here):
            _inside(path, Path(here), printable(name))
        if name in folders or not (storage.is_remote(here) or path.is_file()):
            raise DataError(
                f"{printable(storage.join(here, name))} must be the file of a model, got "
                f"{'a folder' if name in folders else 'no file'}; rename or remove it"
            )
        if name != name.encode(errors="replace").decode():
            raise DataError(
                f"{printable(str(path))} must have a name in UTF-8, got other bytes; rename it"
            )
    return files


def _inside(path: Path, folder: Path, name: str) -> None:
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"{name} must lie in {folder}, but it is a link out of it; put the file itself there"
        )


def read_model(path: Path, network: Network, sides: tuple[int, int]) -> onnx.ModelProto:
    """Read a model and check everything that needs no run.

    Args:
        path: An ONNX file.
        network: Classes and preprocessing that it is to have.
        sides: Height and width of the images, pixels.

    Returns:
        The model, its external data read in.

    Raises:
        DataError: It is no ONNX file, names data outside its folder or operators of a library,
            needs a newer opset, does not take these images or does not give a score a class.
    """
    name = printable(f"{path.parent.name}/{path.name}")
    try:
        with open_regular(path) as file:
            model = onnx.load_model_from_string(file.read())
    except DataError:
        raise
    except Exception as error:  # what protobuf raises is another class in every version
        raise DataError(
            f"{name} cannot be read as ONNX ({path.stat().st_size:,} bytes that are no whole "
            "model); export it again"
        ) from error
    if not model.graph.node or not model.opset_import:
        raise DataError(f"{name} holds no graph; export it again")
    _check_operators(model, name)
    _check_external_data(model, path, name)
    _check_input(model, name, network, sides)
    score_output(model, network, name)
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise DataError(
            f"external data of {name} cannot be read; put its file beside the model"
        ) from error
    return model


def _check_operators(model: onnx.ModelProto, name: str) -> None:
    """Refuse operators of a library; an import that no node needs is only a stamp."""
    local = {(function.domain, function.name) for function in model.functions}
    for node in (node for body in _bodies(model) for node in body.node):
        if node.domain not in DOMAINS and (node.domain, node.op_type) not in local:
            raise DataError(
                f"{name} needs operators of {printable(str(node.domain))!r} "
                f"({printable(str(node.op_type))}), whose library Scotoma never loads; export it "
                "with ONNX operators only"
            )
    newest = onnx.defs.onnx_opset_version()
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx") and entry.version > newest:
            raise DataError(
                f"{name} needs opset {entry.version}, and the newest here is {newest}; export it "
                "at opset 21"
            )


def _bodies(model: onnx.ModelProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    """The graph of a model, its functions, and the graphs inside their nodes."""
    bodies: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    for body in bodies:  # which grow meanwhile
        yield body
        for attribute in _attributes(body):
            bodies += [own for own in (attribute.g, *attribute.graphs) if own.ByteSize()]


def _attributes(body: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.AttributeProto]:
    return (attribute for node in body.node for attribute in node.attribute)


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model, wherever it lies."""
    for body in _bodies(model):
        sparse = []
        if isinstance(body, onnx.GraphProto):
            yield from body.initializer
            sparse += body.sparse_initializer
        for attribute in _attributes(body):
            yield from (attribute.t, *attribute.tensors)
            sparse += [attribute.sparse_tensor, *attribute.sparse_tensors]
        for one in sparse:
            yield from (one.values, one.indices)


def _check_external_data(model: onnx.ModelProto, path: Path, name: str) -> None:
    declared, beside = 0, set()
    for tensor in _tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        facts = {entry.key: entry.value for entry in tensor.external_data}
        location = facts.get("location", "")
        if not isinstance(location, str) or "\0" in location:  # protobuf leaves what is no UTF-8
            raise DataError(f"{name} names external data in invalid text; export it again")
        place = path.parent / location
        outside = Path(location).is_absolute() or ".." in Path(location).parts or not location
        if outside or not place.resolve().is_relative_to(path.parent.resolve()):
            raise DataError(
                f"{name} names data outside its folder, {printable(location)!r}; put the weights "
                "into the model, or beside it"
            )
        if not place.is_file():
            raise DataError(
                f"{name} keeps weights in {printable(location)!r}, which is not beside it; copy it "
                "there"
            )
        length, rest = str(facts.get("length", "")), place.stat().st_size
        declared += int(length) if length.isdecimal() and len(length) < 20 else rest
        beside.add(place)
    held = sum(map(bytes_on_disk, beside))
    if declared > min(held + SHARED_BYTES, MOST_BYTES):
        raise DataError(
            f"{name} names {declared:,} bytes of external data, and may name the {held:,} that are "
            "on the disk, less than 2 GiB; export it again"
        )


def image_input(model: onnx.ModelProto) -> tuple[str, list[int | None]] | None:
    """Type and shape of the images that a model takes; None if it has not one input.

    The type is numpy's name, or what ONNX calls one that numpy lacks.
    """
    held = {initializer.name for initializer in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in held]
    if len(inputs) != 1:
        return None
    kind = inputs[0].type.tensor_type.elem_type
    called = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64", 0: "no tensor"}
    known = {number: name.lower() for name, number in TensorProto.DataType.items()}
    return called.get(kind) or known.get(kind, f"type {kind}"), _shape(inputs[0]) or []


def _shape(value: onnx.ValueInfoProto) -> list[int | None] | None:
    """Its axes, None where they are free; None for an unknown rank."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    dimensions = value.type.tensor_type.shape.dim
    return [d.dim_value if d.HasField("dim_value") else None for d in dimensions]


def _check_input(
    model: onnx.ModelProto, name: str, network: Network, sides: tuple[int, int]
) -> None:
    images = image_input(model)
    if images is None:
        raise DataError(f"{name} must take one input, the images; export it with one")
    dtype, shape = images
    if dtype not in INPUT_TYPES:
        raise DataError(
            f"{name} must take images in {', '.join(INPUT_TYPES[:-1])} or {INPUT_TYPES[-1]}, got "
            f"{dtype}; export it with one of these"
        )
    if len(shape) != 4:
        raise DataError(
            f"{name} must take images of rank 4, got an input of rank {len(shape)}, "
            f"{shown_shape(shape)}; export it with batch, channels, height and width"
        )
    if shape[0] not in (None, 1):
        raise DataError(
            f"{name} must take batches of any size or of 1, got {shape[0]}; export it with a free "
            "batch size"
        )
    last = network.preprocessing.fitted(dtype, shape).layout == "NHWC"
    wanted = [None, *sides, 3] if last else [None, 3, *sides]
    if not all(s in (None, w) for s, w in zip(shape[1:], wanted[1:], strict=True)):
        raise DataError(
            f"{name} takes images of {shown_shape(shape)} and the preprocessing gives "
            f"{shown_shape(wanted)}; correct source.size, or export it for RGB images"
        )


def output_shapes(model: onnx.ModelProto) -> dict[str, list[int | None] | None]:
    """The shapes of a model's outputs by name; None for an unknown rank."""
    # Protobuf leaves a name that is no UTF-8 as bytes.
    return {str(output.name): _shape(output) for output in model.graph.output}


def score_output(model: onnx.ModelProto, network: Network, name: str) -> str:
    """Name the output that holds the scores; see `choose_output`."""
    return choose_output(
        output_shapes(model),
        network.classes,
        labels=bool(network.thresholds),
        asked=network.output,
        called=name,
    )
