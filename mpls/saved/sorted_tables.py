"""Sorted string tables of LevelDB: the format of a checkpoint's index."""

from __future__ import annotations

from collections.abc import Iterator

from mpls.saved.checksums import masked_crc32c
from mpls.saved.memory_limits import Budget
from mpls.saved.protobuf import read_varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5
# In bytes, on average, with the key; in the file, keys share prefixes.
_LARGEST_ENTRY = 256


def read_table(data: memoryview, limit: int) -> dict[bytes, memoryview]:
    """Return the values of a sorted table by their keys.

    Args:
        data: the content of the file.
        limit: the most entries that it may have.

    Raises:
        ValueError: it is broken, or has more entries.
    """
    if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise ValueError("the end of the table is missing")
    if len(data) > _LARGEST_ENTRY * limit:
        raise ValueError(f"it has {len(data)} bytes, far more than the tensors in the data files need")
    footer = data[-_FOOTER:]
    position = 0
    for _ in range(2):
        _, position = read_varint(footer, position)
        _, position = read_varint(footer, position)
    _, position = read_varint(footer, 0)
    _, position = read_varint(footer, position)
    # Keys share prefixes, and blocks may overlap, so a small file can stand for a large table. `blocks` counts bytes.
    blocks = Budget(2 * len(data), "blocks")
    entries, letters = Budget(limit, "tensors"), Budget(64 * len(data) + (1 << 20), "letters in its keys")
    table: dict[bytes, memoryview] = {}
    for _, handle in _block(data, footer[position:], blocks, Budget(limit, "blocks")):
        for key, value in _block(data, handle, blocks, entries):
            letters.spend(len(key))
            if key in table:
                raise ValueError(f"a key is there twice: {key[:100]!r}")
            table[key] = value
    return table


def _block(data: memoryview, handle: memoryview, blocks: Budget, entries: Budget) -> Iterator[tuple[bytes, memoryview]]:
    offset, position = read_varint(handle, 0)
    size, _ = read_varint(handle, position)
    if offset + size + _TRAILER > len(data):
        raise ValueError("a block ends after the file")
    # The checksum is the cost of a block.
    blocks.spend(size + _TRAILER)
    block, trailer = data[offset : offset + size], data[offset + size : offset + size + _TRAILER]
    if masked_crc32c(bytes(block), bytes(trailer[:1])) != int.from_bytes(trailer[1:], "little"):
        raise ValueError("a block has another checksum")
    if trailer[0] != 0:
        raise ValueError(f"a block is compressed in the way {trailer[0]}, which TensorFlow does not use")
    restarts = int.from_bytes(block[-4:], "little")
    end = size - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("a block is too short")
    key, position = b"", 0
    while position < end:
        entries.spend()
        shared, position = read_varint(block, position)
        own, position = read_varint(block, position)
        length, position = read_varint(block, position)
        if shared > len(key) or position + own + length > end:
            raise ValueError("an entry ends after its block")
        key = key[:shared] + bytes(block[position : position + own])
        position += own
        yield key, block[position : position + length]
        position += length
