"""The modes of the process: TF 1 or TF 2, Keras 2 or 3, the release that wrappers behave as, the graph rewrite."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

from mpls.errors import (
    ArgumentValueError,
    CallOrderError,
    MissingPackageError,
    MplsWarning,
    error_text,
    warn_user,
)
from mpls.importing.keras2 import Keras2, KerasVariable
from mpls.importing.redirecting import Redirection
from mpls.importing.tf1 import find_v1, leave_as_is
from mpls.upstream.modules import KERAS_VARIABLE, is_keras_2

__all__ = ["Modes", "StateBefore"]

_PACKAGES = {2: ("tf_keras", "tf-keras"), 3: ("keras", "keras")}


class Modes:
    """Chooses TF 1 or TF 2, and Keras 2 or 3, as the last installation says, if TensorFlow is not imported yet."""

    def __init__(self) -> None:
        self._variable = KerasVariable()
        self._redirection: Redirection | None = None
        self._redirected: tuple[str, ...] = ()

    def check(self, v1: bool, keras: int | None, legacy_optimizers: bool) -> None:
        """Check that the process can run with these arguments of `install`.

        Args:
            v1: whether it is to run as TF 1.
            keras: the generation of Keras, 2 or 3; None for the one that the environment chooses. A choice that
                contradicts the environment gets a warning.
            legacy_optimizers: whether it is to have the optimizers of TF 2.10.

        Raises:
            ArgumentValueError: there is no such Keras, or the optimizers are not in it.
            CallOrderError: TensorFlow runs as something else already.
            MissingPackageError: that Keras is not installed.
        """
        if keras not in (None, *_PACKAGES) or isinstance(keras, bool | float):
            raise ArgumentValueError(
                error_text("install: keras", "be 2, 3 or None", keras, "install(keras=2)", "install")
            )
        outer = self._variable.outer
        _check_loaded(v1, keras)
        _check_keras(keras, outer)
        if legacy_optimizers and (keras or _keras_of_process(outer)) == 3:
            raise ArgumentValueError(
                error_text(
                    "install: keras",
                    "be 2 for legacy_optimizers, which Keras 3 does not have",
                    keras,
                    "install(keras=2, legacy_optimizers=True), or mpls run --keras 2 --legacy-optimizers",
                    "keras-2",
                )
            )

    def choose(self, v1: bool, keras: int | None) -> None:
        """Set whether the user's imports of TensorFlow mean TF 1, and which Keras `tf.keras` is."""
        self._variable.choose(keras)
        wanted = (*["tensorflow"] * v1, *["keras"] * (keras == 2))
        if wanted == self._redirected:
            return
        if self._redirection is not None:
            self._redirection.take_away()
        finds = {"tensorflow": find_v1, "keras": Keras2().find}
        self._redirection = Redirection({name: finds[name] for name in wanted}) if wanted else None
        self._redirected = wanted


def _check_loaded(v1: bool, keras: int | None) -> None:
    if "tensorflow" not in sys.modules:
        if keras == 2 and "keras" in sys.modules:
            raise CallOrderError(
                "install: keras must be chosen before Keras is imported; it is loaded, and is Keras 3. Call "
                "mpls.install(keras=2) before the first `import keras`, or use mpls run --keras 2. "
                "See mpls docs keras-2"
            )
        return
    from mpls.upstream.keras_packages import chosen_keras
    from mpls.upstream.tensorflow import is_v2_behavior_on

    if v1 and is_v2_behavior_on():
        raise CallOrderError(
            "install: v1 must be chosen before TensorFlow is imported; it is loaded, and behaves as TF 2. Call "
            "mpls.install(v1=True) before the first `import tensorflow`, or use mpls run --v1. See mpls docs install"
        )
    if v1:
        leave_as_is()
    if keras is not None and keras != chosen_keras():
        raise CallOrderError(
            f"install: keras must be chosen before TensorFlow is imported; it is loaded, with Keras {chosen_keras()}. "
            f"Call mpls.install(keras={keras}) before the first `import tensorflow`, or use mpls run --keras {keras}. "
            "See mpls docs keras-2"
        )


def _check_keras(keras: int | None, variable: str | None) -> None:
    if keras is None:
        return
    package, distribution = _PACKAGES[keras]
    if package not in sys.modules and find_spec(package) is None:
        raise MissingPackageError(
            f"install: keras={keras} needs the package {distribution}, which is not installed. Install it with "
            f"`pip install {distribution}`. See mpls docs keras-2"
        )
    if variable and is_keras_2(variable) is not (keras == 2):
        warn_user(f"keras={keras} was chosen, over {KERAS_VARIABLE}={variable} in the environment", MplsWarning)


def _keras_of_process(variable: str | None) -> int:
    if "tensorflow" in sys.modules:
        from mpls.upstream.keras_packages import chosen_keras

        return chosen_keras()
    return 2 if is_keras_2(variable) else 3


class StateBefore:
    """The release that wrappers behaved as, and the graph rewrite, before an installation.

    Attributes:
        replaced: the installation that this one replaced, which the end of a block restores; None if it replaced none.
    """

    def __init__(self) -> None:
        from mpls.core import releases

        self.replaced: Any = None
        self._rewrite = _rewrite_state()
        self._behavior = releases.current()

    def enter_block(self, as_of: str | None) -> None:
        """Have wrappers that this thread or asynchronous task makes behave as a release, until it leaves the block."""
        from mpls.core import releases

        # `install` has changed the block around this one, as it does where it is to last.
        releases.use_in_block(self._behavior)
        releases.enter_block(self, releases.behavior_of(as_of))

    def leave_block(self) -> None:
        """End that block."""
        from mpls.core import releases

        releases.leave_block(self)

    def restore_rewrite(self) -> None:
        """Restore the graph rewrite, unless the program has set it by TensorFlow's own API."""
        if _rewrite_state() == self._rewrite:
            return
        from mpls.upstream.rewrite import is_graph_rewrite_set_by_mpls, restore_graph_rewrite

        if is_graph_rewrite_set_by_mpls():
            restore_graph_rewrite(self._rewrite)


def _rewrite_state() -> tuple[bool, bool | None]:
    if "tensorflow" not in sys.modules:
        return False, None
    from mpls.upstream.rewrite import graph_rewrite_state

    return graph_rewrite_state()
