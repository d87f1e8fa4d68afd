"""``PlacedKernel``: a CPU kernel loaded into this process, on tensors where they lie. It is the one exception to "the kernel runs
in a child process": for kernels that have passed a check there, and by ``in_process=True`` alone.

Tensors of PyTorch are read through their own methods: a capsule of DLPack would cost more than a small kernel. Those of other libraries
are lent by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.protocols import Backend, BoundTensor, Placed
from fmha_cli.domain.tensors import Element, Role, TensorShape, shapes_of
from fmha_cli.oracle.tensors import Array, numpy_dtype
from fmha_cli.run.dlpack import handed_to, has_dlpack, lent, refused
from fmha_cli.run.given_arrays import TENSORS
from fmha_cli.run.job import Loadable, WorkerJob
from fmha_cli.run.layout import ALIGN, WORKSPACE_DTYPE, dense_strides
from fmha_cli.run.loading import load
from fmha_cli.run.worker import verified

DIRECT_BESIDE = frozenset({"bias", "sink_logits"})
DIRECT = frozenset({"q", "k", "v", "do", "o", "lse"}) | DIRECT_BESIDE
"""Tensors that a kernel may read where they lie. The values of others (tables, scales) are checked or converted first."""

_TORCH = {
    "torch.float32": Element.FP32,
    "torch.float16": Element.FP16,
    "torch.bfloat16": Element.BF16,
    "torch.float8_e4m3fn": Element.FP8_E4M3,
    "torch.float8_e5m2": Element.FP8_E5M2,
    "torch.float8_e4m3fnuz": Element.FP8_E4M3_FNUZ,
    "torch.float8_e5m2fnuz": Element.FP8_E5M2_FNUZ,
}
Form = tuple[object, ...]


def placed(tensor: Any, name: str, *, writable: bool = False) -> Any:
    """A tensor as this module reads it: as it is, or a view of one of another library; None for what is no tensor, and for masked arrays.

    Raises:
        UsageError: E039, see ``lent``.
    """
    if isinstance(tensor, np.ndarray):
        return None if isinstance(tensor, np.ma.MaskedArray) else tensor
    if hasattr(tensor, "data_ptr"):
        return tensor
    return lent(tensor, name, writable=writable) if has_dlpack(tensor) else None


def direct_tensors(values: Mapping[str, object], more: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors of a call by their names: as they are given, and as this module reads them (``placed``).

    Raises:
        UsageError: E043, one that a kernel cannot read where it lies; a known form of the others says nothing about it.
    """
    beside = {n: x for n, x in more.items() if n in DIRECT_BESIDE and not isinstance(x, str)}
    inputs = {n: x for n, x in (*values.items(), *beside.items()) if x is not None}
    tensors = {n: placed(x, n) for n, x in inputs.items()}
    others = (n for n, x in more.items() if n in (*TENSORS, "tensors") and not isinstance(x, str | None))
    apart = [*(n for n, x in tensors.items() if x is None), *(n for n in others if n not in beside)]
    if apart:
        what = f"in_process=True takes {', '.join(sorted(DIRECT))} as tensors in host memory, and no other tensors"
        raise UsageError(what, code="E043", where=apart[0], help="in_process=False")
    return inputs, tensors


