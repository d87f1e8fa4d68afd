"""The fields of a problem, each declared once: the flags of the contract, section 1, and what follows from them.

Command line, variables, configuration files, completion, sweeps, Python arguments, repro lines, smallest changes and reference pages
read ``FIELDS``. A field whose meaning is more than a value within limits has a rule in ``resolve``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from operator import attrgetter
from struct import pack, unpack
from typing import Any

from fmha_cli.domain.dtypes import DType, Fp8Encoding, KvDType, dtypes_text, parse_dtypes
from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.features import (
    ROTARY_BASE,
    Alibi,
    CacheKind,
    Direction,
    KvCache,
    Layout,
    QScale,
    Rotary,
    bias_text,
    layouts_text,
    parse_bias,
    parse_cache,
    parse_layouts,
    parse_rotary,
)
from fmha_cli.domain.flags import FILLED, Flag, FlagKind, parse_choice, parse_size
from fmha_cli.domain.impossible import at_least, impossible
from fmha_cli.domain.mask import SPELLINGS, Mask, parse_mask


@dataclass(frozen=True)
class Limit:
    """A condition that the values of a field meet; the code, reason and remedy of the error for one that does not."""

    code: str
    holds: Callable[[Any], bool]
    why: str
    help: str


@dataclass(frozen=True, eq=False, repr=False)
class Field(Flag):
    """One field of a problem. Its help names the default.

    Attributes:
        default: of its members: a value, the text of one, or a function of the problem, from whose other members it follows.
        said: the default in the help, where the value is none for people.
        panel: the heading under which ``--help`` shows it.
        example: flags with it, for the reference.
        members: what it decides in ``Problem`` [default: the member of its name]; none where another field decides it.
        read: the value of a text, if ``kind`` and ``values`` do not say it.
        tell: the value in a problem, if it is not that of its member.
        values: a closed set, or what the shell completes.
        least, most: the smallest and the largest integer, or element of a list; kernels take sizes as 32-bit integers.
        limits: further conditions.
        forms: of the tensor for which the word stands, where it has several: ``filled:bh``.
        excludes: flags that contradict it. It drops them from weaker sources.
        needs: flags without which it means nothing.
        of_model: ``--model`` decides it.
        spare: its turn among the fields that a search for the smallest change leaves out; 0: never.
        cost: how much a problem changes with it: storage 1, outputs 2, lengths 3, head dims 4, options 5, kinds 6 and more.
        near: the cost where only the part behind the colon changes, or only a size; 0: as always.
        off: the cost of leaving it out; 0: as always.
        behind: the field that precedes it in the shortest command line, if that is not the one above it.
    """

    default: Any = None
    said: str = ""
    panel: str = "Features"
    example: str = ""
    members: tuple[str, ...] = ("",)
    read: Callable[[str], Any] | None = None
    tell: Callable[[Any], Any] | None = None
    values: type[StrEnum] | tuple[str, ...] = ()
    least: int | None = None
    most: int | None = 2**31 - 1
    limits: tuple[Limit, ...] = ()
    forms: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    of_model: bool = False
    spare: int = 0
    cost: float = 6
    near: float = 0
    off: float = 0
    behind: str = ""

    def __post_init__(self) -> None:
        plain = isinstance(self.default, str | int | float) and not isinstance(self.default, bool)
        said = self.said or (f"{self.default}".removesuffix(".0") if plain else "")
        object.__setattr__(self, "help", f"{self.help} [default: {said}]" if said else self.help)
        object.__setattr__(self, "members", tuple(member or self.key for member in self.members))
        object.__setattr__(self, "tell", self.tell or (attrgetter(*self.members) if self.members else None))

    def parse(self, text: str) -> Any:
        """The value of a text, within the limits.

        Raises:
            ImpossibleProblem: no value of this field.
        """
        if self.kind is FlagKind.FILE:
            return True
        if self.read is not None:
            return self.read(text)
        return parse_choice(self.values, text, self.name) if isinstance(self.values, type) else text

    def check(self, value: Any) -> None:
        """Refuse a value beyond the limits. Raises ImpossibleProblem: P005, P017, or a limit's code."""
        self.check_most(value)
        if self.least is not None:
            at_least(self.least, {self.name: min(value) if isinstance(value, tuple) else value})
        for limit in self.limits:
            if not limit.holds(value):
                flag = f"--{self.name}"
                raise impossible(limit.code, f"{flag} {value}", flag, limit.why, limit.help)

    def check_most(self, value: Any) -> None:
        """Refuse a size that is too large, before anything of that length is made. Raises ImpossibleProblem: P017."""
        for number in value if isinstance(value, tuple) else (value,):
            if type(number) is int and self.most is not None and number > self.most:
                flag, why = f"--{self.name}", f"{self.name} can be at most {self.most}"
                raise impossible("P017", f"{flag} {number}", flag, why, f"{flag} {self.most} or less")

    def default_in(self, problem: Any) -> Any:
        """The default beside the other members of a problem."""
        return self.default(problem) if callable(self.default) else self.default

    def text_in(self, problem: Any) -> str | bool:
        """The text of the flag in a problem; False if it is at its default, True for a switch that is not."""
        value = self.tell(problem) if self.tell is not None else None
        if value is None or value == self.default_in(problem):
            return False
        if self.kind is FlagKind.FILE and value is True:
            return FILLED
        return value if isinstance(value, bool) else text_of(value)


