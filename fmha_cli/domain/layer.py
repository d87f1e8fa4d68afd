"""``Layer``: the layers of a model for which a problem stands, and how often the model has them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    """The place of a problem in a model.

    Attributes:
        model: the name of the preset, or the path of the configuration.
        weight: the attention calls of the model that have this problem: its layers of this kind, times the calls of one.
        assumed: no table knows the model; its attention was taken to be the usual one.
    """

    model: str
    kind: LayerKind
    phase: LayerPhase
    weight: int
    assumed: bool = False

    @property
    def text(self) -> str:
        """The layer as words: ``52 local``, ``32 global, assumed``."""
        return f"{self.weight} {self.kind}{', assumed' if self.assumed else ''}"
