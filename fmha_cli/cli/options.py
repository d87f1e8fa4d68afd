"""Every option that commands share. Problem options come from ``domain.fields``; a command lists what works for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from fmha_cli.cli.command import Opt
from fmha_cli.discovery.builtins import device_kinds, own_options
from fmha_cli.domain.builtin import Use
from fmha_cli.domain.features import CLOSED_FILLS, FILLS, Arithmetic
from fmha_cli.domain.fields import FIELDS
from fmha_cli.domain.flags import FlagKind
from fmha_cli.domain.invariance import BATCH_INVARIANT, Invariance
from fmha_cli.report.form import Format

_S, _N, _T, _F, _B = FlagKind.SIZE, FlagKind.NUMBER, FlagKind.TEXT, FlagKind.FILE, FlagKind.SWITCH

PROBLEM = tuple(Opt.of(field, field.panel, tuple(field.values) or None) for field in FIELDS)
SKIP_IMPOSSIBLE = Opt("skip-impossible", _B, "Drop the impossible points of a sweep, with a note", panel="Problem")

_model, _choosing, _files, _running, _output = (
    partial(Opt, panel=panel) for panel in ("Model", "Choosing", "Files", "Running", "Output")
)

MODELS = (
    _model(
        "model",
        _T,
        "The problems of a model's layers: a preset (see fmha models) or a config.json; other flags override; repeatable",
        repeats=True,
        metavar="NAME|FILE[:local|:global|:all]",
        complete="models",
    ),
    _model("phase", _T, "What the model does [default: prefill]", choices=("prefill", "decode", "both")),
    _model("tp", _S, "Devices among which the model's heads are divided [default: 1]"),
)
WORKLOAD = _model(
    "workload",
    _F,
    "The calls of a file with their counts: a client's recording, workloads of flashinfer-bench, a trace of PyTorch's profiler, an "
    "ONNX model; other flags override",
)

CHOOSING = (
    _choosing(
        "backend",
        _T,
        "Backend; several names, or all, are compared [default: auto]",
        metavar="NAME,...|all",
        complete="backends",
        lists=True,
    ),
    _choosing("arch", _T, "Architecture [default: the device's]", metavar="A", complete="archs"),
    _choosing("device", _T, f"{', '.join(device_kinds())}, emu:ARCH [default: auto]", metavar="ID"),
    _choosing("kernel", _T, "Canonical name, upstream name, or 8 or more digits of the digest", metavar="K"),
    _choosing(
        "require",
        _T,
        f"Only kernels that promise that results do not change, bit for bit, with {', '.join(Invariance)}; or {BATCH_INVARIANT}: "
        "batch, lengths, padding and pages",
        metavar="NAME,...",
        complete=(BATCH_INVARIANT, *Invariance),
        lists=True,
    ),
)
BACKEND, ARCH, *_ = CHOOSING
SELECT = _choosing(
    "select",
    _T,
    "tuned: what fmha tune remembered, else the default; default; or a kernel, as --kernel [default: tuned]",
    metavar="tuned|default|K",
)
ALL_KERNELS = _choosing("all-kernels", _B, "Every kernel that fits, not only the best")
FILTER = _choosing(
    "filter", _T, "KEY:GLOB[,KEY:GLOB...]; -KEY:GLOB excludes; repeatable", repeats=True, metavar="TERMS"
)
PROFILE = _choosing("profile", _T, "Named set of kernels (see fmha profiles)", metavar="NAME")

FILES = (
    *(
        _files(name, _F, f"Tensor file of {name.upper()}; 'filled' generates it", metavar="FILE[:KEY]")
        for name in ("q", "k", "v")
    ),
    _files("do", _F, "Tensor file of dO; 'filled' generates it", metavar="FILE[:KEY]"),
    _files(
        "out",
        _F,
        "Write the results: .npy (O alone), .npz, .safetensors; {i} is the row's number, if there are several",
        writes=True,
    ),
)
FILL = _files(
    "fill", _T, f"{', '.join((*FILLS, *CLOSED_FILLS))} [default: {FILLS[0]}]", metavar="FILL", complete="fills"
)
FILL_SEED = _files("fill-seed", _S, "Seed of the fill [default: 0]")

THREADS = _running("threads", _S, "CPU threads, 0 = all allowed [default: 0]")
TIMEOUT = _running("timeout", _N, "Seconds for one row in the worker [default: 600]", metavar="S")
OFFLINE = _running("offline", _B, "Never fetch sources")
DRY_RUN = _running("dry-run", _B, "Show what would be done, and do nothing")
JOBS = _running("jobs", _S, "Parallel builds, 0 = all allowed [default: 0]", "j")
CHECK_BUDGET = _running(
    "check-budget",
    _T,
    "Seconds of reference for a problem and fill; if they do not suffice, a sample of the rows is checked; all = no limit "
    "[default: 10]",
    metavar="S|all",
)
NO_CHECK = _running("no-check", _B, "Do not check against the reference (verdict UNCHECKED)")
NO_PROBE = _running(
    "no-probe", _B, "Measure no settings of this machine: use facts, what was measured before, or the kernels' own"
)
_HOMES = ", ".join(f"--{flag.name}" for flag in own_options(Use.SOURCES) if flag.kind is _F)
WATCH = _running("watch", _B, f"Do it again whenever a file of the tree of {_HOMES} or K@DIR changes, until Ctrl-C")
RESUME = _running("resume", _F, "Finish an interrupted run: the beginning of its id, or its file", metavar="JOURNAL")
JOURNAL = _running("journal", _F, "Keep the run in a file of its own until it ends [default: in the store]")
LABEL = _running("label", _T, "Your name for this run, kept in every record", metavar="TEXT")

EMULATING = (
    _running(
        "emu-seed", _S, "Seed of the order of waves on an emulated device; each further run takes the next [default: 0]"
    ),
    _running(
        "emu-turn",
        _S,
        "Instructions that a wave on it runs before the next wave's turn, 0 = up to a barrier [default: 0]",
    ),
    _running("emu-threads", _S, "Workgroups at once on an emulated device, 0 = all allowed [default: 0]"),
    _running("no-emu-checks", _B, "On an emulated device, check only for accesses out of bounds"),
    _running("emu-careful", _B, "On an emulated device, take no short ways: slower, with the same results"),
    _running(
        "emu-arith",
        _T,
        "Sums of matrix instructions on an emulated device [default: document]",
        choices=tuple(Arithmetic),
    ),
)
"""Options of emulated devices (``--device emu:ARCH``)."""

CACHE_DIR = _running("cache-dir", _F, "Root of the build cache", metavar="DIR")
OUTPUT_FILE = _output("output", _F, "Write the data to FILE instead of stdout, atomically", "o", writes=True)
FORMATS = {
    Format.JSON: _output("json", _B, "One JSON document (see fmha schema)"),
    Format.JSONL: _output("jsonl", _B, "One JSON record per line"),
    Format.CSV: _output("csv", _B, "Comma-separated values"),
    Format.MD: _output("md", _B, "A Markdown table"),
}
WIDE = _output("wide", _B, "Every column of the table, however wide")
COLUMNS = _output("columns", _T, "Columns of the table, in this order: its names, or those of --csv", metavar="A,B,...")
SORT = _output("sort", _T, "Sort the table's rows by columns", metavar="COLUMN[:desc],...")
LIMIT = _output("limit", _S, "At most N rows in the table")
DOCUMENT = (FORMATS[Format.JSON], OUTPUT_FILE)
TABLE = (*FORMATS.values(), OUTPUT_FILE, WIDE, COLUMNS, SORT)
"""Options of a command whose own ``--limit`` says more."""

ROWS = (*TABLE, LIMIT)

STORE = _running("store", _F, "Where results are kept [default: in your data folder]", metavar="[FILE]")
NO_STORE = replace(_running("no-store", _B, "Keep no results"), lasting=True)
KEPT = (STORE, NO_STORE)
JOURNALS = (RESUME, JOURNAL, LABEL, *KEPT)
BUILDING = tuple(Opt.of(flag, "Running") for flag in own_options(Use.SOURCES))
"""Options of single backends, handed to their builds by name (``BuildContext.options``)."""

REVISIONS = tuple(Opt.of(flag, "Choosing") for flag in own_options(Use.REVISION))
"""Options of single backends that choose the revision of their kernels."""

RUNNING = (THREADS, TIMEOUT, OFFLINE, JOBS, CACHE_DIR, *BUILDING)
ROOM = (*PROBLEM, SKIP_IMPOSSIBLE, *MODELS, *CHOOSING)

EXCLUDES: Mapping[str, tuple[str, ...]] = {
    **{field.key: field.excludes for field in FIELDS if field.excludes},
    "model": (*(field.key for field in FIELDS if field.of_model), "q", "k", "v", "workload"),
    "workload": (*(field.key for field in FIELDS), "q", "k", "v", *(option.key for option in MODELS)),
    "ab": ("kernel", "all_kernels", "select"),
    "kernel": ("ab", "all_kernels", "select"),
    "all_kernels": ("ab", "kernel"),
    "resume": ("journal",),
    **dict.fromkeys(
        ("q", "k", "v"), ("heads", "kv_heads", "hdim", "hdim_v", "batch", "seqlen", "seqlen_k", "dtype", "model")
    ),
    **{form.value: tuple(other.value for other in FORMATS if other is not form) for form in FORMATS},
    "store": ("no_store",),
    "no_store": ("store",),
    "quiet": ("verbose",),
    "verbose": ("quiet",),
}
"""Option -> options that it drops from weaker places, so that a flag never contradicts a configuration file."""
