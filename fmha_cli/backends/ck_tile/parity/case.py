"""The options of the example programs.

Source of the options and their defaults: composable_kernel ``example/ck_tile/01_fmha/example_fmha_fwd.cpp`` and
``example_fmha_bwd.cpp``, ``create_args``, of the baseline revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fmha_cli.domain.counterpart import Program

BINARIES: Mapping[Program, str] = MappingProxyType({p: f"tile_example_fmha_{p.value}" for p in Program})
"""Program -> the file name of its executable."""

_COMMON = {
    "v": "1", "mode": "0", "b": "2", "h": "8", "h_k": "-1", "s": "3328", "s_k": "-1", "s_qpad": "-1", "s_kpad": "-1",
    "d": "128", "d_v": "-1", "iperm": "1", "operm": "1", "bias": "n", "prec": "fp16", "mask": "0", "kname": "0",
    "init": "uf", "seed": "11939", "p_drop": "0", "drop_seed": "1", "drop_offset": "0", "drop_prefs": "0",
    "timer": "gpu", "warmup": "5", "repeat": "20", "json": "0",
}  # fmt: skip

DEFAULTS: Mapping[Program, Mapping[str, str]] = MappingProxyType(
    {
        Program.FWD: MappingProxyType(
            {
                **_COMMON, "s_knew": "0", "scale_s": "0", "logits_soft_cap": "0", "squant": "auto", "vlayout": "r",
                "lse": "0", "rotary_dim": "0", "rotary_interleaved": "1", "num_splits": "1", "page_block_size": "0",
                "cache_batch_idx": "0", "jsonfile": "fmha_fwd.json", "q_eff_lens": "", "kv_eff_lens": "",
            }
        ),
        Program.BWD: MappingProxyType(
            {**_COMMON, "scale": "0", "dbias": "0", "deterministic": "0", "jsonfile": "fmha_bwd.json"}
        ),
    }
)  # fmt: skip
"""Program -> option -> default."""
