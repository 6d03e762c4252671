"""The table of known causes of errors in programs for earlier releases, with the options that avoid them.

Imported only after an error, since its own imports take time.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

import mpls.optimizer_members as members
from mpls.errors import FRAMEWORKS, NOT_THE_USERS
from mpls.formats.file_kinds import SAVED_MODEL
from mpls.formats.wrapper_state import WRAPPER, WRAPPER_V3
from mpls.hints.removed_names import removal_of
from mpls.importing.user_code import is_users_file
from mpls.names import named
from mpls.program.choices import flag_of
from mpls.program.files import BROKEN, MAX_BYTES_OF_RUN, Folder, parse
from mpls.program.objects import MEMBERS_OF_LOSS_SCALES, Value
from mpls.program.programs import Reading, Tree
from mpls.program.tables import Kind, keras_path, kind_of
from mpls.program.uses import Access, Sign, Use, Where

Options = Mapping[str, bool | int | str]

AS_OF_2_3: Options = {"as_of": "2.3"}
KERAS_2: Options = {"keras": 2}
LEGACY: Options = {"keras": 2, "legacy_optimizers": True}
KERAS_2_REPLACED: Options = {"keras": 2, "replace_existing": True}
REPLACED: Options = {"replace_existing": True}
V1: Options = {"v1": True}
V1_KERAS_2: Options = {"v1": True, "keras": 2}

# In the order in which hints name them.
_ORDER = ("v1", "contrib", "keras", "legacy_optimizers", "as_of", "replace_existing")

# The classes of both Kerases' own wrappers, and the base of those of Keras 2.
_WRAPPERS = (WRAPPER, WRAPPER_V3, "BaseLossScaleOptimizer")
# Members that both wrappers of Keras 2 have, and the one of Keras 3 lacks; there, `variables` is no method.
_OF_WRAPPERS = {*members.SCALING_METHODS, *members.WRAPPER_ATTRIBUTES, *members.OF_KERAS_2, "variables"}
_OF_WRAPPERS |= {members.AGGREGATION_OF_LEGACY, members.AGGREGATION_OF_NEW}
# Members of the wrapped optimizer that only wrappers over legacy optimizers pass on, and those of mpls.
_PASSED_ON = {*members.HYPERPARAMETERS, *members.HYPERPARAMETERS_OF_FTRL, *members.CLIPPING}
_WEIGHTS = {*members.WEIGHTS, "_create_all_weights"}
_OF_LEGACY = {*members.LEGACY_USES, *members.LEGACY_INTERNALS, *_WEIGHTS, *members.HYPERPARAMETER_SERIALIZERS}
# Wrappers over legacy optimizers inherit these, but they fail on them.
_OF_LEGACY_WRAPPERS = _OF_LEGACY - {*members.HYPERPARAMETER_METHODS, *members.HYPERPARAMETER_SERIALIZERS}
# Arguments that only legacy optimizers take. Keras 3 refuses `lr` too, and ignores `decay`.
_LEGACY_ARGUMENTS = {"decay", "gradient_aggregator", "gradient_transformers", "schedule_decay"}
# Arguments that methods of Keras 2 take although their signatures do not name them.
_UNNAMED_ARGUMENTS = {members.AGGREGATION_OF_LEGACY, "experimental_run_tf_function", "period"}
# Where Keras has public classes, beside the package itself.
_SPACES = ("layers", "callbacks", "metrics", "losses", "optimizers", "utils")
# Names in the modules that `tf.keras` is; the end is the same in every Keras.
_OF_KERAS = (
    r"(?:keras\._tf_keras\.keras|keras\.api|keras|tf_keras\.api\._v2\.keras|tensorflow(?:\.compat\.v1)?\.keras)\.(.+)"
)
_KERAS_2_OF_V1 = "tf_keras.api._v1.keras"
_OWN_WRAPPER = "tensorflow.python.training.experimental.loss_scale_optimizer"
_OLD_CHECKPOINT = "You are trying to restore a checkpoint from a legacy (TF-)?Keras optimizer"

# How Keras 3 refuses what Keras 2 takes.
_NOT_IN_KERAS_3 = (
    r".* is not available with Keras 3\.|.* is not supported in Keras 3\.|The `save_format` argument is deprecated in"
    r"|Layer `add_metric\(\)` method is deprecated|A KerasTensor cannot be used as input to a TensorFlow function"
    r"|Unrecognized keyword arguments passed to \w+: \{'(dynamic|fused|weights)':"
    r"|Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be set\. .* global_clipnorm=None"
    r"|Invalid value for argument `reduction`\. .* reduction=auto"
)
_REWRITTEN = ("in user code:", "Exception encountered when calling ")
_REFUSED_PATHS = (
    r"Invalid filepath extension for saving\.|The filename must end in `\.weights\.h5`"
    r"|.*the filepath provided must end in `\.weights\.h5`|The filepath provided must end in `\.keras`"
)


class Failure:
    """An error, where in the user's code it arose, and what the source of the program says.

    Where the main module shows no option, the file of the place and what it imports count as the program.

    Args:
        error: the error; for one inside a `tf.function`, the original that TensorFlow rewrote.
        shown: the error as it is shown, which TensorFlow has rewritten then.
        settings: the arguments of `install` that apply.

    Attributes:
        error: as given.
        settings: as given.
        frames: the frames of its traceback, outermost first.
        frame: the innermost of them in the user's code; None if there is none.
        file: the file that has its source; for a function that AutoGraph converted, the user's file.
        line: the line there.
    """

    def __init__(self, error: BaseException, shown: BaseException, settings: Mapping[str, Any]) -> None:
        self.error = error
        self.settings = settings
        places = [*traceback.walk_tb(error.__traceback__)]
        self.frames: list[FrameType] = [frame for frame, _ in places]
        own = [each for each in places if package_of(each[0]) not in (*NOT_THE_USERS, "importlib")]
        self.frame: FrameType | None = own[-1][0] if own else None
        self.line: int = own[-1][1] if own else 0
        self.file: str = "" if self.frame is None else self.frame.f_code.co_filename
        stack = getattr(getattr(shown, "ag_error_metadata", None), "translated_stack", ())
        # From the inside to the outside.
        converted = [each for each in stack if each.is_converted]
        if converted and "__autograph_generated_file" in self.file:
            self.file, self.line = converted[0].filename, converted[0].lineno

    @cached_property
    def source(self) -> str:
        """The text of the file; "" if it is unknown."""
        lines = linecache.getlines(self.file, None if self.frame is None else self.frame.f_globals)
        return "".join(lines) or (_code_of_command() if self.file == "<string>" else "")

    @cached_property
    def _readings(self) -> list[Reading]:
        main = sys.modules.get("__main__")
        files = dict.fromkeys(os.path.abspath(each) for each in (getattr(main, "__file__", None), self.file) if each)
        text, tree = _code_without_file(), Tree()
        programs = [tree.code(text, "code", max_bytes=MAX_BYTES_OF_RUN)] if text else []
        own = [each for each in files if is_users_file(each) and os.path.isfile(each)]
        programs += [tree.script(each, max_bytes=MAX_BYTES_OF_RUN) for each in own]
        return [Reading(each) for each in programs]

    @cached_property
    def _lines(self) -> set[Where]:
        """The lines of the statement, up to this one."""
        try:
            statements = [each for each in ast.walk(parse(self.source)) if isinstance(each, ast.stmt)]
        except BROKEN:
            statements = []
        around = [each.lineno for each in statements if each.lineno <= self.line <= (each.end_lineno or 0)]
        file, before = os.path.abspath(self.file), 0
        if not os.path.isfile(file):
            # A cell is among others.
            code = _code_without_file()
            file, before = "code", code.count("\n", 0, max(code.rfind(self.source.rstrip()), 0))
        folder, name = os.path.split(os.path.realpath(file))
        shown = name if file == "code" else Folder(folder).shown(name)
        return {Where(shown, each + before) for each in range(max(around, default=self.line), self.line + 1)}

    @cached_property
    def signs(self) -> list[Sign]:
        """The lines of the program that show which options it needs."""
        return [sign for reading in self._readings for sign in reading.signs]

    @cached_property
    def uses(self) -> list[Use]:
        """The names of TensorFlow and Keras that the statement uses."""
        return [each for reading in self._readings for each in reading.uses.uses if each.where in self._lines]

    @cached_property
    def _accesses(self) -> list[Access]:
        """The attributes of other objects that the statement uses."""
        return [each for reading in self._readings for each in reading.uses.accesses if each.where in self._lines]

    def takes_loss_scale(self) -> bool:
        """Return whether the statement takes a loss scale as the object that it was up to TF 2.3."""
        if any("loss_scale" in sign.what and sign.where in self._lines for sign in self.signs):
            return True
        read = [each for each in self._accesses if each.name in ("loss_scale", "get_config")]
        read = [each for each in read if each.call is None or not any(each.call[:2])]
        if re.search(r"Tensor' object is not callable", str(self.error)):
            # Also of what has no name, as what a generator gives.
            return any(each.name == "loss_scale" and each.call is not None for each in read)
        # Of an object that the source does not show to be an experimental wrapper.
        wrapper = getattr(sys.modules.get("mpls.experimental"), WRAPPER, None)
        return wrapper is not None and any(isinstance(self._value(each.owner), wrapper) for each in read)

    def makes_old_wrappers(self) -> bool:
        """Return whether the program makes experimental wrappers, which had such objects."""
        every = (each for reading in self._readings for each in reading.uses.uses)
        return any(kind_of(each.path) is Kind.EXPERIMENTAL_WRAPPER for each in every)

    def shows(self, about: str, value: int | None = None) -> bool:
        """Return whether a line shows something about an option, or that the option needs a value."""
        return any(sign.about == about and value in (None, sign.value) for sign in self.signs)

    def choices(self, keras: int | None) -> dict[str, bool | int | str]:
        """Return the options that `mpls run` would choose.

        Args:
            keras: the generation of Keras that is given; None to choose it too.
        """
        decided = (reading.decide(keras).choices for reading in self._readings)
        return {each.option: each.value for each in next(filter(None, decided), ())}

    @property
    def this(self) -> Any:
        """The first argument of the function that the place is in, such as `self`; None if it has no arguments."""
        if self.frame is None or not self.frame.f_code.co_argcount:
            return None
        return self.frame.f_locals.get(self.frame.f_code.co_varnames[0])

    @property
    def missing(self) -> tuple[Any, str]:
        """The object that lacks an attribute, and the attribute's name; None and "" for any other error."""
        error = self.error
        is_missing = isinstance(error, AttributeError) and isinstance(error.name, str)
        return (error.obj, error.name) if is_missing else (None, "")  # type: ignore[attr-defined]

    @cached_property
    def member(self) -> tuple[Any, str]:
        """The object that lacks a member, and its name: an attribute, a method that is a list now, or an argument."""
        text = str(self.error)
        if not isinstance(self.error, TypeError):
            return self.missing
        if "object is not callable" in text:
            return next(iter(self._owners("variables")), None), "variables"
        found = re.match(r"(\w+)\.(\w+)\(\) got an unexpected keyword argument '(\w+)'", text)
        name, method, argument = ("", "", "") if found is None else found.groups()
        owners = self._owners(method)
        if self.says("", "keras"):
            owners.append(sys.modules["keras"].Model)
        for owner in owners:
            named = [each for each in _mro(owner) if each.__name__ == name and method in vars(each)]
            if named and all(_package(each) == "keras" for each in named):
                return owner, f"{method}({argument})"
        return None, ""

    def _owners(self, method: str) -> list[Any]:
        """Return the objects whose method is called here; for `__init__`, the classes of Keras that are called."""
        if method == "__init__":
            paths = [keras_path(each.path).split(".") for each in self.uses if each.call is not None]
            return [_followed(sys.modules.get("keras"), each[1:]) for each in paths if len(each) > 1]
        return [self._value(each.owner) for each in self._accesses if each.name == method and each.call is not None]

    def _value(self, value: Value) -> Any:
        """Return the value of a variable or of an attribute of one; None if it is not known."""
        first, *attributes = value.names
        if first in ("super()", *(f"{each.__name__}()" for each in _mro(self.this))):
            return _followed(self.this, attributes)
        found = None if self.frame is None else self.frame.f_locals.get(first, self.frame.f_globals.get(first))
        return _followed(found, attributes)

    def says(self, pattern: str, *packages: str) -> re.Match[str] | None:
        """Return the match of a pattern with the message of an error that one of some packages has raised.

        Keras drops its own frames from tracebacks' ends: then it is theirs unless the program raises it.
        """
        found = [package_of(each) for each in self.frames]
        lines = self.source.split("\n")[self.line - 1 : self.line]
        is_raised = any(re.search(r"\braise\b", each) for each in lines)
        is_theirs = found[-1] in packages or not (is_raised or set(packages).isdisjoint(found))
        return re.match(pattern, str(self.error), re.DOTALL) if is_theirs else None

    @cached_property
    def path(self) -> str:
        """The dotted name of a module's attribute, or of a module, that was not found; "" for any other error."""
        holder, attribute = self.missing
        if isinstance(self.error, ImportError):
            name = getattr(self.error, "name_from", None) or _match(r"cannot import name '(\w+)'", str(self.error))
            return ".".join(filter(None, (self.error.name, name)))
        return f"{holder.__name__}.{attribute}" if isinstance(holder, ModuleType) else ""

    @property
    def short_paths(self) -> list[str]:
        """That name in TensorFlow, with the rest of each expression or import that begins so: `tf.contrib.slim`."""
        found = re.fullmatch(r"tensorflow(?:\._api\.v2)?(?:\.compat\.v[12])?((?:\..*)?)", self.path)
        if found is None:
            return []
        whole = [re.sub(r"^tf\.compat\.v[12]\.", "tf.", each.path) for each in self.uses]
        return [each for each in whole if each.startswith(f"tf{found[1]}.")] or [f"tf{found[1]}"]

    @property
    def is_through_v1(self) -> bool:
        """Whether `tensorflow.compat.v1` is in the expression or the import."""
        return bool(self.settings.get("v1")) or any(each.path.startswith("tf.compat.v1.") for each in self.uses)


