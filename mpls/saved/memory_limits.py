"""How much a file from strangers may become in memory, by its size: more than training runs need, less than hurts."""

from __future__ import annotations

from dataclasses import dataclass

PACK_AGAIN = "If you trust whoever wrote the file, pack it again without compression; Keras writes none"

_BYTES_FREE = 16 << 20
_BYTES_FACTOR = 4
_TENSORS_FREE = 16_000
_TENSOR_SIZE = 1024
_OBJECTS_FREE = 24_000
_OBJECT_SIZE = 768
_FIELDS_FREE = 200_000
_FIELD_SIZE = 64


def unpacked_limit(size: int) -> int:
    """Return how many bytes may come out of a file with compressed parts.

    Fresh slots of an optimizer are zeros, of which gzip leaves nothing: three for each weight, beside the weight, is
    the most that algorithms have. Frameworks take a second for each ten megabytes of an array that does not fit.
    """
    return _BYTES_FREE + _BYTES_FACTOR * size


def tensor_limit(size: int) -> int:
    """Return how many tensors a checkpoint may have; in large models the average one has many numbers."""
    return _TENSORS_FREE + size // _TENSOR_SIZE


def object_limit(size: int) -> int:
    """Return how many groups and datasets an H5 file may have; those of scalars take some 500 bytes each."""
    return _OBJECTS_FREE + size // _OBJECT_SIZE


def field_budget(size: int) -> Budget:
    """Return how many fields the graphs and the metadata in a file may have."""
    return Budget(_FIELDS_FREE + size // _FIELD_SIZE, "fields")


@dataclass
class Budget:
    """How many small parts may be read, by a reader in Python that takes microseconds for each.

    Attributes:
        left: how many still may.
        what: what they are, for errors.
    """

    left: int
    what: str

    def spend(self, number: int = 1) -> None:
        """Count some.

        Raises:
            ValueError: there are too many.
        """
        self.left -= number
        if self.left < 0:
            raise ValueError(f"it has far more {self.what} than files of its size have")
