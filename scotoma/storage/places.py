"""Places and what is done with them: list, read, download, upload."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple, TypeVar

from scotoma.errors import ConfigError, DataError
from scotoma.storage.client import (
    ATTEMPTS,
    LOG,
    of_content,
    s3_client,
    s3_exceptions,
    storage_sentences,
)
from scotoma.storage.credentials import masked
from scotoma.storage.files import file_digest, open_regular, permitted, written

CHUNK = 1 << 20  # bytes read at a time
IN_PARTS = 8 << 20  # bytes from which on an object is sent in parts side by side
SHA256 = "sha256"  # our key in an object's metadata
_T = TypeVar("_T")


def is_remote(uri: str) -> bool:
    """Whether a place is in object storage and not a path of this machine.

    Raises:
        ConfigError: It has a scheme that cannot be read, or a character that no path has.

    >>> is_remote("s3://bucket/runs"), is_remote("runs/small")
    (True, False)
    """
    if "\0" in uri:
        raise ConfigError(
            f"a place must be a path or a URI without NUL, got {uri[:200]!r}; correct it"
        )
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", uri)
    if scheme is None:
        return False
    if scheme[1] != "s3":
        raise ConfigError(
            f"{masked(uri)} has the scheme {scheme[1]}://, which cannot be read; name a path of "
            "this machine or s3://BUCKET/PREFIX"
        )
    return True


def split_uri(uri: str) -> tuple[str, str]:
    """Bucket and key of an `s3://` URI; the key may be empty and has no slash at its ends.

    Raises:
        DataError: It names no bucket, or one that no bucket can be named, or is no UTF-8 text.

    >>> split_uri("s3://bucket/runs/small/")
    ('bucket', 'runs/small')
    """
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    # As the services check it: uploads of older, laxer buckets keep working.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]", bucket):
        raise DataError(
            f"{masked(uri)} must be s3://BUCKET/PREFIX with a bucket of letters, digits, dots and "
            f"dashes, got {masked(f's3://{bucket}')[5:] or 'none'!r}; correct the address"
        )
    if any("\ud800" <= character <= "\udfff" for character in key):
        raise DataError(f"{uri[:200]!r} must be text in UTF-8; correct the address")
    return bucket, key.strip("/")


def join(uri: str, *names: str) -> str:
    """A place below another, local or remote.

    >>> join("s3://bucket/runs/", "small", "audit.json"), join("runs", "small")
    ('s3://bucket/runs/small/audit.json', 'runs/small')
    """
    if not is_remote(uri):
        return str(Path(uri, *names))
    return "/".join([uri.rstrip("/"), *(name.strip("/") for name in names)])


def list_files(uri: str) -> dict[str, int]:
    """Every file below a place, at any depth.

    Args:
        uri: A folder or `s3://BUCKET/PREFIX`.

    Returns:
        Name relative to `uri`, parts joined by `/`, to its size in bytes; in order of names. Empty
        where nothing is: object storage knows no empty folders.

    Raises:
        DataError: The storage cannot be listed, or an object's name would lead out of a folder
            that it is downloaded to.
    """
    if not is_remote(uri):
        root = Path(uri)
        local = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
        # A link to nowhere is no file.
        there = (path for path in local if path.exists())
        sizes = {path.relative_to(root).as_posix(): path.stat().st_size for path in there}
        return dict(sorted(sizes.items()))
    return {name: int(entry["Size"]) for name, entry in list_objects(uri).items()}


def list_etags(uri: str) -> dict[str, str]:
    """Every object below a prefix, with what changes when its content does.

    Args:
        uri: `s3://BUCKET/PREFIX`.

    Returns:
        Name relative to `uri` to its ETag, as `inspect` gives it.

    Raises:
        DataError: As of `list_files`.
    """
    return {name: entry["ETag"] for name, entry in list_objects(uri).items()}


def list_objects(uri: str) -> dict[str, dict[str, Any]]:
    """What a listing says of every object below a prefix, by name relative to it, in order.

    Raises:
        DataError: As of `list_files`.
    """
    # Consoles leave objects that end in a slash to show a folder.
    entries = {name: entry for name, entry in _listed(uri) if name and not name.endswith("/")}
    for name in entries:
        if {"", ".", ".."} & set(name.split("/")) or "\0" in name:
            raise DataError(
                f"the object {masked(join(uri, name))!r} must have a name that is a path below "
                f"{masked(uri)}, got {name[:200]!r}; rename or remove it"
            )
    return dict(sorted(entries.items()))


def list_names(uri: str, *, folders: bool) -> set[str]:
    """Names right below a place, of folders or of files; none where nothing is.

    Args:
        uri: A folder or `s3://BUCKET/PREFIX`.
        folders: Whether of what holds further names; else of what holds bytes.

    Raises:
        DataError: The storage cannot be listed.
    """
    if not is_remote(uri):
        absent = suppress(FileNotFoundError, NotADirectoryError)
        with permitted(uri, "listed"), absent, os.scandir(uri) as entries:
            return {one.name for one in entries if one.is_dir() == folders}
        return set()
    kind, key = ("CommonPrefixes", "Prefix") if folders else ("Contents", "Key")
    return {name.rstrip("/") for name, _ in _listed(uri, kind, key, Delimiter="/")} - {""}


def _listed(
    uri: str, kind: str = "Contents", key: str = "Key", **more: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a service lists below a prefix: a name relative to it, and what is said of it."""
    bucket, prefix = split_uri(uri)
    prefix += "/" * bool(prefix)
    with storage_sentences(uri):
        pages = s3_client().get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=bucket, Prefix=prefix, **more):
            for entry in page.get(kind, ()):
                yield entry[key].removeprefix(prefix), entry


