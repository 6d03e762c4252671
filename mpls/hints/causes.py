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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import FrameType, ModuleType, TracebackType
from typing import Any, TypeVar

import mpls.optimizer_members as members
from mpls.errors import FRAMEWORKS, NOT_THE_USERS
from mpls.formats.file_kinds import SAVED_MODEL
from mpls.formats.wrapper_state import WRAPPER, WRAPPER_V3
from mpls.hints.removed_names import removal_of
from mpls.importing.user_code import is_users_file
from mpls.program.files import MAX_BYTES_OF_RUN
from mpls.program.programs import Reading, Tree

_Node = TypeVar("_Node", ast.Attribute, ast.Call, ast.Subscript, ast.Import, ast.ImportFrom, ast.Raise)

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
# Up to TF 2.3, `opt.loss_scale` was a LossScale object with these attributes; no tensor has them.
_OF_LOSS_SCALES = {*members.ATTRIBUTES_OF_LOSS_SCALES, "update", "get_config"}
# Arguments that only legacy optimizers take. Keras 3 refuses `lr` too, and ignores `decay`.
_LEGACY_ARGUMENTS = {"decay", "gradient_aggregator", "gradient_transformers", "schedule_decay"}
# Arguments that methods of Keras 2 take although their signatures do not name them.
_UNNAMED_ARGUMENTS = {members.AGGREGATION_OF_LEGACY, "experimental_run_tf_function", "period"}
# Where Keras has public classes, beside the package itself.
_SPACES = ("layers", "callbacks", "metrics", "losses", "utils")
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


# Where in the user's code an error arose, what the source says there, and what it says about the whole program.


