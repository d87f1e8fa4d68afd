"""``Problem``: what the user asks for, independent of architecture and backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cache
from math import prod
from typing import Annotated, ClassVar, Literal

from fmha_cli.domain.arguments import flag_texts, in_python
from fmha_cli.domain.dtypes import MX_BLOCK, DType, Fp8Encoding, KvDType, dtypes_text
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import (
    Alibi,
    Bias,
    CacheKind,
    CacheStorage,
    Direction,
    KvCache,
    Layout,
    Mode,
    QScale,
    Rotary,
    layouts_text,
)
from fmha_cli.domain.fields import flags_in, words_of
from fmha_cli.domain.mask import Mask, mask_pattern
from fmha_cli.domain.members import Above, Below, Count, FewestItems, Hidden, Least, Pattern, ShownAs, Then
from fmha_cli.domain.resolve import RawFlags, raw_from_text, resolve_fields

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


_NAMES = "|".join(dtype.value for dtype in DType)
_DTYPES = Annotated[str, Pattern(f"^({_NAMES})(:({_NAMES}))?$")]
_MASK = Annotated[str, Pattern(f"^({mask_pattern()})$")]
_LAYOUTS = Annotated[str, Pattern("^(bhsd|bshd)(:(bhsd|bshd))?$")]
_LENGTHS = Annotated[tuple[Count, ...], FewestItems(1)]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One fused multi-head-attention problem in canonical form.

    Build one with :meth:`of` (flags as Python arguments) or :meth:`from_cli` (flags as text). Both apply
    the defaults, refuse impossible problems and make equal problems compare equal. Formulas: ``docs/explanation/numerics.md``.

    Shapes (bhsd): q (batch, heads, seqlen_q, hdim), k (batch, kv_heads, seqlen_k, hdim),
    v (batch, kv_heads, seqlen_k, hdim_v), o (batch, heads, seqlen_q, hdim_v),
    lse (batch, heads, seqlen_q) fp32. Group mode packs the sequences: q (heads, total_q, hdim),
    lse (heads, total_q).

    Attributes:
        seqlen_q: the largest number of queries over the batch.
        seqlen_k: the largest number of keys over the batch, appended keys included.
        mla_rope: columns of K behind those that are also V: V = the first hdim - mla_rope columns of K, a view without a
            tensor of its own, and dK holds the sums of both; 0 = V is a tensor (multi-head latent attention, DeepSeek-AI,
            "DeepSeek-V2" (2024), section 2.1: the latent vector and the decoupled rotary key in one cache row).
        seqlens_q, seqlens_k: one length per sequence in group mode, else None.
        cache_seqlens: keys in the cache before the append, one number per sequence, with a KV cache, else None.
        cache_leftpad: padding rows of a linear cache before each sequence's keys, else None. These rows are not
            keys: no length, mask or bias counts them, but rotary positions do (upstream FlashAttention,
            ``flash_fwd_kernel.h`` ``row_offset_cossin``).
        rotary_base: pair t of a row at position n is rotated by n * rotary_base^(-2t / dim), unless tables are given.
        rotary_cos, rotary_sin: both or neither: the cosines and sines are tensors, row n for position n.
        cache_batch_idx: row of a linear cache for each sequence, else None: sequence b has row b.
        sink: leading keys that a left mask bound never hides (0 without a left bound).
        dropout: probability in [0, 1).
        seed, offset: select the dropout stream (0 without dropout).
        scale: factor of q.k before the softmax.
        splits: number of key splits, 0 = chosen by the backend.
        kv_dtype: element type of the cache, where it is not that of Q. Appended keys and values have Q's type, and are
            quantised as they are written.
        fp8_encoding: how fp8 of Q, the cache and O is read; ``ocp`` without fp8.
        storage: how large a given cache is. It is not a flag, so no JSON form, digest or repro line has it.
        json_always: the members of the JSON form that are always present; others are absent at their defaults.
    """

    json_always: ClassVar[tuple[str, ...]] = (
        "batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "hdim", "hdim_v", "dtype", "mask", "mode", "layout",
        "direction", "scale", "lse",
    )  # fmt: skip

    batch: Annotated[int, Least(1), "sequences"]
    heads: Annotated[int, Least(1), "query heads"]
    kv_heads: Annotated[int, Least(1), "key/value heads"]
    seqlen_q: Annotated[int, Least(0), "queries; the largest over the batch"]
    seqlen_k: Annotated[int, Least(0), "keys, appended ones included; the largest over the batch"]
    hdim: Annotated[int, Least(1), "head dim of Q and K"]
    hdim_v: Annotated[int, Least(1), "head dim of V"]
    mla_rope: Annotated[int, Least(0), "V = the first hdim - N columns of K"]
    dtype: Annotated[DType, ShownAs(_DTYPES), "IN, or IN:OUT where the output differs from the default"]
    dtype_out: Annotated[DType, Hidden()]
    mask: Annotated[Mask, ShownAs(_MASK), "canonical spelling", Then("mode")]
    layout: Annotated[Layout, ShownAs(_LAYOUTS), "IN, or IN:OUT"]
    layout_out: Annotated[Layout, Hidden()]
    direction: Direction
    scale: Annotated[float, "softmax scale"]
    lse: Annotated[bool, "log-sum-exp is asked for"]
    sink: Count
    sink_logits: bool
    bias: Annotated[Bias, ShownAs(Literal["11ss", "1hss", "bhss", "b1ss", "111s", "b11s", "1h1s", "bh1s"])]
    alibi: Annotated[Alibi, ShownAs(Literal["standard", "h", "bh"])]
    softcap: Annotated[float, "0 is off"]
    dropout: Annotated[float, Least(0), Below(1)]
    seed: Count
    offset: Count
    seqlens_q: Annotated[tuple[int, ...] | None, ShownAs(_LENGTHS), "group mode: queries per sequence"]
    seqlens_k: Annotated[tuple[int, ...] | None, ShownAs(_LENGTHS), "group mode: keys per sequence"]
    kv_cache: Annotated[KvCache, ShownAs(Annotated[str, Pattern("^(linear|paged:[1-9][0-9]*)$")])]
    cache_seqlens: Annotated[tuple[int, ...] | None, ShownAs(_LENGTHS), "keys before append"]
    cache_leftpad: Annotated[
        tuple[int, ...] | None,
        ShownAs(_LENGTHS),
        "padding rows of a linear cache in front of each sequence's keys",
    ]
    append: Count
    rotary: Annotated[Rotary, ShownAs(Annotated[str, Pattern("^[1-9][0-9]*(:interleaved)?$")])]
    rotary_base: Annotated[float, Above(0), "base of the rotary angles"]
    rotary_cos: Annotated[bool, "the cosines are a tensor"]
    rotary_sin: Annotated[bool, "the sines are a tensor"]
    cache_batch_idx: Annotated[
        tuple[int, ...] | None, ShownAs(_LENGTHS), "row of a linear cache that each sequence reads and appends to"
    ]
    splits: Annotated[int, Least(1)]
    kv_dtype: Annotated[KvDType, ShownAs(Literal["int8", "fp8_e4m3", "fp8_e5m2"])]
    fp8_encoding: Annotated[Fp8Encoding, ShownAs(Literal["fnuz"])]
    qscale: Annotated[QScale, ShownAs(Literal["tensor", "block", "kv-block", "mx", "head"])]
    deterministic: bool
    dbias: bool
    storage: Annotated[CacheStorage, Hidden()] = field(default_factory=CacheStorage)

    @property
    def mode(self) -> Mode:
        return Mode.BATCH if self.seqlens_q is None else Mode.GROUP

    @property
    def paged(self) -> bool:
        return self.kv_cache.kind is CacheKind.PAGED

    def query_lengths(self) -> tuple[int, ...]:
        """Number of queries of each sequence."""
        return self.seqlens_q if self.seqlens_q is not None else (self.seqlen_q,) * self.batch

    def key_lengths(self) -> tuple[int, ...]:
        """Number of keys of each sequence, appended keys included."""
        if self.cache_seqlens is not None:
            return tuple(n + self.append for n in self.cache_seqlens)
        return self.seqlens_k if self.seqlens_k is not None else (self.seqlen_k,) * self.batch

    def leftpads(self) -> tuple[int, ...]:
        """Row of the cache at which each sequence's keys start; 0 if the cache has no padding."""
        return self.cache_leftpad if self.cache_leftpad is not None else (0,) * self.batch

    @property
    def kv_bits(self) -> int:
        """Bits of an element of K and V, without scales."""
        return self.dtype.bits if self.kv_dtype is KvDType.SAME else 8

    @property
    def cache_rows(self) -> int:
        """Rows of K and V that a linear cache has for each sequence: at least as many as there are positions."""
        return max(self.storage.rows, self.positions)

    @property
    def held_keys(self) -> int:
        """Rows of K and V that the sequences read, each counted once."""
        if self.cache_batch_idx is None:
            return self.storage.keys or sum(self.key_lengths())
        ends: dict[int, set[tuple[int, int]]] = {}
        for at, first, count in zip(self.cache_batch_idx, self.leftpads(), self.key_lengths(), strict=True):
            ends.setdefault(at, set()).add((first, first + count))
        return sum(_covered(spans) for spans in ends.values())

    @property
    def cache_batch(self) -> int:
        """Sequences for which a linear cache has rows."""
        return self.batch if self.cache_batch_idx is None else max(self.cache_batch_idx) + 1

    def cache_item(self, b: int) -> int:
        """The sequence of a linear cache whose rows sequence b uses."""
        return b if self.cache_batch_idx is None else self.cache_batch_idx[b]

    @property
    def positions(self) -> int:
        """Rows of a linear cache up to the last key of any sequence, left padding included; positions of a rotary embedding."""
        return max(
            (keys + pad for keys, pad in zip(self.key_lengths(), self.leftpads(), strict=True)), default=self.seqlen_k
        )

    def layout_of(self, name: str) -> Layout:
        """The layout of a tensor of rows by its name: O and dO have their own."""
        return self.layout_out if name in ("o", "do") else self.layout

    @property
    def v_in_k(self) -> bool:
        """Whether V is a view of K's first hdim_v columns."""
        return self.mla_rope > 0

    def visible_pairs(self) -> int:
        """Exact number of visible (row, key) pairs of one head, summed over the sequences."""
        lengths = zip(self.query_lengths(), self.key_lengths(), strict=True)
        return sum(self.mask.pairs(q, k, self.sink) for q, k in lengths)

    def dense_pairs(self) -> int:
        """Number of all (row, key) pairs of one head, masked pairs included."""
        return sum(q * k for q, k in zip(self.query_lengths(), self.key_lengths(), strict=True))

    def flops(self, *, dense: bool = False) -> int:
        """Floating-point operations of the matrix products (contract, section 2)."""
        pairs = self.dense_pairs() if dense else self.visible_pairs()
        forward = 2 * (self.hdim + self.hdim_v) if self.direction.forward else 0
        backward = 6 * self.hdim + 4 * self.hdim_v if self.direction.backward else 0
        return self.heads * pairs * (forward + backward)

    def bytes(self) -> int:
        """Bytes of every tensor, each counted once; K and V are counted with their own heads (contract, section 2)."""
        rows, keys = sum(self.query_lengths()), self.held_keys
        q, o = self.heads * rows * self.hdim, self.heads * rows * self.hdim_v
        k, v = self.kv_heads * keys * self.hdim, 0 if self.v_in_k else self.kv_heads * keys * self.hdim_v
        bits = q * self.dtype.bits + (k + v) * self.kv_bits + o * self.dtype_out.bits
        bits += (q + k + v) // MX_BLOCK * 8 if self.dtype.is_mx else 0
        bits += self._bias_elements() * self.dtype.bias.bits
        bits += {Alibi.NONE: 0, Alibi.BATCH_HEADS: self.batch * self.heads}.get(self.alibi, self.heads) * 32
        bits += self.heads * 32 if self.sink_logits else 0
        bits += self.heads * rows * 32 if self.lse or self.direction.backward else 0
        if self.direction.backward:  # dO is read; dQ, dK, dV (and dBias) are written
            bits += (o + q + k + v) * self.dtype.bits
            bits += self._bias_elements() * self.dtype.bias.bits if self.dbias else 0
        return bits // 8

    def _bias_elements(self) -> int:
        lengths = zip(self.query_lengths(), self.key_lengths(), strict=True)
        if self.bias.value.startswith("b"):  # no padding of shorter sequences
            return sum(prod(self.bias.shape(1, self.heads, rows, keys)) for rows, keys in lengths)
        return prod(self.bias.shape(1, self.heads, self.seqlen_q, self.seqlen_k))

    def passes(self) -> tuple[Problem, ...]:
        """The passes in the order in which they run, each a problem of one direction; only this problem if it has one.

        The forward pass of two returns the LSE, which the backward pass reads. Splits are those of the forward pass.
        """
        if self.direction is not Direction.FWD_BWD:
            return (self,)
        forward = replace(self, direction=Direction.FWD, lse=True, deterministic=False, dbias=False)
        return forward, replace(self, direction=Direction.BWD, lse=False, splits=0)

    def to_dict(self) -> dict[str, Json]:
        """The ``problem`` member of a record: the keys that are always present, and other fields that have a value."""
        default = _default()
        out: dict[str, Json] = {
            "dtype": dtypes_text(self.dtype, self.dtype_out),
            "mask": self.mask.text(),
            "mode": self.mode.value,
            "layout": layouts_text(self.layout, self.layout_out),
        }
        composed = ("dtype", "dtype_out", "mask", "layout", "layout_out", "storage")
        for name in (one.name for one in fields(self) if one.name not in composed):
            value = getattr(self, name)
            if name in self.json_always or value != getattr(default, name):
                out[name] = plain(value)
        return dict(sorted(out.items()))

    @property
    def digest(self) -> str:
        """sha256 over the JSON form; ``--only`` names a problem by it."""
        return digest_of(self.to_dict())

    def repro(self) -> str:
        """The shortest flags that :meth:`from_cli` turns into this problem; tensors appear as ``filled``."""
        return " ".join(words_of(flags_in(self)))

    @classmethod
    def from_cli(cls, line: str | Sequence[str]) -> Problem:
        """The problem of a command line (without the program's and command's names).

        Raises:
            UsageError: an unknown flag or malformed value.
            ImpossibleProblem: flags that contradict each other or define nothing.
        """
        return cls(**resolve_fields(raw_from_text(line)))

    @classmethod
    def of(cls, **flags: object) -> Problem:
        """The problem of flags given as Python names: ``Problem.of(batch=2, seqlen="4k", causal=True)``.

        Args:
            flags: numbers, texts, switches; lists of lengths also as sequences or one-dimensional arrays; None: not given.

        Raises:
            UsageError: E043, a value that the flag does not take, or an argument of another library.
            ImpossibleProblem: an unknown name, or flags that contradict each other or define nothing.
        """
        try:
            return cls.from_raw(flag_texts(flags))
        except UsageError as fault:
            in_python(fault)
            raise

    @classmethod
    def from_raw(cls, raw: RawFlags) -> Problem:
        """The problem of flags as texts, by their Python names. Raises as :meth:`from_cli`."""
        return cls(**resolve_fields(raw))


def _covered(spans: set[tuple[int, int]]) -> int:
    """How many numbers some of the ranges (first, end) hold."""
    count = last = 0
    for first, end in sorted(spans):
        count += max(0, end - max(first, last))
        last = max(last, end)
    return count


@cache
def _default() -> Problem:
    return Problem.of()


def plain(value: object) -> Json:
    """A field's value as JSON: enums by value, tuples as lists, nouns by their ``text()``.

    Raises:
        TypeError: the value has no JSON form.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, Mask | KvCache | Rotary):
        return value.text()
    raise TypeError(f"{type(value).__name__} has no JSON form")