def package_of(frame: FrameType) -> str:
    """Return the package that a frame's code belongs to."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _code_without_file() -> str:
    """Return the code of the program that is in no file: of cells, or of `python -c`."""
    main = sys.modules.get("__main__")
    # IPython and notebooks have the cells in `In`.
    return "\n".join(getattr(main, "In", ()) if hasattr(main, "get_ipython") else ()) or _code_of_command()


def _code_of_command() -> str:
    """Return the code of `python -c CODE`; "" if the process was started in another way."""
    is_command = sys.argv[:1] == ["-c"] and "-c" in sys.orig_argv
    return sys.orig_argv[sys.orig_argv.index("-c") + 1] if is_command else ""


# What objects are.


def _mro(value: Any) -> tuple[type, ...]:
    return value.__mro__ if isinstance(value, type) else type(value).__mro__


def _package(value: type) -> str:
    return value.__module__.partition(".")[0]


def _is_own(value: type) -> bool:
    return _package(value) not in (*FRAMEWORKS, "mpls")


def _optimizer_of(value: Any) -> str:
    """Return the Keras package whose optimizer a value is; "" for any other value."""
    homes = {_package(each) for each in _mro(value) if each.__name__ == "Optimizer"}
    return next(iter(homes & {"keras", "tf_keras"}), "")


def _wrapper_of(value: Any) -> str:
    """Return the Keras package whose own wrapper a value is; "mpls" for wrappers of mpls, "" for any other value."""
    homes = {_package(each) for each in _mro(value) if each.__name__ in _WRAPPERS}
    return next((each for each in ("mpls", "keras", "tf_keras") if each in homes), "")


def _match(pattern: str, text: str) -> str:
    found = re.match(pattern, text)
    return found[1] if found else ""


def _followed(value: Any, names: Sequence[str]) -> Any:
    for each in names:
        value = getattr(value, each, None)
    return value


def _takes_a_loss_scale(failure: Failure) -> bool:
    """Return whether a loss scale or a config is no longer what it was while wrappers had LossScale objects."""
    error, (holder, name) = failure.error, failure.missing
    is_read = isinstance(holder, sys.modules["tensorflow"].Tensor) and name in MEMBERS_OF_LOSS_SCALES
    is_called = isinstance(error, TypeError) and "object is not callable" in str(error)
    is_item = isinstance(error, KeyError) and error.args == ("loss_scale",)
    if (is_read or is_called or is_item) and failure.takes_loss_scale():
        return True
    # Only LossScale objects had the private ones.
    return is_read and name.startswith("_") and failure.makes_old_wrappers()


# Members that only some generations of Keras have.


def _unlike_keras_2(failure: Failure) -> bool:
    """Return whether Keras 3's own wrapper lacks what both wrappers of Keras 2 have, or refuses it."""
    holder, name = failure.member
    if failure.says("LossScaleOptimizer no longer supports `dynamic=False`", "keras"):
        return True
    return _wrapper_of(holder) == "keras" and (_match(r"apply_gradients\((\w+)\)", name) or name) in _OF_WRAPPERS


