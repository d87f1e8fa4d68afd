"""``Invariance``: a change around a sequence that should leave its result as it is, bit for bit; and what kernels promise of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Protocol, runtime_checkable

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import Alibi, Direction, QScale
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.mask import Align, MaskKind
from fmha_cli.domain.members import Count, Hidden
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.suggest import suggest


class Invariance(StrEnum):
    """What changes, and must not change the result of a sequence, its rows and its LSE."""

    REPEATS = "repeats"
    """Nothing: the same launch again."""
    BATCH = "batch"
    """The sequence stands in a batch, at any place."""
    LENGTHS = "lengths"
    """Sequences of other lengths stand beside it."""
    CHUNKS = "chunks"
    """Its queries come in pieces, against the same keys."""
    PADDING = "padding"
    """Its keys lie in a longer buffer, of which they are the used part."""
    PAGES = "pages"
    """Its keys lie in other pages."""
    SPLITS = "splits"
    """Its keys are split in another number of parts."""
    THREADS = "threads"
    """The kernel has another number of threads."""
    UNITS = "units"
    """The device has another number of SMs or CUs."""


BATCH_INVARIANT = "batch-invariant"
"""The name of all that a server changes around a sequence, whose own queries it leaves together."""

AROUND = frozenset((Invariance.BATCH, Invariance.LENGTHS, Invariance.PADDING, Invariance.PAGES))
"""What it stands for."""


@dataclass(frozen=True, kw_only=True)
class BitDifference:
    """Where the bits of two outputs differ."""

    tensor: str
    index: Annotated[tuple[Count, ...], "of the first such element, in the order of the tensor's axes"]
    differing: Annotated[Count, "elements that differ"]
    elements: Annotated[Count, "of the tensor"]
    first: Annotated[float | None, "the element as it was; null: not finite"]
    second: Annotated[float | None, "the element as it is; null: not finite"]
    first_bits: str
    second_bits: str
    what: Annotated[str, Hidden()] = "differ"

    def __str__(self) -> str:
        place = f"{self.differing} of {self.elements} elements {self.what}, first at {list(self.index)}"
        sides = ((self.first, self.first_bits), (self.second, self.second_bits))
        values = [bits if value is None else f"{value:.9g}" for value, bits in sides]
        if values[0] == values[1]:  # signs of zero, and digits that are not shown
            values = [self.first_bits, self.second_bits]
        return f"{self.tensor}: {place}: {' and '.join(values)}"


@runtime_checkable
class Promising(Protocol):
    """A backend whose kernels promise invariances."""

    def promises(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> frozenset[Invariance] | None:
        """What a kernel that serves a problem promises about it; None: nothing is known. A broken promise is a wrong result.

        A promise holds between all kernels of the backend that give it: the changed problem may be served by another one of them.
        """


def parse_required(text: str, where: str) -> tuple[Invariance, ...]:
    """The invariances that a comma list names; none for no text.

    Raises:
        UsageError: E002, no such name.
    """
    found: set[Invariance] = set()
    for name in map(str.strip, text.split(",") if text else ()):
        if name == BATCH_INVARIANT:
            found |= AROUND
        elif name in Invariance._value2member_map_:
            found.add(Invariance(name))
        else:
            help = suggest(name, (BATCH_INVARIANT, *Invariance))
            raise UsageError(f"{where} {name}: no such property", code="E002", where=where, help=help)
    return tuple(one for one in Invariance if one in found)


def required_text(required: Sequence[Invariance]) -> str:
    """The shortest text that ``parse_required`` reads back."""
    whole = set(required) >= AROUND
    return ",".join(
        (*([BATCH_INVARIANT] if whole else []), *(one for one in required if not (whole and one in AROUND)))
    )


def why_unchangeable(property: Invariance, problem: Problem, device: DeviceFacts) -> str | None:
    """Why there is nothing to change, or why the formulas give another result then; None if a property is about the problem."""
    match property:
        case Invariance.REPEATS:
            return None
        case Invariance.THREADS:
            return None if has_threads(device) else f"the threads of {device.id} are a part of its kernels"
        case Invariance.UNITS:
            return None if device.emulated else f"an emulated device may have other units, {device.id} may not"
        case Invariance.PAGES:
            return None if problem.paged else "the keys lie in no pages"
        case Invariance.SPLITS:
            return None if problem.direction is not Direction.BWD else "a backward pass splits no keys"
    return _why_not_moved(property, problem)


def has_threads(device: DeviceFacts) -> bool:
    """Whether the caller says how many threads a kernel has: not on a GPU."""
    return not (device.accelerator or device.emulated)


def _why_not_moved(property: Invariance, p: Problem) -> str | None:
    """As ``why_unchangeable``, of a change that moves the sequence to other tensors."""
    if p.dropout:
        return "dropout is drawn by the place in the batch and among the rows"
    if p.direction is Direction.BWD:
        return "a backward pass alone reads O and LSE of a forward pass; --direction fwd+bwd has both"
    if p.dbias:
        return "dBias is a sum over the sequences that share a bias"
    if p.append or p.cache_batch_idx is not None or p.cache_leftpad is not None:
        return "keys that are appended, an index of the cache and left padding are not moved"
    if p.qscale in (QScale.BLOCK, QScale.KV_BLOCK, QScale.MX) or p.dtype.is_mx:
        return "scales of blocks are not moved"
    if property is Invariance.PADDING and p.direction.backward:
        return "a cache has no gradients"
    if property is not Invariance.CHUNKS:
        return None
    if p.direction.backward:
        return "dK and dV are sums over all queries"
    if max(p.query_lengths()) <= 1:
        return "one query has no pieces"
    if max(p.query_lengths()) > max(p.key_lengths()):
        return "the first queries see no key"
    if p.mask.kind is MaskKind.NONE and p.alibi is Alibi.NONE:
        return None
    if p.mask.align is Align.BOTTOM_RIGHT and p.mask.right == 0:
        return None
    return "a piece ends at its last query, and the mask or the slopes count from other keys then"
