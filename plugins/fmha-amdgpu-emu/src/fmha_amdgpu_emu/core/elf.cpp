// Loading of code objects: segments, relocations, symbols, the metadata note (LLVM AMDGPU backend guide, "ELF Code
// Object"; System V ABI for the container).
#include "elf.hpp"

#include <elf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "launch.hpp"
#include "memory.hpp"

namespace emu {

namespace {

constexpr uint16_t kMachine = 224;       // EM_AMDGPU
constexpr uint8_t kHsa = 64;             // ELFOSABI_AMDGPU_HSA
constexpr uint32_t kMetadataNote = 32;   // NT_AMDGPU_METADATA
constexpr uint64_t kPage = 4096;
constexpr uint64_t kMostBytes = 1ull << 32;

enum : uint32_t {  // R_AMDGPU_*
  kNone = 0, kAbs32Lo = 1, kAbs32Hi = 2, kAbs64 = 3, kRel32 = 4, kRel64 = 5, kAbs32 = 6, kRel32Lo = 10, kRel32Hi = 11,
  kRelative64 = 13
};

// The file; every read checks its bounds.
struct File {
  const uint8_t* data;
  uint64_t bytes;

  void need(uint64_t offset, uint64_t count, const char* what) const {
    if (offset > bytes || count > bytes - offset)
      throw LoadError{std::string("the code object is damaged: its ") + what + " lies beyond its end"};
  }
  template <class T> T get(uint64_t offset, const char* what) const {
    need(offset, sizeof(T), what);
    T out;
    std::memcpy(&out, data + offset, sizeof out);
    return out;
  }
  std::string text(uint64_t offset, uint64_t end) const {
    std::string out;
    while (offset < std::min(end, bytes) && data[offset]) out += char(data[offset++]);
    return out;
  }
};

Elf64_Ehdr header_of(const File& file) {
  if (file.bytes < sizeof(Elf64_Ehdr) || std::memcmp(file.data, ELFMAG, SELFMAG) != 0)
    throw LoadError{"it is not an ELF file"};
  const auto header = file.get<Elf64_Ehdr>(0, "header");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != kMachine ||
      header.e_ident[EI_OSABI] != kHsa)
    throw LoadError{"it is not an AMDGPU code object for HSA"};
  if (header.e_type != ET_DYN) throw LoadError{"the code object is not linked"};
  if (header.e_phentsize != sizeof(Elf64_Phdr) || (header.e_shnum && header.e_shentsize != sizeof(Elf64_Shdr)))
    throw LoadError{"the code object is damaged: its tables have entries of an unknown size"};
  return header;
}

const ArchTraits* arch_of_flags(uint32_t flags) {
  for (const ArchTraits& arch : kArchs)
    if (arch.machine == (flags & 0xff)) return &arch;
  std::string known;
  for (const ArchTraits& arch : kArchs) known += std::string(known.empty() ? "" : ", ") + arch.name;
  char number[8];
  std::snprintf(number, sizeof number, "0x%02x", flags & 0xffu);
  throw LoadError{std::string("the code object is for another architecture (EF_AMDGPU_MACH ") + number + "); known are " + known};
}

template <class T> std::vector<T> table(const File& file, uint64_t offset, uint64_t count, const char* what) {
  if (count > file.bytes / sizeof(T)) throw LoadError{std::string("the code object is damaged: too many entries in its ") + what};
  std::vector<T> out;
  out.reserve(count);
  for (uint64_t k = 0; k < count; ++k) out.push_back(file.get<T>(offset + k * sizeof(T), what));
  return out;
}

void map_segments(Image& image, const File& file, const std::vector<Elf64_Phdr>& headers) {
  image.low = ~0ull;
  for (const Elf64_Phdr& p : headers) {
    if (p.p_type != PT_LOAD || !p.p_memsz) continue;
    file.need(p.p_offset, p.p_filesz, "segment");
    if (p.p_filesz > p.p_memsz || p.p_vaddr + p.p_memsz < p.p_vaddr || p.p_vaddr + p.p_memsz > kMostBytes)
      throw LoadError{"the code object is damaged: a segment has an impossible size"};
    image.segments.push_back({p.p_vaddr, p.p_vaddr + p.p_memsz, (p.p_flags & PF_W) != 0, (p.p_flags & PF_X) != 0});
    image.low = std::min<uint64_t>(image.low, p.p_vaddr);
    image.high = std::max<uint64_t>(image.high, p.p_vaddr + p.p_memsz);
  }
  if (image.segments.empty()) throw LoadError{"the code object has no segment to load"};
  image.low &= ~(kPage - 1);
  image.mapped_bytes = (image.high - image.low + kPage - 1) & ~(kPage - 1);
  image.mapping = mmap(nullptr, image.mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (image.mapping == MAP_FAILED) {
    image.mapping = nullptr;
    throw LoadError{"no memory for the code object's segments"};
  }
  image.bias = reinterpret_cast<uint64_t>(image.mapping) - image.low;
  for (const Elf64_Phdr& p : headers)
    if (p.p_type == PT_LOAD && p.p_filesz)
      std::memcpy(reinterpret_cast<void*>(image.bias + p.p_vaddr), file.data + p.p_offset, p.p_filesz);
}

std::vector<Symbol> read_symbols(const File& file, const std::vector<Elf64_Shdr>& sections, size_t index,
                                 std::vector<bool>* defined = nullptr) {
  const Elf64_Shdr& section = sections[index];
  if (section.sh_link >= sections.size()) throw LoadError{"the code object is damaged: symbols without names"};
  const Elf64_Shdr& names = sections[section.sh_link];
  std::vector<Symbol> out;
  for (const auto& s : table<Elf64_Sym>(file, section.sh_offset, section.sh_size / sizeof(Elf64_Sym), "symbol table")) {
    out.push_back({file.text(names.sh_offset + s.st_name, names.sh_offset + names.sh_size), s.st_value, s.st_size,
                   uint8_t(ELF64_ST_TYPE(s.st_info))});
    if (defined) defined->push_back(s.st_shndx != SHN_UNDEF || ELF64_ST_BIND(s.st_info) == STB_WEAK);
    if (s.st_shndx == SHN_UNDEF) out.back().address = 0;
  }
  return out;
}

void relocate(Image& image, const Elf64_Rela& r, const std::vector<Symbol>& symbols, const std::vector<bool>& defined) {
  const uint32_t type = uint32_t(ELF64_R_TYPE(r.r_info)), index = uint32_t(ELF64_R_SYM(r.r_info));
  if (type == kNone) return;
  if (index >= std::max<size_t>(symbols.size(), 1)) throw LoadError{"the code object is damaged: a relocation without a symbol"};
  if (index && !defined[index]) throw LoadError{"the code object needs the symbol " + symbols[index].name + ", which is not defined"};
  const bool absent = index && symbols[index].address == 0;  // a weak one
  const uint64_t symbol = index && !absent ? image.bias + symbols[index].address : 0;
  const uint64_t place = image.bias + r.r_offset, addend = uint64_t(r.r_addend);
  uint64_t value = 0;
  uint32_t width = 8;
  switch (type) {
    case kRelative64: value = image.bias + addend; break;
    case kAbs64: value = symbol + addend; break;
    case kRel64: value = symbol + addend - place; break;
    case kAbs32: case kAbs32Lo: value = symbol + addend, width = 4; break;
    case kAbs32Hi: value = (symbol + addend) >> 32, width = 4; break;
    case kRel32: case kRel32Lo: value = symbol + addend - place, width = 4; break;
    case kRel32Hi: value = (symbol + addend - place) >> 32, width = 4; break;
    default: throw LoadError{"a relocation of type " + std::to_string(type) + " is not implemented"};
  }
  if (!image.holds(r.r_offset, width)) throw LoadError{"the code object is damaged: a relocation lies outside its segments"};
  std::memcpy(reinterpret_cast<void*>(place), &value, width);
}

void read_notes(Image& image, const File& file, const Elf64_Phdr& p) {
  const uint64_t end = p.p_offset + p.p_filesz;
  file.need(p.p_offset, p.p_filesz, "note");
  for (uint64_t at = p.p_offset; at + sizeof(Elf64_Nhdr) <= end;) {
    const auto note = file.get<Elf64_Nhdr>(at, "note");
    const uint64_t name = at + sizeof note, body = name + ((uint64_t(note.n_namesz) + 3) & ~3ull);
    file.need(body, note.n_descsz, "note");
    if (note.n_type == kMetadataNote && file.text(name, body) == "AMDGPU")
      image.metadata.assign(file.data + body, file.data + body + note.n_descsz);
    at = body + ((uint64_t(note.n_descsz) + 3) & ~3ull);
  }
}

void name_regions(const Image& image, const std::string& name) {
  const uint64_t start = image.bias + image.low;
  std::vector<Region> regions;
  for (const Image::Segment& s : image.segments)
    regions.push_back({image.bias + s.start, image.bias + s.end,
                       (s.executable ? "code of " : s.writable ? "variables of " : "constants of ") + name, s.writable});
  memory().allocated(start, image.mapped_bytes, "code object of " + name);
  memory().name_regions(start, std::move(regions));
}

}  // namespace

Image::~Image() {
  if (!mapping) return;
  memory().freed(reinterpret_cast<uint64_t>(mapping));
  munmap(mapping, mapped_bytes);
}

const Symbol* Image::find(const std::string& name) const {
  for (const Symbol& symbol : symbols)
    if (symbol.name == name && symbol.address) return &symbol;
  return nullptr;
}

bool Image::holds(uint64_t address, uint64_t bytes) const {
  return std::any_of(segments.begin(), segments.end(), [&](const Segment& s) {
    return address >= s.start && address < s.end && bytes <= s.end - address;
  });
}

void load_image(Image& image, const uint8_t* elf, size_t bytes, const std::string& name) {
  const File file{elf, bytes};
  const Elf64_Ehdr header = header_of(file);
  image.arch = arch_of_flags(header.e_flags);
  image.abi = header.e_ident[EI_ABIVERSION];
  const auto segments = table<Elf64_Phdr>(file, header.e_phoff, header.e_phnum, "program headers");
  const auto sections = table<Elf64_Shdr>(file, header.e_shoff, header.e_shnum, "section headers");
  map_segments(image, file, segments);
  for (const Elf64_Phdr& p : segments)
    if (p.p_type == PT_NOTE) read_notes(image, file, p);
  for (size_t k = 0; k < sections.size(); ++k)
    if (sections[k].sh_type == SHT_DYNSYM || sections[k].sh_type == SHT_SYMTAB)
      for (Symbol& symbol : read_symbols(file, sections, k)) image.symbols.push_back(std::move(symbol));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_RELA || !(section.sh_flags & SHF_ALLOC)) continue;
    if (section.sh_link >= sections.size()) throw LoadError{"the code object is damaged: relocations without symbols"};
    std::vector<bool> defined;
    std::vector<Symbol> symbols;
    if (section.sh_link) symbols = read_symbols(file, sections, section.sh_link, &defined);
    for (const auto& r : table<Elf64_Rela>(file, section.sh_offset, section.sh_size / sizeof(Elf64_Rela), "relocations"))
      relocate(image, r, symbols, defined);
  }
  name_regions(image, name);
}

}  // namespace emu
