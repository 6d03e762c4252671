"""`mpls doctor`: finds in a program's source what it needs."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from mpls.errors import printable
from mpls.hints.removed_names import removal_of
from mpls.names import Name, instead_of_policy, named
from mpls.program.files import MAX_BYTES_OF_RUN, without_collector
from mpls.program.programs import Found, Reading, Tree, Unread
from mpls.program.signs import old_policy
from mpls.program.uses import Sign, Use, Where
from mpls.progress import with_progress, wrapped

__all__ = ["describe", "described", "text_of"]

WHOLE, GONE, UNREAD = 0, 1, 2

# The most lines that the text shows for one name; JSON has all.
_MANY = 4
# What puts a program into graph mode.
_GRAPH_MODE = ("tf.compat.v1.disable_v2_behavior", "tf.compat.v1.disable_eager_execution")
# Fewer programs are read before one could look at a progress bar.
_FEW = 20


def describe(paths: Sequence[str], progress: TextIO | None = None) -> dict[str, Any]:
    """Return what programs show that they need to run today, as a JSON-able dict. No code of them runs.

    Args:
        paths: scripts, notebooks and folders of them.
        progress: where a progress bar is shown, if it is a terminal; by default nowhere.

    Returns:
        These keys, always all of them. Paths inside the current directory are relative to it; all are escaped as by
        `repr`. A place is `{"file": str, "cell": int, "line": int, "certain": bool, "behind": str}`: `cell` is the
        number of the notebook's code cell that has the line, null outside notebooks;
        `certain` is whether the line runs on every release: false behind a test for a release, and in functions that
        nothing mentions; `behind` is the condition that a constant of the program makes false, `"AMP"` after
        `AMP = False`, null if there is none.

        * `status`: the exit status: 0; 1 if a program uses a name that no option brings back; 2 if a path could not be
          read.
        * `unread`: paths that do not exist, cannot be read, are not Python 3, or are too large: 1 MB, or 100 MB for a
          notebook. A list of `{"path": str, "reason": str}`.
        * `programs`: a list of objects:

          * `path`: its main file.
          * `kind`: `'script'` or `'notebook'`.
          * `is_whole`: whether all of it was read; false if it is too large, and then no option is chosen.
          * `options`: options that its lines show it needs; empty if none was found, which does not prove that it needs
            none. A list of `{"option": str, "value": true, int or str, "flag": str,
            "because": {"place": place, "what": str}}`; `flag` is for the command line, `option` and `value` are for
            `mpls.install`.
          * `is_chosen`: whether `mpls run` chooses these options by itself; false for programs of more than 500 kB. For
            a notebook, `mpls run -m jupyter execute NOTEBOOK` does.
          * `disagreements`: options that it may need, a list of `{"option": str, "flag": str, "because": [...]}` with
            two lines that contradict each other.
          * `names`: historical names that it uses, a list of `{"name": str, "releases": str, "today": str,
            "places": [...]}`; `today` is what `mpls migrate` writes, null if the name stays or mpls has nothing better.
          * `gone`: names that no option brings back, a list of `{"name": str, "today": str, "places": [...]}`.
          * `unread`: parts of it that could not be read, as above.

    Examples:
        >>> import pathlib, tempfile
        >>> import mpls.doctor
        >>> path = pathlib.Path(tempfile.mkdtemp(), "train.py")
        >>> _ = path.write_text("import tensorflow as tf; tf.contrib.mixed_precision.FixedLossScaleManager(8)")
        >>> [option["flag"] for option in mpls.doctor.describe([str(path)])["programs"][0]["options"]]
        ['--contrib']
    """
    programs: list[dict[str, Any]] = []
    unread: list[dict[str, str]] = []
    tree = Tree()

    def watched(files: list[str]) -> Iterator[str]:
        return with_progress(files, len(files), progress, few=_FEW)

    with without_collector():
        for path in dict.fromkeys(paths):
            for found in tree.found_at(path, watched):
                if isinstance(found, Unread):
                    unread.append(found._asdict())
                else:
                    programs.append(described(found))
    status = UNREAD if unread else GONE if any(program["gone"] for program in programs) else WHOLE
    return {"status": status, "unread": unread, "programs": programs}


def described(found: Found) -> dict[str, Any]:
    """Return what a program needs, as in the list `programs` that `describe` returns."""
    program, reading = found.program, Reading(found.program)
    decision = reading.decide()
    is_script = found.cells is None
    return {
        "path": program.sources[0].file.shown,
        "kind": "script" if is_script else "notebook",
        "is_whole": program.is_whole,
        "options": [
            {"option": each.option, "value": each.value, "flag": each.flag, "because": _because(found, each.sign)}
            for each in decision.choices
        ],
        "is_chosen": program.is_whole and program.bytes_read <= MAX_BYTES_OF_RUN,
        "disagreements": [
            {"option": each.option, "flag": each.flag, "because": [_because(found, sign) for sign in each.signs]}
            for each in decision.disagreements
        ],
        "names": _names(found, reading.uses.uses),
        "gone": _gone(found, reading.uses.uses, decision.value("v1") is True),
        "unread": [Unread(*each)._asdict() for each in program.unread],
    }


def _because(found: Found, sign: Sign) -> dict[str, Any]:
    return {"place": _place(found, sign.where, True), "what": sign.what}


def _place(found: Found, where: Where, is_certain: bool, behind: str | None = None) -> dict[str, Any]:
    cell, line = found.place(where)
    return {"file": where.file, "cell": cell, "line": line, "certain": is_certain, "behind": behind}


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
        {"name": row.path, "releases": row.releases, "today": row.today or None, "places": places}
        for row, places in _by_line(found, kept).items()
    ]


@functools.cache
def _row(path: str) -> Name | None:
    """Return the row of a path, or of the nearest namespace that contains it."""
    while path:
        row = named(path)
        if row is not None:
            return None if row.needs_keras_3 else row
        path = path.rpartition(".")[0]
    return None


def _gone(found: Found, uses: Sequence[Use], is_v1: bool) -> list[dict[str, Any]]:
    is_graph = is_v1 or any(use.path in _GRAPH_MODE for use in uses)
    read = [(use, what) for use in uses if use.is_certain and (what := _what_is_gone(use, is_graph)) is not None]
    return [{"name": name, "today": today, "places": places} for (name, today), places in _by_line(found, read).items()]


def _what_is_gone(use: Use, is_graph: bool) -> tuple[str, str] | None:
    policy = old_policy(use)
    if policy:
        return f"the policy {policy!r}", instead_of_policy(policy, is_graph=is_graph)
    # `tf.contrib` alone does not tell which part the program uses.
    return None if use.path in ("tf.contrib", "tf.compat.v1.contrib", "tf.compat.v2.contrib") else removal_of(use.path)


def _by_line(found: Found, read: Sequence[tuple[Use, Any]]) -> dict[Any, list[dict[str, Any]]]:
    """Return the places of each thing that is used, in the order of the lines; each line once."""
    by_line: dict[tuple[Any, Where], list[Use]] = {}
    for use, what in read:
        by_line.setdefault((what, use.where), []).append(use)
    places: dict[Any, list[dict[str, Any]]] = {}
    for (what, where), uses in sorted(by_line.items(), key=lambda each: each[0][1]):
        behind = uses[-1].behind if all(each.behind for each in uses) else None
        place = _place(found, where, any(each.is_certain for each in uses), behind)
        places.setdefault(what, []).append(place)
    return places


def text_of(description: dict[str, Any], *, has_all: bool = False) -> str:
    """Return the result of `describe` as text for people; control characters are escaped.

    Args:
        description: the result.
        has_all: whether it has all programs; by default, of several programs those that need something.
    """
    programs = description["programs"]
    shown = [each for each in programs if has_all or len(programs) == 1 or _needs_something(each)]
    parts = [_summary(programs)] if len(programs) > 1 else []
    return "\n\n".join("\n".join(map(printable, lines)) for lines in [*parts, *map(_lines, shown)])


def _needs_something(program: dict[str, Any]) -> bool:
    found = [program[key] for key in ("options", "disagreements", "gone", "unread")]
    return not program["is_whole"] or any(found) or any(each["today"] for each in program["names"])


def _summary(programs: Sequence[dict[str, Any]]) -> Iterator[str]:
    flags = Counter(filter(None, map(_flags, programs)))
    others = [each for each in programs if not each["options"]]
    parts = {
        "{} need{} options": flags.total(),
        "{} use{} what no option brings back": sum(bool(each["gone"]) for each in programs),
        "{} leave{} a choice to you": sum(bool(each["disagreements"]) for each in others),
        "{} need{} mpls run without options": sum(any(name["today"] for name in each["names"]) for each in others),
        "nothing was found in {}": sum(not _needs_something(each) for each in others),
    }
    said = ", ".join(text.format(number, "s" if number == 1 else "") for text, number in parts.items() if number)
    yield from wrapped(f"{len(programs)} programs: {said or 'see below'}", 0)
    for each, number in flags.most_common():
        yield f"  {number:{len(str(flags.total()))}}  mpls run {each}"


def _flags(program: dict[str, Any]) -> str:
    return " ".join(option["flag"] for option in program["options"])


def _lines(program: dict[str, Any]) -> Iterator[str]:
    flags, path = _flags(program), program["path"]
    nothing = "its lines disagree about options" if program["disagreements"] else "nothing found that needs an option"
    needs = f"needs {flags}" if flags else nothing
    yield from wrapped(f"{path}: {needs if program['is_whole'] else 'too large to say which options it needs'}", 0)
    if flags and program["kind"] == "notebook":
        yield f"  mpls run {flags} -m jupyter execute NOTEBOOK"
    elif flags and not program["is_chosen"]:
        yield f"  mpls run reads at most {MAX_BYTES_OF_RUN // 1000} kB, and chooses none of them: give them to it"
    width = max([len(each["flag"]) for each in program["options"]], default=0)
    for each in program["options"]:
        yield from wrapped(f"{each['flag']:{width}}  {_reason(each['because'], path)}", 2)
    for each in program["disagreements"]:
        first, second = (_reason(one, path) for one in each["because"])
        yield from wrapped(f"{each['flag']} is left to you, as its lines disagree: {first}, but {second}", 2)
    yield from _lines_of_names(program, flags)
    for each in program["gone"]:
        yield from wrapped(f"{_shown(each['places'], path)}: {each['name']} is gone for good: {each['today']}", 2)
    for each in program["unread"]:
        yield from wrapped(f"not read: {each['path']} {each['reason']}", 2)


def _lines_of_names(program: dict[str, Any], flags: str) -> Iterator[str]:
    if program["names"]:
        yield "  historical names, and what to write today"
    for each in program["names"]:
        yield from wrapped(f"{_shown(each['places'], program['path'])}: {each['name']} ({each['releases']})", 4)
        if each["today"]:
            yield f"        {each['today']}"
        if each["name"].startswith("tf.contrib.") and "--contrib" not in flags:
            yield "        mpls run has this name only with --contrib; without it, the program takes another way"


def _reason(because: dict[str, Any], main: str) -> str:
    return f"{_shown([because['place']], main)} {because['what']}"


def _shown(places: Sequence[dict[str, Any]], main: str) -> str:
    """Return where lines are: without the file if it is the main one, once for lines that are in one file and cell."""
    parts = []
    for (file, cell), found in itertools.groupby(places[:_MANY], lambda each: (each["file"], each["cell"])):
        lines = [f"{each['line']} (behind {each['behind']})" if each["behind"] else str(each["line"]) for each in found]
        where = ("" if file == main else f"{file}:") + ("" if cell is None else f"cell {cell}:")
        parts.append((where or ("line " if len(lines) == 1 else "lines ")) + ", ".join(lines))
    more = len(places) - _MANY
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")
