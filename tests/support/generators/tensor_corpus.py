"""Damaged, hostile and odd tensor files, each made by a few lines of code: name of the kind -> what makes the file.

Every maker writes into the folder and returns the ``FILE[:KEY]`` that a user would give to ``--q``.
"""

from __future__ import annotations

import io
import os
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.generators.tensor_bytes import (
    Q,
    central,
    described,
    entry,
    header,
    npy,
    npz,
    patched,
    payload,
    put,
    safetensors,
)

Maker = Callable[[Path], str]

DAMAGED: dict[str, tuple[Maker, str]] = {}
"""Kind -> (what makes it, words that its refusal must have)."""


def kind(words: str, **given: Any) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Add a maker under its own name; with ``given``, one kind for each value of the single parameter."""

    def add(make: Callable[..., str]) -> Callable[..., str]:
        name = make.__name__.removeprefix("_")
        for label, value in given.items() or [("", None)]:
            made: Maker = make if not label else (lambda folder, value=value: make(folder, value))  # type: ignore[misc]
            DAMAGED[f"{name} {label}".strip()] = (made, words)
        return make

    return add


# -- .npy ---------------------------------------------------------------------------------------------------------------


@kind("is empty", npy="q.npy", npz="q.npz", safetensors="q.safetensors")
def _empty(folder: Path, name: str) -> str:
    return put(folder, name, b"")


@kind("does not begin as a .npy does", text=b"nonsense\n" * 5, png=b"\x89PNG\r\n\x1a\n" * 4, short=b"\x93NUM")
def _foreign_npy(folder: Path, data: bytes) -> str:
    return put(folder, "q.npy", data)


@kind("cut short", header=40, data=200, one_byte=-1)
def _truncated_npy(folder: Path, length: int) -> str:
    return put(folder, "q.npy", npy()[:length])


@kind("more data than its header declares")
def _npy_with_a_tail(folder: Path) -> str:
    return put(folder, "q.npy", npy() + b"x")


@kind("name it .npz")
def _npy_that_is_a_zip(folder: Path) -> str:
    return put(folder, "q.npy", npz({"q.npy": npy()}))


@kind(
    "declares no shape",
    negative="(1, -1, 8)", text="'big'", fraction="(1.5,)", a_switch="(True,)", a_number="8", axes="(1,) * 3",
)  # fmt: skip
def _npy_shape(folder: Path, shape: str) -> str:
    text = described(shape)
    return put(folder, "q.npy", header(text if shape != "(1,) * 3" else described(str((1,) * 65))))


@kind("cut short", exabytes="(1099511627776, 1048576)", overflowing="(9223372036854775807, 9223372036854775807)")
def _npy_of_a_huge_shape(folder: Path, shape: str) -> str:
    return put(folder, "q.npy", header(described(shape), data=b"\0" * 64))


@kind("Python objects, which fmha never unpickles")
def _npy_of_objects(folder: Path) -> str:
    return put(folder, "q.npy", npy(np.array([{"a": 1}, None], dtype=object), pickled=True))


@kind("only numbers can be read", text="'<U4'", times="'<M8[s]'", complex="'<c8'", bytes="'|S4'", blob="'|V8'")
def _npy_of_other_elements(folder: Path, descr: str) -> str:
    return put(folder, "q.npy", header(described("(4,)", descr), data=b"\0" * 64))


@kind("only numbers can be read")
def _npy_of_records(folder: Path) -> str:
    return put(folder, "q.npy", npy(np.zeros(3, dtype=[("a", "f4"), ("b", "f8")])))


@kind("save float32, or use .safetensors")
def _npy_of_bf16_as_numpy_writes_it(folder: Path) -> str:
    return put(folder, "q.npy", header(described("(4,)", "'<V2'"), data=b"\0" * 8))


@kind("names no element type", nonsense="'zzz'", empty="''", wide="'<f3'")
def _npy_of_no_element_type(folder: Path, descr: str) -> str:
    return put(folder, "q.npy", header(described("(4,)", descr), data=b"\0" * 64))


@kind(
    "header cannot be understood",
    code="__import__('os').system('true')", call="dict(descr='<f4')", number="7", unfinished="{'descr': '<f4'",
    incomplete="{'descr': '<f4', 'shape': (4,)}", bytes="\x00\xff\xfe", deep="(" * 5000, deep_list="[" * 9000 + "]" * 900,
)  # fmt: skip
def _npy_header(folder: Path, text: str) -> str:
    return put(folder, "q.npy", header(text))


@kind("Fortran order")
def _npy_without_an_order(folder: Path) -> str:
    return put(folder, "q.npy", header(described("(4,)", fortran="7"), data=b"\0" * 16))


@kind("a header of")
def _npy_with_a_huge_header(folder: Path) -> str:
    return put(folder, "q.npy", header(described("(4,)") + " " * 20_000, version=2))


@kind("a header of")
def _npy_with_a_header_of_4_gib(folder: Path) -> str:
    return put(folder, "q.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b" " * 64)


@kind("of the .npy format", zero=0, nine=9)
def _npy_version(folder: Path, version: int) -> str:
    return put(folder, "q.npy", patched(npy(), 6, bytes([version])))


# -- .npz ---------------------------------------------------------------------------------------------------------------


@kind("not an archive, or its end is missing", text=b"nonsense\n" * 5, magic=b"PK\x03\x04" + b"\0" * 40)
def _foreign_npz(folder: Path, data: bytes) -> str:
    return put(folder, "q.npz", data)


@kind("not an archive, or its end is missing", half=0.5, end=0.98)
def _truncated_npz(folder: Path, share: float) -> str:
    data = npz({"q.npy": npy()})
    return put(folder, "q.npz", data[: int(len(data) * share)])


@kind("name it .npy")
def _npz_that_is_a_npy(folder: Path) -> str:
    return put(folder, "q.npz", npy())


@kind("damaged", deflate=zipfile.ZIP_DEFLATED, bzip2=zipfile.ZIP_BZIP2, lzma=zipfile.ZIP_LZMA)
def _npz_compressed_badly(folder: Path, method: int) -> str:
    data = npz({"q.npy": npy()}, method)
    return put(folder, "q.npz", patched(data, payload(data) + 4, b"\xff" * 60))


@kind("damaged")
def _npz_with_bad_lzma_properties(folder: Path) -> str:
    data = npz({"q.npy": npy()}, zipfile.ZIP_LZMA)
    return put(folder, "q.npz", patched(data, payload(data), b"\xff" * 9))


@kind("which fmha does not know")
def _npz_of_an_unknown_method(folder: Path) -> str:
    data = npz({"q.npy": npy()})
    return put(folder, "q.npz", patched(patched(data, 8, b"\x63\0"), central(data) + 10, b"\x63\0"))


@kind("checksum")
def _npz_with_a_wrong_crc(folder: Path) -> str:
    data = npz({"q.npy": npy()})
    at = payload(data) + len(npy()) - 1
    return put(folder, "q.npz", patched(data, at, bytes([data[at] ^ 1])))


@kind("encrypted")
def _encrypted_npz(folder: Path) -> str:
    data = npz({"q.npy": npy()})
    return put(folder, "q.npz", patched(patched(data, 6, b"\x01\0"), central(data) + 8, b"\x01\0"))


@kind("damaged")
def _npz_whose_names_differ(folder: Path) -> str:
    data = npz({"q.npy": npy()})
    return put(folder, "q.npz", patched(data, 30, b"k"))


@kind("damaged", offset=42, version=6)
def _npz_directory(folder: Path, at: int) -> str:
    data = npz({"q.npy": npy()})
    return put(folder, "q.npz", patched(data, central(data) + at, b"\xff\xff\xff\x7f" if at == 42 else b"\xff\xff"))


@kind("two of its arrays are named 'q'")
def _npz_with_one_name_twice(folder: Path) -> str:
    return put(folder, "q.npz", npz({"q.npy": npy(), "q": npy()}))


@kind("is a zip archive")
def _npz_in_a_npz(folder: Path) -> str:
    return put(folder, "q.npz", npz({"q.npy": npz({"q.npy": npy()})}))


@kind("does not begin as a .npy does")
def _npz_of_text(folder: Path) -> str:
    return put(folder, "q.npz", npz({"q.npy": b"nothing but text, and rather much of it"}))


@kind("Python objects, which fmha never unpickles")
def _npz_of_objects(folder: Path) -> str:
    return put(folder, "q.npz", npz({"q.npy": npy(np.array([{}], dtype=object), pickled=True)}))


@kind("no array 'q'")
def _npz_without_members(folder: Path) -> str:
    return put(folder, "q.npz", npz({}))


@kind("no array 'x'")
def _npz_without_the_key(folder: Path) -> str:
    return put(folder, "q.npz", npz({"q.npy": npy(), "k.npy": npy()})) + ":x"


@kind("iB of memory are available")
def _npz_that_declares_a_petabyte(folder: Path) -> str:
    data = npz({"q.npy": npy()}, zipfile.ZIP_DEFLATED)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        member = zipfile.ZipInfo("q.npy")
        member.compress_type = zipfile.ZIP_DEFLATED
        with archive.open(member, "w", force_zip64=True) as stream:
            stream.write(npy())
        archive.filelist[0].file_size = 1 << 50
    assert len(out.getvalue()) > len(data)
    return put(folder, "q.npz", out.getvalue())


@kind("cut short")
def _npz_that_declares_more_than_it_holds(folder: Path) -> str:
    text = header(described("(1048576,)"), data=b"\0" * 64)
    return put(folder, "q.npz", npz({"q.npy": text}, zipfile.ZIP_DEFLATED))


# -- .safetensors -------------------------------------------------------------------------------------------------------


@kind("a header of", foreign=b"nonsense\n" * 9, short=b"\1\0\0", all_ones=b"\xff" * 64)
def _foreign_safetensors(folder: Path, data: bytes) -> str:
    return put(folder, "q.safetensors", data)


@kind(
    "header is not the JSON of tensors",
    text=b"nothing", number=b"7", array=b"[]", deep=b'{"q":' * 50_000, deep_list=b"[" * 50_000, bytes=b"\xff\xfe{}",
    twice=b'{"q": {}, "q": {}}', surrogate=b'{"\\ud800": ',
)  # fmt: skip
def _safetensors_header(folder: Path, text: bytes) -> str:
    return put(folder, "q.safetensors", safetensors(text))


@kind(
    "damaged",
    backwards=(512, 0), beyond=(0, 1 << 40), negative=(-512, 0), late=(4, 516), huge=(1 << 63, (1 << 63) + 512),
    fraction=(0.0, 512.0), text=("0", "512"), switches=(False, True),
)  # fmt: skip
def _safetensors_offsets(folder: Path, offsets: tuple[Any, Any]) -> str:
    return put(folder, "q.safetensors", safetensors({"q": entry(*offsets)}))


@kind(
    "damaged",
    overlap={"q": entry(0, 512), "k": entry(256, 768)}, gap={"q": entry(), "k": entry(520, 1032)},
    nothing={"q": None}, no_dtype={"q": {"shape": [], "data_offsets": [0, 0]}}, list={"q": []},
    no_offsets={"q": {"shape": [], "dtype": "F32"}}, no_shape={"q": {"dtype": "F32", "data_offsets": [0, 4]}},
    shape={"q": entry(shape=[1 << 62, 1 << 62])}, small_shape={"q": entry(shape=[4])},
    negative_shape={"q": entry(shape=[-1, -128])}, unknown_dtype={"q": entry(dtype="WRONG")},
    short={"q": entry(0, 256, shape=[64])},
)  # fmt: skip
def _safetensors_entries(folder: Path, entries: dict[str, object]) -> str:
    return put(folder, "q.safetensors", safetensors(entries, Q.tobytes() * 2 if "k" in entries else Q.tobytes()))


@kind("damaged or cut short")
def _truncated_safetensors(folder: Path) -> str:
    return put(folder, "q.safetensors", safetensors({"q": entry()})[:-1])


@kind("which fmha does not read")
def _safetensors_of_another_type(folder: Path) -> str:
    return put(folder, "q.safetensors", safetensors({"q": entry(dtype="U32")}))


# -- no file at all -----------------------------------------------------------------------------------------------------


@kind(
    "cannot be opened", npy="missing.npy", key="missing.npz:q", long="x" * 300 + ".npy", very_long="y/" * 3000 + "z.npy"
)
def _missing(folder: Path, name: str) -> str:
    return f"{folder}/{name}"


@kind("it is a directory, and only a regular file")
def _folder(folder: Path) -> str:
    (folder / "q.npy").mkdir()
    return str(folder / "q.npy")


@kind("it is a pipe (FIFO), and only a regular file")
def _fifo(folder: Path) -> str:
    os.mkfifo(folder / "q.npy")
    return str(folder / "q.npy")


@kind("it is a pipe (FIFO), and only a regular file")
def _fifo_behind_a_link(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    (folder / "q.npz").symlink_to("pipe")
    return str(folder / "q.npz")


@kind("it is a socket, and only a regular file")
def _socket(folder: Path) -> str:
    before = Path.cwd()
    os.chdir(folder)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("q.npy")
    finally:
        os.chdir(before)
    return str(folder / "q.npy")


@kind("it is a character device, and only a regular file")
def _terminal(folder: Path) -> str:
    _, terminal = os.openpty()
    (folder / "q.npy").symlink_to(os.ttyname(terminal))
    return str(folder / "q.npy")


@kind("cannot be opened")
def _ring_of_links(folder: Path) -> str:
    (folder / "q.npy").symlink_to("r.npy")
    (folder / "r.npy").symlink_to("q.npy")
    return str(folder / "q.npy")


@kind("unknown kind of file", pt="q.pt", none="q", upper="q.NPY")
def _suffix(folder: Path, name: str) -> str:
    return put(folder, name, npy())
