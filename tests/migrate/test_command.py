"""`mpls migrate`: what it prints and writes, exit statuses, standard input, interruptions."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time

import pytest

from mpls.cli import main
from mpls.migrate.source_text import Edit
from tests.processes import run_python

from .migrating import command, migrated

OLD = "import tensorflow as tf\nopt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(opt, 'dynamic')\n"
NEW = "import tensorflow as tf\nimport mpls.keras\nopt = mpls.keras.LossScaleOptimizer(opt, dynamic=True)\n"
# What is said of the program of which that is the result.
KERAS_3 = "runs with Keras 3 now, as far as the source shows; to train as before, mpls run --keras 2"
LEFT = "import tensorflow as tf\nf.loss_scale()\n"


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("old.py", OLD), ("new.py", NEW), ("left.py", LEFT), ("other.py", "print(1)\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    status, out, err = command(*arguments)
    return status, out.decode(), err


def test_the_diff_is_shown_and_nothing_written(folder: pathlib.Path) -> None:
    status, out, err = run(".")
    assert status == 0
    assert out.splitlines() == [
        "--- ./old.py",
        "+++ ./old.py",
        "@@ -1,2 +1,3 @@",
        " import tensorflow as tf",
        "-opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(opt, 'dynamic')",
        "+import mpls.keras",
        "+opt = mpls.keras.LossScaleOptimizer(opt, dynamic=True)",
    ]
    assert err.splitlines()[0].startswith("./left.py:2: f.loss_scale() is left, as it is not certain")
    assert err.splitlines()[1] == "mpls migrate: 1 of 4 files would change, 1 place left to you"
    assert (folder / "old.py").read_text() == OLD


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("arguments", "is_shown"), [([], False), (["--write"], True), (["--report", "json"], True)])
def test_a_bar_is_shown_on_a_terminal_without_differences(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], is_shown: bool
) -> None:
    for number in range(200):
        (folder / f"{number}.py").write_text("print(1)\n")
    for name, said in (("stdout", Terminal()), ("stderr", Terminal())):
        monkeypatch.setattr(sys, name, said)
    main(["migrate", ".", *arguments])
    assert ("/204" in said.getvalue()) is is_shown
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    main(["migrate", ".", *arguments])
    assert "/204" not in sys.stderr.getvalue()


def test_the_diff_is_coloured_on_a_terminal(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    main(["migrate", "old.py"])
    assert "\x1b[31m-opt" in sys.stdout.getvalue()
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    main(["migrate", "old.py"])
    assert "\x1b" not in sys.stdout.getvalue()


def test_control_characters_do_not_reach_the_terminal(folder: pathlib.Path) -> None:
    (folder / "old.py").write_text(OLD.replace("'dynamic'", "'dynamic') # \x1b[2J\u202e\t("))
    _, out, _ = run("old.py")
    assert "\\x1b[2J\\u202e\t(" in out
    assert "\x1b" not in out


def test_write(folder: pathlib.Path) -> None:
    assert run(".", "--write")[:2] == (0, "")
    assert (folder / "old.py").read_text() == NEW
    status, out, err = run(".", "--write")
    assert (status, out) == (0, "")
    assert err.endswith("mpls migrate: 0 of 4 files changed, 1 place left to you\n")


def test_each_file_is_changed_once_and_none_outside(
    folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "outside.py"
    outside.write_text(OLD)
    (folder / "link.py").symlink_to(outside)
    assert "mpls migrate: 1 of 4 files changed" in run(".", "old.py", "--write")[2]
    assert outside.read_text() == OLD


def test_a_file_is_replaced_from_its_own_folder(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for temporary files may be on another disk, or missing."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
    assert run("old.py", "--write")[0] == 0
    assert (folder / "old.py").read_text() == NEW


def test_check(folder: pathlib.Path) -> None:
    assert run(".", "--check")[0] == 1
    assert run("new.py", "left.py", "--check")[0] == 0
    assert (folder / "old.py").read_text() == OLD
    with pytest.raises(SystemExit, match="2"):
        main(["migrate", ".", "--check", "--write"])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("python2.py", b"print 'mixed_precision'\n", "is not Python 3"),
        ("null.py", b"mixed_precision\0", "is not Python 3"),
        ("encoding.py", b"# mixed_precision \xff\n", "cannot be decoded"),
        ("unknown.py", b"# coding: nothing\n# mixed_precision\n", "cannot be decoded"),
        ("utf7.py", b"# coding: utf-7\n# mixed_precision +AGE-\n", "cannot be written back"),
        ("calls.py", b"mixed_precision" + b".x()" * 700, "is nested too deeply to be read to the end"),
        ("large.py", b"mixed_precision\n" + b"#" * 1_000_000, "is larger than 1000000 bytes"),
        ("old.ipynb", b"mixed_precision", "is not a notebook"),
    ],
)
def test_what_cannot_be_read_is_named_and_the_rest_is_done(
    folder: pathlib.Path, name: str, content: bytes, reason: str
) -> None:
    (folder / name).write_bytes(content)
    status, _, err = run(".", "--write")
    assert status == 2
    assert f"mpls migrate: ./{name} {reason}" in err
    assert "Traceback" not in err
    assert (folder / name).read_bytes() == content
    assert (folder / "old.py").read_text() == NEW


def test_a_folder_that_cannot_be_read(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "closed").mkdir()
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path == "./closed":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    status, _, err = run(".", "--write")
    assert (status, (folder / "old.py").read_text()) == (2, NEW)
    assert "mpls migrate: ./closed cannot be read: Permission denied" in err


def test_a_fault_of_a_rule_breaks_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Edit(0, 6, "export")
    monkeypatch.setattr("mpls.migrate.rewriting._edits_of_imports", lambda analysis: [wrong])
    found = migrated(OLD)
    assert found.after.decode() == OLD
    assert [each.rule for each in found.left] == ["none"]
    assert "the file is left as it is, since the result would be no Python" in found.said


def test_paths_that_are_not_there(folder: pathlib.Path) -> None:
    os.mkfifo(folder / "pipe.py")
    (folder / "empty").mkdir()
    # A file that can be opened alone.
    status, _, err = run("nowhere", "empty", "pipe.py", "/proc/self/mem", "old.py", "--write")
    assert status == 2
    assert [line for line in err.splitlines() if line.startswith("mpls migrate: ")][:4] == [
        "mpls migrate: nowhere is not there",
        "mpls migrate: empty has no Python source in it",
        "mpls migrate: pipe.py is not a file",
        "mpls migrate: /proc/self/mem cannot be read: Input/output error",
    ]
    assert (folder / "old.py").read_text() == NEW


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a path, or - for standard input"),
        (["-", "old.py"], "give - alone"),
        (["old.py", "--only", "nothing"], "there is no rule 'nothing'; mpls migrate --list-rules lists them"),
        (["old.py", "--skip", "contrib,nothing"], "there is no rule 'nothing'"),
    ],
)
def test_misuse(folder: pathlib.Path, arguments: list[str], message: str) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_rules_are_listed_with_what_they_change() -> None:
    status, out, _ = run("--list-rules")
    assert status == 0
    rules = re.split(r"\n\n(?=\S)", out)
    assert len(rules) > 10
    for rule in rules:
        name, text = rule.split("\n", 1)
        assert re.fullmatch(r"[a-z-]+", name)
        assert all(line.startswith("    ") or not line for line in text.splitlines())
        assert len(text.split()) > 20


TF_1 = """import tensorflow as tf
import model
x = tf.placeholder(tf.float32)
opt = tf.train.experimental.MixedPrecisionLossScaleOptimizer(tf.train.AdamOptimizer(), 8)
"""
KERAS_2 = """import tensorflow as tf
class Own(tf.keras.optimizers.Optimizer):
    def _resource_apply_dense(self): pass