def holds_files(uri: str) -> bool:
    """Whether a file is anywhere below a place; the empty object of a console's folder is none.

    Raises:
        DataError: The storage cannot be listed.
    """
    if not is_remote(uri):
        return any(names for _, _, names in os.walk(uri))
    return any(name and not name.endswith("/") for name, _ in _listed(uri))


@dataclass(frozen=True)
class Stored:
    """What a place knows of a file.

    Attributes:
        bytes: Its size.
        sha256: SHA-256 of its whole content, hexadecimal; None if an object carries none.
        etag: What changes when an object's content does; empty for a file, or where unknown.
    """

    bytes: int
    sha256: str | None
    etag: str = ""


def inspect(uri: str) -> Stored | None:
    """What is known of a file or object without reading it whole, if it is remote.

    Returns:
        None where nothing is; a folder or prefix is nothing.

    Raises:
        DataError: The storage cannot be asked.
    """
    if not is_remote(uri):
        path = Path(uri)
        return Stored(path.stat().st_size, file_digest(path)) if path.is_file() else None
    answer = head(uri)
    if answer is None:
        return None
    size = int(answer["ContentLength"])
    return Stored(size, carried_digest(answer), answer["ETag"])


def exists(uri: str) -> bool:
    """Whether a file or object is there; a folder or prefix is neither.

    Raises:
        DataError: The storage cannot be asked.
    """
    return Path(uri).is_file() if not is_remote(uri) else inspect(uri) is not None


def read_bytes(uri: str, *, listed: bool = False) -> bytes:
    """The whole content of a file, its checksum verified where the object carries one.

    Args:
        uri: A file or object.
        listed: Whether `list_files` named it, so that its absence is a vanishing.

    Raises:
        DataError: It is absent, cannot be read, or is not what its checksum says.
    """
    if not is_remote(uri):
        with permitted(uri, way_out="correct the path"), open_regular(uri) as file:
            return file.read()
    return _whole(uri, listed, lambda chunks: b"".join(chunks))


