"""Reads the report of an upstream example program: its line of results, exit code and error messages. Fails closed.

The line (``fmha_fwd_runner.hpp``, ``fmha_bwd_runner.hpp`` of the baseline)::

    [fp16|batch|bhsd] b:2, h:8/8, s:128/128, d:128/128, ..., NAMES, 0.012 ms, 1.23 TFlops, 4.56 GB/s, valid:y

The program prints the line in pieces while it works, and complaints to stderr. If an instance is missing, the line
ends in ``, not supported yet``. The exit code is 0; 254 for a wrong result, refused arguments, a missing instance or a
failed call of the runtime; or 255 for a command line that it did not understand. So only line, complaint and code
together have a meaning. A run in which they disagree is ``UNREADABLE``.
"""

from __future__ import annotations

import re
from dataclasses import replace

from fmha_cli.domain.counterpart import Program, Ran, Reading, Said, UpstreamCase

_OK, _REFUSED, _USAGE = 0, 254, 255
_LOADER = 127
"""Exit code of a program whose shared libraries are missing."""

_LINE = re.compile(r"^\[(?P<prec>\w+)\|(?P<mode>batch|group)\|(?P<layout>[bhsd]+(?:-[bhsd]+)?)\] (?P<rest>b:.*)$")
_NUMBER = r"(?:\d+\.\d+|inf|-?nan)"
_TIMES = re.compile(rf", (?P<ms>{_NUMBER}) ms, {_NUMBER} TFlops, {_NUMBER} GB/s(?P<valid>, valid:(?P<answer>[yn]))?$")
_UNSUPPORTED = ", not supported yet"
_REFUSALS = (
    "must be multiple of nhead_k",
    "rotary embedding is only available for data type=fp16|bf16",
    "rotary_dim should be less than or equal to head dim",
    "only rotary dimensions divisible by 16 are currently supported",
    "only paged-kvcache block size divisible by 128 are currently supported",
    "is not supported with appendkv/splitkv/pagedkv pipelines",
    "kpad must be greater than or equal to seqlen for k",
    "qpad must be greater than or equal to seqlen for q",
    "The value of p_drop should be 0~1",
    "num_splits greater than 128 is not supported",
    "dbias only exists when bias type is elementwise",
    "Unknown value for init argument",
)
"""Complaints with which the runners refuse a case (``invalid_args``), each with exit code 254."""

_NO_DEVICE = (
    "no ROCm-capable device",
    "hipErrorNoDevice",
    "no HIP-capable device",
    "failed to get device",
    "no kernel image is available",
)
"""Complaints of a program that cannot run on this machine. The last one means that it was built for another GPU."""

_LOADING = re.compile(r"error while loading shared libraries: libamdhip64|undefined symbol: (__)?hip[A-Z]")
"""The loader's complaint about a missing HIP runtime. If anything else is missing, the program is broken."""


def read(ran: Ran, case: UpstreamCase, *, validated: bool = True) -> Reading:
    """The meaning of the run for the case.

    Args:
        validated: the program had to check its result (``-v=1``).
    """
    lines = [line for line in ran.stdout.splitlines() if line.startswith("[")]
    line = lines[-1] if lines else None
    if ran.timed_out:
        return Reading(Said.TIMED_OUT, f"no end after {ran.seconds:.0f} s", line)
    if ran.returncode < 0:
        return Reading(Said.CRASHED, f"killed by signal {-ran.returncode}{_tail(ran)}", line)
    missing = _absent(ran)
    if missing:
        return Reading(Said.NO_DEVICE, missing, line)
    if ran.returncode not in (_OK, _REFUSED, _USAGE):
        return Reading(Said.CRASHED, f"exit code {ran.returncode}{_tail(ran)}", line)
    said = (*ran.stderr.splitlines(), *ran.stdout.splitlines())
    ignored = next((text.strip() for text in said if "ignoring the" in text), None)
    if ignored:
        return Reading(Said.IGNORED, ignored, line)
    if ran.returncode == _USAGE:
        return _usage(ran, line)
    if len(lines) > 1:
        return Reading(Said.UNREADABLE, f"{len(lines)} lines of results{_tail(ran)}", line)
    if line is None:
        return _no_line(ran)
    return _from_line(ran, line, case, validated)