def text_of(value: Any) -> str:
    """A value as its flag takes it."""
    if isinstance(value, Mask | KvCache | Rotary):
        return value.text()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return repr(value) if isinstance(value, float) else str(value)


def _parse_splits(text: str) -> int:
    """A number of key splits; 0 for ``auto``."""
    count = 0 if text == "auto" else parse_size(text, "--splits", sweeps=True)
    at_least(0 if text == "auto" else 1, {"splits": count})
    return count


def _single(value: float) -> float | None:
    """The value as a 32-bit float; None if it is too large for one."""
    try:
        return float(unpack("<f", pack("<f", value))[0])
    except OverflowError:
        return None


def _last_key(p: Any) -> int:
    """The largest number of keys, where nothing states it."""
    if p.kv_cache.kind is not CacheKind.NONE:
        return int(max(p.cache_seqlens) + p.append)
    return int(p.seqlen_q if p.seqlens_k is None else max(p.seqlens_k))


_SINGLE = Limit("P020", lambda x: _single(x) is not None, "kernels take it as a 32-bit float", "at most 3.4e38")
_CAP = (
    Limit("P011", lambda x: x >= 0, "the cap is 0 (off) or positive", "e.g. --softcap 30"),
    _SINGLE,
    Limit(
        "P020",
        lambda x: x == 0 or _single(x) != 0,
        "a cap that is 0 as a 32-bit float caps nothing",
        "--softcap 0 is none",
    ),
)
_PROBABILITY = Limit("P012", lambda x: 0 <= x < 1, "a probability p with 0 <= p < 1", "e.g. --dropout 0.1")
_U64 = "an unsigned 64-bit integer"
_SEED, _OFFSET = (
    Limit("P013", lambda n: 0 <= n < 2**64, _U64, f"{flag} 0 to {2**64 - 1}") for flag in ("--seed", "--offset")
)

_S, _N, _T, _L, _F, _B = FlagKind.SIZE, FlagKind.NUMBER, FlagKind.TEXT, FlagKind.LIST, FlagKind.FILE, FlagKind.SWITCH
_shape = partial(Field, panel="Problem")
_cache = partial(Field, panel="KV cache", needs=("kv_cache",))
_CAUSAL = Mask(right=0)

