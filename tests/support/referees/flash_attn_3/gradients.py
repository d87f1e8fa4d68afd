"""Compare the product's backward passes with those of upstream's host code: choice, scratch tensors, every launch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.backends.flash_attn_3.arguments import params_of
from fmha_cli.backends.flash_attn_3.backward_arguments import backward_instance
from fmha_cli.backends.flash_attn_3.backward_sizes import backward_scratch, cleared_by
from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.backends.flash_attn_3.decide import decide
from fmha_cli.backends.flash_attn_3.launches import launch_for
from fmha_cli.backends.flash_attn_3.situation import situation_of
from fmha_cli.backends.gpu.call import Call
from fmha_cli.codegen.flash_attn_3.backward_instance import BackwardInstance
from fmha_cli.codegen.struct import c_fields, host_layout, pack
from fmha_cli.domain.decision import Supported, Unsupported
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.features import Layout
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from tests.support.referees.flash_attn_3.blocks import UNREAD, bound, map_faults
from tests.support.referees.flash_attn_3.calls import NoCall, line_of, tensor
from tests.support.referees.flash_attn_3.choice import UNITS, ask, device_of

GIVEN = {"dout": "do", "q": "q", "k": "k", "v": "v", "out": "o", "dq": "dq", "dk": "dk", "dv": "dv"}
"""Upstream's names of tensors, and the contract's."""
Theirs = dict[str, Any]
OVERFLOWS = {"K691", "K693"}
"""Rules against products that upstream's host code takes and that overflow its ints."""


def draw(rng: Random) -> dict[str, Any]:
    """The flags of a random backward pass of FlashAttention-3's surface."""
    hdim = 8 * rng.randint(1, 33) if rng.random() < 0.5 else rng.choice((64, 96, 128, 192, 256))
    kv_heads = rng.choice((1, 2, 3, 8))
    flags: dict[str, Any] = {
        "dtype": rng.choice(("bf16", "fp16")),
        "direction": "bwd",
        "hdim": hdim,
        "hdim_v": 8 * rng.randint(1, 33) if rng.random() < 0.2 else hdim,
        "kv_heads": kv_heads,
        "heads": kv_heads * rng.choice((1, 1, 2, 4, 7, 16)),
        "softcap": rng.choice((0, 0, 30)),
        "deterministic": rng.random() < 0.4,
    }
    rows, keys, batch = _length(rng), _length(rng), rng.choice((1, 2, 3, 8, 40))
    if rng.random() < 0.4:
        flags["seqlens_q"] = ",".join(str(rng.randint(0, rows)) for _ in range(batch))
        flags["seqlens_k"] = ",".join(str(rng.randint(0, keys)) for _ in range(batch))
    else:
        flags |= {"batch": batch, "seqlen": rows, "seqlen_k": rng.choice((rows, keys))}
    mask = rng.choice(("none", "causal", "window", "window"))
    if mask == "causal":
        flags["causal"] = True
    elif mask == "window":
        ends = [rng.choice((-1, 0, 1, 100, rows - 2, rows - 1, keys - 2, keys - 1, keys)) for _ in range(2)]
        flags["mask"] = f"window:{max(ends[0], -1)},{max(ends[1], -1)}"
    return flags


def _length(rng: Random) -> int:
    return rng.choice((1, rng.randint(1, 16), rng.randint(1, 300), rng.randint(1, 5000), rng.randint(1, 100_000)))


def gradient_line(p: Problem, units: int) -> str:
    """The call of ``mha_bwd`` in the program's input format.

    Raises:
        NoCall: upstream has no such feature.
    """
    rows, keys = (p.batch, p.seqlen_q), (p.batch, p.seqlen_k)
    lse: tuple[int, ...] = (p.batch, p.heads, p.seqlen_q)
    if "cu_seqlens_q" in (line := line_of(p, units)):
        rows, keys = (sum(p.query_lengths()),), (sum(p.key_lengths()),)  # type: ignore[assignment]
        lse = (p.heads, rows[0])
    shapes = {
        "dout": (*rows, p.heads, p.hdim_v),
        "out": (*rows, p.heads, p.hdim_v),
        "dq": (*rows, p.heads, p.hdim),
        "dk": (*keys, p.kv_heads, p.hdim),
        "dv": (*keys, p.kv_heads, p.hdim_v),
    }
    words = {name: tensor(p.dtype.value, (8 + at) << 40, *shape) for at, (name, shape) in enumerate(shapes.items())}
    words |= {"softmax_lse": tensor("fp32", 7 << 40, *lse), "deterministic": str(int(p.deterministic))}
    return " ".join((line, *(f"{name}={value}" for name, value in words.items())))