def form_of(tensor: Any, name: str) -> Form:
    """Shape, strides and element type of an array or a tensor of PyTorch.

    Raises:
        UsageError: E039, a tensor that is not in host memory, wants gradients, or stands for other numbers than its memory holds.
    """
    if isinstance(tensor, np.ndarray):
        return tensor.shape, tensor.strides, tensor.dtype
    if not tensor.is_cpu:
        raise UsageError(f"{name} is on {tensor.device}", code="E039", where=name, help=f"pass {name}.cpu()")
    if tensor.requires_grad:
        what, why = f"{name} wants gradients", "this call records none"
        raise UsageError(what, code="E039", where=name, why=why, help=f"pass {name}.detach()")
    if tensor.is_neg():
        raise UsageError(f"{name} is a negated view", code="E039", where=name, help=f"pass {name}.resolve_neg()")
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def bound_tensor(tensor: Any, name: str, shape: TensorShape) -> BoundTensor | None:
    """The tensor with its address as offset, if it has the problem's shape and type and dense rows; else None."""
    if isinstance(tensor, np.ndarray):
        item = tensor.itemsize
        strides = tuple(stride // item for stride in tensor.strides)
        fits = tensor.dtype == numpy_dtype(shape.dtype) and not any(stride % item for stride in tensor.strides)
    else:
        strides, fits = tuple(tensor.stride()), _TORCH.get(str(tensor.dtype)) is shape.dtype
    if not fits or tuple(tensor.shape) != shape.shape or strides[-1] != 1 or min(strides) < 1:
        return None
    return BoundTensor(name, address_of(tensor), shape.dtype.value, shape.shape, strides)


def address_of(tensor: Any) -> int:
    """The address of element 0."""
    data = tensor.__array_interface__["data"][0] if isinstance(tensor, np.ndarray) else tensor.data_ptr()
    return int(data)


@dataclass
class PlacedKernel:
    """One problem's kernel in this process. Use it in one thread at a time.

    Attributes:
        session: a ``Session`` that is also ``Placed``.
        workspaces: memory that the kernel writes to.
        empty: by output, a tensor of PyTorch without elements whose ``new_empty`` has the output's type.
        libraries: digests of the stages' artifacts. Kernels of one library share its threads, which ``close`` ends.
    """

    session: Any
    outputs: Mapping[str, TensorShape]
    workspaces: tuple[Array, ...]
    empty: dict[str, Any]
    libraries: frozenset[str]

    @classmethod
    def of(cls, job: WorkerJob, inputs: Mapping[str, Any]) -> PlacedKernel:
        """The kernel, bound to the form of ``inputs``.

        Raises:
            UsageError: E043, a tensor must be copied first, or made; or the kernel's backend runs in a child process only.
            KernelFailure: it does not load.
        """
        shapes = shapes_of(job.plan.problem)
        tensors = {name: bound_tensor(tensor, name, shapes[name]) for name, tensor in inputs.items()}
        outputs = {name: shape for name, shape in shapes.items() if shape.role is not Role.INPUT}
        for name, bound in tensors.items():
            if bound is None:
                (_, strides, kind), dtype = form_of(inputs[name], name), shapes[name].dtype.value
                raise _must_copy(
                    name, f"its type is {kind} and its strides are {strides}; {dtype} with dense rows is needed"
                )
        for name in set(shapes) - set(inputs) - set(outputs):
            raise _must_copy(name, f"the problem has a tensor {name}, which is made from flags or in another form")
        places = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        for name, shape in outputs.items():
            bound = BoundTensor(name, ALIGN, shape.dtype.value, shape.shape, dense_strides(shape.shape))
            places.setdefault(name, bound)  # ``launch`` says where
        work = []
        for space in job.plan.workspaces:
            align = max(ALIGN, space.align)
            work.append(np.empty(space.bytes + align, np.uint8))
            start = -(-address_of(work[-1]) // align) * align
            places[space.name] = BoundTensor(space.name, start, WORKSPACE_DTYPE, (space.bytes,), (1,))
        backend: Backend = load(job.entry, job.backend, Backend)
        session = backend.open(job.device)
        if not isinstance(session, Placed):
            what = f"in_process=True: {job.backend} runs in a child process only"
            raise UsageError(what, code="E043", where="in_process", help='backend="cpu"')
        session.load(job.plan, [verified(Loadable.of(artifact)) for artifact in job.artifacts])
        session.place(places, job.threads)
        return cls(session, outputs, tuple(work), {}, frozenset(artifact.digest for artifact in job.artifacts))

    def launch(self, inputs: Mapping[str, Any], out: Mapping[str, Any], like: Any) -> dict[str, Any]:
        """Launch on tensors of the bound form; the outputs that ``out`` does not give are new.

        Args:
            like: a tensor of the library of new outputs.

        Raises:
            UsageError: E039, an output of another form, or one that shares memory with a tensor that is read.
            KernelFailure, MemoryError: as ``Session.launch``.
        """
        unknown = next((name for name in out if name not in self.outputs), None)
        if unknown is not None:
            what = f"out[{unknown!r}]: the problem has no such output"
            raise UsageError(what, code="E039", where="out", help=f"outputs: {', '.join(self.outputs)}")
        given = {name: self._given(tensor, name) for name, tensor in out.items()}
        if given:
            _refuse_shared(inputs, given)
        outputs = {name: given[name] if name in given else self._made(name, inputs["q"]) for name in self.outputs}
        self.session.move({name: address_of(tensor) for name, tensor in (*inputs.items(), *outputs.items())})
        self.session.launch()
        for name, tensor in outputs.items():
            if name in out:
                outputs[name] = out[name]
            elif like is not inputs["q"]:
                outputs[name] = handed_to(like, tensor, name)
        return outputs

    def _made(self, name: str, q: Any) -> Any:
        shape = self.outputs[name]
        if isinstance(q, np.ndarray):
            return np.empty(shape.shape, numpy_dtype(shape.dtype))
        if name not in self.empty:
            empty = np.empty(0, numpy_dtype(shape.dtype))
            self.empty[name] = handed_to(q, empty, name)
        return self.empty[name].new_empty(shape.shape)

    def _given(self, tensor: Any, name: str) -> Any:
        shape, what = self.outputs[name], f"out[{name!r}]"
        found = placed(tensor, what, writable=True)
        if found is None:
            raise refused(
                what, f"it is a {type(tensor).__name__}", "pass a NumPy array or a tensor of the host", "written"
            )
        bound, (size, strides, kind) = bound_tensor(found, name, shape), form_of(found, what)
        array = isinstance(found, np.ndarray)
        typed = kind == numpy_dtype(shape.dtype) if array else _TORCH.get(str(kind)) is shape.dtype
        if array and not found.flags.writeable:
            why = "it is read-only"
        elif size != shape.shape:
            why = f"its shape is {size}, and {name} has {shape.shape}"
        elif not typed:
            why = f"its type is {kind}, and {name} has {shape.dtype.value}"
        elif bound is None or bound.strides != dense_strides(shape.shape):
            why = f"its strides are {strides}: it is not dense in C order"
        else:
            return found
        raise refused(what, why, "leave it out for a new one", "written")

    def give_way(self, others: Iterable[PlacedKernel]) -> None:
        """Close, unless others use a library of this one: its threads would start anew for each further length of a cache."""
        if all(self.libraries.isdisjoint(one.libraries) for one in others):
            self.close()

    def close(self) -> None:
        """Unload the kernel's threads and memory."""
        self.session.close()


def _must_copy(name: str, why: str) -> UsageError:
    what, help = f"in_process=True cannot take {name} where it lies", "in_process=False copies and converts"
    return UsageError(what, code="E043", where=name, why=why, help=help)


def _refuse_shared(inputs: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse outputs that lie in the memory of an input or of each other."""
    places = {name: extent_of(tensor) for name, tensor in (*inputs.items(), *given.items())}
    for (name, (start, end)), (other, (first, past)) in combinations(places.items(), 2):
        if other in given and start < past and first < end:
            raise refused(f"out[{other!r}]", f"it shares memory with {name}", "pass memory of its own", "written")


def extent_of(tensor: Any) -> tuple[int, int]:
    """The addresses of the first byte and of the one behind the last."""
    item = tensor.itemsize
    strides = tensor.strides if isinstance(tensor, np.ndarray) else [item * stride for stride in tensor.stride()]
    start = address_of(tensor)
    return start, start + item + sum((n - 1) * stride for n, stride in zip(tensor.shape, strides, strict=True))