# fmt: off
FIELDS: tuple[Field, ...] = (
    _shape("batch", _S, "Sequences", "b", True, unit="sequences", said="1", least=1, most=2**20, cost=3, example="--batch 2",
           default=lambda p: 1 if p.seqlens_q is None else len(p.seqlens_q), excludes=("seqlens_q", "seqlens_k")),
    _shape("heads", _S, "Query heads", "H", True, unit="heads", default=8, least=1, of_model=True, cost=4, example="--heads 16"),
    _shape("kv-heads", _S, "Key/value heads; must divide --heads", None, True, unit="heads", default=lambda p: p.heads, said="= heads",
           least=1, of_model=True, cost=4, example="--kv-heads 2"),
    _shape("seqlen", _S, "Query length (and key length)", "s", True, unit="queries", said="1024", least=1, cost=3, members=("seqlen_q",),
           default=lambda p: 1024 if p.seqlens_q is None else max(p.seqlens_q), excludes=("seqlens_q", "seqlens_k"),
           example="--seqlen 4k"),
    _shape("seqlen-k", _S, "Key length", None, True, unit="keys", default=_last_key, said="= seqlen", least=0, cost=3,
           excludes=("seqlens_q", "seqlens_k"), example="--seqlen-k 512"),
    _shape("hdim", _S, "Head dim of Q and K (and V)", "d", True, unit="elements", default=128, least=1, of_model=True, cost=4,
           example="--hdim 64"),
    _shape("hdim-v", _S, "Head dim of V", None, True, unit="elements", default=lambda p: p.hdim - p.mla_rope, said="= hdim", least=1,
           of_model=True, excludes=("mla_rope",), cost=4, example="--hdim-v 64"),
    Field("mla-rope", _S, "V = the first hdim - N columns of K, no tensor of its own", unit="elements", default=0, said="0, off", least=0,
          panel="KV cache", of_model=True, excludes=("hdim_v",), spare=22, example="--heads 128 --kv-heads 1 --hdim 576 --mla-rope 64"),
    _shape("dtype", _T, "fp32 fp16 bf16 fp8_e4m3 fp8_e5m2 mxfp8 mxfp4, or IN:OUT", None, True, default="fp16", read=parse_dtypes,
           members=("dtype", "dtype_out"), tell=lambda p: dtypes_text(p.dtype, p.dtype_out), values=DType, cost=7, example="--dtype bf16"),
    Field("mask", _T, f"{', '.join(SPELLINGS)}, or CK's spelling; repeat to sweep", repeats=True,
          default=Mask(), read=parse_mask, tell=lambda p: Mask() if p.mask == _CAUSAL else p.mask, of_model=True,
          excludes=("causal", "window"), values=tuple(s[: s.find(":") + 1] or s for s in SPELLINGS), near=4, off=7,
          spare=24, example="--mask window:128,0"),
    Field("causal", _B, "Same as --mask causal", members=(), tell=lambda p: p.mask == _CAUSAL, of_model=True,
          excludes=("mask", "window"), needs=("mask",), default=False, example="--causal"),
    Field("window", _S, "Same as --mask window:N,0: N keys to the left, without the query's own", unit="keys", members=(), least=0,
          of_model=True, excludes=("mask", "causal"), needs=("mask",), example="--window 128"),
    Field("sink", _S, "Leading keys that the left mask bound never hides", unit="keys", default=0, least=0, cost=5,
          spare=5, example="--mask window:128,0 --sink 4"),
    Field("sink-logits", _F, "Learned sink logits, one per head; 'filled' generates them from the seed", default=False, of_model=True,
          cost=5, spare=6, example="--sink-logits filled"),
    Field("bias", _T, "none, elementwise[:RANK], alibi; RANK is 11ss 1hss bhss b1ss 111s b11s", default="none", read=parse_bias,
          tell=lambda p: bias_text(p.bias), excludes=("alibi", "alibi_slopes", "bias_file"), near=2, spare=13,
          example="--bias elementwise:bhss"),
    Field("bias-file", _F, "Tensor file of the bias, by broadcast; boolean: true = visible; 'filled' generates it", members=(),
          excludes=("alibi", "alibi_slopes"), needs=("bias",), example="--bias-file filled"),
    Field("alibi", _B, "ALiBi with the standard slopes", default=False, tell=lambda p: p.alibi is Alibi.STANDARD, of_model=True,
          excludes=("bias", "bias_file"), needs=("bias",), spare=9, example="--alibi"),
    Field("alibi-slopes", _F, "ALiBi slopes, (heads) or (batch, heads); 'filled:h' or 'filled:bh' generates them", members=(),
          tell=lambda p: f"{FILLED}:{p.alibi.value}" if p.alibi in (Alibi.HEADS, Alibi.BATCH_HEADS) else None, forms=("h", "bh"),
          excludes=("bias", "bias_file"), needs=("alibi",), spare=10, example="--alibi-slopes filled:bh"),
    Field("softcap", _N, "Cap of the scores: cap * tanh(s / cap)", None, True, default=0.0, said="0, off", limits=_CAP, of_model=True,
          cost=5, spare=8, example="--softcap 30"),
    Field("dropout", _N, "Dropout probability in [0, 1)", None, True, default=0.0, limits=(_PROBABILITY,), cost=5, spare=7,
          example="--dropout 0.1"),
    Field("seed", _S, "Philox seed of the dropout", default=0, most=None, limits=(_SEED,), needs=("dropout",), cost=1,
          example="--dropout 0.1 --seed 7"),
    Field("offset", _S, "Philox offset of the dropout", default=0, most=None, limits=(_OFFSET,), needs=("dropout",), cost=1,
          example="--dropout 0.1 --offset 7"),
    _shape("scale", _N, "Softmax scale", default=lambda p: p.hdim**-0.5, said="1/sqrt(hdim)", limits=(_SINGLE,), of_model=True, cost=4,
           example="--scale 0.5"),
    Field("lse", _B, "Also return log-sum-exp", default=False, panel="Problem", cost=2, spare=1, example="--lse"),
    Field("layout", _T, "bhsd, bshd, or IN:OUT", default="bhsd", panel="Problem", read=parse_layouts, members=("layout", "layout_out"),
          tell=lambda p: layouts_text(p.layout, p.layout_out), values=Layout, cost=1, spare=20, example="--layout bshd"),
    Field("seqlens-q", _L, "Query lengths of packed sequences (group mode)", unit="queries", panel="Packed sequences", least=0,
          excludes=("batch", "seqlen", "seqlen_k"), cost=5, behind="kv_heads", example="--seqlens-q 512,128"),
    Field("seqlens-k", _L, "Key lengths of packed sequences", unit="keys", panel="Packed sequences", said="= seqlens-q", least=0,
          default=lambda p: p.seqlens_q if p.kv_cache.kind is CacheKind.NONE else None, needs=("seqlens_q",), cost=5,
          excludes=("kv_cache", "cache_seqlens", "cache_leftpad", "cache_batch_idx", "append", "rotary", "rotary_base", "rotary_cos",
                    "rotary_sin", "seqlen_k"), behind="seqlens_q", example="--seqlens-q 512,128 --seqlens-k 1k,256"),
    Field("kv-cache", _T, "none, linear or paged:PAGE", default=KvCache(), said="none", panel="KV cache", read=parse_cache,
          excludes=("seqlens_k",), cost=7, near=1, spare=21, example="--kv-cache paged:128"),
    _cache("cache-seqlens", _L, "Keys in the cache before append, one number or one for each sequence", unit="keys", cost=3,
           example="--kv-cache linear --batch 2 --cache-seqlens 700,900"),
    _cache("cache-leftpad", _L, "Padding rows in front of a linear cache's keys, one number or one for each", unit="rows", said="0",
           cost=3, spare=11, example="--kv-cache linear --cache-leftpad 8"),
    _cache("block-table", _F, "int32 (batch, max_pages), -1 unused", said="a seeded permutation of generated pages", members=(),
           example="--kv-cache paged:128 --block-table filled"),
    _cache("append", _S, "New keys per sequence, appended first", unit="keys", default=0, said="0, or those of --k-new", least=0, cost=3,
           off=6, spare=16, example="--kv-cache linear --append 1"),
    _cache("k-new", _F, "The new keys, (batch, kv-heads, N, hdim) by --layout; 'filled' generates them", members=(), needs=("append",),
           example="--kv-cache linear --append 1 --k-new filled"),
    _cache("v-new", _F, "The new values, (batch, kv-heads, N, hdim-v) by --layout; 'filled' generates them", members=(),
           needs=("append",), example="--kv-cache linear --append 1 --v-new filled"),
    _cache("rotary", _T, "DIM[:half|:interleaved]", default=Rotary(), said="0, off", read=parse_rotary, needs=("append",), cost=3, near=3,
           off=5, spare=14, example="--kv-cache linear --append 1 --rotary 64:half"),
    _cache("rotary-base", _N, "Base of the rotary angles", default=ROTARY_BASE, excludes=("rotary_cos", "rotary_sin"), needs=("rotary",),
           cost=2, spare=15, example="--kv-cache linear --append 1 --rotary 64 --rotary-base 500000"),
    _cache("rotary-cos", _F, "Rotary cosines (positions, DIM/2), a row for each position; 'filled' generates them", default=False,
           excludes=("rotary_base",), needs=("rotary",), cost=2,
           example="--kv-cache linear --append 1 --rotary 64 --rotary-cos filled --rotary-sin filled"),
    _cache("rotary-sin", _F, "Rotary sines, likewise", default=False, excludes=("rotary_base",), needs=("rotary",), cost=2,
           example="--kv-cache linear --append 1 --rotary 64 --rotary-cos filled --rotary-sin filled"),
    _cache("cache-batch-idx", _L, "Row of a linear cache that each sequence reads and appends to", said="0,1,...", cost=2,
           behind="cache_leftpad", spare=12, example="--kv-cache linear --batch 2 --cache-batch-idx 3,1"),
    Field("splits", _T, "Key splits, or auto", None, True, unit="parts", default=0, said="auto", panel="KV cache", read=_parse_splits,
          cost=1, spare=4, example="--splits 4"),
    _cache("kv-dtype", _T, "Element type of the KV cache: int8, fp8_e4m3 or fp8_e5m2", default=KvDType.SAME, said="= dtype",
           values=KvDType, cost=7, spare=19, example="--kv-cache linear --kv-dtype int8"),
    Field("fp8-encoding", _T, "Encoding of fp8: ocp or fnuz", default=Fp8Encoding.OCP, values=Fp8Encoding,
          spare=18, example="--dtype fp8_e4m3 --fp8-encoding fnuz"),
    Field("qscale", _T, "none tensor block kv-block mx head", default=lambda p: QScale.MX if p.dtype.is_mx else QScale.NONE,
          said="none; mx with an MX dtype", values=QScale, spare=17, example="--dtype fp8_e4m3 --qscale tensor"),
    *(Field(f"{name}-descale", _F, f"De-quantisation scales of {name.upper()}; 'filled' generates them", members=(), needs=("qscale",),
            example=f"--dtype fp8_e4m3 --qscale tensor --{name}-descale filled") for name in ("q", "k", "v")),
    Field("direction", _T, "fwd, bwd, fwd+bwd", default=Direction.FWD, panel="Passes", values=Direction, cost=10,
          spare=23, example="--direction bwd"),
    Field("deterministic", _B, "Ask for a deterministic backward pass", default=False, panel="Passes", needs=("direction",), cost=2,
          spare=2, example="--direction bwd --deterministic"),
    Field("dbias", _B, "Also return the gradient of the bias", default=False, panel="Passes", needs=("direction", "bias"), cost=4,
          spare=3, example="--direction bwd --bias elementwise --dbias"),
)
# fmt: on

