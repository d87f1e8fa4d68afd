"""A complete backend for fmha: float32 attention by the textbook formula, in C++, for any CPU.

It supports batch mode, float32, no mask or a causal one, and any head dims and head counts. The core rules refuse
everything else; they follow from the signature alone.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fmha_cli import api, plugin

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <vector>
struct Args { float *q, *k, *v, *o, *lse; int64_t sizes[7], strides[5][3]; float scale; int32_t causal; };
extern "C" void fmha_example(const Args* a) {
  const auto [batch, heads, kv_heads, sq, sk, d, dv] = a->sizes;
  auto row = [&](float* t, int n, int64_t b, int64_t h, int64_t i) {
    return t + b * a->strides[n][0] + h * a->strides[n][1] + i * a->strides[n][2];
  };
  std::vector<float> p(sk);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < sq; ++i) {
        const int64_t g = h / (heads / kv_heads), end = a->causal ? i + sk - sq + 1 : sk, n = end < 0 ? 0 : end;
        const float* q = row(a->q, 0, b, h, i);
        float* o = row(a->o, 3, b, h, i);
        float top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; ++j) {
          const float* k = row(a->k, 1, b, g, j);
          p[j] = 0;
          for (int64_t c = 0; c < d; ++c) p[j] += q[c] * k[c] * a->scale;
          top = p[j] > top ? p[j] : top;
        }
        for (int64_t j = 0; j < n; ++j) sum += p[j] = std::exp(p[j] - top);
        for (int64_t c = 0; c < dv; ++c) {
          o[c] = 0;
          for (int64_t j = 0; j < n; ++j) o[c] += p[j] / sum * row(a->v, 2, b, g, j)[c];
        }
        if (a->lse) *row(a->lse, 4, b, h, i) = n ? top + std::log(sum) : -INFINITY;
      }
}
"""


class Args(ctypes.Structure):
    """The struct in SOURCE, field by field; strides (batch, head, row) of q, k, v, o, lse in elements."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse")),
        ("sizes", ctypes.c_int64 * 7),
        ("strides", ctypes.c_int64 * 15),
        ("scale", ctypes.c_float),
        ("causal", ctypes.c_int32),
    ]


@dataclass(frozen=True, kw_only=True)
class ExampleAlgorithm(plugin.Algorithm):
    """This backend has no free choices."""


class ExampleSession(plugin.HostSession):
    """One loaded library in the worker process."""

    def load(self, plan: plugin.Plan, artifacts: Sequence[Path]) -> None:
        self.problem = plan.problem
        self.entry = ctypes.CDLL(str(artifacts[0])).fmha_example

    def bind(self, arena: memoryview, tensors: Mapping[str, plugin.BoundTensor], threads: int) -> None:
        p, base = self.problem, ctypes.addressof(ctypes.c_char.from_buffer(arena))
        here = [(name, tensors[name]) for name in ("q", "k", "v", "o", "lse") if name in tensors]
        strides: list[int] = []
        for name, tensor in here:
            s, layout = tensor.strides, p.layout_of(name)
            strides += s[:3] if name == "lse" or layout.value == "bhsd" else (s[0], s[2], s[1])
        self.args = Args(scale=p.scale, causal=p.mask.kind is plugin.MaskKind.CAUSAL)
        for name, tensor in here:
            setattr(self.args, name, base + tensor.offset)
        self.args.sizes[:] = (p.batch, p.heads, p.kv_heads, p.seqlen_q, p.seqlen_k, p.hdim, p.hdim_v)
        self.args.strides[: len(strides)] = strides

    def launch(self) -> tuple[int, ...]:
        start = time.perf_counter_ns()
        self.entry(ctypes.byref(self.args))
        return (time.perf_counter_ns() - start,)


class ExampleBackend:
    """The five methods of a backend."""

    name = "example"
    algorithm: type[plugin.Algorithm] = ExampleAlgorithm
    dropout_stream = "fmha"
    probes_in_parent = True
    automatic = False

    def probe(self) -> plugin.Availability:
        return plugin.Availability(state=plugin.State.OK, devices=(plugin.DeviceFacts(id="cpu", archs=self.archs()),))

    def archs(self) -> tuple[str, ...]:
        return ("generic",)

    def kernels(self, arch: plugin.ArchSpec) -> Iterator[api.KernelSpec]:
        base = plugin.Signature(dtype=plugin.DType.FP32, dtype_out=plugin.DType.FP32, hdim=1 << 20, hdim_v=1 << 20)
        for mask in (plugin.MaskKey.NONE, plugin.MaskKey.CAUSAL):
            signature = replace(base, mask=mask, gqa=plugin.Need.ANY, lse=plugin.Need.ANY)
            name, fwd, only = self.name, plugin.Family.FWD, ExampleAlgorithm()
            yield api.KernelSpec(backend=name, family=fwd, arch=arch.name, signature=signature, algorithm=only)

    def rules(self) -> tuple[plugin.Rule, ...]:
        return plugin.CORE_RULES

    def decide(self, problem: api.Problem, device: plugin.DeviceFacts) -> Iterator[api.Decision]:
        for kernel in self.kernels(plugin.load_arch("generic")):
            reasons = plugin.reasons_against(self.rules(), problem, kernel, device)
            yield (
                api.Unsupported(self.name, kernel.arch, kernel, tuple(reasons))
                if reasons
                else api.Supported(kernel, (0,))
            )

    def plan(self, problem: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Plan:
        return plugin.Plan(problem, (plugin.Stage(kernel),))

    def build(self, stage: plugin.Stage, context: plugin.BuildContext) -> plugin.Artifact:
        return plugin.build_cpp(plugin.kernel_build(stage.kernel, SOURCE), context)

    def inspect(self, kernel: api.KernelSpec, artifact: plugin.Artifact) -> dict[str, object]:
        return {"bytes": artifact.path.stat().st_size}

    def upstream_name(self, kernel: api.KernelSpec) -> str | None:
        return None

    def open(self, device: plugin.DeviceFacts) -> plugin.Session:
        return ExampleSession()


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [ExampleBackend()]
