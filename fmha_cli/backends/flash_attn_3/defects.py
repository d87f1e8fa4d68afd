"""What makes a compiled kernel not worth keeping: it would be right, and several times slower than upstream's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fmha_cli.toolchain.cuda.cubin import Cubin

SLOW = "Potential Performance Loss"
"""Begins the remarks that ``setmaxnreg`` is ignored (C7504) and that ``wgmma`` is serialised (C7509 and others)."""
MOST_STACK = 256
"""Bytes of a thread's stack. Of the kernels that NVRTC and ptxas 13.0.88 made, the largest has 152 (split, appending, with packed
query heads); a kernel whose registers were not given as it asks (C7504) has 572."""


def defects(cubin: bytes, remarks: Sequence[str]) -> Iterator[str]:
    """Implements ``Upstream.defects``."""
    yield from (remark for remark in remarks if SLOW in remark)
    for kernel in Cubin(cubin).kernels:
        if kernel.stack_bytes > MOST_STACK:
            yield f"{kernel.stack_bytes} bytes of stack for each thread, more than {MOST_STACK}"
