"""``KernelSpec``: one kernel, with its canonical name and digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import ClassVar

from fmha_cli.domain.encode import SCHEMA_VERSION, canonical_fields, decode_fields, encode_fields
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.signature import Signature


class Family(StrEnum):
    """The kernel families, named alike in every backend that has them (contract, section 5)."""

    FWD = "fwd"
    FWD_SPLITKV = "fwd_splitkv"
    FWD_SPLITKV_COMBINE = "fwd_splitkv_combine"
    FWD_PAGEDKV = "fwd_pagedkv"
    FWD_APPENDKV = "fwd_appendkv"
    FWD_PREPARE = "fwd_prepare"
    """What a backend's own kernel computes for the main kernel behind it, such as a schedule of packed sequences."""
    BATCH_PREFILL = "batch_prefill"
    BWD_DOT_DO_O = "bwd_dot_do_o"
    BWD_DQ_DK_DV = "bwd_dq_dk_dv"
    BWD_CONVERT_DQ = "bwd_convert_dq"

    @property
    def leads(self) -> bool:
        """Whether its kernels run before the main kernel of a forward pass."""
        return self in (Family.FWD_APPENDKV, Family.FWD_PREPARE)

    @property
    def backward(self) -> bool:
        """Whether it belongs to a backward pass."""
        return self.value.startswith("bwd")


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """Base of the free choices of a kernel (tile, waves, pipeline, padding ...).

    Each backend derives one frozen, keyword-only dataclass from it. Its fields are int, bool, str, a
    StrEnum, or a tuple of ints.
    """

    json_kept: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class KernelSpec:
    """One kernel for one architecture: its computation (``signature``) and its method (``algorithm``).

    ``arch`` keeps its suffix: sm_90a is not sm_90.
    """

    backend: str
    family: Family
    arch: str
    signature: Signature
    algorithm: Algorithm

    @property
    def name(self) -> str:
        """The canonical name ``backend:family:arch:signature:algorithm``; :func:`parse_kernel` reads it back."""
        parts = encode_fields(self.signature), encode_fields(self.algorithm)
        return ":".join((self.backend, self.family, self.arch, *parts))

    @property
    def digest(self) -> str:
        """sha256 (64 hex digits) over every field; stable across processes and hash seeds.

        The hashed text is the canonical JSON of ``{"schema": SCHEMA_VERSION, **to_json(self)}``. Its two large members
        are computed once for each signature and algorithm.
        """
        middle = _middle(self.arch, self.backend, self.family)
        text = f'{{"algorithm":{canonical_fields(self.algorithm)},{middle}{canonical_fields(self.signature)}}}'
        return hashlib.sha256(text.encode()).hexdigest()


@cache
def _middle(arch: str, backend: str, family: str) -> str:
    """The members between the two large ones in the text of a digest; the same for thousands of kernels."""
    arch, backend, family = (json.dumps(text) for text in (arch, backend, family))
    return f'"arch":{arch},"backend":{backend},"family":{family},"schema":{SCHEMA_VERSION},"signature":'


def parse_kernel(name: str, algorithms: Mapping[str, type[Algorithm]]) -> KernelSpec:
    """The kernel of a canonical name; ``algorithms`` maps each backend's name to its Algorithm class.

    Raises:
        UsageError: the name is not canonical, or names an unknown backend.
    """
    parts = name.split(":")
    if len(parts) != 5 or parts[1] not in Family._value2member_map_:
        raise UsageError(
            f"{name!r} is not a kernel name",
            code="E003",
            why="backend:family:arch:signature:algorithm",
            help="fmha list-kernels prints the names",
        )
    backend, family, arch, signature, algorithm = parts
    if backend not in algorithms:
        raise UsageError(
            f"kernel {name!r}: no backend {backend!r}", code="E004", help=f"one of {', '.join(algorithms)}"
        )
    return KernelSpec(
        backend=backend,
        family=Family(family),
        arch=arch,
        signature=decode_fields(signature, Signature),
        algorithm=decode_fields(algorithm, algorithms[backend]),
    )
