"""Models made elsewhere, most of them broken or hostile."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from scotoma.config.limits import ReaderLimits
from scotoma.errors import DataError
from scotoma.inference import Network, Preprocessing, predict_members, scores_onnx
from scotoma.inference.external import model_files, read_model
from scotoma.inference.trials import trials

pytestmark = pytest.mark.slow

CLASSES = 4
NETWORK = Network("onnx", CLASSES, Preprocessing(255.0), limits=ReaderLimits())
SIDES = (8, 8)


def classifier(
    *,
    shape: tuple[Any, ...] = ("batch", 3, 8, 8),
    classes: int = CLASSES,
    kind: int = TensorProto.FLOAT,
    opset: int = 21,
    bias: float = 0.0,
) -> onnx.ModelProto:
    """Mean of each channel, then one linear layer."""
    rng = np.random.default_rng(0)
    axes = list(range(2, len(shape)))
    nodes = [
        helper.make_node("Cast", ["images"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["float", "axes"], ["mean"], keepdims=0),
        helper.make_node("Gemm", ["mean", "weight", "bias"], ["scores"]),
    ]
    weights = {
        "axes": np.array(axes, np.int64),
        "weight": rng.normal(size=(3, classes)).astype(np.float32),
        "bias": np.full(classes, bias, np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("images", kind, shape)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ("batch", classes))],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models" / "dense").mkdir(parents=True)
    return tmp_path / "models" / "dense"


def refused(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_model(path, NETWORK, SIDES)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_model_made_elsewhere_is_read_and_predicts(folder: Path) -> None:
    onnx.save_model(classifier(), folder / "a.onnx")
    read_model(folder / "a.onnx", NETWORK, SIDES)
    images = np.random.default_rng(1).integers(0, 256, (9, 3, 8, 8)).astype(np.uint8)
    with trials() as attempt:
        attempt(folder / "a.onnx", NETWORK, images[:2])
    (answers,) = predict_members([folder / "a.onnx"], images, NETWORK)
    weight = np.random.default_rng(0).normal(size=(3, CLASSES)).astype(np.float32)
    expected = ((images / 255 - 1).mean(axis=(2, 3)) @ weight).argmax(axis=1)
    np.testing.assert_array_equal(answers.predicted, expected)


@pytest.mark.parametrize("limits", [ReaderLimits(), None])
def test_the_best_classes_are_those_of_the_highest_scores(
    folder: Path, limits: ReaderLimits | None
) -> None:
    images = np.random.default_rng(1).integers(0, 256, (70, 3, 8, 8)).astype(np.uint8)
    for classes, best in ((12, 5), (10, 1)):
        path = folder / f"{classes}.onnx"
        onnx.save(classifier(classes=classes), path)
        network = Network("onnx", classes, Preprocessing(255.0), limits=limits, best=best)
        answers = list(predict_members([path], images, network, workers=0))
        scores = torch.from_numpy(scores_onnx(path, network.preprocessing(images)))
        predicted = np.concatenate([answer.predicted for answer in answers])
        np.testing.assert_array_equal(predicted, scores.argmax(dim=1))
        kept = np.concatenate([answer.best for answer in answers])
        np.testing.assert_array_equal(kept, scores.topk(best).indices)


def test_a_model_of_batch_1_is_given_one_image_at_a_time(folder: Path) -> None:
    onnx.save_model(classifier(shape=(1, 3, 8, 8)), folder / "a.onnx")
    read_model(folder / "a.onnx", NETWORK, SIDES)
    images = np.zeros((5, 3, 8, 8), np.uint8)
    (answers,) = predict_members([folder / "a.onnx"], images, NETWORK)
    assert len(answers.predicted) == 5


def test_channels_may_come_last(folder: Path) -> None:
    model = classifier(shape=("batch", 8, 8, 3))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([1, 2]), "axes"))
    onnx.save_model(model, folder / "a.onnx")
    last = Network("onnx", CLASSES, Preprocessing(255.0, layout="NHWC"))
    read_model(folder / "a.onnx", last, SIDES)
    images = np.random.default_rng(1).integers(0, 256, (9, 3, 8, 8)).astype(np.uint8)
    weight = np.random.default_rng(0).normal(size=(3, CLASSES)).astype(np.float32)
    expected = ((images / 255 - 1).mean(axis=(2, 3)) @ weight).argmax(axis=1)
    for network in (last, NETWORK):  # what the model says of its input decides
        with trials() as attempt:
            attempt(folder / "a.onnx", network, images[:2])
        (answers,) = predict_members([folder / "a.onnx"], images, network)
        np.testing.assert_array_equal(answers.predicted, expected)


@pytest.mark.parametrize("kind", ["FLOAT", "FLOAT16", "DOUBLE", "UINT8"])
@pytest.mark.parametrize("shape", [("n", 3, 8, 8), ("n", 8, 8, 3), (1, 3, 8, 8), ("n",) * 4])
def test_images_are_given_in_the_type_and_layout_that_the_model_takes(
    folder: Path, kind: str, shape: tuple[Any, ...]
) -> None:
    """A float16 model may differ by its own rounding alone, so pictures differ by more."""
    model = classifier(shape=shape, kind=getattr(TensorProto, kind))
    last = shape[-1] == 3
    axes = np.array([1, 2] if last else [2, 3], np.int64)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(axes, "axes"))
    path = folder / "a.onnx"
    onnx.save_model(model, path)
    colours = np.random.default_rng(3).integers(0, 256, (40, 3, 1, 1))
    images = np.broadcast_to(colours, (40, 3, 8, 8)).astype(np.uint8)
    weight = np.random.default_rng(0).normal(size=(3, CLASSES)).astype(np.float32)
    taken = images if kind == "UINT8" else (images / 255 - 0.5) / 0.25
    expected = taken.mean(axis=(2, 3)) @ weight
    network = replace(NETWORK, preprocessing=Preprocessing(255.0, (0.5,) * 3, (0.25,) * 3))
    read_model(path, network, SIDES)
    (answers,) = predict_members([path], images, network, keep_scores="full")
    assert answers.every_score is not None
    rough = 2e-3 if kind == "FLOAT16" else 1e-5
    np.testing.assert_allclose(answers.every_score, expected, rtol=rough, atol=20 * rough)


def test_channels_may_be_asked_for_as_bgr(folder: Path) -> None:
    onnx.save_model(classifier(kind=TensorProto.UINT8), folder / "a.onnx")
    images = np.random.default_rng(1).integers(0, 256, (9, 3, 8, 8)).astype(np.uint8)
    flipped = replace(NETWORK, preprocessing=Preprocessing(channels="BGR"))
    pairs = ((NETWORK, images[:, ::-1]), (flipped, images))
    rgb, bgr = (
        next(predict_members([folder / "a.onnx"], i, n, keep_scores="full")) for n, i in pairs
    )
    np.testing.assert_array_equal(rgb.every_score, bgr.every_score)


SHAPES = {
    (("batch", 192), "must take images of rank 4, got an input of rank 2, (any, 192); export it "
     "with batch, channels, height and width"),
    ((7, 3, 8, 8), "must take batches of any size or of 1, got 7; export it with a free batch "
     "size"),
    (("batch", 3, 32, 32), "takes images of (any, 3, 32, 32) and the preprocessing gives (any, "
                           "3, 8, 8); correct source.size, or export it for RGB images"),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "sentence"), sorted(SHAPES, key=str))
def test_an_input_of_another_shape_is_refused(
    folder: Path, shape: tuple[Any, ...], sentence: str
) -> None:
    onnx.save_model(classifier(shape=shape), folder / "a.onnx")
    assert refused(folder / "a.onnx") == f"dense/a.onnx {sentence}"


def test_an_input_of_another_type_is_refused(folder: Path) -> None:
    onnx.save_model(classifier(kind=TensorProto.INT8), folder / "a.onnx")
    assert refused(folder / "a.onnx") == (
        "dense/a.onnx must take images in float32, float16, float64 or uint8, got int8; export it "
        "with one of these"
    )


def test_a_model_of_other_classes_is_refused(folder: Path) -> None:
    onnx.save_model(classifier(classes=10), folder / "a.onnx")
    assert refused(folder / "a.onnx") == (
        "dense/a.onnx must give a score for each of 4 classes, got an output of (any, 10); list "
        "its classes in source.classes, in the order of the scores"
    )


def test_a_model_that_is_no_classifier_is_refused(folder: Path) -> None:
    model = classifier()
    del model.graph.output[:]
    model.graph.output.append(
        helper.make_tensor_value_info("images", TensorProto.FLOAT, ("batch", 3, 8, 8))
    )
    onnx.save_model(model, folder / "map.onnx")
    assert "got an output of (any, 3, 8, 8)" in refused(folder / "map.onnx")


def test_a_model_of_two_inputs_is_refused(folder: Path) -> None:
    model = classifier()
    model.graph.input.append(helper.make_tensor_value_info("age", TensorProto.FLOAT, ("batch", 1)))
    onnx.save_model(model, folder / "a.onnx")
    assert refused(folder / "a.onnx") == (
        "dense/a.onnx must take one input, the images; export it with one"
    )


@pytest.mark.parametrize("name", [b"scores", b"Gemm", b"images"])
def test_names_that_are_no_text_are_no_fault(folder: Path, name: bytes) -> None:
    content = classifier(classes=9).SerializeToString()
    (folder / "a.onnx").write_bytes(content.replace(name, b"\xff" * len(name)))
    assert refused(folder / "a.onnx").startswith("dense/a.onnx ")


@pytest.mark.parametrize("kept", [0, 1, 40, 150])
def test_a_truncated_file_is_refused(folder: Path, kept: int) -> None:
    whole = classifier().SerializeToString()
    assert len(whole) > 200
    (folder / "a.onnx").write_bytes(whole[:kept])
    message = refused(folder / "a.onnx")
    assert message in {
        f"dense/a.onnx cannot be read as ONNX ({kept:,} bytes that are no whole model); export it "
        "again",
        "dense/a.onnx holds no graph; export it again",
    }


def test_a_file_of_another_kind_is_refused(folder: Path) -> None:
    for name, content in {"a.onnx": b"PK\x03\x04" + bytes(100), "b.onnx": b"\x80\x04cos\n"}.items():
        (folder / name).write_bytes(content)
        assert refused(folder / name).endswith("export it again")


def test_an_opset_from_the_future_is_refused(folder: Path) -> None:
    onnx.save_model(classifier(opset=99), folder / "a.onnx")
    newest = onnx.defs.onnx_opset_version()
    assert refused(folder / "a.onnx") == (
        f"dense/a.onnx needs opset 99, and the newest here is {newest}; export it at opset 21"
    )


def test_operators_of_a_library_are_refused(folder: Path) -> None:
    model = classifier()
    model.graph.node[0].domain = "evil"
    model.opset_import.append(helper.make_opsetid("evil", 1))
    onnx.save_model(model, folder / "a.onnx")
    assert refused(folder / "a.onnx") == (
        "dense/a.onnx needs operators of 'evil' (Cast), whose library Scotoma never loads; "
        "export it with ONNX operators only"
    )


def hidden_in_branch(model: onnx.ModelProto) -> None:
    inner = helper.make_graph([helper.make_node("Own", [], ["x"], domain="evil")], "inner", [], [])
    both = helper.make_node("If", ["c"], ["x"], then_branch=inner, else_branch=inner)
    outer = helper.make_graph([both], "outer", [], [])
    model.graph.node.append(
        helper.make_node("If", ["c"], ["x"], then_branch=outer, else_branch=outer)
    )


def hidden_in_function(model: onnx.ModelProto) -> None:
    model.functions.append(
        helper.make_function(
            "mine", "Twice", ["x"], ["y"], [helper.make_node("Own", ["x"], ["y"], domain="evil")],
            [helper.make_opsetid("evil", 1)],
        )
    )  # fmt: skip
    model.opset_import.append(helper.make_opsetid("mine", 1))


@pytest.mark.parametrize("hide", [hidden_in_branch, hidden_in_function])
def test_operators_of_a_library_are_refused_wherever_they_hide(folder: Path, hide: Any) -> None:
    model = classifier()
    hide(model)
    onnx.save_model(model, folder / "a.onnx")
    assert "needs operators of 'evil' (Own)" in refused(folder / "a.onnx")


def test_imports_that_no_operator_needs_are_stamps(folder: Path) -> None:
    """ONNX Runtime stamps what it knows; a function of the model's own needs no library."""
    model = classifier()
    for domain in ("ai.onnx.training", "com.microsoft.experimental", "org.pytorch.aten", "evil"):
        model.opset_import.append(helper.make_opsetid(domain, 1))
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.functions.append(
        helper.make_function(
            "mine", "Same", ["x"], ["y"], [helper.make_node("Identity", ["x"], ["y"])],
            [helper.make_opsetid("", 21)],
        )
    )  # fmt: skip
    model.graph.node[2].output[0] = "before"
    model.graph.node.append(helper.make_node("Same", ["before"], ["scores"], domain="mine"))
    onnx.save_model(model, folder / "a.onnx")
    read_model(folder / "a.onnx", NETWORK, SIDES)
    with trials() as attempt:
        attempt(folder / "a.onnx", NETWORK, np.zeros((2, 3, 8, 8), np.uint8))


