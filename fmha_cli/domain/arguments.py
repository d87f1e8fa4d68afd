"""Python arguments as flags: numbers, lists and one-dimensional arrays of any library as the texts that the flags read,
and the names here of other libraries' arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from os import PathLike
from typing import Any

from fmha_cli.domain.dtypes import DType, KvDType
from fmha_cli.domain.errors import FmhaError, UsageError
from fmha_cli.domain.features import CacheKind, Direction, KvCache, Layout, QScale, Rotary
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.flags import FILLED, FlagKind
from fmha_cli.domain.mask import Mask
from fmha_cli.domain.suggest import NameKind

Texts = dict[str, str | bool]

_LISTED = 32
"""Lengths that an error writes out."""

_OTHERS = ("q", "k", "v", "do", "backend", "device", "arch", "kernel", "threads")
"""Arguments that are not problem flags."""

_SPOKEN = re.compile(r"--([a-z][a-z0-9-]*)((?:[ =](?!-)(\S*[^\s,;:.)]))?)")
"""A flag in a sentence, and the word behind it."""

_NUMBER = re.compile(r"-?\d[\d.]*(?:e-?\d+)?(?:,-?\d+)*\Z")
_WORD = re.compile(r"\S*[:_\d]\S*\Z")
_WORDS = {"none", "causal", "causal-tl", "alibi", "elementwise", "auto", FILLED} | {
    word.value for kind in (CacheKind, Direction, DType, KvDType, Layout, QScale) for word in kind
}


def flag_texts(given: Mapping[str, object]) -> Texts:
    """The flags of Python arguments as the command line spells them; None is "not given".

    Args:
        given: names of flags -> numbers, texts, switches; for lists of lengths also sequences and one-dimensional arrays.

    Raises:
        UsageError: E043, an argument of another library, which has another name or form here, or a value that is none of its
            flag.
    """
    return {name: _text(name, value) for name, value in given.items() if value is not None}


def plain(value: object, name: str) -> Any:
    """An array or scalar of numpy, PyTorch or JAX as Python's numbers; anything else as it is.

    Raises:
        UsageError: E043, its library does not hand its numbers out.
    """
    numbers = None if isinstance(value, type) else getattr(value, "tolist", None)
    try:
        return numbers() if callable(numbers) else value
    except (RuntimeError, TypeError, ValueError) as fault:
        why = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
        raise UsageError(f"{name} cannot be read", code="E043", where=name, why=why) from fault


def _text(name: str, value: object) -> str | bool:
    flag = BY_KEY.get(name)
    if flag is None:
        fault = _elsewhere(name, plain(value, name))
        if fault is not None:
            raise fault
        return str(value)  # not a flag: the reader of the flags says so
    if flag.kind is FlagKind.FILE:
        return str(value) if isinstance(value, str | PathLike) else f"({type(value).__name__})"
    number = plain(value, name)
    number = number.value if isinstance(number, Enum) else number
    if flag.kind is FlagKind.SWITCH:
        if number not in (False, True) or isinstance(number, float):
            raise _refused(name, number, f"{name}=True or {name}=False")
        return bool(number)
    if isinstance(number, str):
        return number
    if flag.kind is FlagKind.LIST:
        return _lengths(name, number)
    if flag.kind is FlagKind.TEXT:
        return _word(name, number)
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole and not (isinstance(number, float) and flag.kind is FlagKind.NUMBER):
        if name == "sink" and isinstance(number, Sequence):
            raise _refused(name, number, "sink counts keys; learned logits, one for each head, are sink_logits=")
        raise _refused(name, number, f"{name} takes {'an integer' if flag.kind is FlagKind.SIZE else 'a number'}")
    return repr(number)


def _lengths(name: str, value: Any) -> str:
    """A comma list of whole numbers. Without any it is one sequence of length 0, which has the same tensors."""
    numbers = [value] if isinstance(value, int) else list(value) if isinstance(value, Sequence) else [None]
    numbers = [plain(number, name) for number in numbers]
    if any(not isinstance(number, int) or isinstance(number, bool) for number in numbers):
        raise _refused(
            name, value, f"{name} takes whole numbers, one for each sequence: (3, 5), or an array of integers"
        )
    return ",".join(map(str, numbers)) or "0"


def _word(name: str, value: Any) -> str:
    if isinstance(value, Mask | KvCache | Rotary):
        return value.text()
    if isinstance(value, Sequence | Mapping | bool | float):
        help = _mask(value) if name == "mask" else f"{name} takes a text: {BY_KEY[name].help}"
        raise _refused(name, value, help)
    return str(getattr(value, "__name__", value))  # an element type of a library, which may be a class


def _refused(name: str, value: object, help: str) -> UsageError:
    return UsageError(f"{name}={_shown(value)} cannot be taken", code="E043", where=name, help=help)


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, int | float | str | bool | list | tuple) else f"({type(value).__name__})"
    return text if len(text) <= 60 else f"{text[:60]}..."


def _elsewhere(name: str, value: Any) -> UsageError | None:
    """The error of an argument that other libraries have, with its replacement; None for an unknown name."""
    from fmha_cli.domain.spoken import meaning

    found = meaning(name, NameKind.OPTION)
    known = [key for key in (one.replace("-", "_") for one in found.names) if key in BY_KEY] if found else []
    form = _FORMS.get(name)
    if form is None and not known and not (found and found.note):
        return None
    write = form(value) if form else _same(known[0], value) if known else ""
    help = "; ".join(filter(None, (f"write {write}" if write else "", found.note if found else "")))
    return UsageError(f"{name} is an argument of another library", code="E043", where=name, help=help)


def _same(key: str, value: Any) -> str:
    """The argument with the value that means the same, where that is the value itself."""
    kind = BY_KEY[key].kind
    if kind is FlagKind.SWITCH:
        return f"{key}={bool(value)}"
    if kind is FlagKind.FILE:
        return f"{key}=array"
    plainly = isinstance(value, int | float) and not isinstance(value, bool) and kind is not FlagKind.TEXT
    return f"{key}={value!r}" if plainly else f"{key}=..., {BY_KEY[key].help}"


def _window(value: Any) -> str:
    """Two numbers of keys, each -1 without a limit (FlashAttention); one number is both (JAX)."""
    sides = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value, value]
    if len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        return 'mask="window:LEFT,RIGHT", where -1 is unlimited'
    left, right = (max(side, -1) for side in sides)
    if left < 0 and right <= 0:
        return "causal=True" if right == 0 else 'mask="none", or leave it out'
    return f'mask="window:{left},{right}"'


def _sliding(value: Any) -> str:
    return f"window={value - 1}" if isinstance(value, int) and value > 0 else "window=W - 1"


def _packed(key: str) -> Callable[[Any], str]:
    """Lengths of packed sequences from their first rows and the total."""

    def write(value: Any) -> str:
        starts = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []
        if not 1 < len(starts) <= _LISTED or not all(isinstance(n, int) for n in starts):
            return f"{key}=(the lengths: the differences of neighbours)"
        lengths = tuple(after - before for before, after in pairwise(starts))
        return f"{key}={lengths}"

    return write


def _mask(value: Any) -> str:
    if isinstance(value, str):
        return f'mask="{value}"'
    return "bias=array: it is added to the scores, or true where a key is visible"


_FORMS: Mapping[str, Callable[[Any], str]] = {
    "window_size": _window,
    "local_window_size": _window,
    "sliding_window": _sliding,
    "cu_seqlens": _packed("seqlens_q"),
    "cu_seqlens_q": _packed("seqlens_q"),
    "cu_seqlens_k": _packed("seqlens_k"),
    "cu_seqlens_kv": _packed("seqlens_k"),
    "attn_mask": _mask,
    "attention_mask": _mask,
    "attn_bias": _mask,
    "key_padding_mask": lambda value: (
        "bias=~array[:, None, None, :]: true is a visible key here, and a hidden one there"
    ),
    "page_size": lambda value: f'kv_cache="paged:{value}"',
    "block_size": lambda value: f'kv_cache="paged:{value}"',
    "page_block_size": lambda value: f'kv_cache="paged:{value}"',
    "return_attn_probs": lambda value: "lse=True, which is what can be had of them",
    "num_splits": lambda value: f"splits={value}" if value else 'splits="auto"',
    "k_cache": lambda value: 'k=array with kv_cache="linear", or "paged:PAGE"',
    "v_cache": lambda value: 'v=array with kv_cache="linear", or "paged:PAGE"',
    "dout": lambda value: "do=array",
    "grad_output": lambda value: "do=array",
}
"""Arguments whose value has another form here -> how to write a value.

