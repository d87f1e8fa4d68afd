// What the files of the C interface share.
#pragma once

#include "driver.hpp"

#define API extern "C" __attribute__((visibility("default")))

struct EmuRegion {
  const char* name;
  uint64_t start, end;  // relative to the watched memory
  int writable;
};

namespace ptx {

using emulation::observed_json;

}  // namespace ptx
