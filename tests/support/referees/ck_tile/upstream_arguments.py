"""Reads template arguments from C++ text, upstream's generated files and our translation units, in a common form.

It understands only the content of such texts: type aliases, structs of type aliases, template arguments that are types,
constants and small arithmetic. Aliases are fully resolved, so two texts compare equal if the compiler would see the
same kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r"\s*(?:(?P<number>-?\d+)|(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)|(?P<sign>::|[<>(),*]))")
_USING = re.compile(r"\busing\s+(\w+)\s*=\s*([^;]+);")
_STRUCT = re.compile(r"\bstruct\s+(\w+)\s*(<[^{;]*>)?\s*\{(.*?)\};", re.DOTALL)
_LAUNCH = re.compile(r"\bmake_kernel\s*<([^(;]*)>\s*\(")
_CONSTANT = re.compile(r"\bconstexpr\s+[\w:]+\s+(\w+)\s*=\s*([^;{]+);")
_OWN = "ck_tile::"


@dataclass(frozen=True)
class Node:
    """A name, number or operation with its arguments."""

    name: str
    arguments: tuple[Node, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}<{', '.join(map(str, self.arguments))}>" if self.arguments else self.name


@dataclass
class Text:
    """The declarations of one text."""

    aliases: dict[str, Node] = field(default_factory=dict)
    members: dict[str, dict[str, Node]] = field(default_factory=dict)
    """Type aliases of structs, by the struct's name with its arguments."""
    launches: list[tuple[Node, ...]] = field(default_factory=list)


@dataclass(frozen=True)
class Instance:
    """A kernel type, its launch occupancy and its architecture tag, all resolved."""

    kernel: Node
    occupancy: Node
    arch: Node


class Unreadable(ValueError):
    """Text that this module does not understand."""


def read(source: str) -> Text:
    """The declarations of a text."""
    plain = _COMMENT.sub(" ", source)
    plain = re.sub(r"::\s+", "::", plain)
    plain = "\n".join(line for line in plain.splitlines() if not line.lstrip().startswith("#"))
    out = Text()
    for name, arguments, body in _STRUCT.findall(plain):
        rows = {alias: parse(text) for alias, text in _USING.findall(body) if _is_type(text)}
        if rows:
            out.members[str(parse(name + (arguments or "")))] = rows
    for name, text in (*_USING.findall(plain), *_CONSTANT.findall(plain)):
        if _is_type(text):
            out.aliases.setdefault(name, parse(text))
    out.launches = [_arguments(found) for found in _LAUNCH.findall(plain)]
    return out


def instance(text: Text, known: Mapping[str, Mapping[str, Node]] | None = None, root: str = "") -> Instance:
    """The kernel that the text launches.

    Args:
        known: aliases of structs that the text only includes.
        root: the alias of the kernel; default: ``k_`` in upstream's texts, ``Kernel`` in ours.

    Raises:
        Unreadable: no kernel, or no launch.
    """
    root = root or next((name for name in ("k_", "Kernel") if name in text.aliases), "")
    if root not in text.aliases or not text.launches:
        raise Unreadable("no kernel is launched")
    resolver = _Resolver(text, {**(known or {}), **text.members})
    occupancy, *tag = text.launches[0]
    kernel = resolver.resolve(Node(root))
    resolved = resolver.resolve(occupancy)
    if resolved.name.endswith("::kBlockPerCu"):
        resolved = Node("kBlockPerCu")
    return Instance(kernel, resolved, resolver.resolve(tag[0]) if tag else Node("void"))


def differences(ours: Instance, theirs: Instance) -> list[str]:
    """Every place where two instances differ; empty when they agree."""
    pairs = (("kernel", ours.kernel, theirs.kernel), ("occupancy", ours.occupancy, theirs.occupancy))
    return [line for pair in (*pairs, ("arch", ours.arch, theirs.arch)) for line in _differences(*pair)]


def _differences(path: str, ours: Node, theirs: Node) -> Iterator[str]:
    if ours.name != theirs.name or len(ours.arguments) != len(theirs.arguments):
        yield f"{path}: {ours} here, {theirs} upstream"
        return
    for index, (one, other) in enumerate(zip(ours.arguments, theirs.arguments, strict=True)):
        yield from _differences(f"{path}/{ours.name}[{index}]", one, other)


