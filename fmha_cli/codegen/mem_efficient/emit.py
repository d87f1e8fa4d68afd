"""``emit`` turns a KernelSpec into one CUDA translation unit, the source of one cubin.

The text depends on the kernel only. It includes upstream's headers and three folders of shims by name: ``common``
replaces headers of PyTorch and cuRAND, ``std`` those of the standard library that only this upstream includes, and
``nvrtc`` the others (``codegen.cuda``).
"""

from __future__ import annotations

from fmha_cli.codegen.cuda import exports_text
from fmha_cli.codegen.mem_efficient.params import MemEffBwdParams, MemEffFwdParams
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.kernel import Family, KernelSpec


def block_of(kernel: KernelSpec) -> type:
    """The parameter block of a kernel."""
    return MemEffFwdParams if kernel.family is Family.FWD else MemEffBwdParams


def emit(kernel: KernelSpec) -> str:
    """The complete source of a kernel's cubin. The kernel has upstream's name.

    Raises:
        InternalError: upstream has no such kernel.
    """
    t = traits_of(kernel)
    header = "kernel_forward.h" if t.forward else "kernel_backward.h"
    facts = [f"Kernel::{name}" for name in t.facts]
    parts = (
        f"// {kernel.name}\n// {t.template}",
        f"#include <fmha_memeff.h>\n#include <{header}>",
        f"using Kernel = {t.template};\nusing Params = Kernel::Params;",
        'extern "C" __global__ void __launch_bounds__(Kernel::kNumThreads, Kernel::kMinBlocksPerSm)\n'
        f"{t.name}(Params p)\n{{\n  if (!p.advance_to_block()) {{\n    return;\n  }}\n  Kernel::attention_kernel(p);\n}}",
        exports_text(t.name, block_of(kernel), facts, "sizeof(Kernel::SharedStorage)"),
    )
    return "\n\n".join(parts) + "\n"
