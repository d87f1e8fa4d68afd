"""Walks upstream's launch templates: which kernels they launch, with which template arguments.

The only input is the text of ``flash_fwd_launch_template.h``, ``flash_bwd_launch_template.h``, ``static_switch.h``,
``kernel_traits.h`` and the 72 instance files; nothing of the product is used. A walk with a problem's parameters takes
one way through the switches. If a parameter is unknown, the walk takes every way that the text leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.referees.flash_attn.cpp_values import UNKNOWN, Scope, Value, compiled
from tests.support.referees.flash_attn.cpp_words import Words, closing, expanded, functions, read, split, words_of

SOURCES = "csrc/flash_attn/src"
HEADERS = ("flash_fwd_launch_template.h", "flash_bwd_launch_template.h")
IGNORED = {"C10_CUDA_CHECK", "C10_CUDA_KERNEL_LAUNCH_CHECK", "cudaGetDevice", "return"}
CHANGED = {"gridDimx", "status_"}
"""Variables that are assigned after their declaration. A block copies its scope, so the change is lost at its end. None
of them affects the choice of kernel.
"""
DECLARED = {"auto", "bool", "const", "constexpr", "cudaError", "int"}
"""The first words of a declaration."""
GLOBAL = ":global"
"""The name, in every scope, of what a function sees apart from its template arguments."""


class Device(NamedTuple):
    """The device facts that launch code reads: compute capability; shared memory per block (opt-in) and per SM."""

    capability: tuple[int, int]
    block: int
    sm: int


class Launch(NamedTuple):
    """One launch: the kernel with its template arguments, threads per block, dynamic shared memory in bytes."""

    template: str
    threads: int
    smem: int


@dataclass(frozen=True)
class Instance:
    """The instantiation in an instance file: a function with its template arguments as text."""

    function: str
    arguments: tuple[str, ...]


Statement = Callable[[Scope, list[Launch]], None]


@dataclass(frozen=True)
class Function:
    """A function template of the launch code."""

    parameters: tuple[tuple[str, str], ...]
    body: Statement


class Traits:
    """``kernel_traits.h``: the numbers of ``Flash_fwd_kernel_traits`` and ``Flash_bwd_kernel_traits``.

    The size of a layout is the product of the shape that it is tiled to.
    """

    def __init__(self, text: str) -> None:
        self._structs: dict[str, tuple[tuple[str, ...], str]] = {}
        for found in re.finditer(r"template<([^>]*>?[^{]*?)>\s*struct (\w+)[^{]*\{(.*?)\n\};", text, re.S):
            parameters = [p.split("=")[0].split()[-1] for p in split_text(found[1])]
            self._structs[found[2]] = (tuple(parameters), found[3])

    def names(self) -> tuple[str, ...]:
        """The names of the structs."""
        return tuple(self._structs)

    def values(self, name: str, given: Sequence[Any]) -> dict[str, Any]:
        """Every ``static constexpr`` number of a struct for the given template arguments, by name."""
        parameters, body = self._structs[name]
        scope: dict[str, Any] = dict(zip(parameters, given, strict=False))
        scope |= {"std::max()": max, "sizeof()": lambda kind: kind, "size()": lambda cells: cells}
        scope |= {"Element": 2, "cute::uint128_t": 16, "Base::Has_cp_async": True}
        statement = re.compile(
            r"static constexpr (?:int|bool) (\w+)\s*=\s*(.*?);|using (SmemLayout\w+) = decltype\(tile_to_shape\((.*?)\)\);",
            re.S,
        )
        for found in statement.finditer(re.sub(r"//[^\n]*", "", body)):
            if found[1]:
                scope[found[1]] = compiled(words_of(found[2]))(scope)
            else:
                scope[found[3]] = self._cells(found[4], scope)
        return scope

    @staticmethod
    def _cells(text: str, scope: Scope) -> int:
        shape = re.findall(r"(?:Shape<|make_shape\()(.*)", text.replace("\n", " "))[-1]
        cells = 1
        for size in re.findall(r"Int<(\w+)>", shape):
            cells *= scope[size]
        return cells


def split_text(text: str) -> list[str]:
    """Template parameters between top-level commas, without the ones that name a base."""
    out, depth = [""], 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            out.append("")
        else:
            out[-1] += letter
    return [part.strip() for part in out if "Base" not in part]


class LaunchTemplates:
    """The launch code of one tree of upstream's sources."""

    def __init__(self, root: Path) -> None:
        self._root = root / SOURCES
        self.macros = read(self._text("static_switch.h")).macros
        self.traits = Traits(self._text("kernel_traits.h"))
        self._known: dict[tuple[str, str], dict[str, Any]] = {}

    def _text(self, name: str) -> str:
        return (self._root / name).read_text("utf-8")

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """Every function template of the launch headers, by name."""
        found = {}
        for header in HEADERS:
            source = read(self._text(header))
            for parameters, name, body in functions(source.words):
                found[name] = Function(parameters, self._block(expanded(body, {**self.macros, **source.macros})))
        return found

    @cached_property
    def instances(self) -> Mapping[str, Instance]:
        """The instantiation of each instance file, by the stem of its name."""
        found = {}
        for path in sorted(self._root.glob("flash_*_sm80.cu")):
            text = path.read_text("utf-8")
            call = re.search(r"template void (\w+)<(.*?)>\(|\{\s*(run_\w+)<(.*?)>\(params, stream\);", text)
            assert call is not None, path.name
            name, arguments = (call[1], call[2]) if call[1] else (call[3], call[4])
            found[path.stem] = Instance(name, tuple(a.strip() for a in arguments.split(",")))
        return found

    def launches(self, instance: Instance, device: Device, known: Mapping[str, Any] | None = None) -> list[Launch]:
        """The launches of an instance on a device, in order; exact if all ``params`` that it reads are known."""
        scope: dict[str, Any] = {
            "get_current_device()": lambda: 0,
            "get_compute_capability()": lambda index: device.capability,
            "get_num_sm()": lambda index: UNKNOWN,
            "cudaDevAttrMaxSharedMemoryPerMultiprocessor": device.sm,
            "cudaDevAttrMaxSharedMemoryPerBlockOptin": device.block,
            "cudaSuccess": 0,
            "std::max()": max,
        }
        scope |= {f"params.{name}": value for name, value in (known or {}).items()}
        out: list[Launch] = []
        arguments = [self._argument(words_of(text))(scope) for text in instance.arguments]
        self._run(instance.function, arguments, _Scope(scope | {GLOBAL: scope}), out)
        return out

    def _run(self, name: str, arguments: Sequence[Any], scope: Scope, out: list[Launch]) -> None:
        """Walk a function, which sees its template arguments, the numbers of traits among them, and globals."""
        function = self.functions[name]
        given = dict(zip((parameter for _, parameter in function.parameters), arguments, strict=True))
        inner = _Scope(scope[GLOBAL])
        inner[GLOBAL] = scope[GLOBAL]
        for parameter, value in given.items():
            inner[parameter] = value
            for key, number in self._numbers(value).items():
                inner[f"{parameter}::{key}"] = number
        function.body(inner, out)

    def _numbers(self, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, str) or "_kernel_traits<" not in value:
            return {}
        name, _, inside = value.partition("<")
        if (name, inside) not in self._known:
            given = [_literal(word.strip()) for word in inside.removesuffix(">").split(",")]
            self._known[name, inside] = self.traits.values(name, given)
        return self._known[name, inside]

    def _argument(self, words: Words) -> Value:
        """A template argument: a type named in the scope, a template-id, or the value of an expression."""
        if words[0] in ("cutlass", "half_t", "bfloat16_t"):
            text = "".join(words)
            return lambda scope: text
        if words[0] in self.traits.names():
            name, inner = words[0], [self._argument(part) for part in split(words[2:-1])]
            return lambda scope: f"{name}<{', '.join(_spelled(value(scope)) for value in inner)}>"
        return compiled(words)

    # Statements

    def _block(self, words: Words) -> Statement:
        parts = list(self._statements(words))

        def run(scope: Scope, out: list[Launch]) -> None:
            inner = _Scope(scope)
            for part in parts:
                part(inner, out)

        return run

    def _statements(self, words: Words) -> Iterator[Statement]:
        at = 0
        while at < len(words):
            statement, at = self._statement(words, at)
            if statement is not None:
                yield statement

    def _statement(self, words: Words, at: int) -> tuple[Statement | None, int]:
        if words[at] == ";":
            return None, at + 1
        if words[at] == "{":
            end = closing(words, at)
            return self._block(words[at + 1 : end]), end + 1
        if words[at] == "if":
            return self._if(words, at)
        end = at
        while words[end] != ";":
            end = closing(words, end) + 1 if words[end] in "([{" else end + 1
        return self._simple(words[at:end]), end + 1

    def _if(self, words: Words, at: int) -> tuple[Statement, int]:
        at += 2 if words[at + 1] == "constexpr" else 1
        end = closing(words, at)
        condition = compiled(words[at + 1 : end])
        yes, at = self._statement(words, end + 1)
        no: Statement | None = None
        if at < len(words) and words[at] == "else":
            no, at = self._statement(words, at + 1)

        def run(scope: Scope, out: list[Launch]) -> None:
            known = condition(scope)
            if yes is not None and (known is UNKNOWN or known):
                yes(scope, out)
            if no is not None and (known is UNKNOWN or not known):
                no(scope, out)

        return run, at

    def _simple(self, words: Words) -> Statement | None:
        if words[0] == "return" and len(words) > 1:
            words = words[1:]
        if words[:3] == ["[", "&", "]"]:
            end = closing(words, 3)
            assert words[end + 1 :] == ["(", ")"], "a lambda that is not called at once"
            return self._block(words[4:end])
        if words[0] == "static_assert":
            return _asserted(compiled(split(words[2:-1])[0]))
        if "<<<" in words:
            return self._launch(words)
        if words[0] in IGNORED or ("cudaDeviceGetAttribute" in words and "=" not in words):
            return None
        if words[0] in ("using", "typename"):
            raise AssertionError(f"not read: {' '.join(words)}")
        if "=" in words:
            return self._assignment(words)
        if words[0].startswith("run_"):
            return self._call(words)
        assert words[0] in ("int", "dim3"), f"not read: {' '.join(words)}"
        return None

    def _assignment(self, words: Words) -> Statement | None:
        equals = words.index("=")
        target, right = words[:equals], words[equals + 1 :]
        known = target[0] in (DECLARED if len(target) > 1 else CHANGED)
        assert known, f"not read: {' '.join(words)}"
        if right[0] == "cudaDeviceGetAttribute":
            _, place, attribute, _ = (part[-1] for part in ([[""]] + split(right[2:-1])))
            return _set((place,), lambda scope: (scope[attribute],), target[-1])
        if target[-1] == "]":
            names = tuple(part[0] for part in split(target[target.index("[") + 1 : -1]))
            return _set(names, compiled(right))
        if right[0] == "&":
            return _set((target[-1],), self._template(right[1:]), single=True)
        return _set((target[-1],), compiled(right), single=True)

    def _template(self, words: Words) -> Value:
        """A kernel with its template arguments, as text."""
        name, inner = words[0], [self._argument(part) for part in split_angles(words[2:-1])]
        assert words[1] == "<", name
        assert words[-1] == ">", name
        return lambda scope: f"{name}<{', '.join(_spelled(value(scope)) for value in inner)}>"

    def _call(self, words: Words) -> Statement:
        end = closing_angle(words, 1)
        name, inner = words[0], [self._argument(part) for part in split_angles(words[2:end])]
        return lambda scope, out: self._run(name, [value(scope) for value in inner], scope, out)

    def _launch(self, words: Words) -> Statement:
        at = words.index("<<<")
        kernel: Value = compiled(words[:at]) if at == 1 else self._template(words[:at])
        _, threads, smem, _ = (compiled(part) for part in split(words[at + 1 : words.index(">>>")]))

        def run(scope: Scope, out: list[Launch]) -> None:
            out.append(Launch(kernel(scope), threads(scope), smem(scope)))

        return run