@dataclass(frozen=True)
class Place:
    """The innermost place in the user's code that an error passed through.

    Attributes:
        frame: its frame.
        file: the file that has its source; for a function that AutoGraph converted, the user's file.
        line: the line there.
    """

    frame: FrameType
    file: str
    line: int

    @staticmethod
    def of(error: BaseException, shown: BaseException) -> Place | None:
        """Return the place of an error; None if no frame is the user's.

        Args:
            error: the error.
            shown: the error as it is shown; TensorFlow has rewritten it if it arose in a `tf.function`.
        """
        places = [
            Place(entry.tb_frame, entry.tb_frame.f_code.co_filename, entry.tb_lineno)
            for entry in _entries(error.__traceback__)
            if package_of(entry.tb_frame) not in (*NOT_THE_USERS, "importlib")
        ]
        stack = getattr(getattr(shown, "ag_error_metadata", None), "translated_stack", ())
        # From the inside to the outside.
        converted = [each for each in stack if each.is_converted]
        if places and converted and "__autograph_generated_file" in places[-1].file:
            return Place(places[-1].frame, converted[0].filename, converted[0].lineno)
        return places[-1] if places else None

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the file; an empty one if its source is unknown."""
        lines = linecache.getlines(self.file, self.frame.f_globals)
        try:
            return ast.parse("".join(lines) or (_code_of_command() if self.file == "<string>" else ""))
        except SyntaxError:
            return ast.Module([], [])

    def nodes(self, kind: type[_Node]) -> Iterator[_Node]:
        """Yield the expressions or statements of a kind that the line belongs to."""
        for node in ast.walk(self.tree):
            if isinstance(node, kind) and node.lineno <= self.line <= (node.end_lineno or node.lineno):
                yield node

    def owners(self, method: str, *, with_arguments: bool) -> list[ast.expr]:
        """Return the objects whose method is called here; for `__init__`, the classes of which objects are made."""
        calls = [each for each in self.nodes(ast.Call) if bool(each.args or each.keywords) is with_arguments]
        if method == "__init__":
            return [each.func for each in calls]
        functions = [each.func for each in calls]
        return [each.value for each in functions if isinstance(each, ast.Attribute) and each.attr == method]

    def value(self, node: ast.expr) -> Any:
        """Return the value of a variable or of an attribute of one; None for any other expression, and if it has none.

        For `super()`, return the object whose method it is in.
        """
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return None if owner is None else getattr(owner, node.attr, None)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            return self.this
        if not isinstance(node, ast.Name):
            return None
        return self.frame.f_locals.get(node.id, self.frame.f_globals.get(node.id))

    @property
    def raises(self) -> bool:
        """Whether the program itself raises an error here."""
        return any(True for _ in self.nodes(ast.Raise))

    @property
    def this(self) -> Any:
        """The first argument of the enclosing function, such as `self`; None if it has no arguments."""
        code = self.frame.f_code
        return self.frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


class SourceOfProgram:
    """What the source of the running program says about the options that it needs.

    Args:
        place: where an error arose. Where the main module shows no option, the file of the place and what it imports
            count as the program.
    """

    def __init__(self, place: Place) -> None:
        main = sys.modules.get("__main__")
        files = {os.path.abspath(each): None for each in (getattr(main, "__file__", None), place.file) if each}
        # IPython and notebooks have the cells in `In`.
        cells = getattr(main, "In", ()) if hasattr(main, "get_ipython") else ()
        text = "\n".join(cells) or _code_of_command()
        tree = Tree()
        programs = [tree.code(text, "code", max_bytes=MAX_BYTES_OF_RUN)] if text else []
        own = [each for each in files if is_users_file(each) and os.path.isfile(each)]
        programs += [tree.script(each, max_bytes=MAX_BYTES_OF_RUN) for each in own]
        self._readings = [Reading(each) for each in programs]
        self._signs = [sign for reading in self._readings for sign in reading.signs]

    def has(self, about: str, value: int | None = None) -> bool:
        """Return whether a line shows something about an option, or that the option needs a value."""
        return any(sign.about == about and value in (None, sign.value) for sign in self._signs)

    def lines_about(self, word: str, file: str) -> set[int]:
        """Return the lines of a file that show an option by a use of something, by a word of its name."""
        of_word = [sign.where for sign in self._signs if word in sign.what]
        return {each.line for each in of_word if os.path.realpath(each.file) == os.path.realpath(file)}

    def choices(self, keras: int | None) -> dict[str, bool | int | str]:
        """Return the options that `mpls run` would choose.

        Args:
            keras: the generation of Keras that is given; None to choose it too.
        """
        decided = (reading.decide(keras).choices for reading in self._readings)
        return {each.option: each.value for each in next(filter(None, decided), ())}


def package_of(frame: FrameType) -> str:
    """Return the package that a frame's code belongs to."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def frames_of(error: BaseException) -> list[FrameType]:
    """Return the frames of an error's traceback, outermost first."""
    return [entry.tb_frame for entry in _entries(error.__traceback__)]


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _code_of_command() -> str:
    """Return the code of `python -c CODE`; "" if the process was started in another way."""
    is_command = sys.argv[:1] == ["-c"] and "-c" in sys.orig_argv
    return sys.orig_argv[sys.orig_argv.index("-c") + 1] if is_command else ""


# Errors.


