"""What a build depends on, and the digest that names its result."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fmha_cli import __version__
from fmha_cli.build.toolchain import Compiler
from fmha_cli.encode import canonical_json, digest_of
from fmha_cli.kernel import KernelSpec

SCHEMA_VERSION = 1
"""Part of every key. Raise it when an entry's layout or meaning changes, so that old entries are never hit."""

_PLACE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class BuildKey:
    """Everything that decides the bytes of a compiled kernel.

    Two keys with equal parts have equal digests in every process and on every machine; a key that differs in
    any part has another digest. What is not a part (environment variables, the current directory, the clock)
    must not reach the compiler: ``build.process`` sees to that.

    Attributes:
        kernel_name: the kernel's canonical name, by which people find the entry again.
        kernel: the KernelSpec as plain JSON data (``KernelSpec.to_dict``).
        source: the complete emitted source text.
        flags: compiler flags in their order; order matters to a compiler, so it matters here. ``${name}`` stands
            for a folder of this machine whose content is in ``headers_digest``.
        toolchain_path: the command that starts the compiler, by absolute path (``Toolchain.identity``).
        toolchain_version: what the compiler says about itself.
        headers_digest: digest of the header tree that the source includes.
        arch: architecture *with* its suffix: ``sm_90a`` is not ``sm_90``.
        fmha_version: version of this package.
        schema_version: version of the entry layout.
    """

    kernel_name: str
    kernel: Mapping[str, object]
    source: str
    flags: tuple[str, ...]
    toolchain_path: str
    toolchain_version: str
    headers_digest: str
    arch: str
    fmha_version: str
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        # A private copy: a caller who changes its dict later must not change what this key stands for.
        plain = json.loads(canonical_json(dict(self.kernel)))
        if plain != self.kernel:
            # JSON would write the key 1 as "1" and a tuple as a list: two kernels, one digest.
            raise TypeError(f"the kernel of a build key must be plain JSON data: {self.kernel!r}")
        object.__setattr__(self, "kernel", plain)
        object.__setattr__(self, "flags", tuple(self.flags))

    @property
    def source_bytes(self) -> bytes:
        """The source as it is written to disk (UTF-8)."""
        return self.source.encode("utf-8")

    @cached_property
    def parts(self) -> dict[str, object]:
        """The key as plain data, the source replaced by its SHA-256. Kept in ``meta.json``."""
        return {
            "arch": self.arch,
            "flags": list(self.flags),
            "fmha_version": self.fmha_version,
            "headers_digest": self.headers_digest,
            "kernel": self.kernel,
            "kernel_name": self.kernel_name,
            "schema_version": self.schema_version,
            "source_sha256": hashlib.sha256(self.source_bytes).hexdigest(),
            "toolchain_path": self.toolchain_path,
            "toolchain_version": self.toolchain_version,
        }

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits: SHA-256 of the canonical JSON of ``parts``."""
        return digest_of_parts(self.parts)


def digest_of_parts(parts: Mapping[str, object]) -> str:
    """The digest of a key from its parts, as read back from ``meta.json``."""
    return digest_of(dict(parts))


def key_for(
    kernel: KernelSpec, source: str, flags: Sequence[str], toolchain: Compiler, *, header_trees: Sequence[str] = ()
) -> BuildKey:
    """The key of a kernel that a toolchain builds from a source.

    Args:
        flags: all of them, in order.
        header_trees: digests (``headers.tree_digest``) of headers that the source includes beyond the system's.
    """
    digests = [toolchain.headers_digest, *header_trees]
    return BuildKey(
        kernel_name=kernel.name,
        kernel=kernel.to_dict(),
        source=source,
        flags=tuple(flags),
        toolchain_path=toolchain.identity,
        toolchain_version=toolchain.version,
        headers_digest=digest_of(digests) if header_trees else toolchain.headers_digest,
        arch=kernel.arch,
        fmha_version=__version__,
    )


def expanded(flags: Sequence[str], places: Mapping[str, str]) -> tuple[str, ...]:
    """The flags of a key with every ``${name}`` replaced by the folder that it stands for here.

    Raises:
        KeyError: a name without a folder.
    """
    return tuple(_PLACE.sub(lambda match: places[match[1]], flag) for flag in flags)
