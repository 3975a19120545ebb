"""A folder of this machine that stands for one in object storage: what to fetch, what to send.

The storage is the truth: a local file that differs from the object of its name is fetched anew. A
local file that has no object was finished here and not sent yet.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from scotoma import storage
from scotoma.errors import ConfigError
from scotoma.storage.files import PARTIAL, file_digest

ETAGS = ".etags"  # of the local copy: a line for each object that was sent, fetched or asked about


class Listing(NamedTuple):
    """The objects of a run at one moment.

    Attributes:
        etags: Name below the run to its ETag; empty where this process has just sent it in parts.
        sha256: That of each name and ETag which is known.
    """

    etags: dict[str, str]
    sha256: dict[tuple[str, str], str]


CONNECTIONS = 16
_T = TypeVar("_T")


def cache_folder(uri: str, kind: str = "runs") -> Path:
    """Where the local copy of a place in object storage lies.

    Args:
        uri: `s3://BUCKET/PREFIX`.
        kind: `runs`, or `sources` of what runs read.

    Returns:
        A folder below SCOTOMA_CACHE, else below `scotoma` of XDG_CACHE_HOME, else below
        `~/.cache/scotoma`, named by a digest of the URI and of the endpoint: two services may have
        buckets of one name.

    Raises:
        ConfigError: There is no home folder to keep it in.

    >>> cache_folder("s3://bucket/runs/small") == cache_folder("s3://bucket/runs/small/")
    True
    """
    chosen, shared = os.environ.get("SCOTOMA_CACHE"), os.environ.get("XDG_CACHE_HOME")
    try:
        home = Path(chosen) if chosen else Path(shared or Path.home() / ".cache", "scotoma")
    except RuntimeError as error:
        raise ConfigError(
            "object storage needs a folder for its local copy, and there is no home "
            "folder; set SCOTOMA_CACHE"
        ) from error
    bucket, key = storage.split_uri(uri)
    name = f"{storage.endpoint()}/{bucket}/{key}"
    return home.absolute() / kind / hashlib.sha256(name.encode()).hexdigest()[:16]


def local_folder(place: str) -> Path:
    """The folder of this machine that holds a run, or its local copy.

    >>> str(local_folder("runs/small"))
    'runs/small'
    """
    return cache_folder(place) if storage.is_remote(place) else Path(place)


@dataclass(frozen=True)
class Mirror:
    """A local folder and the place in object storage that it stands for.

    Attributes:
        root: The folder.
        uri: `s3://BUCKET/PREFIX`; empty for a folder that stands for itself, of which nothing is
            fetched or sent.
    """

    root: Path
    uri: str = ""

    @classmethod
    def of(cls, place: str) -> Mirror:
        """The mirror of a run's place: a path or `s3://BUCKET/PREFIX`."""
        return cls(local_folder(place), place if storage.is_remote(place) else "")

    def place(self, path: Path) -> str:
        """Where a file of the folder lies: in object storage, or here."""
        if not self.uri:
            return str(path)
        return storage.join(self.uri, self._name(path))

    @contextmanager
    def listed(self) -> Iterator[None]:
        """A block in which the storage is listed once instead of asked about every file.

        Only this process may write there meanwhile, and by `publish` and `remove`; before others
        do, call `forget_listing`.

        Raises:
            DataError: The storage cannot be listed.
        """
        if not self.uri or self in _LISTINGS:
            yield
            return
        _LISTINGS[self] = Listing(storage.list_etags(self.uri), self._remembered())
        try:
            yield
        finally:
            self.forget_listing()

    def forget_listing(self) -> None:
        """Ask about every file again until the next listing."""
        _LISTINGS.pop(self, None)

    def names(self) -> list[str]:
        """Every file, by its name below the folder, as it is in object storage, else here.

        Raises:
            DataError: The storage cannot be listed.
        """
        if not self.uri:
            return list(storage.list_files(str(self.root)))
        with self.listed():
            return sorted(_LISTINGS[self].etags)

    def exists(self, path: Path) -> bool:
        """Whether a file is in object storage, or here where the folder stands for itself.

        Raises:
            DataError: The storage cannot be asked.
        """
        return self._stored(path)[0] if self.uri else path.is_file()

    def digests(self, paths: Iterable[Path]) -> dict[Path, str | None]:
        """SHA-256 of files as they are in object storage, else here; None where they are not.

        Raises:
            DataError: The storage cannot be asked.
        """
        return self.located(paths)[0]

    def located(self, paths: Iterable[Path]) -> tuple[dict[Path, str | None], list[Path]]:
        """The `digests` of files, and which of them are here and not in object storage.

        Raises:
            DataError: The storage cannot be asked.
        """
        paths = list(dict.fromkeys(paths))
        stored = dict(zip(paths, self._each(self._stored_digest, paths), strict=True))
        unsent = [path for path in paths if stored[path] is None and path.is_file()]
        return stored | {path: file_digest(path) for path in unsent}, unsent

    def fetch(self, paths: Iterable[Path]) -> None:
        """Bring files here that are absent or differ; those that are in neither place stay absent.

        Raises:
            DataError: The storage cannot be read, or what it sends is not what it should be.
        """
        if self.uri:
            self._each(self._fetch, paths)

    def fetch_folder(self, name: str) -> None:
        """Bring every file here that lies below a folder in object storage.

        Raises:
            DataError: As of `fetch`.
        """
        if self.uri:
            with self.listed():
                names = [one for one in _LISTINGS[self].etags if one.startswith(f"{name}/")]
                self.fetch(self.root / one for one in names)

    def publish(self, paths: Iterable[Path]) -> None:
        """Send whole files that are here to object storage, unless they are there already.

        Raises:
            DataError: The storage does not take them.
        """
        if self.uri:
            self._each(self._publish, [path for path in paths if path.exists()])

    def remove(self, path: Path) -> None:
        """Remove a file here and in object storage, where it is there.

        Raises:
            DataError: The storage does not let it go.
        """
        path.unlink(missing_ok=True)
        listing = _LISTINGS.get(self)
        if self.uri and (listing is None or listing.etags.pop(self._name(path), None) is not None):
            storage.remove(self.place(path))

    def _each(self, call: Callable[[Path], _T], paths: Iterable[Path]) -> list[_T]:
        paths = list(dict.fromkeys(paths))  # one writer a file
        if not self.uri or len(paths) < 2:
            return [call(path) for path in paths]
        with self.listed(), ThreadPoolExecutor(min(CONNECTIONS, len(paths))) as pool:
            return list(pool.map(call, paths))

    def _stored(self, path: Path) -> tuple[bool, str | None]:
        """Whether there is an object, and its SHA-256 where that is known without reading it."""
        if not self.uri:
            return False, None
        name, listing = self._name(path), _LISTINGS.get(self)
        if listing is not None:
            if (etag := listing.etags.get(name)) is None:
                return False, None
            if sha256 := listing.sha256.get((name, etag)):
                return True, sha256
        stored = storage.inspect(self.place(path))
        if stored is None:
            return False, None
        if stored.sha256 is not None:
            self._note(name, stored.etag, stored.sha256)
        return True, stored.sha256

    def _stored_digest(self, path: Path) -> str | None:
        """SHA-256 of an object; None where there is none."""
        there, sha256 = self._stored(path)
        if there and sha256 is None:  # put there by another program
            storage.download(self.place(path), path, listed=True)
            return file_digest(path)
        return sha256

    def _fetch(self, path: Path) -> None:
        there, sha256 = self._stored(path)
        if there and not (path.is_file() and file_digest(path) == sha256):
            storage.download(self.place(path), path, listed=True)
            listing, name = _LISTINGS.get(self), self._name(path)
            if sha256 is None and listing is not None:  # put there by another program
                self._note(name, listing.etags[name], file_digest(path))

    def _publish(self, path: Path) -> None:
        if self._stored(path)[1] != file_digest(path):
            sent = storage.upload(path, self.place(path))
            self._note(self._name(path), sent.etag, str(sent.sha256))

    def _note(self, name: str, etag: str, sha256: str) -> None:
        """Know an object again by its ETag, now and in the next process."""
        if (listing := _LISTINGS.get(self)) is not None:
            listing.etags[name] = etag
            listing.sha256[name, etag] = sha256
        if etag and self.root.is_dir():
            with (self.root / ETAGS).open("a", encoding="utf-8") as file:  # by many side by side
                file.write(json.dumps([name, etag, sha256]) + "\n")

    def _remembered(self) -> dict[tuple[str, str], str]:
        """SHA-256 of each name and ETag; a line that a kill has cut is passed over."""
        known, path = {}, self.root / ETAGS
        for line in path.read_text("utf-8", "replace").splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError):
                name, etag, sha256 = json.loads(line)
                known[name, etag] = sha256
        return known

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


