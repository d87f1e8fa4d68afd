"""Element types of CK's problems for each pair of input and output type.

Source: ``FmhaFwdTypeConfig`` (``example/ck_tile/01_fmha/fmha_fwd.hpp``) and ``FmhaBwdTypeConfig`` (``fmha_bwd.hpp``);
a test compares both with the fetched sources.
"""

from __future__ import annotations

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.signature import Signature

CPP = {
    DType.FP32: "float",
    DType.FP16: "ck_tile::half_t",
    DType.BF16: "ck_tile::bf16_t",
    DType.FP8_E4M3: "ck_tile::fp8_t",
    DType.FP8_E5M2: "ck_tile::bf8_t",
}
_FLOAT = "float"
_BYTE = "uint8_t"


def _cpp(dtype: DType) -> str:
    if dtype not in CPP:
        raise InternalError(f"the baseline CK has no element type {dtype}", where="codegen.ck_tile")
    return CPP[dtype]


def forward_types(signature: Signature) -> dict[str, str]:
    """Aliases of a forward problem: P has the input type, sums and softmax are float, the bias has ``DType.bias``.

    Raises:
        InternalError: the baseline does not have a type.
    """
    given, out = _cpp(signature.dtype), _cpp(signature.dtype_out)
    return {
        "QDataType": given,
        "KDataType": given,
        "VDataType": given,
        "BiasDataType": _cpp(signature.dtype.bias),
        "RandValOutputDataType": _BYTE,
        "LSEDataType": _FLOAT,
        "SaccDataType": _FLOAT,
        "SMPLComputeDataType": _FLOAT,
        "PDataType": given,
        "OaccDataType": _FLOAT,
        "ODataType": out,
    }


def backward_types(signature: Signature) -> dict[str, str]:
    """Aliases of a backward problem: all tensors have the input type; LSE, D and sums are float.

    Raises:
        InternalError: the baseline does not have a type.
    """
    given = _cpp(signature.dtype)
    tensors = ("Q", "K", "V", "Gemm", "Bias", "O", "OGrad", "QGrad", "KGrad", "VGrad", "BiasGrad")
    return {
        **{f"{name}DataType": given for name in tensors},
        **{f"{name}DataType": _FLOAT for name in ("LSE", "Acc", "D")},
        "RandValOutputDataType": _BYTE,
    }
