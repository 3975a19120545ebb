"""Which processes run which members, where a GPU is there: placed with a pretended one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from scotoma.config import Variant
from scotoma.inference import Network, Preprocessing, engines, population, predict_members
from scotoma.inference.engines import TorchEngine
from scotoma.inference.population import feeders, most_feeders
from scotoma.processes.machine import Effort, Kind, Workers
from scotoma.quantization.compress import compress
from scotoma.quantization.graphs import export_graph
from scotoma.steps.measures.devices import BothDevices
from scotoma.training.engine import normalise
from scotoma.training.models import build_model
from tests.helpers.networks import numpy_weights

pytestmark = pytest.mark.slow

CLASSES = 5
NETWORK = Network("tiny-convnet", CLASSES)
GIB = 2**30


@pytest.fixture(scope="module")
def images() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (5000, 3, 8, 8)).astype(np.uint8)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three trained members between two int8 ones."""
    folder = tmp_path_factory.mktemp("members")
    graph = export_graph(build_model("tiny-convnet", CLASSES, 0), torch.zeros(2, 3, 8, 8))
    graph.write(folder / "graph.onnx")
    shown = torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(0)).numpy()
    trained, int8 = [], []
    for seed in (1, 2, 3):
        network = build_model("tiny-convnet", CLASSES, seed).eval()
        trained.append(folder / f"{seed}.safetensors")
        save_file(dict(network.state_dict()), trained[-1])
        if seed < 3:
            int8.append(folder / f"{seed}.onnx")
            variant = Variant.model_validate({"name": "int8", "kind": "int8", "mode": "static"})
            compress(graph.with_weights(numpy_weights(network)), int8[-1], variant, shown)
    return [int8[0], *trained, int8[1]]


def matrix(
    members: list[Path], images: NDArray[np.uint8], used: Workers, workers: int, network: Network
) -> NDArray[np.uint8]:
    found = np.full((len(images), len(members)), 255, np.uint8)
    for answers in predict_members(members, images, network, workers=workers, used=used):
        assert (found[answers.rows, answers.member] == 255).all()  # nothing is answered twice
        found[answers.rows, answers.member] = answers.predicted
    assert (found < 255).all()
    return found


def test_float_members_are_placed_on_the_gpu_and_int8_ones_on_the_other_cores(
    members: list[Path], images: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = matrix(members, images, Workers(), 0, NETWORK)
    monkeypatch.setattr(engines, "gpu_at_hand", lambda: True)  # here; the workers see none
    used = Workers()
    np.testing.assert_array_equal(matrix(members, images, used, 3, NETWORK), alone)
    on_gpu, others = used.kinds["gpu"], used.kinds["processor"]
    assert (on_gpu.members, others.members) == (3, 2)
    # Batches that fill a GPU are tasks of 65,536 images of this size; those of a core of 4,096.
    assert (len(on_gpu.efforts), len(others.efforts)) == (3, 4)
    assert on_gpu.workers + others.workers == 3
    assert on_gpu.record()["why"].startswith("one keeps it busy")


def test_without_a_gpu_all_members_are_placed_on_the_processor(
    members: list[Path], images: NDArray[np.uint8]
) -> None:
    used = Workers()
    matrix(members, images, used, 2, NETWORK)
    assert list(used.kinds) == ["processor"]
    kind = used.kinds["processor"]
    assert (kind.members, kind.workers) == (5, 2)
    assert 0 < (kind.busy or 0) <= 1


def test_a_network_that_is_kept_on_the_processor_stays_there(
    members: list[Path], images: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "gpu_at_hand", lambda: True)
    used = Workers()
    matrix(members, images[:300], used, 0, replace(NETWORK, processor=True))
    assert list(used.kinds) == ["processor"]


@pytest.mark.parametrize(("cores", "most"), [(16, 4), (1, 1)])
def test_no_more_processes_feed_a_gpu_than_cores_allow(cores: int, most: int) -> None:
    assert most_feeders(cores) == most


@pytest.mark.parametrize(
    ("first", "number", "why"),
    [
        (Effort(2.0, 1.9, 2 * GIB, 70 * GIB), 1, "1 is to fill it"),
        (Effort(2.0, 0.7, 2 * GIB, 70 * GIB), 3, "3 are to fill it"),
        (Effort(2.0, 0.7, 2 * GIB, 3 * GIB), 2, "memory has room for 2"),
        (Effort(2.0, 0.7, 2 * GIB, 0), 1, "memory has room for 1"),
        (Effort(2.0, 0.1, 2 * GIB, 70 * GIB), 4, "4 are the most for these cores"),
    ],
)
def test_what_one_process_takes_of_a_gpu_decides_how_many_feed_it(
    first: Effort, number: int, why: str
) -> None:
    assert feeders(first, 4, 30)[0] == number
    assert feeders(first, 4, 30)[1].endswith(why)


def test_pixels_are_prepared_in_torch_as_they_are_without_to_the_last_bit() -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16).repeat(3, 1)
    for ours in (Preprocessing(), Preprocessing(255.0, (0.485, 0.456, 0.406), (0.229, 0.224, 0.2))):
        prepared = ours.in_torch(torch.device("cpu"))(torch.from_numpy(pixels))
        np.testing.assert_array_equal(prepared.numpy(), ours(pixels))
        assert prepared.is_contiguous(memory_format=torch.channels_last)