def _unlike_keras_2_in_keras_3(failure: Failure) -> bool:
    """Return whether the program makes the wrapper itself, and has chosen Keras 3."""
    if not _unlike_keras_2(failure) or not failure.shows("replace_existing"):
        return False
    return failure.settings.get("keras") == 3 or failure.shows("tf_keras")


def _passes_nothing_on(failure: Failure) -> bool:
    """Return whether a Keras' own wrapper lacks the weights or a hyperparameter of the wrapped optimizer."""
    holder, name = failure.missing
    is_passed_on = name in _PASSED_ON and hasattr(getattr(holder, "inner_optimizer", None), name)
    return _wrapper_of(holder) in ("keras", "tf_keras") and (is_passed_on or name in _WEIGHTS)


def _passes_nothing_on_by_program(failure: Failure) -> bool:
    is_own = _is_own(_mro(failure.missing[0])[0])
    return _passes_nothing_on(failure) and (is_own or "replace_existing" in failure.choices(None))


def _extends_wrapper_of_keras_2(failure: Failure) -> bool:
    """Return whether a subclass of Keras 2's public LossScaleOptimizer is given arguments, or passes them on.

    The public class makes objects of other classes, and its own constructor takes no arguments.
    """
    if not isinstance(failure.error, TypeError):
        return False
    if str(failure.error).startswith("object.__init__() takes exactly one argument"):
        return _wrapper_of(failure.this) == "tf_keras"
    name = _match(r"(\w+)\(\) takes no arguments", str(failure.error))
    wrapper = _followed(sys.modules.get("tf_keras"), ("mixed_precision", WRAPPER))
    return wrapper is not None and any(each.__name__ == name and _is_own(each) for each in _subclasses(wrapper))


