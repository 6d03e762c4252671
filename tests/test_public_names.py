"""What each public package says that it holds."""

from __future__ import annotations

import importlib
import inspect
import types
import unittest

from parameterized import parameterized

import mpls

# The names that users import, and nothing else.
PUBLIC: dict[str, set[str]] = {
    "mpls": {
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
    },
    "mpls.contrib": {
        "ExponentialUpdateLossScaleManager",
        "FixedLossScaleManager",
        "LossScaleManager",
        "LossScaleOptimizer",
    },
    "mpls.v1": {
        "DynamicLossScale",
        "FixedLossScale",
        "LossScale",
        "MixedPrecisionLossScaleOptimizer",
        "disable_mixed_precision_graph_rewrite",
        "enable_mixed_precision_graph_rewrite",
        "register_loss_scale_wrapper",
    },
    "mpls.monitor": {"LossScaleCallback", "LossScaleHook", "Stuck", "write_scalars"},
    "mpls.keras": {"LossScaleOptimizer", "Policy", "global_policy", "load_model", "save_model", "set_global_policy"},
    "mpls.experimental": {
        "DynamicLossScale",
        "FixedLossScale",
        "LossScale",
        "LossScaleOptimizer",
        "Policy",
        "get_layer_policy",
        "global_policy",
        "set_policy",
    },
}

# Names by which files say what to load; in no `__all__`.
ALIASES = {"mpls.keras": {"LossScaleOptimizerV3"}, "mpls.experimental": {"LossScaleOptimizerV3"}}


def public_definitions(module: types.ModuleType) -> set[str]:
    """Classes and functions that a module defines or re-exports under names without an underscore."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
    }


class PublicNamesTest(unittest.TestCase):
    """`__all__`, `dir()` and what can be imported are the same."""

    @parameterized.expand(PUBLIC.items())
    def test_all_is_exact(self, name: str, expected: set[str]) -> None:
        module = importlib.import_module(name)
        self.assertEqual(set(module.__all__), expected)
        self.assertEqual(len(module.__all__), len(expected))
        for public in expected:
            self.assertIsNotNone(getattr(module, public))

    @parameterized.expand([(name,) for name in PUBLIC if name != "mpls"])
    def test_nothing_public_is_left_out(self, name: str) -> None:
        module = importlib.import_module(name)
        self.assertLessEqual(public_definitions(module), set(module.__all__) | ALIASES.get(name, set()))

    @parameterized.expand(ALIASES.items())
    def test_names_in_files_are_those_of_the_public_class(self, name: str, aliases: set[str]) -> None:
        module = importlib.import_module(name)
        for alias in sorted(aliases):
            self.assertIs(getattr(module, alias), module.LossScaleOptimizer)
            self.assertNotIn(alias, module.__all__)

    def test_subpackages_are_attributes_without_importing_them(self) -> None:
        for name in PUBLIC["mpls"] - {"__version__"}:
            if not inspect.isfunction(getattr(mpls, name)):
                self.assertIs(getattr(mpls, name), importlib.import_module(f"mpls.{name}"))
        self.assertEqual(set(dir(mpls)) & PUBLIC["mpls"], PUBLIC["mpls"])

    def test_unknown_name_is_an_attribute_error(self) -> None:
        with self.assertRaisesRegex(AttributeError, "module 'mpls' has no attribute 'tensorflow'"):
            _ = mpls.tensorflow  # type: ignore[attr-defined]
