"""Artifacts and the bytes of arguments."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

from fmha_triton.catalogue import kernels_of
from fmha_triton.image import Descriptor, Image, read_image
from fmha_triton.launching import check_divisible

from fmha_cli import api, plugin

ABOUT = {
    "symbol": "f", "shared_bytes": 5, "threads": 128, "arguments": [["Q", "*fp16"]], "trailing_pointers": 2,
    "scratch_bytes": 0,
}  # fmt: skip


def image(*arguments: tuple[str, str], trailing: int = 0) -> Image:
    return Image("f", 0, 128, arguments, trailing, b"")


def test_arguments_stand_at_multiples_of_their_size() -> None:
    made = image(("n", "i32"), ("Q", "*fp16"), ("x", "fp32"), ("stride", "i64"), trailing=2)
    data = made.packed({"n": 7, "Q": 0x1234, "x": 0.5, "stride": -3})
    assert data == struct.pack("<iiQfiqQQ", 7, 0, 0x1234, 0.5, 0, -3, 0, 0)


def test_a_descriptor_is_followed_by_its_shape_and_strides() -> None:
    made = image(("QMap", "tensordesc<fp16[1,2],x>"), ("n", "i32"))
    descriptor = Descriptor(bytes(range(128)), (4, 6), (6, 1))
    places = [(48, 128), (176, 4), (180, 4), (184, 8), (192, 8), (200, 4)]
    data = made.packed({"QMap": descriptor, "n": 9}, places)
    assert data[48:176] == bytes(range(128))
    assert data[176:] == struct.pack("<iiqqi", 4, 6, 6, 1, 9)


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(api.KernelFailure) as caught:
        image(("Q", "*fp16")).packed({})
    assert caught.value.code == "K970"


@pytest.mark.promise("Arguments and TMA descriptors stand where the cubin records them.")
@pytest.mark.parametrize("places", [[(0, 4)], [(0, 8), (8, 8)], []])
def test_a_binary_with_other_arguments_is_refused(places: list[tuple[int, int]]) -> None:
    with pytest.raises(api.KernelFailure) as caught:
        image(("Q", "*fp16")).packed({"Q": 1}, places)
    assert caught.value.code == "K974"


def test_an_artifact_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "artifact"
    path.write_bytes(json.dumps(ABOUT).encode() + b"\n\x7fELF\n\x00")
    assert read_image(path) == Image("f", 5, 128, (("Q", "*fp16"),), 2, b"\x7fELF\n\x00")


@pytest.mark.parametrize("text", [b"", b"\x7fELF\x00\n", b"{}\nx", json.dumps({**ABOUT, "scratch_bytes": 64}).encode()])
def test_other_files_and_kernels_with_scratch_are_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "artifact"
    path.write_bytes(text)
    with pytest.raises(api.KernelFailure) as caught:
        read_image(path)
    assert caught.value.code == "K971"


def test_a_stride_that_breaks_a_promise_is_refused() -> None:
    kernel = next(k for k in kernels_of("gfx942") if k.family is plugin.Family.BWD_DOT_DO_O)
    good = dict.fromkeys(("Out", "DOut", "o_batch", "o_head", "do_batch", "do_head", "o_row", "do_row", "hdim_v"), 16)
    check_divisible(kernel, good)
    for name in good:
        with pytest.raises(api.KernelFailure) as caught:
            check_divisible(kernel, good | {name: 12})
        assert caught.value.code == "K973"
