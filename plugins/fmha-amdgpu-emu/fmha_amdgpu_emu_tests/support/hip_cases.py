"""The expected results of each kernel in hip_kernels.hip, computed by numpy and compared with the device's."""

from __future__ import annotations

from fmha_amdgpu_emu_tests.support import hip_cases_arithmetic, hip_cases_data
from fmha_amdgpu_emu_tests.support.hip_compare import CASES

__all__ = ["CASES", "hip_cases_arithmetic", "hip_cases_data"]
