// Runs one wave without a launch, to test instructions.
#include <cstdio>
#include <string>

#include "capi.hpp"
#include "json.hpp"
#include "launch.hpp"
#include "listing.hpp"

namespace emu {

namespace {

constexpr uint64_t kMostInstructions = 10'000'000;

void put(const std::string& text, char* to, size_t room) {
  if (to && room) std::snprintf(to, room, "%s", text.c_str());
}

void take_in(const EmuState& state, Wave& w) {
  std::memcpy(w.v, state.v, sizeof w.v);
  std::memcpy(w.s, state.s, sizeof w.s);
  w.scc = state.scc;
  w.mode.bits = state.mode;
  w.lanes = int(state.lanes);
  w.full = w.lanes == 64 ? ~0ull : (1ull << w.lanes) - 1;
  w.index = int(state.wave);
  w.scratch = state.scratch;
  w.scratch_bytes = state.scratch_bytes;
  w.scratch_va = state.scratch_va;
}

// The books begin with what the caller says is defined. Its LDS bytes count as written.
void open_books(const EmuState& state, Group& group) {
  track_begin(group);
  for (LdsBooks::Word& piece : group.books.pieces) piece.written = 0xf;
  for (int r = 0; r < kVgprs; ++r) define(*group.waves[0], r, state.defined[r]);
}

void give_back(const Wave& w, EmuState& state) {
  std::memcpy(state.v, w.v, sizeof w.v);
  std::memcpy(state.s, w.s, sizeof w.s);
  state.scc = w.scc;
  state.mode = w.mode.bits;
  for (int r = 0; r < kVgprs; ++r) state.defined[r] = state.track ? defined_lanes(w, r) : ~0ull;
}

std::string where(const Inst& i) {
  char address[40];
  std::snprintf(address, sizeof address, " at 0x%llx: ", static_cast<unsigned long long>(i.address));
  return i.mnemonic + std::string(address);
}

std::string execute(Wave& w, bool track, uint64_t& executed) {
  const Inst* at = w.pc;
  try {
    while (w.pc && w.state == State::Running) {
      if (executed == kMostInstructions) return where(*w.pc) + "it does not end";
      at = w.pc;
      w.pc = at->next;
      if (track) track_before(w, *at);
      at->run(w, *at);
      if (track) track_after(w, *at);
      ++executed;
    }
  } catch (const Unexecutable& stop) {
    return where(*at) + stop.why;
  }
  return {};
}

}  // namespace

}  // namespace emu

int emu_snippet(const char* arch, const char* text, EmuState* state, char* message, size_t room, char* findings,
                size_t findings_room) {
  using namespace emu;
  put("", message, room);
  Group group;
  Wave& wave = *group.waves.emplace_back(std::make_unique<Wave>());
  wave.arch = arch_named(arch);
  if (!wave.arch) return put("no such architecture", message, room), 1;
  const auto listing = read_listing(text, *wave.arch);
  Report report;
  Kernel kernel;
  kernel.name = "snippet";
  Launch launch;
  launch.kernel = &kernel;
  launch.report = &report;
  launch.options.track = state->track;
  group.id = {state->group[0], state->group[1], state->group[2]};
  group.launch = &launch;
  group.lds.assign(state->lds, state->lds + state->lds_bytes);
  take_in(*state, wave);
  wave.group = &group;
  wave.launch = &launch;
  wave.pc = listing->code.empty() ? nullptr : &listing->code.front();
  if (state->track) open_books(*state, group);
  state->executed = 0;
  const std::string fault = execute(wave, state->track, state->executed);
  give_back(wave, *state);
  std::memcpy(state->lds, group.lds.data(), state->lds_bytes);
  put(fault, message, room);
  put(to_json(report.take()), findings, findings_room);
  return fault.empty() ? 0 : 1;
}
