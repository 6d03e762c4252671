"""Change one thing in a module at a time, and see whether a test fails: `nox -s mutate -- mpls/core/rule.py`.

Which tests run a line is measured once for each file of tests. For each change, these tests run in a process forked
from one that has loaded the frameworks, mpls and the tests, but has run no op: those first that failed for another
change of the same function, then the fast ones that run little else. What runs as mpls is imported, such as a constant,
is tried in a process that imports mpls itself. Programs that tests start see no change.

A change that survives all tests that run it has no test that finds it; after `survived 9 of 70 tests` there was no more
time. All is kept in `out/mutants`, by the text of what is changed: a run goes on where the last one stopped, and tries
those again that no test has found. Docstrings, annotations, types, imports, decorators, words of errors, methods
without a body, and how deep something is followed are left as they are.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import difflib
import functools
import gc
import hashlib
import importlib.machinery
import importlib.util
import itertools
import json
import os
import pathlib
import random
import re
import signal
import sys
import textwrap
import time
import traceback
import unittest.mock
from collections.abc import Callable, Collection, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

import coverage
import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider, WhitespaceInclusivePositionProvider
from mutmut.mutation import mutators

ROOT = pathlib.Path(__file__).parents[1]
OUT = ROOT / "out" / "mutants"
ACCEPTED = ROOT / "scripts" / "accepted_mutants.txt"
# Where the tests import mpls from: not the checkout.
INSTALLED = pathlib.Path(str(importlib.util.find_spec("mpls").origin)).parents[1]  # type: ignore[union-attr]

# Sends a line to the process that waits.
Send = Callable[..., None]
# Functions whose arguments are words or types, and variables that hold words.
_SPEAK = {"error_text", "warn_user", "Described", "cast", "TypeVar", "isinstance", "issubclass", "len", "_option"}
# Those that say their strings in errors.
_TELL = {"to_bool", "to_whole", "to_float", "to_usable", "to_number", "checked_settings", "require_effect", "report"}
_TELL |= {"_needed", "_dynamic_scale_for", "_read_numbers", "_read_values", "read_values", "explained_arguments"}
_WORDS = {"advice", "constraint", "anchor", "subject", "__all__", "__slots__"}
_REPLACED_BELOW = (mutators.operator_arg_removal, mutators.operator_if_exp)
_OPERATORS = [each for each in mutators.mutation_operators if each[1] not in _REPLACED_BELOW]
_NOTHING = cst.Name("None")
# What follows the name of the test that found a change.
_HOW = re.compile(" did not end$| ended the process: .*")


@functools.cache
def source(path: str) -> str:
    """Return the text of a module."""
    return (INSTALLED / path).read_text(encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of a module.

    Attributes:
        path: the module, from the root of the checkout.
        where: the function or class, with those around it; empty outside of them.
        first: the first line of the outermost function; 0 for what runs as the module is imported.
        last: its last line.
        start: the first line of what is changed.
        old: the lines that are changed.
        new: what they become.
        count: how many like it come before.
    """

    path: str
    where: str
    first: int
    last: int
    start: int
    old: str
    new: str
    count: int = 0

    def __str__(self) -> str:
        changed = [f"- {line}" for line in self.old.splitlines()] + [f"+ {line}" for line in self.new.splitlines()]
        return "\n".join([f"{self.path} {self.where}", *changed])

    @property
    def key(self) -> str:
        """What it is called in the results."""
        return hashlib.sha1(f"{self}\n{self.count}".encode()).hexdigest()[:16]

    def code(self) -> CodeType:
        """Compile the changed module."""
        lines = source(self.path).splitlines(keepends=True)
        lines[self.start - 1 : self.start - 1 + len(self.old.splitlines())] = [self.new]
        return compile("".join(lines), str(INSTALLED / self.path), "exec", dont_inherit=True)


