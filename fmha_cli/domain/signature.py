"""``Signature``: what a kernel is compiled for, the compile-time projection of a problem.

The same fields describe a problem (every field definite) and a kernel (``any`` if the kernel
makes the choice at run time). Field practice: CK's ``fmha_fwd_traits``, FlashAttention's dispatch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import ClassVar

from fmha_cli.domain.dtypes import DType, Fp8Encoding, KvDType
from fmha_cli.domain.features import Alibi, Bias, CacheKind, Mode, QScale
from fmha_cli.domain.mask import MaskKind
from fmha_cli.domain.members import Count
from fmha_cli.domain.problem import Problem


class Need(StrEnum):
    """A feature that is compiled out, compiled in, or chosen at run time."""

    NO = "no"
    YES = "yes"
    ANY = "any"

    @staticmethod
    def of(wanted: bool) -> Need:
        return Need.YES if wanted else Need.NO


class ModeKey(StrEnum):
    """Batch mode, group mode (packed sequences), or both."""

    BATCH = "batch"
    GROUP = "group"
    ANY = "any"


class MaskKey(StrEnum):
    """The mask's kind (never a window's size), or any."""

    NONE = "none"
    CAUSAL = "causal"
    CAUSAL_TL = "causal-tl"
    WINDOW = "window"
    WINDOW_TL = "window-tl"
    GENERIC = "generic"
    ANY = "any"


class BiasKey(StrEnum):
    """The kind of the bias, or any."""

    NONE = "none"
    ELEMENTWISE = "elementwise"
    ALIBI = "alibi"
    ANY = "any"


class CacheKey(StrEnum):
    """Storage of K and V, or any."""

    NONE = "none"
    LINEAR = "linear"
    PAGED = "paged"
    ANY = "any"


class RotaryKey(StrEnum):
    """Rotary style, or any."""

    NONE = "none"
    HALF = "half"
    INTERLEAVED = "interleaved"
    ANY = "any"


class QScaleKey(StrEnum):
    """Granularity of the scales, or any."""

    NONE = "none"
    TENSOR = "tensor"
    BLOCK = "block"
    KV_BLOCK = "kv-block"
    MX = "mx"
    HEAD = "head"
    ANY = "any"


class Fp8Key(StrEnum):
    """Encoding of fp8, or any."""

    OCP = "ocp"
    FNUZ = "fnuz"
    ANY = "any"


class KvKey(StrEnum):
    """Element type of the cache, where it is not that of Q; ``8-bit`` admits all of them, and not Q's own."""

    SAME = "same"
    INT8 = "int8"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    BYTE = "8-bit"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The dispatch key without architecture and family.

    Attributes:
        hdim, hdim_v: of a problem, its head dims; of a kernel, the largest head dims that it holds. The backend's
            padding rules decide whether smaller ones fit.
        page: keys per page that a paged kernel is compiled for, 0 = run-time value or not paged.
        split: whether keys are split over blocks (a combine stage follows).
        gqa: whether each key/value head has several query heads.
    """

    json_kept: ClassVar[bool] = True
    json_later: ClassVar[tuple[str, ...]] = ("fp8_encoding", "kv_dtype")
    """Fields that came later: JSON, and so every digest, leaves them out at their defaults."""

    dtype: DType
    dtype_out: DType
    hdim: Count
    hdim_v: Count
    mode: ModeKey = ModeKey.BATCH
    mask: MaskKey = MaskKey.NONE
    sink: Need = Need.NO
    sink_logits: Need = Need.NO
    bias: BiasKey = BiasKey.NONE
    softcap: Need = Need.NO
    dropout: Need = Need.NO
    lse: Need = Need.NO
    gqa: Need = Need.NO
    cache: CacheKey = CacheKey.NONE
    page: Count = 0
    append: Need = Need.NO
    rotary: RotaryKey = RotaryKey.NONE
    split: Need = Need.NO
    qscale: QScaleKey = QScaleKey.NONE
    deterministic: Need = Need.NO
    dbias: Need = Need.NO
    fp8_encoding: Fp8Key = Fp8Key.OCP
    kv_dtype: KvKey = KvKey.SAME

    @staticmethod
    def of(problem: Problem) -> Signature:
        """The problem's own signature; ``split`` is yes only if the user asked for more than one split."""
        bias = BiasKey.ELEMENTWISE if problem.bias is not Bias.NONE else BiasKey.NONE
        rotary = RotaryKey(problem.rotary.style.value) if problem.rotary.dim else RotaryKey.NONE
        return Signature(
            dtype=problem.dtype,
            dtype_out=problem.dtype_out,
            hdim=problem.hdim,
            hdim_v=problem.hdim_v,
            mode=ModeKey.GROUP if problem.mode is Mode.GROUP else ModeKey.BATCH,
            mask=MaskKey(problem.mask.kind.value),
            sink=Need.of(problem.sink > 0),
            sink_logits=Need.of(problem.sink_logits),
            bias=bias if problem.alibi is Alibi.NONE else BiasKey.ALIBI,
            softcap=Need.of(problem.softcap > 0),
            dropout=Need.of(problem.dropout > 0),
            lse=Need.of(problem.lse),
            gqa=Need.of(problem.heads != problem.kv_heads),
            cache=CacheKey(problem.kv_cache.kind.value),
            page=problem.kv_cache.page,
            append=Need.of(problem.append > 0),
            rotary=rotary,
            split=Need.of(problem.splits > 1),
            qscale=QScaleKey(problem.qscale.value),
            deterministic=Need.of(problem.deterministic),
            dbias=Need.of(problem.dbias),
            fp8_encoding=Fp8Key(problem.fp8_encoding.value),
            kv_dtype=KvKey(problem.kv_dtype.value),
        )

    def misfits(self, wanted: Signature) -> tuple[str, ...]:
        """Names of the fields in which this kernel's signature does not admit the wanted one.

        The backend's padding rules judge head dims. A page of 0 admits every page size, an ``8-bit`` cache every such type.
        """
        return tuple(field.name for field in fields(self) if not self.admits(field.name, wanted))

    def admits(self, name: str, wanted: Signature) -> bool:
        """Whether one field of this kernel's signature admits the wanted one; see ``misfits``."""
        have, want = getattr(self, name), getattr(wanted, name)
        if name in ("hdim", "hdim_v") or have == want or str(have) == "any":
            return True
        return (name == "page" and have == 0) or (have is KvKey.BYTE and want is not KvKey.SAME)


assert {m.value for m in MaskKind} | {"any"} == {m.value for m in MaskKey}
assert {m.value for m in CacheKind} | {"any"} == {m.value for m in CacheKey}
assert {m.value for m in QScale} | {"any"} == {m.value for m in QScaleKey}
assert {m.value for m in Fp8Encoding} | {"any"} == {m.value for m in Fp8Key}
assert {m.value for m in KvDType} | {"8-bit"} == {m.value for m in KvKey}
