"""The flags that would help where a problem and a kernel differ in a field of the signature.

A hint never names the value that the problem has already: that a kernel with this value would do is what the rule says.
Every hint is written as ``domain.hints`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fmha_cli.domain.features import Alibi, Bias, CacheKind, Mode
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.flags import FlagKind
from fmha_cli.domain.mask import SPELLINGS
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import KvKey, Need

Hint = Callable[[Problem, str], str | None]
"""The flags, given the problem and the kernel's value of the field."""

_MOST_LISTED = 16
"""The most sequences whose lengths a hint lists."""
_PAGE = 128
"""The page size that a hint names; the kernel's own is another field."""


def _mode_help(problem: Problem, have: str) -> str | None:
    if have == Mode.BATCH.value:
        return unpacked(problem)
    if problem.batch > _MOST_LISTED:
        return None
    return f"--seqlens-q {','.join(str(n) for n in problem.query_lengths())} instead of --seqlen"


def unpacked(problem: Problem) -> str:
    """The hint to give all sequences of a packed problem the length of the longest."""
    return with_rows(problem, max(problem.seqlen_q, 1))


def with_rows(problem: Problem, rows: int) -> str:
    """The hint to give every sequence so many query rows, however the problem states its lengths."""
    hint = f"--seqlen {rows}" + (" instead of --seqlens-q" if problem.mode is Mode.GROUP else "")
    if not problem.rotary_cos:
        return hint
    first = min(map(sum, zip(problem.key_lengths(), problem.leftpads(), strict=True)))
    # more rows than keys would have positions before 0, for which the tables have no angles
    return hint if rows <= first else f"{hint} and drop --rotary-cos and drop --rotary-sin"


def with_keys(problem: Problem, keys: int) -> str | None:
    """The hint to give every sequence so many keys, however the problem states its lengths. None if no short one does."""
    if problem.kv_cache.kind is not CacheKind.NONE:
        return f"--cache-seqlens {keys - problem.append}" if keys >= problem.append else None
    if problem.mode is not Mode.GROUP:
        return f"--seqlen-k {keys}"
    return f"--seqlens-k {','.join([str(keys)] * problem.batch)}" if problem.batch <= _MOST_LISTED else None


def with_hdim(problem: Problem, hdim: int, name: str = "hdim", beside: str = "") -> str:
    """The hint for another head dim; a smaller one takes the rotary dim and a V inside K with it where they no longer fit.

    Args:
        name: ``hdim`` or ``hdim-v``.
        beside: words after the number (``or less``).
    """
    steps = [f"--{name} {hdim}{beside}"]
    if name == "hdim":
        steps += ["drop --mla-rope"] if problem.v_in_k and problem.mla_rope >= hdim else []
        steps += ["--rotary 0"] if problem.rotary.dim > hdim else []
    return " and ".join(steps)


def either(*hints: str | None) -> str | None:
    """The hint to follow one of several, of which some may help nobody."""
    return ", or ".join(filter(None, hints)) or None


def with_rotary(problem: Problem, step: int) -> str:
    """The hint for a rotary dim that is a multiple of a step: the next one, or none where the head dim is smaller."""
    dim = -(-problem.rotary.dim // step) * step
    return f"--rotary {dim if dim <= problem.hdim else 0}"


def _with_cache(problem: Problem, cache: str) -> str | None:
    """Packed sequences with a cache state their keys by ``--cache-seqlens``. Padding and an index are of a linear cache alone."""
    if problem.mode is not Mode.GROUP or problem.kv_cache.kind is not CacheKind.NONE or cache == "none":
        linear = ("cache-leftpad", problem.cache_leftpad), ("cache-batch-idx", problem.cache_batch_idx)
        drops = (f" and drop --{flag}" for flag, given in linear if given and cache.startswith("paged"))
        return f"--kv-cache {cache}{''.join(drops)}"
    lengths = ",".join(map(str, problem.key_lengths()))
    return (
        f"--kv-cache {cache} and --cache-seqlens {lengths} instead of --seqlens-k"
        if problem.batch <= _MOST_LISTED
        else None
    )


def positive_scale(problem: Problem) -> str:
    """The hint for kernels that need a softmax scale above 0."""
    return f"--scale {-problem.scale:g} (with the signs of Q reversed)" if problem.scale < 0 else "drop --scale"


def _mask_help(problem: Problem, have: str) -> str | None:
    if not have.startswith("window"):
        return f"--mask {have}" if have in SPELLINGS else None
    bounds = (problem.seqlen_k if bound is None else max(bound, 0) for bound in (problem.mask.left, problem.mask.right))
    return f"--mask {have}:{','.join(map(str, bounds))}"


def _bias_help(problem: Problem, have: str) -> str | None:
    return (
        f"--bias {have}" if have == "none" or problem.bias is not Bias.NONE or problem.alibi is not Alibi.NONE else None
    )


def _rotary_help(problem: Problem, have: str) -> str | None:
    if have == "none":
        return "--rotary 0"
    return f"--rotary {problem.rotary.dim}:{have}" if problem.rotary.dim else None


def _dbias_help(problem: Problem, have: str) -> str | None:
    if have == Need.NO.value:
        return "drop --dbias"
    return "--dbias" if problem.bias is not Bias.NONE else None


def _kv_dtype_help(problem: Problem, have: str) -> str | None:
    if have == KvKey.SAME.value:
        return f"--kv-dtype {problem.dtype.value}"
    apart = problem.kv_cache.kind is not CacheKind.NONE and have != problem.dtype.value
    return f"--kv-dtype {'int8' if have == KvKey.BYTE.value else have}" if apart else None


def _encoding_help(problem: Problem, have: str) -> str | None:
    coded = any("fp8" in name for name in (problem.dtype, problem.dtype_out, problem.kv_dtype))
    return f"--{BY_KEY['fp8_encoding'].name} {have}" if coded else None


_HINTS: Mapping[str, Hint] = {
    "dtype_out": lambda p, have: f"--dtype {p.dtype.value}:{have}",
    "mode": _mode_help,
    "mask": _mask_help,
    "bias": _bias_help,
    "gqa": lambda p, have: f"--kv-heads {p.heads}" if have == Need.NO.value else None,
    "cache": lambda p, have: _with_cache(p, f"paged:{_PAGE}" if have == "paged" else have),
    "page": lambda p, have: _with_cache(p, f"paged:{have}"),
    "rotary": _rotary_help,
    "split": lambda p, have: f"--splits {1 if have == Need.NO.value else 2}",
    "qscale": lambda p, have: None if (have == "mx") is not p.dtype.is_mx else f"--qscale {have}",
    "dbias": _dbias_help,
    "fp8_encoding": _encoding_help,
    "kv_dtype": _kv_dtype_help,
}
"""Fields of the signature that no flag, or not that of their name, answers by itself."""


def with_signature(problem: Problem, name: str, have: str) -> str | None:
    """The hint for a problem that differs from a kernel in a field of the signature; None if no flag helps.

    It reads nothing else of the kernel, because an index of kernels calls it once for all kernels with this value.

    Args:
        have: the kernel's value of the field.
    """
    if name in _HINTS:
        return _HINTS[name](problem, have)
    field = BY_KEY[name]
    if field.kind is FlagKind.TEXT:
        return f"--{field.name} {have}"
    if have != Need.NO.value:  # only a switch requests what a kernel does anyway
        return f"--{field.name}" if field.kind is FlagKind.SWITCH else None
    return (
        f"drop --{field.name}"
        if field.kind in (FlagKind.SWITCH, FlagKind.FILE)
        else f"--{field.name} {field.default:g}"
    )
