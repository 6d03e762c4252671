"""The launcher that the examples and these tests share: it ends what it has started, whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import unittest
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
from parameterized import parameterized

from .launcher import CLUSTER, FOLDER, MARKER, commands_of, environment, launch, processes_of

PROGRAM = "obedient.py"


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("", 0))
        server.listen()
        yield server.getsockname()[1]


class FailuresTest(unittest.TestCase):
    """After each launch it is seen that no process is left, nor one that these have started."""

    def error_of(self, *orders: str, **kwargs: Any) -> str:
        jobs: dict[str, int] = {}
        for order in orders:
            job = order.partition(":")[0]
            jobs[job] = jobs.get(job, 0) + 1
        with self.assertRaises(CLUSTER.ClusterError) as caught:
            launch(PROGRAM, jobs, *orders, **kwargs)
        return str(caught.exception)

    def test_a_process_that_fails_ends_all(self) -> None:
        error = self.error_of("ps:0=serve", "worker:0=fail", "worker:1=hang")
        first, *_ = error.splitlines()
        self.assertEqual(first, "worker:0 ended with status 1; all processes have been ended")
        # The output of all, and that of the culprit where one sees it.
        *_, last = error.split("--- ")
        self.assertRegex(last, r"^worker:0 ---\n(?s:.*)SystemExit: a reason to fail\n$")
        self.assertIn("--- worker:1 ---", error)

    def test_a_server_that_ends_before_the_others_ends_all(self) -> None:
        error = self.error_of("ps:0=report", "worker:0=hang")
        self.assertTrue(error.startswith("ps:0 ended with status 0; all processes have been ended\n"), error)
        self.assertIn("not a message", error)

    def test_a_process_that_is_killed_ends_all(self) -> None:
        def kill(task: Any, message: dict[str, Any]) -> None:
            os.kill(message["pid"], signal.SIGKILL)

        error = self.error_of("ps:0=serve", "worker:0=hang", on_message=kill)
        self.assertTrue(error.startswith("worker:0 ended with SIGKILL; all processes have been ended\n"), error)

    def test_the_deadline_ends_all_and_shows_where_they_were(self) -> None:
        started = time.monotonic()
        error = self.error_of("worker:0=hang", "worker:1=report", deadline=4)
        self.assertLess(time.monotonic() - started, 15)
        self.assertTrue(error.startswith("not done after 4 seconds; all processes have been ended\n"), error)
        self.assertIn("about to sleep", error)
        self.assertRegex(error, r"obedient\.py\", line \d+ in obey")

    def test_what_looks_for_processes_that_are_left_finds_them(self) -> None:
        marker = uuid.uuid4().hex
        process = subprocess.Popen(["sleep", "600"], env={**os.environ, MARKER: marker})
        try:
            self.assertEqual(processes_of(marker), [process.pid])
        finally:
            process.kill()
            process.wait()
        self.assertEqual(processes_of(marker), [])


class ParentTest(unittest.TestCase):
    """Started from a process that does not get the chance to end what it has started."""

    def start(self, *orders: str) -> tuple[subprocess.Popen[str], str]:
        marker = uuid.uuid4().hex
        command = [sys.executable, str(FOLDER / PROGRAM), *orders]
        options = "_cluster.Options(steps=10, deadline=60, task=None)"
        # A job that runs in the background of a script ignores interrupts, and so do the processes that it starts.
        code = (
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
            f"import _cluster; _cluster.show({command}, {{'worker': {len(orders)}}}, {options}, 'title', ())"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment(marker)},
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process, marker

    def wait_for(self, number: int, marker: str) -> None:
        """Wait until that many of its processes are alive."""
        ends_at = time.monotonic() + 30
        while len(alive := processes_of(marker)) != number:
            self.assertLess(time.monotonic(), ends_at, [commands_of(alive), f"{number} were expected"])
            time.sleep(0.05)

    @parameterized.expand(
        [
            ("killed", "hang", signal.SIGKILL),
            ("terminated", "hang", signal.SIGTERM),
            ("killed_before_a_message", "outlive-and-report", signal.SIGKILL),
            ("killed_before_a_failure", "outlive-and-fail", signal.SIGKILL),
        ]
    )
    @pytest.mark.default_run("one case")
    def test_its_processes_end_with_it(self, name: str, order: str, number: int) -> None:
        process, marker = self.start(f"worker:0={order}", f"worker:1={order}")
        # Both, the processes that they have started, and this one.
        self.wait_for(5, marker)
        process.send_signal(number)
        process.wait()
        self.wait_for(0, marker)

    def test_interrupted_it_ends_them_and_says_so(self) -> None:
        process, marker = self.start("worker:0=interrupt", "worker:1=hang")
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertTrue(errors.endswith("obedient.py: interrupted; all processes have been ended\n"), errors)
        self.assertNotIn("Traceback", errors)
        self.assertEqual(processes_of(marker), [])


class PortsTest(unittest.TestCase):
    def test_a_port_that_was_taken_meanwhile_is_replaced(self) -> None:
        tried = []
        with taken_port() as taken:

            def ports(number: int) -> list[int]:
                tried.append([taken] if not tried else CLUSTER.free_ports(number))
                return tried[-1]

            messages = launch(PROGRAM, {"worker": 1}, "worker:0=listen", ports=ports)
        self.assertEqual(len(tried), 2)
        cluster = messages["worker:0"][0]["config"]["cluster"]
        self.assertEqual(cluster, {"worker": [f"127.0.0.1:{tried[1][0]}"]})

    def test_it_gives_up_if_ports_are_always_taken(self) -> None:
        tried = []
        with taken_port() as taken, self.assertRaisesRegex(CLUSTER.ClusterError, CLUSTER.PORT_TAKEN):
            launch(PROGRAM, {"worker": 1}, "worker:0=listen", ports=lambda _: tried.append(taken) or [taken])
        self.assertEqual(len(tried), CLUSTER.ATTEMPTS)

    def test_tensorflow_says_what_a_taken_port_is_recognized_by(self) -> None:
        with taken_port() as taken, self.assertRaisesRegex(tf.errors.UnknownError, CLUSTER.PORT_TAKEN):
            tf.distribute.Server({"worker": [f"127.0.0.1:{taken}"]}, job_name="worker", task_index=0)
