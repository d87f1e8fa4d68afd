"""Compare the product's launch of an instance with upstream's: every field of the block, descriptors, grid, shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.backends.flash_attn_3.arguments import auxiliaries_of, params_of
from fmha_cli.backends.flash_attn_3.launches import launch_for
from fmha_cli.backends.flash_attn_3.plan import plan_of
from fmha_cli.backends.flash_attn_3.situation import situation_of
from fmha_cli.backends.gpu.call import Call
from fmha_cli.codegen.flash_attn_3.instance import ForwardInstance, PrepareInstance, forward_instance, instance_of
from fmha_cli.codegen.struct import c_fields, ctypes_structure, host_layout, pack
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Layout
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.run.layout import layout_of
from tests.support.referees.flash_attn_3.calls import line_of, tensor
from tests.support.referees.flash_attn_3.choice import device_of

ARENA = 1 << 44
PREPARED = ("num_splits_dynamic", "num_m_blocks", "varlen_batch_idx", "num_nheads_in_l2")
OWN_MEMORY = (
    *("epilogue__ptr_LSE", "epilogue__ptr_O_partial", "epilogue__ptr_LSE_partial", "scheduler__tile_count_semaphore"),
    *("ptr_LSE", "ptr_O_partial", "ptr_LSE_partial", "semaphore_to_reset"),
    *(f"scheduler__{name}_ptr" for name in PREPARED),
    *(f"{name}_ptr" for name in PREPARED),
    *("tile_count_semaphore", *PREPARED),
)
"""Fields that point to memory that upstream allocates itself: only whether they are null is compared."""
UNREAD = ("hw_info",)
"""The device number and what CUTLASS keeps beside it, which no kernel reads."""
_TYPES = {"UINT8": 0, "FLOAT16": 6, "BFLOAT16": 9}
_SWIZZLES = {"NONE": 0, "32B": 1, "64B": 2, "128B": 3}
_PROMOTIONS = {"NONE": 0, "L2_64B": 1, "L2_128B": 2, "L2_256B": 3}
MAPS = (
    *(f"mainloop__tma_load_{name}" for name in ("Q", "dO", "K", "V", "K_new", "V_new", "Qv")),
    *(f"epilogue__tma_store_{name}" for name in ("O", "dK", "dV")),
)
"""The descriptors in the order in which upstream makes them."""


def bound(problem: Problem, kernel: KernelSpec, device: DeviceFacts, *, gaps: bool) -> Call[Any]:
    """A binding of the plan around a kernel in an arena at ``ARENA``. LSE has no gaps: upstream's host code makes it."""
    plan = plan_of(problem, kernel, device)
    arena = layout_of(problem, plan.workspaces, gaps=gaps)
    tensors = dict(arena.tensors)
    if "lse" in tensors:
        plain = layout_of(problem, plan.workspaces).slot("lse").tensor
        tensors["lse"] = replace(tensors["lse"], strides=plain.strides)
    situation = situation_of(problem, device)
    places = {name: (1 << 45) + (at << 20) for at, name in enumerate(auxiliaries_of(situation))}
    return Call(plan, situation, tensors, ARENA, places)


def call_line(call: Call[Any], units: int) -> str:
    """Upstream's call with the addresses and strides of our tensors."""
    words = dict(word.split("=", 1) for word in line_of(call.problem, units).split())
    for name, other in {"q": "q", "k": "k", "v": "v", "out": "o", "k_new": "k_new", "v_new": "v_new"}.items():
        if name in words or name == "out":
            words[name] = _rows_word(call, other)
    if call.problem.mla_rope:
        words |= _latent_words(call, words)
    for name in ("q_descale", "k_descale", "v_descale"):
        if name in call.tensors:
            words[name] = tensor("fp32", call.address(name), *call.tensor(name).shape)
    for name, place in call.auxiliaries.items():
        kind, _, sizes = words[name].split(":", 2)
        words[name] = f"{kind}:{place}:{sizes}"
    if call.problem.paged:
        words["page_table"] = tensor("int32", call.address("block_table"), *call.tensor("block_table").shape)
    return " ".join(f"{name}={value}" for name, value in words.items())


def _rows_word(call: Call[Any], name: str) -> str:
    """A tensor of rows in the program's input format, with axes in upstream's order. V inside K is K."""
    held, layout = call.tensors.get(name), call.problem.layout_of(name)
    if held is None:
        return _rows_word(call, name.replace("v", "k"))
    shape, strides = list(held.shape), list(held.strides)
    if layout is Layout.BHSD and not (call.problem.paged and name in "kv"):
        shape[-3], shape[-2] = shape[-2], shape[-3]
        strides[-3], strides[-2] = strides[-2], strides[-3]
    return f"{held.dtype}:{call.address(name)}:{','.join(map(str, shape))}:{','.join(map(str, strides))}"


