"""Every option that commands share. Problem options come from ``PROBLEM_FLAGS``; a command lists what works for it."""

from __future__ import annotations

from collections.abc import Mapping

from fmha_cli.cli.command import Opt
from fmha_cli.discovery.builtins import device_kinds, own_options
from fmha_cli.domain.builtin import Use
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.flags import PROBLEM_FLAGS, Flag, FlagKind
from fmha_cli.report.form import Format

_S, _N, _T, _F, _B = FlagKind.SIZE, FlagKind.NUMBER, FlagKind.TEXT, FlagKind.FILE, FlagKind.SWITCH

_SIZES = ("batch", "heads", "kv-heads", "seqlen", "seqlen-k", "hdim", "hdim-v", "dtype", "layout", "scale", "lse")
_CACHE = ("kv-cache", "cache-seqlens", "cache-leftpad", "block-table", "append", "rotary", "splits")
_PASSES = ("direction", "deterministic", "dbias")
_COMPLETED = {"dtype": "dtypes", "mask": "masks", "layout": "layouts", "direction": "directions", "qscale": "qscales"}


def _panel(name: str) -> str:
    for panel, names in (("Problem", _SIZES), ("KV cache", _CACHE), ("Passes", _PASSES)):
        if name in names:
            return panel
    return "Packed sequences" if name.startswith("seqlens") else "Features"


def _problem(flag: Flag) -> Opt:
    return Opt(flag, _panel(flag.name), complete=_COMPLETED.get(flag.name))


PROBLEM = tuple(_problem(flag) for flag in PROBLEM_FLAGS)
SKIP_IMPOSSIBLE = Opt(Flag("skip-impossible", _B, "Drop the impossible points of a sweep, with a note"), "Problem")

CHOOSING = (
    Opt(Flag("backend", _T, "Backend [default: auto]", metavar="NAME"), "Choosing", complete="backends"),
    Opt(Flag("arch", _T, "Architecture [default: the device's]", metavar="A"), "Choosing", complete="archs"),
    Opt(Flag("device", _T, f"{', '.join(device_kinds())}, emu:ARCH [default: auto]", metavar="ID"), "Choosing"),
    Opt(
        Flag("kernel", _T, "Canonical name, upstream name, or 8 and more digits of the digest", metavar="K"), "Choosing"
    ),
)
ARCH = CHOOSING[1]
BACKEND = CHOOSING[0]
FILTER = Opt(
    Flag("filter", _T, "KEY:GLOB[,KEY:GLOB...]; -KEY:GLOB excludes; repeatable", repeats=True, metavar="TERMS"),
    "Choosing",
)
PROFILE = Opt(Flag("profile", _T, "Named set of kernels (see fmha profiles)", metavar="NAME"), "Choosing")

FILES = (
    *(Opt(Flag(name, _F, f"Tensor file of {name.upper()}", metavar="FILE[:KEY]"), "Files") for name in ("q", "k", "v")),
    Opt(Flag("do", _F, "Tensor file of dO", metavar="FILE[:KEY]"), "Files"),
    Opt(Flag("out", _F, "Write the results: .npy (O alone), .npz, .safetensors; {i} counts a sweep"), "Files"),
)
FILL = Opt(Flag("fill", _T, f"{', '.join(FILLS)} [default: {FILLS[0]}]", metavar="FILL"), "Files", complete="fills")
FILL_SEED = Opt(Flag("fill-seed", _S, "Seed of the fill [default: 0]"), "Files")

