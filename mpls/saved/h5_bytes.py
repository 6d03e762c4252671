"""The low-level structures of H5 files, parsed without HDF5: superblock, object headers, links, heaps and B-trees.

Only the variants that h5py writes by default are read. HDF5 itself is not used here, since it follows cycles without
end, and allocates the memory that a file claims for a text.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from mpls.saved.files import Window
from mpls.saved.memory_limits import Budget

# HDF5's "undefined address".
UNDEFINED = 2**64 - 1
# The kinds of header messages that mean something here.
SPACE, LINK_INFO, TYPE, LINK, EXTERNAL, LAYOUT, FILTERS, ATTRIBUTE = 0x1, 0x2, 0x3, 0x6, 0x7, 0x8, 0xB, 0xC
CONTINUATION, TABLE, ATTRIBUTE_INFO = 0x10, 0x11, 0x15
# The other known kinds: NIL, fill values, group info, comments, modification times and reference counts.
_KNOWN = {SPACE, LINK_INFO, TYPE, LINK, EXTERNAL, LAYOUT, FILTERS, ATTRIBUTE, CONTINUATION, TABLE, ATTRIBUTE_INFO}
_KNOWN |= {0x0, 0x4, 0x5, 0xA, 0xD, 0xE, 0x12, 0x16}
# Kinds that an object header may have only once.
_ONCE = {SPACE, TYPE, LAYOUT, FILTERS, TABLE, LINK_INFO, ATTRIBUTE_INFO}
# The flag of a shared message.
_SHARED = 0x2
# Cache types of a symbol table entry.
_IS_GROUP, _IS_LINK = 1, 2
# In bytes: the longest name of a group or dataset, and how much of it is read at once.
_LONGEST_TEXT, _PART_OF_TEXT = 4096, 512
# A symbol table entry: the name's offset in the heap, the object header's address, the cache type; 20 more bytes.
_ENTRY = struct.Struct("<QQI20x")
# The start of a message in an object header of version 1: kind, size, flags.
_OLD_MESSAGE = struct.Struct("<2HB3x")

# Headers are small and close together, so the file is read in blocks: their size, and how many are kept.
_BLOCK = 1 << 13
_BLOCKS = 512


class Bytes:
    """The bytes of an H5 file. Methods that read raise a ValueError after its end, or when the budget is used up.

    Args:
        source: the file.
        budget: the number of parts that may still be read.
    """

    def __init__(self, source: Window, budget: Budget) -> None:
        self._source = source
        self._blocks: dict[int, bytes] = {}
        self.size = source.size
        self.budget = budget

    def at(self, position: int, size: int) -> bytes:
        """Return `size` bytes at a position."""
        if position + size > self.size:
            raise ValueError(f"{size} bytes at {position} are after the end")
        # Parts may overlap, so the size of the file is no limit for what is read.
        self.budget.spend(size >> 10)
        number, start = divmod(position, _BLOCK)
        part = (self._blocks.get(number) or self._read_block(number))[start : start + size]
        if len(part) < size:
            part = self._source.at(position, size)
        if len(part) < size:
            raise ValueError("it has become shorter")
        return part

    def _read_block(self, number: int) -> bytes:
        if len(self._blocks) == _BLOCKS:
            self._blocks.clear()
        block = self._blocks[number] = self._source.at(number * _BLOCK, _BLOCK)
        return block

    def text_at(self, position: int, end: int) -> bytes:
        """Return the bytes before the next zero byte, which must come before `end` and within 4096 bytes."""
        text = b""
        while position < end and len(text) < _LONGEST_TEXT:
            part = self.at(position, min(end - position, _PART_OF_TEXT))
            head, zero, _ = part.partition(b"\0")
            text += head
            if zero:
                return text
            position += len(part)
        raise ValueError("a name does not end")

    def number(self, position: int, size: int) -> int:
        """Return the unsigned little-endian number of `size` bytes at a position."""
        return number(self.at(position, size), 0, size)


def number(data: bytes, position: int, size: int) -> int:
    """Return the unsigned little-endian number of `size` bytes at a position in `data`.

    Raises:
        ValueError: `data` ends before.
    """
    part = data[position : position + size]
    if len(part) != size:
        raise ValueError("a part of it is too short")
    return int.from_bytes(part, "little")


@dataclass(frozen=True)
class Message:
    """A message of an object header: its kind and its bytes."""

    kind: int
    data: bytes


def root_of(file: Bytes) -> tuple[int, bytes]:
    """Return the address of the root group's object header, and its symbol table entry (zeros if there is none).

    Raises:
        ValueError: the superblock is broken or of an unusual layout.
    """
    version = file.number(8, 1)
    if version in (0, 1):
        start, sizes = (24 if version == 0 else 28), file.at(13, 2)
        base, end, driver = (file.number(start + offset, 8) for offset in (0, 16, 24))
        root, noted = file.number(start + 40, 8), file.at(start + 32, 40)
    elif version in (2, 3):
        base, driver, end, root = (file.number(12 + 8 * position, 8) for position in range(4))
        sizes, noted = file.at(9, 2), bytes(40)
    else:
        raise ValueError(f"it has the unknown version {version}")
    if sizes != b"\x08\x08" or base != 0 or driver != UNDEFINED:
        raise ValueError("it is laid out in an unusual way")
    if end > file.size:
        raise ValueError(f"it ends after {file.size} bytes in place of {end}")
    return root, noted


def messages_at(file: Bytes, position: int) -> list[Message]:
    """Return the messages of the object header at an address.

    Raises:
        ValueError: it is broken, has unknown or shared messages, or a message twice that must be there once.
    """
    if file.at(position, 4) == b"OHDR":
        found = list(_new_messages(file, position))
    elif file.number(position, 1) == 1:
        found = list(_old_messages(file, position))
    else:
        raise ValueError(f"no object is at byte {position}")
    once = [each.kind for each in found if each.kind in _ONCE]
    if len(set(once)) != len(once):
        raise ValueError("a header says the same twice")
    return found


def _old_messages(file: Bytes, position: int) -> Iterator[Message]:
    blocks = [(position + 16, file.number(position + 8, 4))]
    for start, size in blocks:
        block = file.at(start, size)
        place = 0
        while place + 8 <= size:
            kind, length, flags = _OLD_MESSAGE.unpack_from(block, place)
            message = _message(file, kind, flags, block[place + 8 : place + 8 + length])
            if len(message.data) != length:
                raise ValueError("a header is too short")
            place += 8 + length
            if message.kind == CONTINUATION:
                blocks.append((number(message.data, 0, 8), number(message.data, 8, 8)))
            yield message


def _new_messages(file: Bytes, position: int) -> Iterator[Message]:
    flags = file.number(position + 5, 1)
    start = position + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    prefix = 6 if flags & 4 else 4
    blocks = [(start + width, file.number(start, width))]
    for start, size in blocks:
        block = file.at(start, size)
        place = 0
        while place + prefix <= size:
            length = number(block, place + 1, 2)
            data = block[place + prefix : place + prefix + length]
            message = _message(file, block[place], block[place + 3], data)
            if len(data) != length:
                raise ValueError("a header is too short")
            place += prefix + length
            if message.kind == CONTINUATION:
                place_of_more, more = number(data, 0, 8), number(data, 8, 8)
                if file.at(place_of_more, 4) != b"OCHK" or more < 8:
                    raise ValueError("a header does not go on where it says")
                blocks.append((place_of_more + 4, more - 8))
            yield message


def _message(file: Bytes, kind: int, flags: int, data: bytes) -> Message:
    file.budget.spend()
    if kind not in _KNOWN or (flags & _SHARED and kind != 0):
        raise ValueError(f"a header refers to another object, or holds what Keras does not write (kind {kind:#x})")
    return Message(kind, data)


def links_in(file: Bytes, messages: list[Message], noted: bytes) -> Iterator[tuple[bytes, int | None, bytes]]:
    """Yield the members of a group: name, address of the object header, symbol table entry.

    The address is None for soft and external links. The entry is zeros where the group has none.

    Args:
        file: the file.
        messages: the messages of the group's object header.
        noted: the group's own symbol table entry.

    Raises:
        ValueError: the group is broken, or stored in a way that h5py does not use by default.
    """
    for message in messages:
        if message.kind == LINK:
            yield _link(message.data)
        elif message.kind == LINK_INFO:
            start = 10 if number(message.data, 1, 1) & 1 else 2
            if number(message.data, start, 8) != UNDEFINED:
                raise ValueError("a group is stored as h5py does with track_order or libver='latest' only")
        elif message.kind == TABLE:
            # The entry may have a copy of the two addresses, which HDF5 may use instead.
            if number(noted, 16, 4) == _IS_GROUP and noted[24:40] != message.data[:16]:
                raise ValueError("a group is in two places")
            yield from _table(file, number(message.data, 0, 8), number(message.data, 8, 8))


def _link(data: bytes) -> tuple[bytes, int | None, bytes]:
    flags, position, kind = number(data, 1, 1), 2, 0
    if flags & 8:
        kind, position = number(data, 2, 1), 3
    position += (8 if flags & 4 else 0) + (1 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    size = number(data, position, width)
    position += width
    name = data[position : position + size]
    return name, number(data, position + size, 8) if kind == 0 else None, bytes(40)


def _table(file: Bytes, tree: int, heap: int) -> Iterator[tuple[bytes, int | None, bytes]]:
    if file.at(heap, 4) != b"HEAP":
        raise ValueError(f"no names are at byte {heap}")
    size, start = file.number(heap + 8, 8), file.number(heap + 24, 8)
    if start + size > file.size:
        raise ValueError("names are after the end")
    for _, node in leaves(file, tree, 0, 8):
        if file.at(node, 4) != b"SNOD":
            raise ValueError(f"no members of a group are at byte {node}")
        count = file.number(node + 6, 2)
        file.budget.spend(count)
        entries = file.at(node + 8, 40 * count)
        for position in range(0, len(entries), 40):
            offset, target, kept = _ENTRY.unpack_from(entries, position)
            name = file.text_at(start + offset, start + size)
            yield name, None if kept == _IS_LINK else target, entries[position : position + 40]


def leaves(file: Bytes, root: int, kind: int, key_size: int) -> Iterator[tuple[bytes, int]]:
    """Yield the leaf entries of a version 1 B-tree: key and address.

    Args:
        file: the file.
        root: the address of the root node.
        kind: the node type, 0 for groups and 1 for chunks.
        key_size: the number of bytes in a key.

    Raises:
        ValueError: the tree is broken or has a cycle.
    """
    stack: list[tuple[int, int | None]] = [(root, None)]
    step = key_size + 8
    while stack:
        position, wanted = stack.pop()
        head = file.at(position, 24)
        level, count = head[5], number(head, 6, 2)
        file.budget.spend(1 + count)
        if head[:4] != b"TREE" or head[4] != kind or wanted not in (None, level):
            raise ValueError(f"no tree is at byte {position}, or one that goes round in a circle")
        entries = file.at(position + 24, step * count)
        for start in range(0, len(entries), step):
            child = number(entries, start + key_size, 8)
            if level:
                stack.append((child, level - 1))
            else:
                yield entries[start : start + key_size], child
