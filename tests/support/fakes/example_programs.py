"""A program that replaces upstream's examples and prints every form of their output, and some more.

It is written from the runners' text, independently of ``backends.ck_tile.parity.reading``. The variable ``STANDIN``
selects its output: one form for every case, or ``FORM@KEY=VALUE,...;FORM``, where the first form with matching settings
applies.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path

SCRIPT = r"""
import os, signal, sys, time

NAME = os.path.basename(sys.argv[0])
FWD = NAME.endswith("fwd")
ARGS = dict(word[1:].split("=", 1) for word in sys.argv[1:])
LOG = os.environ.get("STANDIN_LOG")
REPORT = os.environ.get("PAPER_REPORT")
if REPORT and os.environ.get("STANDIN_REPORT") != "none":
    with open(REPORT, "w") as stream:
        stream.write(os.environ.get("STANDIN_REPORT", "[]"))
if os.environ.get("STANDIN_LITTER"):  # a temporary file that it does not live to remove
    import tempfile
    tempfile.mkstemp(prefix="standin-litter-")
if LOG:
    with open(LOG, "a") as stream:
        stream.write(" ".join([NAME, *sys.argv[1:]]) + "\t" + os.environ.get("HIP_VISIBLE_DEVICES", "") + "\n")


def arg(name, default):
    return ARGS.get(name, default)


def form():
    for part in os.environ.get("STANDIN", "valid").split(";"):
        name, _, when = part.partition("@")
        if all(ARGS.get(w.split("=", 1)[0]) == w.split("=", 1)[1] for w in when.split(",") if w):
            return name
    return "valid"


def mask():
    text = arg("mask", "0")
    word, colon, rest = text.partition(":")
    if colon and word in ("t", "b"):
        return word + "(" + rest.replace(",", ":") + ")"
    return {"0": "n", "1": "t(-1:0)", "t": "t(-1:0)", "2": "b(-1:0)", "b": "b(-1:0)"}[text]


def head(batch=None):
    queries = arg("s", "3328").split(",")[0]
    keys = arg("s_k", "-1").split(",")[0]
    keys = queries if int(keys) < 0 else keys
    heads, kv = arg("h", "8"), arg("h_k", "-1")
    hdim, hdim_v = arg("d", "128"), arg("d_v", "-1")
    layouts = ["bhsd" if arg(n, "1") == "1" else "bshd" for n in ("iperm", "operm")]
    layout = layouts[0] if layouts[0] == layouts[1] else "-".join(layouts)
    bias = arg("bias", "n")
    bias = {"a": "alibi"}.get(bias, bias)
    drop = format(float(arg("p_drop", "0")), "g")
    mode = "group" if arg("mode", "0") == "1" else "batch"
    text = "[%s|%s|%s] b:%s, h:%s/%s, s:%s/%s, d:%s/%s" % (
        arg("prec", "fp16"), mode, layout, batch or arg("b", "2"), heads, heads if kv == "-1" else kv,
        queries, keys, hdim, hdim if hdim_v == "-1" else hdim_v,
    )
    if FWD:
        text += ", scale_s:0.0883883, bias:%s, p_drop:%s, lse:%s, squant:0, mask:%s, v:%s" % (
            bias, drop, arg("lse", "0"), mask(), arg("vlayout", "r"))
        if int(arg("rotary_dim", "0")) > 0:
            text += ", rotary_dim:%s(%s)" % (arg("rotary_dim", "0"), "inter" if arg("rotary_interleaved", "1") == "1" else "half")
        if int(arg("num_splits", "1")) > 1:
            text += ", num_splits:" + arg("num_splits", "1")
        if int(arg("page_block_size", "0")) > 0:
            text += ", page_block_size:" + arg("page_block_size", "0")
    else:
        text += ", scale:0.0883883, bias:%s, dbias:%s, p_drop:%s, s_randval:0, deterministic:%s, mask:%s" % (
            bias, arg("dbias", "0"), drop, arg("deterministic", "0"), mask())
    return text


def kernel():
    if arg("kname", "0") != "1":
        return ""
    name = "fmha_fwd_d128_fp16_batch_b128x128x32x128x32x128_r4x1x1_r4x1x1_w32x32x16_w32x32x16_qr_async_vr_psddv"
    return ", " + (name if FWD else "fmha_bwd_dot_do_o_d128_fp16@fmha_bwd_convert_dq_d128@fmha_bwd_d128_fp16_batch")


def out(text, end="\n"):
    sys.stdout.write(text + end)
    sys.stdout.flush()


