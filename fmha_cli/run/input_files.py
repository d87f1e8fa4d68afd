"""Tensors given as files or arrays: the implications of their shapes for the problem, and whether they fit it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fmha_cli.domain.dtypes import DType, Fp8Encoding, KvDType
from fmha_cli.domain.errors import ImpossibleProblem, UsageError
from fmha_cli.domain.features import Direction
from fmha_cli.domain.fields import BY_KEY, asks_fill
from fmha_cli.domain.flags import FILLED, parse_list, parse_size
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import ROTARY_TABLES, Element, shapes_of
from fmha_cli.oracle.mx import SCALED, encode_tensor
from fmha_cli.oracle.tensors import Array, numpy_dtype, round_to
from fmha_cli.run.bias_forms import bias_flags, given_bias
from fmha_cli.run.given_cache import cache_lengths, check_pages, check_rotary, in_use, storage_notes
from fmha_cli.run.request import TENSOR_OF_FLAG
from fmha_cli.run.tensor_files import file_of, read_tensor

_PAGED = ("pages", "page", "heads", "d")
_AXES: Mapping[tuple[bool, bool], tuple[str, ...]] = {
    (False, False): ("batch", "heads", "s", "d"),
    (True, False): ("batch", "s", "heads", "d"),
    (False, True): ("heads", "total", "d"),
    (True, True): ("total", "heads", "d"),
}
"""(bshd, packed) -> axes of q, k and v (``fmha_cli.domain.tensors`` defines the forms)."""

_DTYPE_OF = {
    str(numpy_dtype(Element.of(dtype, encoding))): (dtype, encoding)
    for encoding in (Fp8Encoding.FNUZ, Fp8Encoding.OCP)
    for dtype in DType
    if not dtype.is_mx
}
"""Name of a numpy type -> dtype, and the encoding of fp8."""
_CACHE_TYPES = {"int8": (KvDType.INT8, Fp8Encoding.OCP)} | {
    name: (KvDType(dtype.value), encoding) for name, (dtype, encoding) in _DTYPE_OF.items() if dtype.is_fp8
}
"""Name of a numpy type that a cache can have when Q has another type -> its type, and the encoding of fp8."""

_SHAPED = ("q", "k", "v", "k_new", "v_new")
"""Tensors whose shapes and types are those of the problem."""

FLAG_OF = {tensor: f"--{flag.replace('_', '-')}" for flag, tensor in TENSOR_OF_FLAG.items()}


ARRAY = "(array)"
"""The placeholder for a file's name, for a tensor that is an array of the caller."""


@dataclass(frozen=True)
class InputFiles:
    """The tensors that were given.

    Attributes:
        arrays: by tensor name.
        paths: tensor name -> its file, ``ARRAY``, or ``FILLED`` if it is to be generated.
    """

    arrays: Mapping[str, Array]
    paths: Mapping[str, str]

    def said(self, name: str) -> str:
        """The tensor in a sentence."""
        return f"the array {name}" if self.paths.get(name) == ARRAY else f"the file of {name}"


NONE_GIVEN = InputFiles({}, {})


def read_input_files(files: Mapping[str, str]) -> InputFiles:
    """Read every file; the word ``filled`` names no file.

    Args:
        files: flag key -> FILE[:KEY], or the word.

    Raises:
        UsageError: a missing or unreadable file, or P014, a form that no generated tensor has.
    """
    named = {key: spec for key, spec in files.items() if not asks_fill(key, spec)}
    filled = {TENSOR_OF_FLAG[key]: FILLED for key in files.keys() - named.keys()}
    arrays = {}
    for key, spec in named.items():
        name = TENSOR_OF_FLAG[key]
        arrays[name] = read_tensor(spec, f"--{key.replace('_', '-')}", name)
        if name in SCALED:
            arrays |= _scales(spec, name)
    return InputFiles(arrays, {**filled, **{TENSOR_OF_FLAG[key]: spec for key, spec in named.items()}})


def _scales(spec: str, name: str) -> dict[str, Array]:
    """The block scales of a tensor of an MX type, under the key NAME_scale of the same file; empty without that key."""
    try:
        return {f"{name}_scale": read_tensor(f"{file_of(spec)[0]}:{name}_scale", f"--{name}", f"{name}_scale")}
    except UsageError as fault:
        if fault.code != "E032":
            raise
        return {}


