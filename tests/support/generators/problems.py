"""Seeded random problems: some that the CPU backend supports, some that it refuses.

Problem ``n`` of each kind depends only on ``n``, so its number is enough to repeat a failure.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from fmha_cli.backends.cpu.rules import group_rows
from fmha_cli.codegen.cpu.emit import DECODE_ROWS
from fmha_cli.domain.problem import Problem

Flags = dict[str, str | None]
"""Flag with dashes -> its text; None for a switch."""

MOST = 1.2e6
"""Scores (rows x keys x heads) of nearly all problems: the reference takes about 15 ms."""

RARE_MOST = 5e6
"""The maximum of scores for the few larger problems."""

BACKWARD_PASSES = 3
"""The reference of a backward pass takes about as long as so many of forward passes."""

_RARE = 0.03
_LONG = 0.06
"""The share of head dims above 256."""
_IN_K = 0.08
"""The share of problems whose V is in K."""


@dataclass(frozen=True)
class Refused:
    """A problem that no CPU kernel supports: ``kind`` describes the reason, and one of ``rules`` must be reported."""

    kind: str
    rules: tuple[str, ...]
    problem: Problem


def supported(n: int) -> Problem:
    """Supported problem ``n``."""
    rng = random.Random(f"supported problem {n}")
    most = RARE_MOST if rng.random() < _RARE else MOST
    while True:
        problem = _split(rng, Problem.from_cli(words_of(_flags(rng))))
        passes = BACKWARD_PASSES if problem.direction.backward else 1
        if passes * problem.heads * (problem.dense_pairs() + sum(problem.key_lengths())) <= most:
            return problem


def refused(n: int) -> Refused:
    """Refused problem ``n``. The kind of refusal cycles with ``n``."""
    rng = random.Random(f"refused problem {n}")
    kind, (rules, spoil) = list(REFUSALS.items())[n % len(REFUSALS)]
    flags = _sizes(rng) | {"--dtype": _dtype(rng)}
    flags |= {"-b": str(rng.randint(1, 3)), "-s": str(_size(rng, 20, 300)), "--mask": _mask(rng)}
    flags |= {"--lse": None} if rng.random() < 0.3 else {}
    spoiled = spoil(rng)
    if "--seqlens-q" in spoiled:
        flags = {flag: value for flag, value in flags.items() if flag not in ("-b", "-s")}
    return Refused(kind, tuple(rules.split()), Problem.from_cli(words_of(flags | spoiled)))


def _split(rng: random.Random, problem: Problem) -> Problem:
    """Give some problems a number of splits; it exceeds 1 only where few rows share each key."""
    if rng.random() > 0.2 or not problem.direction.forward:
        return problem
    few = group_rows(problem) <= DECODE_ROWS and not problem.dtype.is_fp8
    return replace(problem, splits=rng.randint(1, 9) if few else 1)


def words_of(flags: Flags) -> list[str]:
    """The flags as an argument list."""
    return [word for flag, value in flags.items() for word in ([flag] if value is None else [flag, value])]


def _flags(rng: random.Random) -> Flags:
    flags: Flags = {"--dtype": _dtype(rng)} | _sizes(rng) | _lengths(rng)
    flags |= _narrow(rng, flags)
    if rng.random() < 0.75:
        flags |= {"--causal": None} if rng.random() < 0.15 else {"--mask": _mask(rng)}
    if rng.random() < 0.25:
        flags["--sink"] = str(rng.choice([1, 2, 4, 7, 33]))
        if (flags.get("--mask") or "").count(",") == 2:  # the third number is the sink
            del flags["--sink"]
    flags |= _bias(rng) | _dropout(rng) | _layout(rng) | _scale(rng)
    if rng.random() < 0.2:
        flags["--softcap"] = rng.choice(["0.5", "5", "20", "30", "50", f"{rng.uniform(0.1, 80):.3f}"])
    flags |= {"--sink-logits": "filled"} if rng.random() < 0.15 else {}
    flags |= {"--lse": None} if rng.random() < 0.5 else {}
    if (flags["--dtype"] or "").startswith("fp8_e5m2") and "elementwise" in (flags.get("--bias") or ""):
        del flags["--bias"]  # K104
    flags |= _backward(rng, flags) | _rotated(rng, flags)
    flags |= {"--deterministic": None} if rng.random() < 0.03 else {}
    return flags


def _backward(rng: random.Random, flags: Flags) -> Flags:
    """A backward pass, alone or after its forward pass, for every third problem that can have one."""
    if "--kv-cache" in flags or (flags["--dtype"] or "").startswith("fp8") or rng.random() > 0.33:
        return {}
    biased = (flags.get("--bias") or "").startswith("elementwise")
    direction = rng.choice(["bwd", "bwd", "fwd+bwd"])
    return {"--direction": direction} | ({"--dbias": None} if biased and rng.random() < 0.8 else {})


def _dtype(rng: random.Random) -> str:
    return rng.choice(["fp32", "fp16", "bf16"])


def _narrow(rng: random.Random, flags: Flags) -> Flags:
    """fp8 inputs, or a cache with its own type, each with scales or without."""
    scales = {"--qscale": rng.choice(["none", "tensor", "tensor", "head", "block", "kv-block"])}
    encoding = {"--fp8-encoding": "fnuz"} if rng.random() < 0.4 else {}
    if "--kv-cache" in flags and rng.random() < 0.4:
        return {"--kv-dtype": rng.choice(["int8", "fp8_e4m3", "fp8_e5m2"])} | encoding | scales
    if "--append" in flags or rng.random() > 0.15:
        return {}
    dtype = f"{rng.choice(['fp8_e4m3', 'fp8_e5m2'])}:{rng.choice(['bf16', 'bf16', 'fp16', 'fp32'])}"
    return {"--dtype": dtype} | encoding | scales


def _size(rng: random.Random, low: int, high: int) -> int:
    """A size with a uniformly distributed logarithm; sizes next to tile multiples are frequent."""
    size = round(math.exp(rng.uniform(math.log(low), math.log(high))))
    if rng.random() < 0.25:
        size = rng.choice([8, 16, 24, 32, 48, 64, 96, 128, 192, 256]) + rng.randint(-1, 1)
    return min(max(size, low), high)


def _hdim(rng: random.Random) -> int:
    common = (8, 16, 32, 40, 48, 64, 72, 80, 96, 112, 128, 160, 192, 256)
    if rng.random() < _LONG:
        return rng.choice([320, 512, 576, rng.randint(257, 576)])
    return rng.choice(common) if rng.random() < 0.6 else rng.randint(1, 256)


def _sizes(rng: random.Random) -> Flags:
    kv_heads = rng.choice([1, 1, 1, 2, 2, 3, 4])
    ratio = rng.choice([1, 1, 1, 2, 2, 3, 4, 5, 8])
    hdim = _hdim(rng)
    flags: Flags = {"-H": str(kv_heads * ratio), "--kv-heads": str(kv_heads), "-d": str(hdim)}
    if hdim > 1 and rng.random() < _IN_K:
        return flags | {"--mla-rope": str(rng.choice([n for n in (8, 16, 64) if n < hdim] or [1]))}
    return flags | ({"--hdim-v": str(_hdim(rng))} if rng.random() < 0.3 else {})


def _lengths(rng: random.Random) -> Flags:
    form = rng.choices(("square", "oblong", "decode", "group", "cache"), (20, 25, 20, 20, 30))[0]
    batch: Flags = {"-b": str(rng.choice([1, 1, 1, 2, 2, 3, 5]))}
    if form == "group":
        return _packed(rng)
    if form == "cache":
        return _cached(rng)
    low = rng.choice([1, 17, 60])
    if form == "square":
        return batch | {"-s": str(_size(rng, low, 300))}
    if form == "oblong":
        keys = 0 if rng.random() < 0.04 else _size(rng, 1, 300)
        return batch | {"-s": str(_size(rng, low, 300)), "--seqlen-k": str(keys)}
    return batch | {"-s": str(rng.choice([1, 1, 1, 2, 3, 4, 7, 16])), "--seqlen-k": str(_size(rng, 1, 1500))}


def _packed(rng: random.Random) -> Flags:
    """Packed sequences; either side may have empty ones, and there are few queries (16) or many."""
    count = rng.randint(1, 6)

    def lengths(low: int, high: int) -> str:
        return ",".join("0" if rng.random() < 0.12 else str(_size(rng, low, high)) for _ in range(count))

    flags: Flags = {"--seqlens-q": lengths(*rng.choice([(1, 16), (1, 200), (17, 200)]))}
    return flags | ({"--seqlens-k": lengths(1, rng.choice([200, 500]))} if rng.random() < 0.7 else {})


def _cached(rng: random.Random) -> Flags:
    """A linear or paged cache of unequal lengths, for a batch or for packed queries; keys may be appended, and rotated."""
    paged, batch = rng.random() < 0.5, rng.randint(1, 4)
    held = ["0" if rng.random() < 0.06 else str(_size(rng, 1, rng.choice([60, 1000]))) for _ in range(batch)]
    cache = f"paged:{rng.choice([1, 3, 16, 16, 64, 128, 300])}" if paged else "linear"
    flags: Flags = {"--kv-cache": cache, "--cache-seqlens": ",".join(held)}
    if rng.random() < 0.4:
        flags["--append"] = str(rng.choice([1, 1, 2, 4, 16, rng.randint(1, 60)]))
    if rng.random() < 0.3:
        return flags | {"--seqlens-q": ",".join(str(rng.choice([0, 1, 1, 2, 5, 20, 70])) for _ in range(batch))}
    flags = {"-b": str(batch), "-s": str(rng.choice([1, 1, 2, 4, 9, 16, 40, 120]))} | flags
    if rng.random() < 0.2:  # one length for all
        flags["--cache-seqlens"] = held[0]
    if not paged and rng.random() < 0.7:
        flags["--cache-leftpad"] = ",".join(str(rng.choice([0, 1, 7, 64, 100])) for _ in range(batch))
    return flags


def _mask(rng: random.Random) -> str:
    left, right = (rng.choice([-1, 0, 1, 2, 7, 8, 16, 31, 64, rng.randint(0, 200)]) for _ in range(2))
    plain = ("none", "causal", "causal-tl", "0", "1", "2", "t", "b")
    sized = (
        f"window:{left},{right}",
        f"window-tl:{left},{right}",
        f"t:{left},{right}",
        f"b:{left},{right}",
        f"t:{left},{right},{rng.choice([0, 1, 5])}",
        f"b:{left},{right},{rng.choice([0, 1, 5])}",
        f"xt:{rng.choice([-1, 1, 2, 15, 32, 129])}",
        f"xb:{rng.choice([-1, 1, 2, 15, 32, 129])}",
        f"generic:{rng.randint(1, 120)},{rng.randint(-40, 0)}",
        f"generic:{rng.randint(-20, 0)},{rng.randint(1, 120)}",
        f"g:{rng.randint(1, 300)},{rng.randint(1, 300)}",
    )
    return rng.choice(plain) if rng.random() < 0.35 else rng.choice(sized)


def _bias(rng: random.Random) -> Flags:
    choices: tuple[Flags, ...] = (
        {"--bias": "elementwise"},
        {"--bias": "elementwise:11ss"},
        {"--bias": "elementwise:1hss"},
        {"--bias": "elementwise:bhss"},
        {"--bias": "alibi"},
        {"--alibi": None},
        {"--alibi-slopes": "filled:h"},
        {"--alibi-slopes": "filled:bh"},
    )
    return rng.choice(choices) if rng.random() < 0.35 else {}


def _dropout(rng: random.Random) -> Flags:
    if rng.random() > 0.15:
        return {}
    flags: Flags = {"--dropout": rng.choice(["0.1", "0.2", "0.5", "0.001", "0.9"])}
    flags |= {"--seed": str(rng.choice([0, 1, 2**32, 2**64 - 1, rng.randrange(2**64)]))} if rng.random() < 0.8 else {}
    flags |= {"--offset": str(rng.choice([1, 2**32 - 1, rng.randrange(2**32)]))} if rng.random() < 0.5 else {}
    return flags


def _layout(rng: random.Random) -> Flags:
    return {"--layout": rng.choice(["bhsd", "bshd", "bshd", "bhsd:bshd", "bshd:bhsd"])} if rng.random() < 0.6 else {}


def _scale(rng: random.Random) -> Flags:
    if rng.random() > 0.15:
        return {}
    return {"--scale": rng.choice(["0.05", "0.125", "0.25", "1", "0", "-0.1", f"{rng.uniform(0.001, 0.4):.6f}"])}


def _rotated(rng: random.Random, flags: Flags) -> Flags:
    """Rotary embedding for half of the problems that append keys and have room for a pair."""
    if "--append" not in flags or rng.random() < 0.5 or int(flags["-d"] or 0) < 2:
        return {}
    dim = 2 * rng.randint(1, int(flags["-d"] or 0) // 2)
    return {"--rotary": f"{dim}{rng.choice(['', ':half', ':interleaved'])}"}


def _long_latent(rng: random.Random) -> Flags:
    hdim = rng.randint(577, 900)
    return {"-d": str(hdim), "--mla-rope": "64", "--hdim-v": str(hdim - 64)}


REFUSALS: dict[str, tuple[str, Callable[[random.Random], Flags]]] = {
    "fp8 output": ("K002", lambda rng: {"--dtype": rng.choice(["fp8_e4m3:fp8_e4m3", "fp8_e5m2:fp8_e5m2"])}),
    "gradients in fp8": (
        "K001 K025",
        lambda rng: {"--dtype": rng.choice(["fp8_e4m3", "fp8_e5m2"]), "--direction": "bwd"},
    ),
    "other cache of fp8 queries": (
        "K001 K028",
        lambda rng: {"--dtype": "fp8_e4m3", "--kv-cache": "linear", "--kv-dtype": rng.choice(["int8", "fp8_e5m2"])},
    ),
    "keys appended to fp8": (
        "K001 K015",
        lambda rng: _cached(rng) | {"--dtype": "fp8_e4m3", "--append": str(rng.randint(1, 20))},
    ),
    "fp8 bias": ("K104", lambda rng: {"--dtype": "fp8_e5m2:bf16", "--bias": "elementwise"}),
    "mx": ("K001", lambda rng: {"--dtype": rng.choice(["mxfp8", "mxfp4"])}),
    "other output type": ("K001 K002", lambda rng: {"--dtype": rng.choice(["fp16:fp32", "bf16:fp32", "fp32:bf16"])}),
    "backward in splits": ("K017", lambda rng: {"--direction": "bwd", "--splits": str(rng.randint(2, 9))}),
    "both passes in fp8": ("K001 K025", lambda rng: {"--dtype": "fp8_e4m3:bf16", "--direction": "fwd+bwd"}),
    "hdim": ("K012", lambda rng: {"-d": str(rng.randint(577, 900))}),
    "hdim-v": ("K012", lambda rng: {"--hdim-v": str(rng.randint(577, 900)), "--mla-rope": "0"}),
    "V in a K that is too long": ("K012", _long_latent),
    "scales": ("K001 K018", lambda rng: {"--qscale": rng.choice(["tensor", "block", "kv-block", "head"])}),
    "splits of many rows": (
        "K017 K103",
        lambda rng: {"-s": str(rng.randint(DECODE_ROWS + 1, 300)), "--splits": str(rng.randint(2, 16))},
    ),
    "offset": ("K102", lambda rng: {"--dropout": "0.2", "--offset": str(rng.randrange(2**32, 2**64))}),
}
"""Kind of refusal -> the rules, one of which refuses it, and the flags that trigger it. The nearest kernel is one of the best
architecture, which has no kernel of some types (AMX), so another rule speaks there."""