def _latent_words(call: Call[Any], words: dict[str, str]) -> dict[str, str]:
    """Upstream's operands where V is K's first columns: ``q[..., hdim_v:]``, ``q_v = q[..., :hdim_v]`` and so on."""
    p = call.problem
    out = {}
    for name, first, columns in (
        *((name, p.hdim_v, p.mla_rope) for name in ("q", "k", "k_new")),
        *((name, 0, p.hdim_v) for name in ("q_v", "v", "v_new")),
    ):
        if name in words:
            kind, address, sizes, strides = words["q" if name == "q_v" else name].split(":")
            sizes = f"{sizes.rpartition(',')[0]},{columns}"
            out[name] = f"{kind}:{int(address) + 2 * first}:{sizes}:{strides}"
    return out


def prepare_faults(call: Call[Any], theirs: dict[str, Any]) -> Iterator[str]:
    """The differences between our launch of prepare and upstream's, which lists two template arguments, grid, threads, parameters."""
    stage = call.plan.stages[0]
    params, launch, i = params_of(stage, call), launch_for(stage.kernel, call.situation), instance_of(stage.kernel)
    assert isinstance(i, PrepareInstance)
    names = ["NumWarps", "Sort", "grid", "block", *(name for name, _ in c_fields(type(params)))]
    values = [getattr(params, name) for name in names[4:]]
    mine = [i.warps, i.a.sort, launch.grid[0], launch.block[0], *(v[0] if isinstance(v, tuple) else v for v in values)]
    if len(theirs["prepare"]) != len(mine):
        yield f"{len(mine)} numbers here, {len(theirs['prepare'])} there"
    for name, ours, other in zip(names, mine, theirs["prepare"], strict=False):
        if (bool(ours), bool(other)) != (True, True) if name in OWN_MEMORY and (ours or other) else ours != other:
            yield f"{name}: {ours} here, {other} there"


def faults(call: Call[Any], theirs: dict[str, Any], stage: int = 0) -> Iterator[str]:
    """The differences between our launch of a stage and upstream's."""
    params = params_of(call.plan.stages[stage], call)
    launch = launch_for(call.plan.stages[stage].kernel, call.situation)
    block: type = type(params)
    for name, mine in (
        ("grid", list(launch.grid)),
        ("block", list(launch.block)),
        ("shared", launch.shared),
        ("dependent", launch.dependent),
    ):
        if theirs[name] != mine:
            yield f"{name}: {mine} here, {theirs[name]} there"
    if theirs["cluster_dims"] != [launch.cluster, 1, 1]:
        yield f"cluster: {launch.cluster} here, {theirs['cluster_dims']} there"
    empty = {name: (0,) * 16 for name, _ in c_fields(block) if isinstance(getattr(params, name), TensorMap)}
    raw = bytes(pack(type(params)(**{name: empty.get(name, getattr(params, name)) for name, _ in c_fields(block)})))
    if theirs["bytes"] != len(bytes(ctypes_structure(block)())):
        yield f"the block has {len(raw)} bytes here, {theirs['bytes']} there"
    for name, offset, size in host_layout(block):
        if "tma_" not in name and name not in UNREAD:
            at, length, text = theirs["fields"][name.replace("__", ".")]
            mine_hex = raw[offset : offset + size].hex()
            if (at, length) != (offset, size):
                yield f"{name}: at {offset}, {size} bytes here; at {at}, {length} there"
            elif name in OWN_MEMORY:
                if (int(text, 16) == 0) != (int(mine_hex, 16) == 0):
                    yield f"{name}: null on one side"
            elif text != mine_hex:
                yield f"{name}: {mine_hex} here, {text} there"
    yield from map_faults(params, theirs["maps"])


def map_faults(params: object, theirs: list[dict[str, Any]]) -> Iterator[str]:
    names = [name for name in MAPS if isinstance(getattr(params, name, None), TensorMap)]
    if len(names) != len(theirs):
        yield f"{len(names)} descriptors here, {len(theirs)} there"
    for name, map in zip(names, theirs, strict=False):
        mine = _words(getattr(params, name))
        yield from (f"{name}.{word}: {mine[word]} here, {map[word]} there" for word in mine if mine[word] != map[word])


def _words(m: TensorMap) -> dict[str, Any]:
    return {
        "type": _TYPES[m.element],
        "address": m.address,
        "shape": list(m.shape),
        "strides": list(m.strides),
        "box": list(m.box),
        "steps": [1] * len(m.shape),
        "interleave": 0,
        "swizzle": _SWIZZLES[m.swizzle],
        "promotion": _PROMOTIONS[m.promotion],
        "fill": 0,
    }


def dense_problem(rng: Random, i: ForwardInstance) -> Problem:
    """A random dense problem that an instance may serve: its head dims, type, mask and softcap, any sizes and layouts."""
    return Problem.of(**_flags(rng, i))


