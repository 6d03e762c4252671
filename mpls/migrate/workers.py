"""Migrates many files, in several processes; the results come in the order of the files, however many there are."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import connection

from mpls.migrate.documents import Result, migrate_file
from mpls.migrate.reader import MAX_BYTES, Reader
from mpls.migrate.ruling import Settings
from mpls.migrate.tree_facts import Facts, facts_of, together, wanted_words
from mpls.program.files import without_collector

__all__ = ["default_jobs", "results_of"]

# Fewer files take less time than a process needs to start.
_FEW = 64
_CHUNK = 16


def default_jobs() -> int:
    """Return how many processes are used: as many as there are cores for this one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def results_of(files: dict[str, str], settings: Settings, jobs: int) -> Iterator[Result]:
    """Yield what becomes of each file, in their order; nothing is written.

    Args:
        files: the files, each with the folder that is migrated, or "".
        settings: what the user has chosen.
        jobs: how many processes may be used.
    """
    facts = _facts(files)
    chunks = [*_chunks([*files.items()])]
    if jobs == 1 or len(files) <= _FEW:
        readers: dict[str, Reader] = {}
        for chunk in chunks:
            yield from _results(chunk, settings, facts, readers)
        return
    with ProcessPoolExecutor(min(jobs, len(chunks)), initializer=_end_with_parent) as pool:
        for results in pool.map(_chunk_results, chunks, itertools.repeat(settings), itertools.repeat(facts)):
            yield from results


def _end_with_parent() -> None:
    """Have this process end when the one that started it does, which a signal may end before it can tell.

    Ctrl-C goes to all of them; only the one that started it says so.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_wait_and_end, args=(parent.sentinel,), daemon=True).start()


def _wait_and_end(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _facts(files: dict[str, str]) -> Facts:
    found: set[Facts] = set()
    wanted: set[bytes] = set()
    # Reading a pipe would take its data away.
    for file in filter(os.path.isfile, files):
        with contextlib.suppress(OSError), open(file, "rb") as opened:
            content = opened.read(MAX_BYTES)
            found.add(facts_of(content))
            wanted |= wanted_words(content)
    facts = together(found)
    return facts._replace(is_set=facts.is_set & wanted)


def _chunks(files: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    for start in range(0, len(files), _CHUNK):
        yield files[start : start + _CHUNK]


# What a process has read; chunks beside each other import the same modules.
_readers: dict[str, Reader] = {}


def _chunk_results(chunk: Sequence[tuple[str, str]], settings: Settings, facts: Facts) -> list[Result]:
    return _results(chunk, settings, facts, _readers)


def _results(
    chunk: Sequence[tuple[str, str]], settings: Settings, facts: Facts, readers: dict[str, Reader]
) -> list[Result]:
    for _, top in chunk:
        if top not in readers:
            readers[top] = Reader(settings, top, facts)
    with without_collector():
        return [migrate_file(file, readers[top]) for file, top in chunk]
