// The library's C interface: the driver's entry point, and what the worker controls.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "capi.hpp"

namespace ptx {

void observe(const LaunchRequest&, std::vector<Found> findings, const Launch& launch) {
  Driver& d = driver();
  emulation::report_line(observed_json({launch.json}, launch.fault, to_json(findings)));
  d.executed.push_back(launch.json);
  for (Found& found : findings) d.findings.push_back(std::move(found));
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
  d.taken = observed_json(d.executed, d.fault, to_json(d.findings));
  d.executed.clear(), d.findings.clear();
  return d.taken.c_str();
}

API int cuGetProcAddress_v2(const char* name, void** out, int, uint64_t, int* status) {
  *out = nullptr;
  for (const Entries* entries : {&kDeviceEntries, &kMemoryEntries, &kStreamEntries, &kModuleEntries, &kTensorMapEntries})
    for (size_t k = 0; k < entries->count; ++k)
      if (!std::strcmp(entries->rows[k].name, name)) *out = entries->rows[k].function;
  if (!std::strcmp(name, "cuGetProcAddress")) *out = reinterpret_cast<void*>(&cuGetProcAddress_v2);
  if (status) *status = *out ? 0 : 1;
  return *out ? Success : NotFound;
}
