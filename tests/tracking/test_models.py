"""Models out of the registry of a real server: versions, aliases that move, files, refusals."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from scotoma.config import Config, Kubeflow, parse_config
from scotoma.config.newest import Newest
from scotoma.errors import ConfigError, DataError, ScotomaError
from scotoma.pipelines.placing import check_for_kubeflow
from scotoma.run import Run, portable, read_json, shareable
from scotoma.run.shards import shards
from scotoma.steps.external_models import fetch_models, models_here
from scotoma.steps.import_models import import_models
from scotoma.steps.inputs import resolved
from scotoma.steps.prepare import prepare
from tests.helpers.commands import scotoma
from tests.steps.test_taking_in import CONFIG, home, model

__all__ = ["home"]  # a fixture, used by its name

VARIANTS = ("dense", "int8", "distilled")


def config(uri: str, models: str = "models:/faces@champion", images: str = "images") -> Config:
    text = CONFIG.replace("models: models", f'models: "{models}"').replace('"off"', f'"{uri}"')
    return parse_config(text.replace("images: images", f"images: {images}"), "monthly.yaml")


def source(config: Config) -> Any:
    return config.source


@pytest.fixture(scope="module")
def registry(mlflow: Any, server: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Versions 1 and 2 of `faces`, whose champion is 1, and one of `bare` without folders."""
    client = mlflow.MlflowClient(tracking_uri=server, registry_uri=server)
    made = client.create_run(client.create_experiment("training")).info
    for name in ("faces", "bare"):
        client.create_registered_model(name)
    kept = {}
    for version in (1, 2):
        here = kept[version] = tmp_path_factory.mktemp("version")
        for variant in VARIANTS:
            (here / variant).mkdir()
            for member in range(3 if version == 1 else 1):
                onnx.save_model(model(member, 0.1 * version), here / variant / f"m{member}.onnx")
        client.log_artifacts(made.run_id, str(here), f"models/{version}")
        client.create_model_version("faces", f"{made.artifact_uri}/models/{version}", made.run_id)
    client.create_model_version("bare", f"{made.artifact_uri}/models", made.run_id)
    client.set_registered_model_alias("faces", "champion", "1")
    return SimpleNamespace(client=client, uri=server, folders=kept)


@pytest.fixture(autouse=True)
def named_by_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCOTOMA_TRACKING_URI", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_what_an_alias_stood_for_when_a_run_began_stays(registry: Any, tmp_path: Path) -> None:
    asked = config(registry.uri)
    found, newest = resolved(asked, str(tmp_path / "first"))
    assert source(found).models == "models:/faces/1"
    assert newest == Newest("", "models:/faces@champion", "models:/faces/1")
    run = Run.create(tmp_path / "first", found)
    run.leave_newest(newest)
    assert run.newest == "faces version 1"
    registry.client.set_registered_model_alias("faces", "champion", "2")
    try:
        assert resolved(asked, run.place) == (found, newest)
        assert str(resolved(asked, str(tmp_path / "second"))[1]) == "faces version 2"
        run.path("newest.json").write_text("[]")
        assert source(resolved(asked, run.place)[0]).models == "models:/faces/2"
    finally:
        registry.client.set_registered_model_alias("faces", "champion", "1")
    other = config(registry.uri, "models:/faces/2")
    assert resolved(other, run.place) == (other, None)


def test_a_name_that_stood_in_paths_stays_as_well(registry: Any, tmp_path: Path) -> None:
    for month in ("2026-11", "2026-12"):
        (tmp_path / "data" / month).mkdir(parents=True)
    (tmp_path / "data" / "2026-11" / "a.png").touch()  # an empty folder is none
    asked = config(registry.uri, images=f'"{tmp_path}/data/{{newest}}"')
    found, newest = resolved(asked, str(tmp_path / "run"))
    assert str(newest) == "2026-11, faces version 1"
    Run.create(tmp_path / "run", found).leave_newest(newest)
    (tmp_path / "data" / "2026-12" / "a.png").touch()
    assert resolved(asked, str(tmp_path / "run")) == (found, newest)
    assert str(resolved(asked, "")[1]).startswith("2026-12,")


