// Launches and memory for callers without a HIP runtime.
#include "capi_launch.hpp"

#include <cstdio>
#include <cstring>
#include <memory>

#include "json.hpp"
#include "memory.hpp"
#include "observed.hpp"
#include "program.hpp"

namespace emu {

namespace {

struct Loaded {
  std::shared_ptr<Program> program;
};

thread_local Observed observed;
thread_local std::string taken;

Program& program_of(const void* handle) { return *static_cast<const Loaded*>(handle)->program; }

int fail(const std::string& sentence, char* message, size_t room) {
  if (message && room) std::snprintf(message, room, "%s", sentence.c_str());
  return 1;
}

size_t give(const std::string& text, char* out, size_t room) {
  if (text.size() < room) std::memcpy(out, text.c_str(), text.size() + 1);
  return text.size() + 1;
}

std::string kernel_json(const Kernel& k) {
  std::string out = "{\"lds\":" + std::to_string(k.lds_bytes) + ",\"scratch\":" + std::to_string(k.scratch_bytes) +
                    ",\"kernargs\":" + std::to_string(k.kernarg_bytes) + ",\"arguments\":[";
  for (size_t n = 0; n < k.arguments.size(); ++n) {
    const Kernel::Argument& a = k.arguments[n];
    out += (n ? ",[" : "[") + std::to_string(a.offset) + "," + std::to_string(a.size) + "," + json_string(a.kind) + "]";
  }
  return out + "]}";
}

Dim3 dim3(const uint32_t (&from)[3]) { return {from[0], from[1], from[2]}; }

}  // namespace

}  // namespace emu

using namespace emu;

int emu_load(const uint8_t* elf, uint64_t bytes, void** program, char* message, size_t room) {
  try {
    *program = new Loaded{load_program(elf, bytes)};
    return 0;
  } catch (const LoadError& error) {
    return fail(error.why, message, room);
  } catch (const std::exception& error) {
    return fail(std::string("the emulator failed: ") + error.what(), message, room);
  }
}

void emu_unload(void* program) { delete static_cast<Loaded*>(program); }

size_t emu_kernels(const void* program, char* out, size_t room) {
  const Program& p = program_of(program);
  std::string text = std::string("{\"arch\":\"") + p.arch->name + "\",\"kernels\":{";
  bool first = true;
  for (const auto& [name, kernel] : p.kernels) {
    text += (first ? "" : ",") + json_string(name) + ":" + kernel_json(kernel);
    first = false;
  }
  return give(text + "}}", out, room);
}

uint64_t emu_symbol(const void* program, const char* name, uint64_t* bytes) {
  return symbol_address(program_of(program), name, bytes);
}

int emu_launch(void* program, const char* kernel, const EmuLaunch* launch, char* message, size_t room) {
  const Kernel* found = find_kernel(program_of(program), kernel);
  if (!found) return fail(std::string("the code object has no kernel ") + kernel, message, room);
  Report report;
  Launch l;
  l.program = &program_of(program);
  l.kernel = found;
  l.grid = dim3(launch->grid);
  l.block = dim3(launch->block);
  l.items = dim3(launch->items);
  l.dynamic_lds = launch->dynamic_lds;
  if (launch->kernarg_bytes) l.kernargs.assign(launch->kernargs, launch->kernargs + launch->kernarg_bytes);
  l.options.seed = launch->seed;
  l.options.turn = launch->turn;
  l.options.threads = launch->threads;
  l.options.track = launch->track != 0;
  l.options.strict = launch->track > 1;
  l.options.most_instructions = launch->most_instructions;
  l.report = &report;
  run(l);
  observed.add(found->name, l.counts, report.take(), l.fault);
  return l.fault.empty() ? 0 : fail(l.fault, message, room);
}

const char* emu_observed() {
  taken = observed.json();
  observed = Observed();
  return taken.c_str();
}

void emu_allocate(uint64_t start, uint64_t bytes, const char* name, int writable) {
  memory().allocated(start, bytes, name, writable != 0);
}

int emu_free(uint64_t start) { return memory().freed(start) ? 0 : 1; }

void emu_regions(uint64_t allocation, const EmuNamed* regions, uint64_t count) {
  std::vector<Region> named;
  for (uint64_t k = 0; k < count; ++k)
    named.push_back({regions[k].start, regions[k].end, regions[k].name, regions[k].writable != 0});
  memory().name_regions(allocation, std::move(named));
}

int emu_place(uint64_t address, uint64_t bytes, int write, char* nearest, size_t room) {
  if (nearest && room) std::snprintf(nearest, room, "%s", memory().nearest(address).c_str());
  return int(memory().place(address, bytes, write != 0));
}
