"""A backend for one test: the emitted text of a kernel, executed by Triton's interpreter on the host's memory.

It is a third opinion about the sources, in addition to the emulator and the reference. The interpreter computes whole
tiles in numpy, one program after the other. It knows nothing of warps, shared memory, layouts or instructions. It is
set up in the worker alone, because Triton reads ``TRITON_INTERPRET`` while it is imported.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fmha_triton import TritonBackend
from fmha_triton.algorithm import Language
from fmha_triton.arguments import auxiliaries, values_of
from fmha_triton.catalogue import algorithm_of, function_of
from fmha_triton.compiling import function_of as loaded_function
from fmha_triton.emit import arguments, constants, emit
from fmha_triton.plan import grid_of

from fmha_cli import api, plugin

ARCH, DEVICE = "sm_80", "interpreter"
"""The architecture whose configurations are used; the interpreter has no other."""


class InterpretedBackend(TritonBackend):
    """The kernels in Triton's language, with a device that every machine has."""

    probes_in_parent = True

    def __init__(self) -> None:
        super().__init__(driven=False)
        self.probes_in_parent = True

    def probe(self) -> plugin.Availability:
        device = plugin.DeviceFacts(id=DEVICE, archs=(ARCH,), name="Triton's interpreter", units=4)
        return plugin.Availability(state=plugin.State.OK, devices=(device,))

    def archs(self) -> tuple[str, ...]:
        return (ARCH,)

    def decide(self, problem: api.Problem, device: plugin.DeviceFacts) -> Iterable[api.Decision]:
        plain = plugin.DeviceFacts(id=DEVICE, archs=(ARCH,), units=4)
        found = super().decide(problem, plain)
        return [d for d in found if algorithm_of(d.kernel).language is Language.TRITON]

    def build(self, stage: plugin.Stage, context: plugin.BuildContext) -> plugin.Artifact:
        return plugin.no_build(stage, context)

    def cache_key(self, stage: plugin.Stage, context: plugin.BuildContext) -> object:
        return plugin.no_build_key(stage)

    def open(self, device: plugin.DeviceFacts) -> plugin.Session:
        return InterpretedSession()


class InterpretedSession(plugin.HostSession):
    """Launches every stage in the interpreter. Addresses are those of the arena."""

    def load(self, plan: plugin.Plan, artifacts: Sequence[Path]) -> None:
        os.environ["TRITON_INTERPRET"] = "1"
        _keep_truth()
        self._plan = plan
        self._functions = [_function(stage.kernel) for stage in plan.stages]

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        base = ctypes.addressof(ctypes.c_char.from_buffer(arena))
        self._kept = auxiliaries(self._plan.problem)
        places = {name: array.ctypes.data for name, array in self._kept.items()}
        self._call = plugin.Call(self._plan, None, tensors, base, places)

    def launch(self) -> tuple[int, ...]:
        times = []
        for stage, function in zip(self._plan.stages, self._functions, strict=True):
            start = time.perf_counter_ns()
            values = values_of(stage.kernel, self._call, self._plan.splits)
            given = {a.name: _value(a.type, values[a.name]) for a in arguments(stage.kernel)}
            grid = grid_of(self._plan.problem, stage.kernel, self._plan.splits, 1)
            with np.errstate(all="ignore"):  # -inf - -inf is in tiles that nothing stores
                function[grid](**given, **constants(stage.kernel))
            times.append(time.perf_counter_ns() - start)
        return tuple(times)


def _keep_truth() -> None:
    """The interpreter gives the result of a comparison the type of its operands when it spreads it over a tile, and then refuses it as a mask."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    spread = InterpreterBuilder.create_splat

    def create_splat(self: Any, kind: Any, one: Any) -> Any:
        made = spread(self, kind, one)
        return TensorHandle(made.data.astype(bool), made.dtype) if one.data.dtype == bool else made

    InterpreterBuilder.create_splat = create_splat


def _function(kernel: api.KernelSpec) -> Any:
    """The interpreted function of the text that the compiler gets."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(emit(kernel), "utf-8")
        function = loaded_function(path, function_of(kernel))
    vars(sys.modules["fmha_kernel"])["range"] = _numbers
    return function


def _numbers(*bounds: Any) -> Iterator[Any]:
    """``range`` in a kernel: its numbers are tensors there, as they are for the compiler. The interpreter's own are plain numbers."""
    from triton.runtime.interpreter import _implicit_cvt

    return (_implicit_cvt(number) for number in range(*(int(bound) for bound in bounds)))


def _value(kind: str, value: int | float) -> Any:
    """A value with the type that the compiled kernel has. A number is a tensor of its type; an address is a pointer."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    if not kind.startswith("*"):
        return value
    pointer = tl.pointer_type(tl.str_to_ty(kind[1:], None))
    return tl.tensor(TensorHandle(np.array([value], np.uint64), pointer), pointer)


backend = InterpretedBackend()


@plugin.hookimpl
def fmha_register_backends() -> Sequence[plugin.Backend]:
    return (backend,)
