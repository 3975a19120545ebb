"""Which files does a zip hold, also where they were compressed with Zstandard?"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from pathlib import Path
from types import TracebackType

import zstandard

from scotoma.errors import DataError
from scotoma.printable import printable
from scotoma.storage.regular import open_regular

__all__ = ["ZipMembers"]

ZSTANDARD = 93  # Python's zipfile reads it from 3.14 on
MEMBER_BYTES = 2**28  # of one file in a zip, unpacked: a sample, or all summaries
LOCAL_HEADER = struct.Struct("<4s22xHH")  # ends with the lengths of name and extra field


class ZipMembers:
    """A zip that is open for reading.

    Args:
        path: The file.

    Raises:
        DataError: It is no zip, or was cut off.

    Attributes:
        path: The file.
        names: Names of its members, in its order, each once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_regular(path)
        try:
            self._zip = zipfile.ZipFile(self._file)
            self.names = tuple(dict.fromkeys(self._zip.namelist()))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            self._file.close()
            raise self._damaged() from error

    def __enter__(self) -> ZipMembers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()
        self._file.close()

    def read(self, name: str) -> bytes:
        """Read a member whole.

        Raises:
            DataError: It is damaged, or holds more than `MEMBER_BYTES`.
        """
        info = self._zip.getinfo(name)
        try:
            if info.compress_type == ZSTANDARD:
                content = self._zstandard(info)
            else:
                with self._zip.open(info) as member:
                    content = member.read(MEMBER_BYTES + 1)
        except (
            zipfile.BadZipFile,
            zstandard.ZstdError,
            zlib.error,
            lzma.LZMAError,
            OSError,  # a place before its beginning
            RuntimeError,  # it has a password, or an unknown compression
            ValueError,
            EOFError,
            struct.error,
        ) as error:
            raise self._damaged() from error
        if len(content) > MEMBER_BYTES:
            raise DataError(
                f"{printable(self.path.name)} must hold files of at most {MEMBER_BYTES >> 20} MiB, "
                f"and {printable(name)[:80]!r} unpacks to more; leave it out"
            )
        if zlib.crc32(content) != info.CRC:
            raise self._damaged()
        return content

    def _zstandard(self, info: zipfile.ZipInfo) -> bytes:
        self._file.seek(info.header_offset)
        signature, name, extra = LOCAL_HEADER.unpack(self._file.read(LOCAL_HEADER.size))
        if signature != b"PK\x03\x04":
            raise zipfile.BadZipFile
        self._file.seek(name + extra, 1)
        packed = self._file.read(info.compress_size)
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
            content: bytes = reader.read(MEMBER_BYTES + 1)
        return content

    def _damaged(self) -> DataError:
        return DataError(
            f"{printable(self.path.name)} must be a whole zip, as logs of inspect_ai are, and is "
            "damaged or was cut off; copy it again"
        )
