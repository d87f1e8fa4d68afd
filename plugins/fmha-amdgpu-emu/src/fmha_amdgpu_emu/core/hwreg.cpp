// s_getreg and s_setreg: MODE and the other hardware registers that a kernel may name (ISA documents, "Hardware
// registers" and "MODE register").
#include <cstdlib>

#include "control.hpp"
#include "lanes.hpp"
#include "launch.hpp"

namespace emu {

namespace {

enum class Hwreg : uint32_t {
  Mode, Status, Exceptions, HwId, HwId2, LdsAlloc, Apertures, ScratchLo, ScratchHi, XccId, Cycles, CyclesHi, Schedule
};

struct Name {
  const char* name;
  Hwreg reg;
  bool writable;
};

constexpr Name kNames[] = {
    {"HW_REG_MODE", Hwreg::Mode, true},
    {"HW_REG_WAVE_MODE", Hwreg::Mode, true},
    {"HW_REG_STATUS", Hwreg::Status, false},
    {"HW_REG_TRAPSTS", Hwreg::Exceptions, true},
    {"HW_REG_WAVE_EXCP_FLAG_USER", Hwreg::Exceptions, true},
    {"HW_REG_HW_ID", Hwreg::HwId, false},
    {"HW_REG_HW_ID1", Hwreg::HwId, false},
    {"HW_REG_WAVE_HW_ID1", Hwreg::HwId, false},
    {"HW_REG_HW_ID2", Hwreg::HwId2, false},
    {"HW_REG_WAVE_HW_ID2", Hwreg::HwId2, false},
    {"HW_REG_LDS_ALLOC", Hwreg::LdsAlloc, false},
    {"HW_REG_SH_MEM_BASES", Hwreg::Apertures, false},
    {"HW_REG_FLAT_SCR_LO", Hwreg::ScratchLo, false},
    {"HW_REG_FLAT_SCR_HI", Hwreg::ScratchHi, false},
    {"HW_REG_WAVE_SCRATCH_BASE_LO", Hwreg::ScratchLo, false},
    {"HW_REG_WAVE_SCRATCH_BASE_HI", Hwreg::ScratchHi, false},
    {"HW_REG_XCC_ID", Hwreg::XccId, false},
    {"HW_REG_SHADER_CYCLES", Hwreg::Cycles, false},
    {"HW_REG_SHADER_CYCLES_LO", Hwreg::Cycles, false},
    {"HW_REG_SHADER_CYCLES_HI", Hwreg::CyclesHi, false},
    {"HW_REG_WAVE_SCHED_MODE", Hwreg::Schedule, true},
};

// DX10_CLAMP and IEEE. An architecture whose MODE lacks them clamps NaN to zero and obeys IEEE always, so these bits
// stay set there.
constexpr uint32_t kClampIeee = 0x300, kGprIndex = 1u << 27;

// `extra`: register in bits 7:0, offset in 15:8, size in 23:16.
struct Field {
  Hwreg reg;
  uint32_t offset, mask;
};

Field field_of(const Inst& i) {
  const uint32_t size = i.extra >> 16 & 0xff;
  return {Hwreg(i.extra & 0xff), i.extra >> 8 & 0xff, size >= 32 ? ~0u : (1u << size) - 1};
}

// Reads `hwreg(NAME[, offset, size])` of the line.
std::string bind_field(Inst& i, bool writes) {
  const size_t open = i.text.find("hwreg(");
  if (open == std::string::npos) return "no hwreg(...) in the line";
  const size_t start = open + 6, close = i.text.find(')', start);
  if (close == std::string::npos) return "hwreg(...) is not closed";
  const std::string inside = i.text.substr(start, close - start);
  const size_t comma = inside.find(',');
  const std::string name = inside.substr(0, comma);
  uint32_t offset = 0, size = 32;
  if (comma != std::string::npos) {
    char* rest = nullptr;
    offset = uint32_t(std::strtoul(inside.c_str() + comma + 1, &rest, 0));
    if (*rest == ',') size = uint32_t(std::strtoul(rest + 1, nullptr, 0));
  }
  for (const Name& known : kNames) {
    if (name != known.name) continue;
    if (writes && !known.writable) return "writing " + name + " is not implemented";
    i.extra = uint32_t(known.reg) | offset << 8 | size << 16;
    return {};
  }
  return "the hardware register " + name + " is not implemented";
}

uint32_t read(const Wave& w, Hwreg reg) {
  switch (reg) {
    case Hwreg::Mode: return w.mode.bits;
    case Hwreg::Status: return uint32_t(w.scc) | uint32_t(w.exec() == 0) << 9 | uint32_t(w.vcc() == 0) << 10;
    case Hwreg::Exceptions: return 0;
    case Hwreg::HwId: return w.hw_id;
    case Hwreg::HwId2: return 0;
    case Hwreg::LdsAlloc: return w.group ? uint32_t(w.group->lds.size() + 511) / 512 << 12 : 0;
    case Hwreg::Apertures:
      return uint32_t(aperture_of(w, SharedBase) >> 48) << 16 | uint32_t(aperture_of(w, PrivateBase) >> 48);
    case Hwreg::ScratchLo: return uint32_t(w.scratch_va);
    case Hwreg::ScratchHi: return uint32_t(w.scratch_va >> 32);
    case Hwreg::XccId: return 0;
    case Hwreg::Cycles: return uint32_t(ticks());
    case Hwreg::CyclesHi: return uint32_t(ticks() >> 32);
    case Hwreg::Schedule: return 0;
  }
  return 0;
}

void write_mode(Wave& w, uint32_t bits) {
  if (bits & kGprIndex) throw Unexecutable{"MODE.GPR_IDX_EN is written; only s_set_gpr_idx_on is implemented"};
  const uint32_t kept = w.arch->mode_has_ieee ? 0 : kClampIeee;
  w.mode.bits = (bits & ~kept) | (w.mode.bits & kept);
}

}  // namespace

void run_getreg(Wave& w, const Inst& i) {
  const Field field = field_of(i);
  set_scalar32(w, i.op[0], read(w, field.reg) >> field.offset & field.mask);
}

void run_setreg(Wave& w, const Inst& i) {
  const Field field = field_of(i);
  if (field.reg != Hwreg::Mode) return;  // exception flags and scheduling hints change no result
  const Operand& value = i.op[i.ops - 1];
  const uint32_t bits = scalar32(w, value) & field.mask;
  write_mode(w, (w.mode.bits & ~(field.mask << field.offset)) | bits << field.offset);
}

void run_round_mode(Wave& w, const Inst& i) { write_mode(w, (w.mode.bits & ~0xfu) | (i.extra & 0xf)); }

void run_denorm_mode(Wave& w, const Inst& i) { write_mode(w, (w.mode.bits & ~0xf0u) | (i.extra & 0xf) << 4); }

std::string bind_getreg(Inst& i, const ArchTraits&) { return bind_field(i, false); }

std::string bind_setreg(Inst& i, const ArchTraits&) {
  return bind_field(i, true);
}

}  // namespace emu
