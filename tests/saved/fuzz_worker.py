"""The process that makes mutated files, reads them one after the other, and says what happened meanwhile.

`fuzz_driver` starts it in a folder of its own, and sends kinds and seeds, the folder for today's files, and after how
many seconds a case hangs, as JSON. The answers are two lines of JSON for each case: what was made, and what came of it.
"""

from __future__ import annotations

import collections
import ctypes
import faulthandler
import functools
import json
import math
import os
import pathlib
import resource
import shutil
import signal
import struct
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import h5py

from mpls.errors import MplsError, SavedStateError
from mpls.inspect import inspect, text_of
from mpls.saved.reading import read
from tests.saved.fuzz_cases import make
from tests.saved.fuzz_payloads import Canary
from tests.untrusted.payloads import SPY

IS_WATCHED = sys.platform == "linux"
# A file that asks for more gets an error, and the machine goes on.
_ADDRESSES = 12 << 30
_STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "subprocess.Popen", "pty.spawn")
_STARTS += ("socket.connect", "socket.getaddrinfo", "urllib.Request", "webbrowser.open")
# Of inotify.
_ALL_EVENTS = 0xFFF


class Watch:
    """Sees that somebody opens what is in a folder, native code included; on Linux only."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        if IS_WATCHED:
            self._library = ctypes.CDLL(None, use_errno=True)
            self._descriptor = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.renew()

    def renew(self) -> None:
        """Watch the folder that is there now, and forget what has happened."""
        for path in (self._folder, self._folder / "saved_model") if IS_WATCHED else ():
            if self._library.inotify_add_watch(self._descriptor, os.fsencode(path), _ALL_EVENTS) < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch failed", str(path))
        self.seen()

    def seen(self) -> list[str]:
        """Return the names of files to which something has happened since the last call."""
        found: set[str] = set()
        while IS_WATCHED:
            try:
                content = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                break
            while content:
                length = struct.unpack_from("iIII", content)[3]
                found.add(content[16 : 16 + length].rstrip(b"\x00").decode("utf-8", "replace"))
                content = content[16 + length :]
        return sorted(found)


class Audit:
    """Hears from Python of processes that are started, and of whatever is done with the canary's folder."""

    def __init__(self, canary: Canary) -> None:
        self.events: list[str] = []
        self.listens = False
        self._folder = str(canary.folder)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.listens and (event.startswith(_STARTS) or (event != "compile" and self._is_outside(arguments))):
            self.listens = False
            self.events.append(f"{event} {arguments!r:.200}")
            self.listens = True

    def _is_outside(self, arguments: tuple[Any, ...]) -> bool:
        # Names of modules and texts of code are no paths.
        paths = [os.fsdecode(each) for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike)]
        return any(path.startswith(self._folder) for path in paths)


def _inspect(path: str, honest: str) -> None:
    """Read a file in all the ways that `mpls inspect` has, which agree."""
    refused = None
    try:
        record = read(path)
    except SavedStateError as error:
        refused = error
    else:
        scales = [each.loss_scale.scale for each in record.optimizers if each.loss_scale is not None]
        assert all(scale is None or 0 < scale < math.inf for scale in scales), f"scales {scales}"
    _, text = inspect(path, as_json=True)
    description = json.loads(text)
    # Both are printed.
    (text + text_of(description)).encode("utf-8")
    # Messages of HDF5 have times and addresses in them.
    assert (description["status"] == "ok") == (refused is None), "inspect says else than read"
    if refused is not None:
        raise refused


def _load_model(path: str, honest: str) -> None:
    from mpls.keras import load_model

    model = load_model(path)
    scale = float(getattr(model.optimizer, "loss_scale", 1.0))
    assert 0 < scale < math.inf, f"a scale of {scale}"


def _convert_state(path: str, honest: str) -> None:
    import keras
    import tensorflow as tf
    import tf_keras

    import mpls
    import mpls.keras

    wanted = _unchanged(honest)
    # Either, and always the same for a file.
    k: Any = keras if sum(map(ord, wanted.algorithm or "")) % 2 else tf_keras
    inner = getattr(k.optimizers, wanted.algorithm or "SGD", k.optimizers.SGD)(0.5)
    optimizer = mpls.keras.LossScaleOptimizer(inner)
    shapes = [next(iter(each.slots.values())).shape if each.slots else () for each in wanted.variables]
    variables = [(keras.Variable if k is keras else tf.Variable)(tf.zeros(shape)) for shape in shapes]
    names = [each.key or each.name for each in wanted.variables]
    target: Any = dict(zip(names, variables, strict=True)) if all(names) else variables
    mpls.convert_state(path, optimizer, target, key=wanted.key)
    scale = float(optimizer.loss_scale)
    assert 0 < scale < math.inf, f"a scale of {scale}"