def flags_from_files(
    raw: Mapping[str, str | bool], given: InputFiles, *, may_be_empty: bool = False
) -> dict[str, str | bool]:
    """The raw flags, completed from the tensors' shapes and dtypes.

    Args:
        may_be_empty: whether there may be no sequences, or no queries; ``Problem`` has no such form.

    Raises:
        ImpossibleProblem: a flag that was given, or another file, contradicts a file.
        UsageError: a wrong number of axes, or an element type that is not supported.
    """
    out = dict(raw)
    said: dict[str, tuple[int, str]] = {}

    def say(key: str, value: int, tensor: str) -> None:
        flag = f"--{key.replace('_', '-')}"
        before = said.setdefault(key, (value, tensor))
        if before[0] != value:
            what = f"{tensor} has {flag} {value}, {before[1]} has {before[0]}"
            raise _contradiction(what, flag, "give tensors that agree")

    group, cache = "seqlens_q" in raw, str(raw.get("kv_cache", "none"))
    bshd = str(raw.get("layout", "bhsd")).partition(":")[0] == "bshd"
    told = {"q", "k_new", "v_new"} & given.arrays.keys() or {"batch", "cache_batch_idx"} & raw.keys()
    for name in _SHAPED:
        array = given.arrays.get(name)
        if array is None:
            continue
        new = name.endswith("_new")
        paged = cache.startswith("paged") and name in ("k", "v")
        packed = group and not new and (name == "q" or cache == "none")
        form = _PAGED if paged else _AXES[bshd, packed]
        if array.ndim != len(form):
            what = f"{given.said(name)} has shape {array.shape}, axes ({', '.join(form)}) are needed"
            raise UsageError(what, code="E034", where=FLAG_OF[name])
        size = dict(zip(form, array.shape, strict=True))
        _refuse_empty(given, name, form, ("batch", "s") if may_be_empty and not new else ())
        if not paged:
            _refuse_other_layout(given, name, (form, _AXES[not bshd, packed]), raw)
        say("hdim_v" if name in ("v", "v_new") else "hdim", size["d"], name)
        say("heads" if name == "q" else "kv_heads", size["heads"], name)
        if "batch" in size and (new or name == "q" or cache == "none" or not told):  # a cache may have more sequences
            say("batch", size["batch"], name)
        if "s" in size and (name == "q" or new or cache == "none"):
            say("append" if new else "seqlen" if name == "q" else "seqlen_k", size["s"], name)
    table = given.arrays.get("block_table")
    if table is not None and not group:
        say("batch", table.shape[0] if table.ndim else 0, "block_table")
    inside = parse_size(str(raw.get("mla_rope", "0")), "--mla-rope") != 0
    own = next((name for name in ("v", "v_new") if name in given.arrays), None)
    if inside and own is not None:
        raise _contradiction(f"--mla-rope {raw['mla_rope']}, but there is {given.said(own)}", "--mla-rope")
    if "v" not in given.arrays and "hdim" in said and "hdim_v" not in raw and not inside:
        said.setdefault("hdim_v", said["hdim"])
    if "k" not in given.arrays and "v" not in given.arrays and "heads" in said and "kv_heads" not in raw:
        said.setdefault("kv_heads", said["heads"])
    for key, (value, tensor) in said.items():
        flag = f"--{key.replace('_', '-')}"
        if key in raw and parse_size(str(raw[key]), flag, BY_KEY[key].sweeps) != value:
            raise _contradiction(f"{flag} {raw[key]}, but {given.said(tensor)} has {value}", flag)
        if key == "batch" and group:
            continue
        out[key] = str(value)
    out |= cache_lengths(out, given.arrays)
    out |= {flag: FILLED for flag, tensor in TENSOR_OF_FLAG.items() if flag in BY_KEY and tensor in given.arrays}
    slopes = given.arrays.get("alibi_slopes")
    if slopes is not None:
        out["alibi_slopes"] = f"{FILLED}:{'bh' if slopes.ndim == 2 else 'h'}"
    dtypes = {name: given.arrays[name].dtype for name in _SHAPED if name in given.arrays}
    if cache != "none":
        out |= {key: text for key, text in _cache_type(dtypes).items() if key not in raw}
    if dtypes and "dtype" not in raw:
        out |= _common_dtype(dtypes, given)
    elif "fp8_encoding" not in out and any(_is_fnuz(dtype) for dtype in dtypes.values()):
        out |= _encoded(Fp8Encoding.FNUZ)
    if "bias" in given.arrays:
        out |= bias_flags(out, given.arrays["bias"].shape)
    return out


def _cache_type(dtypes: dict[str, np.dtype[np.generic]]) -> dict[str, str]:
    """The flags of a cache with its own type, whose tensors are taken out of ``dtypes``; empty without such a cache."""
    held = {str(dtypes[name]) for name in ("k", "v") if name in dtypes}
    beside = {str(dtypes[name]) for name in dtypes if name not in ("k", "v")}
    if len(held) != 1 or not held <= _CACHE_TYPES.keys() or held == beside or not (beside or held <= {"int8"}):
        return {}
    for name in ("k", "v"):
        dtypes.pop(name, None)
    kv, encoding = _CACHE_TYPES[held.pop()]
    return {"kv_dtype": kv.value, **_encoded(encoding)}


