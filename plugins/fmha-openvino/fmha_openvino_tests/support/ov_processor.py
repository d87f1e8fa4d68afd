"""The features of the processor under test, from which the library chooses its precision.

``hasHardwareSupport`` in ``src/plugins/intel_cpu/src/utils/precision_support.cpp`` of openvino 2026.4.1: bf16 needs AVX512BW or
AVX2_VNNI_2. f16 needs AVX512_FP16 or AVX2_VNNI_2, and is bf16 without them.
"""

from __future__ import annotations

from fmha_cli.domain.processor import cpu_text

_FLAGS = cpu_text().split()


def has(flag: str) -> bool:
    return flag in _FLAGS


HALVES = has("avx512bw") or has("avx_ne_convert")
"""Whether the library computes in 16 bits when it is asked to; otherwise it computes in fp32."""