def _subclasses(base: type) -> Iterator[type]:
    every: list[type] = base.__subclasses__()
    for each in every:
        yield each
        yield from _subclasses(each)


def _had_keras_2(failure: Failure) -> bool:
    """Return whether an object of Keras 3 lacks a member, or a method an argument, that Keras 2 has."""
    holder, name = failure.member
    method, _, argument = name.removesuffix(")").partition("(")
    bases = [each.__name__ for each in _mro(holder) if _package(each) == "keras"]
    if not name or not bases or _wrapper_of(holder):
        return False
    tf_keras = import_module("tf_keras")
    keras_2 = (tf_keras, *(getattr(tf_keras, each) for each in _SPACES))
    found = [getattr(space, each, None) for space in keras_2 for each in bases]
    methods = [getattr(each, method) for each in found if isinstance(each, type) and hasattr(each, method)]
    if not argument:
        return bool(methods)
    taken = [each for one in methods for each in inspect.signature(one).parameters.values()]
    is_unnamed = argument in _UNNAMED_ARGUMENTS
    return any(each.name == argument or (is_unnamed and each.kind is each.VAR_KEYWORD) for each in taken)


def _had_legacy_optimizers(failure: Failure) -> bool:
    """Return whether an optimizer, or a wrapper, lacks a member that optimizers had up to TF 2.10."""
    holder, name = failure.missing
    return name in (_OF_LEGACY_WRAPPERS if _wrapper_of(holder) else _OF_LEGACY) and bool(_optimizer_of(holder))


