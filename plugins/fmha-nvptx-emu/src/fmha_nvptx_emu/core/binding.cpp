#include "binding.hpp"

#include <cstring>

namespace ptx {

bool Binding::take(const char* modifier) {
  for (size_t k = 0; k < s.mods.size(); ++k)
    if (!used[k] && s.mods[k] == modifier) return used[k] = true;
  return false;
}

bool Binding::any(std::initializer_list<const char*> modifiers) {
  bool found = false;
  for (const char* modifier : modifiers) found |= take(modifier);
  return found;
}

bool Binding::has_type() const {
  for (size_t k = 0; k < s.mods.size(); ++k)
    if (!used[k] && type_named(s.mods[k]) != Type::None) return true;
  return false;
}

Type Binding::type() {
  for (size_t k = 0; k < s.mods.size(); ++k) {
    const Type found = used[k] ? Type::None : type_named(s.mods[k]);
    if (found != Type::None) return used[k] = true, found;
  }
  refuse("it has no type");
}

void Binding::refuse(const std::string& why) const { throw Unusable{why, s.line}; }

const Operand& Binding::operand(size_t k) const {
  if (k >= s.operands.size()) refuse("it has " + std::to_string(s.operands.size()) + " operands");
  return s.operands[k];
}

void Binding::count(size_t least, size_t most) const {
  if (s.operands.size() < least || s.operands.size() > most)
    refuse("it has " + std::to_string(s.operands.size()) + " operands");
}

namespace {
bool wide(Type type) { return bits_of(type) == 64; }
bool fits(Type type, Type reg) {
  const bool whole = type == Type::B128, register_whole = reg == Type::B128;
  return (type == Type::Pred) == (reg == Type::Pred) && wide(type) == wide(reg) && whole == register_whole;
}
}  // namespace

void Binding::dest(const Operand& o, Type type) {
  if (o.kind == Operand::Sink) {  // a register that nothing reads
    const Slot slot{kernel.rows, kernel.ids++};
    kernel.rows += type == Type::Pred ? 3 : 2;  // see Layout::reg
    return dests.push_back(slot);
  }
  if (o.kind != Operand::Reg) refuse("a destination is a register");
  if (!fits(type, o.reg->type))
    refuse("the register " + o.reg->name + " does not fit its type");
  dests.push_back(layout.reg(*o.reg));
}

void Binding::source(const Operand& o, Type type) {
  const bool big = wide(type);
  switch (o.kind) {
    case Operand::Reg:
      if (!fits(type, o.reg->type))
        refuse("the register " + o.reg->name + " does not fit its type");
      return sources.push_back(layout.reg(*o.reg));
    case Operand::Integer: {
      uint64_t value = uint64_t(o.value);
      if (type == Type::F32 || type == Type::F64) refuse("an integer where a float is needed");
      if (bits_of(type) == 16) value &= 0xffff;
      if (type == Type::Pred) value = value ? 0xffffffff : 0;
      return sources.push_back(layout.constant(value, big));
    }
    case Operand::Float: {
      uint64_t value = o.bits;
      double number;
      if (!o.single) {
        std::memcpy(&number, &o.bits, 8);
        const float narrow = float(number);
        if (!big) value = 0, std::memcpy(&value, &narrow, 4);
      } else if (type == Type::F64) {
        float narrow;
        std::memcpy(&narrow, &o.bits, 4);
        number = narrow;
        std::memcpy(&value, &number, 8);
      }
      return sources.push_back(layout.constant(value, big));
    }
    case Operand::Special: return sources.push_back(layout.special(o.name, big));
    case Operand::Symbol: return sources.push_back(layout.address(*o.variable, o.value, big));
    default: refuse("an operand of this kind is not a value");
  }
}

void Binding::address(size_t k) {
  const Operand& o = operand(k);
  if (o.kind != Operand::Address || !o.parts.empty()) refuse("it needs an address [base+offset]");
  if (o.reg) {
    const Slot slot = layout.reg(*o.reg);
    if (bits_of(o.reg->type) < 32) refuse("an address has 32 or 64 bits");
    if (!wide(o.reg->type)) out.sign = false, out.wide |= 0x80;  // bit 7: the base has 32 bits
    sources.push_back(slot);
    out.imm = o.value;
  } else if (o.variable) {
    sources.push_back(layout.address(*o.variable, o.value, true));
    out.imm = 0;
    if (out.space == Space::Generic) {
      if (o.variable->space == Space::Shared || o.variable->space == Space::Local || o.variable->space == Space::Param)
        refuse("the address of " + o.variable->name + " without its space");
    }
  } else sources.push_back(layout.constant(uint64_t(o.value), true));
}

void Binding::three(Type type, unsigned n) {
  count(n + 1, n + 1);
  dest(0, type);
  for (unsigned k = 1; k <= n; ++k) source(k, type);
}

const Opcode* opcode_named(const std::string& root) {
  for (const Opcode* row : all_opcodes())
    if (root == row->root) return row;
  return nullptr;
}

std::vector<const Opcode*> all_opcodes() {
  std::vector<const Opcode*> out;
  for (const Table* table : {&kIntegerOpcodes, &kBitOpcodes, &kFloatOpcodes, &kCompareOpcodes, &kMoveOpcodes, &kConvertOpcodes,
                             &kMemoryOpcodes, &kAtomicOpcodes, &kAsyncOpcodes, &kMatrixOpcodes, &kControlOpcodes, &kMbarrierOpcodes, &kWgmmaOpcodes,
                             &kStoreMatrixOpcodes, &kClusterOpcodes, &kTensorMemoryOpcodes, &kLaunchControlOpcodes})
    for (size_t k = 0; k < table->count; ++k) out.push_back(&table->rows[k]);
  return out;
}

}  // namespace ptx
