"""The HIP host API's texts: complete, free of warnings, and the same with every sink."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.fakes.hip_recorder import hip_host_files, one_text, source

SINK = r"""
#include "hip_host.hpp"
using namespace fmha::hip;
namespace {
struct Nothing final : Sink {
  Properties none{};
  int devices() override { return 1; }
  const Properties& properties(int) override { return none; }
  void* allocate(size_t) override { return nullptr; }
  void release(void*) override {}
  void adopted(void*, size_t) override {}
  void abandoned(void*) override {}
  void copied_in(const void*, void*, size_t) override {}
  Outcome open(Module&, int) override { return {NotSupported, "open"}; }
  Outcome facts(Function&, int, KernelFacts&) override { return {NotSupported, "facts"}; }
  Outcome global(Module&, int, const std::string&, void**, size_t*) override { return {NotSupported, "global"}; }
  Outcome launch(Function&, int, const Request&) override { return {NotSupported, "launch"}; }
};
}
namespace fmha::hip {
Sink& sink() { static Nothing it; return it; }
}
"""


def test_every_include_is_here_and_each_header_is_laid_out_once() -> None:
    files = hip_host_files()
    assert all(name.startswith("hip_") for name in files), "the names must not meet those of a sink's own files"
    for name, text in files.items():
        assert set(re.findall(r'#include "([^"]+)"', text)) <= set(files), name
    text = one_text("sink.cpp", SINK)
    assert '#include "' not in text
    assert "#pragma once" not in text
    for name in files:
        assert text.count(f'#line 1 "{name}"') == 1, name
    assert text.rindex('#line 1 "sink.cpp"') > max(
        text.rindex(f'#line 1 "{name}"') for name in files if name.endswith(".cpp")
    )


def test_an_include_of_nothing() -> None:
    with pytest.raises(KeyError, match=r"nothing\.hpp"):
        one_text("sink.cpp", '#include "nothing.hpp"\n')


def test_the_recorder_has_the_same_host_api() -> None:
    text = source()
    for name, part in hip_host_files().items():
        if name.endswith(".cpp"):
            tail = part.rstrip().splitlines()[-3:]
            assert all(line in text for line in tail), name


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(
    ("compiler", "standard"),
    [
        ("g++", "-std=c++17"),
        pytest.param("g++", "-std=c++20", marks=pytest.mark.slow),
        pytest.param("clang++-22", "-std=c++17", marks=pytest.mark.slow),
        pytest.param("clang++-22", "-std=c++20", marks=(pytest.mark.slow, pytest.mark.ci)),
    ],
)
def test_it_compiles_without_warnings_with_any_sink(compiler: str, standard: str, tmp_path: Path) -> None:
    """With C++17, which the texts promise; the recorder and the emulators compile them with C++20 anyway."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    text, out = tmp_path / "one.cpp", tmp_path / "one.so"
    text.write_text(one_text("sink.cpp", SINK), "utf-8")
    words = [compiler, standard, "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run([*words, str(text), "-o", str(out)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(out))  # private to this handle: it does not have a runtime's name to be found by
    library.hipGetErrorName.restype = ctypes.c_char_p
    assert (
        library.hipGetErrorName(library.hipMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(8)))
        == b"hipErrorOutOfMemory"
    )
    assert (
        library.hipGetErrorName(library.hipModuleLoadData(ctypes.byref(ctypes.c_void_p()), b"x"))
        == b"hipErrorNotSupported"
    )
    assert library.hipGetErrorName(library.hipStreamDestroy(ctypes.c_void_p(8))) == b"hipErrorInvalidHandle"
