"""Process-wide setting of every test: CPU only, two logical devices, quiet native logs."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
# The recorded numbers were computed without oneDNN's reordered sums.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import pytest
import tensorflow as tf


def split_cpu() -> None:
    """Split the CPU in two logical devices, before the first op fixes the device list."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the process before any test is collected."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None and capture.is_globally_capturing():
        # What native libraries printed while they were loaded would come out after the summary.
        capture.read_global_capture()
    split_cpu()


@pytest.fixture(autouse=True)
def _collective_keys_of_its_own() -> None:
    """Keep the strategies of one test from taking part in collective ops of another's, in the same process."""
    tf.distribute.MirroredStrategy._collective_key_base += 10_007


@pytest.fixture(scope="module")
def only_what_is_new_is_collected() -> Iterator[None]:
    """Leave what other tests hold out of collections, which would take seconds each."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


_ASKED_FOR = {"long": "takes minutes", "programs": "runs programs of its own"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip GPU tests where there is no GPU, and those that take their time unless they are asked for."""
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    asked_for = config.getoption("-m") or ""
    for item in items:
        if "gpu" in item.keywords and not has_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a GPU, and TensorFlow sees none"))
        for mark, reason in _ASKED_FOR.items():
            if mark in item.keywords and mark not in asked_for and "long" not in asked_for:
                item.add_marker(pytest.mark.skip(reason=f"{reason}; ask for it with `pytest -m {mark}`"))