def test_a_batch_too_large_for_the_gpu_is_halved_and_answered_whole(
    members: list[Path], images: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TorchEngine(members[1], NETWORK)
    whole = engine.scores(images[:100])
    sizes: list[int] = []
    really = TorchEngine._scores

    def small(self: TorchEngine, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        sizes.append(len(pixels))
        if len(pixels) > 30:
            raise torch.OutOfMemoryError
        return really(self, pixels)

    monkeypatch.setattr(TorchEngine, "_scores", small)
    np.testing.assert_allclose(engine.scores(images[:100]), whole, atol=1e-5)
    assert sizes == [100, 50, 25, 25, 50, 25, 25]


def test_torch_says_what_the_graph_says_and_other_answers_are_counted(
    members: list[Path], images: NDArray[np.uint8], tmp_path: Path
) -> None:
    np.save(tmp_path / "images.npy", images)
    graph = members[1].parent / "graph.onnx"
    both = BothDevices({0: ("dense", members[1])})
    for answers in predict_members(members[1:2], images, NETWORK, workers=0):
        both.take(answers, len(images))
    (same,) = both.compare(tmp_path / "images.npy", replace(NETWORK, graph=graph))
    assert (same.examples, same.name) == (2048, "dense")
    assert same.differ <= 1  # a tie to the last bit
    assert same.runtimes[0].startswith("torch")
    assert same.runtimes[1].startswith("onnxruntime")
    both.said[0][:] = (both.said[0] + 1) % CLASSES
    (other,) = both.compare(tmp_path / "images.npy", replace(NETWORK, graph=graph))
    assert other.differ >= 2047
    assert "2048 images differently" in str(other)


def test_scores_in_torch_are_those_of_the_graph(
    members: list[Path], images: NDArray[np.uint8]
) -> None:
    network = replace(NETWORK, graph=members[1].parent / "graph.onnx")
    in_graph = engines.open_engine(members[1], network).scores(images[:500])
    in_torch = TorchEngine(members[1], NETWORK).scores(images[:500])
    np.testing.assert_allclose(in_torch, in_graph, atol=1e-4)
    with torch.inference_mode():
        model = build_model("tiny-convnet", CLASSES, 1).eval()
        own = model(normalise(torch.from_numpy(images[:500])))
    np.testing.assert_allclose(in_torch, own.numpy(), atol=1e-4)


def test_how_busy_workers_are_is_the_share_of_their_time() -> None:
    kind = Kind("the processor", 2, "one a core", 3, [Effort(4.0, 3.0), Effort(4.0, 1.0)], 10, 14)
    assert kind.busy == 0.5
    assert str(kind) == (
        "2 workers for 3 members on the processor: one a core; cores busy 50% of 4.0 s"
    )
    assert Kind("the processor").record()["busy"] is None


def test_tasks_of_a_member_on_a_gpu_are_larger(
    members: list[Path], images: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = population._Work(tuple(members), images, NETWORK, False)
    assert work.tasks()[0] == []
    monkeypatch.setattr(engines, "gpu_at_hand", lambda: True)
    monkeypatch.setattr(population, "runs_on_gpu", engines.runs_on_gpu)
    assert work.tasks()[0] == [(member, slice(0, 5000)) for member in (1, 2, 3)]
    assert work.tasks()[1][:2] == [(0, slice(0, 4096)), (0, slice(4096, 5000))]
