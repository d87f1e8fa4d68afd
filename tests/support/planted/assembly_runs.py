"""Runs kernels with planted assembly faults like a user's kernel: built, judged and watched on an emulated device.

The kernel's text comes from the compiler and the flags that build the kernel. A text with a fault is assembled and
linked again, and replaces the code object in a copy of the kernel's library.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from fmha_cli.api import Registry
from fmha_cli.backends.ck_tile.building import workshop
from fmha_cli.plugin import Stage
from fmha_cli.toolchain.rocm.offload import code_objects
from tests.support.planted.assembly import Fault, planted, trapped
from tests.support.planted.code_objects import assembled, device_assembly, with_code_object
from tests.support.planted.workers import PlantedWorkers, Seen

SECONDS = 60.0
"""A launch that takes longer counts as endless: the fault broke a loop's exit."""

STRICT = "FMHA_EMU_STRICT"
"""The emulator's variable for strict launches: LDS reads outstanding at a barrier are not ordered by it."""


@dataclass(frozen=True)
class CkKernel:
    """A kernel to plant faults in: the stage of family ``family`` of a problem on an architecture."""

    name: str
    arch: str
    flags: str
    family: str


KERNELS = (
    CkKernel("fwd qr_async d64 causal", "gfx942", "-b 1 -H 1 -s 100 --seqlen-k 130 -d 56 --causal --splits 1", "fwd"),
    CkKernel("fwd qr d64 causal", "gfx1201", "-b 1 -H 1 -s 100 --seqlen-k 130 -d 56 --causal --splits 1", "fwd"),
    CkKernel("fwd qr_async_trload d128", "gfx950", "-b 1 -H 1 -s 100 --seqlen-k 130 -d 128 --splits 1", "fwd"),
    CkKernel(
        "bwd_dq_dk_dv d64 causal",
        "gfx942",
        "-b 1 -H 1 -s 70 --seqlen-k 120 -d 64 --causal --direction bwd",
        "bwd_dq_dk_dv",
    ),
)


class PlantedKernel(PlantedWorkers):
    """One kernel, its text, and workers that run it with faults, one after the other.

    Raises on entry:
        EnvironmentProblem, KernelFailure: there is no compiler or source, or it does not build.
        ValueError: no kernel for the problem.
    """

    def __init__(self, kernel: CkKernel, registry: Registry, folder: Path, seconds: float = SECONDS) -> None:
        super().__init__("ck_tile", kernel.arch, kernel.flags, registry, folder, seconds)
        self.kernel = kernel

    def __enter__(self) -> Self:
        super().__enter__()
        shop = workshop(self._building)
        self._compiler = shop.toolchain.argv0
        self.text = device_assembly(self.spec, shop)
        self._library = self._artifact.path.read_bytes()
        self.plain = self.run()
        self.plain_strict: Seen | None = None
        return self

    def _place(self, stages: Sequence[Stage]) -> int:
        return [s.kernel.family.value for s in stages].index(self.kernel.family)

    @property
    def original(self) -> bytes:
        """The code object in the kernel's library."""
        return code_objects(self._library)[0].data

    def assembled(self, text: str) -> bytes:
        """The code object of a text. Raises ValueError if it does not assemble."""
        return assembled(text, self.kernel.arch, self._compiler, self._folder)

    def run(self, *faults: Fault, strict: bool = False) -> Seen:
        """Run the kernel with faults, or without any the reassembled original text. Raises like ``assembled``."""
        return self._judged(planted(self.text, *faults), strict)

    def reaches(self, fault: Fault) -> bool:
        """Whether any wave of this problem reaches the place of the fault."""
        return "s_trap" in self._judged(trapped(self.text, fault)).note

    def strictly(self, fault: Fault) -> Counter[tuple[str, int]]:
        """The findings of the fault alone if reads must be waited for before a barrier."""
        if self.plain_strict is None:
            self.plain_strict = self.run(strict=True)
        return self.run(fault, strict=True).places - self.plain_strict.places

    def _judged(self, text: str, strict: bool = False) -> Seen:
        library = with_code_object(self._library, self.assembled(text))
        digest = hashlib.sha256(library).hexdigest()
        path = self._folder / f"{digest[:24]}.so"
        path.write_bytes(library)
        try:
            with _variable(STRICT, "1" if strict else "0"):
                return self._seen(strict, self._request, replace(self._artifact, path=path, sha256=digest))
        finally:
            path.unlink()


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set a variable for workers that start meanwhile."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
