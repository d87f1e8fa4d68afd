"""A test backend whose kernels are real C code that really crashes, hangs, exits and corrupts memory.

The worker imports it by name: pytest puts this folder on the module search path, and the worker inherits the path.
"""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from fmha_null import NullBackend
from fmha_null.kernels import null_kernel

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.plan import Artifact, Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BoundTensor, Session

ENTRY = f"{__name__}:backend"


class Deed(StrEnum):
    """The C code's work in addition to computing attention, or instead of it."""

    HONEST = "honest"
    SEGFAULT = "segfault"
    HANG = "hang"
    HANG_WITH_GIL = "hang_with_gil"
    EXIT = "exit"
    ABORT = "abort"
    PRINT = "print"
    PRINT_FOREVER = "print_forever"
    NAN = "nan"
    BEFORE = "before"
    AFTER = "after"
    GAP = "gap"
    STACK_OVERFLOW = "stack_overflow"
    CLOSE_ALL = "close_all"
    WRITE_ALL = "write_all"
    FORGE = "forge"
    FORK = "fork"
    CORRUPT = "corrupt"
    SIGKILL = "sigkill"
    BAD_ALLOC = "bad_alloc"
    ONCE_CORRUPTED = "once_corrupted"
    LATER = "later"


SOURCE = r"""
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#include <vector>

static bool corrupted = false;

static int dive(int n) { volatile char page[4096]; page[n % 4096] = 1; return dive(n + 1) + page[0]; }
static void* crash_later(void*) { usleep(20000); raise(SIGSEGV); return nullptr; }

extern "C" int attend(const char* deed, const char* q, const char* k, const char* v, char* o, long batch, long heads,
                      long sq, long sk, long d, float scale, const long* sqs, const long* sks, const long* svs,
                      const long* sos) {
    auto is = [&](const char* name) { return std::strcmp(deed, name) == 0; };
    if (is("segfault")) *reinterpret_cast<volatile int*>(8) = 1;
    if (is("hang") || is("hang_with_gil")) for (volatile int n = 0;; n = n + 1) {}
    if (is("exit")) exit(7);
    if (is("abort")) { std::printf("about to abort\n"); abort(); }
    if (is("print")) for (int n = 0; n < 20000; n++) std::printf("garbage %d \x01\xff FMHA0000 {}\n", n);
    if (is("print_forever")) for (;;) std::printf("again and again and again and again\n");
    if (is("stack_overflow")) return dive(0);
    if (is("close_all")) for (int fd = 3; fd < 256; fd++) close(fd);
    if (is("write_all")) for (int fd = 3; fd < 256; fd++) if (write(fd, "\n{\"seq\":1}\n", 11)) {}
    if (is("forge")) {
        const char* payload = "{\"seq\":999,\"ns\":[[1]]}";
        char frame[64];
        int size = std::snprintf(frame, sizeof frame, "FMHA%08zx %s\n", std::strlen(payload), payload);
        for (int fd = 3; fd < 256; fd++) if (write(fd, frame, size)) {}
    }
    if (is("fork")) { if (fork() == 0) for (;;) pause(); raise(SIGSEGV); }
    if (is("sigkill")) raise(SIGKILL);
    if (is("bad_alloc")) throw std::bad_alloc();
    if (is("once_corrupted") && corrupted) raise(SIGSEGV);
    if (is("corrupt")) corrupted = true;
    if (is("later")) { pthread_t thread; pthread_create(&thread, nullptr, crash_later, nullptr); }
    std::vector<float> p(sk);
    auto at = [](const char* base, const long* s, long b, long h, long i, long e) {
        return reinterpret_cast<const float*>(base) + b * s[0] + h * s[1] + i * s[2] + e;
    };
    for (long b = 0; b < batch; b++) for (long h = 0; h < heads; h++) for (long i = 0; i < sq; i++) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < sk; j++) {
            p[j] = 0;
            for (long e = 0; e < d; e++) p[j] += *at(q, sqs, b, h, i, e) * *at(k, sks, b, h, j, e);
            p[j] *= scale;
            top = std::fmax(top, p[j]);
        }
        for (long j = 0; j < sk; j++) sum += p[j] = std::exp(p[j] - top);
        for (long e = 0; e < d; e++) {
            float x = 0;
            for (long j = 0; j < sk; j++) x += p[j] * *at(v, svs, b, h, j, e);
            *const_cast<float*>(at(o, sos, b, h, i, e)) = is("nan") ? NAN : x / sum;
        }
    }
    if (is("before")) *const_cast<float*>(at(o, sos, 0, 0, 0, -1)) = 1;
    if (is("after")) *const_cast<float*>(at(o, sos, batch - 1, heads - 1, sq - 1, d)) = 1;
    if (is("gap")) *const_cast<float*>(at(o, sos, 0, 0, 0, d)) = 1;
    return 0;
}
"""


@dataclass(frozen=True, kw_only=True)
class CAlgorithm(Algorithm):
    deed: Deed = Deed.HONEST


class CBackend(NullBackend):
    """The null backend with C kernels: fp32, bhsd, no mask, as many key heads as query heads."""

    name = "ctest"
    algorithm = CAlgorithm

    def open(self, device: DeviceFacts) -> Session:
        return CSession()


class CSession:
    def load(self, plan: Plan, artifacts: Sequence[Path]) -> None:
        self.problem: Problem = plan.problem
        algorithm = plan.main.algorithm
        assert isinstance(algorithm, CAlgorithm)
        self.deed = algorithm.deed
        kind = ctypes.PyDLL if self.deed is Deed.HANG_WITH_GIL else ctypes.CDLL
        self.attend = kind(str(artifacts[0])).attend

    def bind(self, arena: memoryview, tensors: Mapping[str, BoundTensor], threads: int) -> None:
        base = ctypes.addressof(ctypes.c_char.from_buffer(arena))
        bound = [tensors[name] for name in ("q", "k", "v", "o")]
        self.pointers = [ctypes.c_void_p(base + t.offset) for t in bound]
        self.strides = [(ctypes.c_long * 4)(*t.strides) for t in bound]

    def upload(self) -> None: ...

    def launch(self) -> tuple[int, ...]:
        p, start = self.problem, time.perf_counter_ns()
        sizes = [ctypes.c_long(n) for n in (p.batch, p.heads, p.seqlen_q, p.seqlen_k, p.hdim)]
        self.attend(self.deed.value.encode(), *self.pointers, *sizes, ctypes.c_float(p.scale), *self.strides)
        return (time.perf_counter_ns() - start,)

    def download(self) -> None: ...

    def evict_caches(self) -> None: ...

    def close(self) -> None: ...


backend = CBackend()


def c_kernel(deed: Deed) -> KernelSpec:
    """The kernel that performs a deed."""
    kernel = null_kernel(DType.FP32, Family.FWD)
    return replace(kernel, backend="ctest", algorithm=CAlgorithm(deed=deed))


def compile_kernels(folder: Path) -> Artifact:
    """The single library that contains every deed."""
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    source.write_text(SOURCE, "utf-8")
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    sha256 = hashlib.sha256(library.read_bytes()).hexdigest()
    return Artifact(library, sha256, sha256, folder / "log", False, 0.0)
