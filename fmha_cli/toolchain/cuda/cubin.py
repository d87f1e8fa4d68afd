"""Read the compiler's records about the kernels of a cubin, and the data that a cubin exports. No toolkit is needed.

Sources:

- LLVM, ``BinaryFormat/ELF.h``: ``EM_CUDA``, ``EF_CUDA_*``, ``ELFABIVERSION_CUDA_*``.
- Sections and attributes, which NVIDIA does not document: the output of ``cuobjdump -elf`` and ``-res-usage`` of
  CUDA 13 for cubins of NVRTC 13.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from fmha_cli.toolchain.cuda import attributes as eiattr
from fmha_cli.toolchain.cuda.attributes import Attribute, Parameter, attributes, parameter_of, spill_offsets_of
from fmha_cli.toolchain.elf import Elf, MalformedObject, Section, Symbol

EM_CUDA = 190
_ABI_OLD, _ABI_NEW = 7, 8
_ACCELERATED_OLD, _ACCELERATED_NEW = 0x800, 0x8
_RESERVED_IN_SHARED = 90
_STO_CUDA_ENTRY = 0x10
_SHT_NOBITS = 8
_SHN_UNDEF = 0
_TEXT, _INFO, _SHARED, _LOCAL, _CONSTANT = ".text.", ".nv.info.", ".nv.shared.", ".nv.local.", ".nv.constant0."
_OWNER, _TKINFO = "NVIDIA Corp", 2000
_RELEASE = re.compile(r"release (\d+)\.")
_MARKS_SINCE = 13
"""The first release of the assembler that is known to mark spills. Earlier ones were not tried."""
RESERVED_SHARED_BYTES = 1024
"""Bytes of a block's shared memory that the driver reserves. From sm_90 on the compiler counts them in
``.nv.shared.*``."""


@dataclass(frozen=True, kw_only=True)
class CubinKernel:
    """One kernel of a cubin.

    Attributes:
        name: the kernel's symbol.
        registers: 32-bit registers of a thread.
        most_registers: the most registers that the compiler was allowed to use.
        shared_bytes: static shared memory of a block, without the driver's reserve.
        frame_bytes: stack of a thread in this kernel. Spilled registers are in it.
        stack_bytes: stack of a thread in this kernel and in everything that it calls.
        local_bytes: other local memory of a thread.
        parameters: the arguments by ordinal.
        parameter_bytes: bytes of the arguments in the constant bank.
        parameter_offset: offset of the arguments in the bank.
        most_threads: the most threads of a block according to ``__launch_bounds__``; None without it.
        barriers: named barriers.
        spill_offsets: offsets in the code of the instructions that the compiler itself marks as a spill or a refill.
            None where the compiler's marks have a kind that this reader does not know, or where there are no marks and
            the compiler may be too old to make them.
        code: the instructions with the padding behind them.
    """

    name: str
    registers: int
    most_registers: int | None
    shared_bytes: int
    frame_bytes: int
    stack_bytes: int
    local_bytes: int
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    parameter_offset: int | None
    most_threads: int | None
    barriers: int
    spill_offsets: tuple[int, ...] | None
    code: bytes


class Cubin:
    """The parts of one cubin.

    Args:
        raw: the whole file.

    Raises:
        MalformedObject: the file is not a cubin, or its ABI is unknown. Members raise only these errors too, whatever a
            damaged file contains.
    """

    def __init__(self, raw: bytes) -> None:
        self._elf = Elf(raw)
        if self._elf.machine != EM_CUDA:
            raise MalformedObject("not a cubin: an ELF file for another machine")
        if self._elf.abi_version not in (_ABI_OLD, _ABI_NEW):
            raise MalformedObject(f"a cubin of ABI version {self._elf.abi_version}")

    @property
    def capability(self) -> int:
        """10 x major + minor: 90 for sm_90a."""
        flags = self._elf.flags
        return flags & 0xFF if self._elf.abi_version == _ABI_OLD else flags >> 8 & 0xFF

    @cached_property
    def arch(self) -> str:
        """The architecture with its suffix, such as ``sm_90a``. The ``f`` of a family comes from the note of the
        compiler's options.

        Raises:
            MalformedObject: flags, compatibility record and note contradict each other.
        """
        old = self._elf.abi_version == _ABI_OLD
        accelerated = bool(self._elf.flags & (_ACCELERATED_OLD if old else _ACCELERATED_NEW))
        compat = self._elf.section(".nv.compat")
        for record in attributes(compat.data) if compat else ():
            if record.code == eiattr.COMPAT_ACCELERATOR_TARGET:
                accelerated = accelerated or bool(record.small & 1)
        plain = f"sm_{self.capability}"
        name = plain + "a" * accelerated
        said = self._option("-arch")
        if said == plain + "f" and not accelerated:
            return said
        if said is not None and said != name:
            raise MalformedObject(f"the cubin is for {name}, but its note states {said}")
        return name

    @property
    def tool_version(self) -> str | None:
        """The assembler's own version text: ``Cuda compilation tools, release 13.0, V13.0.88``."""
        return next((text for text in self._tool_texts() if text.startswith("Cuda compilation tools")), None)

    @cached_property
    def kernels(self) -> tuple[CubinKernel, ...]:
        """Every kernel, in the order of the symbols.

        Raises:
            MalformedObject: no kernel exists, or the figures of one are missing.
        """
        found = tuple(self._kernel(index, symbol.name, text) for index, symbol, text in self._entries())
        if not found:
            raise MalformedObject("the cubin holds no kernel")
        return found

    @cached_property
    def extern_calls(self) -> tuple[str, ...]:
        """Names that the code refers to and the file does not define, sorted: ``__assertfail``, ``vprintf``.

        Only the driver provides such functions. As at any call, the assembler must keep registers and order around such
        a call, and it serialises ``wgmma``. Names that the assembler reserves for itself (``.nv.``) do not count.
        """
        symbols = (s.name for s in self._elf.symbols if s.section == _SHN_UNDEF and not s.name.startswith(".nv."))
        return tuple(sorted({name for name in symbols if name}))

    def data_of(self, name: str) -> bytes:
        """The bytes of an exported variable or constant, as they will be in the device's memory.

        Raises:
            MalformedObject: there is no such symbol, or its bytes are not in the file.
        """
        for symbol in self._elf.symbols:
            if symbol.name == name and symbol.is_data and symbol.section:
                section = self._section(symbol.section)
                if section.kind == _SHT_NOBITS or symbol.address + symbol.size > len(section.data):
                    raise MalformedObject(f"the bytes of {name} are not in the file")
                return section.data[symbol.address : symbol.address + symbol.size]
        raise MalformedObject(f"the cubin exports no {name}")

    def _entries(self) -> Iterable[tuple[int, Symbol, Section]]:
        for index, symbol in enumerate(self._elf.symbols):
            if symbol.is_function and symbol.other & _STO_CUDA_ENTRY and symbol.section:
                text = self._section(symbol.section)
                if text.name != _TEXT + symbol.name:
                    raise MalformedObject(f"kernel {symbol.name} is not in {_TEXT}{symbol.name}")
                yield index, symbol, text

    def _kernel(self, index: int, name: str, text: Section) -> CubinKernel:
        info = self._elf.section(_INFO + name)
        if info is None:
            raise MalformedObject(f"kernel {name} has no {_INFO}{name}")
        records = list(attributes(info.data))
        registers = self._stated.get((eiattr.REGCOUNT, index))
        if registers is None:
            raise MalformedObject(f"the register count of kernel {name} is missing")
        if text.info >> 24 not in (0, registers):
            raise MalformedObject(f"the register counts of kernel {name} contradict each other")
        bank = _words(records, eiattr.PARAM_CBANK, 2)
        bounds = _words(records, eiattr.MAX_THREADS, 3) or _words(records, eiattr.REQNTID, 3)
        return CubinKernel(
            name=name,
            registers=registers,
            most_registers=_small(records, eiattr.MAXREG_COUNT),
            shared_bytes=self._shared(name),
            frame_bytes=self._stated.get((eiattr.FRAME_SIZE, index)) or 0,
            stack_bytes=self._stated.get((eiattr.MIN_STACK_SIZE, index)) or 0,
            local_bytes=self._size(_LOCAL + name),
            parameters=_parameters(records),
            parameter_bytes=_small(records, eiattr.CBANK_PARAM_SIZE) or 0,
            parameter_offset=bank[1] & 0xFFFF if bank else None,
            most_threads=bounds[0] * bounds[1] * bounds[2] if bounds else None,
            barriers=(_small(records, eiattr.NUM_BARRIERS) or 0) & 0xFF,
            spill_offsets=_spills(records, len(text.data), self._marks_spills),
            code=text.data,
        )

    @property
    def _marks_spills(self) -> bool:
        release = _RELEASE.search(self.tool_version or "")
        return release is not None and int(release[1]) >= _MARKS_SINCE

    def _shared(self, name: str) -> int:
        size = self._size(_SHARED + name)
        return max(0, size - RESERVED_SHARED_BYTES) if self.capability >= _RESERVED_IN_SHARED else size

    def _size(self, section: str) -> int:
        found = self._elf.section(section)
        return found.size if found else 0

    @cached_property
    def _stated(self) -> dict[tuple[int, int], int]:
        """The facts about functions in the file's own ``.nv.info``: (attribute, index of the symbol) -> number."""
        info = self._elf.section(".nv.info")
        pairs = ((record.code, record.words) for record in attributes(info.data if info else b""))
        return {(code, words[0]): words[1] for code, words in pairs if len(words) == 2}

    def _section(self, index: int) -> Section:
        if index >= len(self._elf.sections):
            raise MalformedObject("a symbol is in a section that does not exist")
        return self._elf.sections[index]

    def _option(self, name: str) -> str | None:
        """The value of an option in the assembler's note of its command line."""
        words = [word for text in self._tool_texts() for word in text.split() if text.startswith("-")]
        return next((value for key, value in pairwise(words) if key == name), None)

    def _tool_texts(self) -> tuple[str, ...]:
        notes = [note.data for note in self._elf.notes if note.owner == _OWNER and note.kind == _TKINFO]
        return tuple(text.decode("utf-8", "replace") for data in notes for text in data[24:].split(b"\0"))


