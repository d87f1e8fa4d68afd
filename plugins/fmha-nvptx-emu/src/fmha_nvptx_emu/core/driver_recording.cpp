// Recorded launches: the settings of a played device, planted faults, and what tests read.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "capi.hpp"

namespace ptx {

EmuLaunch RecordedLaunch::told() const {
  return {symbol.c_str(), {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared,
          parameters.data(), parameters.size(), replayed};
}

namespace {

// The device that settings describe.
DeviceRow played{"played", "", 9, 0, 132, 48 << 10, 232448, 233472, 2048, 32, 65536, 50 << 20};

void begin() {
  Driver& d = driver();
  if (d.recording.on) return;
  d.recording.on = true;
  played.title = d.recording.name.c_str();
  d.device = &played;
  d.memory = uint64_t(16) << 30;
  d.kernel_ns = 100000;
}

bool set(const std::string& key, const std::string& value) {
  Driver& d = driver();
  Recording& r = d.recording;
  const unsigned long long n = std::strtoull(value.c_str(), nullptr, 0);
  if (key == "devices") d.devices = int(n);
  else if (key == "driver") d.version = int(n);
  else if (key == "capability") return std::sscanf(value.c_str(), "%d.%d", &played.major, &played.minor) == 2;
  else if (key == "units") played.units = int(n);
  else if (key == "memory") d.memory = n;
  else if (key == "l2") played.l2_bytes = int(n);
  else if (key == "shared") played.shared_optin = int(n), played.shared_unit = int(n) + 1024;
  else if (key == "name") r.name = value, played.title = r.name.c_str();
  else if (key == "kernel_ns") d.kernel_ns = n;
  else if (key == "gap_ns") d.gap_ns = n;
  else if (key == "init") r.init = int(n);
  else if (key == "refuse") r.refuse = int(n);
  else if (key == "once") r.once = value;
  else if (key == "fault") {
    unsigned long long error = 0, which = 0;
    if (std::sscanf(value.c_str(), "%llu@%llu", &error, &which) != 2) return false;
    r.fault = int(error), r.fault_at = r.kernels + which;
  } else return false;
  return true;
}

// Whether all of the text is understood.
bool configure(const std::string& text) {
  begin();
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find(';', at), text.size());
    const std::string pair = text.substr(at, end - at);
    const size_t eq = pair.find('=');
    if (!pair.empty() && (eq == std::string::npos || !set(pair.substr(0, eq), pair.substr(eq + 1)))) return false;
  }
  return true;
}

// Errors that end a context: every later call returns them again.
bool sticky(int error) { return error == 214 || (error >= 700 && error < 722 && error != 701 && error != 704 && error != 705); }

bool strikes() {
  const Recording& r = driver().recording;
  if (!r.fault || r.kernels != r.fault_at) return false;
  if (r.once.empty()) return true;
  std::FILE* mark = std::fopen(r.once.c_str(), "wx");
  if (mark) std::fclose(mark);
  return mark;
}

struct RecordingFromEnvironment {
  RecordingFromEnvironment() {
    const char* text = std::getenv("FMHA_EMU_RECORD");
    if (!text || configure(text)) return;
    std::fprintf(stderr, "fmha-emu: FMHA_EMU_RECORD is not understood: %s\n", text);
    std::abort();
  }
} recording_from_environment;

}  // namespace

int settle() {
  Driver& d = driver();
  const int error = d.recording.pending;
  if (!error) return Success;
  d.recording.pending = 0;
  d.failed = sticky(error) ? error : 0;
  return fail(error, "a kernel ended with an error");
}

int record(const LaunchRequest& request, bool replayed) {
  Recording& r = driver().recording;
  RecordedLaunch made{request.function->name, {}, {}, request.shared, request.parameters, replayed};
  std::memcpy(made.grid, request.grid, sizeof made.grid);
  std::memcpy(made.block, request.block, sizeof made.block);
  r.launches.push_back(std::move(made));
  ++r.kernels;
  if (r.pending) return Success;  // the context is already dead, but no call has reported it
  if (strikes()) r.pending = r.fault;
  else if (r.hook) {
    const EmuLaunch told = r.launches.back().told();
    r.pending = r.hook(&told);
  }
  return Success;
}

}  // namespace ptx

using namespace ptx;

// Begins to record, or changes the settings. Returns 0 if the text is not understood.
API int emu_record(const char* settings) {
  Guard guard(driver().mutex);
  return configure(settings);
}
API void emu_record_hook(Hook hook) {
  Guard guard(driver().mutex);
  driver().recording.hook = hook;
}
API uint64_t emu_recorded_launches() { return driver().recording.launches.size(); }
API void emu_recorded(uint64_t index, EmuLaunch* out) {
  Guard guard(driver().mutex);
  *out = driver().recording.launches.at(index).told();
}
API void emu_record_forget() {
  Guard guard(driver().mutex);
  driver().recording.launches.clear();
}
// Whether these bytes lie in one allocation.
API int emu_holds(uint64_t address, uint64_t bytes) {
  Guard guard(driver().mutex);
  return holder(reinterpret_cast<void*>(address), bytes) != nullptr;
}
API const char* emu_complaint() { return driver().complaint.c_str(); }
API uint64_t emu_bytes_in_use() { return driver().used; }
// Streams, events, modules, graphs and their executables that were not destroyed.
API uint64_t emu_objects() {
  const Driver& d = driver();
  return d.streams.size() + d.events.size() + d.modules.size() + d.graphs.size() + d.execs.size();
}
API uint64_t emu_graph_launches() { return driver().recording.graph_launches; }
