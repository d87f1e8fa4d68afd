"""Tensors that a Python caller gives: arrays of any library, names of files, and the word that asks for a generated one.

Arrays of other libraries come by the DLPack protocol (``dlpack``). The producer's memory is copied at once, so none of it is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from os import PathLike, fspath
from typing import Any

import numpy as np

from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.suggest import suggest
from fmha_cli.oracle.mx import SCALED
from fmha_cli.oracle.tensors import Array
from fmha_cli.run.dlpack import copied, has_dlpack, refused
from fmha_cli.run.input_files import ARRAY, FLAG_OF, InputFiles, read_input_files
from fmha_cli.run.request import TENSOR_OF_FLAG, Command, Request


def host_array(value: object, name: str) -> Array:
    """The tensor as a numpy array in C order and in the machine's byte order; anything with ``__dlpack__`` as a copy.

    Args:
        name: the argument, for errors.

    Raises:
        UsageError: E039, not a tensor, not in host memory, or of an element type without a numpy form.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise refused(name, "it is a masked array", f"pass {name}.filled(value); a mask of keys is a bias of booleans")
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        native = array.dtype.newbyteorder("=")
        return np.ascontiguousarray(array, native) if array.ndim else array.astype(native)
    if not has_dlpack(value):
        raise refused(name, f"it is a {type(value).__name__}", "pass a numpy array, or an object with __dlpack__")
    return copied(value, name)


TENSORS: Mapping[str, str] = {
    **TENSOR_OF_FLAG,
    **{tensor: tensor for tensor in TENSOR_OF_FLAG.values()},
    **{f"{name}_scale": f"{name}_scale" for name in SCALED},
}
"""Name of an argument -> the tensor: tensors go by their own names and by those of their flags."""


def given_tensors(values: Mapping[str, object]) -> tuple[InputFiles, dict[str, str]]:
    """The tensors of arguments, and the texts among them as flag key -> FILE[:KEY] or the word.

    Args:
        values: name of a tensor -> an array (numpy, or with ``__dlpack__`` in host memory), the name of a file,
            ``filled``, or None for "not given".

    Raises:
        UsageError: E039, an array that cannot be read; see also ``fmha_cli.run.input_files.read_input_files``.
    """
    named = {name: value for name, value in values.items() if value is not None}
    spelled = {name: value for name, value in named.items() if isinstance(value, str | PathLike) and name in FLAG_OF}
    texts = {FLAG_OF[name][2:].replace("-", "_"): fspath(value) for name, value in spelled.items()}
    arrays = {name: host_array(value, name) for name, value in named.items() if name not in spelled}
    read = read_input_files(texts)
    return InputFiles({**read.arrays, **arrays}, {**read.paths, **dict.fromkeys(arrays, ARRAY)}), texts


def merged(*several: Mapping[str, object]) -> dict[str, object]:
    """Tensors by their own names, from arguments that may have those of their flags.

    Raises:
        UsageError: E039, no such tensor, or one that is given twice.
    """
    out: dict[str, object] = {}
    for name, value in (item for one in several for item in one.items() if item[1] is not None):
        if name not in TENSORS:
            help = ", ".join(sorted({*TENSORS.values()}))
            raise UsageError(f"there is no tensor {name}", code="E039", where="tensors", help=help)
        if TENSORS[name] in out:
            raise UsageError(f"{TENSORS[name]} is given twice", code="E039", where=name, help="give it once")
        out[TENSORS[name]] = value
    return out


def request_with(options: Mapping[str, Any], files: Mapping[str, str]) -> Request:
    """The request of a Python caller.

    Args:
        options: members of a request by their names.

    Raises:
        UsageError: E043, the option does not exist.
    """
    known = {field.name for field in fields(Request)}
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        help = suggest(unknown, known)
        if unknown in TENSORS and unknown != "bias":
            help = f'tensors={{"{TENSORS[unknown]}": ...}}'
        elif unknown in BY_KEY:
            help = f"Problem.of({unknown}=...)"
        raise UsageError(f"there is no option {unknown}", code="E043", where=unknown, help=help)
    named = {name: fspath(value) if isinstance(value, PathLike) else value for name, value in options.items()}
    return Request(**{**named, "command": Command(options.get("command", Command.RUN)), "files": files})
