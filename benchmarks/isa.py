"""Instruction sets to which all contenders of ``cpu_attention.py`` can be held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Isa:
    """Our architecture, and the environment variables of the peers.

    The variables are PyTorch's own switch, oneDNN's and MKL's. They act only if they are set before the libraries are loaded.
    """

    arch: str
    variables: Mapping[str, str]


ISAS = {
    "avx2": Isa(
        "x86_64_v3",
        {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    )
}
