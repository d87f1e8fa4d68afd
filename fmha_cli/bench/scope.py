"""``Scope``: where a tuned kernel counts. Any difference, and it does not.

As FlashInfer's autotuner, which keeps the versions of itself and of its libraries and the device's name next to its
choices, and rejects a file that differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.members import Count, Least


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Everything that must be as it was when kernels were tuned."""

    device: Annotated[str, "name of the device's model"]
    units: Annotated[int, Least(1), "cores, SMs or CUs"]
    driver: Annotated[str, "versions that the backend and the system's drivers state"]
    compiler: Annotated[str, "version of the compiler of both kernels"]
    source: Annotated[str, "digest of the source, flags and headers of both kernels"]
    codegen: Annotated[str, "versions of fmha and of its encoding"]
    threads: Annotated[Count, "of a kernel on the CPU"]
    cache: Annotated[str, "hot or cold"]

    @property
    def device_digest(self) -> str:
        """sha256 over the facts of the device alone; the store finds entries by it."""
        return digest_of([self.device, self.units, self.driver])

    @property
    def digest(self) -> str:
        """sha256 over every member."""
        return digest_of(to_json(self))

    def differences(self, now: Scope) -> tuple[str, ...]:
        """One text for each member that is different now."""
        return tuple(
            f"{field.name} {_shown(field.name, getattr(self, field.name))} then, {_shown(field.name, getattr(now, field.name))} now"
            for field in fields(self)
            if getattr(self, field.name) != getattr(now, field.name)
        )


def _shown(name: str, value: object) -> str:
    return str(value)[:12] if name == "source" else str(value) or "unknown"


def joined_versions(*versions: str | None) -> str:
    """Versions that a backend and the system state, as one text."""
    return ", ".join(version for version in versions if version)


def source_digest(parts: Sequence[object]) -> str:
    """The digest of the kernels' sources."""
    return digest_of(list(parts))