Source: Dao-AILab/flash-attention, flash_attn_interface.py (window_size, cu_seqlens, return_attn_probs); JAX,
jax.nn.dot_product_attention (local_window_size); Hugging Face transformers, sliding_window counts the query's own key; PyTorch,
scaled_dot_product_attention (attn_mask) and MultiheadAttention (key_padding_mask); xformers, attn_bias; vLLM, block_size.
"""


def in_python(fault: FmhaError) -> None:
    """Let an error speak of arguments where it spoke of flags."""
    fault.what, fault.args = _spoken(fault.what), (_spoken(fault.what),)
    fault.why, fault.help = (text and _spoken(text) for text in (fault.why, fault.help))
    if fault.where and fault.where.startswith("--"):
        fault.where = fault.where.partition(" ")[0].removeprefix("--").replace("-", "_")


def _spoken(text: str) -> str:
    said = _SPOKEN.sub(_argument, text)
    return re.sub(r"\bflag(s?)\b", r"argument\1", said)


def _argument(found: re.Match[str]) -> str:
    name, behind, value = found[1].replace("-", "_"), found[2], found[3] or ""
    flag = BY_KEY.get(name)
    if flag is None and name not in _OTHERS:
        return found[0]
    if flag is not None and flag.kind is FlagKind.SWITCH:
        return f"{name}{behind}" if value == "out" else f"{name}=True{behind}"
    if value == "FILE":
        return f"{name}=array"
    if flag is not None and flag.kind is FlagKind.LIST and "," in value and _NUMBER.match(value):
        return f"{name}=({value.replace(',', ', ')})"
    if _NUMBER.match(value):
        return f"{name}={value}"
    if value in _WORDS or _WORD.match(value):
        return f'{name}="{value}"'
    return f"{name}{behind}"
