"""A harness for instructions: one clang call assembles many small texts, and each runs on one emulated wave."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("numpy")

from fmha_amdgpu_emu.building import build_emulator
from fmha_amdgpu_emu.core import Core, WaveState, state_of
from fmha_amdgpu_emu.device_facts import device_of, emulated_archs

from fmha_cli.plugin import BuildContext, cache_root
from tests.support.careful import run_twice

ARCHS = emulated_archs()
WAVE32 = tuple(arch for arch in ARCHS if device_of(arch).wave == 32)
FEATURES = {arch: ("+real-true16",) if arch in WAVE32 else () for arch in ARCHS}
"""Assembler features: register halves have names, as in the text that the emulator requests from objdump."""
_LABEL = re.compile(r"^[0-9a-f]+ <(\w+)>:$", re.MULTILINE)
_PRODUCT = re.compile("v_(mfma|wmma|smfmac|swmmac)_")


def tool(*names: str) -> str:
    """The first of these programs that is installed; skips the test without one."""
    for name in names:
        if found := shutil.which(name):
            return found
    pytest.skip(f"none of {', '.join(names)} is installed")


@cache
def core_at(root: Path) -> Core:
    """The emulator from this cache, built if needed; each process loads it once."""
    return Core(build_emulator(BuildContext(cache_root=root, jobs=2)).path)


def core() -> Core:
    """The emulator: the library in ``FMHA_EMU_LIBRARY``, or else one built in the cache of the environment."""
    named = os.environ.get("FMHA_EMU_LIBRARY")
    return core_named(named) if named else core_at(cache_root())


@cache
def core_named(path: str) -> Core:
    """A library that was built with other flags (debugging, sanitisers)."""
    return Core(path)


def assemble(arch: str, text: str, folder: Path, flags: tuple[str, ...] = ()) -> Path:
    """An object file of assembly text. Raises AssertionError with the assembler's messages."""
    source, out = folder / f"{arch}.s", folder / f"{arch}.o"
    source.write_text(text, "utf-8")
    clang = tool("clang-22", "clang")
    target = ("-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}")
    features = [word for feature in FEATURES[arch] for word in ("-Xclangas", "-target-feature", "-Xclangas", feature)]
    done = subprocess.run(
        (clang, "-x", "assembler", *target, *features, *flags, "-c", str(source), "-o", str(out)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out


def disassemble(path: Path, features: tuple[str, ...] = ()) -> str:
    """objdump's output for a code object."""
    objdump = tool("llvm-objdump-22", "llvm-objdump")
    attributes = (f"--mattr={','.join(features)}",) if features else ()
    return subprocess.run((objdump, "-d", *attributes, str(path)), capture_output=True, text=True, check=True).stdout


class Snippets:
    """Assembly texts by name for one architecture. They are assembled together when the first one runs.

    Example::

        snippets = Snippets("gfx942", tmp_path, {"add": "v_add_f32 v0, v1, v2"})
        after = snippets.run("add", v={1: a, 2: b})
        assert after.v[0] ...
    """

    def __init__(
        self, arch: str, folder: Path, texts: Mapping[str, str], *, wave64: bool = False, flags: tuple[str, ...] = ()
    ) -> None:
        """``wave64`` makes gfx11 and gfx12 run 64 lanes."""
        self.arch = arch
        self.lanes = 32 if arch in WAVE32 and not wave64 else 64
        self._folder = folder
        self._texts = dict(texts)
        self._flags = flags
        rdna = arch in WAVE32
        self._wide = ("-mwavefrontsize64",) if rdna and wave64 else ()
        self._features = FEATURES[arch] + (("+wavefrontsize64",) if self._wide else ())
        self._listings: dict[str, str] | None = None

    def listing(self, name: str) -> str:
        """The disassembly of one text."""
        if self._listings is None:
            body = "".join(f".globl {key}\n{key}:\n{text}\ns_endpgm\n" for key, text in self._texts.items())
            flags = (*self._flags, *self._wide)
            listing = disassemble(assemble(self.arch, ".text\n" + body, self._folder, flags), self._features)
            parts = _LABEL.split(listing)
            self._listings = dict(zip(parts[1::2], parts[2::2], strict=True))
        return self._listings[name]

    def run(
        self,
        name: str,
        v: Mapping[int, npt.ArrayLike] | None = None,
        s: Mapping[int, int] | None = None,
        **state: Any,
    ) -> WaveState:
        """Run one text. Takes the arguments of ``state_of`` (exec, vcc, m0, mode, scc, lds, scratch, track, ...).

        Where the emulator has short ways, it also runs carefully (``careful.py``).

        Raises:
            Fault: it contains an instruction that cannot be executed.
        """
        before = state_of(v, s, lanes=self.lanes, **state)
        kept: list[WaveState] = []

        def run() -> list[object]:
            kept.append(core().snippet(self.arch, self.listing(name), before))
            return [value.tobytes() if isinstance(value, np.ndarray) else value for value in vars(kept[-1]).values()]

        short = before.track or _PRODUCT.search(self._texts[name])
        if short and "atomic" not in self._texts[name]:  # which would change the memory twice
            run_twice(ctypes.CDLL(str(core().path)), run)
        else:
            run()
        return kept[-1]


def archs_of(cases: Iterable[Any]) -> list[str]:
    """Every architecture that has one of the instructions."""
    return sorted({arch for case in cases for arch in case.archs})


def check_each(checks: Iterable[tuple[str, Callable[[], None]]]) -> None:
    """Run every check, and name each that fails: thousands of instructions are a test for each architecture."""
    wrong = []
    for name, check in checks:
        try:
            check()
        except AssertionError as fault:
            wrong.append(f"{name}: {fault}")
    assert not wrong, f"{len(wrong)} are wrong\n" + "\n".join(wrong)
