"""One case for both sides: the command line of the upstream program, and the flags of this tool's problem.

Every setting goes to both sides. A case is not comparable, with a reason, if this tool cannot express a setting or the
program silently drops one. Source: composable_kernel
``example/ck_tile/01_fmha/fmha_fwd_runner.hpp`` and ``fmha_bwd_runner.hpp`` of the baseline revision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fmha_cli.backends.ck_tile.parity.case import BINARIES, DEFAULTS
from fmha_cli.backends.ck_tile.parity.lengths import Lengths, lengths_of
from fmha_cli.domain.arguments import flag_texts
from fmha_cli.domain.counterpart import Mapped, Program, UpstreamCase
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import CacheKind
from fmha_cli.domain.problem import Problem

DTYPES: Mapping[str, str] = {
    "fp32": "fp32",
    "fp16": "fp16",
    "bf16": "bf16",
    "fp8": "fp8_e4m3:fp8_e4m3",
    "bf8": "fp8_e5m2:fp8_e5m2",
    "fp8bf16": "fp8_e4m3:bf16",
    "fp8fp32": "fp8_e4m3:fp32",
}
"""``-prec`` -> ``--dtype``: types of Q, K, V and of O (``fmha_fwd.hpp`` FmhaFwdTypeConfig)."""

FILLS: Mapping[str, str] = {"ui": "sparse_int", "0": "sparse_int", "ni": "sparse_int"}
"""``-init`` -> ``--fill``; any other value is ``normal``. Each side makes its own data and judges its own result."""

INITS = frozenset({"ui", "0", "ni", "uf", "1", "nf", "tf", "2"})
"""Kinds of data that the forward program knows. For any other kind it silently runs on zeros, so even a kernel that
writes nothing would pass. The backward program knows fewer kinds and refuses the others."""

_LAYOUT = {True: "bhsd", False: "bshd"}


def map_case(case: UpstreamCase) -> Mapped:
    """The case for both sides. It never raises: a case that cannot be mapped is not comparable."""
    unknown = [name for name in case.settings if name not in DEFAULTS[case.program]]
    reasons = [f"the {BINARIES[case.program]} of the baseline has no option -{name}" for name in unknown]
    reasons += _inexpressible(case)
    if reasons:
        return Mapped(case, case.argv(), reasons=tuple(reasons))
    try:
        lengths = lengths_of(case)
        flags = _flags(case, lengths)
        problem = Problem.from_raw(flag_texts(flags))
    except ImpossibleProblem as error:
        return Mapped(case, case.argv(), reasons=(f"no problem of this tool: {error.what} ({error.why})",))
    except (ValueError, IndexError) as fault:
        return Mapped(case, case.argv(), reasons=(str(fault),))
    spelled, notes = {}, []
    if lengths.drawn and case.on("mode"):
        spelled = {"s": _join_lengths(lengths.queries), "s_k": _join_lengths(lengths.keys)}
        notes.append("lengths that the program draws from -seed are spelled out for both sides")
    elif lengths.drawn:
        notes.append(
            f"the program draws key lengths from -seed: {_join_lengths(lengths.keys)} (libstdc++ 11 and later)"
        )
    fill = FILLS.get(case.value("init"), "normal")
    return Mapped(case, case.argv(**spelled), flags, problem, notes=tuple(notes), fill=fill)


def _inexpressible(case: UpstreamCase) -> Iterator[str]:
    """Reasons: settings that this tool's problems cannot express, and settings that the program silently drops."""
    group, batch = case.on("mode"), case.number("b")
    lists = len(case.numbers("s")), len(case.numbers("s_k"))
    if case.value("prec") not in DTYPES:
        yield f"-prec={case.value('prec')}: no such data type here"
    for name in ("s_qpad", "s_kpad"):
        if any(n > 0 for n in case.numbers(name)):
            yield (
                f"-{name}: sequences with physical padding between them cannot be expressed here"
                if group
                else f"-{name}: the program drops it in batch mode without saying so"
            )
    for name in ("q_eff_lens", "kv_eff_lens"):
        if case.value(name):
            yield f"-{name}: effective lengths inside padded sequences cannot be expressed here"
    if not group and max(lists) > 1:
        yield "several lengths in batch mode: the program reads the first one only"
    if group and max(lists) > batch:
        yield f"more lengths than -b={batch}: the program drops the rest without saying so"
    if case.value("vlayout") not in ("r", ""):
        yield f"-vlayout={case.value('vlayout')}: V is row-major here"
    if case.value("mask").startswith("g:"):
        yield "-mask=g: the program checks it as a window of these two numbers, although they are coordinates"
    if case.value("bias").partition(":")[2] not in ("", "0") and case.value("bias")[0] in "e1":
        yield f"-bias={case.value('bias')}: the program broadcasts one (seqlen_q, seqlen_k) plane whatever the rank"
    if case.value("init") not in INITS:
        yield f"-init={case.value('init')}: the program knows no such data and runs on zeros, so a pass means nothing"
    if case.on("drop_prefs"):
        yield "-drop_prefs: seed and offset are values here, not device pointers"
    if case.on("cache_batch_idx"):
        yield "-cache_batch_idx: the program draws an index into the cache and does not print it"
    yield from _about_append(case)


