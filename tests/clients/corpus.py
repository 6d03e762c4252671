"""The programs of `programs/` and `scripts/`: style, releases that they were written for, what `mpls run` needs.

`options` are what the program needs on today's TensorFlow, whoever chooses them, as `mpls run` takes them.
"""

from __future__ import annotations

from dataclasses import dataclass

TF_KERAS = "--keras 2"


@dataclass(frozen=True)
class Program:
    """A program as users write them."""

    style: str
    # On which releases it was recorded, unmodified; the first is the one that it is compared with.
    releases: tuple[str, ...]
    options: tuple[str, ...] = ()
    # Relative difference that another order of sums leaves.
    tolerance: float = 1e-5
    # Those of `scripts/` print lines of JSON, and run on both Kerases in tests of their own.
    folder: str = "programs"


# Where layers compute in float16.
HALF = 5e-3


def _script(style: str, releases: str, *options: str) -> Program:
    """Return a program of `scripts/`; spaces separate its releases."""
    return Program(style, tuple(releases.split()), options, folder="scripts")


PROGRAMS = {
    "accumulate_graph": Program("gradient accumulation", ("1.15",), ("--v1",)),
    "accumulate_loop": Program("gradient accumulation", ("2.3",), ("--as-of 2.3",)),
    "accumulate_train_step": Program("gradient accumulation", ("2.8",), (TF_KERAS,)),
    "contrib_own_manager": Program("contrib managers", ("1.15",), ("--v1", "--contrib")),
    "contrib_trainer": Program("contrib managers", ("1.15",), ("--v1", "--contrib")),
    "data_graph_iterator": Program("input pipelines", ("1.15",), ("--v1",)),
    "data_recommender": Program("input pipelines", ("2.3", "2.4"), (TF_KERAS, "--legacy-optimizers")),
    "fit_policy_callback": Program("fit", ("2.3", "2.2"), ("--as-of 2.3", TF_KERAS), HALF),
    "fit_train_step": Program("fit", ("2.3", "2.4"), (TF_KERAS,)),
    "fit_two_outputs": Program("fit", ("2.8", "2.4"), (TF_KERAS, "--legacy-optimizers"), HALF),
    "gan_gradient_penalty": Program("two wrappers", ("2.4", "2.8"), (TF_KERAS,)),
    "gan_two_wrappers": Program("two wrappers", ("2.3", "2.2"), ("--as-of 2.3",)),
    "gate_numbers": Program("version gates", ("2.3", "2.4", "2.8"), (TF_KERAS,), HALF),
    "gate_try_import": Program("version gates", ("2.3", "2.2", "2.4")),
    "gradients_function": Program("tf.gradients", ("2.3",), ("--as-of 2.3",)),
    "gradients_graph": Program("tf.gradients", ("1.15",), ("--v1",)),
    "graph_classifier": Program("graphs and sessions", ("1.15",), ("--v1", TF_KERAS)),
    "graph_compat": Program("graphs and sessions", ("2.3", "2.4")),
    "hvd_keras_fit": Program("Horovod", ("2.3", "2.4"), (TF_KERAS,)),
    "hvd_scaler_inside": Program("Horovod", ("1.15",), ("--v1", "--contrib")),
    "hvd_scaler_outside": Program("Horovod", ("1.15",), ("--v1",)),
    "hvd_tape": Program("Horovod", ("2.3", "2.2"), ("--as-of 2.3", TF_KERAS)),
    "import_by_string": Program("names by string and star", ("2.3", "2.4")),
    "import_star": Program("names by string and star", ("2.3", "2.2"), ("--as-of 2.3",)),
    "loop_physics": Program("custom loops", ("2.3", "2.2"), ("--as-of 2.3",), HALF),
    "loop_sentiment": Program("custom loops", ("2.4", "2.8"), (TF_KERAS,)),
    "mirrored_fit": Program("MirroredStrategy", ("2.8", "2.4"), (TF_KERAS, "--legacy-optimizers")),
    "mirrored_loop": Program("MirroredStrategy", ("2.3",), ("--as-of 2.3",)),
    "mirrored_no_aggregation": Program("MirroredStrategy", ("2.3", "2.4"), (TF_KERAS, "--legacy-optimizers")),
    "notebook_cells": Program("notebooks", ("2.3", "2.2"), ("--as-of 2.3", TF_KERAS)),
    "notebook_tutorial": Program("notebooks", ("2.8", "2.4"), (TF_KERAS,), HALF),
    "optimizer_adamw_schedule": Program("subclasses of optimizers", ("2.3", "2.2"), (TF_KERAS, "--legacy-optimizers")),
    "optimizer_graph_own": Program("subclasses of optimizers", ("1.15",), ("--v1",)),
    "package_trainer": Program("several files", ("2.3",), ("--as-of 2.3", TF_KERAS, "--legacy-optimizers")),
    "policy_fixture": Program("policies", ("2.3", "2.2", "2.4"), (TF_KERAS,)),
    "private_keras": Program("private modules", ("2.3", "2.2"), ("--as-of 2.3",)),
    "private_training": Program("private modules", ("1.15",), ("--v1",)),
    "rewrite_graph": Program("graph rewrite", ("1.15",), ("--v1",)),
    "rewrite_keras": Program("graph rewrite", ("2.3",), ("--as-of 2.3", TF_KERAS)),
    "save_checkpoint": Program("saving and loading", ("2.3",), ("--as-of 2.3",)),
    "save_graph_saver": Program("saving and loading", ("1.15",), ("--v1",)),
    "save_h5_resume": Program("saving and loading", ("2.8", "2.4"), (TF_KERAS, "--legacy-optimizers")),
    "save_optimizer_weights": Program("saving and loading", ("2.3",), ("--as-of 2.3", TF_KERAS, "--legacy-optimizers")),
    "save_savedmodel": Program("saving and loading", ("2.8", "2.4"), (TF_KERAS,), HALF),
    "scale_shared": Program("loss scale objects", ("2.3", "2.2"), ("--as-of 2.3",)),
    "scale_subclass": Program("loss scale objects", ("2.3", "2.2"), ("--as-of 2.3",)),
    "session_monitored": Program("sessions with hooks", ("1.15",), ("--v1",)),
    "session_nan_hook": Program("sessions with hooks", ("1.15",), ("--v1",)),
    "sub_graph_wrapper": Program("subclasses of the wrapper", ("1.15",), ("--v1",)),
    "sub_self_class": Program("subclasses of the wrapper", ("2.3", "2.2"), ("--as-of 2.3",)),
    "sub_type_is": Program("subclasses of the wrapper", ("2.3", "2.4"), ("--as-of 2.3",)),
    "bert_optimization": _script("graph rewrite", "1.15", "--v1", "--contrib"),
    "both_generations": _script("version gates", "2.8 2.4", TF_KERAS),
    "calcium_policy": _script("policies", "2.3 2.2 2.1", "--as-of 2.3"),
    "class_names": _script("names by string and star", "2.4 2.3 2.2", TF_KERAS, "--legacy-optimizers"),
    "clipping_step": _script("subclasses of optimizers", "2.3 2.2 2.1", "--as-of 2.3"),
    "cloud_pretraining": _script("graph rewrite", "2.3 2.2 2.1", "--as-of 2.3", TF_KERAS, "--legacy-optimizers"),
    "compiled_graph_optimizer": _script("fit", "1.15", "--v1", TF_KERAS),
    "detector_train": _script("loss scale objects", "2.8 2.4 2.3 2.2", TF_KERAS, "--legacy-optimizers"),
    "dreamer_adam": _script("custom loops", "2.8 2.4 2.3 2.2 2.1", TF_KERAS, "--legacy-optimizers"),
    "electra_checkpoint": _script("saving and loading", "2.3 2.2", "--as-of 2.3", TF_KERAS),
    "graph_finetune": _script("graphs and sessions", "2.8 2.4"),
    "old_policies": _script("policies", "1.15"),
    "recommender_twice": _script("two wrappers", "2.3 2.2 2.1", "--as-of 2.3", TF_KERAS),
    "speech_synthesis": _script("subclasses of optimizers", "2.3 2.2 2.1", "--as-of 2.3", TF_KERAS),
    "spine_metrics": _script("version gates", "2.3 2.2", "--as-of 2.3"),
    "strings_toolkit": _script("names by string and star", "2.3 2.2 2.1", "--as-of 2.3", TF_KERAS),
    "t2t_contrib": _script("contrib managers", "1.15", "--contrib"),
}

# What the first try names on standard error, and the second succeeds with.
HINTED = {
    "strings_toolkit": "--as-of 2.3",
}

# What neither the source nor an error tells: the first try prints something else, or fails; with `options` it is right.
UNTOLD = (
    # The name of the wrapper's class, which is another over the optimizers since TF 2.11. The same source, written for
    # those, prints that other name.
    "fit_two_outputs",
    # What an H5 file keeps of the optimizers since TF 2.11: nothing, so that training goes on from fresh ones, as the
    # same source did with TF 2.11 to 2.15.
    "save_h5_resume",
)

# What no option brings back.
CANNOT = {
    # A method of variables.
    "accumulate_graph": "initialized_value",
    # Policies that TensorFlow took out before the API.
    "old_policies": "name must not be one that TensorFlow removed",
    # The class of a wrapper is a subclass for the family of its optimizer: MIGRATION says so.
    "sub_type_is": "KeyError: <class '__main__.Logged'>",
}

__all__ = ["CANNOT", "HINTED", "PROGRAMS", "TF_KERAS", "UNTOLD", "Program"]