def varlen_problem(rng: Random, i: ForwardInstance) -> Problem:
    """A random problem of packed sequences or with a cache that an instance may serve."""
    flags = _flags(rng, i)
    rows, keys, batch = flags.pop("seqlen"), flags.pop("seqlen_k"), rng.choice((1, 2, 5, 31, 32, 70, 1000))
    flags |= {"batch": batch, "splits": min(flags["splits"], 255)}
    lengths = [rng.randint(1, keys) for _ in range(batch)]
    way = "paged" if i.a.paged else "linear" if i.append else rng.choice(("packed", "packed", "linear", "paged"))
    if i.append:
        flags["append"] = rng.randint(1, 40)
        turns = i.element_bytes == 2 and not i.a.qv and flags["hdim"] >= 16
        if turns and (i.causal or i.local) and rng.random() < 0.5:
            rows = flags["append"]
            flags["rotary"] = rng.choice((16, 32)) if flags["hdim"] >= 32 else 16
    if way == "packed":
        del flags["batch"]
        flags["seqlens_q"] = ",".join(map(str, [rows, *(rng.randint(0, rows) for _ in range(batch - 1))]))
        flags["seqlens_k"] = ",".join(map(str, lengths))
        return Problem.of(**flags)
    flags |= {"seqlen": rows, "cache_seqlens": ",".join(map(str, lengths))}
    if way == "paged":
        step = i.a.tile[1]
        flags["kv_cache"] = f"paged:{rng.choice((1, 16, 64, 100, 128)) if i.a.paged else step * rng.choice((1, 2))}"
        return Problem.of(**flags)
    flags["kv_cache"] = "linear"
    if rng.random() < 0.3:
        flags["cache_leftpad"] = ",".join(str(rng.randint(0, 9)) for _ in range(batch))
    if rng.random() < 0.3:
        flags["cache_batch_idx"] = ",".join(map(str, rng.sample(range(batch), batch)))
    return Problem.of(**flags)


def _flags(rng: Random, i: ForwardInstance) -> dict[str, Any]:
    fp8 = i.element_bytes == 1
    step = 16 if fp8 else 8
    hdim = rng.randrange(_narrowest(i.hdim, step), i.hdim + 1, step) if rng.random() < 0.5 else i.hdim
    hdim_v = hdim
    if i.a.qv:
        rope = rng.choice((64, 64, rng.randrange(8, 65, 8)))
        held = i.hdim_v if rng.random() < 0.7 else rng.randrange({256: 256, 512: 264}[i.hdim_v], i.hdim_v + 1, 8)
        hdim, hdim_v = rope + held, held
    elif i.hdim != i.hdim_v:
        hdim_v = rng.randrange(_up({256: 65, 512: 257, 128: 97}[i.hdim_v], step), i.hdim_v + 1, step)
    kv_heads = rng.choice((1, 2, 3, 8))
    rows, keys = rng.randint(1, 3000), rng.choice((rng.randint(1, 3000), rng.randint(1, 60000)))
    keys = max(keys, 3)
    mask = "none"
    if i.causal:
        mask = "causal"
    elif i.local:
        right = rng.randint(0, rows - 2) if rows > 1 else 0
        mask = f"window:{rng.randint(0, keys - 2)},{right}"
    return {
        "batch": rng.choice((1, 2, 5)),
        "heads": kv_heads * (rng.choice((2, 3, 4, 8)) if i.a.pack_gqa and not i.split else rng.choice((1, 1, 2, 4))),
        "kv_heads": kv_heads,
        "seqlen": rows,
        "seqlen_k": keys,
        "hdim": hdim,
        **({"mla_rope": hdim - hdim_v} if i.a.qv else {"hdim_v": hdim_v}),
        "dtype": "fp8_e4m3:bf16" if fp8 else i.dtype.value,
        "qscale": rng.choice(("none", "head")) if fp8 else "none",
        "mask": mask,
        "softcap": rng.choice((0.5, 30)) if i.softcap else 0,
        "scale": rng.choice((None, 0.1, 1.7)),
        "layout": rng.choice(("bhsd", "bshd", "bhsd:bshd")),
        "lse": rng.random() < 0.5,
        "splits": rng.choice((2, 3, 8, 17, 40, 100, 256)) if i.split else 1,
    }


def _narrowest(hdim: int, step: int) -> int:
    """The smallest head dim that takes kernels for ``hdim``."""
    return _up({64: 8, 96: 65, 128: 97, 192: 129, 256: 193}[hdim], step)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def serves(problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> bool:
    """Whether upstream takes this kernel for the problem, by our own choice."""
    s, i = situation_of(problem, device), forward_instance(kernel)
    same = s.pack_gqa == i.a.pack_gqa and s.cluster == i.a.cluster and s.split == i.split
    alike = (s.varlen, s.paged) == (i.a.varlen, i.a.paged)
    refused = problem.append > 0 and s.seqlen_q > s.seqlen_k  # K684
    alike = alike and s.qv == i.a.qv
    return same and alike and not refused and s.mask is kernel.signature.mask and s.hdims == (i.hdim, i.hdim_v)


def dense_calls(rng: Random, kernel: KernelSpec, count: int) -> Iterator[tuple[Call[Any], int]]:
    """Bindings of random problems that the kernel serves, with the multiprocessors of their devices."""
    while count:
        units = rng.choice((132, 114, 78))
        i = forward_instance(kernel)
        device, problem = device_of(units), (varlen_problem if i.a.varlen else dense_problem)(rng, i)
        if serves(problem, kernel, device):
            count -= 1
            yield bound(problem, kernel, device, gaps=rng.random() < 0.5), units
