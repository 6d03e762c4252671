"""Mutations of zip files: members that are changed, and directories that lie."""

from __future__ import annotations

import functools
import io
import pathlib
import struct
import zipfile
import zlib
from collections.abc import Callable

from tests.saved.mutations.canary import Canary
from tests.saved.mutations.values import Mutator

Members = dict[str, bytes]

_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_SIGNATURES = (_LOCAL, _CENTRAL, _END, b"PK\x06\x06", b"PK\x06\x07")


def members_of(path: pathlib.Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: pathlib.Path, members: Members, method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, value in members.items():
            archive.writestr(name, value)


def mutate(mutator: Mutator, path: pathlib.Path, canary: Canary) -> str:
    """Change an archive in its place, and return what was done."""
    ways: list[Callable[[Mutator, pathlib.Path], str]] = [_member, _removed, _duplicate, _bomb, _bomb, _many, _around]
    ways += [_header] * 4 + [_structure] * 3 + [_cut, _overlapping, _asset, _zip64, _comment]
    ways.append(lambda mutator, path: _names(mutator, path, str(canary.touched)))
    return mutator.random.choice(ways)(mutator, path)


def _member(mutator: Mutator, path: pathlib.Path) -> str:
    members = members_of(path)
    name = mutator.random.choice(sorted(members))
    members[name] = mutator.content(members[name])
    write(path, members, mutator.random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return f"{name} changed"


def _removed(mutator: Mutator, path: pathlib.Path) -> str:
    members = members_of(path)
    name = mutator.random.choice(sorted(members))
    value = members.pop(name)
    if mutator.random.random() < 0.5:
        members[mutator.random.choice((name.upper(), f"x/{name}", name + "x", "/"))] = value
    write(path, members)
    return f"{name} missing"


def _duplicate(mutator: Mutator, path: pathlib.Path) -> str:
    members = members_of(path)
    name = mutator.random.choice(sorted(members))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for each, value in members.items():
            archive.writestr(each, value)
        # Another of the same length, whose name is made equal below.
        archive.writestr("?" * len(name), mutator.random.choice((b"", b"{}", mutator.content(members[name]))))
    path.write_bytes(data.getvalue().replace(b"?" * len(name), name.encode()))
    return f"{name} twice"


def _bomb(mutator: Mutator, path: pathlib.Path) -> str:
    members = members_of(path)
    name = mutator.random.choice(
        [*sorted(members), *sorted(members), "assets/big", "variables.h5", "optimizer_weights.npz"]
    )
    size = mutator.random.choice((100, 600, 1500)) << 20
    filler = mutator.random.choice((b" ", b"\x00"))
    start = members.get(name, b"") if mutator.random.random() < 0.7 else b""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH) + _packed(filler, size >> 20)
    checksum = zlib.crc32(start)
    for _ in range(size >> 20):
        checksum = zlib.crc32(filler * (1 << 20), checksum)
    write(path, {each: value for each, value in members.items() if each != name})
    claimed = mutator.random.choice((len(start) + size, len(start) + size, len(start), 2**32 - 2))
    _append(path, name, packed, claimed, checksum)
    return f"{name} of {size >> 20} MB, packed, that says it is of {claimed} bytes"


@functools.cache
def _packed(filler: bytes, megabytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    # After a full flush, the same megabyte is packed to the same bytes.
    megabyte = packer.compress(filler * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return megabyte * megabytes + packer.flush()


def _append(path: pathlib.Path, name: str, packed: bytes, size: int, checksum: int) -> None:
    """Add a member that was packed elsewhere, as large as it says it is."""
    content = path.read_bytes()
    end = content.rindex(_END)
    count, length, start = struct.unpack_from("<HII", content, end + 10)
    encoded = name.encode()
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0x21, checksum, len(packed), size, len(encoded), 0)
    central = _CENTRAL + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, start) + encoded
    local = _LOCAL + common + encoded + packed
    directory = content[start : start + length] + central
    finish = struct.pack("<HHHHIIH", 0, 0, count + 1, count + 1, len(directory), start + len(local), 0)
    path.write_bytes(content[:start] + local + directory + _END + finish)


def _many(mutator: Mutator, path: pathlib.Path) -> str:
    count = mutator.random.choice((300, 3000, 8000))
    members = members_of(path)
    write(path, {**members, **{f"assets/{number}": b"" for number in range(count)}})
    return f"{count} members more"


def _names(mutator: Mutator, path: pathlib.Path, elsewhere: str) -> str:
    members = members_of(path)
    names = ["../../escaped", elsewhere, "assets/../../../escaped", "..\\escaped", "a" * 60_000, "assets/", "con/aux"]
    names += [
        "assets/layers/../../../escaped",
        "é\u202e",
        "model.weights.h5/x",
        "\x1b[2J",
        "assets/_layer_checkpoint_dependencies",
    ]
    for name in mutator.random.sample(names, 3):
        members[name] = b"text"
    write(path, members)
    return "members elsewhere"


def _header(mutator: Mutator, path: pathlib.Path) -> str:
    """Change one field of one header: flags, method, sizes, checksum, lengths or offset."""
    content = bytearray(path.read_bytes())
    signature = mutator.random.choice((_LOCAL, _CENTRAL, _CENTRAL, _END))
    starts = []
    start = content.find(signature)
    while start >= 0:
        starts.append(start)
        start = content.find(signature, start + 1)
    start = mutator.random.choice(starts)
    shift = 2 if signature == _CENTRAL else 0
    fields = [
        ("flags", 6, 2),
        ("method", 8, 2),
        ("crc", 14, 4),
        ("packed size", 18, 4),
        ("size", 22, 4),
        ("name", 26, 2),
        ("extra", 28, 2),
    ]
    fields = [(name, offset + shift, width) for name, offset, width in fields]
    if signature == _CENTRAL:
        fields += [("comment", 32, 2), ("disk", 34, 2), ("offset", 42, 4), ("version", 6, 2)]
    elif signature == _END:
        fields = [("count", 8, 2), ("total", 10, 2), ("length", 12, 4), ("start", 16, 4), ("comment", 20, 2)]
    name, offset, width = mutator.random.choice(fields)
    old = int.from_bytes(content[start + offset : start + offset + width], "little")
    pool = [
        0,
        1,
        old + 1,
        max(old - 1, 0),
        old * 2,
        8,
        12,
        14,
        99,
        2**16 - 1,
        2**31,
        2**32 - 1,
        len(content),
        old ^ 1,
        old ^ 0x800,
    ]
    new = mutator.random.choice(pool) % (1 << 8 * width)
    content[start + offset : start + offset + width] = new.to_bytes(width, "little")
    path.write_bytes(bytes(content))
    return f"{name} at {start}: {new} for {old}"


def _around(mutator: Mutator, path: pathlib.Path) -> str:
    content = path.read_bytes()
    more = mutator.random.choice((b"\x00" * 100, b"PK\x03\x04" * 20, mutator.random.randbytes(5000), content))
    if mutator.random.random() < 0.5:
        path.write_bytes(content[:4] + more + content[4:])
        return f"{len(more)} bytes more at the start"
    path.write_bytes(content + more)
    return f"{len(more)} bytes more at the end"


def _structure(mutator: Mutator, path: pathlib.Path) -> str:
    path.write_bytes(mutator.content(path.read_bytes(), _SIGNATURES))
    return "bytes at structures"


def _cut(mutator: Mutator, path: pathlib.Path) -> str:
    content = path.read_bytes()
    end = mutator.random.choice((mutator.random.randrange(len(content)), len(content) - 1, len(content) - 22, 4))
    path.write_bytes(content[:end])
    return f"cut off at {end}"


def _overlapping(mutator: Mutator, path: pathlib.Path) -> str:
    """Have many names in the directory for the same bytes."""
    members = members_of(path)
    members["assets/big"] = b" " * (mutator.random.choice((1, 50)) << 20)
    write(path, members, zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    end = content.rindex(_END)
    count, length, start = struct.unpack_from("<HII", content, end + 10)
    last = content[content.rindex(_CENTRAL) : start + length]
    number = mutator.random.choice((3, 30, 60_000 // len(last)))
    # The names are as long as the old one, or the header would lie.
    more = b"".join(last.replace(b"assets/big", f"assets/{each:03}"[:10].encode()) for each in range(number))
    directory = content[start : start + length] + more
    finish = struct.pack("<HHHHIIH", 0, 0, count + number, count + number, len(directory), start, 0)
    path.write_bytes(content[:start] + directory + _END + finish)
    return f"{number} members in the same place"


def _asset(mutator: Mutator, path: pathlib.Path) -> str:
    members = members_of(path)
    name = mutator.random.choice(("vocabulary.txt", "../../../escaped", "idf_weights.npy", "vocabulary", "x" * 200))
    folder = mutator.random.choice(
        ("assets/layers/string_lookup/", "assets/layers/text_vectorization/", "assets/", "layers/")
    )
    members[folder + name] = mutator.random.choice((b"one\ntwo", b"\xff\xfe\x00", b"", b"word\n" * 300_000))
    write(path, members)
    return f"{folder}{name} added"


def _zip64(mutator: Mutator, path: pathlib.Path) -> str:
    """Add the records of large archives, with numbers that are wrong."""
    content = path.read_bytes()
    end = content.rindex(_END)
    number = mutator.random.choice((0, 1, 2**32, 2**63 - 1, 2**64 - 1, len(content)))
    record = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, number, number, number, number)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, mutator.random.choice((end, number)), 1)
    finish = bytearray(content[end:])
    finish[8:20] = b"\xff" * 12
    path.write_bytes(content[:end] + record + locator + bytes(finish))
    return f"zip64 with {number}"


def _comment(mutator: Mutator, path: pathlib.Path) -> str:
    comment = mutator.random.choice((b"x" * 65_000, _END + b"\x00" * 18, _END * 20))
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = comment
    return "a comment with another end"
