"""Functions and classes that no file may name, and what they take."""

from __future__ import annotations

from tests.saved.mutations.canary import SPY

COMMAND, PYTHON, PATH, LIST = "command", "python", "path", "list"
# Module, name, and what it takes.
FUNCTIONS = [
    ("os", "system", COMMAND),
    ("posix", "system", COMMAND),
    ("os", "popen", COMMAND),
    ("subprocess", "getoutput", COMMAND),
    ("subprocess", "getstatusoutput", COMMAND),
    ("subprocess", "check_output", LIST),
    ("subprocess", "run", LIST),
    ("subprocess", "Popen", LIST),
    ("builtins", "eval", PYTHON),
    ("builtins", "exec", PYTHON),
    ("builtins", "open", PATH),
    ("builtins", "__import__", SPY),
    ("importlib", "import_module", SPY),
    ("runpy", "run_path", PATH),
    ("pickle", "loads", PYTHON),
    ("marshal", "loads", PYTHON),
    ("shutil", "rmtree", PATH),
    ("os", "listdir", PATH),
    ("os", "mkdir", PATH),
    ("pathlib", "Path.touch", PATH),
    ("numpy", "load", PATH),
    ("numpy", "fromfile", PATH),
    ("ctypes", "CDLL", PATH),
    ("keras.utils", "get_file", PATH),
    ("tf_keras.utils", "get_file", PATH),
    ("keras.utils", "load_img", PATH),
    ("keras.models", "load_model", PATH),
    ("keras.saving", "load_model", PATH),
    ("tf_keras.models", "load_model", PATH),
    ("tf_keras.src.saving.legacy.hdf5_format", "load_model_from_hdf5", PATH),
    ("tensorflow", "io.write_file", PATH),
    ("tensorflow.io", "write_file", PATH),
    ("tensorflow.io", "read_file", PATH),
    ("tensorflow.io.gfile", "makedirs", PATH),
    ("tensorflow.raw_ops", "WriteFile", PATH),
    ("tensorflow", "load_library", PATH),
    ("tensorflow", "saved_model.load", PATH),
    (SPY, "run", PATH),
    (SPY, "Spy", PATH),
]
# Symbols below `tensorflow`, as layers of ops name them, with arguments.
SYMBOLS = [
    "io.write_file",
    "io.read_file",
    "raw_ops.WriteFile",
    "raw_ops.ReadFile",
    "io.gfile.makedirs",
    "io.matching_files",
]
SYMBOLS += ["py_function", "numpy_function", "py_func", "compat.v1.py_func", "raw_ops.PyFunc", "raw_ops.EagerPyFunc"]
SYMBOLS += ["io.gfile.rmtree", "io.gfile.copy", "io.gfile.GFile", "load_library", "load_op_library", "saved_model.load"]
SYMBOLS += [
    "keras.utils.get_file",
    "keras.models.load_model",
    "train.load_checkpoint",
    "raw_ops.SaveV2",
    "data.TextLineDataset",
]
SYMBOLS += [
    "raw_ops.RestoreV2",
    "print",
    "debugging.experimental.enable_dump_debug_info",
    "raw_ops.PrintV2",
    "summary.create_file_writer",
]
SYMBOLS += [
    "sysconfig.sys.modules",
    "os.system",
    "__builtins__.eval",
    "io.gfile.sys",
    "raw_ops.MatchingFiles",
    "Assert",
    "zeros",
]
LAYER_CLASSES = ["TorchModuleWrapper", "TFSMLayer", "JaxLayer", "FlaxLayer", "StringLookup", "IntegerLookup"]
LAYER_CLASSES += ["TextVectorization", "Hashing", "Lambda", "TFOpLambda", "SlicingOpLambda", "ClassMethod"]
LAYER_CLASSES += ["InstanceMethod", "InstanceProperty", "TensorFlowOpLayer", "AddLoss", "AddMetric", "KerasTensor"]
MODULES = [
    "keras.layers",
    "keras.src.layers",
    "tf_keras.layers",
    "builtins",
    "tensorflow",
    "keras",
    "tf_keras.src",
    None,
]
