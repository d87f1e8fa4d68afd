"""The built-in backends. Every command reads this table, even ``--help``, so nothing heavy may be imported here."""

from __future__ import annotations

from collections.abc import Mapping

from fmha_cli.domain.builtin import Builtin, Use
from fmha_cli.domain.flags import Flag, FlagKind

_CK_HOME = Flag(
    "ck-home", FlagKind.FILE, "Composable Kernel to build against: a checkout, or its include folder", metavar="DIR"
)
_CK_AS = Flag(
    "ck-as", FlagKind.TEXT, "Revision by whose rules an edited tree of --ck-home is built: baseline", metavar="REV"
)
_CK_REV = Flag(
    "ck-rev", FlagKind.TEXT, "Revision of Composable Kernel: baseline, 2026-08 [default: baseline]", metavar="REV"
)

_FA_HOME = Flag(
    "fa-home", FlagKind.FILE, "FlashAttention to build against: a checkout with csrc/cutlass", metavar="DIR"
)
_FA_AS = Flag(
    "fa-as", FlagKind.TEXT, "Revision by whose rules an edited tree of --fa-home is built: 2.8.3.post2", metavar="REV"
)

_XF_HOME = Flag(
    "xf-home", FlagKind.FILE, "xformers to build against: a checkout with third_party/cutlass", metavar="DIR"
)
_XF_AS = Flag(
    "xf-as", FlagKind.TEXT, "Revision by whose rules an edited tree of --xf-home is built: 0.0.28.post3", metavar="REV"
)

_FA3_HOME = Flag(
    "fa3-home",
    FlagKind.FILE,
    "xformers with FlashAttention-3 to build against: a checkout with submodules",
    metavar="DIR",
)
_FA3_AS = Flag(
    "fa3-as", FlagKind.TEXT, "Revision by whose rules an edited tree of --fa3-home is built: 0.0.34", metavar="REV"
)

BUILTINS: Mapping[str, Builtin] = {
    "aiter_asm": Builtin("fmha_cli.backends.aiter_asm", device="hip:N"),
    "ck_tile": Builtin(
        "fmha_cli.backends.ck_tile",
        device="hip:N",
        options=((_CK_HOME, Use.SOURCES), (_CK_AS, Use.SOURCES), (_CK_REV, Use.REVISION)),
        binaries=("tile_example_fmha_fwd", "tile_example_fmha_bwd"),
        suites=("basic", "smoke", "smoke_fwd", "smoke_bwd", "smoke_fwd_splitkv", "smoke_fwd_appendkv"),
        variables=("FMHA_HIPCC",),
        exports=("ck-custom", "aiter-csv"),
    ),
    "cpu": Builtin(
        "fmha_cli.backends.cpu",
        device="cpu",
        variables=("FMHA_CPU_ARCH", "FMHA_CXX", "FMHA_CXX_AARCH64", "FMHA_CXX_X86_64"),
    ),
    "flash_attn": Builtin(
        "fmha_cli.backends.flash_attn", device="cuda:N", options=((_FA_HOME, Use.SOURCES), (_FA_AS, Use.SOURCES))
    ),
    "flash_attn_3": Builtin(
        "fmha_cli.backends.flash_attn_3", device="cuda:N", options=((_FA3_HOME, Use.SOURCES), (_FA3_AS, Use.SOURCES))
    ),
    "mem_efficient": Builtin(
        "fmha_cli.backends.mem_efficient", device="cuda:N", options=((_XF_HOME, Use.SOURCES), (_XF_AS, Use.SOURCES))
    ),
    "cudnn_oss": Builtin("fmha_cli.backends.cudnn_oss", device="cuda:N"),
}
"""By name. Their order means nothing to a choice: ``arch_specs/_preference.json`` orders backends (``discovery/preference``)."""
