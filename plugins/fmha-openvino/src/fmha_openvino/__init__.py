"""OpenVINO's ScaledDotProductAttention on the CPU, as a backend for fmha. The library is imported in the worker alone."""

from __future__ import annotations

from fmha_cli import plugin
from fmha_openvino.kernels import OpenVinoAlgorithm, kernels
from fmha_openvino.rules import RELEASES, RULES

BACKEND = plugin.LibraryBackend(
    name="openvino",
    distribution="openvino",
    algorithm=OpenVinoAlgorithm,
    listed=kernels,
    table=RULES,
    session="fmha_openvino.session:OpenVinoSession",
    tried=RELEASES["tried"],
)


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [BACKEND]
