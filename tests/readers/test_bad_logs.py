"""A bad log is refused in one sentence, and none of its content is shown."""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard

from scotoma.errors import ConfigError, DataError
from tests.readers.conftest import FILES, Read, Write, lm_eval_row

pytestmark = pytest.mark.slow

SECRET = "hf_" + "SeCrEt0123456789abcd"


def sentence(error: pytest.ExceptionInfo[BaseException]) -> str:
    """What a user is shown: one line, and no secret."""
    text = str(error.value)
    assert "\n" not in text
    assert SECRET not in text
    assert len(text) < 600
    return text


def test_a_log_that_was_cut_off(read: Read, write: Write) -> None:
    path = write([lm_eval_row(n, resps=[[SECRET]]) for n in range(3)])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError) as refused:
        read(path)
    assert sentence(refused) == (
        f"{path.name} must hold JSON, and line 3 does not (Unterminated string starting at): the "
        "file may have been cut off; copy it again, or remove that part"
    )


@pytest.mark.parametrize("line", ["[1]", "7", '"text"'])
def test_a_line_that_is_no_object(read: Read, write: Write, line: str) -> None:
    path = write([lm_eval_row(0)])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match=r"one JSON object a line, .* and line 2 is a"):
        read(path)


def test_a_row_of_something_else(read: Read, write: Write) -> None:
    path = write([lm_eval_row(0), {"doc_id": 1, "other": SECRET}])
    with pytest.raises(DataError, match="row 2 lacks doc_id, doc, target or filtered_resps"):
        read(path)


def test_objects_nested_without_end(read: Read, write: Write) -> None:
    path = write([lm_eval_row(0)])
    path.write_text(path.read_text() + '{"doc":' * 100_000 + "\n")
    with pytest.raises(DataError) as refused:
        read(path)
    assert "line 2 does not (it cannot be decoded)" in sentence(refused)


def test_numbers_without_end(read: Read, write: Write) -> None:
    path = write([lm_eval_row(0)])
    path.write_text(path.read_text().replace('"exact_match": 1.0', f'"exact_match": {"9" * 5000}'))
    with pytest.raises(DataError) as refused:
        read(path)
    assert "line 1 does not" in sentence(refused)


def test_examples_that_are_there_twice(read: Read, write: Write) -> None:
    rows = [lm_eval_row(n) for n in (0, 1, 2, 1, 2)]
    rows[3]["doc_id"] = rows[1]["doc_id"] = SECRET
    with pytest.raises(DataError) as refused:
        read(write(rows))
    assert "must hold each example once a rerun, and has '***' (and 1 more) twice" in sentence(
        refused
    )


def test_two_tasks_in_one_file(read: Read, write: Write) -> None:
    """Task B after task A in one file: their ids clash."""
    rows = [lm_eval_row(n) for n in range(3)]
    other = [lm_eval_row(n, doc={"text": "b"}, doc_hash=f"b-{n}") for n in range(3)]
    with pytest.raises(DataError, match=r"it may be two logs in one file: keep one of them$"):
        read(write(rows + other))


def test_a_score_of_the_wrong_type_is_never_a_wrong_answer(read: Read, write: Write) -> None:
    rows = [lm_eval_row(n, exact_match=v) for n, v in enumerate([1.0, 0.0, SECRET])]
    path = write(rows)
    (log,) = read(path).values()
    assert log.scores == ()
    assert "Score exact_match of task sums is text in 1 example," in log.notes[0] + log.notes[-1]


def packed(parts: Iterable[bytes], *, zstd: bool) -> tuple[bytes, int, int]:
    """Compress parts of a whole; with its checksum and size."""
    packer = zstandard.ZstdCompressor().compressobj() if zstd else zlib.compressobj(1, wbits=-15)
    content, crc, size = [], 0, 0
    for part in parts:
        content.append(packer.compress(part))
        crc, size = zlib.crc32(part, crc), size + len(part)
    return b"".join([*content, packer.flush()]), crc, size


def eval_file(path: Path, members: dict[str, Iterable[bytes]], *, zstd: bool) -> Path:
    """Write a zip as inspect_ai does: with Zstandard, which Python cannot write before 3.14."""
    kind, local, central = 93 if zstd else 8, b"", b""
    for name, parts in members.items():
        content, crc, size = packed(parts, zstd=zstd)
        facts = struct.pack("<HHHHLLLHH", 0, kind, 0, 33, crc, len(content), size, len(name), 0)
        place = struct.pack("<HHHLL", 0, 0, 0, 0, len(local))
        central += b"PK\1\2" + struct.pack("<HH", 20, 20) + facts + place + name.encode()
        local += b"PK\3\4" + struct.pack("<H", 20) + facts + name.encode() + content
    ends = struct.pack("<HHHHLLH", 0, 0, len(members), len(members), len(central), len(local), 0)
    path.write_bytes(local + central + b"PK\5\6" + ends)
    return path


