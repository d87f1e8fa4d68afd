"""Calls of functions: in the PTX of two compilers, which may not inline them, and in hand-written PTX."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fmha_cli.plugin import llvm_tool
from fmha_nvptx_emu_tests.support import plain_building
from fmha_nvptx_emu_tests.support.ptx_machine import Array, launch, module

SOURCE = Path(__file__).with_name("called_kernels.cu")
THREADS = 96
X = np.random.default_rng(0).integers(-50, 50, THREADS, np.int32)
Y = np.random.default_rng(1).integers(-50, 50, THREADS, np.int32)


@cache
def compiled(compiler: str) -> str:
    """The module of ``called_kernels.cu`` from NVRTC, or from clang with or without optimisation."""
    text = SOURCE.read_text("utf-8")
    if compiler == "nvrtc":
        return plain_building.nvrtc(text.replace("__nvvm_read_ptx_sreg_tid_x()", "threadIdx.x"), "sm_80")
    program = llvm_tool("clang++")
    if program is None:
        pytest.skip("no clang++ is installed")
    flags = ("-x", "cuda", "-std=c++17", compiler.removeprefix("clang "), "--cuda-device-only", "-S", "-nocudainc")
    more = ("-nocudalib", "--cuda-gpu-arch=sm_80", "-Wno-unknown-cuda-version", str(SOURCE), "-o", "-")
    done = subprocess.run((program, *flags, *more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def twice_plus(x: Array, y: Array) -> Array:
    return 2 * x + y


def nested(x: Array, y: Array) -> Array:
    return np.where(x & 1, twice_plus(x, y) - 7, twice_plus(y, x) * twice_plus(x, x))


def ran(compiler: str, kernel: str, inputs: tuple[Array, ...], dtypes: tuple[type, ...]) -> list[Array]:
    """What a kernel leaves, under two orders of warps."""
    text = compiled(compiler)
    assert "call" in text
    for seed in range(2):
        outputs = [np.zeros(THREADS, dtype) for dtype in dtypes]
        seen = launch(text, *inputs, *outputs, block=(THREADS, 1, 1), kernel=kernel, seed=seed)
        assert (seen.fault, seen.findings) == (None, [])
    return outputs


COMPILERS = ("nvrtc", "clang -O0", "clang -O2")


@pytest.mark.promise("Functions are called in divergent code, and what cannot be called stops by name.")
@pytest.mark.parametrize("compiler", COMPILERS)
def test_values_nested_calls_and_divergent_calls(compiler: str) -> None:
    sums = nested(X, Y)
    sums = np.where(np.arange(THREADS) % 3 == 0, sums + twice_plus(sums, Y), sums)
    np.testing.assert_array_equal(ran(compiler, "values", (X, Y), (np.int32,))[0], sums)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_structures_are_given_and_returned(compiler: str) -> None:
    b, c = X.astype(np.float32) / 3, Y.astype(np.int64) << 33
    out = ran(compiler, "structures", (X, b, c), (np.int32, np.float32, np.int64))
    for got, wanted in zip(out, (X - np.arange(THREADS, dtype=np.int32), b / 2, c + X), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_function_writes_its_callers_array(compiler: str) -> None:
    np.testing.assert_array_equal(ran(compiler, "arrays", (X,), (np.int32,))[0], 8 * (X & 7))


@pytest.mark.parametrize("compiler", ["nvrtc", "clang -O0"])
def test_lanes_recurse_as_compilers_write_it(compiler: str) -> None:
    def triangle(n: int) -> int:
        return 0 if n <= 0 else n + triangle(n - 1) * (1 if n & 1 else 3)

    n = X & 15
    np.testing.assert_array_equal(ran(compiler, "recursion", (n,), (np.int32,))[0], [triangle(int(k)) for k in n])


FUNCTIONS = """
.func (.param .b32 back) down(.param .b32 n) {
  .reg .pred %p; .reg .b32 %r<4>;
  ld.param.u32 %r1, [n];
  setp.eq.u32 %p, %r1, 0;
  mov.u32 %r2, 0;
  @%p bra END;
  sub.u32 %r3, %r1, 1;
  { .param .b32 a; .param .b32 b;
    st.param.b32 [a], %r3;
    call.uni (b), down, (a);
    ld.param.b32 %r2, [b]; }
  add.u32 %r2, %r2, %r1;
END:
  st.param.b32 [back], %r2;
  ret;
}
.extern .func nowhere;
.func early(.param .b64 to, .param .b32 n) {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd;
  ld.param.u32 %r1, [n];
  ld.param.u64 %rd, [to];
  setp.lt.u32 %p, %r1, 8;
  @%p ret;
  st.global.u32 [%rd], %r1;
}
"""


def down(lanes: str) -> str:
    """A kernel in which each lane calls ``down`` with a number."""
    body = f"""{lanes}
{{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), down, (a); ld.param.b32 %r2, [b]; }}
mad.wide.u32 %rd1, %r0, 4, %rd0; st.global.u32 [%rd1], %r2;"""
    return module(body, head=FUNCTIONS)


def test_lanes_recurse_to_different_depths() -> None:
    out = np.zeros(32, np.uint32)
    seen = launch(down("and.b32 %r1, %r0, 15;"), out)
    assert (seen.fault, seen.findings) == (None, [])
    n = np.arange(32) & 15
    np.testing.assert_array_equal(out, n * (n + 1) // 2)


@pytest.mark.promise("Functions are called in divergent code, and what cannot be called stops by name.")
def test_the_deepest_call_is_executed_and_one_more_stops_by_name() -> None:
    out = np.zeros(32, np.uint32)
    assert launch(down("mov.u32 %r1, 31;"), out).fault is None
    assert set(out) == {31 * 32 // 2}
    fault = launch(down("mov.u32 %r1, 32;"), out).fault
    assert fault is not None
    assert "call.uni (b), down, (a);" in fault
    assert "more than 32 nested calls" in fault


@pytest.mark.parametrize("guard", ["", "@%p1 ", "@!%p1 "])
def test_lanes_that_call_under_a_predicate_and_return_early(guard: str) -> None:
    body = f"""mad.wide.u32 %rd1, %r0, 4, %rd0; setp.gt.u32 %p1, %r0, 20;
{{ .param .b64 a; .param .b32 b; st.param.b64 [a], %rd1; st.param.b32 [b], %r0; {guard}call early, (a, b); }}"""
    out, lanes = np.zeros(32, np.uint32), np.arange(32)
    seen = launch(module(body, head=FUNCTIONS), out)
    assert (seen.fault, seen.findings) == (None, [])
    called = {"": lanes >= 0, "@%p1 ": lanes > 20, "@!%p1 ": lanes <= 20}[guard]
    np.testing.assert_array_equal(out, np.where(called & (lanes >= 8), lanes, 0))


def test_a_parameter_that_was_never_given_is_found() -> None:
    body = (
        "{ .param .b32 a; .param .b32 b; call.uni (b), down, (a); ld.param.b32 %r2, [b]; } st.global.u32 [%rd0], %r2;"
    )
    assert "uninitialised-register" in launch(module(body, head=FUNCTIONS), np.zeros(32, np.uint32)).kinds


@pytest.mark.promise("Functions are called in divergent code, and what cannot be called stops by name.")
@pytest.mark.parametrize(
    "call",
    ["call nowhere;", "mov.u64 %rd1, 0; FORM: .callprototype _ (); call %rd1, FORM;"],
)
def test_a_call_of_what_is_not_here_stops_only_where_it_is_reached(call: str) -> None:
    room = np.zeros(32, np.uint32)
    reached = launch(module(call, head=FUNCTIONS), room).fault
    assert reached is not None
    assert "a function that the module does not hold, a pointer" in reached
    assert launch(module(f"bra BEHIND; {call} BEHIND:", head=FUNCTIONS), room).fault is None


def test_a_function_that_cannot_be_read_stops_only_its_calls() -> None:
    head = ".func strange(.param .b32 a) { .reg .b32 %r; mov.u32 %r, %nothing; ret; }"
    room = np.zeros(32, np.uint32)
    assert launch(module("mov.u32 %r1, 1;", head=head), room).fault is None
    call = "{ .param .b32 a; st.param.b32 [a], %r0; call strange, (a); }"
    assert "strange" in (launch(module(call, head=head), room).fault or "")
