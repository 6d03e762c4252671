"""The launcher that the examples and these tests share: it ends what it has started, whatever happens."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import unittest
import uuid
from typing import Any

import pytest
import tensorflow as tf

from .launcher import CLUSTER, FOLDER, MARKER, commands_of, environment, launch, processes_of

PROGRAM = "obedient.py"


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

    def test_a_process_that_is_killed_ends_all(self) -> None:
        def kill(task: Any, message: dict[str, Any]) -> None:
            os.kill(message["pid"], signal.SIGKILL)

        error = self.error_of("ps:0=serve", "worker:0=hang", on_message=kill)
        self.assertTrue(error.startswith("worker:0 ended with SIGKILL; all processes have been ended\n"), error)

    def test_the_deadline_ends_all_and_shows_where_they_were(self) -> None:
        started = time.monotonic()
        error = self.error_of("worker:0=hang", "worker:1=hang", deadline=4)
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


def test_processes_end_with_the_one_that_has_started_them() -> None:
    """Even if it is killed, and does not get the chance to end them."""
    marker = uuid.uuid4().hex
    command = [sys.executable, str(FOLDER / PROGRAM), "worker:0=hang", "worker:1=hang"]
    options = "_cluster.Options(steps=10, deadline=60, task=None)"
    code = f"import _cluster; _cluster.show({command}, {{'worker': 2}}, {options}, 'title', ())"
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **environment(marker)})
    # Both, the processes that they have started, and this one.
    for number in (5, 0):
        ends_at = time.monotonic() + 30
        while len(alive := processes_of(marker)) != number:
            assert time.monotonic() < ends_at, (commands_of(alive), f"{number} were expected")
            time.sleep(0.05)
        process.kill()
    process.wait()


def test_tensorflow_says_what_a_taken_port_is_recognized_by() -> None:
    """The launcher takes other ports then."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(tf.errors.UnknownError, match=CLUSTER.PORT_TAKEN):
            tf.distribute.Server({"worker": [address]}, job_name="worker", task_index=0)