@dataclass(frozen=True)
class Failure:
    """An error and its circumstances.

    Attributes:
        error: the error; for one inside a `tf.function`, the original that TensorFlow rewrote.
        place: where in the user's code it arose.
        settings: the arguments of `install` that apply.
    """

    error: BaseException
    place: Place
    settings: Mapping[str, Any]

    @cached_property
    def program(self) -> SourceOfProgram:
        """What the source of the program says."""
        return SourceOfProgram(self.place)

    @property
    def missing(self) -> tuple[Any, str]:
        """The object that lacks an attribute, and the attribute's name; None and "" for any other error."""
        is_missing = isinstance(self.error, AttributeError) and isinstance(self.error.name, str)
        return (self.error.obj, self.error.name) if is_missing else (None, "")  # type: ignore[attr-defined]

    @cached_property
    def member(self) -> tuple[Any, str]:
        """The object that lacks a member, and its name: an attribute, a method that is a list now, or an argument."""
        text = str(self.error)
        if not isinstance(self.error, TypeError):
            return self.missing
        if "object is not callable" in text:
            called = self.place.owners("variables", with_arguments=False)
            return next(map(self.place.value, called), None), "variables"
        found = re.match(r"(\w+)\.(\w+)\(\) got an unexpected keyword argument '(\w+)'", text)
        name, method, argument = ("", "", "") if found is None else found.groups()
        owners = [self.place.value(each) for each in self.place.owners(method, with_arguments=True)]
        if self.says("", "keras"):
            owners.append(sys.modules["keras"].Model)
        for owner in owners:
            named = [each for each in _mro(owner) if each.__name__ == name and method in vars(each)]
            if named and all(_package(each) == "keras" for each in named):
                return owner, f"{method}({argument})"
        return None, ""

    def says(self, pattern: str, *packages: str) -> re.Match[str] | None:
        """Return the match of a pattern with the message of an error that one of some packages has raised.

        Keras drops its own frames from tracebacks' ends: then it is theirs unless the program raises it.
        """
        found = [package_of(each) for each in frames_of(self.error)]
        is_theirs = found[-1] in packages or not (self.place.raises or set(packages).isdisjoint(found))
        return re.match(pattern, str(self.error), re.DOTALL) if is_theirs else None

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The dotted names of modules' attributes, or of modules, that were not found.

        They go on with the rest of the expression or import: `tensorflow.contrib.slim.nets`.
        """
        holder, attribute = self.missing
        if isinstance(self.error, ImportError):
            module = self.error.name or ""
            name = getattr(self.error, "name_from", None) or _match(r"cannot import name '(\w+)'", str(self.error))
            if name:
                return (f"{module}.{name}",)
            wanted = [f"{each.module}.{one.name}" for each in self.place.nodes(ast.ImportFrom) for one in each.names]
            wanted += [one.name for each in self.place.nodes(ast.Import) for one in each.names]
            return tuple(each for each in wanted if f"{each}.".startswith(f"{module}.")) or (module,)
        if not isinstance(holder, ModuleType):
            return ()
        chains = [
            ast.unparse(each).partition(f".{attribute}.")[2]
            for each in self.place.nodes(ast.Attribute)
            if f".{attribute}." in ast.unparse(each)
        ]
        rest = max(chains, key=len, default="")
        return (".".join(filter(None, (holder.__name__, attribute, rest))),)

    @property
    def short_paths(self) -> tuple[str, ...]:
        """Those of them that are in TensorFlow, as `tf.contrib.slim.nets`."""
        found = (re.fullmatch(r"tensorflow(\._api\.v2)?(\.compat\.v[12])?((\..*)?)", each) for each in self.paths)
        return tuple(f"tf{each[3]}" for each in found if each)

    @property
    def is_through_v1(self) -> bool:
        """Whether `tensorflow.compat.v1` is in the expression or the import."""
        values = [self.place.value(each.value) for each in self.place.nodes(ast.Attribute)]
        names = [value.__name__ for value in values if isinstance(value, ModuleType)]
        names += [str(each.module) for each in self.place.nodes(ast.ImportFrom)]
        return bool(self.settings.get("v1")) or any("compat.v1" in each for each in names)


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


def _is_experimental_wrapper(value: Any) -> bool:
    # Without this module, there is no instance.
    if "mpls.experimental" not in sys.modules:
        return False
    from mpls.experimental import LossScaleOptimizer

    return isinstance(value, LossScaleOptimizer)


def _match(pattern: str, text: str) -> str:
    found = re.match(pattern, text)
    return found[1] if found else ""


def _followed(value: Any, names: list[str]) -> Any:
    for each in names:
        value = getattr(value, each, None)
    return value


# As of TF 2.3.


def _is_experimental(failure: Failure, objects: list[ast.expr]) -> bool:
    """Return whether expressions are experimental wrappers; the program's source tells of those without a name."""
    place = failure.place
    unnamed = [each for each in objects if place.value(each) is None]
    named = [each for each in objects if each not in unnamed]
    told = failure.program.lines_about("loss_scale", place.file) if unnamed else set()
    is_told = all(told & {*range(each.lineno, place.line + 1)} for each in unnamed)
    return bool(objects) and is_told and all(_is_experimental_wrapper(place.value(each)) for each in named)


def _calls_a_loss_scale(failure: Failure) -> bool:
    is_called = isinstance(failure.error, TypeError) and "object is not callable" in str(failure.error)
    return is_called and _is_experimental(failure, failure.place.owners("loss_scale", with_arguments=False))