class _Scope(dict[str, Any]):
    """The names of a block and their values, with copies from enclosing blocks; problem parameters may be unknown."""

    def __missing__(self, key: str) -> Any:
        assert key.startswith("params."), f"{key} is not known"
        return UNKNOWN


def _set(names: tuple[str, ...], value: Value, also: str = "", single: bool = False) -> Statement:
    def run(scope: Scope, out: list[Launch]) -> None:
        found = value(scope)
        for name, one in zip(names, (found,) if single else found, strict=True):
            scope[name] = one
        if also:
            scope[also] = 0

    return run


def _asserted(condition: Value) -> Statement:
    def run(scope: Scope, out: list[Launch]) -> None:
        assert condition(scope), "a static_assert of upstream's fails"

    return run


def _spelled(value: Any) -> str:
    assert value is not UNKNOWN, "an unknown template argument"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _literal(word: str) -> Any:
    return word == "true" if word in ("true", "false") else int(word) if word.isdigit() else word


def split_angles(words: Sequence[str]) -> list[Words]:
    """Template arguments between top-level commas; the angle brackets of template-ids count as brackets."""
    out: list[Words] = [[]]
    depth = 0
    for at, word in enumerate(words):
        opens = word in "([{" or (word == "<" and words[at - 1].endswith("_traits"))
        closes = word in ")]}" or (word == ">" and depth > 0)
        depth += opens - closes
        if word == "," and depth == 0:
            out.append([])
        else:
            out[-1].append(word)
    return out


def closing_angle(words: Sequence[str], at: int) -> int:
    """The index that closes the angle bracket at ``at``: the last one before the call's own arguments."""
    end = max(i for i in range(at, len(words)) if words[i] == ">")
    assert words[end + 1] == "(", " ".join(words)
    return end
