"""Object storage, against a service that answers over HTTP."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from botocore.paginate import Paginator

from scotoma.errors import ConfigError, DataError
from scotoma.storage import (
    download,
    exists,
    inspect,
    is_remote,
    join,
    list_files,
    places,
    read_bytes,
    split_uri,
    upload,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "local" / "member-000.safetensors"
    path.parent.mkdir()
    path.write_bytes(bytes(range(256)) * 40)
    return path


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def digest(uri: str) -> str | None:
    """What a place says of the content of a file."""
    stored = inspect(uri)
    return None if stored is None else stored.sha256


def refused(call: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        call(*arguments, **options)
    sentence = str(caught.value)
    assert "s3cret" not in sentence
    assert "\n" not in sentence
    return sentence


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["gs://bucket/x", "https://u:s3cret@host/x?key=s3cret", "S3://b/x"])
def test_another_scheme_is_refused_without_its_credentials(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"^\S+ has the scheme \w+://, which cannot") as caught:
        is_remote(uri)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("path", ["runs/a", "/data/s3:/x", "C:\\runs", "s3:/bucket/x", "a b://c"])
def test_whatever_has_no_scheme_is_a_path(path: str) -> None:
    assert not is_remote(path)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://", "'none'"),
        ("s3:///key", "'none'"),
        ("s3://b/key", "'b'"),
        ("s3://my bucket/key", "'my bucket'"),
        ("s3://AKIA:s3cret@bucket/key", "'***@bucket'"),
        ("s3://-bucket/key", "'-bucket'"),
    ],
)
def test_an_address_without_a_bucket_is_refused(uri: str, shown: str) -> None:
    sentence = refused(split_uri, uri)
    assert f"got {shown}; correct the address" in sentence


@pytest.mark.parametrize("base", ["s3://bucket/runs", "s3://bucket/runs/"])
def test_joining_never_doubles_a_slash(base: str) -> None:
    assert join(base, "a/", "/b.json") == "s3://bucket/runs/a/b.json"
    assert join("s3://bucket", "b.json") == "s3://bucket/b.json"


def test_importing_it_loads_no_boto3() -> None:
    code = "import sys, scotoma.storage; sys.exit('boto3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- there and back -------------------------------------------------------------------------------


def test_a_file_comes_back_as_it_went_with_its_checksum(s3: Any, file: Path) -> None:
    uri = s3.uri("runs", "small", file.name)
    assert digest(uri) is None
    assert not exists(uri)
    assert upload(file, uri).sha256 == sha256(file.read_bytes())
    head = s3.client.head_object(
        Bucket=s3.bucket, Key=f"runs/small/{file.name}", ChecksumMode="ENABLED"
    )
    assert head["Metadata"] == {"sha256": sha256(file.read_bytes())}
    assert "ChecksumSHA256" in head
    assert exists(uri)
    assert digest(uri) == sha256(file.read_bytes())
    assert read_bytes(uri) == file.read_bytes()
    back = file.parent / "deep" / "back"
    download(uri, back)
    assert back.read_bytes() == file.read_bytes()
    assert list(back.parent.iterdir()) == [back]


def test_a_file_of_many_parts_comes_back_as_it_went(s3: Any, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(bytes(range(251)) * 90_000)  # 22.6 MB: three parts of boto3's 8 MiB
    upload(big, s3.uri("big"))
    assert digest(s3.uri("big")) == sha256(big.read_bytes())
    download(s3.uri("big"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == big.read_bytes()


def test_a_store_that_knows_no_checksums_is_not_sent_any(
    s3: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    upload(file, s3.uri("plain"))
    head = s3.client.head_object(Bucket=s3.bucket, Key="plain", ChecksumMode="ENABLED")
    assert "ChecksumSHA256" not in head
    assert digest(s3.uri("plain")) == sha256(file.read_bytes())


def test_an_object_of_another_program_has_no_digest_and_is_read(s3: Any) -> None:
    uri = s3.put("theirs", b"abc")
    assert exists(uri)
    assert digest(uri) is None
    assert read_bytes(uri) == b"abc"


def test_a_checksum_of_the_service_is_a_digest_too(s3: Any) -> None:
    s3.client.put_object(Bucket=s3.bucket, Key="k", Body=b"abc", ChecksumAlgorithm="SHA256")
    assert digest(s3.uri("k")) == sha256(b"abc")


def test_local_places_do_the_same(tmp_path: Path, file: Path) -> None:
    copy = tmp_path / "copies" / "copy"
    assert digest(str(copy)) is None
    assert not exists(str(copy))
    assert upload(file, str(copy)).sha256 == digest(str(copy)) == sha256(file.read_bytes())
    assert read_bytes(str(copy)) == file.read_bytes()
    download(str(copy), tmp_path / "back")
    assert list_files(str(tmp_path)) == {
        "back": 10240,
        "copies/copy": 10240,
        "local/member-000.safetensors": 10240,
    }
    assert list_files(str(tmp_path / "none")) == {}
    assert not exists(str(tmp_path))
    assert refused(read_bytes, str(tmp_path / "none")).endswith("; correct the path")
    assert refused(download, str(tmp_path / "none"), tmp_path / "x").endswith("; correct the path")


# --- listings -------------------------------------------------------------------------------------


def test_a_listing_has_every_page_and_nothing_beside_the_prefix(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("data/b/2.parquet", "data/a.parquet", "data-old/c", "other", "data/empty/"):
        s3.put(key, b"x" * len(key))
    pages = []

    def one_by_one(self: Any, **options: Any) -> Any:
        for page in paginate(self, **options, PaginationConfig={"PageSize": 1}):
            pages.append(page)
            yield page

    paginate = Paginator.paginate
    monkeypatch.setattr(Paginator, "paginate", one_by_one)
    assert list_files(s3.uri("data")) == {"a.parquet": 14, "b/2.parquet": 16}
    assert list_files(s3.uri("data/")) == {"a.parquet": 14, "b/2.parquet": 16}
    assert len(pages) == 6
    assert list_files(s3.uri("nothing")) == {}
    assert "data-old/c" in list_files(s3.uri())


@pytest.mark.parametrize("key", ["data/../../x", "data//etc/passwd", "data/a/./b", "data/a//b"])
def test_a_name_that_leads_out_of_a_folder_is_refused(s3: Any, key: str) -> None:
    s3.put(key, b"x")
    assert "must have a name that is a path below" in refused(list_files, s3.uri("data"))


# --- faults ---------------------------------------------------------------------------------------


def every_call(uri: str, file: Path) -> list[str]:
    return [
        refused(list_files, uri),
        refused(exists, uri),
        refused(digest, uri),
        refused(read_bytes, uri),
        refused(download, uri, file.parent / "back"),
        refused(upload, file, uri),
    ]


def test_an_unreachable_endpoint_is_named(
    s3: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://u:s3cret@127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for sentence in every_call(s3.uri("k"), file):
        assert "at http://***@127.0.0.1:9 does not answer" in sentence
        assert sentence.endswith("check the network and AWS_ENDPOINT_URL")
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_an_endpoint_that_is_no_address_is_named(
    s3: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for endpoint, shown in (
        ("minio:9000", "minio:9000"),
        ("http://h/?s3cret", "http://h/?***"),
        ("http://[::1", "http://[::1"),
    ):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        for sentence in every_call(s3.uri("k"), file):
            assert f"must be an address such as http://host:9000, got '{shown}'" in sentence


def test_a_bucket_that_does_not_exist_is_named(s3: Any, file: Path) -> None:
    for sentence in every_call("s3://no-such-bucket-here/k", file):
        assert "the bucket 'no-such-bucket-here' does not exist; correct its name" in sentence


def test_missing_credentials_are_said_to_be_missing(
    s3: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    for sentence in every_call(s3.uri("k"), file):
        assert "there are no credentials, or half of them; set AWS_ACCESS_KEY_ID" in sentence


@pytest.fixture
def checked(s3: Any) -> Any:
    """The service, now checking who asks, and what they may, as AWS does."""

    def allow(actions: str) -> None:
        request = urllib.request.Request(
            f"{s3.endpoint}/moto-api/reset-auth",
            data=actions.encode(),
            headers={"Content-Type": "text/plain"},
        )
        urllib.request.urlopen(request).close()

    allow("0")
    yield s3
    allow("inf")


def test_wrong_credentials_are_said_to_be_wrong(checked: Any, file: Path) -> None:
    for sentence in every_call(checked.uri("k"), file):
        assert "rejects these credentials (InvalidAccessKeyId)" in sentence


def test_an_object_that_is_not_there_is_named(s3: Any, tmp_path: Path) -> None:
    for sentence in (
        refused(read_bytes, s3.uri("none")),
        refused(download, s3.uri("none"), tmp_path / "back"),
    ):
        assert sentence == (
            f"{s3.uri('none')} cannot be read: no such object; correct the address or put it there"
        )
    assert not list(tmp_path.iterdir())


def test_an_object_that_vanished_after_the_listing_is_said_to_have(s3: Any, tmp_path: Path) -> None:
    s3.put("data/a", b"x")
    (name,) = list_files(s3.uri("data"))
    s3.client.delete_object(Bucket=s3.bucket, Key="data/a")
    sentence = refused(download, s3.uri("data", name), tmp_path / "back", listed=True)
    assert sentence == (
        f"{s3.uri('data/a')} vanished after it was listed; leave the objects in place while they "
        "are read, and repeat the command"
    )


def test_a_checksum_that_does_not_fit_is_refused_and_nothing_is_left(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "ATTEMPTS", 2)
    s3.client.put_object(Bucket=s3.bucket, Key="k", Body=b"abc", Metadata={"sha256": "0" * 64})
    sentence = refused(download, s3.uri("k"), tmp_path / "back")
    assert sentence == (
        f"{s3.uri('k')} must have its recorded SHA-256, {'0' * 64}, got {sha256(b'abc')}; upload "
        "it again"
    )
    assert not list(tmp_path.iterdir())


class Sick(BaseHTTPRequestHandler):
    """A service that answers every request in one unfortunate way."""

    answer: ClassVar[tuple[int, str, bytes, int]] = (200, "", b"", 0)
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        status, code, body, promised = self.answer
        self.asked.append(self.path)
        content = f"<Error><Code>{code}</Code></Error>".encode() if code else body
        self.send_response(status)
        self.send_header("Content-Length", str(promised or len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def sick(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Sick]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Sick) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(places.time, "sleep", lambda seconds: None)
        Sick.asked.clear()
        yield Sick
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "AccessDenied", "access is denied to these credentials (AccessDenied); ask for s3:L"),
        (403, "SignatureDoesNotMatch", "rejects these credentials (SignatureDoesNotMatch)"),
        (400, "ExpiredToken", "rejects these credentials (ExpiredToken); correct AWS_ACC"),
        (404, "NoSuchBucket", "the bucket 'bucket' does not exist; correct its name"),
        (400, "AuthorizationHeaderMalformed", "its bucket is in another region; set AWS_REGION"),
        (503, "SlowDown", "the service answers SlowDown (HTTP 503); repeat the command, or ask"),
        (500, "In\x1bt<b>ernalError", "the service answers"),
    ],
)
def test_what_a_service_refuses_is_one_sentence(
    sick: type[Sick], status: int, code: str, said: str
) -> None:
    sick.answer = (status, code, b"", 0)
    for sentence in (
        refused(read_bytes, "s3://bucket/k"),
        refused(list_files, "s3://bucket/k"),
    ):
        assert sentence.startswith("s3://bucket/k cannot be read: ")
        assert said in sentence
        assert "\x1b" not in sentence


def test_a_request_that_fails_for_a_while_is_repeated_a_few_times(sick: type[Sick]) -> None:
    sick.answer = (503, "SlowDown", b"", 0)
    refused(list_files, "s3://bucket/k")
    assert len(sick.asked) == 2  # as the fixture's AWS_MAX_ATTEMPTS says


@pytest.mark.parametrize(
    ("variables", "attempts"),
    [
        ({}, 4),
        ({"SCOTOMA_STORAGE_ATTEMPTS": "3"}, 3),
        ({"SCOTOMA_STORAGE_ATTEMPTS": "3", "AWS_MAX_ATTEMPTS": "5"}, 5),
        ({"SCOTOMA_STORAGE_ATTEMPTS": "3", "AWS_RETRY_MODE": "adaptive"}, 3),
        ({"SCOTOMA_STORAGE_ATTEMPTS": "many"}, 4),
    ],
)
def test_a_step_on_a_cluster_tries_as_often_as_its_own_variable_says(
    sick: type[Sick], variables: dict[str, str], attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_MAX_ATTEMPTS")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    sick.answer = (503, "SlowDown", b"", 0)
    refused(list_files, "s3://bucket/k")
    assert len(sick.asked) == attempts


def test_a_body_that_breaks_off_is_read_again_and_then_refused(
    sick: type[Sick], tmp_path: Path
) -> None:
    sick.answer = (200, "", b"half of it", 20)
    sentence = refused(download, "s3://bucket/k", tmp_path / "back")
    assert sentence == (
        "s3://bucket/k cannot be read: its content broke off in 4 attempts; repeat the command"
    )
    assert len(sick.asked) == 4
    assert not list(tmp_path.iterdir())


def test_a_body_that_broke_off_once_is_read_whole(
    sick: type[Sick], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick.answer = (200, "", b"half", 8)

    def recover(seconds: float) -> None:
        sick.answer = (200, "", b"half and half", 0)

    monkeypatch.setattr(places.time, "sleep", recover)
    download("s3://bucket/k", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"half and half"