def test_files_come_as_they_were_registered_and_once(
    registry: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = registry.uri.replace("://", "://me:s3cret@")
    run = Run.create(tmp_path / "run", config(secret, "models:/faces/2"))
    files = fetch_models(run)
    assert not any(b"s3cret" in content for content in contents(run.root).values())
    assert contents(run.path("models")) == contents(registry.folders[2])
    assert read_json(files[-1])["models"] == "models:/faces/2"
    files[0].write_bytes(b"damaged")
    (run.path("models", "dense", "left-over.onnx")).write_bytes(b"x")
    fetch_models(run)
    assert contents(run.path("models")) == contents(registry.folders[2])
    monkeypatch.setenv("SCOTOMA_TRACKING_URI", "http://127.0.0.1:9")
    assert fetch_models(run) == files  # nobody is asked


def test_a_run_in_object_storage_has_them_for_every_machine(
    registry: Any, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "one"))
    fetch_models(Run.create(s3.uri("run"), config(registry.uri, "models:/faces/1")))
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "other"))
    here = Path(source(models_here(Run.open(s3.uri("run")))).models)
    assert here.is_relative_to(tmp_path / "other")
    assert contents(here) == contents(registry.folders[1])


def test_they_are_audited(registry: Any, home: Path, tmp_path: Path) -> None:
    text = config(registry.uri, "models:/faces/1").model_dump()
    text["source"] |= {key: str(home / text["source"][key]) for key in ("images", "attributes")}
    run = Run.create(tmp_path / "run", Config.model_validate(text))
    assert run.path("models", "int8", "m1.onnx") in prepare(run)
    (shard,) = shards(3, 1)
    import_models(run, shard)
    members = read_json(run.member("int8", 1).with_suffix(".json"))
    assert members["taken_from"] == "m1.onnx"
    taken = onnx.load_model(run.member("int8", 1))
    assert taken.graph == model(1, 0.1).graph


def test_check_says_which_version_and_leaves_nothing(
    registry: Any, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "registered.yaml"
    text = CONFIG.replace("models: models", 'models: "models:/faces@champion"')
    path.write_text(text.replace('"off"', f'"{registry.uri}"'))
    before = contents(home)
    asked = ("--plan", "--assumed-error", "0.05", "--no-trial", "--quiet")
    assert "\nnewest: faces version 1\n" in scotoma("audit", path, *asked)[1]
    assert contents(home) == before
    path.unlink()


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        ("models:/nobody@champion", "got models:/nobody@champion; correct it, or tracking.uri"),
        ("models:/faces@latest", "must name an alias of the model, which has champion; correct it"),
        ("models:/bare@latest", "which has none; correct it, or set it in MLflow"),
        ("models:/faces/3", "got models:/faces/3; correct it, or tracking.uri"),
        ("models:/bare/1", "must have a folder 'dense' of .onnx files among its artifacts, got t"),
    ],
)
def test_what_the_registry_has_not_is_one_sentence(
    registry: Any, models: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as refused:
        fetch_models(Run.create(tmp_path / "run", resolved(config(registry.uri, models), "")[0]))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run" / "models").exists()


@pytest.mark.parametrize(
    ("uri", "kind", "sentence"),
    [
        ("http://me:s3cret@127.0.0.1:9", DataError, "http://***@127.0.0.1:9 does not answer"),
        ("sqlite:////nowhere/mlflow.db", DataError, "registry at sqlite:////nowhere/mlflow.db, go"),
        ("off", ConfigError, "is asked of MLflow, which is off or not named; name the server in"),
    ],
)
def test_a_registry_that_cannot_be_asked_is_one_sentence(
    mlflow: Any, uri: str, kind: type[ScotomaError], sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(kind) as refused:
        resolved(config(uri), "")
    assert sentence in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "models",
    ["models:/faces", "models:/a/b/1", "models:/faces/0", "models://x", "models:/f@{newest}"],
)
def test_an_address_that_is_none_is_refused_when_it_is_read(models: str) -> None:
    with pytest.raises(ConfigError, match="must be a folder, models:/NAME@ALIAS or models:/NAME/V"):
        config("off", models)


def test_an_address_is_no_path(tmp_path: Path) -> None:
    found = config("off", "models:/our faces@champion", images="s3://bucket/images")
    run = Run.create(tmp_path / "run", found)
    assert source(Run.open(run.root).config).models == "models:/our faces@champion"
    assert "models:/our faces@champion" in portable(shareable(found))
    table = {"attributes": "s3://bucket/table.csv"}
    distant = found.model_copy(update={"source": found.source.model_copy(update=table)})
    check_for_kubeflow(distant, Kubeflow())
