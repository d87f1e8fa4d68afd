"""llama.cpp's attention on the CPU, as a backend for fmha. Its library, which the package xllamacpp carries, is loaded in
the worker alone.
"""

from __future__ import annotations

from fmha_cli import plugin
from fmha_ggml.kernels import RULES, GgmlAlgorithm, kernels

BACKEND = plugin.LibraryBackend(
    name="ggml",
    distribution="xllamacpp",
    algorithm=GgmlAlgorithm,
    listed=kernels,
    table=RULES,
    session="fmha_ggml.session:GgmlSession",
    tried=("0.2.14", "2026.7.10068", "2026.10.11549"),
)


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [BACKEND]
