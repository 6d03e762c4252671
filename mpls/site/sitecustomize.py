"""Runs when Python starts in the environment of `mpls run`, and after it the module of this name that it stands before.

Every Python that a program starts reads this file, so it keeps to what Python 2.7 knows.
"""

# mypy: ignore-errors
import os
import sys


def _start():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    # Python expects to find this module again when its code has run.
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        sys.modules["sitecustomize"] = ours
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        _begin(os.path.dirname(here))


def _begin(folder):
    # Other installations have packages of their own.
    told = os.environ.get("MPLS_RUN", "")
    this = "{0}.{1} {2} ".format(sys.version_info[0], sys.version_info[1], os.path.realpath(sys.prefix))
    if not told.startswith(this + "{"):
        return
    # It may be in no place, or behind another mpls, where a new Python looks.
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("mpls", os.path.join(folder, "__init__.py"))
    if spec.name not in sys.modules:
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(module)
    from mpls.run import begin

    begin(told[len(this) :])


_start()
