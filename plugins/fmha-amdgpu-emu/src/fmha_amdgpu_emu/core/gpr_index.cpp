// Relative addressing of vector registers (CDNA3 ISA, "VGPR Indexing"). Between s_set_gpr_idx_on and s_set_gpr_idx_off,
// M0[7:0] is added to the numbers of the vector registers that M0[15:12] names (src0, src1, src2, destination).
//
// The handler of s_set_gpr_idx_on executes the instructions up to s_set_gpr_idx_off itself, on copies with other
// registers. So no other instruction has to check whether indexing is on.
#include <cstring>

#include "control.hpp"
#include "lanes.hpp"
#include "report.hpp"

namespace emu {

namespace {

constexpr uint32_t kSrc0 = 1, kSrc1 = 2, kSrc2 = 4, kDst = 8;
constexpr const char* kOff = "s_set_gpr_idx_off";

void shift(Operand& op, uint32_t by, VSet& registers) {
  if (op.kind != Kind::Vgpr) return;
  const uint32_t from = op.reg, to = from + by, bank = from & kAgpr0;
  if (to + op.count > bank + kAgpr0) throw Unexecutable{"the register index lies outside the vector registers"};
  for (uint32_t k = 0; k < op.count; ++k) registers.set(to + k);
  op.reg = uint16_t(to);
}

Inst shifted(const Inst& i, uint32_t index, uint32_t which) {
  Inst out = i;
  out.v_reads.reset();
  out.v_writes.reset();
  for (int k = 0; k < i.ops; ++k) {
    const bool destination = k < i.dsts;
    const bool moved = destination ? k == 0 && which & kDst : (k - i.dsts) < 3 && which & 1u << (k - i.dsts);
    VSet& set = destination ? out.v_writes : out.v_reads;
    shift(out.op[k], moved ? index : 0, set);
  }
  if (i.entry && i.entry->flags & kReadsDst) out.v_reads |= out.v_writes;
  return out;
}

}  // namespace

void run_gpr_index(Wave& w, const Inst& i) {
  const uint32_t index = scalar32(w, i.op[0]) & 0xff;
  const uint32_t which = i.extra;
  w.s[kM0] = (w.s[kM0] & ~0xf0ffu) | index | which << 12;
  for (const Inst* at = i.next;; at = at->next) {
    if (!at || !at->entry) throw Unexecutable{"no s_set_gpr_idx_off follows"};
    if (std::strcmp(at->mnemonic, kOff) == 0) {
      w.pc = at->next;
      return;
    }
    if (at->entry->flags & kEnds || at->cls == Class::Branch)
      throw Unexecutable{"control flow while registers are indexed is not implemented"};
    const Inst copy = at->cls == Class::Valu ? shifted(*at, index, which) : *at;
    track_before(w, copy);
    copy.run(w, copy);
    track_after(w, copy);
  }
}

std::string bind_gpr_index(Inst& i, const ArchTraits&) {
  const size_t open = i.text.find("gpr_idx(");
  if (open == std::string::npos) return "no gpr_idx(...) in the line";
  const std::string which = i.text.substr(open, i.text.find(')', open) - open);
  const auto says = [&](const char* name) { return which.find(name) != std::string::npos; };
  i.extra = (says("SRC0") ? kSrc0 : 0) | (says("SRC1") ? kSrc1 : 0) | (says("SRC2") ? kSrc2 : 0) |
            (says("DST") ? kDst : 0);
  return {};
}

}  // namespace emu
