"""Element types of the tensors, their sizes, and the spelling ``IN:OUT``."""

from __future__ import annotations

from enum import StrEnum

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.suggest import NameKind, suggest


class DType(StrEnum):
    """Element type of Q, K, V or of the output."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    MXFP8 = "mxfp8"
    MXFP4 = "mxfp4"

    @property
    def bits(self) -> int:
        """Bits per element, without block scales."""
        return _BITS[self]

    @property
    def is_fp8(self) -> bool:
        """Whether the elements are fp8 without block scales; ``Fp8Encoding`` says how their bits are read."""
        return self in (DType.FP8_E4M3, DType.FP8_E5M2)

    @property
    def is_mx(self) -> bool:
        """Whether every ``MX_BLOCK`` elements share a power of two (OCP Microscaling Formats)."""
        return self in (DType.MXFP8, DType.MXFP4)

    @property
    def default_output(self) -> DType:
        """The output type if only an input type is named (8-bit and 4-bit inputs give bf16)."""
        return self if self in (DType.FP32, DType.FP16, DType.BF16) else DType.BF16

    @property
    def bias(self) -> DType:
        """The type of an elementwise bias for inputs of this type.

        Source: Composable Kernel, example/ck_tile/01_fmha/fmha_fwd.hpp, ``FmhaFwdTypeConfig``: ``BiasDataType``.
        """
        return DType.FP32 if self in (DType.FP8_E4M3, DType.MXFP8, DType.MXFP4) else self


class Fp8Encoding(StrEnum):
    """How the bits of fp8 are read. MX types always are OCP's."""

    OCP = "ocp"
    """OCP 8-bit Floating Point: e4m3 has NaN and no infinity, e5m2 has both."""
    FNUZ = "fnuz"
    """AMD gfx90a and gfx942, Graphcore: half the value of OCP's bits; no infinity, no -0, whose bits are the only NaN."""


class KvDType(StrEnum):
    """Element type of a KV cache."""

    SAME = "same"
    """That of Q."""
    INT8 = "int8"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"


MX_BLOCK = 32
"""Elements that share one scale (OCP Microscaling Formats 1.0, section 5.2)."""

_BITS = {
    DType.FP32: 32,
    DType.FP16: 16,
    DType.BF16: 16,
    DType.FP8_E4M3: 8,
    DType.FP8_E5M2: 8,
    DType.MXFP8: 8,
    DType.MXFP4: 4,
}


def parse_dtypes(text: str) -> tuple[DType, DType]:
    """Parses ``IN`` or ``IN:OUT`` into (input, output) types.

    Raises:
        ImpossibleProblem: a name is not a dtype.
    """
    names = text.split(":")
    known = [d.value for d in DType]
    strange = next((n for n in names if n not in known), None)
    if len(names) > 2 or strange is not None:
        help = suggest(strange or text, known, NameKind.DTYPE)
        raise ImpossibleProblem(f"--dtype {text}: no such dtype", code="P001", where="--dtype", help=help)
    given = [DType(n) for n in names]
    return given[0], given[-1] if len(given) == 2 else given[0].default_output


def dtypes_text(dtype: DType, dtype_out: DType) -> str:
    """The shortest spelling that ``parse_dtypes`` reads back."""
    return dtype.value if dtype_out is dtype.default_output else f"{dtype.value}:{dtype_out.value}"
