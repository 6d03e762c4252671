"""What Python does while a file is read: opened files, started processes, imports, code."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import tempfile
from typing import Any

from tests.saved.mutations.canary import SPY

# The starts of events.
_NEVER = (
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.startfile", "os.kill", "subprocess.Popen"),
    *("pty.spawn", "socket.", "urllib.", "ftplib.", "smtplib.", "http.client.", "webbrowser.", "ctypes.dlopen"),
    *(
        "pickle.find_class",
        "shutil.chown",
        "os.chown",
        "os.chmod",
        "os.chflags",
        "builtins.input",
        "builtins.breakpoint",
    ),
    *("builtins.breakpoint", "cpython.run_", "code.__new__", "signal.pthread_kill", "syslog.", "sqlite3."),
)
# What they take first is a path; some take another.
_WRITES = (
    *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.utime"),
    *("os.setxattr", "shutil.rmtree", "shutil.copy", "shutil.move", "shutil.make_archive", "shutil.unpack_archive"),
    *("tempfile.mkstemp", "tempfile.mkdtemp"),
)
_READS = ("os.listdir", "os.scandir", "os.walk", "os.chdir", "glob.glob")
_SYSTEM = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/", "/dev/null", "/dev/urandom", "/etc/mime.types")
# Imported where something is wrong, or first asked for.
_LAZY = {
    "traceback",
    "linecache",
    "difflib",
    "encodings",
    "unicodedata",
    "textwrap",
    "pprint",
    "_strptime",
    "stringprep",
}
_LONGEST = 20


class Audit:
    """Hears of everything that Python reports, and keeps what no reader of a file should do."""

    def __init__(self) -> None:
        self._listens = self._learns = False
        self._events: list[str] = []
        self._learned: set[str] = set()
        self._known: set[str] = set()
        self._folder = ""
        self._temporary = os.path.realpath(tempfile.gettempdir())
        roots = {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
        roots |= {os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))}
        roots |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))} | {site.getuserbase()}
        self._roots = tuple(f"{os.path.realpath(root)}{os.sep}" for root in roots)
        sys.addaudithook(self._hear)
        # Python reports imports by statements only.
        sys.meta_path.insert(0, self)

    def start(self, folder: str, learns: bool = False) -> None:
        """Listen from now on.

        Args:
            folder: where the case is, which may be read.
            learns: whether it is an honest file, and what is opened and imported is allowed from now on.
        """
        self._folder, self._learns, self._events = os.path.realpath(folder), learns, []
        self._known = {name.partition(".")[0] for name in sys.modules} | _LAZY
        self._listens = True

    def stop(self) -> list[str]:
        self._listens = False
        # It is to be imported anew where the next file has it imported.
        sys.modules.pop(SPY, None)
        return self._events[:_LONGEST]

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Note that a module is looked for, as a finder of modules that finds none."""
        if self._listens and name.partition(".")[0] not in self._known:
            self._note("import", f"import of {name!r}")

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._listens:
            return
        # What is done here is heard too.
        self._listens = False
        try:
            found = self._judged(event, arguments)
            if found:
                self._note(event, found)
        finally:
            self._listens = True

    def _note(self, event: str, found: str) -> None:
        if self._learns:
            self._learned.add(found)
        if found not in self._learned or event.startswith(("os.system", "subprocess", "socket")):
            self._events.append(found)

    def _judged(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        """Return in words what is wrong about an event, if something is."""
        if event == "open":
            return self._opened(*arguments)
        if event == "marshal.loads":
            # Python itself reads compiled modules like this.
            caller = sys._getframe(2).f_code.co_filename
            return None if "importlib._bootstrap" in caller else f"marshal.loads in {caller}"
        if event.startswith(_NEVER):
            return f"{event} {arguments!r:.200}"
        if event.startswith(_WRITES):
            paths = [each for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike)]
            wrong = [path for path in paths if not self._is_temporary(self._real(path))]
            return f"{event} {wrong!r:.300}" if wrong else None
        if event.startswith(_READS):
            return self._read(event, arguments[0])
        return None

    def _opened(self, path: Any, mode: Any, flags: Any) -> str | None:
        if isinstance(path, int) or path is None:
            return None
        writes = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if writes:
            real = self._real(path)
            allowed = self._is_temporary(real) or real == "/dev/null" or real.endswith(".pyc") or ".pyc." in real
            return None if allowed else f"open {real} for writing"
        return self._read("open", path)

    def _read(self, event: str, path: Any) -> str | None:
        if isinstance(path, int) or path is None:
            return None
        real = self._real(path)
        if real.startswith((*self._roots, *_SYSTEM)) or f"{real}{os.sep}" in self._roots or self._is_temporary(real):
            return None
        inside = real == self._folder or real.startswith(f"{self._folder}{os.sep}")
        return None if inside else f"{event} {real}"

    def _real(self, path: Any) -> str:
        try:
            text = os.fsdecode(path)
            if not os.path.isabs(text) and ".." not in text:
                # In whatever folder is open, as where a folder is removed; in the working folder it would be seen.
                return self._temporary
            return os.path.realpath(text)
        except ValueError:
            # No path: opening it fails.
            return self._temporary

    def _is_temporary(self, real: str) -> bool:
        return real == self._temporary or real.startswith(f"{self._temporary}{os.sep}")