_LISTINGS: dict[Mirror, Listing] = {}  # those of the blocks that this process is in


def place_here(place: str) -> Path:
    """Bring a file, or a folder with all that it holds, here.

    Args:
        place: A path, which stands for itself, or an `s3://` URI, whose copy bears its name.

    Raises:
        DataError: The storage cannot be read, or holds nothing there.
    """
    if not storage.is_remote(place):
        return Path(place)
    if names := storage.list_files(place):
        return folder_here(storage.StampedFiles(place, tuple(names)))
    copy = _folder_of_copy(place)
    storage.download(place, copy)
    return copy


def _folder_of_copy(place: str) -> Path:
    return cache_folder(place, "sources") / place.rstrip("/").rpartition("/")[2]


def folder_here(files: storage.StampedFiles) -> Path:
    """Bring files of one place here, unless they are here already.

    Args:
        files: Below a folder, which stands for itself, or below an `s3://` prefix, whose copy lies
            in the cache.

    Returns:
        The folder in which they lie by their names. A copy holds no file that the storage lacks.

    Raises:
        DataError: The storage cannot be read.
    """
    if not storage.is_remote(files.root):
        return Path(files.root)
    copy = Mirror(_folder_of_copy(files.root), files.root)
    with copy.listed():
        kept = {copy.root / name for name in (*copy.names(), ETAGS)}
        for path in {*copy.root.rglob("*")} - kept:
            if path.is_file() and path.suffix != PARTIAL:  # which another process may be writing
                path.unlink(missing_ok=True)
        copy.fetch(copy.root / name for name in files.names)
    return copy.root
