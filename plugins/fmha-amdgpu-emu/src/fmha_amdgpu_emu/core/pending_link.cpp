// Functions whose own files are being written; weak, so that those replace them. Goes away with the last of them.
#include "launch.hpp"
#include "lanes.hpp"
#include "program.hpp"

#define PENDING __attribute__((weak))

namespace emu {

PENDING void issue(Wave&, Counter, const Outstanding&) {}
PENDING void wait_for(Wave&, Counter, uint32_t) {}
PENDING void barrier_arrived(Wave&) {}
PENDING void barrier_passed(Wave&) {}
PENDING uint64_t aperture_of(const Wave&, uint32_t which) { return uint64_t(which + 1) << 48; }
PENDING Counts& counts() {
  static thread_local Counts one;
  return one;
}
PENDING uint64_t ticks() { return 0; }
PENDING const Inst* code_at(const Program&, uint64_t) { return nullptr; }
PENDING std::shared_ptr<Program> load_program(const uint8_t*, size_t) { throw LoadError{"loading is not there yet"}; }
PENDING const Kernel* find_kernel(const Program&, const std::string&) { return nullptr; }
PENDING std::vector<std::string> kernel_names(const Program&) { return {}; }
PENDING Arch arch_of(const Program&) { return Arch::gfx942; }
PENDING uint64_t symbol_address(const Program&, const std::string&, uint64_t*) { return 0; }
PENDING void Counts::add(const Counts&) {}
PENDING void run(Launch& launch) { launch.fault = "launches are not there yet"; }
PENDING const DppMap& dpp_map(const Inst&, int) { throw Unexecutable{"DPP is not there yet"}; }
PENDING void apply_dpp(Wave&, const Inst&, const uint32_t*, uint32_t*) { throw Unexecutable{"DPP is not there yet"}; }
PENDING void apply_sdwa(const uint32_t*, uint32_t*, Sel, bool) { throw Unexecutable{"SDWA is not there yet"}; }
PENDING const uint32_t* special_source(Wave& w, const Inst& i, int k, int d, Row& room) {
  const Operand& op = i.src(k);
  if (op.kind == Kind::Vgpr) return w.v[op.reg + d].x;
  fill(room.x, uint32_t(scalar64(w, op) >> 32 * d));
  return room.x;
}
PENDING void special_commit(Wave&, const Inst&, const uint32_t*, int) { throw Unexecutable{"partial writes are not there yet"}; }

}  // namespace emu
