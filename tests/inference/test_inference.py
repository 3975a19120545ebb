from __future__ import annotations

import multiprocessing
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from scotoma.config import Variant
from scotoma.errors import DataError
from scotoma.inference import (
    OURS,
    Network,
    Preprocessing,
    images_at_once,
    predict_members,
    providers,
)
from scotoma.inference.costs import file_sizes, measure_latencies
from scotoma.quantization.compress import compress
from scotoma.quantization.graphs import export_graph
from scotoma.training.engine import normalise
from scotoma.training.models import build_model
from tests.helpers.networks import numpy_weights

pytestmark = pytest.mark.slow

CLASSES = 5
NETWORK = Network("tiny-convnet", CLASSES)


def trained(seed: int) -> torch.nn.Module:
    """A network whose batch normalisation has seen data, so that folding changes every weight."""
    model = build_model("tiny-convnet", CLASSES, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _ in range(5):
            model(torch.randn(32, 3, 8, 8, generator=generator) * 2 + 0.3)
    return model.eval()


@pytest.fixture(scope="module")
def images() -> NDArray[np.uint8]:
    """Not a whole number of batches of 256, nor of tasks of 4,096."""
    return np.random.default_rng(0).integers(0, 256, (4200, 3, 8, 8)).astype(np.uint8)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two trained members and both int8 forms of the first."""
    folder = tmp_path_factory.mktemp("members")
    paths = []
    for seed in (1, 2):
        paths.append(folder / f"{seed}.safetensors")
        save_file(dict(trained(seed).state_dict()), paths[-1])
    shown = torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    architecture = export_graph(build_model("tiny-convnet", CLASSES, 0), shown[:2])
    architecture.write(folder / "graph.onnx")
    member = architecture.with_weights(numpy_weights(trained(1)))
    for mode in ("static", "dynamic"):
        paths.append(folder / f"{mode}.onnx")
        variant = Variant.model_validate({"name": mode, "kind": "int8", "mode": mode})
        compress(member, paths[-1], variant, shown.numpy())
    return paths


def matrix(members: list[Path], images: NDArray[np.uint8] | Path, n: int, **asked: int) -> NDArray:
    found = np.full((n, len(members)), 255, np.uint8)
    for answers in predict_members(members, images, NETWORK, **asked):  # type: ignore[arg-type]
        assert (found[answers.rows, answers.member] == 255).all()  # nothing is answered twice
        found[answers.rows, answers.member] = answers.predicted
    return found


@pytest.fixture(scope="module")
def here(members: list[Path], images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return matrix(members, images, len(images), workers=0)


def test_trained_members_say_what_their_network_says(
    here: NDArray[np.uint8], images: NDArray[np.uint8]
) -> None:
    for column, seed in enumerate((1, 2)):
        with torch.inference_mode():
            scores = trained(seed)(normalise(torch.from_numpy(images)))
        highest, second = scores.topk(2, dim=1).values.T
        certain = (highest - second > 1e-4).numpy()
        assert certain.mean() > 0.99
        np.testing.assert_array_equal(here[certain, column], scores.argmax(dim=1).numpy()[certain])
    assert (here[:, 0] != here[:, 1]).any()


def test_trained_members_say_the_same_in_their_graph(
    here: NDArray[np.uint8], members: list[Path], images: NDArray[np.uint8]
) -> None:
    network = replace(NETWORK, graph=members[0].parent / "graph.onnx")
    for workers in (0, 2):
        answers = list(predict_members(members[:2], images, network, workers=workers))
        assert {answer.runtime for answer in answers} == {
            "onnxruntime, CPUExecutionProvider; batches of 256"
        }
        found = np.zeros((len(images), 2), np.uint8)
        for answer in answers:
            found[answer.rows, answer.member] = answer.predicted
        assert (found != here[:, :2]).sum() <= 2  # ties to the last bit


def test_int8_members_say_nearly_what_their_dense_one_says(here: NDArray[np.uint8]) -> None:
    for column in (2, 3):
        assert 0.9 < (here[:, column] == here[:, 0]).mean() < 1


def test_workers_change_no_prediction(
    here: NDArray[np.uint8], members: list[Path], images: NDArray[np.uint8], tmp_path: Path
) -> None:
    np.save(tmp_path / "images.npy", images)
    np.testing.assert_array_equal(
        matrix(members, tmp_path / "images.npy", len(images), workers=2), here
    )


def test_a_worker_that_is_killed_is_a_sentence_with_the_name_of_its_member(
    members: list[Path], images: NDArray[np.uint8]
) -> None:
    (folder,) = {path.parent.name for path in members}
    twice = members[2:3] * 40  # of a whole queue
    answers = predict_members(twice, images, NETWORK, workers=1)
    next(answers)
    for process in multiprocessing.active_children():
        process.kill()
    with pytest.raises(DataError) as caught:
        list(answers)
    assert str(caught.value) == (
        f"a worker process died while predicting with {folder}/static.onnx: the system stopped "
        "it, most often for want of memory, or a library crashed; free memory or leave that "
        "variant out, and repeat the command"
    )


def test_a_member_says_the_same_whoever_is_asked_beside_it(
    here: NDArray[np.uint8], members: list[Path], images: NDArray[np.uint8]
) -> None:
    alone = matrix(members[1:2], images, len(images), workers=0)
    np.testing.assert_array_equal(alone[:, 0], here[:, 1])


def test_what_is_quantized_on_the_fly_does_not_depend_on_its_neighbours(
    members: list[Path], images: NDArray[np.uint8]
) -> None:
    """A batch has one range: a bright neighbour would coarsen the steps of a dark image."""
    dark = (images[:64] // 8).astype(np.uint8)
    among_bright = np.concatenate([dark, np.full((64, 3, 8, 8), 255, np.uint8)])
    alone = matrix(members[3:], dark, 64, workers=0)
    beside = matrix(members[3:], among_bright, 128, workers=0)
    np.testing.assert_array_equal(beside[:64], alone)


def test_scores_are_the_probabilities_of_what_is_predicted(
    members: list[Path], images: NDArray[np.uint8]
) -> None:
    (answers,) = predict_members(members[:1], images[:100], NETWORK, keep_scores=True)
    with torch.inference_mode():
        expected = trained(1)(normalise(torch.from_numpy(images[:100]))).softmax(dim=1)
    assert answers.scores is not None
    assert answers.scores.dtype == np.float16
    np.testing.assert_allclose(answers.scores, expected.amax(dim=1), rtol=2e-3)


def test_what_ran_a_member_is_told(members: list[Path], images: NDArray[np.uint8]) -> None:
    said = [
        answers.runtime for answers in predict_members(members[1:], images[:8], NETWORK, workers=0)
    ]
    assert said == [
        "torch, cpu, float32, channels last, batch norm folded; batches of 256",
        "onnxruntime, CPUExecutionProvider; batches of 256",
        "onnxruntime, CPUExecutionProvider, image by image; batches of 256",
    ]


@pytest.mark.parametrize(("side", "batch"), [(8, 256), (16, 256), (32, 64), (64, 16), (512, 4)])
def test_the_batch_depends_on_the_size_of_the_images_alone(side: int, batch: int) -> None:
    for n in (1, 1000):
        assert images_at_once(np.zeros((n, 3, side, side), np.uint8)) == batch


def test_scores_that_are_no_numbers_are_refused(tmp_path: Path, images: NDArray[np.uint8]) -> None:
    state = {name: value.clone() for name, value in trained(1).state_dict().items()}
    state["8.bias"][2] = torch.nan
    save_file(state, tmp_path / "broken.safetensors")
    with pytest.raises(DataError) as caught:
        list(predict_members([tmp_path / "broken.safetensors"], images[:4], NETWORK))
    assert str(caught.value) == (
        "broken.safetensors must give finite scores, got nan or infinity; run it in float32 or "
        "train it with a smaller learning rate"
    )


def test_a_model_of_other_classes_is_refused(
    members: list[Path], images: NDArray[np.uint8]
) -> None:
    with pytest.raises(
        DataError, match=r"^static.onnx must give a score for each of 3 classes, got an output of "
    ):
        list(predict_members(members[2:3], images[:4], Network("tiny-convnet", 3)))


def test_our_preprocessing_is_that_of_training() -> None:
    pixels = np.arange(256, dtype=np.uint8).repeat(3).reshape(256, 3, 1, 1)
    expected = normalise(torch.from_numpy(pixels)).numpy()
    np.testing.assert_array_equal(OURS(pixels), expected)


def test_preprocessing_of_torchvision_is_its_own() -> None:
    from torchvision.transforms import v2

    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 5)).astype(np.uint8)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    expected = v2.functional.normalize(
        v2.functional.to_dtype(torch.from_numpy(pixels), torch.float32, scale=True),
        list(mean),
        list(std),
    ).numpy()
    ready = Preprocessing(255.0, mean, std)(pixels)
    np.testing.assert_allclose(ready, expected, rtol=1e-6, atol=1e-6)
    last = Preprocessing(255.0, mean, std, "NHWC")(pixels)
    assert last.shape == (2, 4, 5, 3)
    np.testing.assert_array_equal(last.transpose(0, 3, 1, 2), ready)


def test_what_a_member_costs_is_measured(
    members: list[Path], images: NDArray[np.uint8], tmp_path: Path
) -> None:
    found = file_sizes(members[0]) | measure_latencies(members[0], NETWORK, images[:3])
    assert found["bytes"] == members[0].stat().st_size
    assert found["bytes"] > found["compressed_bytes"] == len(zlib.compress(members[0].read_bytes()))
    for batch in ("1", "64"):
        times = found["latency"][batch]
        assert 0 < times["low_ms"] <= times["median_ms"] <= times["high_ms"]
        assert times["n"] >= 5

    state = {name: torch.zeros_like(value) for name, value in trained(1).state_dict().items()}
    save_file(state, tmp_path / "zeros.safetensors")
    assert file_sizes(tmp_path / "zeros.safetensors")["compressed_bytes"] < 2000


# --- providers -----------------------------------------------------------------------------------


def test_providers_are_wanted_in_the_order_of_their_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    there = ["CPUExecutionProvider", "AzureExecutionProvider", "CUDAExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: there)
    assert providers() == ["CUDAExecutionProvider", "CPUExecutionProvider"]
