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


class Phase(StrEnum):
    """What a model does with a sequence."""

    PREFILL = "prefill"
    """All queries of a prompt at once."""
    DECODE = "decode"
    """One query for each sequence, against all its keys."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The place of a problem in a model.

    Attributes:
        model: the name of the preset, or the path of the configuration.
        weight: the number of the model's layers that have this problem.
    """

    model: str
    kind: LayerKind
    phase: Phase
    weight: int

    @property
    def text(self) -> str:
        """The layer as a word: ``52 local``."""
        return f"{self.weight} {self.kind}"
