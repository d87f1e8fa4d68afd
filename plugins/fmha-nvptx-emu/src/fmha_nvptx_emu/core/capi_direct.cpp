// What tests of the emulator ask: one launch without the driver around it, and the table of opcodes.
#include <cstring>

#include "binding.hpp"
#include "capi.hpp"

using namespace ptx;

// Runs a kernel of a PTX text on memory that the caller owns. Regions are absolute. Returns JSON: what was observed,
// whose `fault` also says why the text does not load.
API const char* emu_run(const char* text, const char* kernel, const uint32_t* grid, const uint32_t* block, uint32_t shared,
                        const void* parameters, uint64_t parameter_bytes, const EmuRegion* regions, uint64_t count) {
  Guard guard(driver().mutex);
  Driver& d = driver();
  for (uint64_t k = 0; k < count; ++k)
    memory().allocated(regions[k].start, regions[k].end - regions[k].start, regions[k].name, regions[k].writable != 0);
  std::string fault;
  std::vector<std::string> executed;
  std::vector<Found> findings;
  try {
    const auto program = load(text, d.options.hardware);
    Report report;
    Launch launch;
    for (const Kernel& one : program->kernels)
      if (one.name == kernel) launch.kernel = &one;
    if (!launch.kernel) throw Unusable{std::string("no kernel ") + kernel};
    std::memcpy(launch.grid, grid, sizeof launch.grid);
    std::memcpy(launch.block, block, sizeof launch.block);
    if (launch.kernel->function->cluster[0]) std::memcpy(launch.cluster, launch.kernel->function->cluster, sizeof launch.cluster);
    launch.dynamic_shared = shared;
    launch.registers = launch.kernel->function->max_registers;
    const auto* first = static_cast<const uint8_t*>(parameters);
    launch.parameters.assign(first, first + parameter_bytes);
    launch.options = d.options;
    launch.units = launch.resident = 108;
    if (d.device) launch.major = d.device->major, launch.minor = d.device->minor;
    launch.report = &report;
    run(launch);
    fault = launch.fault;
    executed.push_back(launch.json);
    findings = report.take();
  } catch (const Unusable& why) {
    fault = why.why;
  }
  for (uint64_t k = 0; k < count; ++k) memory().freed(regions[k].start);
  d.taken = observed_json(executed, fault, to_json(findings));
  return d.taken.c_str();
}

// The table of opcodes, as JSON: [root, section].
API const char* emu_opcodes() {
  static std::string out;
  out = "[";
  for (const Opcode* row : all_opcodes()) out += (out.size() > 1 ? ",[" : "[") + json_string(row->root) + "," + json_string(row->section) + "]";
  return (out += "]").c_str();
}
