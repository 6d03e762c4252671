"""What the code at the place of an error was reading and calling, told from its bytecode."""

from __future__ import annotations

import types
import unittest
from collections.abc import Callable
from typing import Any

from mpls.hints.sites import Site, site_of


class Optimizer:
    variables: Any = ()

    def get_config(self) -> dict[str, Any]:
        return {}

    def apply_gradients(self, pairs: Any, name: Any = None) -> None:
        raise TypeError


class ShortSuper(Optimizer):
    def apply_gradients(self, pairs: Any, name: Any = None) -> None:
        super().apply_gradients(pairs, aggregate=False)  # type: ignore[call-arg]


class LongSuper(Optimizer):
    def apply_gradients(self, pairs: Any, name: Any = None) -> None:
        super(LongSuper, self).apply_gradients(pairs, aggregate=False)  # type: ignore[call-arg]  # noqa: UP008


def applies(opt: Any) -> None:
    opt.apply_gradients(list(zip([1], [2], strict=True)), aggregate=False)


def applies_of_self(opt: Any) -> None:
    trainer = types.SimpleNamespace(opt=opt)
    trainer.opt.apply_gradients([], aggregate=False)


def reads_of_call(opt: Any) -> None:
    opt.get_config()["loss_scale"]


def reads_of_chain(opt: Any) -> Any:
    trainer = types.SimpleNamespace(opt=opt)
    return trainer.opt.get_config()["loss_scale"]["class_name"]


def reads_of_variable(opt: Any) -> None:
    config = opt.get_config()
    print(config["loss_scale"])


def reads_of_another(opt: Any) -> None:
    opt.get_config()
    config = {"own": 1}
    config["loss_scale"]


class SitesTest(unittest.TestCase):
    def site(self, call: Callable[[Any], Any], opt: Any) -> Site:
        site = None
        try:
            call(opt)
        except (TypeError, KeyError) as error:
            site = site_of(error)
        assert site is not None
        return site

    def test_whose_method_was_called(self) -> None:
        for call in (applies, applies_of_self):
            opt = Optimizer()
            self.assertIs(self.site(call, opt).owner_of_call("apply_gradients"), opt)
            self.assertIsNone(self.site(call, opt).owner_of_call("apply"))

    def test_whose_method_was_called_by_super(self) -> None:
        for opt in (ShortSuper(), LongSuper()):
            site = self.site(lambda each: each.apply_gradients([]), opt)
            self.assertIs(site.this, opt)
            self.assertIs(site.owner_of_call("apply_gradients"), opt)

    def test_what_a_key_is_read_of(self) -> None:
        opt = Optimizer()
        for call, expected in (
            (reads_of_call, True),
            (reads_of_chain, True),
            (reads_of_variable, {}),
            (reads_of_another, {"own": 1}),
        ):
            site = self.site(call, opt)
            self.assertIs(site.owner_of_call("get_config"), opt)
            self.assertEqual(site.key_is_read_of("loss_scale", "get_config"), expected)
            self.assertIsNone(site.key_is_read_of("another", "get_config"))
        self.assertFalse(self.site(reads_of_call, opt).key_is_read_of("loss_scale", "another"))

    def test_calls_without_arguments(self) -> None:
        opt = Optimizer()
        site = self.site(lambda each: len(each.variables()), opt)
        self.assertTrue(site.is_call)
        self.assertIs(site.owner("variables"), opt)


if __name__ == "__main__":
    unittest.main()