def without_times(reading: Reading) -> Reading:
    """The reading without times, which mean nothing on an emulated device; the line of results loses them too."""
    line = reading.line and _TIMES.sub(lambda found: found["valid"] or "", reading.line)
    return replace(reading, line=line, ms=None)


def _from_line(ran: Ran, line: str, case: UpstreamCase, validated: bool) -> Reading:
    parts = _LINE.match(line)
    if parts is None:
        return Reading(Said.UNREADABLE, f"not a line of results: {line[:120]!r}", line)
    other = _other_settings(line, parts, case)
    if not ran.stdout.endswith("\n"):
        failed = _error_of(ran)
        why = failed or f"the output stops in the middle: ...{ran.stdout[-60:]!r}"
        return Reading(Said.FAILED if failed else Said.UNREADABLE, why, line)
    if line.endswith(_UNSUPPORTED) and " ms, " not in line:
        if ran.returncode != _REFUSED:
            return Reading(Said.UNREADABLE, f"'not supported yet' with exit code {ran.returncode}", line)
        return Reading(Said.OTHER, other, line) if other else Reading(Said.UNSUPPORTED, "not supported yet", line)
    times = _TIMES.search(line)
    if times is None:
        return Reading(Said.UNREADABLE, f"the line is cut short, exit code {ran.returncode}: ...{line[-60:]!r}", line)
    names = _kernels(line[: times.start()])
    ms = float(times["ms"])
    if other:
        return Reading(Said.OTHER, other, line, names, ms)
    answer = times["answer"]
    if answer is None and validated:
        return Reading(Said.UNREADABLE, f"no answer of the validation, exit code {ran.returncode}", line, names, ms)
    if answer is None and ran.returncode == _OK:
        return Reading(Said.UNCHECKED, "", line, names, ms)
    if (answer, ran.returncode) == ("y", _OK):
        if not 0 <= ms < float("inf"):
            return Reading(Said.UNREADABLE, f"a time of {times['ms']} ms", line, names)
        return Reading(Said.VALID, "", line, names, ms)
    if (answer, ran.returncode) == ("n", _REFUSED):
        return Reading(Said.WRONG, _complaint(ran) or "valid:n", line, names, ms)
    return Reading(Said.UNREADABLE, f"valid:{answer} with exit code {ran.returncode}", line, names, ms)


def _no_line(ran: Ran) -> Reading:
    refused = next((t.strip() for t in ran.stderr.splitlines() if any(r in t for r in _REFUSALS)), None)
    if refused and ran.returncode == _REFUSED:
        return Reading(Said.UNSUPPORTED, f"refused: {refused}")
    failed = _error_of(ran)
    if failed is not None:
        return Reading(Said.FAILED, failed)
    return Reading(Said.UNREADABLE, f"no line of results, exit code {ran.returncode}{_tail(ran)}")


def _usage(ran: Ran, line: str | None) -> Reading:
    if line is not None:
        return Reading(Said.UNREADABLE, f"a line of results with exit code {_USAGE}", line)
    if any(text.startswith("Unsupported precision: ") for text in ran.stderr.splitlines()):
        return Reading(Said.UNSUPPORTED, f"refused: {_complaint(ran)}")
    said = _complaint(ran) or next(iter(ran.stdout.strip().splitlines()), "")
    return Reading(Said.USAGE, said or f"exit code {_USAGE} without a message")


def _absent(ran: Ran) -> str | None:
    """Why the program could not start or find a device, None if it could."""
    for text in ran.stderr.splitlines():
        if any(word in text for word in _NO_DEVICE) and ran.returncode != _OK:
            return text.strip()
        if ran.returncode == _LOADER and _LOADING.search(text):
            return text.strip()
    return None


def _error_of(ran: Ran) -> str | None:
    """The message of an exception that ended the program (exit code 254)."""
    if ran.returncode != _REFUSED:
        return None
    lines = (t.strip() for t in ran.stderr.splitlines())
    return next((t for t in lines if t.startswith("Error: ") and "Incorrect results" not in t), None)


def _complaint(ran: Ran) -> str:
    return next((t.strip() for t in ran.stderr.splitlines() if t.strip()), "")


