// The library's C interface: the driver's entry point, what the worker controls, and what tests ask.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "binding.hpp"
#include "driver.hpp"

#define API extern "C" __attribute__((visibility("default")))

struct EmuRegion {
  const char* name;
  uint64_t start, end;  // relative to the watched memory
  int writable;
};

namespace ptx {

namespace {

std::string observed_json(const std::vector<std::string>& executed, const std::string& fault, const std::vector<Found>& findings) {
  std::string list;
  for (const std::string& one : executed) list += (list.empty() ? "" : ",") + one;
  return "{\"executed\":[" + list + "],\"fault\":" + (fault.empty() ? "null" : json_string(fault)) + ",\"findings\":" + json_of(findings) + "}";
}

}  // namespace

void observe(const LaunchRequest&, std::vector<Found> findings, const Launch& launch) {
  Driver& d = driver();
  report_line(observed_json({launch.json}, launch.fault, findings));
  d.executed.push_back(launch.json);
  for (Found& found : findings) d.findings.push_back(std::move(found));
}

void report_line(const std::string& json) {
  const char* path = std::getenv("FMHA_EMU_REPORT");
  if (!path || !*path) return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const std::string line = json + "\n";
  // A single write, so that lines of several processes do not mix.
  const bool whole = file >= 0 && write(file, line.data(), line.size()) == ssize_t(line.size());
  if (file >= 0) close(file);
  if (!whole) std::fprintf(stderr, "fmha-emu: the report %s cannot be written\n", path);
}

namespace {

uint64_t number_in(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

bool play(const char* arch) {
  Driver& d = driver();
  d.device = device_named(arch);
  if (!d.device) std::fprintf(stderr, "fmha-emu: there is no emulated device %s\n", arch);
  return d.device;
}

struct FromEnvironment {
  FromEnvironment() {
    if (const char* arch = std::getenv("FMHA_EMU_ARCH")) play(arch);
    Options& o = driver().options;
    o.seed = number_in("FMHA_EMU_SEED", 0), o.turn = number_in("FMHA_EMU_TURN", 0);
    o.threads = int(number_in("FMHA_EMU_THREADS", 1)), o.checks = number_in("FMHA_EMU_CHECKS", 1) != 0;
    const char* arithmetic = std::getenv("FMHA_EMU_ARITH");
    o.hardware = arithmetic && !std::strcmp(arithmetic, "hardware");
  }
} from_environment;

}  // namespace

}  // namespace ptx

using namespace ptx;

API int emu_device(const char* arch) {
  Guard guard(driver().mutex);
  return play(arch) ? 0 : 1;
}
API void emu_options(uint64_t seed, int threads, int checks) {
  Guard guard(driver().mutex);
  Options& o = driver().options;
  o.seed = seed, o.threads = threads < 1 ? 1 : threads, o.checks = checks != 0;
  driver().launches = 0;
}
API void emu_turn(uint64_t instructions) {
  Guard guard(driver().mutex);
  driver().options.turn = instructions;
}
API void emu_hardware(int on) {
  Guard guard(driver().mutex);
  driver().options.hardware = on != 0;
}
API void emu_watch(const void* start, uint64_t bytes, const EmuRegion* regions, uint64_t count) {
  Guard guard(driver().mutex);
  Watch watch{bytes, {}};
  for (uint64_t k = 0; k < count; ++k)
    watch.regions.push_back({regions[k].start, regions[k].end, regions[k].name, regions[k].writable != 0});
  if (watch.regions.empty()) driver().watches.erase(reinterpret_cast<uint64_t>(start));
  else driver().watches[reinterpret_cast<uint64_t>(start)] = std::move(watch);
}
API const char* emu_take() {
  Guard guard(driver().mutex);
  Driver& d = driver();
  d.taken = observed_json(d.executed, d.fault, d.findings);
  d.executed.clear(), d.findings.clear();
  return d.taken.c_str();
}

API int cuGetProcAddress_v2(const char* name, void** out, int, uint64_t, int* status) {
  *out = nullptr;
  for (const Entries* entries : {&kDeviceEntries, &kMemoryEntries, &kStreamEntries, &kModuleEntries})
    for (size_t k = 0; k < entries->count; ++k)
      if (!std::strcmp(entries->rows[k].name, name)) *out = entries->rows[k].function;
  if (!std::strcmp(name, "cuGetProcAddress")) *out = reinterpret_cast<void*>(&cuGetProcAddress_v2);
  if (status) *status = *out ? 0 : 1;
  return *out ? Success : NotFound;
}

// ---- For tests: one launch without the driver ----

// Runs a kernel of a PTX text on memory that the caller owns. Regions are absolute. Returns JSON: the sectors that it
// touched and what was observed, whose `fault` also says why the text does not load.
API const char* emu_run(const char* text, const char* kernel, const uint32_t* grid, const uint32_t* block, uint32_t shared,
                        const void* parameters, uint64_t parameter_bytes, const EmuRegion* regions, uint64_t count) {
  Guard guard(driver().mutex);
  Driver& d = driver();
  for (uint64_t k = 0; k < count; ++k)
    memory().allocated(regions[k].start, regions[k].end - regions[k].start, regions[k].name, regions[k].writable != 0);
  std::string fault;
  std::vector<std::string> executed;
  std::vector<Found> findings;
  uint64_t sectors = 0;
  try {
    const auto program = load(text);
    Report report;
    Launch launch;
    for (const Kernel& one : program->kernels)
      if (one.name == kernel) launch.kernel = &one;
    if (!launch.kernel) throw Unusable{std::string("no kernel ") + kernel};
    std::memcpy(launch.grid, grid, sizeof launch.grid);
    std::memcpy(launch.block, block, sizeof launch.block);
    launch.dynamic_shared = shared;
    const auto* first = static_cast<const uint8_t*>(parameters);
    launch.parameters.assign(first, first + parameter_bytes);
    launch.options = d.options;
    launch.units = 108;
    if (d.device) launch.major = d.device->major, launch.minor = d.device->minor;
    launch.report = &report;
    run(launch);
    fault = launch.fault, sectors = launch.sectors;
    executed.push_back(launch.json);
    findings = report.take();
  } catch (const Unusable& why) {
    fault = why.why;
  }
  for (uint64_t k = 0; k < count; ++k) memory().freed(regions[k].start);
  d.taken = "{\"sectors\":" + std::to_string(sectors) + ",\"observed\":" + observed_json(executed, fault, findings) + "}";
  return d.taken.c_str();
}

// The table of opcodes, as JSON: [root, section].
API const char* emu_opcodes() {
  static std::string out;
  out = "[";
  for (const Opcode* row : all_opcodes()) out += (out.size() > 1 ? ",[" : "[") + json_string(row->root) + "," + json_string(row->section) + "]";
  return (out += "]").c_str();
}
