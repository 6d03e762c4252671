"""`mpls docs`: shows and searches the pages in docs/, MIGRATION.md and SECURITY.md."""

from __future__ import annotations

import difflib
import functools
import os
import pydoc
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mpls.errors import printable
from mpls.names import Name, module_of, named

__all__ = ["PAGES", "Section", "docs", "name_page", "nearest", "search", "section_text", "sections"]

# The pages in docs/, in the order in which they are read.
PAGES = (
    "index",
    "import-errors",
    "run",
    "migrate",
    "tf1",
    "keras-3",
    "checkpoints",
    "proof",
    "troubleshooting",
    "recipes",
    "options",
    "monitoring",
    "devices",
    "versions",
    "libraries",
    "differences",
    "names",
    "errors",
    "command-line",
    "comparison",
    "how-it-works",
    "glossary",
)
_HERE = Path(__file__).parent
_FILES = (*(f"docs/{page}.md" for page in PAGES), "MIGRATION.md", "SECURITY.md")
# A message names one section, and a reader looks at few.
_HITS = 8


@dataclass(frozen=True)
class Section:
    """A section of a page.

    Attributes:
        page: the page's name, which is that of its file.
        anchor: the section's name in links and messages; for the whole page, the page's name.
        title: its heading.
        level: the level of the heading; 1 is the page's title.
        lines: its lines, including the heading and nested sections.
        own_lines: those of them that belong to no nested section.
    """

    page: str
    anchor: str
    title: str
    level: int
    lines: tuple[str, ...]
    own_lines: tuple[str, ...]


def docs(words: Sequence[str], show: Callable[[str], None] = print) -> int:
    """Show a section, the sections that contain words, or the list of pages; return the exit status.

    Args:
        words: a section's or a page's name, a historical name, or words to search for; empty for the list.
        show: prints a text where there is no terminal.
    """
    name = " ".join(words).strip()
    text = section_text(name) if name else _contents()
    if text is None:
        text = _found(name)
    if text is None:
        near = nearest(name)
        advice = f"Nearest: {', '.join(near)}" if near else "The list: mpls docs"
        print(f"mpls docs: nothing found for {printable(repr(name))}. {advice}", file=sys.stderr)
        return 2
    if sys.stdout.isatty():
        _page(text)
    else:
        show(text)
    return 0


@functools.cache
def sections() -> tuple[Section, ...]:
    """Return all sections, in the order of the pages.

    Examples:
        >>> from mpls.documentation import sections
        >>> [(section.page, section.title) for section in sections() if section.anchor == "as-of"]
        [('run', 'As of')]
    """
    return tuple(section for file in _FILES for section in _sections_of(file))


def _sections_of(file: str) -> Iterator[Section]:
    lines = _read(file).splitlines()
    page = Path(file).stem.lower()
    headings = []
    is_code = False
    for number, line in enumerate(lines):
        is_code ^= line.lstrip().startswith("```")
        found = None if is_code else re.match(r"(#+) (.+)", line)
        if found:
            headings.append((number, len(found[1]), found[2]))
    for place, (start, level, title) in enumerate(headings):
        following = headings[place + 1 :]
        end = next((each for each, other, _ in following if other <= level), len(lines))
        own_end = following[0][0] if following else len(lines)
        anchor = page if level == 1 else _anchor(title)
        yield Section(page, anchor, title, level, tuple(lines[start:end]), tuple(lines[start:own_end]))


def _read(file: str) -> str:
    # A wheel has the documents inside the package, a source tree beside it.
    path = next(path for path in (_HERE / file, _HERE.parent / file) if path.exists())
    return path.read_text(encoding="utf-8")


def section_text(name: str) -> str | None:
    """Return the text of a section, a page, or the page of a historical name; None if there is none.

    Args:
        name: `"as-of"`; `"run.md#as-of"`; `"MIGRATION.md#as-of"`, as messages of mpls 0.2.0 have it; or a name such as
            `"tf.train.experimental.LossScale"`.
    """
    anchor = _plain(name)
    for section in sections():
        if section.anchor == anchor:
            return _readable("\n".join(section.lines))
    row = named(name)
    if row is not None and row.replacement:
        return _readable(name_page(row))
    # The names that sections had in MIGRATION.md.
    moved = re.search(rf'<a id="{re.escape(anchor)}"></a>\[[^]]*\]\(docs/([^)]+)\)', _read("MIGRATION.md"))
    return section_text(moved[1]) if moved else None


