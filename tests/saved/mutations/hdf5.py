"""Mutations of H5 files: links out, storage elsewhere, claims that are large, odd types, broken structures."""

from __future__ import annotations

import functools
import pathlib
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from tests.saved.mutations.canary import SHAPES, Canary
from tests.saved.mutations.values import Mutator

_SIGNATURES = (
    b"TREE",
    b"SNOD",
    b"HEAP",
    b"GCOL",
    b"OHDR",
    b"\x89HDF\r\n\x1a\n",
    b"FRHP",
    b"BTHD",
    b"OCHK",
    b"BTLF",
    b"FHDB",
)
_CHUNK = 1 << 24


@functools.cache
def _packed_zeros() -> bytes:
    return zlib.compress(bytes(_CHUNK), 9)


def mutate(mutator: Mutator, path: pathlib.Path, canary: Canary) -> str:
    """Change a file in its place, and return what was done."""
    if mutator.random.random() < 0.45:
        path.write_bytes(mutator.content(path.read_bytes(), _SIGNATURES))
        return "bytes at structures"
    ways: list[Callable[[Any, str], str]] = [
        lambda file, name: _link(mutator, file, name, canary),
        lambda file, name: _link(mutator, file, name, canary),
        lambda file, name: _link(mutator, file, name, canary),
        lambda file, name: _claim(mutator, file, name),
        lambda file, name: _bomb(mutator, file, name),
        lambda file, name: _type(mutator, file, name),
        lambda file, name: _attribute(mutator, file, name),
        lambda file, name: _attribute(mutator, file, name),
        lambda file, name: _name(mutator, file, name),
        lambda file, name: _value(mutator, file, name),
    ]
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        leaves = [name for name in names if isinstance(file[name], h5py.Dataset)]
        chosen = leaves if leaves and mutator.random.random() < 0.7 else names
        return mutator.random.choice(ways)(file, mutator.random.choice(sorted(chosen)))


def set_text(path: pathlib.Path, key: str, text: str) -> None:
    with h5py.File(path, "r+") as file:
        # HDF5 ends texts at a zero, and knows no lone surrogates.
        file.attrs[key] = text.replace("\x00", "").encode("utf-8", "replace").decode()


def _link(mutator: Mutator, file: Any, name: str, canary: Canary) -> str:
    """Put something that is elsewhere in the place of a dataset or a group."""
    kind = mutator.random.choice(
        ("external", "raw", "raw", "raw", "virtual", "soft", "cycle", "hard", "dangling", "root")
    )
    old = file[name]
    # Groups hold datasets of any shape, of which one more makes no difference.
    shape = old.shape if isinstance(old, h5py.Dataset) else (3,)
    if kind in ("hard", "cycle", "root") and isinstance(old, h5py.Dataset):
        name = name.rpartition("/")[0] or name
        old = file[name]
    number = SHAPES.index(shape) if shape in SHAPES else 2
    size = int(np.prod(shape)) * 4
    if kind in ("hard", "cycle", "root") and isinstance(old, h5py.Group):
        target = file if kind == "root" else old
        # What visits groups comes by here again and again.
        old["again"] = target if kind != "cycle" else h5py.SoftLink("/" + name)
        return f"{name}/again: a {kind} link"
    del file[name]
    if kind == "external":
        file[name] = h5py.ExternalLink(canary.secret(".h5"), mutator.random.choice((f"/secret{number}", "/")))
    elif kind == "raw":
        file.create_dataset(name, shape, np.float32, external=[(canary.secret(".bin"), 0, max(size, 4))])
    elif kind == "virtual" and shape:
        layout = h5py.VirtualLayout(shape, np.float32)
        layout[...] = h5py.VirtualSource(canary.secret(".h5"), f"secret{number}", shape)
        file.create_virtual_dataset(name, layout)
    elif kind in ("soft", "virtual"):
        file[name] = h5py.SoftLink(mutator.random.choice(("/", "/" + name.partition("/")[0])))
    else:
        file[name] = h5py.SoftLink(mutator.random.choice(("/" + name, "/nothing", "../..", "")) or "/x")
    return f"{name}: {kind}"


def _claim(mutator: Mutator, file: Any, name: str) -> str:
    """A dataset that says it is large, and of which nothing is in the file."""
    del file[name]
    shape = mutator.random.choice(((2**28,), (2**31, 2**10), (2**40,), (2**15, 2**15), (0, 2**40), (2**52,), (1,) * 32))
    dtype = mutator.random.choice(("float32", "float64", "int8", "S1000"))
    if mutator.random.random() < 0.5 and 0 not in shape:
        file.create_dataset(
            name, shape, dtype, chunks=tuple(min(each, 1024) for each in shape[:1]) + (1,) * (len(shape) - 1)
        )
    else:
        # Contiguous, and allocated when it is written.
        space, kind = h5py.h5s.create_simple(shape), h5py.h5t.py_create(np.dtype(dtype))
        settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        settings.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
        h5py.h5d.create(file.id, name.encode(), kind, space, settings)
    return f"{name}: {dtype} of the shape {shape}, with nothing in it"