def members(*sample: bytes) -> dict[str, Iterable[bytes]]:
    header = {"version": 2, "status": "success", "eval": {"model": "m", "task": "t"}}
    return {"header.json": [json.dumps(header).encode()], "samples/1_epoch_1.json": sample}


SAMPLE = {"id": 1, "epoch": 1, "input": "q", "target": "a", "scores": {"s": {"value": "C"}}}


@pytest.mark.parametrize("zstd", [True, False])
def test_both_compressions_of_inspect_are_read(read: Read, tmp_path: Path, zstd: bool) -> None:
    path = eval_file(tmp_path / "a.eval", members(json.dumps(SAMPLE).encode()), zstd=zstd)
    (log,) = read(path).values()
    assert log.examples["score.s"].to_list() == [1.0]


@pytest.mark.parametrize("zstd", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_zip_bomb_is_refused(read: Read, tmp_path: Path, zstd: bool) -> None:
    spaces = bytes([32]) * 2**24
    bomb = members(b'{"id": 1, "input": "', *[spaces] * 16)  # 256 MiB, and 20 bytes
    path = eval_file(tmp_path / "bomb.eval", bomb, zstd=zstd)
    assert path.stat().st_size < 2**23
    with pytest.raises(DataError) as refused:
        read(path)
    assert sentence(refused) == (
        "bomb.eval must hold files of at most 256 MiB, and 'samples/1_epoch_1.json' unpacks to "
        "more; leave it out"
    )


def test_an_eval_file_that_was_cut_off(read: Read, tmp_path: Path) -> None:
    (whole,) = (FILES / "inspect_ai" / "eval" / "bf16").glob("*bbq*")
    (tmp_path / "cut.eval").write_bytes(whole.read_bytes()[:-5_000])
    with pytest.raises(DataError, match=r"cut.eval must be a whole zip, .* or was cut off"):
        read(tmp_path / "cut.eval")
    content = bytearray(whole.read_bytes())
    content[len(content) // 3] ^= 1
    (tmp_path / "hurt.eval").write_bytes(content)
    with pytest.raises(DataError, match=r"hurt.eval must be a whole zip|hurt.eval must hold JSON"):
        read(tmp_path / "hurt.eval")


def test_a_zip_of_something_else(read: Read, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.eval", "w") as file:
        file.writestr("letter.txt", "hello")
    with pytest.raises(ConfigError, match=r"x.eval is no log of an evaluation"):
        read(tmp_path / "x.eval")


def test_an_evaluation_that_did_not_finish_says_so(read: Read, tmp_path: Path) -> None:
    parts = members(json.dumps(SAMPLE).encode())
    (header,) = parts.pop("header.json")
    parts["_journal/start.json"] = [header.replace(b'"status": "success", ', b"")]
    (log,) = read(eval_file(tmp_path / "a.eval", parts, zstd=False)).values()
    assert "did not finish (status 'started')" in log.notes[0]


@pytest.mark.parametrize("secret", [SECRET, "Zq9sd8f7of-no-known-form"])
@pytest.mark.parametrize(
    "arguments",
    [
        "pretrained=org/m,token={}",
        {"pretrained": "org/m", "api_key": "{}", "nested": {"headers": ["Bearer {}"]}},
        {"tokens": ["{}"], "password": 4711},
        "pretrained=https://anna:{}@host/m",
    ],
)
def test_secrets_in_arguments_of_a_model_are_masked(
    read: Read, write: Write, arguments: object, secret: str
) -> None:
    path = write([lm_eval_row(0)])
    results = {
        "model_name": "org/m?token={}",
        "config": {"model_args": arguments, "gen_kwargs": "auth={}"},
    }
    text = json.dumps(results).replace("{}", secret)
    path.with_name("results_2026-01-01T00-00-00.000000.json").write_text(text)
    (log,) = read(path).values()
    assert secret not in repr(log)
    assert "4711" not in repr(log)
    assert "***" in log.settings["gen_kwargs"]


def test_a_log_without_answers(read: Read, tmp_path: Path) -> None:
    parts = members()
    del parts["samples/1_epoch_1.json"]
    path = eval_file(tmp_path / "a.eval", parts, zstd=True)
    with pytest.raises(DataError, match=r"a\.eval holds no answer of a model; name the log of"):
        read(path)


def test_a_pipe_in_a_folder_is_refused(read: Read, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "samples_x.jsonl")
    with pytest.raises(DataError, match="must be a regular file, and is a FIFO"):
        read(tmp_path / "samples_x.jsonl")