@contextmanager
def at_hand(place: str, *, listed: bool = False) -> Iterator[Path]:
    """A file of this machine; one of object storage is downloaded, and removed after.

    Args:
        place: A file or object.
        listed: As of `read_bytes`.

    Raises:
        DataError: As of `read_bytes`.
    """
    if not is_remote(place):
        yield Path(place).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="scotoma-") as folder:
        path = Path(folder, "copy").with_suffix(Path(place).suffix[:16])  # tells what is inside
        download(place, path, listed=listed)
        yield path


def download(uri: str, path: Path, *, listed: bool = False) -> None:
    """Copy a file or object to a path, whole and verified or not at all.

    Args:
        uri: A file or object.
        path: A local file, replaced if it is there.
        listed: As of `read_bytes`.

    Raises:
        DataError: As of `read_bytes`.
    """
    with written(path) as temporary:

        def save(chunks: Iterator[bytes]) -> None:
            with temporary.open("wb") as file:
                file.writelines(chunks)

        if is_remote(uri):
            _whole(uri, listed, save)
        else:
            try:
                with open_regular(uri) as source:
                    save(iter(lambda: source.read(CHUNK), b""))
            except FileNotFoundError as error:
                raise DataError(f"{uri} is not there; correct the path") from error


def upload(path: Path, uri: str) -> Stored:
    """Copy a whole local file to a place, with its checksum.

    Args:
        path: A local file.
        uri: A file or object, replaced if it is there: readers see the old or the new, never half.

    Returns:
        Its size and its SHA-256, which an object also carries in its metadata.

    Raises:
        DataError: The storage does not take it.
    """
    if not is_remote(uri):
        download(str(path), Path(uri))
        return Stored(path.stat().st_size, file_digest(path))
    bucket, key = split_uri(uri)
    size, sha256 = path.stat().st_size, file_digest(path)
    with storage_sentences(uri, "written"), path.open("rb") as file:
        client = s3_client()
        extra: dict[str, Any] = {"Metadata": {SHA256: sha256}}
        if client.meta.config.request_checksum_calculation == "when_supported":
            extra["ChecksumAlgorithm"] = "SHA256"  # the service checks what arrives
        if size < IN_PARTS:
            answer = client.put_object(Body=file, Bucket=bucket, Key=key, **extra)
            return Stored(size, sha256, answer["ETag"])
        client.upload_fileobj(file, bucket, key, ExtraArgs=extra)
    return Stored(size, sha256)


def remove(uri: str) -> None:
    """Remove a file or object, if it is there.

    Raises:
        DataError: The storage does not let it go.
    """
    if not is_remote(uri):
        Path(uri).unlink(missing_ok=True)
        return
    bucket, key = split_uri(uri)
    with storage_sentences(uri, "removed"):
        s3_client().delete_object(Bucket=bucket, Key=key)


