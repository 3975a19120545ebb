"""Where do bytes lie? A folder of this machine or `s3://BUCKET/PREFIX`, read and written alike.

The one place that knows boto3. Credentials, region and endpoint are those of the AWS SDK: its
credential chain, AWS_ENDPOINT_URL or AWS_ENDPOINT_URL_S3 for MinIO and its like, AWS_CA_BUNDLE.
"""

from __future__ import annotations

from scotoma.storage.client import ATTEMPTS_VARIABLE, endpoint
from scotoma.storage.places import (
    Stamp,
    StampedFiles,
    Stored,
    at_hand,
    download,
    exists,
    holds_files,
    inspect,
    is_remote,
    join,
    list_etags,
    list_files,
    list_names,
    read_bytes,
    remove,
    split_uri,
    stamps,
    upload,
)

__all__ = [
    "ATTEMPTS_VARIABLE",
    "Stamp",
    "StampedFiles",
    "Stored",
    "at_hand",
    "download",
    "endpoint",
    "exists",
    "holds_files",
    "inspect",
    "is_remote",
    "join",
    "list_etags",
    "list_files",
    "list_names",
    "read_bytes",
    "remove",
    "split_uri",
    "stamps",
    "upload",
]
