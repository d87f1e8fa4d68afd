"""Digests of header trees, the part of a compile that comes neither from the source nor from the compiler."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from fmha_cli.domain.encode import digest_of

PROBE_HEADERS = ("cmath", "cstddef", "cstdint", "cstring", "atomic", "limits", "thread")
"""Standard headers that generated kernels may include. The probe lists them and all headers that they include."""

OPTIONAL_HEADERS = ("omp.h", "immintrin.h", "arm_neon.h")
"""Headers that only some compilers and machines have."""

_DEPENDENCY = re.compile(r"(?:\\.|[^\s\\])+")


def files_digest(paths: Iterable[Path]) -> str:
    """Digest of files by path and content.

    Raises:
        OSError: a file cannot be read.
    """
    return digest_of([[str(path), sha256_of(path)] for path in sorted(set(paths))])


def tree_digest(root: Path, patterns: Iterable[str] = ("*.h", "*.hpp", "*.inc", "*.cuh")) -> str:
    """Digest of a header tree by relative path and content, wherever the tree is.

    Raises:
        OSError: a file cannot be read.
    """
    found = sorted({path for pattern in patterns for path in root.rglob(pattern) if path.is_file()})
    return digest_of([[path.relative_to(root).as_posix(), sha256_of(path)] for path in found])


def parse_dependencies(rule: str) -> list[str]:
    """The prerequisites of a make rule as compilers print it with ``-M``, in order, without the target."""
    _, _, prerequisites = rule.replace("\\\n", " ").partition(": ")
    words = _DEPENDENCY.findall(prerequisites)
    return [re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in words]


def listing_source() -> str:
    """A source that includes every header a kernel may include, for ``-M``."""
    lines = [f"#include <{name}>" for name in PROBE_HEADERS]
    for name in OPTIONAL_HEADERS:
        # clang installs the headers of one architecture on all machines, but elsewhere they stop with #error.
        guard = {"immintrin.h": " && defined(__x86_64__)", "arm_neon.h": " && defined(__ARM_NEON)"}.get(name, "")
        lines += [f"#if __has_include(<{name}>){guard}", f"#include <{name}>", "#endif"]
    return "\n".join(lines) + "\n"


def sha256_of(path: Path) -> str:
    """SHA-256 (hex) of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