def gradient_answers(program: Path, seed: int, count: int) -> list[tuple[Problem, int, Theirs]]:
    """Random problems, the multiprocessors of their devices, and upstream's answers."""
    rng = Random(seed)
    drawn: list[tuple[Problem, int, str]] = []
    while len(drawn) < count:
        try:
            problem, units = Problem.of(**draw(rng)), rng.choice(UNITS)
            drawn.append((problem, units, gradient_line(problem, units)))
        except (FmhaError, NoCall):
            continue
    found = ask(program, [line for _, _, line in drawn])
    return [(problem, units, answer) for (problem, units, _), answer in zip(drawn, found, strict=True)]


def check_gradients(found: list[tuple[Problem, int, Theirs]]) -> tuple[int, int, int]:
    """Compare answers; returns how many upstream takes and are equal, over how many kernels, and how many it refuses."""
    faults, kernels, equal, refused = [], set(), 0, 0
    for problem, units, answer in found:
        decisions = list(decide(problem, device_of(units)))
        if answer["refused"]:
            refused += 1
            assert all(isinstance(d, Unsupported) for d in decisions), problem.repro()
        if "hdim" not in answer:
            continue
        kernels.add(listed_gradient(answer))
        if _overflows(decisions):
            continue
        wrong = list(_differences(problem, units, decisions, answer))
        equal += not wrong
        faults += [f"{problem.repro()}: {wrong}"] if wrong else []
    assert not faults, "\n".join(faults[:20])
    return equal, len(kernels), refused


def _overflows(decisions: list[Any]) -> bool:
    """Whether the nearest kernel is refused for such a product alone."""
    if not all(isinstance(d, Unsupported) for d in decisions):
        return False
    return {reason.id for reason in min(decisions, key=lambda d: d.distance).reasons} <= OVERFLOWS