def with_external(model: onnx.ModelProto, location: str, *, nested: bool = False) -> bytes:
    """A model whose second weight lies in a file."""
    tensor = model.graph.initializer[1]
    if nested:
        node = helper.make_node("Constant", [], ["hidden"], value=tensor)
        inner = helper.make_graph([node], "inner", [], [])
        model.graph.node.append(
            helper.make_node("If", ["c"], ["x"], then_branch=inner, else_branch=inner)
        )
        tensor = model.graph.node[-1].attribute[0].g.node[0].attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    written: bytes = model.SerializeToString()
    return written


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    "location", ["/etc/passwd", "../../secret.bin", "x/../../secret.bin", "", "link"]
)
def test_data_outside_the_folder_is_refused(folder: Path, location: str, nested: bool) -> None:
    (folder.parent.parent / "secret.bin").write_bytes(bytes(48))
    (folder / "link").symlink_to(folder.parent.parent / "secret.bin")
    (folder / "a.onnx").write_bytes(with_external(classifier(), location, nested=nested))
    assert refused(folder / "a.onnx") == (
        f"dense/a.onnx names data outside its folder, {location!r}; put the weights into the "
        "model, or beside it"
    )


def test_data_beside_the_model_is_read(folder: Path) -> None:
    (folder / "a.onnx").write_bytes(with_external(classifier(), "weights.bin"))
    assert refused(folder / "a.onnx") == (
        "dense/a.onnx keeps weights in 'weights.bin', which is not beside it; copy it there"
    )
    weight = np.arange(12, dtype=np.float32)
    (folder / "weights.bin").write_bytes(weight.tobytes())
    model = read_model(folder / "a.onnx", NETWORK, SIDES)
    found = numpy_helper.to_array(model.graph.initializer[1])
    np.testing.assert_array_equal(found.ravel(), weight)


