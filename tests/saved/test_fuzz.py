"""Mutations of what releases wrote are read, or refused with an error of mpls: nothing else is raised."""

from __future__ import annotations

import json
import math
import pathlib
import tempfile
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import mpls.keras
from mpls.errors import MplsError, SavedStateError
from mpls.inspect import describe, text_of
from mpls.saved.reading import read
from mpls.saved.record import FileRecord
from tests.saved import fuzzing
from tests.saved.artefacts import ARTEFACTS

SAMPLE = 200
ALL = 4000
# They take longer.
MODELS = 40
ALL_MODELS = 1500


def problems_of(record: FileRecord) -> Iterator[str]:
    """Yield what in a record no optimizer can have."""
    for optimizer in record.optimizers:
        if optimizer.iterations is not None and optimizer.iterations < 0:
            yield f"iterations {optimizer.iterations}"
        loss_scale = optimizer.loss_scale
        if loss_scale is None:
            continue
        for name in ("scale", "initial_scale", "multiplier"):
            value = getattr(loss_scale, name)
            if value is not None and not 0 < value < math.inf:
                yield f"{name} {value}"
        steps, period = loss_scale.good_steps, loss_scale.growth_steps
        if steps is not None and (steps < 0 or (period is not None and steps > max(period, 1))):
            yield f"good_steps {steps}"


class FuzzTest(unittest.TestCase):
    def _check(self, what: str, path: pathlib.Path | str) -> bool:
        """Return whether a file was read."""
        try:
            record = read(path)
        except SavedStateError as error:
            self.assertTrue(str(error).startswith(str(pathlib.Path(path).parent)), f"{what}: {error}")
            self.assertEqual(describe(path)["reason"], str(error), what)
            return False
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
        self.assertEqual(list(problems_of(record)), [], what)
        description = describe(path)
        json.dumps(description, allow_nan=False)
        self.assertTrue(text_of(description), what)
        return True

    def _check_configs(self, seeds: range) -> None:
        sources, good = fuzzing.config_sources(), 0
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            for seed in seeds:
                name, config = fuzzing.mutated_config(seed, sources)
                path.write_text(json.dumps(config))
                good += self._check(f"seed {seed}: {name}", path)
        # Neither does everything pass, nor nothing.
        self.assertTrue(len(seeds) / 10 < good < len(seeds) * 9 / 10, good)

    def _check_artefacts(self, seeds: range) -> None:
        good = 0
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                what, path = fuzzing.mutated_artefact(seed, pathlib.Path(folder))
                good += self._check(f"seed {seed}: {what}", path)
        self.assertTrue(len(seeds) / 20 < good < len(seeds) * 9 / 10, good)

    def _check_from_config(self, seeds: range) -> None:
        sources = [(name, config) for name, config in fuzzing.config_sources() if name.endswith("/get_config")]
        good = 0
        for seed in seeds:
            name, config = fuzzing.mutated_config(seed, sources)
            try:
                optimizer = self._from_config(config)
            except (MplsError, TypeError, ValueError):
                # The frameworks' own are about the settings of their optimizers.
                continue
            except Exception as error:
                raise AssertionError(f"seed {seed}: {name}: {error!r}") from error
            good += 1
            self.assertTrue(0 < optimizer.initial_scale < math.inf, f"seed {seed}: {name}")
            steps = optimizer.dynamic_growth_steps
            self.assertIsInstance(steps, int if optimizer.dynamic else type(None), f"seed {seed}: {name}")
        self.assertTrue(len(seeds) / 20 < good < len(seeds) * 9 / 10, good)

    def _check_load_model(self, seeds: range) -> None:
        sources = [
            folder for folder in ARTEFACTS if "keras_h5" in folder.parent.name or "keras_v3" in folder.parent.name
        ]
        good = 0
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                what, path = fuzzing.mutated_artefact(seed, pathlib.Path(folder), sources)
                warnings.simplefilter("ignore")
                try:
                    model = mpls.keras.load_model(path)
                except MplsError:
                    continue
                except Exception as error:
                    raise AssertionError(f"seed {seed}: {what}: {error!r}") from error
            good += 1
            scale = float(getattr(model.optimizer, "loss_scale", 1.0))
            self.assertTrue(0 < scale < math.inf, f"seed {seed}: {what}: {scale}")
        self.assertTrue(len(seeds) / 20 < good < len(seeds) * 9 / 10, good)

    def _from_config(self, config: Any) -> Any:
        with warnings.catch_warnings():
            # Settings that are changed may be ones that the frameworks warn about.
            warnings.simplefilter("ignore")
            return mpls.keras.LossScaleOptimizer.from_config(config)

    def test_configs(self) -> None:
        self._check_configs(range(SAMPLE))

    def test_artefacts(self) -> None:
        self._check_artefacts(range(SAMPLE))

    def test_from_config(self) -> None:
        self._check_from_config(range(SAMPLE))

    def test_load_model(self) -> None:
        self._check_load_model(range(MODELS))

    @pytest.mark.long
    def test_many_configs(self) -> None:
        self._check_configs(range(SAMPLE, SAMPLE + ALL))

    @pytest.mark.long
    def test_many_artefacts(self) -> None:
        self._check_artefacts(range(SAMPLE, SAMPLE + ALL))

    @pytest.mark.long
    def test_many_from_config(self) -> None:
        self._check_from_config(range(SAMPLE, SAMPLE + ALL))

    @pytest.mark.long
    def test_load_many_models(self) -> None:
        self._check_load_model(range(MODELS, MODELS + ALL_MODELS))
