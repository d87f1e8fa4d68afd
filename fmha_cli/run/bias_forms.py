"""The forms in which a bias is given: the rank that a shape means, and booleans.

Axes are broadcast to (batch, heads, seqlen_q, seqlen_k) from the right, as PyTorch's ``scaled_dot_product_attention`` and ONNX's
``Attention`` do (JAX's ``dot_product_attention`` takes 4-D alone); 2-D may also be (batch, seqlen_k), the padding mask of
tokenizers. In booleans true is visible, as in these three; ``key_padding_mask`` of ``torch.nn.MultiheadAttention`` is the opposite.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fmha_cli.domain.errors import ImpossibleProblem, UsageError
from fmha_cli.domain.features import Bias
from fmha_cli.domain.impossible import conflict
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import Element
from fmha_cli.oracle.tensors import Array, numpy_dtype

FLAG = "--bias-file"
_AXES = ("batch", "heads", "seqlen_q", "seqlen_k")
_MASKING = "true = visible, the opposite of torch's key_padding_mask"

Shape = tuple[int, ...]


def bias_flags(raw: Mapping[str, str | bool], shape: Shape) -> dict[str, str]:
    """The flag that names the rank of a given bias; empty where ``raw`` names one, or another kind of bias.

    Raises:
        ImpossibleProblem: P015, the shape broadcasts to no form of a bias, or to two.
    """
    if raw.get("bias", "elementwise") != "elementwise":
        return {}
    given = {key: value for key, value in raw.items() if key not in ("bias", "bias_file")}
    problem = Problem.of(**given, bias="elementwise")
    return {"bias": f"elementwise:{_rank(problem, _four_axes(problem, shape)).value}"}


def given_bias(problem: Problem, array: Array) -> tuple[Array, list[str]]:
    """The array as the tensor ``bias``. Booleans become 0 and -inf in the bias' own type; other types stay as they are.

    Raises:
        ImpossibleProblem: P015, another shape than the problem's rank; P007, a gradient of booleans.
        UsageError: E035, integers.
    """
    boolean = array.dtype == np.bool_
    if problem.dbias and boolean:
        what = "a boolean bias (a mask)"
        raise conflict(
            "--dbias", what, "a key is visible or not: there is nothing to differentiate", "leave --dbias out"
        )
    if array.dtype.kind in "iu":
        what, why = f"the bias holds {array.dtype}", f"is it a mask or a number? in booleans {_MASKING}"
        help = f"booleans: x != 0 if 1 is visible, x == 0 if 1 is hidden; a number: x as {problem.dtype.bias.value}"
        raise UsageError(what, code="E035", where=FLAG, why=why, help=help)
    wanted = problem.bias.shape(*_sizes(problem))
    four = _four_axes(problem, array.shape, wanted)
    notes = []
    if four != wanted:
        notes.append(f"bias: {array.shape} expanded to {wanted}: one number for all keys of a row")
        if problem.dbias:
            why = "it adds the same to all scores of a row; its gradient is not taken"
            raise conflict(
                "--dbias", f"a bias of shape {array.shape}", why, f"give it as {wanted}, or leave --dbias out"
            )
    out = np.broadcast_to(array.reshape(four), wanted)
    if boolean:
        element = Element.of(problem.dtype.bias)
        out = np.where(out, np.float32(0), np.float32(-np.inf)).astype(numpy_dtype(element))
        notes.append(f"bias: booleans ({_MASKING}) became 0 and -inf in {element.value}")
    return out, notes


def _sizes(problem: Problem) -> tuple[int, int, int, int]:
    return problem.batch, problem.heads, problem.seqlen_q, problem.seqlen_k


def _rank(problem: Problem, four: Shape) -> Bias:
    """The rank of a shape of four axes. An axis of one element counts as broadcast."""
    letters = (letter if size > 1 else "1" for letter, size in zip("bhs", four[:3], strict=True))
    return Bias(f"{''.join(letters)}s")


def _four_axes(problem: Problem, shape: Shape, wanted: Shape | None = None) -> Shape:
    """The shape as four axes, each 1 or the problem's size.

    Args:
        wanted: the only axes that will do; the last one may be 1.

    Raises:
        ImpossibleProblem: P015, no form fits, or two do.
    """
    sizes = batch, heads, rows, keys = _sizes(problem)
    forms = {4: [shape], 3: [(1, *shape)], 2: [(1, 1, *shape), (*shape[:1], 1, 1, *shape[1:])]}.get(len(shape), [])
    if len(shape) == 3 and shape[0] == batch == heads:
        forms.append((batch, 1, *shape[1:]))  # broadcast makes it (heads, ...), but masks of (batch, ...) are common
    fitting = [form for form in dict.fromkeys(forms) if _fits(form, sizes)]
    if wanted is not None:
        fitting = [form for form in fitting if form[:3] == wanted[:3]]
    if len(fitting) == 1:
        return fitting[0]
    why = "the problem has " + ", ".join(f"{axis} {size}" for axis, size in zip(_AXES, sizes, strict=True))
    if fitting:
        what = f"the bias has shape {shape}, which may mean {' or '.join(map(str, fitting))}"
        raise ImpossibleProblem(what, code="P015", where=FLAG, why=why, help="give it with one of these shapes")
    what = f"the bias has shape {shape}"
    if wanted is not None and _fits(shape, sizes):
        what += f", and --bias elementwise:{problem.bias.value} asks for {wanted}"
        raise ImpossibleProblem(
            what, code="P015", where=FLAG, why=why, help="--bias elementwise: the shape gives the rank"
        )
    what += f", which does not broadcast to {sizes}"
    help = (
        f"four axes, each 1 or that of ({batch}, {heads}, {rows}, {keys}); ({heads}, {rows}, {keys}), "
        f"({rows}, {keys}) by broadcast; or ({batch}, {keys}) for each sequence"
    )
    raise ImpossibleProblem(what, code="P015", where=FLAG, why=why, help=help)


def _fits(shape: Shape, sizes: Shape) -> bool:
    """Whether the shape broadcasts to the sizes from the right."""
    return len(shape) <= 4 and all(n in (1, size) for n, size in zip(shape[::-1], sizes[::-1], strict=False))
