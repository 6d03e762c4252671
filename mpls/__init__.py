"""Mixed-precision loss scaling: TensorFlow's whole TF1/TF2 loss-scaling API on current TensorFlow.

The API lives in the subpackages, which load TensorFlow when they are imported; this package does not:

* `mpls.v1`: the API for graph mode, formerly `tf.compat.v1.train.experimental` and `tf.compat.v1.mixed_precision`;
* `mpls.keras`: `LossScaleOptimizer` for the optimizers of tf_keras and Keras 3, and the policies;
* `mpls.experimental`: the deprecated forms, `LossScaleOptimizer(optimizer, loss_scale)` among them;
* `mpls.contrib`: the managers of TF 1.x and their optimizer;
* `mpls.monitor`: the loss scale and counters in the logs of `fit`, in sessions and in `tf.summary`;
* `mpls.convert_state`: copies the state of an optimizer into one of another Keras;
* `mpls.install`, `mpls.uninstall`, `mpls.installed`: put the historical names back at their old places;
* `mpls.names`: the table of those names;
* `mpls.errors`: every exception and warning class that mpls itself raises.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from mpls import errors, names
from mpls.install import install, installed, uninstall

__version__ = "0.3.0"

_SUBPACKAGES = ("contrib", "doctor", "experimental", "inspect", "keras", "monitor", "v1")
# Functions whose modules load TensorFlow, with these modules.
_FUNCTIONS = {"convert_state": "mpls.transfer.convert"}

__all__ = [
    "__version__",
    "contrib",
    "convert_state",
    "errors",
    "experimental",
    "install",
    "installed",
    "keras",
    "monitor",
    "names",
    "uninstall",
    "v1",
]


def load_ipython_extension(shell: Any) -> None:  # noqa: ARG001
    """Call `install()`, for `%load_ext mpls`; do nothing if mpls is installed already.

    Args:
        shell: the shell of IPython.
    """
    if installed() is None:
        install()


def unload_ipython_extension(shell: Any) -> None:  # noqa: ARG001
    """Call `uninstall()`, for `%unload_ext mpls`.

    Args:
        shell: the shell of IPython.
    """
    uninstall()


if TYPE_CHECKING:
    from mpls import contrib as contrib
    from mpls import doctor as doctor
    from mpls import experimental as experimental
    from mpls import inspect as inspect
    from mpls import keras as keras
    from mpls import monitor as monitor
    from mpls import v1 as v1
    from mpls.transfer.convert import convert_state as convert_state
else:

    def __getattr__(name: str) -> Any:
        """Import a subpackage or function on first access, so that `import mpls` alone does not load TensorFlow."""
        if name in _SUBPACKAGES:
            return _import_module(f"{__name__}.{name}")
        if name in _FUNCTIONS:
            return getattr(_import_module(_FUNCTIONS[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
