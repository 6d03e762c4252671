"""What a file may not reach, and nodes for configs that would reach it: functions, classes, code, files elsewhere."""

from __future__ import annotations

import codecs
import json
import marshal
import pathlib
import random
import shutil
from typing import Any

import h5py
import numpy as np

from tests.untrusted.payloads import CODE, PAYLOADS, SPY

SYMBOLS = ["io.write_file", "io.read_file", "raw_ops.WriteFile", "raw_ops.ReadFile", "io.gfile.makedirs", "py_function"]
SYMBOLS += ["io.gfile.GFile", "io.matching_files", "load_op_library", "saved_model.load", "train.load_checkpoint"]
SYMBOLS += ["data.TextLineDataset", "sysconfig.sys.modules", "os.system", "__builtins__.eval", "print", "zeros"]
# Layers that open what a setting names.
LAYERS = {"StringLookup": "vocabulary", "IntegerLookup": "vocabulary", "TextVectorization": "vocabulary"}
LAYERS |= {"TFSMLayer": "filepath", "TorchModuleWrapper": "module", "JaxLayer": "call_fn"}


class Canary:
    """A folder that no file may reach, and a module that Python would find, which touches the folder if imported.

    Attributes:
        folder: holds `secret.*` and nothing else.
        modules: to be in `sys.path`.
    """

    def __init__(self, base: pathlib.Path) -> None:
        self.folder, self.modules = base / "outside", base / "modules"
        self.touched = self.folder / "touched"
        self.modules.mkdir(parents=True)
        text = f"def run(*_, **__):\n    open({str(self.touched)!r}, 'w').close()\nrun()"
        (self.modules / f"{SPY}.py").write_text(text)
        self.fill()

    def secret(self, ending: str) -> str:
        return str(self.folder / f"secret{ending}")

    def fill(self) -> None:
        """Make it anew."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "saved_model").mkdir(parents=True)
        (self.folder / "saved_model" / "saved_model.pb").write_bytes(b"")
        values = np.full(4096, 31337, np.float32)
        values.tofile(self.secret(".bin"))
        np.save(self.secret(".npy"), values)
        pathlib.Path(self.secret(".txt")).write_text("canaryword\nother\n")
        with h5py.File(self.secret(".h5"), "w") as file:
            file["secret"] = values[:4]


def _function(r: random.Random, canary: Canary) -> tuple[str, str, Any]:
    """Return a module, a function's name, and what harms as its argument."""
    touched = str(canary.touched)
    path = r.choice((touched, *map(canary.secret, (".txt", ".h5", ".npy"))))
    command, python = f"touch {touched}", f"open({touched!r}, 'w').close()"
    # Those that are sure to do something, half of the time.
    sure = [("os", "system", command), ("subprocess", "getoutput", command), (SPY, "run", path)]
    sure += [("tensorflow", "io.write_file", path), ("builtins", "exec", python)]
    more = [("posix", "system", command), ("os", "popen", command), ("builtins", "eval", python)]
    more += [("builtins", "open", path), ("builtins", "__import__", SPY), ("importlib", "import_module", SPY)]
    more += [("runpy", "run_path", path), ("shutil", "rmtree", path), ("os", "mkdir", path), ("numpy", "load", path)]
    more += [("keras.utils", "get_file", path), ("tensorflow.io", "read_file", path)]
    more += [("keras.models", "load_model", path), ("tf_keras.models", "load_model", path)]
    return r.choice(r.choice((sure, more)))


def bytecode(canary: Canary) -> str:
    """Return a lambda that runs a command, as frameworks write lambdas."""
    text = f"lambda *args, **kwargs: __import__('os').system({f'touch {canary.touched}'!r})"
    return codecs.encode(marshal.dumps(compile(text, "<lambda>", "eval").co_consts[0]), "base64").decode("ascii")


