"""Python code in model files, refused before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mpls.errors import SavedStateError, error_text
from mpls.keras.files.contents import ModelFile
from mpls.saved.validity import ANCHOR

_CODE_TYPES = ("function_type", "output_shape_type", "mask_type")


def refuse_code(file: ModelFile) -> None:
    """Refuse a model with the bytecode of Python lambdas in it.

    tf_keras refuses it in `.keras` files only, and Keras 3 before 3.12 too.

    Raises:
        SavedStateError: there is some.
    """
    for source, config in file.configs.items():
        for key, found in _places_of_code(config, source):
            raise SavedStateError(
                error_text(
                    f"{file.path}: {key}",
                    "hold no Python code, as that of a Lambda layer",
                    found,
                    "If you trust whoever wrote the file, pass safe_mode=False",
                    ANCHOR,
                )
            )


def _places_of_code(config: Any, key: str) -> Iterator[tuple[str, Any]]:
    # A stack, since a hostile config may be nested deeper than Python recurses.
    stack = [(key, config)]
    while stack:
        key, value = stack.pop()
        if isinstance(value, dict):
            if _is_code(value):
                yield key, value.get("class_name", "lambda")
            stack += [(f"{key}/{name}", each) for name, each in value.items()]
        elif isinstance(value, list):
            stack += [(f"{key}/{number}", each) for number, each in enumerate(value)]


def _is_code(config: dict[str, Any]) -> bool:
    name = config.get("class_name")
    if name == "__lambda__" or any(config.get(kind) == "lambda" for kind in _CODE_TYPES):
        return True
    settings = config.get("config")
    if not isinstance(name, str) or name.rpartition(">")[2] != "Lambda" or not isinstance(settings, dict):
        return False
    # What older files hold: [bytecode, defaults, closure].
    return any(isinstance(settings.get(each), list) for each in ("function", "mask"))