@functools.cache
def _unchanged(path: str) -> Any:
    """Return the optimizer in a file that was not changed."""
    return read(path).optimizers[0]


def _hole(path: str, honest: str) -> None:
    """What the harness is to see; for its own tests."""
    holes: dict[str, Callable[[], Any]] = {
        "nothing": lambda: None,
        "hang": lambda: collections.deque(iter(int, 1), maxlen=0),
        "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
        "raise": lambda: {}["x"],
        "open": lambda: pathlib.Path("../outside/secret.txt").resolve().read_bytes(),
        "natively": lambda: h5py.File("../outside/secret.h5").close(),
        "write": lambda: pathlib.Path("left").write_text(""),
        "process": lambda: os.system("true"),
        "import": lambda: __import__(SPY),
    }
    holes[path]()


_ACTIONS: dict[str, Callable[[str, str], None]] = {
    "inspect": _inspect,
    "load_model": _load_model,
    "convert_state": _convert_state,
    "hole": _hole,
}


def _outcome(action: Callable[[str, str], None], path: str, honest: str) -> tuple[str, str, str]:
    """Do something, and return what came of it, and the message and traceback of an error."""
    try:
        # Settings that are changed may be ones that the frameworks warn about.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action(path, honest)
    except MplsError as error:
        return "refused", str(error), ""
    except MemoryError:
        # What a file may cost is not limited.
        return "cost", "", ""
    except (Exception, SystemExit) as error:
        return "raised", f"{type(error).__name__}: {error!s:.1000}", traceback.format_exc(limit=-12)
    return "read", "", ""


class Worker:
    """Runs cases in a folder: `case` in it has the case's file, and nothing else in it but `temporary` may change."""

    def __init__(self, base: pathlib.Path) -> None:
        self._base = base
        self._canary = Canary(base)
        sys.path.append(str(self._canary.modules))
        self._watch = Watch(self._canary.folder)
        self._audit = Audit(self._canary)

    def make(self, kind: str, seed: int, of_today: str) -> tuple[str, str, str]:
        """Write a case, and return what it is."""
        folder = self._base / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if kind.startswith("hole/"):
            return kind, kind.partition("/")[2], ""
        if not kind.startswith("inspect/"):
            # What they start as they are imported is not the file's doing.
            import keras  # noqa: F401
            import tf_keras  # noqa: F401
        return make(kind, seed, folder, self._canary, pathlib.Path(of_today))

    def run(self, kind: str, made: tuple[str, str, str]) -> dict[str, Any]:
        """Do what a kind says, and return what came of it."""
        action, (_, path, honest) = kind.partition("/")[0], made
        if action == "convert_state":
            _unchanged(honest)
        before = self._files()
        self._watch.seen()
        self._audit.events, self._audit.listens = [], True
        outcome, detail, trace = _outcome(_ACTIONS[action], path, honest)
        self._audit.listens = False
        causes = [f"raised: {detail}"] if outcome == "raised" else []
        causes += [f"heard: {event}" for event in self._audit.events[:20]]
        if touched := self._watch.seen():
            causes.append(f"outside the file: {', '.join(touched)}")
        if sys.modules.pop(SPY, None) is not None:
            causes.append(f"imported {SPY}")
        if changed := before ^ self._files():
            causes.append(f"changed files: {sorted(name for name, _, _ in changed)}")
        if causes:
            self._canary.fill()
            self._watch.renew()
            for left in self._base.glob("working/*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        return {"outcome": outcome, "causes": causes, "trace": trace[-6000:]}

    def _files(self) -> set[tuple[str, int, int]]:
        """Return all that is there, where temporary files are not."""
        found = set()
        for folder, folders, files in os.walk(self._base):
            folders[:] = [name for name in folders if name not in ("temporary", "__pycache__")]
            found |= {(os.path.join(folder, name), 0, 0) for name in folders}
            for path in (os.path.join(folder, name) for name in files):
                found.add((path, os.lstat(path).st_size, os.lstat(path).st_mtime_ns))
        return found


def main() -> None:
    orders = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # What frameworks print goes where errors go.
    os.dup2(2, 1)
    faulthandler.enable()
    # What hangs, running or waiting, says where it is, and ends.
    for number in (signal.SIGPROF, signal.SIGALRM):
        faulthandler.register(number, chain=True)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = _ADDRESSES if most == resource.RLIM_INFINITY else min(most, _ADDRESSES)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    worker = Worker(pathlib.Path.cwd().parent)
    for kind, seed in orders["cases"]:
        made = worker.make(kind, seed, orders["of_today"])
        answers.write(json.dumps(made[0]) + "\n")
        signal.setitimer(signal.ITIMER_PROF, orders["hangs"])
        signal.setitimer(signal.ITIMER_REAL, 10 * orders["hangs"])
        came = worker.run(kind, made)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(json.dumps(came) + "\n")
