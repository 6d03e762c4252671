"""The wire format of protocol buffers, as far as checkpoints and SavedModels need it.

TensorFlow's generated messages would take seconds to import, and parse a message without a limit on its fields.
"""

from __future__ import annotations

from collections.abc import Iterator

from mpls.saved.memory_limits import Budget

Value = int | memoryview
# The value of a string or message field that a message does not have.
EMPTY = memoryview(b"")

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_varint(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """Return the varint at a position, modulo 2**64, and the position after it.

    Raises:
        ValueError: it has more than ten bytes, or ends after the data.
    """
    result = 0
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (2**64 - 1), position
    raise ValueError("a varint does not end")


def fields(data: memoryview | bytes, budget: Budget) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message as `(number, value)`.

    A value is an int, or the bytes of a string or message.

    Args:
        data: the message.
        budget: the number of fields that may still be read.

    Raises:
        ValueError: the bytes are not a message, or the budget is used up.
    """
    view = memoryview(data)
    position = 0
    while position < len(view):
        budget.spend()
        tag, position = read_varint(view, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = read_varint(view, position)
            yield number, value
            continue
        if kind == _BYTES:
            size, position = read_varint(view, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"a field is of the unknown kind {kind}")
        if number == 0 or size > len(view) - position:
            raise ValueError("a field ends after the message")
        chunk = view[position : position + size]
        position += size
        yield number, chunk if kind == _BYTES else int.from_bytes(chunk, "little")


def messages(data: memoryview | bytes, wanted: int, budget: Budget) -> Iterator[memoryview]:
    """Yield the bytes of the messages in all fields of one number.

    Raises:
        ValueError: as with `fields`, or such a field holds a number.
    """
    for number, value in fields(data, budget):
        if number == wanted:
            yield as_bytes(value)


def as_bytes(value: Value) -> memoryview:
    """Return the bytes in a field.

    Raises:
        ValueError: the field holds a number.
    """
    if isinstance(value, int):
        raise ValueError("a number stands where text or a message belongs")
    return value


def as_int(value: Value) -> int:
    """Return the unsigned number in a field.

    Raises:
        ValueError: the field holds text or a message.
    """
    if not isinstance(value, int):
        raise ValueError("text or a message stands where a number belongs")
    return value


def as_text(value: Value) -> str:
    """Return the text in a field.

    Raises:
        ValueError: the field holds a number, or bytes that are not UTF-8.
    """
    return bytes(as_bytes(value)).decode("utf-8")


def as_signed(value: Value) -> int:
    """Return the number in a field as a signed 64-bit number.

    Raises:
        ValueError: the field holds text or a message.
    """
    number = as_int(value)
    return number - 2**64 if number >= 2**63 else number