def _subclasses_legacy_optimizer(failure: Failure) -> bool:
    """Return whether Keras refuses a subclass that overrides methods which only legacy optimizers call."""
    last = failure.frames[-1]
    this = last.f_locals.get("self", failure.this)
    is_refused = package_of(last) in ("keras", "tf_keras") or "__init__() missing 1 required pos" in str(failure.error)
    overrides = any(_is_own(each) and vars(each).keys() & {*members.LEGACY_METHODS} for each in _mro(this))
    return is_refused and overrides and bool(_optimizer_of(this))


def _takes_variable_of_keras_3(failure: Failure) -> bool:
    """Return whether an optimizer of TF 1, or a function of Keras 2's backend, fails on a variable of Keras 3."""
    last = failure.frames[-1].f_globals.get("__name__")
    if last == "tensorflow.python.training.optimizer":
        return failure.missing[1] == "_in_graph_mode" and "keras" in map(_package, _mro(failure.missing[0]))
    return last == "keras.src.legacy.backend" and isinstance(failure.missing[0], str)


# What frameworks refuse by a message.


def _refused_arguments(failure: Failure) -> set[str]:
    """Return the arguments of an optimizer that Keras 3 refuses and Keras 2 takes, with the others of the same call."""
    found = failure.says(r"Argument\(s\) not recognized: (.*)", "keras")
    refused = set(re.findall(r"'(\w+)':", found[1])) if found else set()
    given = {str(one) for each in failure.uses if each.call is not None for one in each.call.keywords}
    return refused | given if refused and refused <= {"lr", *_LEGACY_ARGUMENTS} else set()


