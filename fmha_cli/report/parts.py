"""Parts that several documents share, and the names by which schemas refer to them."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from fmha_cli import __version__
from fmha_cli.domain.codec import taken_from, to_json
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.emulation import Executed, Finding
from fmha_cli.domain.errors import ExitCode, FmhaError
from fmha_cli.domain.features import Direction, Mode
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.members import Below, Count, FewestItems, Least, Pattern, Sha256
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.signature import Signature
from fmha_cli.report.rows import KernelRow
from fmha_cli.report.table import Column
from fmha_cli.report.units import size

_DTYPES = "|".join(dtype.value for dtype in DType)
Lengths = Annotated[tuple[Count, ...], FewestItems(1)]


class ProblemRow(TypedDict):
    """What ``Problem.to_dict`` gives: every problem flag that has a value."""

    batch: Annotated[int, Least(1), "sequences"]
    heads: Annotated[int, Least(1), "query heads"]
    kv_heads: Annotated[int, Least(1), "key/value heads"]
    seqlen_q: Annotated[int, Least(0), "queries; the largest over the batch"]
    seqlen_k: Annotated[int, Least(0), "keys, appended ones included; the largest over the batch"]
    hdim: Annotated[int, Least(1), "head dim of Q and K"]
    hdim_v: Annotated[int, Least(1), "head dim of V"]
    dtype: Annotated[
        str, Pattern(f"^({_DTYPES})(:({_DTYPES}))?$"), "IN, or IN:OUT where the output differs from the default"
    ]
    mask: Annotated[
        str,
        Pattern("^(none|causal|causal-tl|(window|window-tl|generic):-?[0-9]+,-?[0-9]+)$"),
        "canonical spelling",
    ]
    mode: Mode
    layout: Annotated[str, Pattern("^(bhsd|bshd)(:(bhsd|bshd))?$"), "IN, or IN:OUT"]
    direction: Direction
    scale: Annotated[float, "softmax scale"]
    lse: Annotated[bool, "log-sum-exp is asked for"]
    sink: NotRequired[Count]
    sink_logits: NotRequired[bool]
    bias: NotRequired[Literal["11ss", "1hss", "bhss"]]
    alibi: NotRequired[Literal["standard", "h", "bh"]]
    softcap: NotRequired[Annotated[float, "0 is off"]]
    dropout: NotRequired[Annotated[float, Least(0), Below(1)]]
    seed: NotRequired[Count]
    offset: NotRequired[Count]
    seqlens_q: NotRequired[Annotated[Lengths, "group mode: queries per sequence"]]
    seqlens_k: NotRequired[Annotated[Lengths, "group mode: keys per sequence"]]
    kv_cache: NotRequired[Annotated[str, Pattern("^(linear|paged:[1-9][0-9]*)$")]]
    cache_seqlens: NotRequired[Annotated[Lengths, "keys before append"]]
    cache_leftpad: NotRequired[Annotated[Lengths, "padding rows of a linear cache in front of each sequence's keys"]]
    append: NotRequired[Count]
    rotary: NotRequired[Annotated[str, Pattern("^[1-9][0-9]*(:interleaved)?$")]]
    splits: NotRequired[Annotated[int, Least(1)]]
    qscale: NotRequired[Literal["tensor", "block", "kv-block", "mx", "head"]]
    deterministic: NotRequired[bool]
    dbias: NotRequired[bool]


@dataclass(frozen=True, kw_only=True)
class ErrorRow:
    """An error: what is wrong, where, why, and what to do."""

    code: str
    exit_code: ExitCode
    what: str
    where: str | None
    why: str | None
    help: str | None

    @staticmethod
    def of(error: FmhaError) -> ErrorRow:
        """The row of an error."""
        return taken_from(error, ErrorRow)


@dataclass(frozen=True, kw_only=True)
class DeviceRow:
    """One device as a backend describes it; unknown sizes are None."""

    id: Annotated[str, Column("device", kept=True)]
    backend: Annotated[str, Column("backend")]
    name: Annotated[str, Column("name")]
    archs: Annotated[tuple[str, ...], "accepted architectures, best first", Column("archs")]
    units: Annotated[int, Least(0), "cores, SMs or CUs", Column("units", number=True)]
    memory_bytes: Annotated[Count | None, Column("memory", size)]
    llc_bytes: Annotated[Count | None, Column("last-level cache", size)]

    @staticmethod
    def of(backend: str, device: DeviceFacts) -> DeviceRow:
        """The row of a device."""
        memory, cache = device.memory_bytes or None, device.llc_bytes or None
        return taken_from(device, DeviceRow, backend=backend, memory_bytes=memory, llc_bytes=cache)


@dataclass(frozen=True, kw_only=True)
class BackendRow:
    """One backend's state; ``why`` and ``help`` are None if the backend can run."""

    state: State
    version: str | None
    why: str | None
    help: str | None

    @staticmethod
    def of(found: Availability) -> BackendRow:
        """The row of a probe's result."""
        return taken_from(found, BackendRow)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What ran here."""

    fmha: str
    python: str
    platform: str
    devices: tuple[DeviceRow, ...]
    backends: Mapping[str, BackendRow]


def device_rows(backends: Mapping[str, Availability]) -> tuple[DeviceRow, ...]:
    """Every device that a backend found, with the backend's name; several backends may list the same device."""
    return tuple(DeviceRow.of(name, device) for name, found in sorted(backends.items()) for device in found.devices)


def backend_rows(backends: Mapping[str, Availability]) -> dict[str, BackendRow]:
    """The reply of every backend that was asked, by its name."""
    return {name: BackendRow.of(found) for name, found in sorted(backends.items())}


def environment(backends: Mapping[str, Availability]) -> dict[str, Any]:
    """Versions, platform, and the reply of every backend that was asked, by backend name."""
    return to_json(
        Environment(
            fmha=__version__,
            python=platform.python_version(),
            platform=platform.platform(),
            devices=device_rows(backends),
            backends=backend_rows(backends),
        )
    )


@dataclass(frozen=True, kw_only=True)
class ArtifactRow:
    """A built kernel: the file, its hash, the cache key's digest, and its origin."""

    path: Path
    sha256: Sha256
    digest: Annotated[Sha256, "of the cache key"]
    cached: Annotated[bool, "it was there already"]
    build_ns: Annotated[int, Least(0), "what building it took (then, if cached)"]
    prebuilt_by: Annotated[str | None, "compiler of a kernel that an archive brought"]
    log: Path

    @staticmethod
    def of(artifact: Artifact) -> ArtifactRow:
        """The row of an artifact."""
        return taken_from(artifact, ArtifactRow, build_ns=round(artifact.build_seconds * 1e9))


COMMON: Mapping[str, Any] = MappingProxyType(
    {
        "family": Family,
        "sha256": Sha256,
        "signature": Annotated[Signature, "What a kernel is compiled for; any = chosen at run time."],
        "problem": Annotated[ProblemRow, "Every problem flag that has a value; the required ones always."],
        "kernel": KernelRow,
        "reason": Reason,
        "error": ErrorRow,
        "finding": Annotated[Finding, "One place in a kernel where an emulated device saw what hardware would hide."],
        "executed": Annotated[
            Executed, "What the launches of one GPU kernel did on an emulated device, summed over its waves."
        ],
        "device": DeviceRow,
        "backend": BackendRow,
        "environment": Environment,
        "artifact": Annotated[ArtifactRow, "A built kernel in the cache."],
    }
)
"""What schemas of several documents refer to, by name."""
