"""Rules K500-K502: which kernels upstream has, and which of them can be built."""

from __future__ import annotations

from fmha_cli.backends.cuda.listed import listed_rules
from fmha_cli.backends.mem_efficient.catalogue import NAME, WIDEST, profile_kernels

_RULES = listed_rules(NAME, ("K500", "K501", "K502"), lambda arch: profile_kernels(arch, WIDEST))
KERNEL_RULES = _RULES.rules()
refusals = _RULES.refusals
