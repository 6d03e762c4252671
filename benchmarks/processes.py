"""Processes of their own for what is measured, and the memory that a process takes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import Any

# Of memory that is kept for later, by oneDNN's allocator or by that of C, the kernel knows no peak.
_ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "0", "MALLOC_MMAP_THRESHOLD_": "131072", "TF_CPP_MIN_LOG_LEVEL": "3"}


def result_of(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module in a new process, and return what it prints last, an object in JSON.

    Raises:
        RuntimeError: it failed; the message has what it wrote to standard error.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, **_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def reset_peak() -> int:
    """Have the kernel forget the peak of the resident memory, and return the memory that is resident now."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def peak() -> int:
    """Return the peak of the resident memory since `reset_peak`."""
    with open("/proc/self/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
