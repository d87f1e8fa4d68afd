"""The part of a translation unit that a family provides, and ``check()`` and ``prepare()`` of the unit.

They lead from the argument block to CK's kernel arguments and grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fmha_cli.codegen.struct import CType, c_fields

RATIO = "nhead_ratio_qk"
"""Query heads per key/value head."""
DROP = "drop_seed_offset"
"""The variant of seed and offset, by value or by address."""
_DROP_TEXT = """\
  using Values = std::pair<uint64_t, uint64_t>;
  using Addresses = std::pair<const void*, const void*>;
  std::variant<Values, Addresses> drop_seed_offset = Values{a.drop_seed, a.drop_offset};
  if (a.drop_from_device != 0) drop_seed_offset = Addresses{a.drop_seed_ptr, a.drop_offset_ptr};
"""


@dataclass(frozen=True, kw_only=True)
class KernelCall:
    """How one kernel's arguments are made.

    Attributes:
        maker: CK's static function that makes them.
        arguments: its arguments in order: names of the block's fields, ``RATIO`` or ``DROP``. Integers are narrowed to
            the parameter's own type and refused if they do not fit.
        grid: arguments of ``GridSize``, likewise; other text is C++ that reads the block as ``a``.
        needed: pointers that must not be null.
        unused: fields that this kernel does not read. They must be 0, so no option is ignored silently.
        extents: sizes with their minimum.
        rules: further conditions, as (field at fault, C++ that reads the block as ``a``).
        products: (field at fault, factor, factor): the device code multiplies the factors in 32 bits, so the product
            must fit.
        grid_text: C++ that makes the grid instead of ``GridSize``, which in some kernels asks the runtime about the
            device.
    """

    maker: str
    arguments: tuple[str, ...]
    grid: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    extents: tuple[tuple[str, int], ...] = ()
    rules: tuple[tuple[str, str], ...] = ()
    products: tuple[tuple[str, str, str], ...] = ()
    grid_text: str = ""


ONLY = "  (void)a;\n  return use(std::type_identity<Kernel>{});\n"
"""The choice in a library with a single instance."""


@dataclass(frozen=True, kw_only=True)
class UnitPart:
    """The family's part of a translation unit.

    Attributes:
        types: C++ that ends in an alias ``Kernel``: the only instance, or one that represents all of them.
        call: how its arguments and its grid are made.
        in_waves: the block has one wave for each part of the tile, so 32-lane waves halve its number of threads.
        choose: C++ that selects the instance to launch, as upstream does at run time. It reads the block as ``a`` and
            returns ``use(std::type_identity<INSTANCE>{})``.
    """

    types: str
    call: KernelCall
    in_waves: bool
    choose: str = ONLY


def prepare_text(block: type, call: KernelCall) -> str:
    """``check(a, checks)`` validates; ``prepare<Kernel>(a, checks)`` then makes the arguments and the grid.

    Raises:
        KeyError: the block lacks a field that is to be checked.
    """
    kinds = dict(c_fields(block))
    checks = [
        *(f"  REQUIRE({name}, a.{name} != nullptr);" for name in call.needed),
        *(f"  REQUIRE({name}, a.{name} == {_zero(kinds[name])});" for name in call.unused),
        *(f"  EXTENT({name}, {least});" for name, least in call.extents),
        *(f"  REQUIRE({name}, {condition});" for name, condition in call.rules),
    ]
    products = [f"  PRODUCT({name}, {left}, {right});" for name, left, right in call.products]
    drop = _DROP_TEXT if DROP in call.arguments else ""
    grid = call.grid_text or f"Kernel::GridSize(\n{_list_names(call.grid, kinds)})"
    return (
        "static void check(const Args& a, Checks& checks) {\n"
        + "\n".join([*checks, *(["  if (checks.status != STATUS_OK) return;", *products] if products else [])])
        + "\n}\n\ntemplate <typename Kernel>\nstruct Prepared {\n  typename Kernel::Kargs kargs;\n  dim3 grid;\n};\n\n"
        + "template <typename Kernel>\nPrepared<Kernel> prepare(const Args& a, Checks& checks) {\n"
        + drop
        + f"  return {{Kernel::{call.maker}(\n{_list_names(call.arguments, kinds)}),\n      {grid}}};\n}}\n"
    )


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def strides(prefix: str, tensors: str) -> tuple[str, ...]:
    """Names of the strides of some tensors, such as ``nhead_stride_q`` for the prefix ``nhead_``."""
    return tuple(f"{prefix}stride_{name}" for name in tensors.split())


def _list_names(names: Iterable[str], kinds: dict[str, CType]) -> str:
    return ",\n".join(f"          {_argument(name, kinds)}" for name in names)


def _argument(name: str, kinds: dict[str, CType]) -> str:
    if name == RATIO:
        return "Narrow{a.nhead_q / a.nhead_k, FIELD_nhead_q, checks}"
    if name not in kinds:
        return name
    return f"IN({name})" if kinds[name].spelling.startswith("int") else f"a.{name}"


def _zero(kind: CType) -> str:
    return "nullptr" if kind.spelling.endswith("*") else "0"
