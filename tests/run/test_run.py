from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scotoma
from scotoma.config import Config, default_config, load_config, parse_config
from scotoma.errors import ConfigError
from scotoma.run import Run, code_digest, folder, portable, read_json, write_json
from scotoma.storage.credentials import masked
from scotoma.storage.files import file_digest, written

OTHER = "variants: [dense, {prune: [0.5]}]"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", default_config())


# --- files arrive whole ---------------------------------------------------------------------------


def test_a_file_appears_under_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "table.csv"
    with written(path) as temporary:
        temporary.write_text("half")
        assert not path.exists()
        made = temporary.stat()
    assert contents(path.parent) == {"table.csv": b"half"}
    # The same file under another name, not a copy of it that grows under the reader's eyes.
    assert (path.stat().st_dev, path.stat().st_ino) == (made.st_dev, made.st_ino)


def write_half(path: Path) -> None:
    with written(path) as temporary:
        temporary.write_text("half")
        raise KeyError


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write_half(tmp_path / "table.csv")
    assert contents(tmp_path) == {}


def test_a_writer_that_fails_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(KeyError):
        write_half(path)
    assert contents(tmp_path) == {"table.csv": b"old"}


def test_a_writer_that_writes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), written(tmp_path / "table.csv"):
        pass


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1, {"deep": -float("inf")}]])
def test_json_refuses_what_json_cannot_say_and_leaves_nothing(
    tmp_path: Path, value: object
) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", value)
    assert contents(tmp_path) == {}


def test_json_has_one_spelling(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": "é", "a": [1, None]})
    write_json(tmp_path / "b.json", {"a": [1, None], "b": "é"})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert (tmp_path / "a.json").read_text("utf-8").endswith("}\n")
    assert read_json(tmp_path / "b.json") == {"a": [1, None], "b": "é"}


def test_digest_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    assert file_digest(tmp_path / "a") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


def test_code_digest_covers_every_module_of_the_package() -> None:
    root = Path(scotoma.__file__).parent
    digest = hashlib.sha256()
    for name in sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py")):
        digest.update(name.encode() + b"\0" + (root / name).read_bytes())
    code_digest.cache_clear()
    assert len(code_digest()) == 64
    assert (root / "steps" / "__init__.py").exists()
    assert code_digest() == code_digest.__wrapped__()


# --- credentials ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://mlflow:s3cret@db:5432/mlflow", "postgresql://***@db:5432/mlflow"),
        ("https://token@host/path", "https://***@host/path"),
        ("https://:s3cret@host/path", "https://***@host/path"),
        ("https://host/path?token=s3cret&x=1", "https://host/path?***"),
        ("https://u:s3cret@host/path?sig=s3cret", "https://***@host/path?***"),
        ("mysql+pymysql://u:p%40s3cret@h/db", "mysql+pymysql://***@h/db"),
        ("https://me@example.org:s3cret@host/path", "https://***@host/path"),
        ("https://host:5000", "https://host:5000"),
        ("s3://bucket/folder", "s3://bucket/folder"),
        ("sqlite:////var/lib/mlflow.db", "sqlite:////var/lib/mlflow.db"),
        ("/data/what? me@home", "/data/what? me@home"),
        ("runs/mlflow", "runs/mlflow"),
        ("off", "off"),
    ],
)
def test_a_uri_is_shown_without_its_credentials(uri: str, shown: str) -> None:
    assert masked(uri) == shown
    assert masked(shown) == shown


# As SQLAlchemy reads a URL: no ":" or "/" in the user, anything in the password.
readable = st.characters(min_codepoint=33, max_codepoint=126)
users = st.text(readable, max_size=12).filter(lambda user: not set(user) & set(":/"))
noise = st.text(readable, max_size=12)


@given(user=users, before=noise, after=noise, rest=st.sampled_from(["", "/name", ":5432/name"]))
def test_no_password_survives(user: str, before: str, after: str, rest: str) -> None:
    shown = masked(f"postgresql://{user}:{before}s3cret{after}@db.example{rest}")
    assert shown.startswith("postgresql://")
    assert "s3cret" not in shown


@given(before=noise, after=noise, port=st.sampled_from(["", ":5000"]))
def test_no_token_in_a_query_survives(before: str, after: str, port: str) -> None:
    shown = masked(f"https://db.example{port}/name?key={before}s3cret{after}")
    assert shown.startswith("https://")
    assert "s3cret" not in shown


@given(password=st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1))
def test_all_but_the_credentials_is_shown(password: str) -> None:
    shown = masked(f"postgresql://mlflow:{password}@db.example:5432/name?key={password}")
    assert shown == "postgresql://***@db.example:5432/name?***"


