"""``Layer``: the calls of a model, or of a workload, for which a problem stands, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from fmha_cli.domain.members import Count


class LayerKind(StrEnum):
    """How far a layer's queries see. The layers of one kind have the same attention problem."""

    LOCAL = "local"
    """The last keys alone, in a sliding window."""
    GLOBAL = "global"
    """Every key up to the query's own."""


class LayerPhase(StrEnum):
    """How a model processes a sequence."""

    PREFILL = "prefill"
    """All queries of a prompt at once."""
    DECODE = "decode"
    """One query for each sequence, against all its keys."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The place of a problem in a model, or in a workload.

    Attributes:
        model: the name of the preset, or the path of the configuration, or of the workload's file.
        kind, phase: None in a workload, which knows no layers.
        weight: the attention calls that have this problem: of a model, its layers of this kind, times the calls of one.
        assumed: no table knows the model; its attention was taken to be the usual one.
        calls: all attention calls of the workload, those without a problem included; None for a model.
    """

    model: str
    kind: LayerKind | None
    phase: LayerPhase | None
    weight: int
    assumed: bool = False
    calls: Annotated[Count | None, "of a workload: all its attention calls"] = None

    json_later: ClassVar[tuple[str, ...]] = ("calls",)

    @property
    def text(self) -> str:
        """The layer as words: ``52 local``, ``32 global, assumed``; in a workload ``12 calls``."""
        return f"{self.weight} {self.kind or 'calls'}{', assumed' if self.assumed else ''}"