def payload(r: random.Random, canary: Canary) -> tuple[str, Any]:
    """Return what it is, and a node for any place of a config."""
    module, name, argument = _function(r, canary)
    if r.random() < 0.4:
        what = r.choice(sorted(PAYLOADS))
        text = json.dumps(PAYLOADS[what]).replace(json.dumps(CODE), json.dumps(bytecode(canary)))
        text = text.replace('"elsewhere.txt"', json.dumps(canary.secret(".txt")))
        return what, json.loads(text.replace('"elsewhere"', json.dumps(str(canary.folder / "saved_model"))))
    if r.random() < 0.1:
        return "a path", r.choice(
            (argument, f"file://{argument}", f"../../../..{argument}", f"http://localhost{argument}")
        )
    registered = r.choice((None, name, "function", f"{module}>{name}"))
    key = r.choice(("command", "source", "args", "path", "name", "fn", "filepath", "file"))
    forms: list[Any] = [
        {"module": module, "class_name": "function", "config": name, "registered_name": registered},
        {"class_name": "function", "config": {"module": module, "function": name}},
        {"class_name": f"{module}>{name}", "config": {}},
        {"class_name": f"{module}.{name}", "config": {}},
        {"module": module, "class_name": name, "config": argument, "registered_name": registered},
        {"module": module, "class_name": name, "config": {key: argument}, "registered_name": registered},
        *(f"{module}.{name}", f"{module}>{name}", name),
    ]
    return f"{module}.{name}", r.choice(forms)


def called_layer(r: random.Random, canary: Canary, config: str) -> tuple[str, dict[str, Any]]:
    """Return what it is, and a layer that is called with what harms, in the dialect of a config."""
    is_keras_3, is_old = '"batch_shape"' in config, '"module": ' not in config
    module, name, argument = _function(r, canary)
    node: dict[str, Any] = {"class_name": "Lambda", "name": "spy"}
    others: dict[str, Any] = {}
    settings: dict[str, Any] = {"name": "spy", "trainable": True, "dtype": "float32"}
    kind = r.choice(("lambda", "lambda", "code", "op", "reads"))
    what = f"{kind} of {module}.{name}"
    if kind in ("lambda", "code"):
        reference: Any = {"module": module, "class_name": "function", "config": name, "registered_name": name}
        function, function_type = (r.choice((name, reference)) if is_old else reference), "function"
        if kind == "code":
            code = bytecode(canary)
            function_type, function = "lambda", [code, None, None]
            if not is_old:
                function = {"class_name": "__lambda__", "config": {"code": code, "defaults": None, "closure": None}}
        settings |= {"function": function, "output_shape": None, "arguments": {}}
        if not is_keras_3:
            settings |= {"function_type": function_type, "module": module, "output_shape_type": "raw"}
            settings |= {"output_shape_module": None}
        if r.random() < 0.2:
            settings |= {"mask": function, "mask_type": function_type, "mask_module": module}
    elif kind == "op":
        symbol = r.choice((r.choice(SYMBOLS), "io.write_file"))
        what = f"the op {symbol}"
        node["class_name"] = r.choice(("TFOpLambda", "TFOpLambda", "SlicingOpLambda", "ClassMethod"))
        argument, others = str(canary.touched), {"contents": "text"} if "rite" in symbol else {}
        settings |= {"function": symbol, "cls_symbol": symbol, "cls_ref": symbol, "method_name": "__init__"}
    else:
        node["class_name"] = what = r.choice(sorted(LAYERS))
        path = str(canary.folder / "saved_model") if what == "TFSMLayer" else canary.secret(".txt")
        settings = {"name": "spy", LAYERS[what]: path}
    node["config"] = settings
    if not is_old:
        node |= {"module": "keras.layers", "registered_name": None}
    call = ["_CONSTANT_VALUE", -1, argument, others]
    node["inbound_nodes"] = [{"args": [argument], "kwargs": others}] if is_keras_3 else [r.choice((call, [call]))]
    return what, node
