"""The modules of every call from one file: finding and reading each of them would cost the start a millisecond."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType


def load(modules: "dict[str, CodeType]", folder: str) -> None:
    """Make MODULES, by name, what an import of the package finds; what is not among them comes from FOLDER."""
    package = _add("shim")
    package.__path__ = [folder]
    for name, code in modules.items():
        module = _add("shim." + name)
        exec(code, module.__dict__)
        setattr(package, name, module)


def _add(name: str) -> "ModuleType":
    module = sys.modules[name] = type(sys)(name)
    return module
