// A driver that records launches in place of executing them, for tests of programs that use it. It accepts cubins, and a
// test describes the device, plants faults and may do a kernel's work itself.
//
// Settings are "key=value;key=value", by `emu_record` or by the variable FMHA_EMU_RECORD, which is read when the library
// is loaded. Either of them turns recording on.
//   devices=1 driver=13000 capability=9.0 units=132 memory=BYTES l2=BYTES shared=BYTES name=TEXT
//   kernel_ns=N      the time of a kernel; gap_ns=N: the time of the host to launch one, outside of graphs
//   init=N           cuInit returns this error
//   fault=N@K        the K-th kernel from now on (from 1) ends with this error
//   once=PATH        the fault occurs only if this file is absent, and creates it: in one process of several
//   refuse=N         cuLaunchKernel returns this error
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

// A launch as `emu_recorded` and hooks see it.
struct EmuLaunch {
  const char* symbol;
  uint32_t grid[3], block[3];
  uint64_t shared;  // bytes of dynamic shared memory
  const void* parameters;
  uint64_t parameter_bytes;
  uint32_t replayed;  // from a graph
};

namespace ptx {

using Hook = int (*)(const EmuLaunch*);  // does a kernel's work; returns 0 or the kernel's error

struct RecordedLaunch {
  std::string symbol;
  uint32_t grid[3], block[3];
  size_t shared;
  std::vector<uint8_t> parameters;
  bool replayed;
  EmuLaunch told() const;
};

struct Recording {
  bool on = false;
  std::string name = "fmha recording stand-in", once;
  int init = 0, refuse = 0, fault = 0;
  uint64_t fault_at = 0, kernels = 0, graph_launches = 0;
  int pending = 0;  // the error of a kernel that no call has reported
  std::deque<RecordedLaunch> launches;
  Hook hook = nullptr;
};

}  // namespace ptx
