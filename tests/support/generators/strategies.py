"""Hypothesis strategies for problems: everything that contract section 1 can express, as command lines."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import Bias
from fmha_cli.domain.mask import SPELLINGS
from fmha_cli.domain.problem import Problem

sizes = st.integers(1, 300)
window = st.tuples(st.integers(-2, 60), st.integers(-2, 60))


@st.composite
def masks(draw: st.DrawFn) -> list[str]:
    spelling = draw(st.sampled_from([*SPELLINGS, "b:L,R", "t:L,R", "xb:W", "xt:W"]))
    numbers = iter(draw(window))
    sink = draw(st.integers(0, 9)) if "L,R" in spelling else 0
    text = re.sub("[A-Z]", lambda _: str(next(numbers)), spelling)
    return ["--mask", text, *(["--sink", str(sink)] if sink else [])]


@st.composite
def lengths(draw: st.DrawFn) -> list[str]:
    form = draw(st.sampled_from(["batch", "group", "linear", "paged", "append"]))
    if form == "group":
        rows = draw(st.lists(st.integers(0, 90), min_size=1, max_size=5))
        keys = draw(st.none() | st.lists(st.integers(0, 90), min_size=len(rows), max_size=len(rows)))
        text = ["--seqlens-q", ",".join(map(str, rows))]
        return text + (["--seqlens-k", ",".join(map(str, keys))] if keys else [])
    batch = draw(st.integers(1, 5))
    out = ["-b", str(batch), "-s", str(draw(sizes))]
    if form == "batch":
        return out + (["--seqlen-k", str(draw(st.integers(0, 300)))] if draw(st.booleans()) else [])
    out += ["--kv-cache", f"paged:{draw(st.sampled_from([1, 16, 64]))}" if form != "linear" else "linear"]
    held = draw(st.lists(st.integers(0, 200), min_size=batch, max_size=batch))
    out += ["--cache-seqlens", ",".join(map(str, held))]
    out += ["--kv-dtype", draw(st.sampled_from(["same", "int8", "fp8_e4m3", "fp8_e5m2"]))]
    if form == "linear" and draw(st.booleans()):
        padding = draw(st.lists(st.integers(0, 20), min_size=batch, max_size=batch))
        out += ["--cache-leftpad", ",".join(map(str, padding))]
    if form == "append":
        out += ["--append", str(draw(st.integers(1, 9)))]
        turned = draw(st.sampled_from([[], ["--rotary", "8"], ["--rotary", "8:interleaved"]]))
        base = ["--rotary-base", str(draw(st.sampled_from([500000, 1e-3, 10000])))]
        tables = ["--rotary-cos", "filled", "--rotary-sin", "filled"]
        out += turned + (draw(st.sampled_from([[], base, tables])) if turned else [])
    if "linear" in out and draw(st.booleans()):
        items = st.lists(st.integers(0, 2 * batch), min_size=batch, max_size=batch, unique=True)
        out += ["--cache-batch-idx", ",".join(map(str, draw(items)))]
    return out


@st.composite
def problem_lines(draw: st.DrawFn) -> list[str]:
    """Argument lists of possible problems, most of which no kernel supports."""
    kv_heads = draw(st.integers(1, 4))
    out = ["-H", str(kv_heads * draw(st.integers(1, 4))), "--kv-heads", str(kv_heads)]
    hdim = draw(st.integers(8, 300))
    inside = ["--mla-rope", str(draw(st.integers(1, hdim - 1)))] if draw(st.integers(0, 7)) == 0 else None
    out += ["-d", str(hdim), *(inside or ["--hdim-v", str(draw(st.integers(1, 300)))])]
    out += ["--dtype", draw(st.sampled_from(["fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e4m3:bf16", "fp8_e5m2:fp32"]))]
    out += ["--fp8-encoding", draw(st.sampled_from(["ocp", "fnuz"]))]
    out += ["--qscale", draw(st.sampled_from(["none", "tensor", "head", "block", "kv-block"]))]
    out += draw(masks()) + draw(lengths())
    bias = [["--bias", f"elementwise:{rank.value}"] for rank in Bias if rank is not Bias.NONE]
    slopes = ["--alibi"], ["--alibi-slopes", "filled:h"], ["--alibi-slopes", "filled:bh"]
    out += draw(st.sampled_from([[], *bias, *slopes]))
    if draw(st.booleans()):
        out += ["--dropout", str(draw(st.floats(0, 0.9))), "--seed", str(draw(st.integers(0, 2**64 - 1)))]
    out += ["--softcap", str(draw(st.sampled_from([0, 0.5, 30])))]
    out += ["--layout", draw(st.sampled_from(["bhsd", "bshd", "bhsd:bshd", "bshd:bhsd"]))]
    out += ["--splits", draw(st.sampled_from(["auto", "1", "4"]))]
    out += ["--scale", str(draw(st.floats(0.001, 2)))] if draw(st.booleans()) else []
    out += ["--lse"] if draw(st.booleans()) else []
    out += ["--sink-logits", "filled"] if draw(st.booleans()) else []
    return out


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Possible problems; contradictory draws are repeated."""
    line = draw(problem_lines())
    try:
        return Problem.from_cli(line)
    except ImpossibleProblem:
        return Problem.from_cli(line[:4])