def _gives_legacy_arguments(failure: Failure) -> bool:
    is_refused = failure.says(rf"({'|'.join(_LEGACY_ARGUMENTS)}) is (deprecated in|not a valid arg)", "tf_keras")
    return is_refused is not None or not _LEGACY_ARGUMENTS.isdisjoint(_refused_arguments(failure))


def _loads_as_keras_2(failure: Failure) -> bool:
    found = failure.says(r"File format not supported: filepath=(.*?)\. Keras 3 only", "keras")
    return found is not None and any(map(os.path.exists, (os.path.join(found[1], SAVED_MODEL), f"{found[1]}.index")))


def _rewrites_for_keras(failure: Failure) -> bool:
    """Return whether TensorFlow's graph rewrite refuses an optimizer of Keras 3, or a new one of Keras 2."""
    refused = failure.says(r'"opt" must be an instance of a tf\.train\.Optimizer', "tensorflow")
    return refused is not None and bool(_optimizer_of(failure.frames[-1].f_locals.get("opt")))


def _unscales_float16(failure: Failure) -> bool:
    """Return whether TensorFlow's own wrapper of graph mode divides float16 gradients by a float32 scale."""
    modules = {frame.f_globals.get("__name__") for frame in failure.frames}
    return _OWN_WRAPPER in modules and failure.says(".*float16", "tensorflow") is not None


# Names that modules lack.


def _is_name_of(failure: Failure, keras_2: str) -> bool:
    """Return whether Keras 3 lacks a name that a module of Keras 2 has."""
    rest = _match(_OF_KERAS, failure.path)
    return bool(rest) and _followed(import_module(keras_2), rest.split(".")) is not None


def _is_name_of_keras_2(failure: Failure) -> bool:
    return _is_name_of(failure, "tf_keras") or (failure.is_through_v1 and _is_name_of(failure, _KERAS_2_OF_V1))


def _is_name_of_v1(failure: Failure) -> bool:
    tf = sys.modules["tensorflow"]
    # With `--v1`, `tf.python` is an attribute, as in TF 1.
    is_private = failure.missing == (tf, "python")
    return is_private or any(_is_in(tf.compat.v1, path.split(".")[1:]) for path in failure.short_paths)