def test_scores_that_are_no_numbers_are_refused(folder: Path) -> None:
    onnx.save_model(classifier(bias=np.nan), folder / "a.onnx")
    read_model(folder / "a.onnx", NETWORK, SIDES)
    with pytest.raises(DataError) as caught, trials() as attempt:
        attempt(folder / "a.onnx", NETWORK, np.zeros((2, 3, 8, 8), np.uint8))
    assert str(caught.value) == (
        "dense/a.onnx must give finite scores, got nan or infinity; check its weights and "
        "preprocessing"
    )


def test_what_the_runtime_refuses_is_told_in_one_sentence(folder: Path) -> None:
    model = classifier()
    model.graph.node[1].op_type = "NoSuchOperator"
    onnx.save_model(model, folder / "a.onnx")
    with pytest.raises(DataError) as caught, trials() as attempt:
        attempt(folder / "a.onnx", NETWORK, np.zeros((2, 3, 8, 8), np.uint8))
    message = str(caught.value)
    assert message.startswith("dense/a.onnx is refused by ONNX Runtime (")
    assert message.endswith("; export it again")
    assert "\n" not in message


class Deadly(Preprocessing):
    """Whoever is sent it dies, as of a library that crashes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (11,)


class Killed(Preprocessing):
    """Whoever is sent it is killed, as the system does for want of memory."""

    def __reduce__(self) -> tuple[Any, ...]:
        return signal.raise_signal, (signal.SIGKILL,)


def test_a_process_that_the_system_kills_is_a_sentence(folder: Path) -> None:
    onnx.save_model(classifier(), folder / "a.onnx")
    killed = Network("onnx", CLASSES, Killed())
    with (
        pytest.raises(DataError, match=r"a worker process died while running dense/a\.onnx: "),
        trials() as attempt,
    ):
        attempt(folder / "a.onnx", killed, np.zeros((2, 3, 8, 8), np.uint8))


def test_a_model_that_takes_the_runtime_down_does_not_take_us_down(folder: Path) -> None:
    onnx.save_model(classifier(), folder / "a.onnx")
    deadly = Network("onnx", CLASSES, Deadly())
    with pytest.raises(DataError) as caught, trials() as attempt:
        attempt(folder / "a.onnx", deadly, np.zeros((2, 3, 8, 8), np.uint8))
    assert str(caught.value) == (
        "dense/a.onnx crashes ONNX Runtime; export it again with another opset, or leave its "
        "variant out"
    )


def endless() -> onnx.ModelProto:
    """A classifier whose bias goes around a loop 2^62 times."""
    model = classifier()
    graph = model.graph
    kinds = {
        "round": (TensorProto.INT64, ()),
        "go": (TensorProto.BOOL, ()),
        "held": (TensorProto.FLOAT, (CLASSES,)),
    }
    inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()]
    outputs = [helper.make_tensor_value_info(f"{name}_on", *kinds[name]) for name in ("go", "held")]
    handing_on = [helper.make_node("Identity", [name], [f"{name}_on"]) for name in ("go", "held")]
    body = helper.make_graph(handing_on, "body", inputs, outputs)
    graph.initializer.append(numpy_helper.from_array(np.array(2**62), "rounds"))
    graph.node[2].input[2] = "looped"
    graph.node.insert(2, helper.make_node("Loop", ["rounds", "", "bias"], ["looped"], body=body))
    return model


def test_a_model_that_does_not_end_is_ended(folder: Path) -> None:
    brief = replace(NETWORK, limits=ReaderLimits(reader_seconds=1.0))
    onnx.save_model(endless(), folder / "a.onnx")
    onnx.save_model(classifier(), folder / "b.onnx")
    read_model(folder / "a.onnx", NETWORK, SIDES)
    with trials() as attempt:
        with pytest.raises(DataError) as caught:
            attempt(folder / "a.onnx", brief, np.zeros((2, 3, 8, 8), np.uint8))
        attempt(folder / "b.onnx", NETWORK, np.zeros((2, 3, 8, 8), np.uint8))
    assert str(caught.value) == (
        "dense/a.onnx must give the scores of 2 images within 1 s, and did not; export a faster "
        "one, leave its variant out, or raise limits.reader_seconds"
    )


def test_folders_and_files_that_are_not_there_are_named(folder: Path, tmp_path: Path) -> None:
    onnx.save_model(classifier(), folder / "b.onnx")
    onnx.save_model(classifier(), folder / "a.onnx")
    (folder / "notes.txt").touch()
    models = str(folder.parent)
    assert model_files(models, "dense") == ["a.onnx", "b.onnx"]
    with pytest.raises(DataError) as caught:
        model_files(models, "int8")
    assert str(caught.value) == (
        f"source.models {models} must hold a folder 'int8' of .onnx files; it holds dense"
    )
    (folder.parent / "int8").mkdir()
    with pytest.raises(DataError, match=r"must hold the .onnx files of 'int8', got none"):
        model_files(models, "int8")
    (folder.parent / "int8" / "a.onnx").symlink_to(folder / "a.onnx")
    with pytest.raises(DataError, match=r"^a.onnx must lie in .*int8, but it is a link out of it"):
        model_files(models, "int8")
