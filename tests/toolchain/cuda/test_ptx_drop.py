"""What is dropped from a PTX module: planted modules, with the parts that must stay and the parts that must go."""

from __future__ import annotations

import pytest

from fmha_cli.toolchain.cuda.ptx import MalformedPtx, drop_unreferenced
from tests.support.builds.nvrtc_tiny import compiled

HEAD = ".version 9.0\n.target sm_90a, debug\n.address_size 64\n"
CASES = {
    "referenced": (".global .u32 a = 1;", "mov.u64 %rd1, a;", "a", ""),
    "unreferenced": (".global .align 4 .u32 a = 1;\n.const .b8 c[2] = {1, 2};", "", "", "a c"),
    "only-from-a-dropped-one": (".global .u32 a = 1;\n.global .u64 b = generic(a);", "", "", "a b"),
    "through-an-initialiser": (".global .u32 a = 1;\n.global .u64 b[2] = {generic(a), 0};", "ld.u64 %rd1, [b];", "a b", ""),
    "through-two": (".global .u64 c = b;\n.global .u32 a;\n.global .u64 b = a+4;", "mov.u64 %rd1, c;", "a b c", ""),
    "in-a-circle": (".global .u64 a = generic(b);\n.global .u64 b = generic(a);", "", "", "a b"),
    "prefixes": (".global .u32 t;\n.global .u32 ta;\n.global .u32 t$1;\n.global .u32 _t;", "mov.u64 %rd1, ta;", "ta", "t t$1 _t"),
    "dollars": (".global .b8 $str[4] = {1};\n.global .b8 $str$1[4] = {2};", "mov.u64 %rd1, $str$1;", "$str$1", "$str"),
    "with-an-offset": (".global .b8 a[8];\n.global .b8 b[8];", "ld.global.u32 %r1, [a+4];", "a", "b"),
    "in-a-comment": (".global .u32 a;\n.global .u32 b;", "// mov.u64 %rd1, a;\n/* b; */", "", "a b"),
    "in-a-string": (".global .u32 a;", '.pragma "nounroll a";', "", "a"),
    "a-mark-in-a-string": ('.file 1 "x;{a"\n.global .u32 a;', "mov.u64 %rd1, a;", "a", ""),
    "a-comment-before-the-end": (".global .u32 a /* ; */ = 1; // ;\n.global .u32 b;", "mov.u64 %rd1, b;", "b", "a"),
    "exported": (".global .u32 fmha_x_facts[2] = {1, 2};\n.global .u64 fmha_x_p = generic(a);\n.global .u32 a;", "", "fmha_x_facts fmha_x_p a", ""),
    "linked": (".visible .global .u32 a;\n.weak .const .u32 b;\n.extern .global .u32 c;", "", "a b", "c"),
    "prototypes": (
        ".extern .func __assertfail(.param .b64 p0);\n.extern .func (.param .b32 r) vprintf (.param .b64 p0, .param .b64 p1)\n;",
        "call.uni (r), vprintf, (p0, p1);", "vprintf", "__assertfail",
    ),
    "of-a-device-function": (".global .u32 a;\n.func (.param .b32 r) helper()\n{\n  ld.global.u32 %r1, [a];\n  ret;\n}", "", "a helper", ""),
    "several-in-one": (".global .u32 a, b = 2;\n.global .u32 c = 1;", "", "a b", "c"),
    "braces-in-a-body": (".global .u32 a;\n.global .u32 b;", "{ // callseq\n  { mov.u64 %rd1, a; }\n}\nld.u32 %r1, [b];", "a b", ""),
    "other-spaces": (".shared .align 4 .b8 s[64];\n.extern .shared .b8 dyn[];\n.global .u32 a;", "", "s dyn", "a"),
    "attributes": (".global .attribute(.managed) .align 4 .u32 a;\n.global .attribute(.managed) .u32 b;", "mov.u64 %rd1, a;", "a", "b"),
    "debug-sections": ('.global .u32 a;\n.global .u32 b;\n.section .debug_info\n{\n.b64 a\n.b8 0\n}', "", "a", "b"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_stays_and_what_goes(case: str) -> None:
    declared, body, stay, go = CASES[case]
    entry = f".visible .entry fmha_x(\n\t.param .u64 fmha_x_param_0\n)\n.maxntid 128, 1, 1\n{{\n{body}\nret;\n}}\n"
    text = HEAD + declared + "\n" + entry
    left = drop_unreferenced(text)
    declarations = left.removesuffix(entry)
    assert left.endswith(entry), "the code of a kernel is not touched"
    words = declarations.replace("[", " ").replace(";", " ").replace(",", " ").replace("(", " ").split()
    assert [name for name in stay.split() if name not in words] == []
    assert [name for name in go.split() if name in words] == []
    assert drop_unreferenced(left) == left


@pytest.mark.parametrize("text", [HEAD + ".global .u32 a", HEAD + ".entry x() {", "}", HEAD + ".global .u32 a[2;"])
def test_what_is_no_ptx(text: str) -> None:
    with pytest.raises(MalformedPtx):
        drop_unreferenced(text)


def test_the_header_of_a_module_stays_when_nothing_else_is_there() -> None:
    assert drop_unreferenced(HEAD) == HEAD
    assert drop_unreferenced(HEAD.rstrip()) == HEAD.rstrip()
    assert drop_unreferenced("") == ""


TEXT = """
template <int N> struct Traits { static constexpr int value = N; };
constexpr float used[4] = {1, 2, 3, 4}, unused[4] = {5, 6, 7, 8};
extern "C" __device__ __attribute__((used)) const unsigned fmha_tiny_facts[] = {7};
extern "C" __global__ void fmha_tiny(float* x, int n) { x[0] = used[n] + Traits<5>::value; }
"""


def test_what_nvrtc_writes() -> None:
    """Every constant of a header is a variable of the module, and none is marked as exported."""
    done = compiled(TEXT, "compute_90a")
    assert done.cubin is None
    assert done.ptx is not None
    left = drop_unreferenced(done.ptx)
    names = [line.split("[")[0].split()[-1] for line in left.splitlines() if line.startswith(".global")]
    assert names == ["used", "fmha_tiny_facts"]
    assert "unused" in done.ptx
    assert done.ptx.count("value") == 1
