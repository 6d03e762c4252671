"""Limits of the memory and time that reading a file of unknown origin may take, in proportion to the file's size."""

from __future__ import annotations

from dataclasses import dataclass

PACK_AGAIN = "If you trust whoever wrote the file, pack it again without compression; Keras writes none"

# Each limit is a number for any file, and a part in proportion to the file's size in bytes.
# Frameworks take a second for 10 MB of an array that does not fit the model.
_BYTES_FREE = 16 << 20
_BYTES_FACTOR = 4
_TENSORS_FREE = 16_000
_TENSOR_SIZE = 1024
_OBJECTS_FREE = 24_000
_OBJECT_SIZE = 768
_FIELDS_FREE = 200_000
_FIELD_SIZE = 64
# Scopes of a name that are tried until a variable is found.
MOST_SCOPES = 100


def unpacked_limit(size: int) -> int:
    """Return the most bytes that the compressed parts of a file of `size` bytes may have unpacked.

    New slots of an optimizer are zeros, which gzip packs to nearly nothing. With up to three slots for each weight, a
    file may unpack to four times its size.
    """
    return _BYTES_FREE + _BYTES_FACTOR * size


def tensor_limit(size: int) -> int:
    """Return the most tensors that a checkpoint of `size` bytes may have."""
    return _TENSORS_FREE + size // _TENSOR_SIZE


def object_limit(size: int) -> int:
    """Return the most groups and datasets that an H5 file of `size` bytes may have; a scalar takes some 500 bytes."""
    return _OBJECTS_FREE + size // _OBJECT_SIZE


def field_budget(size: int) -> Budget:
    """Return the budget for the protobuf fields in a file of `size` bytes."""
    return Budget(_FIELDS_FREE + size // _FIELD_SIZE, "fields")


@dataclass
class Budget:
    """A number of small parts that may be read; a reader in Python takes microseconds for each.

    Attributes:
        left: the number that may still be read.
        what: what the parts are, for errors.
    """

    left: int
    what: str

    def spend(self, number: int = 1) -> None:
        """Count parts that are about to be read.

        Raises:
            ValueError: there are more than the budget allows.
        """
        self.left -= number
        if self.left < 0:
            raise ValueError(f"it has far more {self.what} than files of its size have")
