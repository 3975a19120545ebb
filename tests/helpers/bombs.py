"""Small files that take gigabytes, or for ever, of a reader that trusts them."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
from onnx import TensorProto, helper, numpy_helper

__all__ = [
    "constant_of_gigabytes",
    "csv_of_empty_cells",
    "endless_on_batches",
    "gz_of_gigabytes",
    "image_of_gigabytes",
    "parquet_of_gigabytes",
    "sparse_weights",
]


def gz_of_gigabytes(path: Path, header: str, row: str, gib: float = 1.5) -> Path:
    """A CSV of about 2 MB for each GiB of equal rows; in memory these take several times that."""
    rows = f"{row}\n".encode()
    member = gzip.compress(rows * (2**25 // len(rows)), mtime=0)  # 32 MiB of text
    with path.open("wb") as file:
        file.write(gzip.compress(f"{header}\n".encode(), mtime=0))
        file.writelines([member] * round(gib * 32))
    return path


def csv_of_empty_cells(path: Path, header: str) -> Path:
    """A CSV of 1 MB: 100,000 columns of 300,000 rows that end after their first."""
    names = ",".join([header, *(f"c{index}" for index in range(100_000))])
    path.write_text(f"{names}\n" + "x\n" * 300_000)
    return path


def parquet_of_gigabytes(path: Path, values: dict[str, str | bytes], rows: int) -> Path:
    """A table of 300 kB in which all rows are equal: in memory 16 bytes a row and column."""
    part = 10_000_000
    codes = pa.array(np.zeros(part, np.int8))
    columns = {name: pa.DictionaryArray.from_arrays(codes, [one]) for name, one in values.items()}
    table = pa.table(columns)
    # Without what pyarrow would tell of the dictionary, readers see plain values.
    with pq.ParquetWriter(path, table.schema, store_schema=False, compression="zstd") as writer:
        for _ in range(rows // part):
            writer.write_table(table, row_group_size=part)
    return path


def image_of_gigabytes(path: Path, side: int = 13_000) -> Path:
    """A PNG of 20 kB: a square of that many black pixels a side, one bit each."""
    row = bytes(1 + (side + 7) // 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(row * side, 9)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return path


def _classifier(
    path: Path,
    nodes: list[onnx.NodeProto],
    more: list[onnx.TensorProto],
    width: int = 12,
    classes: int = 2,
) -> Path:
    """A model for images of 8x12 pixels, whose scores are `mean` x `weight`."""
    graph = helper.make_graph(
        [*nodes, helper.make_node("MatMul", ["mean", "weight"], ["scores"])],
        "bomb",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ("n", 3, 8, width))],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ("n", classes))],
        [
            numpy_helper.from_array(np.array([2, 3], np.int64), "axes"),
            numpy_helper.from_array(np.ones((3, classes), np.float32), "weight"),
            *more,
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


def constant_of_gigabytes(path: Path, gib: int = 16, width: int = 12, classes: int = 2) -> Path:
    """A model of 400 bytes that makes a tensor of zeros and adds its sum."""
    size = numpy_helper.from_array(np.array([gib * 2**28], np.int64), "size")
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["sum"], keepdims=0),
        helper.make_node("ReduceMean", ["images", "axes"], ["plain"], keepdims=0),
        helper.make_node("Add", ["plain", "sum"], ["mean"]),
    ]
    return _classifier(path, nodes, [size], width, classes)


def endless_on_batches(path: Path, images: int = 8, width: int = 12, classes: int = 2) -> Path:
    """A model that ends at once for fewer images than that, and never for more."""
    tensors = {
        "first": np.array(0, np.int64),
        "many": np.array(images, np.int64),
        "long": np.array(2**62, np.int64),
        "none": np.array(0, np.int64),
        "yes": np.array(True),
        "zero": np.array(0.0, np.float32),
    }
    turn = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["going_on"]),
            helper.make_node("Sin", ["value"], ["next"]),
        ],
        "turn",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, ()),
            helper.make_tensor_value_info("going", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("value", TensorProto.FLOAT, ()),
        ],
        [
            helper.make_tensor_value_info("going_on", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, ()),
        ],
    )
    nodes = [
        helper.make_node("Shape", ["images"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["batch"]),
        helper.make_node("GreaterOrEqual", ["batch", "many"], ["large"]),
        helper.make_node("Where", ["large", "long", "none"], ["turns"]),
        helper.make_node("Loop", ["turns", "yes", "zero"], ["looped"], body=turn),
        helper.make_node("ReduceMean", ["images", "axes"], ["plain"], keepdims=0),
        helper.make_node("Add", ["plain", "looped"], ["mean"]),
    ]
    more = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    return _classifier(path, nodes, more, width, classes)


def sparse_weights(path: Path, gib: int = 40) -> Path:
    """A model whose weights lie in a file of that size that takes no room on the disk."""
    weights = TensorProto(
        name="large",
        data_type=TensorProto.FLOAT,
        dims=[gib * 2**28],
        data_location=TensorProto.EXTERNAL,
    )
    weights.external_data.add(key="location", value="weights.bin")
    nodes = [
        helper.make_node("ReduceSum", ["large"], ["sum"], keepdims=0),
        helper.make_node("ReduceMean", ["images", "axes"], ["plain"], keepdims=0),
        helper.make_node("Add", ["plain", "sum"], ["mean"]),
    ]
    _classifier(path, nodes, [weights])
    with path.with_name("weights.bin").open("wb") as file:
        os.truncate(file.fileno(), gib * 2**30)
    return path
