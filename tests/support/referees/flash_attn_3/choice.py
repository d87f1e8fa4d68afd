"""Compare the product's choice with that of upstream's host code, over random problems."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation, situation_of
from fmha_cli.codegen.flash_attn_3.instance import ForwardInstance, forward_instance
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import MaskKey
from tests.support.referees.flash_attn_3.calls import NoCall, line_of

UNITS = (132, 114, 78, 16)
DTYPES = ("bf16", "fp16", "fp8_e4m3:bf16")


def draw(rng: Random) -> dict[str, Any]:
    """The flags of a random problem of FlashAttention-3's surface."""
    dtype = rng.choice(DTYPES)
    step = 16 if dtype.startswith("fp8") else 8
    hdim = step * rng.randint(1, 256 // step) if rng.random() < 0.5 else rng.choice((64, 96, 128, 192, 256))
    hdim_v = hdim
    if rng.random() < 0.25:
        wide = range(step, 65 if step == 16 else 513, step)
        hdim_v = rng.choice(wide) if hdim <= 64 else rng.choice((104, 112, 128)) if 128 < hdim <= 192 else hdim
        hdim_v -= hdim_v % step
    latent = {}
    if rng.random() < 0.15:  # V inside K; some of these upstream refuses
        dtype = rng.choice(DTYPES[:2])
        latent = {"mla_rope": rng.choice((*(64,) * 9, 32, 8, 72))}
        hdim = latent["mla_rope"] + rng.choice((512, 512, 256, rng.randrange(240, 521, 8)))
    kv_heads = rng.choice((1, 2, 3, 4, 8))
    flags: dict[str, Any] = {
        "dtype": dtype,
        "hdim": hdim,
        **(latent or {"hdim_v": hdim_v}),
        "kv_heads": kv_heads,
        "heads": kv_heads * rng.choice((1, 1, 2, 4, 7, 8, 16)),
        "softcap": rng.choice((0, 0, 0, 30)),
    }
    length = _length(rng)
    keys = rng.choice((length, _length(rng), 64 * _length(rng)))
    batch = rng.choice((1, 1, 2, 3, 8, 40))
    way = rng.choice(("dense", "dense", "packed", "linear", "paged", "paged"))
    if way == "packed":
        count = min(batch, 8)
        flags["seqlens_q"] = ",".join(str(rng.randint(1, length)) for _ in range(count))
        flags["seqlens_k"] = ",".join(str(rng.randint(1, keys)) for _ in range(count))
    else:
        flags |= {"batch": batch, "seqlen": length}
        if way == "dense":
            flags["seqlen_k"] = keys
        else:
            page = rng.choice((1, 16, 64, 96, 112, 128, 144, 160, 176, 192, 256, 384, 512, 1024))
            flags["kv_cache"] = "linear" if way == "linear" else f"paged:{page}"
            flags["cache_seqlens"] = ",".join(str(rng.randint(1, keys)) for _ in range(batch))
            if way == "linear" and rng.random() < 0.2:
                flags["cache_leftpad"] = ",".join(str(rng.randint(0, 9)) for _ in range(batch))
            if rng.random() < 0.2:
                flags["append"] = rng.randint(1, 9)
    mask = rng.choice(("none", "causal", "window", "window"))
    if mask == "causal":
        flags["causal"] = True
    elif mask == "window":
        ends = [rng.choice((-1, 0, 1, 100, length - 2, length - 1, keys - 2, keys - 1, keys)) for _ in range(2)]
        flags["mask"] = f"window:{max(ends[0], -1)},{max(ends[1], -1)}"
    if rng.random() < 0.2:
        flags["splits"] = rng.choice((1, 2, 3, 8, 17, 40, 130))
    return flags


def _length(rng: Random) -> int:
    return rng.choice((1, 1, rng.randint(1, 16), rng.randint(1, 300), rng.randint(1, 5000)))


def problems(rng: Random, count: int) -> Iterator[Problem]:
    """Random problems that upstream's interface can express."""
    while count:
        try:
            problem = Problem.of(**draw(rng))
            line_of(problem, 1)
        except (FmhaError, NoCall):
            continue
        count -= 1
        yield problem


def device_of(units: int) -> DeviceFacts:
    from dataclasses import replace

    return replace(DeviceFacts.of_arch("sm_90a"), id="cuda:0", units=units)


def ask(program: Path, lines: Sequence[str]) -> list[dict[str, Any]]:
    """The program's answers to some calls."""
    done = subprocess.run(
        [program], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=600, check=True
    )
    return [json.loads(text) for text in done.stdout.splitlines()]


def ours(s: Fa3Situation) -> dict[str, Any]:
    """The product's choice in the program's words."""
    p, mask = s.problem, s.window.mask
    assert s.hdims is not None
    assert s.tile is not None
    return {
        "dtype": p.dtype.value,
        "hdim": s.hdims[0],
        "hdim_v": s.hdims[1],
        "cluster": s.cluster,
        "causal": int(mask is MaskKey.CAUSAL),
        "local": int(mask is MaskKey.WINDOW),
        "softcap": int(p.softcap > 0),
        "varlen": int(s.varlen),
        "paged": int(s.paged),
        "append": int(p.append > 0),
        "qv": int(s.qv),
        "pack": int(s.pack_gqa),
        "split": int(s.split),
        "rows": s.tile.rows,
        "keys": s.tile.keys,
        "in_regs": int(s.tile.p_in_regs),
        "overlap": int(s.tile.overlap),
        "num_splits": s.splits.count,
        "left": s.window.left,
        "right": s.window.right,
        "tma": int(s.paged_tma),
        "semaphore": int(s.varlen or (mask is not MaskKey.NONE and not s.split)),
        "dynamic": int(s.varlen),
    }


def differences(problem: Problem, units: int, theirs: dict[str, Any]) -> list[str]:
    """What differs between the product's choice and upstream's answer; empty where they agree or upstream refuses."""
    mine = ours(situation_of(problem, device_of(units)))
    return [
        f"{name}: {value} here, {theirs.get(name)} there" for name, value in mine.items() if theirs.get(name) != value
    ]


def listed(theirs: dict[str, Any]) -> KernelSpec | None:
    """The kernel of the catalogue that upstream took."""
    return _by_choice().get(tuple(theirs[name] for name in _KEY))


_KEY = (
    "dtype",
    "hdim",
    "hdim_v",
    "cluster",
    "causal",
    "local",
    "softcap",
    "varlen",
    "paged",
    "append",
    "qv",
    "pack",
    "split",
)
_found: dict[tuple[Any, ...], KernelSpec] = {}


def _by_choice() -> dict[tuple[Any, ...], KernelSpec]:
    if not _found:
        for family in (Family.FWD, Family.FWD_SPLITKV):
            for kernel in family_kernels("sm_90a", family):
                _found[_words(forward_instance(kernel))] = kernel
    return _found


def _words(i: ForwardInstance) -> tuple[Any, ...]:
    flags = (i.causal, i.local, i.softcap, i.a.varlen, i.a.paged, i.append, i.a.qv, i.a.pack_gqa, i.split)
    return (i.dtype.value, i.hdim, i.hdim_v, i.a.cluster, *map(int, flags))


Answers = list[tuple[Problem, int, dict[str, Any]]]
"""Problems, the multiprocessors of their devices, and upstream's answers."""


def answers(program: Path, seed: int, count: int) -> Answers:
    rng = Random(seed)
    drawn = [(problem, rng.choice(UNITS)) for problem in problems(rng, count)]
    found = ask(program, [line_of(problem, units) for problem, units in drawn])
    return [(problem, units, answer) for (problem, units), answer in zip(drawn, found, strict=True)]


def check(found: Answers) -> tuple[int, int]:
    """Compare the answers; returns how many are equal, and over how many kernels."""
    faults, kernels, equal = [], set(), 0
    for problem, units, answer in found:
        if "hdim" not in answer:
            continue
        kernels.add(listed(answer))
        wrong = differences(problem, units, answer)
        equal += not wrong
        faults += [f"{units} multiprocessors: {problem.repro()}: {wrong}"] if wrong else []
    assert not faults, "\n".join(faults[:20])
    assert None not in kernels
    return equal, len(kernels)