class _Finder(cst.CSTVisitor):
    """Collects what can be changed in a module."""

    METADATA_DEPENDENCIES = (PositionProvider, WhitespaceInclusivePositionProvider)

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path, self.lines = path, source(path).splitlines(keepends=True)
        self.names: list[str] = []
        self.functions: list[tuple[int, int]] = []
        self.found: list[Mutant] = []
        self.words: set[cst.CSTNode] = set()
        self.counts: collections.Counter[str] = collections.Counter()

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Collect the changes of a node; return whether to look into it."""
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self.names.append(node.name.value)
        if isinstance(node, cst.Call) and _called(node) in _TELL:
            strings = cst.SimpleString | cst.FormattedString
            self.words.update(each.value for each in node.args if isinstance(each.value, strings))
        if node in self.words or _is_left_out(node):
            return False
        for old, new in _changes(node):
            if old in self.words:
                continue
            span: Any = self.get_metadata(WhitespaceInclusivePositionProvider, old)
            lines = self.lines[span.start.line - 1 : span.end.line]
            changed = cst.Module([]).code_for_node(new)
            if isinstance(new, cst.BaseCompoundStatement):
                place: Any = self.get_metadata(PositionProvider, old)
                changed = textwrap.indent(changed, " " * place.start.column)
            text = lines[0][: span.start.column] + changed + lines[-1][span.end.column :]
            first, last = self.functions[0] if self.functions else (0, 0)
            mutant = Mutant(self.path, ".".join(self.names), first, last, span.start.line, "".join(lines), text)
            self.found.append(dataclasses.replace(mutant, count=self.counts[str(mutant)]))
            self.counts[str(mutant)] += 1
        return super().on_visit(node) and not isinstance(node, cst.Raise)

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Leave a function or class."""
        if isinstance(original_node, cst.FunctionDef | cst.ClassDef):
            self.names.pop()
        super().on_leave(original_node)

    def visit_FunctionDef_body(self, node: cst.FunctionDef) -> None:  # noqa: N802
        """Note where the function starts."""
        # A function's code starts with its decorators.
        spans: list[Any] = [self.get_metadata(PositionProvider, each) for each in (node, *node.decorators)]
        self.functions.append((min(span.start.line for span in spans), spans[0].end.line))

    def leave_FunctionDef_body(self, node: cst.FunctionDef) -> None:  # noqa: ARG002, N802
        """Forget it."""
        self.functions.pop()


def _is_left_out(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return node.func.value in _SPEAK
    if isinstance(node, cst.Assign):
        names = [each.target for each in node.targets]
        names += [each.value for target in names if isinstance(target, cst.Tuple) for each in target.elements]
        said = [each.value for each in names if isinstance(each, cst.Name)]
        if isinstance(node.value, cst.Subscript):
            # Types have capitalised names.
            return len(said) == len(names) == 1 and said[0].lstrip("_").istitle()
        return not _WORDS.isdisjoint(said) or (isinstance(node.value, cst.Call) and _called(node.value) == "TypeVar")
    if isinstance(node, cst.If) and isinstance(node.test, cst.Name):
        return node.test.value == "TYPE_CHECKING"
    if isinstance(node, cst.Raise):
        return isinstance(node.exc, cst.Name) and node.exc.value == "NotImplementedError"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.left, cst.Name):
        # How deep something is followed at most.
        return node.left.value == "depth"
    if isinstance(node, cst.Arg):
        return _is_strict(node)
    return isinstance(node, cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom)


def _called(call: cst.Call) -> str:
    """Return the name of what is called, without the object that has it."""
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return name.value if isinstance(name, cst.Name) else ""


def _is_strict(argument: cst.Arg) -> bool:
    """Return whether an argument says what no test can see.

    These are words, that lists are equally long, which they are, and that nobody reads what is returned.
    """
    return argument.keyword is not None and argument.keyword.value in ("doc", "strict", "read_value")


