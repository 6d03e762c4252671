"""A process that reads mutated files, one after the other, and says what Python did meanwhile.

Started by `fuzz_driver`, which sends a JSON object per line: what to do, with which file. The answer is a JSON object
per line: what came of it. `python -m tests.saved.fuzz_worker inspect` never imports a framework,
`python -m tests.saved.fuzz_worker frameworks` does at once.
"""

from __future__ import annotations

import faulthandler
import functools
import importlib
import json
import math
import os
import pathlib
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from mpls.errors import MplsError, SavedStateError
from mpls.formats.record import FileRecord
from mpls.inspect import inspect, text_of
from mpls.saved.reading import read
from tests.saved.auditing import Audit

# Beyond it nothing is allocated, so that a bomb does no harm to others on the machine.
_ADDRESSES = 24 << 30
_LONGEST_MESSAGE = 20_000

Answer = dict[str, Any]


class Odd(Exception):
    """A file was read, and what came out should not have."""


def problems_of(record: FileRecord) -> Iterator[str]:
    """Yield what in a record no optimizer can have."""
    for optimizer in record.optimizers:
        if optimizer.iterations is not None and optimizer.iterations < 0:
            yield f"iterations {optimizer.iterations}"
        loss_scale = optimizer.loss_scale
        if loss_scale is None:
            continue
        for name in ("scale", "initial_scale", "multiplier"):
            value = getattr(loss_scale, name)
            if value is not None and not 0 < value < math.inf:
                yield f"{name} {value}"
        steps, period = loss_scale.good_steps, loss_scale.growth_steps
        if steps is not None and (steps < 0 or (period is not None and steps > max(period, 1))):
            yield f"good_steps {steps}"


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Odd(what)


def _inspect(path: str, honest: str) -> None:
    """Read a file in all the ways that `mpls inspect` has, which agree."""
    refused = None
    try:
        record = read(path)
    except SavedStateError as error:
        _require(str(error).startswith(str(pathlib.Path(path).parent)), f"a message without the path: {error!s:.300}")
        refused = error
    else:
        problems = list(problems_of(record))
        _require(not problems, f"impossible state: {problems}")
    status, text = inspect(path, as_json=True)
    description = json.loads(text)
    shown = text_of(description)
    # They are printed.
    (text + shown).encode("utf-8")
    _require(bool(shown), "no text")
    frameworks = [name for name in ("tensorflow", "tf_keras", "keras", "jax", "torch") if name in sys.modules]
    _require(not frameworks, f"imported {frameworks}")
    if refused is not None:
        _require(description["reason"] == str(refused) and status in (1, 2), "inspect says else than read")
        raise refused
    _require(description["status"] == "ok" and status == 0, f"inspect says {description['status']}, read does not")


def _load_model(path: str, honest: str) -> None:
    from mpls.keras import load_model

    model = load_model(path)
    scale = float(getattr(model.optimizer, "loss_scale", 1.0))
    _require(0 < scale < math.inf, f"a scale of {scale}")
    _require_no_secrets(model)


def _unsafe(path: str, honest: str) -> None:
    """As a user who trusts the file; for tests of the harness."""
    from mpls.keras import load_model

    load_model(path, safe_mode=False)


def _require_no_secrets(model: Any) -> None:
    import numpy as np

    from tests.saved.mutations.canary import MARK, WORD

    of_optimizer = getattr(getattr(model, "optimizer", None), "variables", [])
    of_optimizer = of_optimizer() if callable(of_optimizer) else of_optimizer
    for variable in [*model.weights, *of_optimizer] if model.built else []:
        value = np.asarray(variable)
        found = value.dtype.kind == "f" and bool((value == MARK).any())
        _require(not found, f"values from outside the file in {getattr(variable, 'name', variable)!r}")
    for layer in getattr(model, "layers", []):
        if hasattr(layer, "get_vocabulary"):
            _require(WORD not in list(map(str, layer.get_vocabulary())), f"words from outside the file in {layer.name}")


def _convert_state(path: str, honest: str) -> None:
    import keras
    import tf_keras

    import mpls
    import mpls.keras

    wanted = _unchanged(honest)
    # Either, and always the same for a file.
    k = keras if sum(map(ord, pathlib.Path(honest).parent.name)) % 2 else tf_keras
    inner = getattr(k.optimizers, wanted.algorithm or "SGD", k.optimizers.SGD)(0.5)
    optimizer = mpls.keras.LossScaleOptimizer(inner)
    shapes = [next(iter(each.slots.values())).shape if each.slots else () for each in wanted.variables]
    make = keras.Variable if k is keras else _tf_variable
    variables = [make(_zeros(shape)) for shape in shapes]
    names = [each.key or each.name for each in wanted.variables]
    target: Any = dict(zip(names, variables, strict=True)) if all(names) else variables
    mpls.convert_state(path, optimizer, target, key=wanted.key)
    scale = float(optimizer.loss_scale)
    _require(0 < scale < math.inf, f"a scale of {scale}")


