"""Small pieces of C++ text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

CK = "ck_tile::"


def flag(value: bool) -> str:
    """``true`` or ``false``."""
    return "true" if value else "false"


def sequence(values: Iterable[int]) -> str:
    """``ck_tile::sequence<...>``."""
    return f"{CK}sequence<{', '.join(map(str, values))}>"


def template(name: str, arguments: Iterable[str]) -> str:
    """``name<arguments>``, one argument per line."""
    return f"{name}<\n    " + ",\n    ".join(arguments) + ">"


def using(name: str, text: str) -> str:
    """A type alias."""
    return f"using {name} = {text};\n"


def struct_of_types(name: str, types: Mapping[str, str]) -> str:
    """A struct that holds only type aliases."""
    rows = "".join(f"  using {alias} = {text};\n" for alias, text in types.items())
    return f"struct {name} {{\n{rows}}};\n"


def enumerators(values: Mapping[str, int]) -> str:
    """An unnamed enumeration."""
    return f"enum {{ {', '.join(f'{name} = {value}' for name, value in values.items())} }};\n"