class _Resolver:
    def __init__(self, text: Text, members: Mapping[str, Mapping[str, Node]]) -> None:
        self._aliases, self._members = text.aliases, members

    def resolve(self, node: Node) -> Node:
        if not node.arguments and node.name in self._aliases:
            return self.resolve(self._aliases[node.name])
        if node.name == "::":
            owner, member = self.resolve(node.arguments[0]), node.arguments[1]
            found = self._members.get(str(owner), {}).get(member.name)
            return self.resolve(found) if found is not None else Node(f"{owner}::{member.name}")
        if not node.arguments and "::" in node.name:
            owner_name, _, member_name = node.name.rpartition("::")
            if owner_name in self._members or owner_name in self._aliases:
                found = self._members.get(owner_name, {}).get(member_name)
                owner = Node(owner_name)
                return self.resolve(found or Node("::", (owner, Node(member_name)))) if found else self._loose(node)
        return _evaluate(Node(node.name, tuple(map(self.resolve, node.arguments))))

    def _loose(self, node: Node) -> Node:
        """A member of an alias that is not a struct of aliases, such as ``k_::kBlockPerCu``."""
        owner, _, member = node.name.rpartition("::")
        return Node(f"{self.resolve(Node(owner))}::{member}")


def _evaluate(node: Node) -> Node:
    numbers = [int(a.name) for a in node.arguments if re.fullmatch(r"-?\d+", a.name)]
    whole = len(numbers) == len(node.arguments) > 0
    if node.name == "min" and whole:
        return Node(str(min(numbers)))
    if node.name == ">" and whole:
        return Node("true" if numbers[0] > numbers[1] else "false")
    return node


def parse(text: str) -> Node:
    """One type or constant expression.

    Raises:
        Unreadable: anything else.
    """
    parser = _Parser(text)
    node = parser.sum()
    parser.end()
    return node


def _arguments(text: str) -> tuple[Node, ...]:
    return parse(f"x<{text}>").arguments


def _is_type(text: str) -> bool:
    try:
        parse(text)
    except Unreadable:
        return False
    return True


class _Parser:
    """Recursive descent; inside template arguments, ``>`` is a comparison only within parentheses."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens = text, list(self._split(text))

    @staticmethod
    def _split(text: str) -> Iterator[str]:
        at = 0
        text = text.strip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if not found:
                raise Unreadable(f"{text!r} at {text[at : at + 20]!r}")
            at = found.end()
            yield found.group().strip()

    def _peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def _take(self, wanted: str = "") -> str:
        if not self.tokens or (wanted and self.tokens[0] != wanted):
            raise Unreadable(f"{self.text!r}: {wanted or 'more'} expected before {self.tokens[:3]}")
        return self.tokens.pop(0)

    def end(self) -> None:
        if self.tokens:
            raise Unreadable(f"{self.text!r}: {self.tokens} left over")

    def sum(self, compares: bool = False) -> Node:
        left = self._atom()
        while self._peek() == "*":
            self._take()
            left = Node("*", (left, self._atom()))
        if compares and self._peek() == ">":
            self._take()
            left = Node(">", (left, self.sum(True)))
        return left

    def _atom(self) -> Node:
        token = self._take()
        while token in ("typename", "const", "constexpr"):
            token = self._take()
        if token == "(":
            inner = self.sum(True)
            self._take(")")
            return inner
        if not re.match(r"-?\w", token):
            raise Unreadable(f"{self.text!r}: {token} is no type")
        node = Node(token.removeprefix(_OWN))
        if self._peek() == "(":
            node = Node(node.name, self._list("(", ")"))
        elif self._peek() == "<":
            node = Node(node.name, self._list("<", ">"))
        while self._peek() == "::":
            self._take()
            node = Node("::", (node, Node(self._take())))
        return node

    def _list(self, opening: str, closing: str) -> tuple[Node, ...]:
        self._take(opening)
        out = []
        while self._peek() != closing:
            out.append(self.sum(opening == "("))
            if self._peek() == ",":
                self._take()
        self._take(closing)
        return tuple(out)