def err(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


MS = os.environ.get("STANDIN_MS", "0.025")
TIMES = ", %s ms, 10.74 TFlops, 41.94 GB/s" % MS
CHECKED = arg("v", "1") != "0"
NAMES = {
    "refused": "only paged-kvcache block size divisible by 128 are currently supported",
    "refused-heads": "nhead:3 must be multiple of nhead_k:2",
}
what = form()
whole = head() + kernel() + TIMES
if what == "valid":
    out(whole + (", valid:y" if CHECKED else ""))
elif what == "wrong":
    out(head() + kernel() + TIMES, end="")
    err(("OUT Error: " if FWD else "Error: QGrad ") + "Incorrect results! out[0] != ref[0]: 1 != 2")
    err("max err: 1, number of errors: 9, 100% wrong values")
    out(", valid:n")
    sys.exit(254)
elif what == "unsupported":
    out(head(), end="")
    out(", not supported yet")
    sys.exit(254)
elif what in NAMES:
    err(NAMES[what])
    sys.exit(254)
elif what == "ignoring":
    err("split-kv is not supported. ignoring the 'num_splits' option")
    out(whole + ", valid:y")
elif what == "ignoring-two-lines":
    err("paged-kvcache does not support cache_batch_idx. ignoring the 'cache_batch_idx' option")
    out(head(), end="")
    out(", not supported yet")
    sys.exit(254)
elif what == "other-batch":
    out(head("77") + kernel() + TIMES + ", valid:y")
elif what == "wrong-truncated":
    out(whole, end="")
    err(("OUT Error: " if FWD else "Error: QGrad ") + "Incorrect results! out[0] != ref[0]: 1 != 2")
    sys.exit(254)
elif what == "truncated":
    out(whole[: len(whole) // 2], end="")
elif what == "truncated-after-times":
    out(whole)
elif what == "truncated-answer":
    out(whole + ", valid:")
elif what == "no-line-break":
    out(whole + ", valid:y", end="")
elif what == "longer-answer":
    out(whole + ", valid:yes")
elif what == "garbage":
    sys.stdout.buffer.write(bytes(range(256)) * 8 + b"\n")
elif what == "garbage-around":
    out("\x00\x01 valid:y " + whole + ", valid:y")
elif what == "silent":
    pass
elif what == "silent-254":
    sys.exit(254)
elif what == "odd-complaint-254":
    err("something else went wrong")
    sys.exit(254)
elif what == "head-254":
    out(head())
    sys.exit(254)
elif what == "valid-254":
    out(whole + ", valid:y")
    sys.exit(254)
elif what == "wrong-0":
    out(whole + ", valid:n")
elif what == "unsupported-0":
    out(head() + ", not supported yet")
elif what == "unsupported-after-times":
    out(whole + ", not supported yet")
    sys.exit(254)
elif what == "twice":
    out(whole + ", valid:y")
    out(whole + ", valid:y")
elif what == "nan":
    out(head() + kernel() + ", nan ms, nan TFlops, nan GB/s, valid:y")
elif what == "unchecked":
    out(whole)
elif what == "segv":
    out(head(), end="")
    os.kill(os.getpid(), signal.SIGSEGV)
elif what == "abort-after-valid":
    out(whole + ", valid:y")
    os.kill(os.getpid(), signal.SIGABRT)
elif what == "exit-2":
    out(whole + ", valid:y")
    sys.exit(2)
elif what == "hang":
    out(whole + ", valid:y")
    time.sleep(600)
elif what == "hip-error":
    out(head(), end="")
    err("Error: HIP Function Failed (device_memory.hpp,54) out of memory")
    sys.exit(254)
elif what == "hip-error-after-times":
    out(whole, end="")
    err("Error: HIP Function Failed (device_memory.hpp,54) an illegal memory access was encountered")
    sys.exit(254)
elif what == "no-device":
    err("Error: HIP Function Failed (device_memory.hpp,54) no ROCm-capable device is detected")
    sys.exit(254)
elif what == "unsupported-for-want-of-a-device":
    out(head(), end="")
    err("failed to get device")
    out(", not supported yet")
    sys.exit(254)
elif what == "another-gpu":
    out(head(), end="")
    err("Error: HIP Function Failed (kernel_launch.hpp,73) no kernel image is available for execution on the device")
    sys.exit(254)
elif what == "no-library":
    err(NAME + ": error while loading shared libraries: libamdhip64.so.7: cannot open shared object file")
    sys.exit(127)
elif what == "no-symbol":
    err(NAME + ": symbol lookup error: " + NAME + ": undefined symbol: hipMalloc")
    sys.exit(127)
elif what == "another-symbol":
    err(NAME + ": symbol lookup error: " + NAME + ": undefined symbol: __truncsfbf2")
    sys.exit(127)
elif what == "another-library":
    err(NAME + ": error while loading shared libraries: libstdc++.so.6: cannot open shared object file")
    sys.exit(127)
elif what == "usage":
    out("no such arg:squant")
    sys.exit(255)
elif what == "invalid-argument":
    err("Invalid argument: invalid mask value: q")
    sys.exit(255)
elif what == "precision":
    err("Unsupported precision: " + arg("prec", "fp16"))
    sys.exit(255)
elif what == "valid-255":
    out(whole + ", valid:y")
    sys.exit(255)
else:
    raise SystemExit("no such form: " + what)
"""


def write_standins(folder: Path, programs: tuple[str, ...] = ("fwd", "bwd")) -> Path:
    """Write the stand-ins under the programs' own names and return the folder."""
    folder.mkdir(exist_ok=True)
    for program in programs:
        path = folder / f"tile_example_fmha_{program}"
        path.write_text(f"#!{sys.executable} -IS\n{SCRIPT}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder
