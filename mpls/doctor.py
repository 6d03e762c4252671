"""`mpls doctor`: finds in a program's source what it needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from mpls.errors import printable
from mpls.hints.removed_names import removal_of
from mpls.names import REMOVED_POLICIES, Name, named
from mpls.reading import (
    MAX_BYTES_OF_RUN,
    Choice,
    Disagreement,
    Found,
    Reading,
    Sign,
    Unread,
    Use,
    Where,
    found_at,
    old_policy,
)
from mpls.report import HISTORICAL_NAMES, columns

__all__ = ["describe", "doctor", "text_of"]

WHOLE, GONE, UNREAD = 0, 1, 2

# The most lines that the text shows for one name; JSON has all.
_MANY = 4


def doctor(paths: Sequence[str], *, as_json: bool = False) -> tuple[int, str, list[str]]:
    """Report what programs show that they need to run today. Their source is only read: no code in them runs.

    Args:
        paths: scripts, notebooks and folders of them.
        as_json: whether to return the result of `describe` as JSON instead of text for people.

    Returns:
        The exit status, the text, and a list of messages about paths that could not be read; the list is empty with
        `as_json`, where the text contains them. The status is 0; 1 if a program uses a name that no option brings back;
        2 if a path does not exist, cannot be read, is no Python 3, or is a file of more than 1 MB or a notebook of more
        than 100 MB.
    """
    description = describe(paths)
    if as_json:
        return description["status"], json.dumps(description, indent=2, allow_nan=False), []
    unread = [printable(f"{each['path']} {each['reason']}") for each in description["unread"]]
    return description["status"], text_of(description), unread


def describe(paths: Sequence[str]) -> dict[str, Any]:
    """Return what programs need as a JSON-able dict.

    Args:
        paths: as with `doctor`.

    Returns:
        These keys, always all of them. Paths of files are relative to the current directory if they are inside it, and
        escaped as by `repr`. A place is `{"file": str, "cell": int, "line": int, "certain": bool}`: `cell` is the
        number of the notebook's code cell that contains the line, null outside notebooks; `certain` is whether the line
        runs on every release: false behind a test for a release, and in functions that nothing mentions.

        * `status`: the exit status: 0, 1 or 2.
        * `unread`: paths that could not be read, a list of `{"path": str, "reason": str}`.
        * `programs`: a list of objects:

          * `path`: its main file.
          * `kind`: `'script'` or `'notebook'`.
          * `is_whole`: whether all of it was read; false if it is too large, and then no option is chosen.
          * `options`: options that its lines show it needs; empty if none was found, which does not prove that it needs
            none. A list of `{"option": str, "value": true, int or str, "flag": str,
            "because": {"place": place, "what": str}}`; `flag` is for the command line, `option` and `value` are for
            `mpls.install`.
          * `is_chosen`: whether `mpls run` chooses these options by itself; false for notebooks, and for programs of
            more than 500 kB.
          * `disagreements`: options that it may need, a list of `{"option": str, "flag": str, "because": [...]}` with
            two lines that contradict each other.
          * `names`: historical names that it uses, a list of `{"name": str, "releases": str, "today": str,
            "places": [...]}`; `today` is the replacement to write, null if mpls has nothing better.
          * `gone`: names that no option brings back, a list of `{"name": str, "today": str, "places": [...]}`.
          * `unread`: parts of it that could not be read, as above.

    Example:
        >>> import pathlib, tempfile
        >>> import mpls.doctor
        >>> path = pathlib.Path(tempfile.mkdtemp(), "train.py")
        >>> _ = path.write_text("import tensorflow as tf; tf.contrib.mixed_precision.FixedLossScaleManager(8)")
        >>> [option["flag"] for option in mpls.doctor.describe([str(path)])["programs"][0]["options"]]
        ['--contrib']
    """
    programs: list[dict[str, Any]] = []
    unread: list[dict[str, str]] = []
    for path in dict.fromkeys(paths):
        for found in found_at(path):
            if isinstance(found, Unread):
                unread.append(found._asdict())
            else:
                programs.append(_described(found))
    status = UNREAD if unread else GONE if any(program["gone"] for program in programs) else WHOLE
    return {"status": status, "unread": unread, "programs": programs}


def _described(found: Found) -> dict[str, Any]:
    program, reading = found.program, Reading(found.program)
    decision = reading.decide()
    unread = [
        *program.unread,
        *((file, "is nested too deeply to be read to the end") for file in reading.uses.too_deep),
    ]
    is_script = found.cells is None
    return {
        "path": program.sources[0].shown,
        "kind": "script" if is_script else "notebook",
        "is_whole": program.is_whole,
        "options": [_option(found, choice) for choice in decision.choices],
        "is_chosen": is_script and program.is_whole and program.bytes_read <= MAX_BYTES_OF_RUN,
        "disagreements": [_disagreement(found, each) for each in decision.disagreements],
        "names": _names(found, reading.uses.uses),
        "gone": _gone(found, reading.uses.uses),
        "unread": [Unread(*each)._asdict() for each in unread],
    }


def _option(found: Found, choice: Choice) -> dict[str, Any]:
    return {
        "option": choice.option,
        "value": choice.value,
        "flag": choice.flag,
        "because": _because(found, choice.sign),
    }


def _disagreement(found: Found, each: Disagreement) -> dict[str, Any]:
    return {"option": each.option, "flag": each.flag, "because": [_because(found, sign) for sign in each.signs]}


def _because(found: Found, sign: Sign) -> dict[str, Any]:
    return {"place": _place(found, sign.where, True), "what": sign.what}


def _place(found: Found, where: Where, is_certain: bool) -> dict[str, Any]:
    cell, line = found.place(where)
    return {"file": where.file, "cell": cell, "line": line, "certain": is_certain}


def _names(found: Found, uses: Sequence[Use]) -> list[dict[str, Any]]:
    """Return the historical names that a program uses, and removed namespaces of which it uses no known name."""
    read = [(use, row) for use in uses if (row := _row(use.path)) is not None]
    used = {row.path for _, row in read if not row.is_namespace}
    kept = [
        (use, row)
        for use, row in read
        if not row.is_namespace or (row.last is not None and not any(path.startswith(f"{row.path}.") for path in used))
    ]
    return [
        {"name": row.path, "releases": row.releases, "today": row.replacement or None, "places": places}
        for row, places in _by_line(found, kept).items()
    ]


def _row(path: str) -> Name | None:
    """Return the row of a path, or of the nearest namespace that contains it."""
    while path:
        row = named(path)
        if row is not None:
            return None if row.needs_keras_3 else row
        path = path.rpartition(".")[0]
    return None


def _gone(found: Found, uses: Sequence[Use]) -> list[dict[str, Any]]:
    read = [(use, what) for use in uses if use.is_certain and (what := _what_is_gone(use)) is not None]
    return [{"name": name, "today": today, "places": places} for (name, today), places in _by_line(found, read).items()]


def _what_is_gone(use: Use) -> tuple[str, str] | None:
    policy = old_policy(use)
    if policy:
        today = REMOVED_POLICIES.get(policy, REMOVED_POLICIES["float32_with_float32_vars"])
        return f"the policy {policy!r}", today
    path = use.path
    for root, short in (
        ("tf.compat.v1.", "tf."),
        ("tf.compat.v2.", "tf."),
        ("keras.", "tf.keras."),
        ("tf_keras.", "tf.keras."),
    ):
        if path.startswith(root):
            path = f"{short}{path.removeprefix(root)}"
            break
    # `tf.contrib` alone does not tell which part the program uses.
    return None if path == "tf.contrib" else removal_of(path)


def _by_line(found: Found, read: Sequence[tuple[Use, Any]]) -> dict[Any, list[dict[str, Any]]]:
    """Return the places of each thing that is used, in the order of the lines; each line once."""
    certain: dict[tuple[Any, Where], bool] = {}
    for use, what in read:
        certain[what, use.where] = certain.get((what, use.where), False) or use.is_certain
    places: dict[Any, list[dict[str, Any]]] = {}
    for what, where in sorted(certain, key=lambda each: each[1]):
        places.setdefault(what, []).append(_place(found, where, certain[what, where]))
    return places


def text_of(description: dict[str, Any]) -> str:
    """Return the result of `describe` as text for people; control characters are escaped."""
    return "\n\n".join("\n".join(map(printable, _lines(program))) for program in description["programs"])


def _lines(program: dict[str, Any]) -> Iterator[str]:
    flags = " ".join(option["flag"] for option in program["options"])
    needs = f"needs {flags}" if flags else _nothing_found(program)
    yield f"{program['path']}: {needs if program['is_whole'] else 'too large to say which options it needs'}"
    if flags and program["kind"] == "notebook":
        yield f"  mpls run --children {flags} -m jupyter execute NOTEBOOK"
    elif flags and not program["is_chosen"]:
        yield f"  mpls run reads at most {MAX_BYTES_OF_RUN // 1000} kB, and chooses none of them: give them to it"
    tables: list[tuple[Sequence[str], list[tuple[str, ...]]]] = [
        (("option", "because"), [(option["flag"], _reason(option["because"])) for option in program["options"]]),
        (
            ("left to you", "as its lines disagree"),
            [(each["flag"], ", but ".join(map(_reason, each["because"]))) for each in program["disagreements"]],
        ),
        (
            HISTORICAL_NAMES,
            [(_places(each), each["name"], each["releases"], each["today"] or "") for each in program["names"]],
        ),
        (
            ("where", "gone for good", "today"),
            [(_places(each), each["name"], each["today"]) for each in program["gone"]],
        ),
        (("not read", "because it"), [(each["path"], each["reason"]) for each in program["unread"]]),
    ]
    for header, rows in tables:
        if rows:
            yield ""
            yield from (f"  {line}" for line in columns(header, rows))


def _nothing_found(program: dict[str, Any]) -> str:
    return "its lines disagree about options" if program["disagreements"] else "nothing found that needs an option"


def _reason(because: dict[str, Any]) -> str:
    return f"{_shown([because['place']])} {because['what']}"


def _places(each: dict[str, Any]) -> str:
    more = len(each["places"]) - _MANY
    shown = _shown(each["places"][:_MANY])
    return f"{shown} and {more} more" if more > 0 else shown


def _shown(places: Sequence[dict[str, Any]]) -> str:
    """Return the addresses of lines; only the line number if the file and cell are the same as for the one before."""
    parts, before = [], ""
    for place in places:
        cell = "" if place["cell"] is None else f"cell {place['cell']}:"
        address = f"{place['file']}:{cell}"
        parts.append(str(place["line"]) if address == before else f"{address}{place['line']}")
        before = address
    return ", ".join(parts)
