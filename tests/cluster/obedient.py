"""A program without TensorFlow that does what each task is told; run by the tests of the launcher.

Usage: obedient.py JOB:INDEX=ORDER... --task JOB:INDEX

Orders: `fail`; `serve` until it is ended, deaf to SIGTERM, with a process of its own; `hang`: serve after a message.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import _cluster


def obey(order: str) -> None:
    if order == "fail":
        sys.exit("a reason to fail")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
    print("about to sleep", file=sys.stderr, flush=True)
    if order == "hang":
        _cluster.say(step=1, scale=8, pid=os.getpid())
    time.sleep(600)


if __name__ == "__main__":
    *orders, _, name = sys.argv[1:]
    with _cluster.member():
        obey(dict(order.split("=") for order in orders)[name])
