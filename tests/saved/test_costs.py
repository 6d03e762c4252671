"""What a refused file costs is bounded: seconds and memory of `mpls inspect` over the worst of every kind."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from collections.abc import Callable

import h5py
import numpy as np
import pytest
from parameterized import parameterized

from mpls.saved.checksums import masked_crc32c
from tests.saved.artefacts import DATA

SIZE = 19 << 20
# For files of 20 MB; a busy machine counts more seconds than these need.
SECONDS = 4.0
MEMORY = 500 << 20


def varint(value: int) -> bytes:
    result = b""
    while value > 127:
        result += bytes([value & 127 | 128])
        value >>= 7
    return result + bytes([value])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def _list_of(item: bytes) -> Callable[[pathlib.Path], pathlib.Path]:
    def write(folder: pathlib.Path) -> pathlib.Path:
        path = folder / "config.json"
        path.write_bytes(b'{"a": [' + item * (SIZE // len(item)) + b"0]}")
        return path

    return write


def _keys(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "config.json"
    path.write_bytes(b"{" + b",".join(b'"%x":1' % number for number in range(1_300_000)) + b"}")
    return path


def _archive(folder: pathlib.Path, **members: bytes) -> pathlib.Path:
    path = folder / "model.keras"
    with zipfile.ZipFile(DATA / "artefacts" / "keras_v3.momentum" / "tf21.k3" / "model.keras") as source:
        content = {name: source.read(name) for name in source.namelist()}
    for name in content:
        content[name] = members.get(name.partition(".")[0], content[name])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, value in content.items():
            archive.writestr(name, value)
    return path


def _large_config(folder: pathlib.Path) -> pathlib.Path:
    return _archive(folder, config=bytes(140 << 20))


def _lists_in_config(folder: pathlib.Path) -> pathlib.Path:
    return _archive(folder, config=b'{"a": [' + b"[]," * (30 << 20) + b"0]}")


def _large_weights(folder: pathlib.Path) -> pathlib.Path:
    return _archive(folder, model=bytes(110 << 20))


def _many_members(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(50_000):
            archive.writestr(str(number), b"")
    return path


def _packed_weights(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "model.h5"
    with h5py.File(path, "w") as file:
        for number in range(16):
            options = {"chunks": (1 << 20,), "compression": "gzip", "compression_opts": 1}
            file.create_dataset(f"optimizer/vars/{number}", data=np.zeros(1 << 20), **options)
    return path


def _many_datasets(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "model.h5"
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create(h5py.h5s.SCALAR)
        for number in range(45_000):
            h5py.h5d.create(file.id, b"%d" % number, h5py.h5t.STD_I8LE, space)
    return path


def _many_attributes(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "model.h5"
    with h5py.File(path, "w") as file:
        for number in range(1200):
            group = file.create_group(str(number))
            for name in range(100):
                group.attrs.create(str(name), 0)
    return path


def _checkpoint(folder: pathlib.Path, graph: bytes) -> pathlib.Path:
    """Write a checkpoint with an object graph of some bytes, and nothing else."""
    length = len(graph).to_bytes(4, "little")
    crc = masked_crc32c(length).to_bytes(4, "little")
    data = varint(len(graph)) + crc + graph
    entry = b"\x08\x07" + message(2, b"") + b"\x28" + varint(len(data)) + b"\x35"
    entry += masked_crc32c(length, crc, graph).to_bytes(4, "little")
    (folder / "ckpt.data-00000-of-00001").write_bytes(data)
    key = b"_CHECKPOINTABLE_OBJECT_GRAPH"
    _index(folder, [(b"", b"\x08\x01"), (key, entry)])
    return folder / "ckpt"


def _index(folder: pathlib.Path, items: list[tuple[bytes, bytes]]) -> None:
    content = b""

    def put(block: bytes) -> bytes:
        nonlocal content
        block += (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
        handle = varint(len(content)) + varint(len(block))
        content += block + b"\0" + masked_crc32c(block, b"\0").to_bytes(4, "little")
        return handle

    handle = put(b"".join(b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in items))
    meta = put(b"")
    table = put(b"\0\x01" + varint(len(handle)) + b"\xff" + handle)
    footer = (meta + table).ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")
    (folder / "ckpt.index").write_bytes(content + footer)


def _many_keys(folder: pathlib.Path) -> pathlib.Path:
    _index(folder, [(b"", b"\x08\x01")] + [(b"%06x" % number, b"\x08\x01\x28\x00") for number in range(300_000)])
    (folder / "ckpt.data-00000-of-00001").write_bytes(b"")
    return folder / "ckpt"


def _objects(folder: pathlib.Path) -> pathlib.Path:
    return _checkpoint(folder, b"\x0a\x00" * (SIZE // 2))


def _children(folder: pathlib.Path) -> pathlib.Path:
    return _checkpoint(folder, message(1, b"\x0a\x00" * (SIZE // 2)))


def _row_of_objects(folder: pathlib.Path) -> pathlib.Path:
    rows = (message(1, message(1, b"\x08" + varint(number) + b"\x12\x04next")) for number in range(1, 25_000))
    return _checkpoint(folder, b"".join(rows) + b"\x0a\x00")


def _saved_model(folder: pathlib.Path, graph: bytes, metadata: bytes | None = None) -> pathlib.Path:
    (folder / "saved_model.pb").write_bytes(graph)
    if metadata is not None:
        (folder / "keras_metadata.pb").write_bytes(metadata)
    return folder


def _graphs(folder: pathlib.Path) -> pathlib.Path:
    return _saved_model(folder, b"\x12\x00" * (SIZE // 2))


def _objects_in_graph(folder: pathlib.Path) -> pathlib.Path:
    return _saved_model(folder, message(2, message(7, b"\x0a\x00" * (SIZE // 2))))


def _objects_in_metadata(folder: pathlib.Path) -> pathlib.Path:
    return _saved_model(folder, message(2, b""), b"\x0a\x00" * (SIZE // 2))


CASES: dict[str, Callable[[pathlib.Path], pathlib.Path]] = {
    "lists": _list_of(b"[],"),
    "dicts": _list_of(b'{"a":1},'),
    "texts": _list_of(b'"ab",'),
    "numbers": _list_of(b"1.5,"),
    "depth": _list_of(b"["),
    "keys": _keys,
    "large_config": _large_config,
    "lists_in_config": _lists_in_config,
    "large_weights": _large_weights,
    "many_members": _many_members,
    "packed_weights": _packed_weights,
    "many_datasets": _many_datasets,
    "many_attributes": _many_attributes,
    "many_keys": _many_keys,
    "objects": _objects,
    "children": _children,
    "row_of_objects": _row_of_objects,
    "graphs": _graphs,
    "objects_in_graph": _objects_in_graph,
    "objects_in_metadata": _objects_in_metadata,
}


# The most memory of the process itself; what the system counts for a child begins with its parent's.
PROGRAM = """
import contextlib, os, sys
from mpls.cli import main
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
    status = main(["inspect", sys.argv[1]])
with open("/proc/self/status") as file:
    memory = next(line.split()[1] for line in file if line.startswith("VmHWM"))
print(status, sum(os.times()[:2]), memory)
"""


@unittest.skipUnless(sys.platform == "linux", "only Linux says what memory a process has used")
class CostsTest(unittest.TestCase):
    @parameterized.expand([(case,) for case in CASES])
    @pytest.mark.matrix
    def test_refused_in_time_and_memory(self, case: str) -> None:
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        path = CASES[case](folder)
        result = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, check=True, text=True)
        status, seconds, memory = map(float, result.stdout.split())
        self.assertEqual(status, 1)
        self.assertLess(seconds, SECONDS)
        self.assertLess(memory * 1024, MEMORY)
