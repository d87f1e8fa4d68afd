"""A complete backend for fmha: float32 attention by the textbook formula, in C++, for any CPU.

It serves batch mode, float32, no mask or a causal one, any head dims and head counts. Everything else is
refused by the core rules, which follow from the signature alone.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli import api

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <vector>
struct Args { const float *q, *k, *v; float *o, *lse; int64_t sizes[7], q_strides[3], k_strides[3], v_strides[3],
              o_strides[3]; float scale; int32_t causal; };
extern "C" int fmha_example(const Args* a) {
  const auto [batch, heads, kv_heads, sq, sk, d, dv] = a->sizes;
  std::vector<float> p(sk);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < sq; ++i) {
        const int64_t g = h / (heads / kv_heads), end = a->causal ? i + sk - sq + 1 : sk, n = end < 0 ? 0 : end < sk ? end : sk;
        const float* q = a->q + b * a->q_strides[0] + h * a->q_strides[1] + i * a->q_strides[2];
        float* o = a->o + b * a->o_strides[0] + h * a->o_strides[1] + i * a->o_strides[2];
        float top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; ++j) {
          const float* k = a->k + b * a->k_strides[0] + g * a->k_strides[1] + j * a->k_strides[2];
          float s = 0;
          for (int64_t c = 0; c < d; ++c) s += q[c] * k[c];
          p[j] = s * a->scale;
          top = p[j] > top ? p[j] : top;
        }
        for (int64_t j = 0; j < n; ++j) sum += p[j] = std::exp(p[j] - top);
        for (int64_t c = 0; c < dv; ++c) {
          float x = 0;
          for (int64_t j = 0; j < n; ++j) x += p[j] * a->v[b * a->v_strides[0] + g * a->v_strides[1] + j * a->v_strides[2] + c];
          o[c] = n ? x / sum : 0;
        }
        if (a->lse) a->lse[(b * heads + h) * sq + i] = n ? top + std::log(sum) : -INFINITY;
      }
  return 0;
}
"""


class Args(ctypes.Structure):
    """The struct of SOURCE, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse")),
        ("sizes", ctypes.c_int64 * 7),
        *((f"{name}_strides", ctypes.c_int64 * 3) for name in "qkvo"),
        ("scale", ctypes.c_float),
        ("causal", ctypes.c_int32),
    ]


@dataclass(frozen=True, kw_only=True)
class ExampleAlgorithm(api.Algorithm):
    """There is nothing to choose."""


class ExampleSession:
    """One loaded library, called in the worker process."""

    def load(self, plan: api.Plan, artifacts: Sequence[Path]) -> None:
        self.problem = plan.problem
        self.entry = ctypes.CDLL(str(artifacts[0])).fmha_example

    def bind(self, arena: memoryview, tensors: Mapping[str, api.BoundTensor], threads: int) -> None:
        p, base = self.problem, ctypes.addressof(ctypes.c_char.from_buffer(arena))
        strides = {}
        for name in "qkvo":
            s = tensors[name].strides
            layout = p.layout_out if name == "o" else p.layout
            strides[f"{name}_strides"] = (ctypes.c_int64 * 3)(*(s[:3] if layout.value == "bhsd" else (s[0], s[2], s[1])))
        sizes = (p.batch, p.heads, p.kv_heads, p.seqlen_q, p.seqlen_k, p.hdim, p.hdim_v)
        self.args = Args(
            **{n: base + tensors[n].offset for n in ("q", "k", "v", "o", "lse") if n in tensors},
            **strides, sizes=(ctypes.c_int64 * 7)(*sizes), scale=p.scale, causal=int(p.mask.text() == "causal"),
        )  # fmt: skip

    def upload(self) -> None: ...

    def launch(self) -> tuple[int, ...]:
        start = time.perf_counter_ns()
        self.entry(ctypes.byref(self.args))
        return (time.perf_counter_ns() - start,)

    def download(self) -> None: ...

    def evict_caches(self) -> None:
        bytes(64 << 20)

    def close(self) -> None: ...


class ExampleBackend:
    """The five answers of a backend."""

    name = "example"
    algorithm: type[api.Algorithm] = ExampleAlgorithm
    dropout_stream = "fmha"
    probes_in_parent = True
    automatic = False

    def probe(self) -> api.Availability:
        device = api.DeviceFacts(id="cpu", archs=self.archs(), name="any CPU", units=os.cpu_count() or 1)
        return api.Availability(state=api.State.OK, devices=(device,))

    def archs(self) -> tuple[str, ...]:
        return ("generic",)

    def kernels(self, arch: api.ArchSpec) -> Iterator[api.KernelSpec]:
        for mask in (api.MaskKey.NONE, api.MaskKey.CAUSAL):
            fp32 = api.DType.FP32
            yes = {"gqa": api.Need.ANY, "lse": api.Need.ANY, "mask": mask}
            signature = api.Signature(dtype=fp32, dtype_out=fp32, hdim=1 << 20, hdim_v=1 << 20, **yes)
            yield api.KernelSpec(
                backend=self.name, family=api.Family.FWD, arch=arch.name, signature=signature, algorithm=ExampleAlgorithm()
            )

    def rules(self) -> tuple[api.Rule, ...]:
        return api.CORE_RULES

    def decide(self, problem: api.Problem, device: api.DeviceFacts) -> Iterator[api.Decision]:
        for kernel in self.kernels(api.load_arch("generic")):
            reasons = api.reasons_against(self.rules(), problem, kernel, device)
            yield api.Unsupported(self.name, kernel.arch, kernel, tuple(reasons)) if reasons else api.Supported(kernel, (0,))

    def plan(self, problem: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Plan:
        return api.Plan(problem, (api.Stage(kernel),))

    def build(self, stage: api.Stage, context: api.BuildContext) -> api.Artifact:
        return api.build_cpp(stage.kernel, SOURCE, context)

    def inspect(self, kernel: api.KernelSpec, artifact: api.Artifact) -> dict[str, object]:
        return {"bytes": artifact.path.stat().st_size}

    def upstream_name(self, kernel: api.KernelSpec) -> str | None:
        return None

    def open(self, device: api.DeviceFacts) -> api.Session:
        return ExampleSession()


@api.hookimpl
def fmha_register_backends() -> list[api.Backend]:
    return [ExampleBackend()]
