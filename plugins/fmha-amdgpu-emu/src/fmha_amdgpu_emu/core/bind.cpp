#include "bind.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "arch_traits.hpp"
#include "report.hpp"
#include "tables.hpp"

namespace emu {

namespace {

void refuse(Wave&, const Inst& i) { throw Unexecutable{i.problem}; }

bool begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

// The bits of an inline constant as binary16 or bfloat16. Only a few numbers are inline constants.
uint16_t half_bits(double number, bool brain) {
  const double size = std::fabs(number);
  const uint16_t sign = std::signbit(number) ? 0x8000 : 0;
  if (size == 0.5) return sign | (brain ? 0x3f00 : 0x3800);
  if (size == 1.0) return sign | (brain ? 0x3f80 : 0x3c00);
  if (size == 2.0) return sign | (brain ? 0x4000 : 0x4000);
  if (size == 4.0) return sign | (brain ? 0x4080 : 0x4400);
  if (size > 0.15 && size < 0.16) return sign | (brain ? 0x3e22 : 0x3118);  // 1/(2 pi)
  return sign;
}

uint64_t double_bits(double number) {
  if (number > 0.15 && number < 0.16) return 0x3fc45f306dc9c882;  // 1/(2 pi), however many digits were printed
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

uint32_t float_bits(double number) {
  const float narrow = float(number);
  uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  return bits;
}

// Instructions whose op_sel does not choose a half of a register: packed and mixed ones, matrix products, and those
// that give the bits a meaning of their own.
bool reads_op_sel_itself(std::string_view name) {
  for (const std::string_view with : {"v_pk_", "v_fma_mix", "v_mad_mix", "v_dot", "v_mfma", "v_smfmac", "v_wmma",
                                      "v_swmmac", "v_permlane", "v_cvt_sr_", "v_cvt_scalef32"})
    if (begins(name, with)) return true;
  return false;
}

// Scalars that an instruction reads or writes without printing them (ISA documents, the instructions' descriptions).
struct Implicit {
  std::string_view prefix;
  int reads, writes;  // -1: none; kVcc, kExec
};
constexpr Implicit kImplicit[] = {
    {"v_div_fmas", kVcc, -1},
    {"s_cbranch_vcc", kVcc, -1},
    {"s_cbranch_cdbgsys", -1, -1},
    {"s_cbranch_exec", kExec, -1},
    {"v_cmpx_", -1, kExec},
};

void add_implicit(Inst& i) {
  const std::string_view name = i.entry->name;
  const int words = 2;  // both halves: on wave32 the upper one is nobody's
  for (const Implicit& implicit : kImplicit) {
    if (!begins(name, implicit.prefix)) continue;
    for (int k = 0; k < words; ++k) {
      if (implicit.reads >= 0) i.s_reads.set(implicit.reads + k);
      if (implicit.writes >= 0) i.s_writes.set(implicit.writes + k);
    }
  }
  if (name.find("_saveexec_") != name.npos || name.find("_wrexec_") != name.npos)
    for (int k = 0; k < words; ++k) i.s_reads.set(kExec + k), i.s_writes.set(kExec + k);
}

void add_roles(Inst& i) {
  for (int k = 0; k < i.ops; ++k) {
    if (k < i.dsts) add_registers(i.op[k], i.v_writes, i.s_writes);
    else add_registers(i.op[k], i.v_reads, i.s_reads);
  }
  if (i.entry->flags & kReadsDst) add_registers(i.op[0], i.v_reads, i.s_reads);
  if (i.mod.sdwa && i.mod.dst_unused == Unused::Preserve) add_registers(i.op[0], i.v_reads, i.s_reads);
  add_implicit(i);
}

// Whether sources and destination are whole registers, with nothing that selects parts of them.
bool is_plain(const Inst& i, const ArchTraits& arch) {
  if (i.mod.dpp != Dpp::None || i.mod.sdwa) return false;
  // The result leaves the other half of its register as it is (dpp.cpp).
  if (i.dsts && !i.vop3p && is_half(i.entry->types[0]) && (arch.keeps_upper_half || i.entry->flags & kKeepsUpper)) return false;
  if (i.mod.op_sel != 0 && !i.vop3p && !reads_op_sel_itself(i.entry->name)) return false;
  for (int k = 0; k < i.ops; ++k)
    if (i.op[k].half || i.op[k].sext) return false;
  return true;
}

bool is_vop3p(std::string_view name, bool& mixed) {
  mixed = begins(name, "v_fma_mix") || begins(name, "v_mad_mix");
  return mixed || begins(name, "v_pk_") || begins(name, "v_dot") || begins(name, "v_mfma") || begins(name, "v_smfmac") ||
         begins(name, "v_wmma") || begins(name, "v_swmmac");
}

void stop_at(Inst& i) { i.run = refuse; }

}  // namespace

void add_registers(const Operand& op, VSet& v, SSet& s) {
  if (op.kind == Kind::Vgpr)
    for (int k = 0; k < op.count && op.reg + k < kVgprs; ++k) v.set(op.reg + k);
  if (op.kind == Kind::Sgpr)
    for (int k = 0; k < op.count && op.reg + k < kScalars; ++k) s.set(op.reg + k);
}

// ISA documents, "Scalar ALU operands" and "Inline constants": an integer has the same bits for every instruction. A
// real is converted to the operand's own format. A literal has 32 bits; for a double they are the high half.
uint64_t constant_bits(const Operand& op, Type type) {
  if (op.literal) {
    if (type == Type::F64) return op.value <= 0xffffffffu ? op.value << 32 : op.value;
    return op.value;
  }
  if (!op.real) return type == Type::B64 || type == Type::F64 ? op.value : uint32_t(op.value);
  const double number = std::bit_cast<double>(op.value);
  switch (type) {
    case Type::F64:
    case Type::B64: return double_bits(number);
    case Type::F16:
    case Type::B16:
    case Type::PkF16:
    case Type::PkB16: return half_bits(number, false);
    case Type::BF16:
    case Type::PkBF16: return half_bits(number, true);
    default: return float_bits(number);
  }
}

void bind(Inst& i, const std::string& mnemonic, const ArchTraits& arch) {
  i.mnemonic = interned(mnemonic);
  std::string name = mnemonic;
  if (begins(name, "v_dual_")) name = "v_" + name.substr(7);
  i.entry = find_entry(name.c_str());
  if (!i.entry) {
    if (i.problem.empty()) i.problem = "this instruction is not implemented";
    return stop_at(i);
  }
  const Entry& entry = *i.entry;
  i.cls = entry.cls;
  i.run = entry.run;
  i.dsts = entry.dsts;
  if (arch.cmpx_writes_exec_alone && begins(entry.name, "v_cmpx_") && i.dsts) i.dsts = 0;
  if (name == "v_cndmask_b32" && i.ops == 3) {  // a dual issue's reads VCC without saying so
    Operand& vcc = i.op[i.ops++];
    vcc.kind = Kind::Sgpr;
    vcc.reg = kVcc;
    i.words.emplace_back("vcc_lo");
  }
  const int missing = entry.dsts - i.dsts;
  for (int k = 0; k < i.ops; ++k) {
    if (i.op[k].kind != Kind::Constant) continue;
    const size_t at = size_t(k + missing);
    const Type type = at < entry.types.size() ? entry.types[at] : Type::None;
    i.op[k].value = constant_bits(i.op[k], type);
    // A 32-bit literal is sign-extended for a signed 64-bit operand, else zero-extended.
    if (type == Type::B64 && i.op[k].literal && name.find("_i64") != name.npos && i.op[k].value <= 0xffffffffu)
      i.op[k].value = uint64_t(int64_t(int32_t(i.op[k].value)));
  }
  // The text writes a half twice, as v0.h and in op_sel. The register's name is enough (scalars have op_sel only).
  // op_sel holds the bits of the sources first, then the destination's.
  for (int k = 0; k < i.ops; ++k)
    if (i.op[k].half) i.mod.op_sel &= uint8_t(~(1u << (k < i.dsts ? i.ops - i.dsts : k - i.dsts)));
  bool mixed = false;
  i.vop3p = is_vop3p(entry.name, mixed);
  if (mixed && !i.mod.has_op_sel_hi) i.mod.op_sel_hi = 0;  // mixed precision: absent means 32-bit sources
  i.dst_regs = i.dsts ? i.op[0].count : 0;
  i.plain = is_plain(i, arch);
  add_roles(i);
  if (i.problem.empty() && entry.bind) i.problem = entry.bind(i, arch);
  if (!i.problem.empty() || !i.run) {
    if (i.problem.empty()) i.problem = "this instruction has no handler";
    stop_at(i);
  }
}

}  // namespace emu
