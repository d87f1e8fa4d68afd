"""The key of a build: the thing to compile, everything that its build depends on, and the digest that names the result."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from fmha_cli import __version__
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.domain.members import Hidden, Then
from fmha_cli.toolchain.cache.layout import SCHEMA_VERSION
from fmha_cli.toolchain.cpp.toolchain import Compiler

_PLACE = re.compile(r"\$\{(\w+)\}")


class BuildKind(StrEnum):
    """The kind of thing that an entry holds."""

    KERNEL = "kernel"
    HOST_LIBRARY = "host-library"
    """A library of host code, such as one that stands in for a device's runtime."""
    PEAK_LOOPS = "peak-loops"
    """Loops that measure the peak rates of a machine."""
    EMULATOR = "emulator"
    """A device emulator, or a part of one."""


@dataclass(frozen=True)
class BuildSpec:
    """One thing to compile, before a compiler is chosen for it.

    Attributes:
        kind: the kind of thing.
        name: the name that people look for; for a kernel, its canonical name.
        arch: architecture *with* its suffix: ``sm_90a`` is not ``sm_90``. ``generic`` where it does not matter.
        identity: plain JSON data that distinguishes it from others of its kind; for a kernel, the fields of its
            ``KernelSpec``.
        source: the complete source text.

    Raises:
        TypeError, ValueError: ``identity`` is not plain JSON data.
    """

    kind: BuildKind
    name: str
    arch: str
    identity: Mapping[str, object]
    source: Annotated[str, Hidden(), Then("source_sha256")]

    def __post_init__(self) -> None:
        # A private copy: a caller that changes its dict later must not change this value.
        plain = json.loads(canonical_json(dict(self.identity)))
        if plain != self.identity:
            # JSON would write the key 1 as "1" and a tuple as a list: two things, one digest.
            raise TypeError(f"the identity of a build must be plain JSON data: {self.identity!r}")
        object.__setattr__(self, "identity", plain)

    @property
    def source_bytes(self) -> bytes:
        """The source as it is written to disk (UTF-8)."""
        return self.source.encode("utf-8")

    @property
    def source_sha256(self) -> str:
        """SHA-256 (hex) of ``source_bytes``."""
        return hashlib.sha256(self.source_bytes).hexdigest()

    @cached_property
    def parts(self) -> dict[str, object]:
        """The value as plain data, the source replaced by its SHA-256."""
        return to_json(self)


@dataclass(frozen=True)
class BuildKey:
    """Everything that determines the bytes of a build.

    Two keys with equal parts have equal digests in every process and on every machine. A key that differs in any part
    has another digest. No other input (environment variables, the current directory, the clock) may reach the compiler;
    ``toolchain`` ensures that.

    Attributes:
        spec: the compiled source.
        flags: compiler flags in order, because the order matters to a compiler. ``${name}`` means a folder of this
            machine whose content ``headers_digest`` covers.
        toolchain_path: the command that starts the compiler, by absolute path (``Toolchain.identity``).
        toolchain_version: the version that the compiler reports.
        headers_digest: digest of the header trees that the source includes.
        fmha_version: version of this package.
        schema_version: version of the entry layout.
    """

    spec: Annotated[BuildSpec, Hidden()]
    flags: tuple[str, ...]
    toolchain_path: str
    toolchain_version: str
    headers_digest: str
    fmha_version: str
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        object.__setattr__(self, "flags", tuple(self.flags))

    @cached_property
    def parts(self) -> dict[str, object]:
        """The key as plain data: the parts of ``spec`` next to its own fields. Kept in ``meta.json``."""
        return {**self.spec.parts, **to_json(self)}

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits: SHA-256 of the canonical JSON of ``parts``."""
        return digest_of(self.parts)


def key_for(
    spec: BuildSpec, flags: Sequence[str], toolchain: Compiler, *, header_trees: Sequence[str] = ()
) -> BuildKey:
    """The key under which a toolchain builds a thing.

    Args:
        flags: all flags, in order.
        header_trees: digests (``headers.tree_digest``) of header trees that the source includes beyond the system's.
    """
    digests = [toolchain.headers_digest, *header_trees]
    return BuildKey(
        spec=spec,
        flags=tuple(flags),
        toolchain_path=toolchain.identity,
        toolchain_version=toolchain.version,
        headers_digest=digest_of(digests) if header_trees else toolchain.headers_digest,
        fmha_version=__version__,
    )


def expand_places(flags: Sequence[str], places: Mapping[str, str]) -> tuple[str, ...]:
    """The flags of a key with every ``${name}`` replaced by its folder on this machine.

    Raises:
        KeyError: a name has no folder.
    """
    return tuple(_PLACE.sub(lambda match: places[match[1]], flag) for flag in flags)
