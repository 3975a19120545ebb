"""The user's own network: only where allowed, refused in one sentence, told apart by its code."""

from __future__ import annotations

import hashlib
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from scotoma.config import Config, parse_config
from scotoma.config.own_code import CODE_VARIABLE, code_allowed, function_of, module_digest
from scotoma.errors import ConfigError
from scotoma.run import Run, read_json
from scotoma.run.shards import Shard
from scotoma.sources.onnx import OnnxSource
from scotoma.sources.predictions import PredictionsSource
from scotoma.steps.prepare import prepare
from scotoma.steps.train import train
from scotoma.training.models import build_model, try_outputs
from tests.helpers.commands import measured, scotoma

CODE = """\
import torch
from torch import nn

def make(classes):
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, classes),
    )

def of_two(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2))

def with_dropout(classes):
    return nn.Sequential(make(classes), nn.Dropout(0.5))

def no_network(classes):
    return classes

def without_argument():
    return make(2)

def hungry(classes):
    return nn.Sequential(nn.Conv2d(64, 1, 3))

def pair(classes):
    class Pair(nn.Module):
        def forward(self, images):
            return images, images
    return Pair()

def asleep(classes):
    import time
    while True:
        try:
            time.sleep(60)
        except Exception:
            pass

def tired(classes):
    class Tired(nn.Module):
        def forward(self, images):
            return asleep(classes)
    return Tired()

table = {}
"""
CONFIG = """\
project: own
source: {kind: digits-s, model: "MODEL", recipe: {steps: 10, batch_size: 16}}
label: {column: digit}
groups: {style: {column: style}}
variants: [dense, {prune: [0.5]}]
population: {models: 1}
deterministic: true
tracking: {uri: "off"}
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder with a module of a name of its own, since modules are imported once."""
    (tmp_path / "own_nets.py").write_text(CODE)
    (tmp_path / "own_broken.py").write_text("import no_such_library\n")
    (tmp_path / "audit.yaml").write_text(CONFIG.replace("MODEL", "own_nets:make"))
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before
    for name in ("own_nets", "own_broken"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


def config(model: str = "own_nets:make") -> Config:
    return parse_config(CONFIG.replace("MODEL", model), "audit.yaml")


def tried(model: str) -> None:
    try_outputs(build_model(model, 10, 0), model, 10, (8, 8))


def refusal(model: str, home: Path) -> str:
    with code_allowed(model, home, allowed=True), pytest.raises(ConfigError) as caught:
        tried(model)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_network_is_made_where_it_is_allowed(home: Path) -> None:
    with code_allowed("own_nets:make", home, allowed=True):
        first, again = (build_model("own_nets:make", 10, seed=3) for _ in range(2))
        other = build_model("own_nets:make", 10, seed=4)
        try_outputs(first, "own_nets:make", 10, (8, 8))
        assert first.training
    assert first(torch.zeros(2, 3, 8, 8)).shape == (2, 10)
    weights = [next(iter(model.parameters())) for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_permission_ends_with_its_block(home: Path) -> None:
    with code_allowed("own_nets:make", home, allowed=True):
        assert os.environ[CODE_VARIABLE] == str(home)
    assert CODE_VARIABLE not in os.environ
    with pytest.raises(ConfigError, match="runs only with --allow-code"):
        build_model("own_nets:make", 10, 0)


def test_permission_of_the_surroundings_does_not_stand_in_for_the_option(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CODE_VARIABLE, str(home))
    with (
        pytest.raises(ConfigError, match="repeat the command with it"),
        code_allowed("own_nets:make", home, allowed=False),
    ):
        pass
    with code_allowed("resnet8", home, allowed=False):
        assert CODE_VARIABLE not in os.environ
    assert os.environ[CODE_VARIABLE] == str(home)


def test_module_of_the_user_takes_the_place_of_none_that_is_installed(home: Path) -> None:
    (home / "colorsys.py").write_text("raise RuntimeError('the wrong one')\n")
    sys.modules.pop("colorsys", None)
    with code_allowed("colorsys:rgb_to_hsv", home, allowed=True):
        assert function_of("colorsys:rgb_to_hsv")(0, 0, 0) == (0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("own_nets:maek", "names no function of own_nets; did you mean 'make'?"),
        ("own_nets:table", "must be a function of the number of classes, got dict"),
        ("own_nets:no_network", "must return a torch.nn.Module, got int"),
        ("own_nets:without_argument", "when called with 10 classes; correct it"),
        ("own_nets:hungry", "on two images of 8x8 pixels; make it accept this size"),
        ("own_nets:pair", "for two images and 10 classes, got tuple;"),
        ("own_nets:with_dropout", "draws random numbers in training (Dropout)"),
        ("own_lost:make", "cannot be imported (ModuleNotFoundError: No module named 'own_lost')"),
        ("own_broken:make", "No module named 'no_such_library'); put own_broken beside"),
        ("own nets:make", "must be package.module:function; correct the name"),
        ("own_nets:make()", "must be package.module:function; correct the name"),
    ],
)
def test_what_is_no_network_is_told_in_one_sentence(model: str, sentence: str, home: Path) -> None:
    assert sentence in refusal(model, home)


def test_scores_of_another_shape_are_refused(home: Path) -> None:
    model = "own_nets:of_two"
    with code_allowed(model, home, allowed=True):
        made = function_of(model)(10)
        with pytest.raises(ConfigError, match=r"shape \(2, 10\) for two images .* got \(2, 2\)"):
            try_outputs(made, model, 10, (8, 8))


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            "own_nets:asleep",
            "must make a network of 10 classes within 0.2 s, and did not; correct it",
        ),
        ("own_nets:tired", "must give scores of two images of 8x8 pixels within 0.2 s, and did"),
    ],
)
def test_what_does_not_end_is_ended(
    model: str, sentence: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scotoma.training.models.LIMIT_S", 0.2)
    assert sentence in refusal(model, home)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_digest_is_that_of_the_file_and_needs_the_permission(home: Path) -> None:
    with code_allowed("own_nets:make", home, allowed=True):
        assert module_digest("own_nets:make") == hashlib.sha256(CODE.encode()).hexdigest()
        with pytest.raises(ConfigError, match="cannot be imported"):
            module_digest("own_lost.inner:make")
    with pytest.raises(ConfigError, match="--allow-code"):
        module_digest("own_nets:make")


def test_commands_run_no_code_without_the_option(home: Path) -> None:
    (home / "own_nets.py").write_text("open('was-run', 'w')\n")
    for options in ((), ("--plan",)):
        code, out, err = scotoma("audit", home / "audit.yaml", "--quiet", *options)
        assert (code, out) == (2, "")
        assert err == (
            "scotoma: source.model 'own_nets:make' is code, which runs only with --allow-code on "
            "this machine; repeat the command with it if you trust that code\n"
        )
    assert sorted(path.name for path in home.iterdir()) == [
        "audit.yaml",
        "own_broken.py",
        "own_nets.py",
    ]


def test_check_runs_the_network_with_the_option(home: Path) -> None:
    found = measured(
        "audit", "--plan", home / "audit.yaml", "--no-trial", "--allow-code", "--quiet"
    )
    assert found["network"]["weights"] == 4 * 27 + 40


def test_models_made_elsewhere_name_no_code() -> None:
    assert "model" not in OnnxSource.model_fields
    assert "model" not in PredictionsSource.model_fields


def test_member_is_trained_again_when_its_code_changes(home: Path) -> None:
    run, shard = Run.create(home / "run", config()), Shard.parse("0:0-0")
    prepare(run)
    record = run.member("dense", 0).with_suffix(".json")

    def trained() -> tuple[str, int]:
        with code_allowed("own_nets:make", home, allowed=True):
            train(run, shard)
        return read_json(record)["model_sha256"], record.stat().st_mtime_ns

    first = trained()
    assert trained() == first
    (home / "own_nets.py").write_text(CODE + "# another\n")
    assert trained()[0] != first[0]
    with pytest.raises(ConfigError, match="--allow-code"):
        train(run, shard)