def _about_append(case: UpstreamCase) -> Iterator[str]:
    new, rotary = case.number("s_knew"), case.number("rotary_dim") > 0
    if (new != 0 or rotary) and case.on("mode"):
        yield "-s_knew or -rotary_dim in group mode: the program switches to batch mode"
    if rotary and new == 0:
        yield "-rotary_dim without -s_knew: rotary embedding is part of appending keys here"
    elif rotary:
        queries = (case.numbers("s") or (0,))[0]
        masked = case.value("mask") != "0"
        if new != queries or (queries > 1 and not masked):
            yield (
                "-rotary_dim: the program rotates "
                + ("query i" if masked else "every query")
                + f" by position cache{' + i' if masked else ''}, this tool by cache + new - queries + i "
                f"({queries} queries, {new} new keys)"
            )


def _flags(case: UpstreamCase, lengths: Lengths) -> dict[str, str | bool | int | float]:
    """The problem flags; every option of the program that describes the problem is read here."""
    flags: dict[str, str | bool | int | float] = {
        "heads": case.number("h"),
        "hdim": case.number("d"),
        "dtype": DTYPES[case.value("prec")],
        "mask": case.value("mask"),
        "layout": f"{_LAYOUT[case.on('iperm')]}:{_LAYOUT[case.on('operm')]}",
    }
    if case.number("h_k") >= 0:
        flags["kv_heads"] = case.number("h_k")
    if case.number("d_v") >= 0:
        flags["hdim_v"] = case.number("d_v")
    flags |= _length_flags(case, lengths) | _bias_flags(case)
    if case.real("p_drop") > 0:
        flags |= {
            "dropout": case.real("p_drop"),
            "seed": case.number("drop_seed"),
            "offset": case.number("drop_offset"),
        }
    elif case.real("p_drop") < 0:
        flags["dropout"] = case.real("p_drop")
    scale = case.real("scale_s" if case.program is Program.FWD else "scale")
    if scale:
        flags["scale"] = scale
    return flags | (_forward_flags(case) if case.program is Program.FWD else _backward_flags(case))


def _length_flags(case: UpstreamCase, lengths: Lengths) -> dict[str, str | bool | int | float]:
    page, group = case.number("page_block_size"), case.on("mode")
    flags: dict[str, str | bool | int | float] = {}
    if group:
        flags["seqlens_q"] = _join_lengths(lengths.queries)
    else:
        flags |= {"batch": case.number("b"), "seqlen": lengths.queries[0]}
    if page > 0 or lengths.new > 0:
        flags["kv_cache"] = f"{CacheKind.PAGED.value}:{page}" if page > 0 else CacheKind.LINEAR.value
        flags |= {"cache_seqlens": _join_lengths(lengths.cached), "append": lengths.new}
    elif group:
        flags["seqlens_k"] = _join_lengths(lengths.keys)
    else:
        flags["seqlen_k"] = lengths.keys[0]
    if case.number("rotary_dim") > 0:
        style = "interleaved" if case.on("rotary_interleaved") else "half"
        flags["rotary"] = f"{case.number('rotary_dim')}:{style}"
    return flags


def _bias_flags(case: UpstreamCase) -> dict[str, str | bool | int | float]:
    word, _, rank = case.value("bias").partition(":")
    if word in ("e", "elementwise", "1"):
        return {"bias": "elementwise:11ss"}
    if word in ("a", "alibi", "2"):
        return {"alibi_slopes": "filled:bh"} if rank == "1" else {"alibi": True}
    if word in ("n", "0"):
        return {}
    raise ValueError(f"-bias={case.value('bias')}: the program refuses it")


def _forward_flags(case: UpstreamCase) -> dict[str, str | bool | int | float]:
    splits = case.number("num_splits")
    squant = case.value("prec") == "fp8" if case.value("squant") == "auto" else case.on("squant")
    return {
        "direction": "fwd",
        "lse": case.on("lse"),
        "softcap": max(case.real("logits_soft_cap"), 0.0),
        "splits": str(splits) if splits > 0 else "auto",
        "qscale": "tensor" if squant else "none",
    }


def _backward_flags(case: UpstreamCase) -> dict[str, str | bool | int | float]:
    return {"direction": "bwd", "deterministic": case.on("deterministic"), "dbias": case.on("dbias")}


def _join_lengths(values: tuple[int, ...]) -> str:
    return ",".join(str(v) for v in values)
