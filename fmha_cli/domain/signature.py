"""``Signature``: what a kernel is compiled for, the compile-time projection of a problem.

The same fields describe a problem (every field definite) and a kernel (``any`` if the kernel
makes the choice at run time). Field practice: CK's ``fmha_fwd_traits``, FlashAttention's dispatch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, ClassVar

from fmha_cli.domain.dtypes import DType, Fp8Encoding, KvDType
from fmha_cli.domain.features import Alibi, Bias, CacheKind, QScale
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.mask import BOUNDED, MaskKind
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
    """The mask's kind (never a window's size), or any that two bounds express."""

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


@dataclass(frozen=True)
class ComparedBy:
    """The id of the rule that compares a field of a problem's signature and a kernel's, and the name of its ``Severity``."""

    rule: str
    severity: str = "KIND"


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

    dtype: Annotated[DType, ComparedBy("K001")]
    dtype_out: Annotated[DType, ComparedBy("K002")]
    hdim: Count
    hdim_v: Count
    mode: Annotated[ModeKey, ComparedBy("K003")] = ModeKey.BATCH
    mask: Annotated[MaskKey, ComparedBy("K004")] = MaskKey.NONE
    sink: Annotated[Need, ComparedBy("K005", "OPTION")] = Need.NO
    sink_logits: Annotated[Need, ComparedBy("K006", "OPTION")] = Need.NO
    bias: Annotated[BiasKey, ComparedBy("K007")] = BiasKey.NONE
    softcap: Annotated[Need, ComparedBy("K008", "OPTION")] = Need.NO
    dropout: Annotated[Need, ComparedBy("K009", "OPTION")] = Need.NO
    lse: Annotated[Need, ComparedBy("K010", "OPTION")] = Need.NO
    gqa: Annotated[Need, ComparedBy("K011")] = Need.NO
    cache: Annotated[CacheKey, ComparedBy("K013")] = CacheKey.NONE
    page: Annotated[Count, ComparedBy("K014", "SHAPE")] = 0
    append: Annotated[Need, ComparedBy("K015")] = Need.NO
    rotary: Annotated[RotaryKey, ComparedBy("K016")] = RotaryKey.NONE
    split: Annotated[Need, ComparedBy("K017", "OPTION")] = Need.NO
    qscale: Annotated[QScaleKey, ComparedBy("K018")] = QScaleKey.NONE
    deterministic: Annotated[Need, ComparedBy("K019", "OPTION")] = Need.NO
    dbias: Annotated[Need, ComparedBy("K020", "OPTION")] = Need.NO
    fp8_encoding: Annotated[Fp8Key, ComparedBy("K027")] = Fp8Key.OCP
    kv_dtype: Annotated[KvKey, ComparedBy("K028")] = KvKey.SAME

    @staticmethod
    def of(problem: Problem) -> Signature:
        """The problem's own signature; ``split`` is yes only if the user asked for more than one split."""
        elementwise = BiasKey.ELEMENTWISE if problem.bias is not Bias.NONE else BiasKey.NONE
        rotary = RotaryKey(problem.rotary.style.value) if problem.rotary.dim else RotaryKey.NONE
        return Signature(
            **{name: Need.of(BY_KEY[name].text_in(problem) is not False) for name in _SWITCHED},
            dtype=problem.dtype,
            dtype_out=problem.dtype_out,
            hdim=problem.hdim,
            hdim_v=problem.hdim_v,
            mode=ModeKey(problem.mode.value),
            mask=MaskKey(problem.mask.kind.value),
            bias=elementwise if problem.alibi is Alibi.NONE else BiasKey.ALIBI,
            gqa=Need.of(problem.heads != problem.kv_heads),
            cache=CacheKey(problem.kv_cache.kind.value),
            page=problem.kv_cache.page,
            rotary=rotary,
            split=Need.of(problem.splits > 1),
            qscale=QScaleKey(problem.qscale.value),
            fp8_encoding=Fp8Key(problem.fp8_encoding.value),
            kv_dtype=KvKey(problem.kv_dtype.value),
        )

    def misfits(self, wanted: Signature) -> tuple[str, ...]:
        """Names of the fields in which this kernel's signature does not admit the wanted one.

        The backend's padding rules judge head dims. A page of 0 admits every page size, an ``8-bit`` cache every such type.
        """
        return tuple(field.name for field in fields(self) if not self.admits(field.name, wanted))

    def other_fields(self, wanted: Signature) -> set[str]:
        """The fields in which the two differ; a kernel's may admit the wanted value nevertheless."""
        return {
            name for name, have, want in zip(_NAMES, _values_of(self), _values_of(wanted), strict=True) if have != want
        }

    def admits(self, name: str, wanted: Signature) -> bool:
        """Whether one field of this kernel's signature admits the wanted one; see ``misfits``."""
        have, want = getattr(self, name), getattr(wanted, name)
        if name in ("hdim", "hdim_v") or have == want:
            return True
        if str(have) == "any":
            return name != "mask" or want in BOUNDED
        return (name == "page" and have == 0) or (have is KvKey.BYTE and want is not KvKey.SAME)


_NAMES = tuple(field.name for field in fields(Signature))
_values_of = attrgetter(*_NAMES)

_SWITCHED = tuple(f.name for f in fields(Signature) if f.default is Need.NO and f.name in BY_KEY)
"""Fields that a problem needs unless the flag of their name is at its default."""

assert {m.value for m in MaskKind} | {"any"} == {m.value for m in MaskKey}
assert {m.value for m in CacheKind} | {"any"} == {m.value for m in CacheKey}
assert {m.value for m in QScale} | {"any"} == {m.value for m in QScaleKey}
assert {m.value for m in Fp8Encoding} | {"any"} == {m.value for m in Fp8Key}
assert {m.value for m in KvDType} | {"8-bit"} == {m.value for m in KvKey}
