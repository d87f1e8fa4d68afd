// Findings, counts and reports as the JSON of fmha_cli.domain.emulation.Observed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace emulation {

// One place in a kernel where something was found, with a count and its first example. `name_of` gives a kind's name.
template <class Kind> struct FoundOf {
  Kind kind{};
  std::string kernel, instruction, text;  // text: a sentence with lane, address and the nearest allocation
  uint64_t address = 0;                   // of the instruction in the code object; its line, where the code is text
  uint32_t wave = 0;
  int lane = -1;
  uint32_t group[3] = {0, 0, 0};
  uint64_t count = 0;
};

// What the launches of one kernel did: the members of fmha_cli.domain.emulation.Executed.
struct Executed {
  std::string kernel;
  uint64_t launches = 1, instructions = 0;
  std::vector<std::pair<const char*, uint64_t>> classes;  // those without instructions are left out
  uint64_t matrix_flops = 0, global_read = 0, global_written = 0, scratch_read = 0, scratch_written = 0, scalar_read = 0;
  uint64_t lds_read = 0, lds_written = 0, lds_accesses = 0, lds_conflict_cycles = 0, buffer_out_of_range = 0, barriers = 0;
  std::optional<uint64_t> global_sectors = std::nullopt;  // of 32 bytes; not every emulator counts them
};

std::string json_string(std::string_view text);
std::string finding_json(const char* kind, const FoundOf<int>& found);
std::string executed_json(const Executed& executed);

template <class Kind> std::string to_json(const std::vector<FoundOf<Kind>>& findings) {
  std::string out = "[";
  for (const FoundOf<Kind>& f : findings) {
    if (out.size() > 1) out += ',';
    out += finding_json(name_of(f.kind), {int(f.kind), f.kernel, f.instruction, f.text, f.address, f.wave, f.lane,
                                          {f.group[0], f.group[1], f.group[2]}, f.count});
  }
  return out + "]";
}

// {"executed": [...], "fault": ..., "findings": [...]}
std::string observed_json(const std::vector<std::string>& executed, const std::string& fault, const std::string& findings);

// Appends one line to the file that FMHA_EMU_REPORT names, if it names one.
void report_line(const std::string& json);

}  // namespace emulation