opt = tf.keras.mixed_precision.experimental.LossScaleOptimizer(Own(), 'dynamic')
print(opt.loss_scale())
"""


@pytest.mark.parametrize("options", [(), ("--write",), ("--check",)])
def test_what_the_result_still_needs(folder: pathlib.Path, options: tuple[str, ...]) -> None:
    for name, text in (("train.py", TF_1), ("model.py", KERAS_2)):
        (folder / name).write_text(text)
    _, _, err = run("model.py", *options)
    # Not --as-of 2.3, which the call of loss_scale needed.
    assert err.splitlines()[-1] == "mpls migrate: model.py still needs mpls run --keras 2 --legacy-optimizers"
    if options == ("--write",):
        (folder / "model.py").write_text(KERAS_2)
    (folder / "main.py").write_text("import tensorflow as tf\nimport model\nx = tf.placeholder(tf.float32)\n")
    # What the module needs, the programs that import it need, also one that does not change.
    status, _, err = run(".", *options)
    assert status == (options == ("--check",))
    changed = "changed" if options == ("--write",) else "would change"
    assert [line for line in err.splitlines() if line.startswith("mpls migrate")] == [
        f"mpls migrate: 3 of 7 files {changed}, 1 place left to you",
        f"mpls migrate: ./old.py {KERAS_3}",
        "mpls migrate: ./main.py, ./train.py still need mpls run --v1 --keras 2 --legacy-optimizers, or tf_upgrade_v2 of "
        "TensorFlow, as it uses tf.placeholder",
    ]


def test_what_the_result_still_needs_in_other_forms(folder: pathlib.Path) -> None:
    need = "still needs mpls run --keras 2 --legacy-optimizers"
    assert migrated(KERAS_2).said.splitlines()[-1] == f"mpls migrate: <stdin> {need}"
    for name in ("a.py", "b.py", "c.py", "d.py"):
        (folder / name).write_text(KERAS_2)
    several = f"a.py, b.py, c.py and 1 more {need.replace('needs', 'need')}"
    for form in ("text", "json"):
        _, out, err = run("a.py", "b.py", "c.py", "d.py", "--report", form)
        assert several in out
        assert err == ""
    cells = [{"cell_type": "code", "source": KERAS_2.splitlines(keepends=True)}]
    (folder / "old.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    assert "old.ipynb still needs mpls run --keras 2" in run("old.ipynb")[2]
    (folder / "new.ipynb").write_text(
        json.dumps({"cells": [cells[0] | {"source": OLD}], "metadata": {}, "nbformat": 4})
    )
    assert f"new.ipynb {KERAS_3}" in " ".join(run("new.ipynb")[2].split())
    (folder / "gone.py").write_text(f"{OLD}tf.contrib.slim.x\n")
    assert "gone.py still uses tf.contrib.slim, which no option brings back: " in run("gone.py")[2]
    (folder / "a.py").write_text(f"{OLD}x = tf.placeholder(tf.float32)\ntf.GradientTape()\n")
    assert "a.py still leaves --v1 to you, as its lines disagree: mpls doctor has them" in run("a.py")[2]


@pytest.mark.parametrize(
    ("pin", "release"),
    [
        ("tensorflow==2.2.0", "2.2"),
        ("tensorflow==2.6.0", ""),
        ("tensorflow", ""),
    ],
)
def test_the_release_that_a_file_beside_the_program_pins(folder: pathlib.Path, pin: str, release: str) -> None:
    line = f"t.py was written for {release}, requirements.txt:2: give --as-of {release}"
    (folder / "requirements.txt").write_text(f"numpy\n{pin}\n")
    for text in (f"{OLD}print(opt.loss_scale())\n", OLD):
        (folder / "t.py").write_text(text)
        for options in ((), ("--as-of", "2.4"), ("--report", "json"), ("--write",)):
            _, out, err = run("t.py", *options)
            is_said = bool(release) and options[:1] != ("--as-of",)
            assert (line in out + err) is is_said
            assert ("was written for" in out + err) is is_said
    (folder / "config.py").write_text(f"{OLD}opt.get_config()['loss_scale']\n")
    assert f"as it had up to TF 2.3: give --as-of {release or '2.3'} [" in run("config.py")[2]
    # After the migration there is no wrapper that the release is to be given for.
    assert "was written for" not in run("t.py")[2]
    (folder / "plain.py").write_text(
        "import tensorflow as tf\ntf.train.experimental.MixedPrecisionLossScaleOptimizer(o, 8)\n"
    )
    assert "was written for" not in run("plain.py")[2]


def test_a_rule_that_is_skipped_installs_nothing(folder: pathlib.Path) -> None:
    (folder / "old.py").write_text(f"{OLD}print(opt.get_config())\n")
    for skipped in ("", "loss-scale-objects"):
        _, out, _ = run("old.py", "--as-of", "2.3", *(["--skip", skipped] if skipped else []))
        assert ("mpls.install(" in out) is not bool(skipped)


def test_json(folder: pathlib.Path) -> None:
    (folder / "python2.py").write_text("print 'mixed_precision'")
    status, out, err = run(".", "--report", "json")
    assert (status, err) == (2, "")
    report = json.loads(out)
    assert report["looked_at"] == 5
    assert report["is_written"] is False
    files = {each["path"]: each for each in report["files"]}
    assert set(files) == {"./old.py", "./left.py", "./python2.py"}
    assert files["./python2.py"]["unread"][0].startswith("is not Python 3")
    (message,) = files["./old.py"]["messages"]
    assert message["text"].startswith("tf.keras.mixed_precision.experimental.LossScaleOptimizer becomes mpls.keras")
    assert {key: message[key] for key in ("cell", "line", "rule", "kind")} == {
        "cell": None,
        "line": 2,
        "rule": "experimental-wrapper",
        "kind": "changed",
    }


def test_text_report(folder: pathlib.Path) -> None:
    _, out, _ = run(".", "--report", "text", "--write")
    lines = out.splitlines()
    assert lines[0].startswith("./left.py:2: left: f.loss_scale() is left")
    assert lines[1].startswith("./old.py:2: changed: tf.keras.mixed_precision.experimental.LossScaleOptimizer becomes")
    assert lines[1].endswith("[experimental-wrapper]")
    assert lines[2:] == ["1 of 4 files changed, 1 place left to you", f"./old.py {KERAS_3}"]


def test_standard_input() -> None:
    crlf = OLD.replace("\n", "\r\n").encode()
    assert migrated(crlf)[:2] == (0, NEW.replace("\n", "\r\n").encode())
    assert migrated(NEW)[:2] == (0, NEW.encode())
    assert command("-", "--check", stdin=OLD.encode())[0] == 1
    assert command("-", stdin=OLD.encode())[1].startswith(b"--- <stdin>\n+++ <stdin>\n@@")
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [code | {"source": OLD.splitlines(keepends=True)}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    for start in (b"", b"\xef\xbb\xbf", b"\n"):
        status, new, _ = migrated(start + json.dumps(notebook).encode())
        assert status == 0
        assert new.startswith(start)
        assert "".join(json.loads(new.decode("utf-8-sig"))["cells"][0]["source"]) == NEW
    # What cannot be read goes through as it came.
    assert migrated("print 'mixed_precision'")[:2] == (2, b"print 'mixed_precision'")


def test_modes_and_links_stay(folder: pathlib.Path) -> None:
    path, link = folder / "old.py", folder / "link.py"
    path.chmod(0o751)
    link.symlink_to("old.py")
    run("link.py", "--write")
    assert link.is_symlink()
    assert path.read_text() == NEW
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    path.write_text(OLD)
    path.chmod(0o444)
    status, out, err = run("link.py", "--write")
    assert (status, path.read_text()) == (2, OLD)
    assert "link.py cannot be written: Permission denied" in err
    assert "0 of 1 file changed, 1 file not read or not written" in out + err
    assert sorted(os.listdir(folder)) == ["left.py", "link.py", "new.py", "old.py", "other.py"]


def test_a_file_that_changes_meanwhile_is_left(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "second.py").write_text(OLD)
    # While the first is written.
    monkeypatch.setattr(os, "fsync", lambda _: (folder / "second.py").write_text("# of somebody else\n"))
    status, _, err = run("old.py", "second.py", "--write")
    assert status == 2
    assert "second.py has changed while it was migrated" in err
    assert (folder / "old.py").read_text() == NEW
    assert (folder / "second.py").read_text() == "# of somebody else\n"


@pytest.mark.parametrize("call", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "interrupted"]
)
def test_an_interrupted_write_leaves_the_old_file(
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    error: BaseException,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, call, fail)
    if isinstance(error, OSError):
        status, _, err = run("old.py", "--write")
        assert status == 2
        assert "old.py cannot be written: No space left on device" in err
    else:
        status, _, err = run("old.py", "--write")
        assert status == 130
        assert err == "mpls migrate: interrupted; 0 of 1 file changed\n"
    assert (folder / "old.py").read_text() == OLD
    assert sorted(os.listdir(folder)) == ["left.py", "new.py", "old.py", "other.py"]


def test_no_framework_is_loaded_and_nothing_of_the_program_runs(folder: pathlib.Path) -> None:
    (folder / "old.py").write_text(f"{OLD}open('ran', 'w')\n")
    code = (
        "import sys; from mpls.cli import main; main(['migrate', '.', '--write', '--report', 'json'])\n"
        "print(sorted({'tensorflow', 'keras', 'tf_keras', 'numpy', 'old'} & set(sys.modules)), file=sys.stderr)"
    )
    assert run_python("-c", code).stderr == "[]\n"
    assert not (folder / "ran").exists()


def test_the_hook_of_pre_commit_is_a_command(folder: pathlib.Path) -> None:
    text = (pathlib.Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text()
    entry = re.search(r"^  entry: mpls (.+)$", text, re.MULTILINE)
    assert entry is not None
    assert main([*entry[1].split(), "old.py", "new.py"]) == 0
    assert (folder / "old.py").read_text() == NEW


@pytest.mark.skipif(multiprocessing.get_start_method() != "fork", reason="workers are children of another process")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_a_killed_command(folder: pathlib.Path, number: signal.Signals) -> None:
    (folder / "old.py").write_text(OLD * 200)
    for place in range(300):
        os.link("old.py", f"{place}.py")
    program = [sys.executable, "-m", "mpls", "migrate", ".", "--jobs", "2"]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while len(workers := list(map(int, children.read_text().split()))) < 2:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        process.wait()
        end = time.monotonic() + 5
        while any(map(_is_running, workers)) and time.monotonic() < end:
            time.sleep(0.05)
        left = [each for each in workers if _is_running(each)]
        for each in left:
            os.kill(each, signal.SIGKILL)
    assert left == []


def _is_running(number: int) -> bool:
    try:
        return ") Z" not in pathlib.Path(f"/proc/{number}/stat").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.programs
def test_ctrl_c_is_a_sentence(tmp_path: pathlib.Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number}.py").write_text(OLD * 20)
    # What starts in the background of a shell ignores it, as Python then does.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); print(1, flush=True)\n"
    arguments = [sys.executable, "-c", f"{program}from mpls.cli import main\nraise SystemExit(main())"]
    with subprocess.Popen(
        [*arguments, "migrate", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        # It is in the middle of showing differences.
        process.stdout.read(1000)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, b"mpls migrate: interrupted\n")
