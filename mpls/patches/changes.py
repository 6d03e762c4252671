"""The table of all changes that mpls makes to other packages.

Functions of classes and modules are replaced by the layers of `mpls.patches`. All else the modules in the row change
and put back themselves, as lists, dicts, single objects, and what has a function that sets it; so does the recorder of
`mpls trace`, which imports nothing of mpls.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """Something of others that mpls changes; a test finds all such places.

    Attributes:
        what: what is changed.
        by: the modules of mpls that do it, without `mpls.`.
        trigger: what a program does for it to happen. An import of mpls is never among it.
        undone: what takes it away.
    """

    what: str
    by: tuple[str, ...]
    trigger: str
    undone: str


_ENDS = "never: the process is the program's"
CHANGES = (
    Change("`__getattr__` and `__dir__` of modules; `sys.modules`", ("importing.hooks",), "`install`", "`uninstall`"),
    Change(
        "`sys.meta_path`; the loader of a module until it is loaded",
        ("importing.post_import",),
        "`install`; a wrapper is made before both Kerases are loaded",
        "`uninstall`; both are loaded",
    ),
    Change(
        "the class of modules",
        ("importing.hooks",),
        "`install(replace_existing)`, `install(legacy_optimizers)`, `mpls run --report`",
        "`uninstall`",
    ),
    Change("`compile` of tf_keras' models", ("importing.hooks",), "`install(legacy_optimizers)`", "`uninstall`"),
    Change(
        "`builtins.__import__`, `importlib.import_module`",
        ("importing.modes",),
        "`install(v1)`, `install(keras=2)`",
        "`uninstall`",
    ),
    Change(
        "`TF_USE_LEGACY_KERAS` in `os.environ`",
        ("importing.modes",),
        "`install(keras)`",
        "`uninstall`, before TensorFlow is loaded",
    ),
    Change("the behaviour of TF 2", ("importing.modes",), "`install(v1)`, and a program imports TensorFlow", "never"),
    Change(
        "`sys.excepthook`, `threading.excepthook`, events of IPython",
        ("hints",),
        "`install`",
        "`uninstall`",
    ),
    Change(
        "`restore` of `tf.train.Checkpoint`'s saver",
        ("core.state_checks",),
        "a loss scale or a wrapper is made",
        "the last is gone",
    ),
    Change(
        "`_build` and `restore` of `tf.compat.v1.train.Saver`",
        ("upstream.trackables",),
        "a wrapper is used in a v1 graph",
        "the last such graph is gone",
    ),
    Change(
        "the methods in which `compile` of both Kerases wraps",
        ("experimental.compiling",),
        "a policy of `mpls.experimental` is made",
        "the last is gone; `uninstall`",
    ),
    Change(
        "`from_config` of both Kerases' own wrappers",
        ("keras.own_files",),
        "a wrapper is made; `mpls.keras.load_model`; `install`, once `mpls.keras` is loaded",
        "never, after a wrapper was made; the load ends; `uninstall` of what `install` did",
    ),
    Change(
        "`get_config` of a model's optimizer that is tf_keras' own wrapper",
        ("keras.files.native_wrappers",),
        "`mpls.keras.save_model`",
        "the file is written",
    ),
    Change(
        "`load_own_variables` of tf_keras' own wrapper",
        ("keras.files.native_wrappers",),
        "`mpls.keras.load_model`",
        "the load ends",
    ),
    Change(
        "the flags of the graph rewrite, and its option in `tf.config`",
        ("upstream.rewrite",),
        "`enable_mixed_precision_graph_rewrite`",
        "`disable_mixed_precision_graph_rewrite`; `uninstall`",
    ),
    Change(
        "the names that Keras 3 writes for classes of policies",
        ("upstream.keras_packages",),
        "a policy of mpls is made",
        "never: no name of Keras' own is among it",
    ),
    Change(
        "`sys.path`, `sys.modules['sitecustomize']`, `sys.modules['mpls']`",
        ("site.sitecustomize",),
        "a Python that starts under `mpls run`",
        _ENDS,
    ),
    Change("`PYTHONPATH`, `MPLS_RUN` in `os.environ`", ("run",), "a program of `mpls run` starts", _ENDS),
    Change("what runs at exit", ("run",), "`mpls run`", _ENDS),
    Change("`sys.path`", ("__main__",), "`python -m mpls`", "never: the process is mpls' own"),
    Change("what the signals to end a process do", ("cli.running", "cli.recording"), "`mpls trace`", "the same"),
    Change(
        "methods of wrappers that scale a loss and apply gradients, mpls' own too; `sys.meta_path`, and the loaders of"
        " their modules; `jit_compile` of functions; with `--seed` the seeds of Python, NumPy and TensorFlow",
        ("tracing.recorded_classes", "tracing.tracing_session"),
        "`mpls trace`",
        "the program ends; but the seeds",
    ),
    Change(
        "`sys.argv`, `sys.path`, `__main__`",
        ("tracing.standalone",),
        "the recorder for old machines, which is no part of mpls there",
        _ENDS,
    ),
    Change("the environment variable `LESS`", ("documentation",), "`mpls docs` shows a page, and it is not set", _ENDS),
    Change("standard output", ("cli.standard_output",), "whoever reads what a command prints stops", _ENDS),
    Change(
        "whether Python collects garbage",
        ("cli.choosing", "migrate.many_files"),
        "`mpls run` and `mpls doctor` read programs; `mpls migrate` reads files",
        "they are read",
    ),
    Change(
        "what Ctrl-C does", ("migrate.many_files",), "a process that `mpls migrate` starts", "never: it is mpls' own"
    ),
    Change(
        "the filters of warnings",
        ("keras.files.loading", "plotting.drawing", "program.files"),
        "`mpls.keras.load_model`; `mpls plot`; a program is read",
        "the call ends",
    ),
)
