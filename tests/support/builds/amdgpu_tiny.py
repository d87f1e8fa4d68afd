"""Tiny OpenCL C kernels, none from upstream, which clang compiles for any AMD GPU without headers or libraries."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "gfx1250")
_VERSIONS = (*(f"-{n}" for n in range(40, 18, -1)), "")
_REMARK = re.compile(r"remark: +([A-Za-z ]+?)(?: \[(?:bytes|waves)/\w+\])?: (\S+) \[-Rpass")


def program(name: str) -> str:
    """An LLVM program of any recent version; skips the test without one."""
    found = next((path for version in _VERSIONS if (path := shutil.which(name + version))), None)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@dataclass(frozen=True)
class Tiny:
    """The kernel to compile: work-group size, bytes of LDS, highest VGPR, AGPR and SGPR in use, a stack array."""

    arch: str = "gfx942"
    block: int = 256
    lds: int = 0
    vgpr: int | None = None
    agpr: int | None = None
    sgpr: int | None = None
    stack: int = 0
    flags: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        lines = [
            f"local float s[{self.lds // 4}]; s[(unsigned)a[2]] = a[0]; __builtin_amdgcn_s_barrier(); a[1] = s[(unsigned)a[4]];"
            if self.lds
            else "",
            f"float t[{self.stack // 4}]; t[(unsigned)a[5]] = a[0]; a[6] = t[(unsigned)a[7]];" if self.stack else "",
            *(
                f'__asm volatile("" ::: "{kind}{number}");'
                for kind, number in (("v", self.vgpr), ("a", self.agpr), ("s", self.sgpr))
                if number is not None
            ),
            "a[8] = __builtin_amdgcn_exp2f(a[9]) * n;",
        ]
        body = "\n  ".join(filter(None, lines))
        head = f"__attribute__((reqd_work_group_size({self.block}, 1, 1)))"
        return f"{head} kernel void tiny(global float* a, int n) {{\n  {body}\n}}\n"


def compiled(tiny: Tiny, folder: Path) -> tuple[bytes, dict[str, str]]:
    """The code object and the compiler's report of its resources; skips the test without a suitable clang."""
    source, out = folder / "tiny.cl", folder / "tiny.co"
    source.write_text(tiny.source)
    target = ("--target=amdgcn-amd-amdhsa", f"-mcpu={tiny.arch}", "-nogpulib", *tiny.flags)
    command = [program("clang"), "-x", "cl", "-cl-std=CL2.0", *target, "-O2", "-Rpass-analysis=kernel-resource-usage"]
    done = subprocess.run([*command, str(source), "-o", str(out)], capture_output=True, text=True, timeout=600)
    if done.returncode and re.search("invalid target ID|unknown target CPU|lld.*exist", done.stderr):
        pytest.skip(f"this clang cannot build for {tiny.arch}: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    return out.read_bytes(), dict(_REMARK.findall(done.stderr))
