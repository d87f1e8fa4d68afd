"""From the sizes of a call to its problem, or to the Reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import Bias
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.workload import NO_FLAGS, NO_PROBLEM, NO_SIZES, WorkloadCall


class UnmappedCall(Exception):
    """No problem describes a call."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


def described(place: str, flags_of: Callable[[], Mapping[str, object]], count: int = 1) -> WorkloadCall:
    """The call whose flags, as ``Problem.of`` takes them, a function finds, or refuses by ``UnmappedCall``."""
    try:
        problem = Problem.of(**flags_of())
    except UnmappedCall as fault:
        return WorkloadCall(count=count, place=place, reason=fault.reason)
    except UsageError as fault:
        return WorkloadCall(count=count, place=place, reason=NO_PROBLEM(fault.in_one_line, fault.help))
    return WorkloadCall(count=count, place=place, problem=problem)


def bias_flags(mask: Sequence[int], batch: int, heads: int, rows: int, keys: int) -> dict[str, object]:
    """The flags of a bias, or of a mask that is a tensor, by its shape; its axes are the last ones of (batch, heads, queries, keys).

    Raises:
        UnmappedCall: it does not broadcast, or in a way that no flag describes.
    """
    whole = (batch, heads, rows, keys)
    shape = (1,) * (4 - len(mask)) + tuple(mask)
    if len(mask) > 4 or any(size not in (1, full) for size, full in zip(shape, whole, strict=True)):
        text = f"a mask of shape {tuple(mask)} does not broadcast to (batch, heads, queries, keys) = {whole}"
        raise UnmappedCall(NO_PROBLEM(text))
    large = (batch > 1 and shape[0] > 1, heads > 1 and shape[1] > 1, shape[2] == rows, shape[3] == keys)
    rank = "".join(letter if full else "1" for letter, full in zip("bhss", large, strict=True))
    if rank not in {one.value for one in Bias}:
        raise UnmappedCall(NO_FLAGS(f"no --bias elementwise:RANK has the broadcast of a mask of shape {tuple(mask)}"))
    return {"bias": f"elementwise:{rank}"}


def one_type(types: Sequence[str], known: Mapping[str, str]) -> str:
    """The ``--dtype`` of tensors that have one element type.

    Raises:
        UnmappedCall: they have several, or one that fmha does not compute with.
    """
    if "" in types:
        raise UnmappedCall(NO_SIZES("the file does not say the element types"))
    names = list(dict.fromkeys(types))
    if len(names) > 1 or names[0] not in known:
        raise UnmappedCall(NO_FLAGS(f"element types {', '.join(names)}"))
    return known[names[0]]
