// State, complaints, devices in use.
#include "hip_host.hpp"

namespace fmha::hip {

Host& host() {
  static Host* it = new Host;  // never destroyed: libraries unregister their binaries while the process ends
  return *it;
}

Thread& thread() {
  thread_local Thread it;
  return it;
}

Error fail(Error error, const std::string& complaint) {
  host().complaint = complaint;
  thread().last = error;
  sink().complained(error, complaint);
  return error;
}

Error fail(const Outcome& outcome) { return outcome.error ? fail(outcome.error, outcome.why) : Success; }

std::string number(size_t n) { return std::to_string(n); }

bool no_device(const char* call) {
  if (sink().devices()) return false;
  fail(NoDevice, std::string(call) + ": no device");
  return true;
}

const Properties& current() { return sink().properties(thread().device); }

std::map<char*, Block>::iterator holder(const void* address, size_t bytes) {
  auto& blocks = host().blocks;
  char* at = const_cast<char*>(static_cast<const char*>(address));
  auto it = blocks.upper_bound(at);
  if (it == blocks.begin()) return blocks.end();
  --it;
  const size_t inside = size_t(at - it->first);
  return inside <= it->second.bytes && bytes <= it->second.bytes - inside ? it : blocks.end();
}

bool touches(const void* address, size_t bytes) {
  const char* at = static_cast<const char*>(address);
  for (const auto& [start, block] : host().blocks)
    if (at < start + block.bytes && start < at + bytes) return true;
  return false;
}

}  // namespace fmha::hip