def _differences(problem: Problem, units: int, decisions: list[Any], theirs: Theirs) -> Iterator[str]:
    fitting = [d for d in decisions if isinstance(d, Supported)]
    if not fitting:
        yield f"refused: {min(decisions, key=lambda d: d.distance).reasons}"
        return
    first, taken = min(fitting, key=lambda d: d.rank).kernel, listed_gradient(theirs)
    if first != taken:
        yield f"{first.name} here, {taken.name} there"
        return
    s, i = situation_of(problem, device_of(units)), backward_instance(first)
    if (s.window.left, s.window.right) != (theirs["left"], theirs["right"]):
        yield f"window {s.window} here, {theirs['left']}, {theirs['right']} there"
    made = backward_scratch(s, i)
    ours = [(scratch.nbytes // 4, int(name in cleared_by(i))) for name, scratch in made.items()]
    there = [(count, zero) for _, count, zero in theirs["allocated"]]
    if ours != there:
        yield f"scratch {ours} here, {there} there"


def listed_gradient(theirs: Theirs) -> KernelSpec:
    """The kernel of the catalogue that upstream took."""
    return _by_words()[theirs["dtype"], *words_of_answer(theirs)]


NAMES = (
    *("hdim", "rows", "keys", "causal", "local", "softcap", "varlen", "fixed_order", "gqa", "stages_do", "stages_ds"),
    *("sdp", "dkv", "dq", "groups", "msdp", "ndkv", "mdq", "v_in_regs"),
)


def words_of_answer(theirs: Theirs) -> tuple[int, ...]:
    return tuple(theirs[name] for name in NAMES)


def words_of(i: BackwardInstance) -> tuple[int, ...]:
    """The template arguments that are numbers, without the architecture."""
    flags = (i.causal, i.local, i.softcap, i.a.varlen, i.a.fixed_order, i.a.gqa)
    traits = (*i.a.stages, *i.a.swapped, i.a.groups, *i.a.atoms, i.a.v_in_regs)
    return (i.hdim, *i.a.tile, *map(int, flags), *map(int, traits))


@cache
def _by_words() -> dict[tuple[Any, ...], KernelSpec]:
    every = family_kernels("sm_90a", Family.BWD_DQ_DK_DV)
    return {(kernel.signature.dtype.value, *words_of(backward_instance(kernel))): kernel for kernel in every}


def gradient_call_line(call: Call[Any], units: int) -> str:
    """Upstream's call with the addresses and strides of our tensors."""
    words = dict(word.split("=", 1) for word in gradient_line(call.problem, units).split())
    for name, other in GIVEN.items():
        held, layout = call.tensor(other), call.problem.layout_of(other)
        shape, strides = list(held.shape), list(held.strides)
        if layout is Layout.BHSD:
            shape[-3], shape[-2] = shape[-2], shape[-3]
            strides[-3], strides[-2] = strides[-2], strides[-3]
        lists = ",".join(map(str, shape)), ",".join(map(str, strides))
        words[name] = f"{held.dtype}:{call.address(other)}:{lists[0]}:{lists[1]}"
    words["softmax_lse"] = tensor("fp32", call.address("lse"), *call.tensor("lse").shape)
    for name, place in call.auxiliaries.items():
        kind, _, sizes = words[name].split(":", 2)
        words[name] = f"{kind}:{place}:{sizes}"
    return " ".join(f"{name}={value}" for name, value in words.items())


def gradient_faults(call: Call[Any], theirs: Theirs) -> Iterator[str]:
    """The differences between our launches and upstream's. Its own scratch tensors stand for ours, in the order of allocation."""
    i = backward_instance(call.plan.main)
    names = list(backward_scratch(call.situation, i))
    places = {address: call.address(name) for name, (address, _, _) in zip(names, theirs["allocated"], strict=True)}
    if len(theirs["launches"]) != len(call.plan.stages):
        yield f"{len(call.plan.stages)} launches here, {len(theirs['launches'])} there"
    zero = tuple(name for name, (_, _, zero) in zip(names, theirs["allocated"], strict=True) if zero)
    cleared = tuple(name for stage in call.plan.stages for name in launch_for(stage.kernel, call.situation).cleared)
    if cleared != zero:
        yield f"{cleared} zeroed here, {zero} there"
    for stage, other in zip(call.plan.stages, theirs["launches"], strict=False):
        launch, params = launch_for(stage.kernel, call.situation), params_of(stage, call)
        where = stage.family.value
        mine = {"grid": list(launch.grid), "block": list(launch.block), "shared": launch.shared}
        mine |= {"dependent": launch.dependent, "cluster_dims": [launch.cluster, 1, 1]}
        yield from (
            f"{where} {name}: {value} here, {other[name]} there" for name, value in mine.items() if other[name] != value
        )
        yield from (f"{where} {fault}" for fault in _block_faults(params, other, places))


def _block_faults(params: Any, theirs: Theirs, places: dict[int, int]) -> Iterator[str]:
    block: type = type(params)
    maps = {name: (0,) * 16 for name, _ in c_fields(block) if isinstance(getattr(params, name), TensorMap)}
    raw = bytes(pack(block(**{name: maps.get(name, getattr(params, name)) for name, _ in c_fields(block)})))
    if theirs["bytes"] != len(raw):
        yield f"the block has {len(raw)} bytes here, {theirs['bytes']} there"
    for name, offset, size in host_layout(block):
        if "tma_" in name or name in UNREAD:
            continue
        at, length, text = theirs["fields"][name.replace("__", ".")]
        there = bytes.fromhex(text)
        if size == 8 and int.from_bytes(there, "little") in places:
            there = places[int.from_bytes(there, "little")].to_bytes(8, "little")
        if (at, length) != (offset, size):
            yield f"{name}: at {offset}, {size} bytes here; at {at}, {length} there"
        elif there != raw[offset : offset + size]:
            yield f"{name}: {raw[offset : offset + size].hex()} here, {there.hex()} there"
    yield from map_faults(params, theirs["maps"])


def gradient_calls(rng: Random, kernel: KernelSpec, count: int) -> Iterator[tuple[Call[Any], int]]:
    """Bindings of random problems for which upstream takes the kernel, with the multiprocessors of their devices."""
    i = backward_instance(kernel)
    while count:
        problem, units = Problem.of(**_problem_flags(rng, i)), rng.choice((132, 114, 78))
        s = situation_of(problem, device_of(units))
        if s.launches and s.mask is kernel.signature.mask and s.hdims == (i.hdim, i.hdim):
            count -= 1
            yield bound(problem, kernel, device_of(units), gaps=rng.random() < 0.5), units


def _problem_flags(rng: Random, i: BackwardInstance) -> dict[str, Any]:
    least = {64: 8, 96: 72, 128: 104, 192: 136, 256: 200}[i.hdim]
    hdim = rng.choice((i.hdim, rng.randrange(least, i.hdim + 1, 8)))
    widths = [hdim, hdim if rng.random() < 0.7 else rng.randrange(8, i.hdim + 1, 8)]
    rng.shuffle(widths)
    kv_heads, rows, keys = rng.choice((1, 2, 3, 8)), rng.randint(1, 3000), rng.randint(3, 3000)
    right = rng.randint(0, keys)
    flags: dict[str, Any] = {
        "direction": "bwd",
        "heads": kv_heads * (rng.choice((2, 3, 4, 8)) if i.a.gqa else 1),
        "kv_heads": kv_heads,
        "hdim": widths[0],
        "hdim_v": widths[1],
        "dtype": i.dtype.value,
        "mask": "causal" if i.causal else f"window:{rng.randint(0, keys - 2)},{right}" if i.local else "none",
        "softcap": rng.choice((0.5, 30)) if i.softcap else 0,
        "scale": rng.choice((None, 0.1, 1.7)),
        "layout": rng.choice(("bhsd", "bshd", "bhsd:bshd")),
        "deterministic": i.a.fixed_order,
    }
    batch = rng.choice((1, 2, 5, 40))
    if not i.a.varlen:
        return flags | {"batch": batch, "seqlen": rows, "seqlen_k": keys}
    lengths = [rows, *(rng.randint(0, rows) for _ in range(batch - 1))]
    return flags | {
        "seqlens_q": ",".join(map(str, lengths)),
        "seqlens_k": ",".join(str(rng.randint(0, keys)) for _ in range(batch)),
    }
