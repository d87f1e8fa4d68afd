"""The problem flags of the contract, section 1, as one table.

The command line, the environment variables, the configuration files, sweeps, repro lines and the
Python API all read this table. No other place spells a flag.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from fmha_cli.domain.errors import ImpossibleProblem


class FlagKind(Enum):
    """How to read a flag's text."""

    SIZE = "integer, suffixes k and m"
    NUMBER = "number"
    TEXT = "text"
    LIST = "comma list of integers"
    FILE = "file"
    SWITCH = "switch"


@dataclass(frozen=True)
class Flag:
    """One flag: ``name`` without dashes, ``kind``, help, whether a comma list in it is a sweep, and the unit that it
    counts.
    """

    name: str
    kind: FlagKind
    help: str
    short: str | None = None
    sweeps: bool = False
    repeats: bool = False
    metavar: str | None = None
    unit: str = ""

    @property
    def key(self) -> str:
        """The flag as a Python name."""
        return self.name.replace("-", "_")


_S, _N, _T, _L, _F, _B = (
    FlagKind.SIZE,
    FlagKind.NUMBER,
    FlagKind.TEXT,
    FlagKind.LIST,
    FlagKind.FILE,
    FlagKind.SWITCH,
)

PROBLEM_FLAGS: tuple[Flag, ...] = (
    Flag("batch", _S, "Sequences [default: 1]", "b", True, unit="sequences"),
    Flag("heads", _S, "Query heads [default: 8]", "H", True, unit="heads"),
    Flag("kv-heads", _S, "Key/value heads; must divide --heads [default: = heads]", None, True, unit="heads"),
    Flag("seqlen", _S, "Query length (and key length) [default: 1024]", "s", True, unit="queries"),
    Flag("seqlen-k", _S, "Key length [default: = seqlen]", None, True, unit="keys"),
    Flag("hdim", _S, "Head dim of Q and K (and V) [default: 128]", "d", True, unit="elements"),
    Flag("hdim-v", _S, "Head dim of V [default: = hdim]", None, True, unit="elements"),
    Flag(
        "mla-rope", _S, "V = the first hdim - N columns of K, no tensor of its own [default: 0, off]", unit="elements"
    ),
    Flag("dtype", _T, "fp32 fp16 bf16 fp8_e4m3 fp8_e5m2 mxfp8 mxfp4, or IN:OUT [default: fp16]", None, True),
    Flag(
        "mask",
        _T,
        "none, causal, causal-tl, window:L,R, window-tl:L,R, generic:Y,X, or CK's spelling; repeat to sweep",
        repeats=True,
    ),
    Flag("causal", _B, "Same as --mask causal"),
    Flag("window", _S, "Same as --mask window:N,0: N keys to the left, without the query's own", unit="keys"),
    Flag("sink", _S, "Leading keys that the left mask bound never hides [default: 0]", unit="keys"),
    Flag("sink-logits", _F, "Learned sink logits, one per head; 'filled' generates them from the seed"),
    Flag("bias", _T, "none, elementwise[:RANK], alibi; RANK is 11ss 1hss bhss b1ss 111s b11s [default: none]"),
    Flag("bias-file", _F, "Tensor file of the bias, by broadcast; boolean: true = visible; 'filled' generates it"),
    Flag("alibi", _B, "ALiBi with the standard slopes"),
    Flag("alibi-slopes", _F, "ALiBi slopes, (heads) or (batch, heads); 'filled:h' or 'filled:bh' generates them"),
    Flag("softcap", _N, "Cap of the scores: cap * tanh(s / cap) [default: 0, off]", None, True),
    Flag("dropout", _N, "Dropout probability in [0, 1) [default: 0]", None, True),
    Flag("seed", _S, "Philox seed of the dropout [default: 0]"),
    Flag("offset", _S, "Philox offset of the dropout [default: 0]"),
    Flag("scale", _N, "Softmax scale [default: 1/sqrt(hdim)]"),
    Flag("lse", _B, "Also return log-sum-exp"),
    Flag("layout", _T, "bhsd, bshd, or IN:OUT [default: bhsd]"),
    Flag("seqlens-q", _L, "Query lengths of packed sequences (group mode)", unit="queries"),
    Flag("seqlens-k", _L, "Key lengths of packed sequences [default: = seqlens-q]", unit="keys"),
    Flag("kv-cache", _T, "none, linear or paged:PAGE [default: none]"),
    Flag("cache-seqlens", _L, "Keys in the cache before append, one number or one for each sequence", unit="keys"),
    Flag(
        "cache-leftpad",
        _L,
        "Padding rows in front of a linear cache's keys, one number or one for each [default: 0]",
        unit="rows",
    ),
    Flag("block-table", _F, "int32 (batch, max_pages), -1 unused [default: a seeded permutation of generated pages]"),
    Flag("append", _S, "New keys per sequence, appended first [default: 0, or those of --k-new]", unit="keys"),
    Flag("k-new", _F, "The new keys, (batch, kv-heads, N, hdim) by --layout; 'filled' generates them"),
    Flag("v-new", _F, "The new values, (batch, kv-heads, N, hdim-v) by --layout; 'filled' generates them"),
    Flag("rotary", _T, "DIM[:half|:interleaved] [default: 0, off]"),
    Flag("rotary-base", _N, "Base of the rotary angles [default: 10000]"),
    Flag("rotary-cos", _F, "Rotary cosines (positions, DIM/2), a row for each position; 'filled' generates them"),
    Flag("rotary-sin", _F, "Rotary sines, likewise"),
    Flag("cache-batch-idx", _L, "Row of a linear cache that each sequence reads and appends to [default: 0,1,...]"),
    Flag("splits", _T, "Key splits, or auto [default: auto]", None, True, unit="parts"),
    Flag("kv-dtype", _T, "Element type of the KV cache: int8, fp8_e4m3 or fp8_e5m2 [default: = dtype]"),
    Flag("fp8-encoding", _T, "Encoding of fp8: ocp or fnuz [default: ocp]"),
    Flag("qscale", _T, "none tensor block kv-block mx head [default: none; mx with an MX dtype]"),
    Flag("q-descale", _F, "De-quantisation scales of Q; 'filled' generates them"),
    Flag("k-descale", _F, "De-quantisation scales of K; 'filled' generates them"),
    Flag("v-descale", _F, "De-quantisation scales of V; 'filled' generates them"),
    Flag("direction", _T, "fwd, bwd, fwd+bwd [default: fwd]"),
    Flag("deterministic", _B, "Ask for a deterministic backward pass"),
    Flag("dbias", _B, "Also return the gradient of the bias"),
)