def test_no_file_of_a_run_holds_a_password(tmp_path: Path) -> None:
    text = OTHER + "\ntracking: {uri: 'https://mlflow:s3cret@host:5000/?token=s3cret'}"
    run = Run.create(tmp_path / "run", parse_config(text, "audit.yaml"))
    assert all(b"s3cret" not in content for content in contents(run.root).values())
    assert Run.open(run.root).config.tracking.uri == "https://***@host:5000/?***"


def test_a_configuration_for_other_eyes_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "source: {kind: image_folder, images: faces, attributes: deep/table.csv, "
        "split: {column: part, train: /a/b, test: c}}\nlabel: {column: face}\n"
        f"variants: [dense, {{prune: [0.5]}}]\ntracking: {{uri: 'sqlite:///{tmp_path}/runs.db'}}"
    )
    run = Run.create(tmp_path / "run", load_config(tmp_path / "a.yaml"))
    written_down = run.path("config.yaml").read_text()
    assert f"images: {tmp_path}/faces" in written_down
    text = portable(written_down)
    assert str(tmp_path) not in text
    shown = parse_config(text, "shown.yaml")
    assert (shown.source.images, shown.source.attributes) == ("faces", "table.csv")
    assert shown.source.split.train == "/a/b"
    assert shown.tracking.uri == "sqlite:///runs.db"
    assert shown.digest() == run.config.digest()


def test_a_configuration_for_other_eyes_keeps_addresses() -> None:
    text = "source: {data: 's3://bucket/deep/data', images: /x}\ntracking: {uri: 'http://h/a/b'}"
    assert portable(text) == (
        "source:\n  data: s3://bucket/deep/data\n  images: x\ntracking:\n  uri: http://h/a/b\n"
    )


# --- the folder of a run --------------------------------------------------------------------------


def test_a_run_is_written_down_with_every_default_and_opened_again(run: Run) -> None:
    assert set(contents(run.root)) == {"config.yaml"}
    assert Run.open(run.root) == run
    assert "batch_size: 64" in (run.root / "config.yaml").read_text()


