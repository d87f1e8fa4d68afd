"""ONNX Runtime's attention operators on the CPU, as a backend for fmha. The library is imported in the worker alone."""

from __future__ import annotations

from fmha_cli import plugin
from fmha_onnxruntime.kernels import RELEASES, RULES, OrtAlgorithm, kernels

BACKEND = plugin.LibraryBackend(
    name="onnxruntime",
    distribution="onnxruntime",
    algorithm=OrtAlgorithm,
    listed=kernels,
    table=RULES,
    session="fmha_onnxruntime.session:OrtSession",
    tried=tuple(RELEASES["tried"]),
)


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [BACKEND]