def _changes(node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield parts of a node and what each becomes: by the library, or left out, negated or None."""
    for kind, make in _OPERATORS:
        if isinstance(node, kind):
            # Of a string one change, and none of a sentence.
            limit = (" " not in getattr(node, "value", " ")) if kind is cst.BaseString else None
            yield from ((node, new) for new in itertools.islice(make(node), limit))
    if isinstance(node, cst.Call):
        for index, argument in enumerate(node.args):
            if argument.keyword is not None and not _is_strict(argument):
                yield node, node.with_changes(args=[*node.args[:index], *node.args[index + 1 :]])
            elif argument.keyword is None and not argument.star and not argument.value.deep_equals(_NOTHING):
                yield argument.value, _NOTHING
    elif isinstance(node, cst.If | cst.While | cst.CompIf | cst.IfExp):
        inner = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.test, cst.UnaryOperation(cst.Not(), inner)
    elif isinstance(node, cst.Return) and node.value is not None and not node.value.deep_equals(_NOTHING):
        yield node.value, _NOTHING.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    elif isinstance(node, cst.Raise) or (isinstance(node, cst.Expr) and isinstance(node.value, cst.Call)):
        yield node, cst.Pass()


def mutants_of(path: str, sample: int | None) -> list[Mutant]:
    """Return all changes of a module, or as many of them, chosen at random."""
    finder = _Finder(path)
    MetadataWrapper(cst.parse_module(source(path))).visit(finder)
    if sample is None or sample >= len(finder.found):
        return finder.found
    return [finder.found[index] for index in sorted(random.Random(path).sample(range(len(finder.found)), sample))]


def in_child(function: Callable[[Send], int], stop: signal.Signals = signal.SIGKILL) -> tuple[int, str]:
    """Call a function in a forked process; return the process's status, and the last line that the function sent.

    Args:
        function: takes a function that sends a line, and returns the status.
        stop: the signal that ends the process if this one is ended.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.setpgid(0, 0)
            os.close(reading)
            with os.fdopen(writing, "w", buffering=1) as file:
                status = function(functools.partial(print, file=file))
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    os.close(writing)
    try:
        with os.fdopen(reading) as lines:
            last = collections.deque(lines, 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "".join(last).strip()
    except BaseException:
        os.kill(child, stop)
        raise


class Session:
    """The plugin of pytest that does a job in place of running the tests that were collected."""

    def __init__(self, job: Callable[[Session], Any]) -> None:
        self.job = job
        self.items: dict[str, pytest.Item] = {}
        self.has_failed = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do the job."""
        self.items = {item.nodeid: item for item in session.items}
        session.config.pluginmanager.unregister(name="terminalreporter")
        self.job(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note whether a test failed, as it was set up, run or torn down."""
        self.has_failed |= report.failed

    def run(self, tests: Iterable[str]) -> Iterator[tuple[str, bool]]:
        """Run tests; yield each before it runs, and again after it, with whether it failed."""
        for test, following in itertools.pairwise([*tests, None]):
            yield test, False
            item, self.has_failed = self.items[test], False
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following and self.items[following])
            yield test, self.has_failed


def with_collected(arguments: Iterable[str], job: Callable[[Session], Any]) -> int:
    """Let pytest collect tests, and do a job with them."""
    return int(pytest.main(["-q", "-p", "no:cacheprovider", *arguments], plugins=[Session(job)]))


def measure(target: pathlib.Path | None) -> Any:
    """Start to measure which lines of mpls run."""
    measured = coverage.Coverage(target and str(target), source_pkgs=["mpls"], config_file=False)
    measured.set_option("run:disable_warnings", ["module-not-measured", "no-data-collected"])
    measured.start()
    return measured


class Records:
    """Which tests run which lines, and what became of each mutant."""

    def __init__(self, seconds: float) -> None:
        self._limit = seconds
        for folder in ("tests", "texts"):
            (OUT / folder).mkdir(parents=True, exist_ok=True)
        self._results = OUT / "results.jsonl"
        self._results.touch()
        self.found: dict[str, str] = {}
        self._killers: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for line in self._results.open():
            self._note(json.loads(line))
        self._is_sound: dict[str, bool] = {}

    def _note(self, result: dict[str, Any]) -> None:
        self.found[result["key"]] = result["found"]
        if "::" in result["found"]:
            self._killers[f"{result['path']} {result['where']}"][_HOW.sub("", result["found"])] += 1

    def _write(self, mutant: Mutant, found: str, tests: int) -> None:
        result = {"key": mutant.key, "found": found, "tests": tests, **dataclasses.asdict(mutant)}
        self._note(result)
        with self._results.open("a") as file:
            print(json.dumps(result), file=file)
        if "::" not in found:
            print(f"{found}\n{mutant}\n", flush=True)

    def measure_tests(self, session: Session) -> None:
        """Run each file of tests in a process of its own, and write which test runs which lines, and for how long."""
        for file, group in itertools.groupby(session.items, lambda test: test.partition("::")[0]):
            # Marks choose the tests of a file.
            tests = list(group)
            name = hashlib.sha1((ROOT / file).read_bytes() + repr(tests).encode()).hexdigest()
            if not (target := OUT / "tests" / f"{name}.json").exists():
                status, _ = in_child(functools.partial(self._measure, session, tests, target))
                print(f"{file}: " + ("measured" if status == 0 else f"could not be measured: {status}"), flush=True)

    def _measure(self, session: Session, tests: list[str], target: pathlib.Path, _: Send) -> int:
        measured, seconds, start = measure(target.with_suffix("")), {}, 0.0
        for index, (test, has_failed) in enumerate(session.run(tests)):
            if index % 2 == 0:
                measured.switch_context(test)
                start = time.perf_counter()
            elif not has_failed:
                seconds[test] = round(time.perf_counter() - start, 3)
        measured.stop()
        measured.save()
        # By the texts, lines are found again after edits.
        # A test may compile a text under a name that is no file.
        files = [each for each in map(pathlib.Path, measured.get_data().measured_files()) if each.exists()]
        paths = [str(each.relative_to(INSTALLED)) for each in files if each.is_relative_to(INSTALLED)]
        target.write_text(json.dumps({"seconds": seconds, "texts": {path: _keep(source(path)) for path in paths}}))
        return 0

    @functools.cached_property
    def _measured(self) -> dict[pathlib.Path, Any]:
        return {file.with_suffix(""): json.loads(file.read_text()) for file in (OUT / "tests").glob("*.json")}

    @functools.cached_property
    def _seconds(self) -> dict[str, float]:
        """How long each test takes that passes."""
        return {test: taken for each in self._measured.values() for test, taken in each["seconds"].items()}

    @functools.cache  # noqa: B019
    def _tests_of(self, path: str) -> tuple[dict[int, set[str]], collections.Counter[str]]:
        """Return the tests that run each line of a module, and how many lines each runs."""
        lines: dict[int, set[str]] = collections.defaultdict(set)
        changed = set(range(1, source(path).count("\n") + 1))
        for file, facts in self._measured.items():
            if path not in facts["texts"]:
                continue
            moved = _moves(facts["texts"][path], path)
            changed -= set(moved.values())
            (data := coverage.CoverageData(str(file))).read()
            for line, tests in data.contexts_by_lineno(str(INSTALLED / path)).items():
                if line in moved:
                    lines[moved[line]].update(tests)
        for line in sorted(changed):
            lines[line] = lines[line - 1]
        return lines, collections.Counter(itertools.chain.from_iterable(lines.values()))

    def _tests_for(
        self, mutant: Mutant, collected: Iterable[str], at_import: Collection[int]
    ) -> tuple[list[str], int, bool]:
        """Return the tests of a mutant for which there is time, how many there are, and whether they run its lines.

        If none does, but mpls does as it is imported, they are those that run any line of the module.
        """
        lines, breadth = self._tests_of(mutant.path)
        places = range(mutant.start, mutant.start + len(mutant.old.splitlines()))
        tests: set[str] = set().union(*(lines.get(line, ()) for line in places))
        is_run = bool(tests) and mutant.first > 0
        # Of a constant of several lines, one alone is said to run.
        if not is_run and (mutant.start in at_import or (at_import and not mutant.first)):
            tests = set(breadth)
        tests &= self._seconds.keys() & set(collected)
        # First what has failed before; then one case of each test for each way through the function, then more.
        killers = self._killers[f"{mutant.path} {mutant.where}"]
        rounds: collections.Counter[Any] = collections.Counter()
        turns = {}
        for test in sorted(tests, key=lambda test: (self._seconds[test] + 0.02) * breadth[test]):
            way = frozenset(line for line in range(mutant.first, mutant.last) if test in lines[line])
            case_of = re.sub(r"(\[|_\d).*", "", test)
            turns[test] = (-killers[test], rounds[way, case_of], self._seconds[test], test)
            rounds[way, case_of] += 1
        chosen: list[str] = []
        seconds = self._limit
        for test in sorted(tests, key=turns.__getitem__):
            if self._seconds[test] <= seconds or not chosen:
                chosen.append(test)
                seconds -= self._seconds[test]
        return chosen, len(tests), is_run

    def _find(self, session: Session, tests: list[str], send: Send) -> int:
        """Run tests up to the first that fails; return 1 if one does. One that does not end, ends the process."""
        for test, has_failed in session.run(tests):
            if has_failed:
                return 1
            send(test)
            signal.setitimer(signal.ITIMER_REAL, 10 + 5 * self._seconds[test])
        signal.setitimer(signal.ITIMER_REAL, 0)
        return 0

    def _find_anew(self, tests: list[str], send: Send) -> int:
        """Import mpls, and do the same."""
        found = [1]
        files = sorted({test.partition("::")[0] for test in tests})

        def job(session: Session) -> None:
            # Else a file of tests could not be imported.
            if session.items.keys() >= set(tests):
                found.append(self._find(session, tests, send))

        with_collected([*files, "-m", "not long"], job)
        return found[-1]

    def _judge(
        self,
        mutant: Mutant,
        tests: list[str],
        total: int,
        prepare: Callable[[], Any],
        find: Callable[[list[str], Send], int],
    ) -> None:
        """Run tests, of this total, with a mutant in a process of its own, and write what became of it."""

        def run(tests: list[str], is_changed: bool, send: Send) -> int:
            signal.setitimer(signal.ITIMER_REAL, 120)
            if is_changed:
                prepare()
            return find(tests, send)

        while tests:
            status, last = in_child(functools.partial(run, tests, True))
            if status == 0:
                how_many = f"all {total}" if len(tests) == total else f"{len(tests)} of {total}"
                return self._write(mutant, f"survived {how_many} tests", len(tests))
            if last and last not in self._is_sound:
                self._is_sound[last] = in_child(functools.partial(run, [last], False))[0] == 0
            if not last or self._is_sound[last]:
                how = {1: "", -signal.SIGALRM: " did not end"}.get(status, f" ended the process: {status}")
                return self._write(mutant, f"{last or 'import::'}{how}", len(tests))
            print(f"{last} fails without a change", flush=True)
            tests = [test for test in tests if test != last]
        return self._write(mutant, "no test", 0)

    def try_functions(self, mutants: list[Mutant], session: Session, at_import: dict[str, list[int]]) -> list[Mutant]:
        """Give the functions that were imported the changed code, and run tests; return the mutants left to try."""
        functions: dict[tuple[str, str, int], list[FunctionType]] = collections.defaultdict(list)
        gc.unfreeze()
        for each in gc.get_objects():
            if isinstance(each, FunctionType):
                functions[_place(each.__code__)].append(each)
        gc.freeze()
        left = []
        for mutant in mutants:
            tests, total, is_run = self._tests_for(mutant, session.items, at_import[mutant.path])
            code = _inner(mutant.code(), mutant.first) if is_run else None
            # With functions in it that exist already.
            pairs = [(each, new) for new in _all(code) for each in functions[_place(new)]]
            if any(len(each.__code__.co_freevars) != len(new.co_freevars) for each, new in pairs):
                pairs = []
            if pairs or not tests:
                prepare, find = functools.partial(_replace, pairs), functools.partial(self._find, session)
                self._judge(mutant, tests, total, prepare, find)
            # What mpls has called as it was imported, it has called unchanged.
            if tests and (not pairs or ("::" not in self.found[mutant.key] and mutant.start in at_import[mutant.path])):
                left.append(mutant)
        return left

    def try_module(self, mutant: Mutant, collected: Iterable[str], at_import: Collection[int]) -> None:
        """Import the changed module, and run tests."""
        original = importlib.machinery.SourceFileLoader.get_code

        def get_code(loader: Any, name: str) -> CodeType | None:
            return mutant.code() if loader.path == str(INSTALLED / mutant.path) else original(loader, name)

        prepare = functools.partial(setattr, importlib.machinery.SourceFileLoader, "get_code", get_code)
        tests, total, _ = self._tests_for(mutant, collected, at_import)
        self._judge(mutant, tests, total, prepare, self._find_anew)


def _replace(pairs: Iterable[tuple[FunctionType, CodeType]]) -> None:
    for function, code in pairs:
        function.__code__ = code


def _all(code: CodeType | None) -> Iterator[CodeType]:
    """Yield a code and those in it."""
    if code is not None:
        yield code
        for each in code.co_consts:
            if isinstance(each, CodeType):
                yield from _all(each)


def _keep(text: str) -> str:
    """Write a text into a file that is named by it, and return the name."""
    name = hashlib.sha1(text.encode()).hexdigest()
    (OUT / "texts" / name).write_text(text, encoding="utf-8")
    return name


@functools.cache
def _moves(name: str, path: str) -> dict[int, int]:
    """Return where the lines of a text that was kept are in a module now."""
    before, now = (OUT / "texts" / name).read_text(encoding="utf-8").splitlines(), source(path).splitlines()
    if before == now:
        return {line: line for line in range(1, len(now) + 1)}
    blocks = difflib.SequenceMatcher(None, before, now, autojunk=False).get_matching_blocks()
    return {each.a + line: each.b + line for each in blocks for line in range(1, each.size + 1)}


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_name, code.co_firstlineno


def _inner(code: CodeType, first: int) -> CodeType | None:
    """Return the code of the outermost function that starts in a line; None for 0."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            # A class may start with its decorator too, but not in the same line.
            found = each if each.co_firstlineno == first else _inner(each, first)
            if found is not None:
                return found
    return None


def report(records: Records, mutants: list[Mutant]) -> int:
    """Print what became of mutants; return 1 if some survived without a reason.

    A reason stands before the mutant, or before the function of all mutants that it is for.
    """
    blocks = ACCEPTED.read_text(encoding="utf-8").strip().split("\n\n") if ACCEPTED.exists() else []
    reasons = {mutant: reason for reason, _, mutant in (block.partition("\n") for block in blocks)}
    status = 0
    for path, group in itertools.groupby(mutants, lambda mutant: mutant.path):
        tried = [each for each in group if each.key in records.found]
        open_ = [each for each in tried if "::" not in records.found[each.key]]
        without = [each for each in open_ if reasons.keys().isdisjoint((str(each), f"{each.path} {each.where}"))]
        numbers = f"{len(tried)} changes, {len(tried) - len(open_)} found, {len(open_) - len(without)} accepted"
        # The others may be found by a test for which there was no time.
        gaps = [each for each in without if " of " not in records.found[each.key]]
        print(f"{path}: {numbers}, {len(without)} open, {len(gaps)} of them without a test that finds them")
        for each in without:
            status = 1
            print(f"\n{records.found[each.key]}\n{each}")
    return status


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE", help="modules, such as mpls/core/rule.py")
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="PATH", help="tests that may find a change")
    parser.add_argument("--without", nargs="+", default=[], metavar="PATH", help="tests among them that may not")
    parser.add_argument("-m", default="", metavar="MARKS", help="which tests, else those of the default run")
    parser.add_argument("--sample", type=int, metavar="N", help="try only N changes of each file, chosen at random")
    parser.add_argument("--seconds", type=float, default=20, metavar="S", help="run tests of S seconds for each change")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # As in tests/conftest.py.
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1", TF_ENABLE_ONEDNN_OPTS="0")
    for name in ("keras", "tensorflow", "tf_keras"):
        importlib.import_module(name)

    mutants = [each for file in options.files for each in mutants_of(file, options.sample)]
    records = Records(options.seconds)
    # What became of a mutant by tests that may find none now is open again.
    done = {
        key for key, found in records.found.items() if "::" in found and not found.startswith(tuple(options.without))
    }
    left = OUT / "left.json"

    def work(session: Session) -> None:
        # What mpls imports late must be there before processes are forked.
        for path in options.files:
            importlib.import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        measured.stop()
        watch.stop()
        at_import = {path: measured.get_data().lines(str(INSTALLED / path)) or [] for path in options.files}
        records.measure_tests(session)
        others = records.try_functions([each for each in mutants if each.key not in done], session, at_import)
        left.write_text(json.dumps([list(session.items), at_import, [each.key for each in others]]))

    marks = ["-m", options.m] if options.m else []
    deselected = [f"--deselect={each}" for each in options.without]
    left.unlink(missing_ok=True)
    measured = measure(None)
    # Threads that an op starts are not in forked processes.
    tensorflow: Any = importlib.import_module("tensorflow.python.eager.context").Context
    watch = unittest.mock.patch.object(tensorflow, "ensure_initialized", side_effect=RuntimeError("an op runs"))
    watch.start()
    in_child(lambda _: with_collected([*options.tests, *marks, *deselected], work), signal.SIGTERM)
    measured.stop()
    watch.stop()
    records = Records(options.seconds)
    collected, at_import, others = json.loads(left.read_text())
    for each in mutants:
        if each.key in others:
            records.try_module(each, collected, at_import[each.path])
    return report(Records(options.seconds), mutants)


if __name__ == "__main__":
    sys.exit(main())
