"""Hints come where errors are shown: at the end of a program or thread, and after a block that the error has left."""

from __future__ import annotations

import contextlib
import io
import itertools
import signal
import sys
import threading
import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
import tensorflow as tf
from parameterized import parameterized

import mpls

from .test_hints import said
from .test_run import Programs


def silent(*_: object) -> None:
    """Show nothing."""


# With all else that this file uses.
HINT = "Call mpls.install(v1=True, contrib=True"


def read() -> None:
    tf.placeholder  # noqa: B018


def left(*settings: dict[str, Any], call: Callable[[], None] = read) -> Exception:
    """Return the error that has left blocks of `install` with some settings, the first the outermost."""
    try:
        with contextlib.ExitStack() as stack:
            for each in settings:
                stack.enter_context(mpls.install(**each))
            call()
    except Exception as error:
        return error
    raise AssertionError("no error")


class AnnouncingTestCase(unittest.TestCase):
    def setUp(self) -> None:
        # Those of pytest note what they get.
        for owner in (sys, threading):
            patch = mock.patch.object(owner, "excepthook", silent)
            patch.start()
            self.addCleanup(patch.stop)
        self.before = sys.excepthook, threading.excepthook

    def said(self, call: Callable[..., object], *args: object) -> str:
        with mock.patch.object(sys, "stderr", io.StringIO()) as stderr:
            call(*args)
        return stderr.getvalue()

    def shown(self, error: BaseException) -> str:
        """Return what is said where Python shows an error."""
        return self.said(lambda: sys.excepthook(type(error), error, error.__traceback__))

    def assert_untouched(self) -> None:
        self.assertEqual((sys.excepthook, threading.excepthook), self.before)


class BlockTest(AnnouncingTestCase):
    def test_an_error_that_leaves_a_block(self) -> None:
        error = left({})
        self.assertIsNone(mpls.installed())
        self.assertEqual(self.shown(error).count(HINT), 1)
        self.assertEqual(self.shown(error), "")

    def test_what_was_in_force_where_it_arose_counts(self) -> None:
        for blocks, is_hinted in (([{}], True), ([{}, {"contrib": True}], False), ([{"contrib": True}, {}], True)):
            said = self.shown(left(*blocks, call=lambda: tf.contrib.mixed_precision.Nope))
            self.assertEqual(HINT in said, is_hinted, blocks)

    def test_an_error_from_outside_has_none(self) -> None:
        left({})
        with self.assertRaises(AttributeError) as caught:
            read()
        self.assertEqual(self.shown(caught.exception), "")

    def test_hooks_are_left_as_they_were(self) -> None:
        with mpls.install():
            self.assertNotEqual(sys.excepthook, self.before[0])
        self.assert_untouched()
        for end in (mpls.uninstall, lambda: mpls.install().__enter__().__exit__(None, None, None)):
            left({})
            self.assertNotEqual(sys.excepthook, self.before[0])
            end()
            self.assert_untouched()
        for stop in (SystemExit, KeyboardInterrupt, GeneratorExit):
            with self.assertRaises(stop), mpls.install():
                raise stop
            self.assert_untouched()


class ThreadTest(AnnouncingTestCase):
    def run_in_thread(self, call: Callable[[], object]) -> str:
        def run() -> None:
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()

        return self.said(run)

    def test_an_error_that_ends_a_thread(self) -> None:
        mpls.install()
        self.assertEqual(self.run_in_thread(read).count(HINT), 1)

    def test_one_that_another_thread_gets(self) -> None:
        with ThreadPoolExecutor() as pool:
            error = pool.submit(left, {}).result()
        self.assertEqual(self.shown(error).count(HINT), 1)

    def test_without_an_installation(self) -> None:
        mpls.install()
        mpls.uninstall()
        self.assertEqual(self.run_in_thread(read), "")


PROGRAM = """
import sys, threading
import mpls

def in_block():
    with mpls.install():
        import tensorflow as tf
        tf.placeholder(1)

def in_thread():
    import tensorflow as tf
    thread = threading.Thread(target=lambda: tf.placeholder(1))
    thread.start()
    thread.join()

if "thread" in sys.argv:
    mpls.install()
    in_thread()
else:
    in_block()
"""


@pytest.mark.programs
class ProgramTest(unittest.TestCase):
    @parameterized.expand(itertools.product(("block", "thread"), (True, False)))
    @pytest.mark.default_run("each value", rest="full")
    def test_at_the_end(self, argument: str, is_run: bool) -> None:
        command = ("-m", "mpls", "run", "--no-auto") if is_run else ()
        with Programs(program=PROGRAM) as programs:
            process = programs.run(*command, "program.py", argument)
        *_, error, hint = said(process.stderr)
        self.assertEqual(error, "AttributeError: module 'tensorflow' has no attribute 'placeholder'")
        self.assertIn("Run it with --v1" if is_run else "Call mpls.install(v1=True)", hint)
        self.assertEqual(process.stderr.count("See mpls docs"), 1, process.stderr)

    def test_a_program_that_is_stopped_ends_by_the_signal(self) -> None:
        # A hint for the missing name before would come with it.
        source = """
            import mpls
            mpls.install()
            try:
                import tensorflow as tf
                tf.placeholder(1)
            except AttributeError:
                raise KeyboardInterrupt from None
        """
        with Programs(program=source) as programs:
            process = programs.run("program.py")
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(process.stderr.splitlines()[-1], "KeyboardInterrupt")