def _bomb(mutator: Mutator, file: Any, name: str) -> str:
    """Zeros, packed: 16 MB in 16 KB."""
    del file[name]
    count = mutator.random.choice((8, 40, 100))
    dataset = file.create_dataset(name, (count * _CHUNK,), "int8", chunks=(_CHUNK,), compression="gzip")
    for number in range(count):
        dataset.id.write_direct_chunk((number * _CHUNK,), _packed_zeros())
    return f"{name}: {count * _CHUNK >> 20} MB, packed"


def _type(mutator: Mutator, file: Any, name: str) -> str:
    old = file[name]
    shape = old.shape if isinstance(old, h5py.Dataset) else (3,)
    reference = old.ref
    del file[name]
    kind = mutator.random.choice(
        ("vlen", "text", "compound", "reference", "region", "opaque", "half", "long", "complex", "enum", "null")
    )
    dtypes: dict[str, Any] = {
        "vlen": h5py.vlen_dtype(np.float32),
        "text": h5py.string_dtype(),
        "compound": np.dtype([("a", "f4"), ("b", "i8", (3,))]),
        "reference": h5py.ref_dtype,
        "region": h5py.regionref_dtype,
        "opaque": np.dtype("V16"),
        "half": np.dtype(">f2"),
        "long": np.longdouble,
        "complex": np.complex64,
        "enum": h5py.enum_dtype({"A": 1}, "i4"),
    }
    if kind == "null":
        file[name] = h5py.Empty("f4")
        return f"{name}: without a value"
    dataset = file.create_dataset(name, shape, dtypes[kind])
    if kind == "reference" and shape == (3,):
        dataset[0] = reference
    return f"{name}: {kind}"


def _attribute(mutator: Mutator, file: Any, name: str) -> str:
    """Change what the file says of itself: names of layers and of weights, versions, configs."""
    owners = [(owner, key) for owner in _groups(file) for key in owner.attrs]
    owner, key = mutator.random.choice(owners) if owners else (file[name], "vars")
    if mutator.random.random() < 0.2:
        owner, key = (
            file,
            mutator.random.choice(("layer_names", "weight_names", "layer_names0", "keras_version", "backend")),
        )
    choices: list[Callable[[], Any]] = [
        lambda: np.array([b"../x", b"/", b".", b""]),
        lambda: np.array(["d0"] * 3000, "S2"),
        lambda: 2**40,
        lambda: h5py.Empty("S10"),
        lambda: np.array([b"\xff\xfe\xd8"], "S3"),
        lambda: "x" * 20_000_000,
        lambda: np.zeros([2, 2, 2], "f4"),
        lambda: np.array(["one", "é\u202e", ""], h5py.string_dtype()),
        lambda: file.ref,
        lambda: mutator.random.choice(("2.4.0", "3.0.0", "9" * 500, "²", "", "3", "x")),
    ]
    if key in owner.attrs:
        del owner.attrs[key]
    chosen = mutator.random.randrange(len(choices) + 1)
    if chosen < len(choices):
        owner.attrs[key] = choices[chosen]()
    return f"{owner.name}: the attribute {key} ({chosen})"


def _groups(file: Any) -> list[Any]:
    found = [file]
    file.visititems(lambda name, each: found.append(each) if isinstance(each, h5py.Group) else None)
    return found


def _name(mutator: Mutator, file: Any, name: str) -> str:
    if name not in file:
        return "nothing"
    chosen = mutator.random.choice(
        (b"\xff\xfe", b"a" * 60_000, "é\u202e".encode(), b" ", b"\x1b[2J", b"vars\xd8", b"...")
    )
    parent, _, _ = name.rpartition("/")
    owner = file[parent] if parent else file
    # As bytes: they need not be text.
    owner.id.links.create_hard(chosen, file[name].parent.id, name.rpartition("/")[2].encode())
    if mutator.random.random() < 0.5:
        del file[name]
    return f"{name}: also as {chosen[:20]!r}"


def _value(mutator: Mutator, file: Any, name: str) -> str:
    is_dataset = isinstance(file[name], h5py.Dataset)
    shape = file[name].shape if is_dataset else ()
    del file[name]
    kind = mutator.random.choice(("remove", "scalar", "text", "shape", "same", "group", "many"))
    if kind == "scalar":
        file[name] = mutator.random.choice([0, -1, 1, 0.5, -2.0, float("nan"), float("inf"), 2**40])
    elif kind == "text":
        file[name] = "text"
    elif kind == "shape":
        file.create_dataset(name, (3, 0, 5), "float64")
    elif kind == "same":
        file.create_dataset(name, shape, "float32", fillvalue=mutator.random.choice((0.5, np.nan, np.inf, -1, 1e38)))
    elif kind == "group":
        file.create_group(f"{name}/vars/0")
    elif kind == "many":
        for number in range(mutator.random.choice((100, 3000))):
            file.create_group(f"{name}/{number}")
    return f"{name} ({kind})"