def _is_fnuz(dtype: np.dtype[np.generic]) -> bool:
    return _DTYPE_OF.get(str(dtype), (None, None))[1] is Fp8Encoding.FNUZ


def _encoded(encoding: Fp8Encoding) -> dict[str, str]:
    return {"fp8_encoding": encoding.value} if encoding is Fp8Encoding.FNUZ else {}


def _refuse_empty(given: InputFiles, name: str, form: tuple[str, ...], also: tuple[str, ...]) -> None:
    """Refuse a tensor without elements; only cached keys may be none, and packed sequences may all be empty.

    Raises:
        ImpossibleProblem: P005.
    """
    shape = given.arrays[name].shape
    may = (*also, "total", "pages", *(("s",) if name in ("k", "v") else ()))
    empty = next((axis for axis, size in zip(form, shape, strict=True) if size == 0 and axis not in may), None)
    if empty is not None:
        what = f"{given.said(name)} has shape {shape}, whose axis {empty} is 0"
        why = f"the axes are ({', '.join(form)}), and {empty} must be at least 1"
        raise ImpossibleProblem(what, code="P005", where=FLAG_OF[name], why=why, help="give a tensor that has elements")


def _refuse_other_layout(
    given: InputFiles, name: str, axes: tuple[tuple[str, ...], tuple[str, ...]], raw: Mapping[str, object]
) -> None:
    """Refuse a tensor whose axes are those of the other layout.

    Args:
        axes: by the layout in use, and by the other one.

    Raises:
        ImpossibleProblem: the given heads and lengths are not on these axes, but on those of the other layout.
    """
    shape = given.arrays[name].shape
    keys = ("heads", "seqlen", "seqlens_q") if name == "q" else ("kv_heads", "seqlen_k", "seqlens_k")
    default = dict(zip(keys, ("heads", "seqlen", "seqlens_q"), strict=True))
    heads, length, lengths = (raw.get(key, raw.get(default[key])) for key in keys)
    if name.endswith("_new"):
        length, lengths = raw.get("append"), None
    sized: dict[str, int] = {}
    sized |= {} if heads is None else {"heads": parse_size(str(heads), "--heads", sweeps=True)}
    sized |= {} if length is None else {"s": parse_size(str(length), "--seqlen", sweeps=True)}
    sized |= {} if lengths is None else {"total": sum(parse_list(str(lengths), "--seqlens-q"))}
    here, there = (dict(zip(form, shape, strict=True)) for form in axes)
    fits, would = (all(at.get(axis, size) == size for axis, size in sized.items()) for at in (here, there))
    if would and not fits:
        layouts = ("bhsd", "bshd") if axes[0].index("heads") < axes[1].index("heads") else ("bshd", "bhsd")
        what = f"{given.said(name)} has shape {shape}, which --layout {layouts[0]} reads as ({', '.join(axes[0])})"
        why = f"{', '.join(f'{axis} {size}' for axis, size in sized.items())}: these are on the axes of --layout {layouts[1]}"
        help = f"--layout {layouts[1]}, which reads it as ({', '.join(axes[1])})"
        raise ImpossibleProblem(what, code="P015", where=FLAG_OF[name], why=why, help=help)


def _contradiction(what: str, flag: str, help: str | None = None) -> ImpossibleProblem:
    why = "shapes come from the tensors that are given"
    return ImpossibleProblem(what, code="P015", where=flag, why=why, help=help or f"leave {flag} out")


def _common_dtype(dtypes: Mapping[str, np.dtype[np.generic]], given: InputFiles) -> dict[str, str]:
    """The flags of the one type of several tensors. Raises UsageError: E035, they have none."""
    names = {str(d) for d in dtypes.values()}
    if len(names) != 1:
        listed = ", ".join(f"{k} {v}" for k, v in dtypes.items())
        raise UsageError(f"the tensors have several element types: {listed}", code="E035", help=_one_type(names))
    name = names.pop()
    if name not in _DTYPE_OF:
        what = f"{given.said(next(iter(dtypes)))} holds {name}, which is not the type of a problem"
        raise UsageError(what, code="E035", help=_one_type({name}))
    dtype, encoding = _DTYPE_OF[name]
    return {"dtype": dtype.value, **_encoded(encoding)}


