// Turns code objects into programs: image, instructions, kernel descriptors joined with the metadata.
#include "program.hpp"

#include <cstring>

#include "disassembly.hpp"
#include "metadata.hpp"
#include "sha256.hpp"

namespace emu {

namespace {

constexpr size_t kShortDigest = 12;
constexpr const char* kSuffix = ".kd";
constexpr uint16_t kWave32 = 1 << 10;  // ENABLE_WAVEFRONT_SIZE32

// LLVM AMDGPU backend guide, "Code Object V3 Kernel Descriptor": 64 bytes.
struct Descriptor {
  uint32_t lds_bytes, scratch_bytes, kernarg_bytes, reserved0;
  int64_t entry;  // from the descriptor's own address
  uint8_t reserved1[20];
  uint32_t rsrc3, rsrc1, rsrc2;
  uint16_t properties, preload;
  uint32_t reserved2;
};
static_assert(sizeof(Descriptor) == 64);

void leave_code(Wave&, const Inst&) { throw Unexecutable{"execution runs past the end of the code"}; }

const Entry kOutside{"(outside)", leave_code, 0, Class::Branch, Flow::Defined, kEnds, {}, nullptr, "no instruction"};

bool describes_kernel(const Symbol& symbol) { return symbol.address && symbol.name.ends_with(kSuffix); }

Descriptor read_descriptor(const Image& image, const Symbol& symbol) {
  if (!image.holds(symbol.address, sizeof(Descriptor)))
    throw LoadError{"the kernel descriptor " + symbol.name + " lies outside the code object"};
  Descriptor d;
  std::memcpy(&d, image.at(symbol.address), sizeof d);
  return d;
}

// The features that the disassembler must know: whether operands name halves of registers, and whether waves have 64
// lanes.
std::string features_of(const Image& image) {
  if (!image.arch->true16) return "";
  bool narrow = false, wide = false;
  for (const Symbol& symbol : image.symbols)
    if (describes_kernel(symbol)) (read_descriptor(image, symbol).properties & kWave32 ? narrow : wide) = true;
  if (narrow && wide) throw LoadError{"the code object has kernels of 32 and of 64 lanes"};
  return wide ? "+real-true16,+wavefrontsize64" : "+real-true16";
}

Kernel read_kernel(const Program& program, const Symbol& symbol, const std::string& name) {
  const Descriptor d = read_descriptor(*program.image, symbol);
  Kernel out;
  out.name = name;
  out.descriptor = symbol.address;
  out.lds_bytes = d.lds_bytes;
  out.scratch_bytes = d.scratch_bytes;
  out.kernarg_bytes = d.kernarg_bytes;
  out.rsrc1 = d.rsrc1, out.rsrc2 = d.rsrc2, out.rsrc3 = d.rsrc3;
  out.properties = d.properties;
  out.preload = d.preload;
  const auto entry = program.listing->at.find(symbol.address + uint64_t(d.entry));
  if (entry == program.listing->at.end()) throw LoadError{"kernel " + name + " starts where there is no instruction"};
  out.entry = entry->second;
  return out;
}

void add_metadata(Kernel& kernel, const std::vector<KernelMetadata>& all) {
  for (const KernelMetadata& m : all) {
    if (m.symbol != kernel.name + kSuffix && m.name != kernel.name) continue;
    kernel.arguments = m.arguments;
    kernel.dynamic_stack = m.dynamic_stack;
    kernel.most_workitems = m.most_workitems;
    kernel.kernarg_bytes = std::max(kernel.kernarg_bytes, m.kernarg_bytes);
    kernel.lds_bytes = std::max(kernel.lds_bytes, m.lds_bytes);
    kernel.scratch_bytes = std::max(kernel.scratch_bytes, m.scratch_bytes);
    return;
  }
}

void read_kernels(Program& program) {
  const std::vector<KernelMetadata> metadata = read_metadata(program.image->metadata);
  for (const Symbol& symbol : program.image->symbols) {
    if (!describes_kernel(symbol)) continue;
    const std::string name = symbol.name.substr(0, symbol.name.size() - std::strlen(kSuffix));
    if (program.kernels.count(name)) continue;
    Kernel kernel = read_kernel(program, symbol, name);
    add_metadata(kernel, metadata);
    program.kernels.emplace(name, std::move(kernel));
  }
}

// An instruction behind the end stops the launch, so the engine need not check for the end.
void close_ends(Program& program) {
  program.outside.run = leave_code;
  program.outside.entry = &kOutside;
  program.outside.cls = Class::Branch;
  program.outside.mnemonic = "(end of code)";
  program.outside.next = &program.outside;
  for (Inst& inst : program.listing->code)
    if (!inst.next) inst.next = &program.outside;
}

}  // namespace

std::shared_ptr<Program> load_program(const uint8_t* elf, size_t bytes) {
  auto program = std::make_shared<Program>();
  const std::string digest = sha256(elf, bytes);
  program->name = "object " + digest.substr(0, kShortDigest);
  program->image = std::make_unique<Image>();
  load_image(*program->image, elf, bytes, program->name);
  program->arch = program->image->arch;
  program->listing = read_listing(disassemble(elf, bytes, digest, features_of(*program->image)), *program->arch);
  close_ends(*program);
  read_kernels(*program);
  return program;
}

const Kernel* find_kernel(const Program& program, const std::string& name) {
  const auto found = program.kernels.find(name);
  return found == program.kernels.end() ? nullptr : &found->second;
}

std::vector<std::string> kernel_names(const Program& program) {
  std::vector<std::string> out;
  for (const auto& [name, _] : program.kernels) out.push_back(name);
  return out;
}

const ArchTraits& arch_of(const Program& program) { return *program.arch; }

uint64_t symbol_address(const Program& program, const std::string& name, uint64_t* bytes) {
  const Symbol* symbol = program.image->find(name);
  if (!symbol) return 0;
  if (bytes) *bytes = symbol->bytes;
  return program.image->bias + symbol->address;
}

const Inst* code_at(const Program& program, uint64_t host_address) {
  const auto found = program.listing->at.find(host_address - program.image->bias);
  return found == program.listing->at.end() ? nullptr : found->second;
}

uint64_t bias_of(const Wave& w) {
  return w.launch && w.launch->program && w.launch->program->image ? w.launch->program->image->bias : 0;
}

}  // namespace emu