BY_KEY = {flag.key: flag for flag in PROBLEM_FLAGS}

_SWEPT = frozenset(f"--{flag.name}" for flag in PROBLEM_FLAGS if flag.sweeps)

FILLED = "filled"
"""The word in the place of a tensor's file that asks for a tensor made from the fill seed."""

_FORMS = {"alibi_slopes": ("h", "bh")}
"""Flags whose generated tensor has several forms, which stand behind the word: ``filled:bh``."""

DIGITS = 40
"""The most digits of an integer in a text. Far longer ones (more than 4300) Python itself refuses to read."""

_SIZE = re.compile(rf"([+-]?\d{{1,{DIGITS}}})([kKmM]?)\Z")


def asks_fill(key: str, text: str) -> bool:
    """Whether the value of a flag that names a tensor's file asks for a generated tensor instead.

    Args:
        key: the flag as a Python name.

    Raises:
        ImpossibleProblem: P014, a form that the generated tensor does not have.
    """
    word, colon, form = text.partition(":")
    forms = _FORMS.get(key, ())
    if word == FILLED and colon and form not in forms:
        flag = f"--{key.replace('_', '-')}"
        known = [FILLED, *(f"{FILLED}:{one}" for one in forms)]
        raise ImpossibleProblem(f"{flag} {text}", code="P014", where=flag, help=f"{' or '.join(known)}, or a file")
    return word == FILLED


def parse_size(text: str, where: str) -> int:
    """Parses ``4096``, ``4k`` or ``1m`` (powers of 1024) into an integer.

    Raises:
        ImpossibleProblem: the text is not an integer.
    """
    match = _SIZE.match(text.strip())
    if match is None:
        long = len(text) > DIGITS
        what = f"{text[:DIGITS]}...: not an integer of at most {DIGITS} digits" if long else f"{text}: not an integer"
        raise ImpossibleProblem(
            f"{where} {what}",
            code="P003",
            where=where,
            help="e.g. 1024, 1k or 2m" + ("; sweeps: 512,1k or a:b:+n" if where in _SWEPT else ""),
        )
    return int(match[1]) * {"": 1, "k": 1024, "m": 1024 * 1024}[match[2].lower()]


def parse_number(text: str, where: str) -> float:
    """A finite number.

    Raises:
        ImpossibleProblem: the text is not a finite number.
    """
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value != value or value in (float("inf"), float("-inf")):
        raise ImpossibleProblem(
            f"{where} {text}: not a finite number", code="P003", where=where, help="e.g. 0.5, 30 or 1e-3"
        )
    return value


def parse_list(text: str, where: str) -> tuple[int, ...]:
    """Parses a comma-separated list of sizes into a tuple.

    Raises:
        ImpossibleProblem: an element is not an integer, or the list is empty.
    """
    return tuple(parse_size(part, where) for part in text.split(","))