def _is_in(v1: Any, parts: list[str]) -> bool:
    """Return whether TF 1 has a path; beyond the first object that is not a module, attributes may be missing."""
    if not parts or parts[0] in ("keras", "python", "compat", "contrib"):
        return False
    value = v1
    for number, part in enumerate(parts):
        if not hasattr(value, part):
            return number > 0 and not isinstance(value, ModuleType)
        value = getattr(value, part)
    return True


def _is_of_a_child(failure: Failure) -> bool:
    """Return whether a process of a pool lacks a historical name, which the process that shows the error has."""
    is_remote = type(failure.error.__cause__).__name__.endswith("RemoteTraceback")
    return is_remote and not _is_contrib(failure) and any(map(named, failure.short_paths))


def _is_contrib(failure: Failure) -> bool:
    return any(f"{path}.".startswith("tf.contrib.mixed_precision.") for path in failure.short_paths)


def _removal(failure: Failure) -> str:
    return next((found[1] for path in failure.short_paths if (found := removal_of(path))), "")


def _says(pattern: str, *packages: str) -> Callable[[Failure], bool]:
    return lambda failure: failure.says(pattern, *packages) is not None


@dataclass(frozen=True)
class Cause:
    """A known cause of errors.

    Attributes:
        applies: returns whether it caused a failure; or a text, which is then said.
        options: the options of `mpls run` that avoid it; none where nothing does.
        says: the explanation.
        anchor: the section of the documentation that says more.
    """

    applies: Callable[[Failure], bool | str]
    options: Options
    says: str
    anchor: str = "programs-as-they-are"


_OBJECT = "opt.loss_scale is a tensor since TF 2.4; before, it was an object, which the config of a wrapper had too"
_WRAPPER = "Keras 3's LossScaleOptimizer, which compile makes too, has no such thing; that of TF 2.4 to 2.15 had"
_PASSES = "wrappers have passed this on from the wrapped optimizer up to TF 2.10"
_PRIVATE_WRAPPER = "the wrapper of tensorflow.python.keras takes no optimizers of tf.keras, that of mpls does"
_IN_A_CHILD = "the process that the program started does not have this name: leave out --no-children, or call "
_IN_A_CHILD += "mpls.install() in that process too"
_NONE = "Keras 3 has no such thing, Keras 2 had"
_FILES = "Keras 3 refuses this path for a model or weights, Keras 2 saves to it"
_GRAPHS = "this is a program of TF 1, whose graphs TF 2 does not build by itself"

# The first that applies, and has an option that is not on, gives the hint.
CAUSES = (
    Cause(_takes_a_loss_scale, AS_OF_2_3, _OBJECT, "as-of"),
    Cause(_unlike_keras_2_in_keras_3, REPLACED, _WRAPPER),
    Cause(_unlike_keras_2, KERAS_2, _WRAPPER, "keras-2"),
    Cause(_passes_nothing_on_by_program, KERAS_2_REPLACED, _PASSES, "keras-2"),
    Cause(_passes_nothing_on, LEGACY, _PASSES, "keras-2"),
    Cause(_extends_wrapper_of_keras_2, KERAS_2_REPLACED, "Keras 2's LossScaleOptimizer cannot be derived from"),
    Cause(_subclasses_legacy_optimizer, LEGACY, "optimizers have called this method up to TF 2.10", "keras-2"),
    Cause(_gives_legacy_arguments, LEGACY, "optimizers have taken this argument up to TF 2.10", "keras-2"),
    Cause(_rewrites_for_keras, LEGACY, "the graph rewrite takes Keras optimizers of up to TF 2.10", "keras-2"),
    Cause(_says('"inner_optimizer" must be an instance of OptimizerV2', "tensorflow"), REPLACED, _PRIVATE_WRAPPER),
    Cause(_unscales_float16, REPLACED, "TensorFlow's own wrapper takes no float16 gradients, that of mpls does"),
    Cause(_says(_OLD_CHECKPOINT, "tf_keras"), LEGACY, "this checkpoint is of an optimizer of up to TF 2.10", "keras-2"),
    Cause(lambda failure: bool(_refused_arguments(failure)), KERAS_2, _NONE, "keras-2"),
    Cause(_had_keras_2, KERAS_2, _NONE, "keras-2"),
    Cause(_had_legacy_optimizers, LEGACY, "optimizers have had this up to TF 2.10", "keras-2"),
    Cause(_takes_variable_of_keras_3, KERAS_2, "this takes no variables of Keras 3", "keras-2"),
    Cause(_is_of_a_child, {}, _IN_A_CHILD),
    Cause(_is_contrib, {"contrib": True}, "tf.contrib.mixed_precision is put back if it is asked for", "contrib"),
    Cause(_removal, {}, "", "removed-with-tf-1"),
    Cause(_loads_as_keras_2, KERAS_2, "Keras 3 loads neither SavedModels nor checkpoints, Keras 2 does", "keras-2"),
    Cause(_says(_REFUSED_PATHS, "keras"), KERAS_2, _FILES, "keras-2"),
    Cause(_says(_NOT_IN_KERAS_3, "keras", "tensorflow"), KERAS_2, _NONE, "keras-2"),
    Cause(_is_name_of_keras_2, KERAS_2, _NONE, "keras-2"),
    Cause(lambda failure: _is_name_of(failure, _KERAS_2_OF_V1), V1_KERAS_2, "this is a name of Keras 2 in TF 1"),
    Cause(_is_name_of_v1, V1, "this is a name of TF 1"),
    Cause(_says(r"tf\.(sparse_)?placeholder\(\) is not compatible with eager", "tensorflow"), V1, _GRAPHS),
)


