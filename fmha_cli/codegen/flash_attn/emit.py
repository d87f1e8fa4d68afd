"""``emit`` turns a KernelSpec into one CUDA translation unit, the source of one cubin.

The text depends on the kernel only. It includes upstream's headers and the shims of ``src/`` by name:

- ``common`` replaces the two headers of PyTorch that upstream's parameter block needs.
- ``nvrtc`` replaces the standard library, which NVRTC does not have.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from fmha_cli.codegen.flash_attn.instance import TRAITS, Instance, instance_of
from fmha_cli.codegen.flash_attn.params import NAMESPACE, cpp_name
from fmha_cli.codegen.struct import c_fields
from fmha_cli.domain.kernel import KernelSpec

VERSION = 1
"""The first word of the exported table of the parameter block."""
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
    return Path(str(resources.files(__package__).joinpath("src", name)))


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
    names = [name for name, _ in c_fields(instance.block)]
    rows = "".join(f",\n  FMHA_FIELD({name})" for name in names)
    facts = ", ".join(f"(uint32_t){TRAITS}::{fact}" for fact in FACTS)
    smem = f"(uint32_t){TRAITS}::{instance.smem}" if instance.smem else "0"
    return (
        "#define FMHA_FIELD(name) offsetof(Params, name), sizeof(((Params*)0)->name)\n"
        f"FMHA_EXPORT uint32_t {SYMBOL}_abi_table[] = {{{VERSION}, sizeof(Params), {len(names)}{rows}}};\n"
        f'FMHA_EXPORT char {SYMBOL}_abi_names[] = "{" ".join(names)}";\n'
        f"FMHA_EXPORT uint32_t {SYMBOL}_facts[] = {{{facts}, {smem}}};"
    )
