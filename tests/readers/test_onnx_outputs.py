"""Which output holds the scores, and what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from scotoma.datasets.image_size import ImageSize
from scotoma.errors import DataError
from scotoma.inference import Preprocessing
from scotoma.readers.hugging_face import (
    READ,
    class_names,
    image_settings,
    in_words_of_labels,
    read_json_file,
)
from scotoma.readers.onnx_outputs import (
    Shape,
    choose_output,
    class_scores,
    is_one_score,
    is_probability,
)
from tests.readers.make_image_processors import PROCESSORS, pictures

C = 5


@pytest.mark.parametrize(
    ("outputs", "classes", "chosen"),
    [
        ({"y": [None, C]}, C, "y"),
        ({"y": [None, C, 1, 1]}, C, "y"),
        ({"y": [1, 1, C]}, C, "y"),
        ({"y": None}, C, "y"),
        ({"y": [None, None]}, C, "y"),
        ({"features": [None, 512], "y": [None, C]}, C, "y"),
        ({"y": [None, None], "z": [None, C, 1]}, C, "z"),
        ({"map": [None, C, 7, 7], "y": [None, C]}, C, "y"),
        ({"hidden": [None, C], "logits": [None, C]}, C, "logits"),
        ({"probabilities": [None, C], "Logits": [None, C]}, C, "Logits"),
        ({"y": [None, 1]}, 2, "y"),
        ({"y": [None]}, 2, "y"),
        ({"y": [1, 1, 1, 1]}, 2, "y"),
        ({"loss": [None], "y": [None, 2]}, 2, "y"),
    ],
)
def test_the_output_that_fits_is_chosen(
    outputs: dict[str, Shape], classes: int, chosen: str
) -> None:
    assert choose_output(outputs, classes) == chosen


@pytest.mark.parametrize(
    ("outputs", "classes", "asked", "sentence"),
    [
        ({"y": [None, 9]}, C, "", "got an output of (any, 9); list its classes in source.classes"),
        ({"y": [None, C, 7, 7]}, C, "", "got an output of (any, 5, 7, 7);"),
        ({"y": [None]}, C, "", "got an output of (any,);"),
        ({"y": []}, 2, "", "got an output of ();"),
        ({"a": [None, C], "b": [None, C]}, C, "", "got 2: a, b; name one in source.output"),
        ({"a": [None, C]}, C, "b", "must have the output of source.output, got a and not 'b'"),
        ({"a": [None, C], "b": [None, 9]}, C, "b", "got an output of (any, 9)"),
    ],
)
def test_what_does_not_fit_is_refused(
    outputs: dict[str, Shape], classes: int, asked: str, sentence: str
) -> None:
    with pytest.raises(DataError) as refused:
        choose_output(outputs, classes, asked=asked, called="int8/a.onnx")
    assert str(refused.value).startswith("int8/a.onnx must ")
    assert sentence in str(refused.value)


def test_an_output_that_is_asked_for_overrules_a_usual_name() -> None:
    outputs: dict[str, Shape] = {"logits": [None, C], "aux": [None, C]}
    assert choose_output(outputs, C, asked="aux") == "aux"


def test_each_label_needs_its_own_score() -> None:
    with pytest.raises(DataError, match=r"each of 2 labels, got an output of \(any, 1\); use a"):
        choose_output({"y": [None, 1]}, 2, labels=True)
    assert class_scores(np.ones((3, 1)), 2, labels=True).shape == (3, 1)
    assert is_one_score([None, 1, 1])
    assert not is_one_score([None, None])


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=9), st.integers(0, 3))
def test_one_probability_keeps_its_odds(probabilities: list[float], ones: int) -> None:
    given_shape = np.array(probabilities, np.float32).reshape(-1, *(1,) * ones)
    scores = class_scores(given_shape, 2, probability=True).astype(np.float64)
    softmax = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax[:, 1], probabilities, rtol=1e-4)


def test_a_logit_is_kept_and_what_is_no_number_stays_none() -> None:
    values = np.array([[-3.0], [0.0], [np.nan]], np.float64)
    for probability in (False, True):
        assert np.isnan(class_scores(values, 2, probability=probability)[2, 1])
    assert class_scores(values, 2)[:2].tolist() == [[0.0, -3.0], [0.0, 0.0]]
    assert np.isfinite(class_scores(np.array([0.0, 1.0]), 2, probability=True)).all()


@pytest.mark.parametrize(
    ("operators", "probability"),
    [
        (["Sigmoid"], True),
        (["Squeeze", "Cast", "Sigmoid"], True),
        (["DequantizeLinear", "QuantizeLinear", "Sigmoid"], True),
        (["Gemm", "Sigmoid"], False),
        (["Flatten", "Gemm"], False),
        ([], False),
    ],
)
def test_the_last_operator_says_what_a_score_is(operators: list[str], probability: bool) -> None:
    chain = [*operators, "Input"]
    producers = {f"v{k}": (name, [f"v{k + 1}"]) for k, name in enumerate(chain)}
    assert is_probability(producers, "v0") is probability
    assert not is_probability({"v0": ("Cast", ["v0"])}, "v0")  # a ring ends


# --- settings of Hugging Face's image processors and names of classes, held to `transformers` -----


FILE = Path(__file__).parent / "files" / "hugging_face" / "image_processors.npz"


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """What transformers 5.24 saved and made; see make_image_processors.py."""
    with np.load(FILE, allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("name", PROCESSORS)
def test_pictures_are_those_of_the_image_processor(name: str, made: dict[str, Any]) -> None:
    said = image_settings(json.loads(str(made["settings"]))[name])
    assert said.unread == ()
    assert said.size is not None
    assert said.pixels is not None
    crop, resample = said.crop or 1.0, said.resample or ""
    size = ImageSize(*said.size, crop=crop, fit=said.fit or "", resample=resample)
    pixels = {"mean": (0.0, 0.0, 0.0), **said.pixels}
    ready = Preprocessing(**pixels, channels=said.channels or "RGB")
    for place, picture in enumerate(pictures()):
        shown = np.asarray(size.applied(Image.fromarray(picture)))
        values = ready(shown.transpose(2, 0, 1)[None])[0]
        values = values[:, ::32, ::32] if values.shape[1] > 100 else values
        expected = made[f"{name} {place}"]
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-4)


CLIP = {"image_processor_type": "CLIPImageProcessor", "crop_size": 224}


@pytest.mark.parametrize(
    ("content", "unread"),
    [
        ({"size": {"height": 8, "width": 8}, "do_pad": True, "size_divisor": 32}, "do_pad size_d"),
        ({"size": {"height": 8, "width": 8}, "do_pad": False, "device": "cuda"}, ""),
        ({"size": {"shortest_edge": 224}, "do_center_crop": False}, "size"),
        ({"size": {"shortest_edge": 224, "longest_edge": 300}, **CLIP}, "size.longest_edge"),
        ({"size": {"shortest_edge": 200}, **CLIP}, "size crop_size"),
        ({"size": {"longest_edge": 300}}, "size"),
        ({"size": 224, **CLIP}, ""),
        ({"size": {"shortest_edge": 256}, "crop_size": {"height": 8, "width": 9}}, "size crop_si"),
        ({"image_processor_type": "PerceiverImageProcessor", "crop_size": 256}, "crop_size"),
        ({"image_processor_type": "ImageGPTImageProcessor", "clusters": [[0]]}, "clusters"),
        ({"size": "big", "resample": "cubic"}, "size"),
    ],
)
def test_what_is_not_followed_is_named(content: dict[str, Any], unread: str) -> None:
    assert " ".join(image_settings(content).unread).startswith(unread)
    assert bool(image_settings(content).unread) == bool(unread)


def test_old_files_say_less() -> None:
    old = {"feature_extractor_type": "ViTFeatureExtractor", "size": 224, "image_mean": [0.5] * 3}
    said = image_settings({**old, "image_std": [0.5] * 3})
    assert said.geometry == {"size": [224, 224], "fit": "squash", "resample": "bilinear"}
    assert said.pixels == {"scale": 255.0, "mean": [0.5] * 3, "std": [0.5] * 3}
    assert image_settings({}).pixels is None


def test_class_names_are_spelled_as_the_labels() -> None:
    assert class_names({"id2label": {"2": "c", "10": "k", "1": "b", "0": "a"}}) == []
    eleven = {str(k): f"class {k}" for k in range(11)}
    assert class_names({"id2label": dict(sorted(eleven.items()))})[2] == "class 2"
    assert in_words_of_labels(["LABEL_0", "LABEL_1"], {"cat", "dog"}) is None
    assert in_words_of_labels(["LABEL_0", "LABEL_1"], {"0", "1"}) == ["0", "1"]
    assert in_words_of_labels(["1", "0"], {"0", "1"}) == ["1", "0"]
    # ImageNet has two cranes: only a label of that name would be two classes.
    assert in_words_of_labels(["crane", "dog", "crane"], {"dog"}) == [
        "crane (0)",
        "dog",
        "crane (2)",
    ]
    assert in_words_of_labels(["crane", "dog", "crane"], {"crane"}) is None
    assert in_words_of_labels(["Zoe\u0308", "Max"], {"zo\u00eb"}) == ["zo\u00eb", "Max"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["height", "width", "shortest_edge"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(sorted(READ)), JSON, max_size=9),
    st.sampled_from(["CLIP", "ConvNext", "PoolFormer", "Levit", "MobileViT", "EfficientNet", ""]),
)
def test_any_json_is_read_without_a_fault(content: dict[str, Any], kind: str) -> None:
    image_settings({**content, "image_processor_type": f"{kind}ImageProcessor"})


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DataError, match=r"config\.json must be JSON; .* set source.classes"):
        read_json_file(tmp_path / "config.json")
