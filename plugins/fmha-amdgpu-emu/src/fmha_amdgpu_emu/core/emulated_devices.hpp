// What the devices say about themselves. The table is made from the facts of the architectures when the library is
// built (device_facts.py).
#pragma once

#include <cstdint>
#include <string>

#include "inst.hpp"

namespace emu {

struct DeviceRow {
  const char* name;    // gfx942
  const char* target;  // gfx942:sramecc+:xnack-
  Arch arch;
  int major, minor;
  int wave;
  int units;               // compute units; workgroup processors of two on RDNA, as HIP counts
  int lds_of_group, lds_of_unit;  // bytes
  int group_threads;       // the most of one workgroup
  int unit_threads;        // resident in one unit
  int unit_registers;      // VGPRs of all lanes of a unit
  int unit_groups;
};

extern const DeviceRow kDevices[];
extern const int kDeviceCount;

}  // namespace emu
