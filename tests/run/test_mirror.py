"""A run in object storage: what is sent, what is fetched, what is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from scotoma import storage
from scotoma.config import Config, default_config, parse_config
from scotoma.errors import ConfigError, DataError
from scotoma.run import Run, read_json, write_json
from scotoma.run.mirror import ETAGS, Mirror, cache_folder
from scotoma.steps.runner import execute
from scotoma.steps.table import STEPS, Step
from scotoma.storage.files import file_digest, written
from scotoma.tracking.store import tracking_uri

pytestmark = pytest.mark.slow

OTHER = "variants: [dense, {prune: [0.3]}]"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of this machine; what is removed from it, another machine never had."""
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def config() -> Config:
    return default_config()


@pytest.fixture
def run(s3: Any, cache: Path, config: Config) -> Run:
    return Run.create(s3.uri("runs", "first"), config)


@pytest.fixture
def transfers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every upload and download from now on, as `up NAME` and `down NAME`."""
    seen: list[str] = []
    upload, download = storage.upload, storage.download

    def uploading(path: Path, uri: str) -> str:
        seen.append(f"up {Path(uri).name}")
        return upload(path, uri)

    def downloading(uri: str, path: Path, **options: bool) -> None:
        seen.append(f"down {path.name}")
        download(uri, path, **options)

    monkeypatch.setattr(storage, "upload", uploading)
    monkeypatch.setattr(storage, "download", downloading)
    return seen


def contents(folder: Path) -> set[str]:
    """Files of the local copy, but for what it remembers of object storage."""
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    return files - {ETAGS}


# --- the local copy -------------------------------------------------------------------------------


def test_the_cache_lies_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("SCOTOMA_CACHE", "XDG_CACHE_HOME", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = [cache_folder("s3://bucket/a")]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    found.append(cache_folder("s3://bucket/a"))
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "mine"))
    found.append(cache_folder("s3://bucket/a"))
    homes = ["home/.cache/scotoma", "xdg/scotoma", "mine"]
    assert [path.parents[1] for path in found] == [tmp_path / home for home in homes]
    assert len({path.name for path in found}) == 1


def test_another_place_or_service_has_another_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://one:9000")
    places = ["s3://bucket/a", "s3://bucket/a/b", "s3://bucket", "s3://other/a"]
    found = {cache_folder(place) for place in places}
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://two:9000")
    found.add(cache_folder("s3://bucket/a"))
    assert len(found) == 5


def test_what_is_there_and_the_same_is_neither_sent_nor_fetched(
    run: Run, transfers: list[str]
) -> None:
    path = run.path("a.json")
    write_json(path, 1)
    run.publish(path)
    run.publish(path)
    run.fetch(path)
    assert transfers == ["up a.json"]
    path.unlink()
    run.fetch(path)
    path.write_text("forged")
    run.fetch(path)
    assert transfers == ["up a.json", "down a.json", "down a.json"]
    assert read_json(path) == 1


def test_what_is_in_neither_place_stays_absent(run: Run) -> None:
    run.fetch(run.path("nowhere"))
    run.publish(run.path("nowhere"))
    assert run.mirror.digests([run.path("nowhere")]) == {run.path("nowhere"): None}
    assert not run.path("nowhere").exists()


def test_a_whole_folder_is_fetched(s3: Any, run: Run) -> None:
    for name in ("shards/000/a", "shards/001/b", "shard"):
        s3.put(f"runs/first/{name}", name.encode())
    run.mirror.fetch_folder("shards")
    assert contents(run.root) == {"config.yaml", "shards/000/a", "shards/001/b"}


def test_an_object_without_a_checksum_is_read_to_know_it(s3: Any, run: Run) -> None:
    s3.put("runs/first/a", b"abc")
    # FIPS 180-2, appendix B.1
    assert run.mirror.digests([run.path("a")]) == {
        run.path("a"): "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    }


def test_a_folder_that_stands_for_itself_asks_no_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "inspect", lambda uri: pytest.fail(uri))
    mirror = Mirror(tmp_path)
    (tmp_path / "a").write_text("x")
    mirror.publish([tmp_path / "a"])
    mirror.fetch([tmp_path / "a", tmp_path / "b"])
    mirror.fetch_folder("b")
    assert mirror.digests([tmp_path / "b"]) == {tmp_path / "b": None}


def test_a_digest_is_known_by_the_etag_until_the_object_changes(s3: Any, run: Run) -> None:
    path = run.path("a")
    path.write_text("abc")
    run.publish(path)
    with (run.root / ETAGS).open("a") as file:
        file.write('["a", "cut')  # by a kill
    known = run.mirror.digests([path, run.path("config.yaml")])[path]
    assert known == storage.inspect(run.mirror.place(path)).sha256 == file_digest(path)
    s3.put("runs/first/a", b"other")
    with run.mirror.listed():
        assert run.mirror.digests([path])[path] == hashlib.sha256(b"other").hexdigest()
        run.mirror.remove(path)
        assert not run.mirror.exists(path)
    assert "runs/first/a" not in s3.names()


# --- making and opening a run ---------------------------------------------------------------------


def test_a_run_is_opened_on_a_machine_that_has_never_seen_it(run: Run, cache: Path) -> None:
    shutil.rmtree(cache)
    found = Run.open(run.uri)
    assert (found.config, found.uri, found.root) == (run.config, run.uri, run.root)
    assert found.place == run.uri


def test_a_run_is_taken_up_on_a_machine_that_has_never_seen_it(
    s3: Any, run: Run, cache: Path, config: Config
) -> None:
    shutil.rmtree(cache)
    assert Run.create(run.uri, config) == run
    assert s3.names() == ["runs/first/config.yaml"]


def test_a_place_without_a_run_is_refused(s3: Any, cache: Path) -> None:
    with pytest.raises(DataError) as caught:
        Run.open(s3.uri("none"))
    assert str(caught.value) == (
        f"{s3.uri('none')} must hold a run, got no config.yaml; correct the address"
    )
    assert not cache.exists()


def test_a_place_of_another_configuration_is_refused(s3: Any, run: Run, cache: Path) -> None:
    shutil.rmtree(cache)
    with pytest.raises(ConfigError) as caught:
        Run.create(run.uri, parse_config(OTHER, "other.yaml"))
    assert str(caught.value).startswith(
        f"output folder {run.uri} belongs to another configuration: variants is "
    )
    assert not cache.exists()


def test_a_place_with_other_objects_in_it_is_refused(s3: Any, cache: Path, config: Config) -> None:
    s3.put("thesis/chapter.tex", b"mine")
    with pytest.raises(ConfigError) as caught:
        Run.create(s3.uri("thesis"), config)
    assert str(caught.value) == (
        f"output folder {s3.uri('thesis')} holds other objects and no config.yaml; choose another "
        "--out"
    )
    assert not cache.exists()
    assert s3.names() == ["thesis/chapter.tex"]


def test_a_copy_whose_run_was_removed_from_the_storage_is_no_obstacle(
    s3: Any, run: Run, config: Config
) -> None:
    run.path("examples.parquet").write_text("of the run that was removed")
    s3.client.delete_object(Bucket=s3.bucket, Key="runs/first/config.yaml")
    again = Run.create(run.uri, parse_config(OTHER, "other.yaml"))
    assert contents(again.root) == {"config.yaml"}


def test_a_cache_that_cannot_be_written_is_named(
    s3: Any, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        ConfigError, match=r"cannot be written: .*; set SCOTOMA_CACHE to a writable"
    ):
        Run.create(s3.uri("run"), config)


def test_a_component_whose_cache_cannot_be_written_says_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SCOTOMA_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        ConfigError, match=r"cannot be written: .*; set SCOTOMA_CACHE to a writable"
    ):
        Run.open(run.uri)


def test_storage_that_is_lost_on_the_way_is_what_the_command_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "inspect", lambda uri: (_ for _ in ()).throw(DataError("lost")))
    with pytest.raises(DataError, match=r"^lost$"):
        execute("prepare", run.uri, str(tmp_path / "pointer"))
    assert read_json(run.path("error.json")) == {"message": "lost", "exit_code": 4}


@pytest.mark.parametrize("uri", ["s3://no-such-bucket-here/x", "s3://u:s3cret@bucket/x"])
def test_a_bad_bucket_is_refused_and_leaves_nothing(
    s3: Any, cache: Path, config: Config, uri: str
) -> None:
    with pytest.raises(DataError) as caught:
        Run.create(uri, config)
    assert "s3cret" not in str(caught.value)
    assert not cache.exists()


# --- steps ----------------------------------------------------------------------------------------


def make(run: Run, content: str = "result") -> bool:
    """Run a step that reads one file and leaves another, and say whether it was due."""
    output = run.path("out", "b")
    with run.step("make", [output], [run.path("a")]) as due:
        if due:
            assert run.path("a").exists()
            with written(output) as temporary:
                temporary.write_text(content)
    return due


@pytest.fixture
def made(run: Run) -> Run:
    """A run whose step `make` has been done."""
    write_json(run.path("a"), 1)
    run.publish(run.path("a"))
    assert make(run)
    return run


def test_a_finished_step_is_in_the_storage_with_its_record(s3: Any, made: Run) -> None:
    names = ["a", "config.yaml", "out/b", "steps/make.json"]
    assert s3.names() == [f"runs/first/{name}" for name in names]


def test_a_fresh_machine_skips_a_finished_step_and_fetches_none_of_its_files(
    made: Run, cache: Path
) -> None:
    shutil.rmtree(cache)
    assert not make(Run.open(made.uri))
    assert contents(made.root) == {"config.yaml", "steps/make.json"}


def test_a_fresh_machine_redoes_a_step_whose_output_is_gone(
    s3: Any, made: Run, cache: Path
) -> None:
    shutil.rmtree(cache)
    s3.client.delete_object(Bucket=s3.bucket, Key="runs/first/out/b")
    assert make(Run.open(made.uri))
    assert "runs/first/out/b" in s3.names()


def test_a_step_is_redone_when_an_object_it_reads_was_changed_elsewhere(s3: Any, made: Run) -> None:
    s3.put("runs/first/a", b"2\n")
    assert make(made, "other")
    assert made.path("a").read_text() == "2\n"
    assert s3.client.get_object(Bucket=s3.bucket, Key="runs/first/out/b")["Body"].read() == b"other"


def test_a_copy_that_was_damaged_never_replaces_the_object(s3: Any, made: Run) -> None:
    made.path("out", "b").write_text("damaged")
    assert not make(made)
    assert (
        s3.client.get_object(Bucket=s3.bucket, Key="runs/first/out/b")["Body"].read() == b"result"
    )


def test_what_was_finished_and_not_sent_is_sent_without_being_redone(s3: Any, made: Run) -> None:
    for name in ("a", "out/b", "steps/make.json"):
        s3.client.delete_object(Bucket=s3.bucket, Key=f"runs/first/{name}")
    assert not make(made)
    assert s3.names() == [
        f"runs/first/{name}" for name in ("config.yaml", "out/b", "steps/make.json")
    ]


def test_an_input_that_the_storage_does_not_show_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = rf"^{run.uri}/a, the output of an earlier step, is missing; repeat the"
    with pytest.raises(DataError, match=sentence):
        make(run)
    write_json(run.path("a"), 1)
    run.publish(run.path("a"))
    run.path("a").unlink()
    monkeypatch.setattr(Mirror, "fetch", lambda *_: None)  # shown, and then no longer
    with pytest.raises(DataError, match=sentence):
        make(run)
    assert not run.path("steps", "make.json").exists()


def fail_half_way(run: Run) -> None:
    with run.step("fail", [run.path("out", "c")]), written(run.path("out", "c")) as temporary:
        temporary.write_text("half")
        raise KeyError


def test_nothing_half_written_is_ever_sent(s3: Any, run: Run) -> None:
    with pytest.raises(KeyError):
        fail_half_way(run)
    assert s3.names() == ["runs/first/config.yaml"]


def test_a_forgotten_step_is_done_again_on_every_machine(made: Run, cache: Path) -> None:
    made.forget("make")
    shutil.rmtree(cache)
    assert make(Run.open(made.uri))


def test_storage_that_stops_taking_files_ends_the_step(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(run.path("a"), 1)
    run.publish(run.path("a"))
    monkeypatch.setattr(storage, "upload", lambda *_: (_ for _ in ()).throw(DataError("denied")))
    with pytest.raises(DataError, match=r"^denied$"):
        make(run)


# --- components -----------------------------------------------------------------------------------


def test_components_on_different_machines_hand_over_through_the_storage(
    run: Run, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def first(run: Run) -> list[Path]:
        with run.step("first", [run.path("a")]) as due:
            if due:
                write_json(run.path("a"), 1)
        return [run.path("a")]

    def second(run: Run) -> list[Path]:
        with run.step("second", [run.path("b")], [run.path("a")]) as due:
            if due:
                seen.append(read_json(run.path("a")))
                write_json(run.path("b"), 2)
        return [run.path("b")]

    for name, function in (("first", first), ("second", second)):
        monkeypatch.setitem(STEPS, name, Step(name, "", "", module="scotoma.steps.prepare"))
        monkeypatch.setattr(f"scotoma.steps.prepare.{name}", function, raising=False)
    execute("first", run.uri, str(tmp_path / "one"))
    shutil.rmtree(cache)
    execute("second", run.uri, str(tmp_path / "two"), after=[str(tmp_path / "one")])
    assert seen == [1]
    shutil.rmtree(cache)
    execute("second", run.uri, str(tmp_path / "two"), after=[str(tmp_path / "one")])
    assert seen == [1]
    pointer = read_json(tmp_path / "two")
    assert pointer["run_uri"] == run.uri
    assert pointer["files"] == {"b": storage.inspect(f"{run.uri}/b").sha256}
    storage.remove(f"{run.uri}/a")
    shutil.rmtree(cache)
    with pytest.raises(DataError, match=rf"^{run.uri}/a is missing or was changed since"):
        execute("second", run.uri, str(tmp_path / "two"), after=[str(tmp_path / "one")])


def test_a_trained_member_is_sent_by_the_worker_that_trained_it(
    s3: Any, cache: Path, tmp_path: Path
) -> None:
    from scotoma.steps.prepare import prepare
    from scotoma.training.population import train_populations

    text = "source: {kind: digits-s, recipe: {steps: 3, batch_size: 2, prune_every: 0.3}}\n"
    text += f"label: {{column: digit}}\npopulation: {{models: 1}}\n{OTHER}\ndeterministic: true"
    run = Run.create(s3.uri("run"), parse_config(text, "tiny.yaml"))
    prepare(run)
    (weights,) = train_populations(run, ["dense"], range(1))  # and no step that would send it
    assert {"run/populations/dense/member-000.json"} < set(s3.names())
    assert (
        storage.inspect(run.mirror.place(weights)).sha256
        == json.loads(storage.read_bytes(run.mirror.place(weights.with_suffix(".json"))))["sha256"]
    )


# --- tracking -------------------------------------------------------------------------------------


def test_without_a_server_a_run_in_object_storage_is_not_tracked(run: Run) -> None:
    assert tracking_uri(run, {}) == ""
    assert tracking_uri(run, {"MLFLOW_TRACKING_URI": "http://host"}) == "http://host"
    assert tracking_uri(run, {"SCOTOMA_TRACKING_URI": "off"}) is None
