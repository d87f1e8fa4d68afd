"""Kernel libraries with the real ABI and no kernel. They record the last argument block and return what a test sets."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.codegen.ck_tile.args import ARGS, FAULT, LAUNCH, VERSION, FmhaCkFault, FmhaCkLaunch, args_of
from fmha_cli.codegen.struct import ctypes_structure, struct_text, table_text
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.signature import Signature
from fmha_cli.toolchain.cpp.library import build_cpp
from fmha_cli.toolchain.kernels import kernel_build

_HEAD = """#include <cstddef>
#include <cstdint>
#include <cstring>
#define EXPORT __attribute__((visibility("default")))
"""

_ENTRIES = """
extern "C" EXPORT Args fake_last{};
extern "C" EXPORT int fake_launches = 0;
extern "C" EXPORT int fake_status = 0;
extern "C" EXPORT int fake_field = -1;
extern "C" EXPORT int fake_hip_error = 0;
extern "C" EXPORT int fmha_ck_launch(const Args* args, void*, FmhaCkFault* fault) {
  fake_last = *args;
  ++fake_launches;
  *fault = FmhaCkFault{fake_field, fake_hip_error};
  return fake_status;
}
extern "C" EXPORT int fmha_ck_describe(const Args*, FmhaCkLaunch*, FmhaCkFault* fault) {
  *fault = FmhaCkFault{fake_field, fake_hip_error};
  return fake_status;
}
extern "C" EXPORT int64_t fmha_ck_kernel_name(char* out, int64_t room) {
  if (room > 4) std::memcpy(out, "fake", 5);
  return 4;
}
"""


@dataclass(frozen=True, kw_only=True)
class FakeAlgorithm(Algorithm):
    """Gives each fake library a separate cache entry."""

    family: str
    drift: bool = False


def build_fake(family: Family, cache: Path, *, drift: bool = False) -> Path:
    """The fake library of a family. With ``drift``, its struct has one more member than the host's."""
    args = args_of(family)
    structs = (args, FmhaCkLaunch, FmhaCkFault)
    text = _HEAD + "".join(struct_text(s) + "\n" for s in structs)
    tables = zip(structs, (ARGS, LAUNCH, FAULT), strict=True)
    text += "".join(table_text(s, prefix, VERSION) for s, prefix in tables)
    text += f"using Args = {args.__name__};\n{_ENTRIES}"
    if drift:
        text = text.replace(f"struct {args.__name__} {{\n", f"struct {args.__name__} {{\n  int64_t new_member;\n")
    spec = KernelSpec(
        backend="ck_tile",
        family=family,
        arch="generic",
        signature=Signature(dtype=DType.FP32, dtype_out=DType.FP32, hdim=0, hdim_v=0),
        algorithm=FakeAlgorithm(family=family.value, drift=drift),
    )
    return build_cpp(kernel_build(spec, text), BuildContext(cache_root=cache)).path


class Fake:
    """The controls of a fake library that is loaded in this process."""

    def __init__(self, path: Path, family: Family) -> None:
        self._library, self._args = ctypes.CDLL(str(path)), args_of(family)

    @property
    def last(self) -> Any:
        """The last argument block, as a ctypes structure."""
        return ctypes_structure(self._args).in_dll(self._library, "fake_last")

    @property
    def launches(self) -> int:
        return ctypes.c_int.in_dll(self._library, "fake_launches").value

    def answer(self, status: int, field: int = -1, hip_error: int = 0) -> None:
        """Set the return values of the entry points from now on."""
        for name, value in (("status", status), ("field", field), ("hip_error", hip_error)):
            ctypes.c_int.in_dll(self._library, f"fake_{name}").value = value
