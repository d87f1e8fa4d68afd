"""``emit`` turns a KernelSpec into one CUDA translation unit, the source of one cubin.

The text depends on the kernel only. It includes upstream's headers and two folders of shims by name: ``common``, which
replaces the two headers of PyTorch that upstream's parameter block needs, and ``nvrtc`` (``codegen.cuda``).
"""

from __future__ import annotations

from pathlib import Path

from fmha_cli.codegen.cuda import exports_text, shim_folder
from fmha_cli.codegen.flash_attn.instance import TRAITS, Instance, instance_of
from fmha_cli.codegen.flash_attn.params import NAMESPACE, cpp_name
from fmha_cli.domain.kernel import KernelSpec

SYMBOL = "fmha_fa2"
"""The kernel's name in every cubin, and the prefix of the exported tables."""
FACTS = ("kBlockM", "kBlockN", "kHeadDim", "kNThreads")
"""Members of the traits that ``fmha_fa2_facts`` exports. The dynamic shared memory of the launch, in bytes, follows."""


def emit(kernel: KernelSpec) -> str:
    """The complete source of a kernel's cubin.

    Raises:
        TypeError: the kernel is not a FlashAttention kernel.
        ValueError: FlashAttention does not have the family or the type.
    """
    instance = instance_of(kernel)
    headers = ("fmha_fa2.h", "namespace_config.h", "flash.h", *instance.headers)
    parts = [
        f"// {kernel.name}\n// {instance.template_id}",
        "\n".join(f"#include <{header}>" for header in headers),
        f"using {TRAITS} = {instance.traits};\nusing Params = {NAMESPACE}::{cpp_name(instance.block)};",
        _kernel(instance),
        _tables(instance),
    ]
    return "\n\n".join(parts) + "\n"


def shims(name: str) -> Path:
    """The folder of shim headers ``common`` or ``nvrtc``."""
    return shim_folder(name, __package__)


def _kernel(instance: Instance) -> str:
    first = "const __grid_constant__ Params params" if instance.grid_constant else "const Params params"
    parameters = (first, *(f"{kind} {name}" for kind, name in instance.extra))
    given = ("params", *(name for _, name in instance.extra))
    arguments = ", ".join(instance.arguments)
    return (
        f'extern "C" __global__ void {SYMBOL}({", ".join(parameters)})\n'
        f"{{\n  {NAMESPACE}::{instance.function}<{arguments}>({', '.join(given)});\n}}"
    )


def _tables(instance: Instance) -> str:
    smem = f"(uint32_t){TRAITS}::{instance.smem}" if instance.smem else "0"
    return exports_text(SYMBOL, instance.block, [f"{TRAITS}::{fact}" for fact in FACTS], smem)
