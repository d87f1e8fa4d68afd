"""The plugin by itself: conformance, its sources, a machine without the library, and rows of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fmha_cli import api, conformance, plugin

library = pytest.importorskip("fmha_ggml", reason="pip install -e plugins/fmha-ggml")
BACKEND = library.BACKEND
LIMIT = 375  # 300 without docstrings and blank lines

needs_library = pytest.mark.skipif(BACKEND.probe().state is not plugin.State.OK, reason="xllamacpp is not installed")


@pytest.fixture
def subject(shared_cache: Path) -> conformance.Subject:
    return conformance.Subject(BACKEND, entry="fmha_ggml", cache_root=shared_cache)


@pytest.mark.promise(
    "README: JAX, llama.cpp, MLX", "JAX, llama.cpp and MLX run as backends, by rules that the libraries confirm."
)
@needs_library
@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Callable[[conformance.Subject], None], subject: conformance.Subject) -> None:
    check(subject)


def test_it_stays_short_imports_the_api_alone_and_explains_its_codes() -> None:
    conformance.check_sources(Path(library.__file__).parent, LIMIT)
    conformance.check_codes(BACKEND, Path(library.__file__).parent)


def test_the_parent_does_not_import_the_library(subject: conformance.Subject) -> None:
    conformance.check_parent(subject, "xllamacpp", "numpy")


def test_without_the_library_it_says_what_to_install() -> None:
    found = conformance.probed(BACKEND)
    assert (found.state, found.devices, found.help) == (plugin.State.MISSING, (), "pip install xllamacpp")


@needs_library
@pytest.mark.parametrize(
    ("line", "ran", "copied"),
    [
        ("-s 70 --dtype fp16 --layout bshd", "FLASH_ATTN_EXT, cache f16", True),
        ("-s 5 --dtype fp16 --layout bshd", "FLASH_ATTN_EXT, cache f32; 640 bytes of K and V are converted", True),
        ("-s 5 --dtype fp32 --layout bshd", "FLASH_ATTN_EXT, cache f32", False),
        ("-s 5 --dtype fp32 --bias elementwise", "MUL_MAT, SOFT_MAX, MUL_MAT, cache f32; 320 bytes of K and V", False),
        ("-s 5 --dtype fp32 --bias elementwise --softcap 5", "MUL_MAT, SCALE, TANH, SCALE, SOFT_MAX, MUL_MAT", False),
    ],
)
def test_it_tells_which_operators_ran_and_what_is_copied(line: str, ran: str, copied: bool, shared_cache: Path) -> None:
    problem = api.Problem.from_cli(f"-H 2 -d 8 {line}")
    (record,) = api.run(problem, backend="ggml", cache_root=str(shared_cache))
    assert record.verdict is api.Verdict.PASSED
    assert any(ran in note for note in record.notes), record.notes
    assert any("copies" in note for note in record.notes) is copied


@needs_library
def test_a_decode_step_reads_caches_of_unequal_lengths_where_they_are(shared_cache: Path) -> None:
    line = "-b 2 -H 4 --kv-heads 2 -s 1 -d 16 --dtype bf16 --causal --kv-cache linear --cache-seqlens 700,4 --alibi"
    (record,) = api.run(api.Problem.from_cli(line), backend="ggml", cache_root=str(shared_cache))
    assert record.verdict is api.Verdict.PASSED
    assert not any("K and V" in note for note in record.notes)


@needs_library
@pytest.mark.parametrize("cache", ["f16", "q8_0", "q4_0"])
def test_a_rough_cache_is_refused_and_wrong_if_it_is_named(cache: str, shared_cache: Path) -> None:
    problem = api.Problem.from_cli("-H 2 -s 8 --seqlen-k 300 -d 64 --dtype fp16")
    kernel = next(k for k in BACKEND.listed("generic") if k.algorithm.cache == cache and k.algorithm.form == "flash")
    (named,) = api.run(problem, backend="ggml", kernel=kernel.name, cache_root=str(shared_cache))
    assert (named.verdict, [r.id for r in named.reasons]) == (
        api.Verdict.WRONG,
        ["K982" if cache == "f16" else "K983"],
    )


def test_a_release_with_another_form_of_tensors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed")
    import ctypes

    session = pytest.importorskip("fmha_ggml.session")

    class Longer(ctypes.Structure):
        _fields_ = (("type", ctypes.c_int), ("grown", ctypes.c_int64), *session.Tensor._fields_[1:])

    monkeypatch.setitem(
        session.FUNCTIONS, "new_tensor_4d", (ctypes.POINTER(Longer), *session.FUNCTIONS["new_tensor_4d"][1:])
    )
    monkeypatch.setitem(session.FUNCTIONS, "get_data", (ctypes.c_void_p, ctypes.POINTER(Longer)))
    with pytest.raises(api.KernelFailure, match="another form"):
        session.library.__wrapped__()
