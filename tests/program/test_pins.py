"""Which TensorFlow the files beside a program ask for."""

from __future__ import annotations

import unittest

from parameterized import parameterized

from .programs import TF, WRAPPED, chosen, described, needs, program

PINS = [
    ("tensorflow==2.2.0", "2.2"),
    ("tensorflow-gpu == 2.1.*", "2.1"),
    ("tensorflow[and-cuda]==2.3", "2.3"),
    ("numpy\ntensorflow>=2.0,<2.3  # the API changed", "2.2"),
    ("tensorflow<2.4.0", "2.3"),
    ("tensorflow~=2.2.0", "2.2"),
    ("tensorflow<2", "1.15"),
    ("tensorflow~=1.4", "1.15"),
    ("tensorflow==1", "1.15"),
    # Not that old.
    ("tensorflow<2.4.2", None),
    ("tensorflow>=2.2", None),
    ("tensorflow", None),
    # Not TensorFlow, or not always.
    ("tensorflow-addons==2.2", None),
    ("tensorflow-datasets==2.1.0\nmy-tensorflow==2.2", None),
    ("tensorflow==2.2; python_version < '3.8'", None),
    ("# tensorflow==2.2", None),
    ("tensorflow==2.2\ntensorflow==2.3", None),
    ("git+https://example.org/tensorflow==2.2", None),
]


def as_of(source: str, **files: str) -> object:
    with program(main=source) as path:
        for name, text in files.items():
            (path / name.replace("_", ".")).write_text(text)
        options = described("main.py")["programs"][0]["options"]
        return next((each["value"] for each in options if each["option"] == "as_of"), None)


class PinsTest(unittest.TestCase):
    @parameterized.expand(PINS)
    def test_requirements(self, text: str, release: str | None) -> None:
        self.assertEqual(as_of(WRAPPED, requirements_txt=text), release)

    @parameterized.expand(
        [
            ("setup_py", "setup(\n    install_requires=[\n        'tensorflow==2.2.0',\n    ])"),
            ("setup_cfg", "[options]\ninstall_requires =\n    tensorflow==2.2"),
            ("pyproject_toml", '[project]\ndependencies = ["tensorflow==2.2"]'),
            ("environment_yml", "dependencies:\n  - tensorflow-gpu=2.2\n"),
        ]
    )
    def test_other_files(self, name: str, text: str) -> None:
        self.assertEqual(as_of(WRAPPED, **{name: text}), "2.2")

    def test_a_pin_says_which_keras_too(self) -> None:
        source = TF + "tf.keras.optimizers.Adam(0.1)"
        for text, expected in (
            ("tensorflow==2.12", "--keras 2"),
            ("tensorflow==2.10", "--keras 2 --legacy-optimizers"),
            ("tensorflow==2.16", ""),
        ):
            with program(main=source) as path:
                (path / "requirements.txt").write_text(text)
                self.assertEqual(needs("main.py"), expected)
                for words in (["main.py"], ["-m", "main"]):
                    because = f"(requirements.txt:1 has {text}" if expected else ""
                    self.assertIn(f"{expected} {because}".strip(), chosen(*words))

    def test_a_pin_that_the_source_contradicts(self) -> None:
        for pin in ("tensorflow==2.5", "tensorflow>2.4"):
            with program(main=WRAPPED + "opt.loss_scale()") as path:
                (path / "requirements.txt").write_text(pin)
                (found,) = described("main.py")["programs"]
            self.assertNotIn("as_of", [each["option"] for each in found["options"]])
            self.assertEqual([each["option"] for each in found["disagreements"]], ["as_of"])
