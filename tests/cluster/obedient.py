"""A program without TensorFlow that does what each task is told; run by the tests of the launcher.

Usage: obedient.py JOB:INDEX=ORDER... --task JOB:INDEX

Orders: `report` its TF_CONFIG; `listen` on its port, as a server of TensorFlow would, and then report; `fail`; `hang`,
deaf to SIGTERM, with a process of its own; `serve` until it is ended; `interrupt` the process that has started it;
`outlive-and-fail` or `outlive-and-report`: with a process of its own, wait until that one has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from unittest import mock

import _cluster


def obey(order: str) -> None:
    config = json.loads(os.environ["TF_CONFIG"])
    task = config["task"]
    if order == "listen":
        with socket.socket() as server:
            try:
                server.bind(("", int(config["cluster"][task["type"]][task["index"]].rpartition(":")[2])))
            except OSError:
                sys.exit(_cluster.PORT_TAKEN)
    if order in ("listen", "report"):
        print("not a message")
        _cluster.say(config=config)
        _cluster.say(pid=os.getpid())
    elif order == "fail":
        sys.exit("a reason to fail")
    elif order == "interrupt":
        os.kill(os.getppid(), signal.SIGINT)
    if order in ("hang", "serve", "interrupt"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
        print("about to sleep", file=sys.stderr, flush=True)
        if order == "hang":
            _cluster.say(step=1, scale=8, pid=os.getpid())
        time.sleep(600)
    if order.startswith("outlive"):
        outlive(order)


def outlive(order: str) -> None:
    parent = os.getppid()
    subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
    while os.getppid() == parent:
        time.sleep(0.05)
    if order == "outlive-and-report":
        _cluster.say(pid=os.getpid())
    sys.exit("a reason to fail")


def main() -> None:
    *orders, _, name = sys.argv[1:]
    order = dict(order.split("=") for order in orders)[name]
    # As if the thread that waits for the end of the parent had no turn.
    late = mock.patch.object(threading.Thread, "start") if order.startswith("outlive") else contextlib.nullcontext()
    with late, _cluster.member():
        obey(order)


if __name__ == "__main__":
    main()