def _reads_of_a_loss_scale(failure: Failure) -> bool:
    holder, name = failure.missing
    if not isinstance(holder, sys.modules["tensorflow"].Tensor) or name not in _OF_LOSS_SCALES:
        return False
    reads = [each.value for each in failure.place.nodes(ast.Attribute) if each.attr == name]
    # Only LossScale objects had the private ones, but `loss_scale` in the expression may be the program's own.
    scales = [each.value for each in reads if isinstance(each, ast.Attribute) and each.attr == "loss_scale"]
    return _is_experimental(failure, scales) if scales else name.startswith("_")


def _reads_loss_scale_of_a_config(failure: Failure) -> bool:
    if not isinstance(failure.error, KeyError) or failure.error.args != ("loss_scale",):
        return False
    reads = [each.value for each in failure.place.nodes(ast.Subscript) if "'loss_scale'" in ast.unparse(each.slice)]
    names = {each.id for each in reads if isinstance(each, ast.Name)}
    assigned = [each for each in ast.walk(failure.place.tree) if isinstance(each, ast.Assign)]
    reads = [each for each in reads if not isinstance(each, ast.Name)]
    reads += [each.value for each in assigned if names & {ast.unparse(target) for target in each.targets}]
    configs = [each.func for each in reads if isinstance(each, ast.Call)]
    owners = [each.value for each in configs if isinstance(each, ast.Attribute) and each.attr == "get_config"]
    return len(owners) == len(reads) and _is_experimental(failure, owners)


# Members that only some generations of Keras have.


def _unlike_keras_2(failure: Failure) -> bool:
    """Return whether Keras 3's own wrapper lacks what both wrappers of Keras 2 have, or refuses it."""
    holder, name = failure.member
    if failure.says("LossScaleOptimizer no longer supports `dynamic=False`", "keras"):
        return True
    return _wrapper_of(holder) == "keras" and (_match(r"apply_gradients\((\w+)\)", name) or name) in _OF_WRAPPERS


def _unlike_keras_2_in_subclass(failure: Failure) -> bool:
    holder = failure.place.this if failure.member[0] is None else failure.member[0]
    return _unlike_keras_2(failure) and _wrapper_of(holder) == "keras" and _is_own(_mro(holder)[0])


def _unlike_keras_2_in_keras_3(failure: Failure) -> bool:
    """Return whether the program makes the wrapper itself, and has chosen Keras 3."""
    if not _unlike_keras_2(failure) or not failure.program.has("replace_existing"):
        return False
    return failure.settings.get("keras") == 3 or failure.program.has("tf_keras")


def _passes_nothing_on(failure: Failure) -> bool:
    """Return whether a Keras' own wrapper lacks the weights or a hyperparameter of the wrapped optimizer."""
    holder, name = failure.missing
    is_passed_on = name in _PASSED_ON and hasattr(getattr(holder, "inner_optimizer", None), name)
    return _wrapper_of(holder) in ("keras", "tf_keras") and (is_passed_on or name in _WEIGHTS)


def _passes_nothing_on_by_program(failure: Failure) -> bool:
    is_one = _passes_nothing_on(failure)
    return is_one and ("replace_existing" in failure.program.choices(None) or _is_own(_mro(failure.missing[0])[0]))


def _extends_wrapper_of_keras_2(failure: Failure) -> bool:
    """Return whether a subclass of Keras 2's public LossScaleOptimizer is given arguments, or passes them on.

    The public class makes objects of other classes, and its own constructor takes no arguments.
    """
    if not isinstance(failure.error, TypeError):
        return False
    if str(failure.error).startswith("object.__init__() takes exactly one argument"):
        return _wrapper_of(failure.place.this) == "tf_keras"
    name = _match(r"(\w+)\(\) takes no arguments", str(failure.error))
    made = [failure.place.value(each.func) for each in failure.place.nodes(ast.Call)]
    return any(isinstance(each, type) and each.__name__ == name and _wrapper_of(each) == "tf_keras" for each in made)