THREADS = Opt(Flag("threads", _S, "CPU threads, 0 = all allowed [default: 0]"), "Running")
TIMEOUT = Opt(Flag("timeout", _N, "Seconds for one row in the worker [default: 600]", metavar="S"), "Running")
OFFLINE = Opt(Flag("offline", _B, "Never fetch sources"), "Running")
DRY_RUN = Opt(Flag("dry-run", _B, "Show what would be done, and do nothing"), "Running")
JOBS = Opt(Flag("jobs", _S, "Parallel builds, 0 = all allowed [default: 0]", "j"), "Running")
NO_CHECK = Opt(Flag("no-check", _B, "Do not check against the reference (verdict UNCHECKED)"), "Running")
ALL_KERNELS = Opt(Flag("all-kernels", _B, "Every kernel that fits, not only the best"), "Choosing")
RESUME = Opt(Flag("resume", _F, "Go on with an interrupted journal", metavar="JOURNAL"), "Running")
JOURNAL = Opt(Flag("journal", _F, "Where the journal is kept [default: in the cache]"), "Running")

EMULATING = (
    Opt(
        Flag("emu-seed", _S, "Order of waves on an emulated device; runs take this seed and the next [default: 0]"),
        "Running",
    ),
    Opt(
        Flag(
            "emu-turn", _S, "Instructions of a wave on it before the next wave's turn, 0 = up to a barrier [default: 0]"
        ),
        "Running",
    ),
    Opt(Flag("emu-threads", _S, "Workgroups at once on an emulated device, 0 = all allowed [default: 0]"), "Running"),
    Opt(Flag("no-emu-checks", _B, "On an emulated device, check only for accesses out of bounds"), "Running"),
)
"""Options of emulated devices (``--device emu:ARCH``)."""

CACHE_DIR = Opt(Flag("cache-dir", _F, "Root of the build cache", metavar="DIR"), "Running")
OUTPUT_FILE = Opt(Flag("output", _F, "Write the data to FILE instead of stdout, atomically", "o"), "Output")
FORMATS = {
    Format.JSON: Opt(Flag("json", _B, "One JSON document (see fmha schema)"), "Output"),
    Format.JSONL: Opt(Flag("jsonl", _B, "One JSON record a line"), "Output"),
    Format.CSV: Opt(Flag("csv", _B, "Comma-separated values"), "Output"),
    Format.MD: Opt(Flag("md", _B, "A Markdown table"), "Output"),
}
DOCUMENT = (FORMATS[Format.JSON], OUTPUT_FILE)
ROWS = (*FORMATS.values(), OUTPUT_FILE)

JOURNALS = (RESUME, JOURNAL)
BUILDING = tuple(Opt(flag, "Running") for flag in own_options(Use.SOURCES))
"""Options of single backends, handed to their builds by name (``BuildContext.options``)."""

REVISIONS = tuple(Opt(flag, "Choosing") for flag in own_options(Use.REVISION))
"""Options of single backends that choose the revision of their kernels."""

RUNNING = (THREADS, TIMEOUT, OFFLINE, JOBS, CACHE_DIR, *BUILDING)
ROOM = (*PROBLEM, SKIP_IMPOSSIBLE, *CHOOSING)

EXCLUDES: Mapping[str, tuple[str, ...]] = {
    "mask": ("causal",),
    "causal": ("mask",),
    "seqlens_q": ("batch", "seqlen", "seqlen_k"),
    "seqlens_k": ("kv_cache", "cache_seqlens", "cache_leftpad", "append", "rotary", "seqlen_k"),
    "seqlen": ("seqlens_q", "seqlens_k"),
    "seqlen_k": ("seqlens_q", "seqlens_k"),
    "batch": ("seqlens_q", "seqlens_k"),
    "kv_cache": ("seqlens_k",),
    "bias": ("alibi", "alibi_slopes", "bias_file"),
    "bias_file": ("alibi", "alibi_slopes"),
    "alibi": ("bias", "bias_file"),
    "alibi_slopes": ("bias", "bias_file"),
    **dict.fromkeys(("q", "k", "v"), ("batch", "heads", "kv_heads", "seqlen", "seqlen_k", "hdim", "hdim_v", "dtype")),
    **{form.value: tuple(other.value for other in FORMATS if other is not form) for form in FORMATS},
    "quiet": ("verbose",),
    "verbose": ("quiet",),
}
"""Option -> options that it drops from weaker places, so that a flag never contradicts a configuration file."""
