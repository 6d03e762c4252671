"""What type checkers are told of TensorFlow's bases, which have no types. At run time there is no such module."""

from typing import Any, ClassVar

class Trackable:
    """What the classes of mpls use of TensorFlow's own."""

    @property
    def _deferred_dependencies(self) -> Any: ...
    def _maybe_initialize_trackable(self) -> None: ...
    def _track_trackable(self, trackable: Any, name: str, overwrite: bool = False) -> Any: ...
    def _handle_deferred_dependencies(self, name: str, trackable: Any) -> None: ...
    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]: ...
    def _lookup_dependency(self, name: str, cached_dependencies: Any = None) -> Any: ...

class Optimizer(Trackable):
    """`tf.compat.v1.train.Optimizer`: what wrappers have from it or call."""

    GATE_NONE: ClassVar[int]
    GATE_OP: ClassVar[int]
    GATE_GRAPH: ClassVar[int]

    def __init__(self, use_locking: bool, name: str) -> None: ...
    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = 1,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """Compute the gradients of the scaled loss, unscale and apply them: `compute_gradients`, `apply_gradients`."""
    def get_name(self) -> str:
        """Return the name of the wrapped optimizer."""
