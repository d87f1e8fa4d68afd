"""The checks that libraries share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fmha_cli.backends.host.checks import full_cache_check
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import CacheStorage
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Signature


@pytest.mark.parametrize(
    ("line", "rows", "refused"),
    [
        ("", 0, False),
        ("--kv-cache linear --cache-seqlens 9", 0, False),
        ("--kv-cache linear --cache-seqlens 9", 12, True),
        ("--kv-cache linear --cache-seqlens 9,8", 0, True),
        ("--kv-cache linear --cache-seqlens 9,8 --append 1", 20, False),
        ("--kv-cache paged:8 --cache-seqlens 9", 0, True),
    ],
)
def test_unused_rows_of_a_cache_are_refused(line: str, rows: int, refused: bool) -> None:
    """They may hold NaN, and the operators multiply by every row; one that appends knows the lengths."""
    problem = replace(Problem.from_cli(f"-b 2 -H 2 -s 1 -d 8 {line}"), storage=CacheStorage(rows=rows))
    kernel = KernelSpec(
        backend="x", family=Family.FWD, arch="a", signature=Signature.of(problem), algorithm=Algorithm()
    )
    assert (full_cache_check(problem, kernel, DeviceFacts.of_arch("a")) is not None) is refused