def name_page(row: Name) -> str:
    """Return the page of a historical name: its releases, what to write today, and what is worth knowing about it."""
    today = f"`{row.today or row.replacement}`"
    fate = {"removed": "It is removed", "still there": "It is still there"}.get(row.fate, "Keras 3 has it")
    home, _, attribute = (row.today or row.replacement).rpartition(".")
    answer = f"{fate}, and means the same" if row.stays else f"{fate}. Write {today}"
    lines = [
        f"# {row.path}",
        "",
        f"**What do I write today?** TensorFlow {row.releases} had this name. {answer}.",
        "",
    ]
    if not row.stays:
        lines += [
            "```diff",
            f"-from {module_of(row.parent)} import {row.attribute}",
            f"+from {home} import {attribute}",
        ]
        if row.today not in ("", row.replacement):
            # The class of the experimental wrapper takes the loss scale.
            lines += [f'-opt = {row.attribute}(opt, "dynamic")', f"+opt = {attribute}(opt)"]
        lines += ["```", ""]
    (page, *groups) = [each for each in sections() if each.page == "names"]
    of_it = (each.own_lines for each in groups if f"`{row.replacement}`" in " ".join(each.own_lines[:5]))
    # The imports of all examples stand in the first one.
    start = page.own_lines.index("```python")
    imports = page.own_lines[start : page.own_lines.index("```", start) + 1]
    return "\n".join([*lines, "The examples import:", "", *imports, "", *next(of_it)])


def search(words: str) -> list[Section]:
    """Return the sections that contain words, or words that begin with them; those with the most of them first."""
    wanted = _patterns(words)
    titles = {section.page: section.title for section in sections() if section.level == 1}
    found = []
    for place, section in enumerate(sections()):
        body = "\n".join(section.own_lines[1:])
        counts = [(len(word.findall(body)), bool(word.search(section.title))) for word in wanted]
        of_page = sum(bool(word.search(titles[section.page])) for word in wanted)
        score = 3 * of_page + sum(20 * in_title + min(count, 9) for count, in_title in counts)
        number = sum(bool(count or in_title) for count, in_title in counts)
        if number:
            found.append((-number, -score, place, section))
    return [section for *_, section in sorted(found, key=lambda each: each[:3])]


def _patterns(words: str) -> list[re.Pattern[str]]:
    found = dict.fromkeys(re.findall(r"[\w.]+", words.lower()))
    return [re.compile(rf"(?<![a-z]){re.escape(word)}", re.IGNORECASE) for word in found]


# Two stars of code, as in 2.0**24 or f(**options), are none.
_BOLD = re.compile(r"(?<!\w)\*\*(?=\S)([^*]+?)(?<=\S)\*\*(?!\w)")


def _found(words: str) -> str | None:
    words = words.replace("-", " ")
    hits, wanted = search(words), _patterns(words)
    if not hits:
        return None
    number = f"{len(hits)} section{'s' * (len(hits) > 1)} for {printable(repr(words))}"
    lines = [number + (f"; the best {_HITS}:" if len(hits) > _HITS else ":"), ""]
    for hit in hits[:_HITS]:
        line = next((each for each in hit.own_lines[1:] if any(word.search(each) for word in wanted)), "")
        shown = re.sub(r"^\s*\* |[`|]|<!--.*?-->", "", _BOLD.sub(r"\1", _readable(line))).strip()
        text = textwrap.shorten(f"{hit.title}: {shown}", 96, placeholder=" …")
        lines += [f"mpls docs {hit.anchor}", f"    {text}"]
    return "\n".join(lines)


def nearest(name: str) -> Sequence[str]:
    """Return the anchors that are similar to a name, the most similar first."""
    anchors = [each.anchor for each in sections()]
    return difflib.get_close_matches(_plain(name), anchors, 3, 0.5)


def _plain(name: str) -> str:
    page, _, anchor = name.strip().lower().rpartition("/")[2].partition("#")
    return (anchor or page.removesuffix(".md")).replace(" ", "-")


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _contents() -> str:
    lines = ["mpls docs PAGE shows a page, mpls docs WORDS searches them all.", ""]
    for section in sections():
        if section.level == 1:
            question = next((re.match(r"\*\*(.+?)\*\*", line) for line in section.lines if line.startswith("**")), None)
            lines.append(f"{section.page:<17}{question[1] if question else section.title}")
    return "\n".join(lines)


def _readable(text: str) -> str:
    """Return Markdown without what only a browser needs; links name the command that shows their target."""
    text = re.sub(r"^<!--.*?-->\n", "", text, flags=re.MULTILINE)
    text = re.sub(r'<a id="[^"]*"></a>', "", text)
    text = re.sub(r"!\[([^]]*)\]\([^)]*\)", r"(picture: \1)", text)
    link = r"\[([^]]+)\]\((?:\.\./)?(?:docs/)?([\w-]*)(?:\.md)?(?:#([\w-]+))?\)"
    text = re.sub(link, lambda found: f"{found[1]} (mpls docs {(found[3] or found[2]).lower()})", text)
    return text.rstrip()


def _page(text: str) -> None:
    # Only here, as it takes time to load.
    from rich.console import Console
    from rich.markdown import Markdown

    is_plain = any(name in os.environ for name in ("NO_COLOR", "PAGER", "MANPAGER"))
    if not is_plain:
        # Without -R, `less` would show the escape codes.
        os.environ.setdefault("LESS", "-RF")
    width = min(shutil.get_terminal_size().columns, 120)
    console = Console(width=width, no_color=is_plain, force_terminal=not is_plain)
    with console.capture() as captured:
        console.print(
            Markdown(text, code_theme="ansi_light") if text.startswith("#") else text, highlight=False, markup=False
        )
    encoding = sys.stdout.encoding or "utf-8"
    pydoc.pager(captured.get().encode(encoding, "backslashreplace").decode(encoding))