def _had_keras_2(failure: Failure, *spaces: str) -> bool:
    """Return whether an object of Keras 3 lacks a member, or a method an argument, that Keras 2 has.

    Args:
        failure: the failure.
        spaces: where Keras 2 has public classes of the same name.
    """
    holder, name = failure.member
    method, _, argument = name.removesuffix(")").partition("(")
    bases = [each.__name__ for each in _mro(holder) if _package(each) == "keras"]
    if not name or not bases or _wrapper_of(holder):
        return False
    tf_keras = import_module("tf_keras")
    keras_2 = (tf_keras, *(getattr(tf_keras, each) for each in spaces or _SPACES))
    found = [getattr(space, each, None) for space in keras_2 for each in bases]
    methods = [getattr(each, method) for each in found if isinstance(each, type) and hasattr(each, method)]
    if not argument:
        return bool(methods)
    taken = [each for one in methods for each in inspect.signature(one).parameters.values()]
    is_unnamed = argument in _UNNAMED_ARGUMENTS
    return any(each.name == argument or (is_unnamed and each.kind is each.VAR_KEYWORD) for each in taken)


def _had_optimizers_of_keras_2(failure: Failure) -> bool:
    return bool(_optimizer_of(failure.member[0])) and _had_keras_2(failure, "optimizers")


def _had_legacy_optimizers(failure: Failure) -> bool:
    """Return whether an optimizer, or a wrapper, lacks a member that optimizers had up to TF 2.10."""
    holder, name = failure.missing
    return name in (_OF_LEGACY_WRAPPERS if _wrapper_of(holder) else _OF_LEGACY) and bool(_optimizer_of(holder))


def _subclasses_legacy_optimizer(failure: Failure) -> bool:
    """Return whether Keras refuses a subclass that overrides methods which only legacy optimizers call."""
    last = frames_of(failure.error)[-1]
    this = last.f_locals.get("self", failure.place.this)
    is_refused = package_of(last) in ("keras", "tf_keras") or "__init__() missing 1 required pos" in str(failure.error)
    overrides = any(_is_own(each) and vars(each).keys() & {*members.LEGACY_METHODS} for each in _mro(this))
    return is_refused and overrides and bool(_optimizer_of(this))


def _has_dtype_of_keras_3(failure: Failure) -> bool:
    """Return whether a function of Keras 2's backend, which Keras 3 still has, fails on a variable of Keras 3."""
    last = frames_of(failure.error)[-1].f_globals.get("__name__")
    return last == "keras.src.legacy.backend" and isinstance(failure.missing[0], str)


# What frameworks refuse by a message.


def _refused_arguments(failure: Failure) -> set[str]:
    """Return the arguments of an optimizer that Keras 3 refuses and Keras 2 takes, with the others of the same call."""
    found = failure.says(r"Argument\(s\) not recognized: (.*)", "keras")
    refused = set(re.findall(r"'(\w+)':", found[1])) if found else set()
    given = {str(one.arg) for each in failure.place.nodes(ast.Call) for one in each.keywords}
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
    return refused is not None and bool(_optimizer_of(frames_of(failure.error)[-1].f_locals.get("opt")))


def _unscales_float16(failure: Failure) -> bool:
    """Return whether TensorFlow's own wrapper of graph mode divides float16 gradients by a float32 scale."""
    modules = {frame.f_globals.get("__name__") for frame in frames_of(failure.error)}
    return _OWN_WRAPPER in modules and failure.says(".*float16", "tensorflow") is not None


# Names that modules lack.


def _is_name_of(failure: Failure, keras_2: str) -> bool:
    """Return whether Keras 3 lacks a name that a module of Keras 2 has."""
    rest = (_match(_OF_KERAS, each) for each in failure.paths)
    return any(each and _followed(import_module(keras_2), each.split(".")) is not None for each in rest)


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


_OBJECT = "opt.loss_scale is a tensor since TF 2.4; before, it was an object "
_CONFIG = "the config of a wrapper has initial_scale and dynamic_growth_steps since TF 2.4; before, it had loss_scale"
_WRAPPER = "Keras 3's LossScaleOptimizer, which compile makes too, has no such thing; that of TF 2.4 to 2.15 had"
_PASSES = "wrappers have passed this on from the wrapped optimizer up to TF 2.10"
_NONE = "Keras 3 has no such thing, Keras 2 had"
_FILES = "Keras 3 refuses this path for a model or weights, Keras 2 saves to it"
_GRAPHS = "this is a program of TF 1, whose graphs TF 2 does not build by itself"