BY_KEY = {field.key: field for field in FIELDS}

BY_MEMBER = {member: field for field in FIELDS for member in field.members}


def asks_fill(key: str, text: str) -> bool:
    """Whether the value of a flag that names a tensor's file asks for a generated tensor instead.

    Args:
        key: the flag as a Python name; that of a tensor which is no field, too.

    Raises:
        ImpossibleProblem: P014, a form that the generated tensor does not have.
    """
    word, colon, form = text.partition(":")
    forms = BY_KEY[key].forms if key in BY_KEY else ()
    if word == FILLED and colon and form not in forms:
        flag = f"--{key.replace('_', '-')}"
        known = [FILLED, *(f"{FILLED}:{one}" for one in forms)]
        raise ImpossibleProblem(f"{flag} {text}", code="P014", where=flag, help=f"{' or '.join(known)}, or a file")
    return word == FILLED


def _order() -> tuple[Field, ...]:
    out = [field for field in FIELDS if not field.behind and field.tell]
    for field in FIELDS:
        if field.behind:
            out.insert(out.index(BY_KEY[field.behind]) + 1, field)
    return tuple(out)


_IN_ORDER = _order()


def flags_in(problem: Any) -> dict[str, str | bool]:
    """The fewest flags that give exactly this problem, key -> text, or True for a switch; tensors appear as ``filled``."""
    texts = ((field.key, field.text_in(problem)) for field in _IN_ORDER)
    return {key: text for key, text in texts if text is not False}


def words_of(flags: Mapping[str, str | bool]) -> list[str]:
    """Flags as words of a command line."""
    names = {key: f"-{BY_KEY[key].short}" if BY_KEY[key].short else f"--{BY_KEY[key].name}" for key in flags}
    return [word for key, text in flags.items() for word in ([names[key]] if text is True else [names[key], str(text)])]