def _tail(ran: Ran) -> str:
    said = (ran.stderr.strip() or ran.stdout.strip()).splitlines()
    return f": {said[-1].strip()[:160]}" if said else ""


def _kernels(text: str) -> tuple[str, ...]:
    """Kernel names: the words of the line that are neither settings nor numbers."""
    words = text.partition("] ")[2].split(", ")
    return tuple(name for word in words if word.startswith("fmha_") for name in word.split("@"))


_SHOWN = re.compile(
    r"^b:(?P<b>\d+), h:(?P<h>\d+)/(?P<h_k>\d+), s:(?P<s>\d+)/(?P<s_k>\d+)(?:\(-?\d+\))?, d:(?P<d>\d+)/(?P<d_v>\d+), "
)


def _other_settings(line: str, parts: re.Match[str], case: UpstreamCase) -> str:
    """The settings that the line shows differently from the case; empty if all agree."""
    shown = _SHOWN.match(parts["rest"])
    if shown is None:
        return "the line does not show the sizes"
    heads, hdim, queries = case.number("h"), case.number("d"), case.numbers("s")[0]
    keys = case.numbers("s_k")[0]
    layouts = [("bhsd" if case.on(name) else "bshd") for name in ("iperm", "operm")]
    want = {
        "prec": case.value("prec"),
        "mode": "group" if case.on("mode") else "batch",
        "layout": layouts[0] if layouts[0] == layouts[1] else "-".join(layouts),
        "b": str(case.number("b")),
        "h": str(heads),
        "h_k": str(case.number("h_k") if case.number("h_k") >= 0 else heads),
        "s": str(queries),
        "s_k": str(queries if keys < 0 else keys),
        "d": str(hdim),
        "d_v": str(case.number("d_v") if case.number("d_v") >= 0 else hdim),
        **_features(case),
    }
    seen = {**parts.groupdict(), **shown.groupdict(), **_read_features(parts["rest"])}
    wrong = [f"{name} {seen.get(name)} instead of {value}" for name, value in want.items() if seen.get(name) != value]
    return f"it ran other settings: {', '.join(wrong)}" if wrong else ""


def _features(case: UpstreamCase) -> dict[str, str]:
    """The settings other than sizes, as the line prints them."""
    word, _, rank = case.value("bias").partition(":")
    ranked = f"[{int(rank)}]" if rank.isdecimal() and int(rank) else ""
    bias = {"e": "e", "elementwise": "e", "1": "e", "a": "alibi", "alibi": "alibi", "2": "alibi"}.get(word)
    out = {
        "bias": "n" if bias is None else bias + ranked,
        "p_drop": f"{case.real('p_drop'):g}",
        "mask": _mask(case.value("mask")),
    }
    if case.program is Program.BWD:
        return {**out, "dbias": str(int(case.on("dbias"))), "deterministic": str(int(case.on("deterministic")))}
    splits = case.number("num_splits")
    optional = {
        "rotary_dim": f"{case.number('rotary_dim')}({'inter' if case.on('rotary_interleaved') else 'half'})",
        "page_block_size": case.value("page_block_size"),
        "num_splits": str(splits),
    }
    given = {name: text for name, text in optional.items() if case.number(name) > 0}
    if splits <= 1:
        given.pop("num_splits", None)  # one split is not shown, and 0 is the program's own choice
    return {**out, "lse": str(int(case.on("lse"))), "v": case.value("vlayout"), **given}


def _read_features(rest: str) -> dict[str, str]:
    pairs = (word.partition(":") for word in rest.split(", ") if not word.startswith("fmha_"))
    return {name: value for name, colon, value in pairs if colon and name not in ("valid", "b", "h", "s", "d")}


def _mask(text: str) -> str:
    """A mask as the line prints it (``mask.hpp``, ``mask_info::serialize``)."""
    kind, _, sizes = text.partition(":")
    if kind in ("xt", "xb"):
        size = int(sizes)
        left, right = (size // 2, size - 1 - size // 2) if size > 0 else (-1, 0)
        return f"{kind[1]}({left}:{right})"
    if sizes:
        return f"{kind}({sizes.replace(',', ':')})"
    return {"0": "n", "1": "t(-1:0)", "t": "t(-1:0)", "2": "b(-1:0)", "b": "b(-1:0)"}.get(kind, "?")