def test_a_run_may_go_into_a_folder_that_is_there_and_empty(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert Run.create(tmp_path / "run", default_config()).path("config.yaml").exists()


def test_a_run_is_taken_up_by_the_same_configuration_wherever_it_is_tracked(run: Run) -> None:
    (run.root / "examples.parquet").write_text("kept")
    tracking = run.config.tracking.model_copy(update={"uri": "off"})
    again = Run.create(run.root, run.config.model_copy(update={"tracking": tracking}))
    assert again.examples.read_text() == "kept"
    assert Run.open(run.root).config.tracking.uri == "off"


def refused(root: Path, config: Config) -> str:
    with pytest.raises(ConfigError) as caught:
        Run.create(root, config)
    return str(caught.value)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text("mine")
    assert refused(path, default_config()) == (
        f"output folder {path} is a file; choose another --out"
    )
    assert path.read_text() == "mine"


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    message = refused(tmp_path / "file" / "run", default_config())
    assert message.startswith(f"output folder {tmp_path / 'file' / 'run'} ")


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    assert refused(tmp_path, default_config()) == (
        f"output folder {tmp_path} holds other files and no config.yaml; choose another --out"
    )
    assert contents(tmp_path) == {"thesis.tex": b"mine"}


def test_a_folder_of_another_configuration_is_refused(run: Run) -> None:
    before = contents(run.root)
    population = run.config.population.model_copy(update={"models": 7})
    assert refused(run.root, run.config.model_copy(update={"population": population})) == (
        f"output folder {run.root} belongs to another configuration: population.models is "
        f"{run.config.population.models} there and 7 here; choose another --out, or remove it"
    )
    assert refused(run.root, parse_config(OTHER, "audit.yaml")) == (
        f"output folder {run.root} belongs to another configuration: variants is "
        '["dense", {"prune": [0.5, 0.9, 0.95], "masks": "shadow", "sc... there and ["dense", '
        '{"prune": [0.5], "masks": "shadow", "scope": "laye... here; choose another --out, or '
        "remove it"
    )
    assert contents(run.root) == before


def test_a_configuration_that_measures_other_things_waits_for_the_lock(run: Run) -> None:
    before = contents(run.root)
    other = Run.create(run.root, run.config.model_copy(update={"project": "renamed"}))
    assert contents(run.root) == before
    assert other.adopt_config() == f'project is "{run.config.project}" there and "renamed" here'
    assert load_config(run.path("config.yaml")) == other.config
    assert other.adopt_config() == ""


def test_a_folder_with_some_other_programs_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("theme: dark\n")
    assert str(tmp_path / "config.yaml") in refused(tmp_path, default_config())
    assert contents(tmp_path) == {"config.yaml": b"theme: dark\n"}


def test_a_relative_folder_stays_the_same_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Run.create(Path("run"), default_config())
    monkeypatch.chdir(os.sep)
    assert run.examples.parent == tmp_path / "run"


def test_members_are_named_by_variant_and_number(run: Run) -> None:
    dense, int8 = run.member("dense", 3), run.member("int8-static", 12)
    assert dense == run.root / "populations" / "dense" / "member-003.safetensors"
    assert int8 == run.root / "populations" / "int8-static" / "member-012.onnx"


def test_predictions_of_a_shard_do_not_stand_where_all_of_them_do(run: Run) -> None:
    paths = {run.predictions("dense"), run.predictions("dense", 0), run.predictions("dense", 10)}
    assert len(paths) == 3


# --- steps ----------------------------------------------------------------------------------------


def step(run: Run, content: str = "result", *, names: tuple[str, ...] = ("a", "b")) -> bool:
    """Run the step `make` if it is due, and say whether it was."""
    outputs = [run.path("out", name) for name in names]
    with run.step("make", outputs) as due:
        if due:
            for path in outputs:
                with written(path) as temporary:
                    temporary.write_text(content)
    return due


def test_a_finished_step_is_skipped(run: Run) -> None:
    assert step(run)
    record = read_json(run.path("steps", "make.json"))
    assert record["outputs"].keys() == {"out/a", "out/b"}
    assert record["time_s"] >= 0
    before = contents(run.root)
    assert not step(run)
    assert contents(run.root) == before


def test_a_step_is_redone_when_an_output_was_removed(run: Run) -> None:
    step(run)
    run.path("out", "b").unlink()
    assert step(run)
    assert not step(run)


def test_a_step_is_redone_when_an_output_was_changed(run: Run) -> None:
    step(run)
    run.path("out", "b").write_text("forged")
    assert step(run)
    assert run.path("out", "b").read_text() == "result"
    assert not step(run)


def test_a_step_is_redone_when_it_is_to_leave_other_files(run: Run) -> None:
    step(run)
    assert step(run, names=("a",))
    assert not step(run, names=("a",))
    assert step(run, names=("a", "b"))


def test_a_step_is_redone_when_the_configuration_changed(run: Run) -> None:
    step(run)
    assert step(Run(run.root, run.config.model_copy(update={"deterministic": True})))


def test_a_step_is_redone_when_the_code_changed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    step(run)
    monkeypatch.setattr(folder, "code_digest", lambda: "of other code")
    assert step(run)
    assert not step(run)


def test_a_step_is_not_redone_when_runs_are_tracked_elsewhere(run: Run) -> None:
    step(run)
    tracking = run.config.tracking.model_copy(update={"uri": "off"})
    assert not step(Run(run.root, run.config.model_copy(update={"tracking": tracking})))


def test_a_step_of_another_name_is_another_step(run: Run) -> None:
    step(run)
    with run.step("bake", [run.path("out", "a")]) as due:
        assert due


def fail_at_the_end(run: Run) -> None:
    with run.step("make", [run.path("out", "a")]):
        write_json(run.path("out", "a"), "whole, but its step never ended")
        raise KeyError


def test_a_step_that_failed_is_redone(run: Run) -> None:
    with pytest.raises(KeyError):
        fail_at_the_end(run)
    assert not run.path("steps", "make.json").exists()
    assert step(run, names=("a",))


def test_a_step_that_leaves_an_output_out_is_an_error_and_not_finished(run: Run) -> None:
    with (
        pytest.raises(RuntimeError, match=r"^step make ended without .*/out/b$"),
        run.step("make", [run.path("out", "a"), run.path("out", "b")]),
    ):
        write_json(run.path("out", "a"), 1)
    assert step(run)


def test_a_step_that_failed_while_redone_is_not_taken_for_finished(run: Run) -> None:
    step(run)
    run.path("out", "b").unlink()
    with pytest.raises(KeyError), run.step("make", [run.path("out", "a"), run.path("out", "b")]):
        raise KeyError
    assert step(run)


def test_the_record_of_a_step_names_no_folder_of_this_machine(run: Run) -> None:
    step(run)
    assert str(run.root) not in json.dumps(read_json(run.path("steps", "make.json")))