# The first that applies, and has an option that is not on, gives the hint.
CAUSES = (
    Cause(_calls_a_loss_scale, AS_OF_2_3, f"{_OBJECT}to call", "as-of"),
    Cause(_reads_of_a_loss_scale, AS_OF_2_3, f"{_OBJECT}that had this attribute", "as-of"),
    Cause(_reads_loss_scale_of_a_config, AS_OF_2_3, _CONFIG, "as-of"),
    Cause(_unlike_keras_2_in_keras_3, REPLACED, _WRAPPER),
    Cause(_unlike_keras_2_in_subclass, KERAS_2_REPLACED, _WRAPPER, "keras-2"),
    Cause(_unlike_keras_2, KERAS_2, _WRAPPER, "keras-2"),
    Cause(_passes_nothing_on_by_program, KERAS_2_REPLACED, _PASSES, "keras-2"),
    Cause(_passes_nothing_on, LEGACY, _PASSES, "keras-2"),
    Cause(_extends_wrapper_of_keras_2, KERAS_2_REPLACED, "Keras 2's LossScaleOptimizer cannot be derived from"),
    Cause(_subclasses_legacy_optimizer, LEGACY, "optimizers have called this method up to TF 2.10", "keras-2"),
    Cause(_gives_legacy_arguments, LEGACY, "optimizers have taken this argument up to TF 2.10", "keras-2"),
    Cause(_rewrites_for_keras, LEGACY, "the graph rewrite takes Keras optimizers of up to TF 2.10", "keras-2"),
    Cause(_unscales_float16, REPLACED, "TensorFlow's own wrapper takes no float16 gradients, that of mpls does"),
    Cause(_says(_OLD_CHECKPOINT, "tf_keras"), LEGACY, "this checkpoint is of an optimizer of up to TF 2.10", "keras-2"),
    Cause(lambda failure: bool(_refused_arguments(failure)), KERAS_2, _NONE, "keras-2"),
    Cause(_had_optimizers_of_keras_2, KERAS_2, _NONE, "keras-2"),
    Cause(_had_legacy_optimizers, LEGACY, "optimizers have had this up to TF 2.10", "keras-2"),
    Cause(_had_keras_2, KERAS_2, _NONE, "keras-2"),
    Cause(_has_dtype_of_keras_3, KERAS_2, "this function takes no variables of Keras 3", "keras-2"),
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
    place = Place.of(first, error)
    # The causes look into TensorFlow and tf_keras; for a program that runs without them they would load both.
    if place is None or "tensorflow" not in sys.modules:
        return None
    failure = Failure(first, place, settings)
    on = {name: value for name, value in settings.items() if value not in (None, False)}
    for cause in CAUSES:
        needed = {name: value for name, value in cause.options.items() if on.get(name) != value}
        # Of two releases, the one that was asked for stays.
        if (cause.options and not needed) or ("as_of" in needed and "as_of" in on):
            continue
        says = cause.applies(failure)
        is_about_keras = not needed.keys().isdisjoint(("keras", "replace_existing"))
        if not says or (is_about_keras and failure.program.has("keras", 3)):
            continue
        text = says if isinstance(says, str) else cause.says
        if needed:
            given = settings.get("keras")
            chosen = {**failure.program.choices(2 if "keras" in needed else given), **failure.program.choices(given)}
            text = f"{text}. {_advice({**chosen, **on, **needed}, function)}"
        return f"{'mpls' if function is not None else 'mpls run'}: {text}. See mpls docs {cause.anchor}"
    return None


def _advice(options: Options, function: Any) -> str:
    """Return how to have all of some options."""
    given = {name: options[name] for name in _ORDER if name in options}
    if function is not None:
        return f"Call mpls.install({', '.join(f'{name}={value!r}' for name, value in given.items())})"
    flags = (f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}" for name, value in given.items())
    return f"Run it with {' '.join(flags)}"