def hint_of(error: BaseException, settings: Mapping[str, Any], function: Any = None) -> str | None:
    """Return a line about the cause of an error; None if the cause is not certain.

    Args:
        error: the error that ended a program. Those that it was raised `from`, or is a group of, count first.
        settings: the arguments of `install` that apply.
        function: `install`, for programs that call it; None for `mpls run`.
    """
    # A failure while looking for the hint must not hide the program's own error.
    try:
        chain = [error]
        for each in chain:
            grouped = getattr(each, "exceptions", ())
            others = [each.__cause__, *(grouped if isinstance(grouped, tuple) else ())]
            chain += [other for other in others if isinstance(other, BaseException) and other not in chain]
        return next(filter(None, (_hint(each, settings, function) for each in reversed(chain))), None)
    except Exception:
        return None


def _hint(error: BaseException, settings: Mapping[str, Any], function: Any) -> str | None:
    first = error
    # TensorFlow and Keras replace errors by others of the same class, with longer messages.
    while first.__context__ is not None and str(first).startswith(_REWRITTEN):
        error, first = first, first.__context__
    failure = Failure(first, error, settings)
    # The causes look into TensorFlow and tf_keras; for a program that runs without them they would load both.
    if failure.frame is None or "tensorflow" not in sys.modules:
        return None
    on = {name: value for name, value in settings.items() if value not in (None, False)}
    for cause in CAUSES:
        needed = {name: value for name, value in cause.options.items() if on.get(name) != value}
        # Of two releases, the one that was asked for stays.
        if (cause.options and not needed) or ("as_of" in needed and "as_of" in on):
            continue
        says = cause.applies(failure)
        is_about_keras = not needed.keys().isdisjoint(("keras", "replace_existing"))
        if not says or (is_about_keras and failure.shows("keras", 3)):
            continue
        text = says if isinstance(says, str) else cause.says
        if needed:
            given = settings.get("keras")
            chosen = {**failure.choices(2 if "keras" in needed else given), **failure.choices(given)}
            text = f"{text}. {_advice({**chosen, **on, **needed}, function)}"
        return f"{'mpls' if function is not None else 'mpls run'}: {text}. See mpls docs {cause.anchor}"
    return None


def _advice(options: Options, function: Any) -> str:
    """Return how to have all of some options."""
    given = {name: options[name] for name in _ORDER if name in options}
    if function is not None:
        return f"Call mpls.install({', '.join(f'{name}={value!r}' for name, value in given.items())})"
    return f"Run it with {' '.join(flag_of(*each) for each in given.items())}"