@functools.cache
def _unchanged(path: str) -> Any:
    """Return the optimizer in a file that was not changed."""
    return read(path).optimizers[0]


def _zeros(shape: tuple[int, ...]) -> Any:
    import numpy as np

    return np.zeros(shape, np.float32)


def _tf_variable(value: Any) -> Any:
    import tensorflow as tf

    return tf.Variable(value)


def _from_config(path: str, honest: str) -> None:
    from mpls.keras import LossScaleOptimizer

    config = json.loads(pathlib.Path(path).read_text())
    try:
        optimizer = LossScaleOptimizer.from_config(config)
    except (TypeError, ValueError) as error:
        # The frameworks' own are about the settings of their optimizers.
        raise SavedStateError(repr(error)) from error
    _require(0 < optimizer.initial_scale < math.inf, f"a scale of {optimizer.initial_scale}")
    steps = optimizer.dynamic_growth_steps
    _require(isinstance(steps, int if optimizer.dynamic else type(None)), f"growth steps {steps!r}")


def _build(path: str, honest: str) -> None:
    from tests.saved.mutations import fresh

    fresh.build(pathlib.Path(path), few=honest == "few")


def _hole(path: str, honest: str) -> None:
    """What the harness is to see; for its own tests."""
    holes: dict[str, Callable[[], Any]] = {
        "nothing": lambda: None,
        "spin": lambda: _spin(float(honest)),
        "memory": lambda: bytearray(b"x") * int(honest),
        "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
        "open": lambda: pathlib.Path(honest).read_bytes(),
        "command": lambda: os.system(honest),
        "import": lambda: importlib.import_module(honest),
        "raise": lambda: {}[honest],
        "leave": lambda: (pathlib.Path(honest) / "left").write_text(""),
    }
    holes[path]()


def _spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def _natively(path: str, honest: str) -> None:
    """Open a file such that Python does not hear of it; for tests of the harness."""
    import tensorflow as tf

    tf.io.read_file(path).numpy()


_ACTIONS = {
    "inspect": _inspect,
    "load_model": _load_model,
    "unsafe": _unsafe,
    "convert_state": _convert_state,
    "from_config": _from_config,
    "build": _build,
    "hole": _hole,
    "sleep": lambda path, honest: time.sleep(60),
    "natively": _natively,
}


def _run(request: Answer, audit: Audit) -> Answer:
    action = _ACTIONS[request["action"]]
    trace = ""
    if request["action"] == "convert_state":
        # Nothing to listen to.
        _unchanged(request["honest"])
    with warnings.catch_warnings():
        # Settings that are changed may be ones that the frameworks warn about.
        warnings.simplefilter("ignore")
        audit.start(request["folder"], learns=request.get("honest_file", False))
        try:
            action(request["path"], request.get("honest", ""))
            outcome, detail = "read", ""
        except MplsError as error:
            outcome, detail = "refused", str(error)
        except Odd as error:
            outcome, detail = "odd", str(error)
        except Exception as error:
            outcome, detail = "raised", f"{type(error).__name__}: {error!s:.1000}"
            trace = traceback.format_exc(limit=-12)
        except SystemExit as error:
            outcome, detail = "raised", f"SystemExit {error}"
        finally:
            events = audit.stop()
    if outcome == "refused" and len(detail) > _LONGEST_MESSAGE:
        outcome, detail = "odd", f"a message of {len(detail)} characters: {detail:.300}"
    return {"outcome": outcome, "detail": detail[:3000], "trace": trace[-6000:], "events": events}


def main(sort: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    # What frameworks print goes where errors go.
    os.dup2(2, 1)
    faulthandler.enable()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(
        resource.RLIMIT_AS, (_ADDRESSES if most == resource.RLIM_INFINITY else min(most, _ADDRESSES), most)
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sort == "frameworks":
        import keras  # noqa: F401
        import tf_keras  # noqa: F401

        # Registers what its files name.
        from tests.saved.mutations import fresh  # noqa: F401
    audit = Audit()
    answers.write("{}\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps(_run(request, audit)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
