"""The pages' own names, in programs that call `mpls.install(replace_existing=True)`."""

from __future__ import annotations

import functools

import pytest
import tensorflow as tf

import mpls

from .families import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_that_of_mpls(name: str) -> None:
    with mpls.install(replace_existing=True):
        assert functools.reduce(getattr, name.split(".")[1:], tf) is NAMES[name]