def _one_type(names: set[str]) -> str:
    """How tensors of these types become one problem: only float32 and float64 are rounded to another type."""
    if names == {"float4_e2m1fn"}:
        return f"--dtype {DType.MXFP4.value}"
    fixed = names - {"float32", "float64"}
    if not fixed:
        return "name one with --dtype, to which they are rounded"
    known = [_DTYPE_OF[name][0] for name in fixed if name in _DTYPE_OF]
    if len(fixed) == len(known) == 1:
        return f"--dtype {known[0].value}, to which the others are rounded"
    return "give them as one of fp32, fp16, bf16 or fp8"


def check_fit(problem: Problem, given: InputFiles) -> None:
    """Refuse arrays that cannot be tensors of the problem.

    Raises:
        ImpossibleProblem: P015, a tensor that the problem lacks, or a shape that does not fit; P022, pages that are not a
            sequence's own and to which it appends.
        UsageError: E035, an element type that cannot be turned into the problem's; E042, a block table that names pages
            which do not exist.
    """
    shapes = shapes_of(problem)
    for name, array in _used(problem, given).items():
        flag = FLAG_OF.get(name, f"--{name}")
        if name not in shapes:
            what, why = f"the problem has no tensor {name}", "its other flags leave none"
            backward = f"; or --direction {Direction.BWD.value}" if name == "do" else ""
            raise ImpossibleProblem(what, code="P015", where=flag, why=why, help=f"leave {flag} out{backward}")
        want = shapes[name]
        if name == "bias":
            array, _ = given_bias(problem, array)
        if name in ROTARY_TABLES:
            check_rotary(problem, name, array)
        if array.shape != want.shape:
            what = f"{given.said(name)} has shape {array.shape}, the problem needs {want.shape}"
            raise _contradiction(what, flag, f"give {name} in that shape")
        whole = want.dtype is Element.INT32
        rounded = array.dtype in (np.dtype(np.float32), np.dtype(np.float64)) or (
            name in ROTARY_TABLES and str(array.dtype) in ("float16", "bfloat16")
        )
        if array.dtype != numpy_dtype(want.dtype) and not (array.dtype.kind == "i" if whole else rounded):
            what = f"{given.said(name)} holds {array.dtype}, the problem is {want.dtype.value}"
            help = f"give it as {want.dtype.value}" + ("" if whole else ", or as float32, which is rounded")
            raise UsageError(what, code="E035", where=flag, help=help)
    if "block_table" in given.arrays:
        check_pages(problem, given.arrays["block_table"])


def _used(problem: Problem, given: InputFiles) -> dict[str, Array]:
    """The arrays that the problem has a use for: scales of MX types are in the same file as other arrays.

    Raises:
        UsageError: E032, elements of an MX type without their scales.
    """
    shapes = shapes_of(problem)
    arrays = {name: in_use(problem, name, a, shapes[name]) if name in shapes else a for name, a in given.arrays.items()}
    if not problem.dtype.is_mx:
        return {name: array for name, array in arrays.items() if not name.endswith("_scale")}
    for name in SCALED:
        array = given.arrays.get(name)
        if array is not None and f"{name}_scale" not in given.arrays and str(array.dtype) not in ("float32", "float64"):
            what = f"{given.said(name)} has {array.dtype} elements of {problem.dtype.value} without their scales"
            help = f"add an array {name}_scale to it, or give float32, which is converted"
            raise UsageError(what, code="E032", where=f"--{name}", help=help)
    return arrays


def fitted(problem: Problem, given: InputFiles) -> tuple[dict[str, Array], list[str]]:
    """The arrays as tensors of the problem, and notes on rounding. They are copies that may be written to.

    Raises:
        UsageError: see ``check_fit``.
    """
    check_fit(problem, given)
    shapes = shapes_of(problem)
    out: dict[str, Array] = {}
    notes = storage_notes(problem)
    for name, array in _used(problem, given).items():
        want = shapes[name]
        if name == "bias":
            array, more = given_bias(problem, array)
            notes += more
        if problem.dtype.is_mx and name in SCALED and f"{name}_scale" not in given.arrays:
            out[name], out[f"{name}_scale"] = encode_tensor(problem, name, array.astype(np.float32))
            notes.append(f"{name}: {array.dtype} converted to {problem.dtype.value} (OCP Microscaling, section 6.3)")
        elif array.dtype == numpy_dtype(want.dtype):
            out[name] = np.array(array)
        elif want.dtype is Element.INT32:
            out[name] = array.astype(np.int32)
        elif str(array.dtype) in ("float16", "bfloat16"):
            out[name] = round_to(array, want.dtype)  # exact
        else:
            out[name] = round_to(array, want.dtype)
            lost = np.count_nonzero(np.isfinite(array) & ~np.isfinite(out[name].astype(np.float32)))
            beyond = f"; {lost} of its finite numbers became infinite" if lost else ""
            notes.append(f"{name}: {array.dtype} rounded to {want.dtype.value} (nearest even){beyond}")
    return out, notes
