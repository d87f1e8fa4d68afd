"""Rules by which upstream's example generator prunes backward kernels."""

from __future__ import annotations

from fmha_cli.backends.ck_tile.kernel_rule import CkKernelRule, generator_rule
from fmha_cli.backends.gpu.conditions import BACKWARD
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.rules import Refusal
from fmha_cli.domain.signature import BiasKey, MaskKey, ModeKey, Need


def _small_tile(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a, s = algorithm_of(kernel), kernel.signature
    if not a.max_seq_q:
        return None
    if s.mode is ModeKey.GROUP:
        return Refusal(f"group mode in the tile of at most {a.max_seq_q} rows", "mode=batch")
    return None if s.mask is MaskKey.NONE else Refusal(f"a mask in the tile of at most {a.max_seq_q} rows", "mask=none")


def _dbias(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    s = kernel.signature
    if s.dbias is not Need.YES or s.bias is BiasKey.ELEMENTWISE:
        return None
    return Refusal(f"a gradient of bias {s.bias.value}", "bias=elementwise or dbias=no")


def _backward_pads(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    a = algorithm_of(kernel)
    if a.trload and (a.pad_d != a.pad_dv or a.pad_d == 1):
        return Refusal(f"transposed loads with paddings {a.pad_d} and {a.pad_dv}", "both 0 or both 8")
    if not a.trload and a.pad_d == 8 and a.pad_dv != 8:
        return Refusal(f"padding 8 of Q with padding {a.pad_dv} of V", "pad_dv=8")
    return None


def _convert_keys(kernel: KernelSpec, arch: ArchSpec) -> Refusal | None:
    bn0, deterministic = algorithm_of(kernel).tile[1], kernel.signature.deterministic
    if (bn0 > 0) == (deterministic is Need.YES):
        return None
    return Refusal(
        f"deterministic {deterministic.value} with {bn0} keys per partial dQ", "0 exactly when not deterministic"
    )


BACKWARD_RULES: tuple[CkKernelRule, ...] = (
    generator_rule(
        "K286",
        "small-tile backward kernels: batch mode without a mask",
        _small_tile,
        "max_seq_q mode mask",
        BACKWARD,
        "They keep all query rows in registers.",
        "fmha_bwd.py get_bwd_blobs",
    ),
    generator_rule(
        "K287",
        "the gradient of a bias needs an elementwise bias",
        _dbias,
        "dbias bias",
        BACKWARD,
        "ALiBi has no elements to differentiate.",
        "fmha_bwd.py get_bwd_blobs",
        "R12",
    ),
    generator_rule(
        "K288",
        "backward paddings: equal and not 1 with transposed loads, else 8 of Q only with 8 of V",
        _backward_pads,
        "trload pad_d pad_dv",
        BACKWARD,
        "Transposed loads move 8 elements. Upstream's comment says that neither padding is 8 alone; its code only "
        "tests that of Q, so (0, 8) and (1, 8) exist.",
        "fmha_bwd.py get_bwd_blobs",
    ),
    generator_rule(
        "K289",
        "dQ is summed over key blocks exactly when deterministic",
        _convert_keys,
        "tile deterministic",
        (Family.BWD_CONVERT_DQ,),
        "A deterministic run keeps one dQ per block of keys; others add into one.",
        "fmha_bwd.py FmhaBwdApiTrait.convert_dq_bn0",
    ),
)