def head(uri: str) -> dict[str, Any] | None:
    """What the service knows of an object; None if it is not there.

    Raises:
        DataError: The storage cannot be asked.
    """
    client_error = s3_exceptions().ClientError
    bucket, key = split_uri(uri)
    with storage_sentences(uri):
        client = s3_client()
        try:
            return dict(client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED"))
        except client_error as error:
            # An answer to HEAD has no body, so no reason: a listing has one.
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status not in (400, 403, 404):
                raise
            client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
            if status == 404:
                return None
            raise


def carried_digest(response: Mapping[str, Any]) -> str | None:
    """The SHA-256 that an object carries of its whole content, hexadecimal."""
    if ours := response.get("Metadata", {}).get(SHA256):
        return str(ours)
    theirs = response.get("ChecksumSHA256")
    # Of a composite one, the digest of digests, nothing can be said without its parts.
    if theirs is None or "-" in theirs or response.get("ChecksumType") == "COMPOSITE":
        return None
    return base64.b64decode(theirs).hex()


def _whole(uri: str, listed: bool, consume: Callable[[Iterator[bytes]], _T]) -> _T:
    """Stream an object through `consume`, again from its start where the body breaks off."""
    bucket, key = split_uri(uri)
    broken = of_content()
    for attempt in range(1, ATTEMPTS + 1):
        hashing = hashlib.sha256()

        def chunks(body: Any, hashing: Any = hashing) -> Iterator[bytes]:
            for chunk in body.iter_chunks(CHUNK):
                hashing.update(chunk)
                yield chunk

        with storage_sentences(uri, listed=listed):
            response = s3_client().get_object(Bucket=bucket, Key=key)
            try:
                result = consume(chunks(response["Body"]))
            except broken as error:
                if attempt == ATTEMPTS:
                    raise
                why = type(error).__name__
            else:
                carried = carried_digest(response)
                if carried in (None, hashing.hexdigest()):
                    return result
                if attempt == ATTEMPTS:
                    raise DataError(
                        f"{masked(uri)} must have its recorded SHA-256, {carried}, got "
                        f"{hashing.hexdigest()}; upload it again"
                    )
                why = "another SHA-256"
        LOG.warning("%s broke off in attempt %d (%s)", masked(uri), attempt, why)
        time.sleep(random.uniform(0, 2 ** (attempt - 2)))
    raise AssertionError("unreachable")


SETTLED_NS = 2_000_000_000  # the coarsest clock of a file system: writes within it look alike
ASKED_SINGLY = 100  # objects; of more, the whole prefix is listed
CONNECTIONS = 16


@dataclass(frozen=True)
class StampedFiles:
    """Files below one place.

    Attributes:
        root: A folder, or `s3://BUCKET/PREFIX`.
        names: Relative to `root`, parts joined by `/`.
    """

    root: str
    names: tuple[str, ...]

    @classmethod
    def one(cls, place: str) -> StampedFiles:
        """Name a single file.

        >>> StampedFiles.one("s3://b/x/1.csv")
        StampedFiles(root='s3://b/x', names=('1.csv',))
        """
        root, _, name = place.rpartition("/")
        return cls(root or ("/" if place.startswith("/") else "."), (name,))

    def place(self, name: str) -> str:
        """Where one of them lies."""
        return join(self.root, name)


class Stamp(NamedTuple):
    """What changes when a file is written.

    Attributes:
        bytes: Its size.
        mark: Of a file of this machine its times and its number, which a copy over it, a rename
            and `touch` change, empty where another write now would give it the same; of an object
            its ETag.
        digest: What a service says of the content: SHA-256, else `etag:...`; empty of a file.
    """

    bytes: int
    mark: str
    digest: str = ""


def stamps(files: StampedFiles) -> dict[str, Stamp]:
    """Look at files without reading them.

    Returns:
        Name to stamp, in the order of the names; without those that are absent.

    Raises:
        DataError: The storage cannot be asked.
    """
    if not is_remote(files.root):
        now = time.time_ns()
        found = {name: _of_file(Path(files.root, name), now) for name in files.names}
    elif len(files.names) <= ASKED_SINGLY:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            heads = pool.map(head, [files.place(name) for name in files.names])
            found = dict(zip(files.names, map(_of_object, heads), strict=True))
    else:
        listed = list_objects(files.root)
        found = {name: _of_object(listed.get(os.path.normpath(name))) for name in files.names}
    return {name: stamp for name, stamp in found.items() if stamp is not None}


def _of_file(path: Path, now_ns: int) -> Stamp | None:
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return None
    if not S_ISREG(stat.st_mode):  # a pipe would be waited for
        return None
    written_ns = max(stat.st_mtime_ns, stat.st_ctime_ns)
    settled = now_ns - written_ns > SETTLED_NS
    mark = f"{stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}" if settled else ""
    return Stamp(stat.st_size, mark)


def _of_object(answer: Mapping[str, Any] | None) -> Stamp | None:
    """From what a listing or a question about one object says; only the latter has a SHA-256."""
    if answer is None:
        return None
    tag = str(answer.get("ETag", "")).strip('"')
    size = int(answer["ContentLength"] if "ContentLength" in answer else answer["Size"])
    digest = carried_digest(answer) or f"etag:{tag}"
    return Stamp(size, tag, digest)