def _words(records: Sequence[Attribute], code: int, count: int) -> tuple[int, ...] | None:
    found = next((record.words for record in records if record.code == code), None)
    if found is not None and len(found) != count:
        raise MalformedObject(f"attribute {code:#x} has {len(found)} numbers, not {count}")
    return found


def _small(records: Sequence[Attribute], code: int) -> int | None:
    return next((record.small for record in records if record.code == code), None)


def _parameters(records: Sequence[Attribute]) -> tuple[Parameter, ...]:
    found = sorted((parameter_of(r) for r in records if r.code == eiattr.KPARAM_INFO), key=lambda p: p.ordinal)
    if [parameter.ordinal for parameter in found] != list(range(len(found))):
        raise MalformedObject("the parameters of a kernel are not numbered without gaps")
    return tuple(found)


def _spills(records: Sequence[Attribute], code_bytes: int, marks: bool) -> tuple[int, ...] | None:
    """Offsets of all annotations. Without annotations: empty if the assembler ``marks`` spills, else None."""
    offsets: list[int] = []
    for record in records:
        if record.code == eiattr.ANNOTATIONS:
            found = spill_offsets_of(record)
            if found is None:
                return None
            offsets += found
    if any(offset % 16 or offset >= code_bytes for offset in offsets):
        raise MalformedObject("a spill is outside the code")
    return tuple(offsets) if offsets or marks else None
