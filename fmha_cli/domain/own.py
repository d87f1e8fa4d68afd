"""``own``: methods of a backend that are functions of its modules. Each module is imported on first use, so listing kernels
loads no rules about problems, choosing a kernel loads no compiler, and only running loads a runtime.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Own:
    """A method that is a function of another module, without ``self``. See :func:`own`."""

    def __init__(self, module: str, name: str | None, *, called: bool) -> None:
        self._module, self._name, self._called, self._home = module, name, called, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._home = self._name or name, owner.__module__.rpartition(".")[0]

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self  # read by the class itself, to see whether it is abstract
        if not self._called:
            return self.read(owner)
        # Whoever asks whether a backend has a method (``isinstance`` with a protocol) does not call it.
        return lambda *given, **named: self.read(owner)(*given, **named)

    def read(self, owner: type) -> Any:
        """The function, or another content of the module."""
        return getattr(import_module(self._module, getattr(owner, "package", self._home)), self._name or "")


def own(module: str, name: str | None = None, *, called: bool = True) -> Any:
    """A method that is a function of another module.

    Args:
        module: ``.module`` of the package of the class, which may name another as ``package``; or a module by its full name.
        name: the function's, if it is not the method's.
        called: the module is imported when the method is called; else when the attribute is read, which need not be a function.
    """
    return Own(module, name, called=called)
