// As much of HIP as AITER's host code needs to compile. Nothing runs: the last launch is kept.

#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

using hipError_t = int;
using hipStream_t = void*;
using hipModule_t = const char*;
using hipFunction_t = const char*;
using hipDevice_t = int;
struct hipDeviceProp_t {
  int multiProcessorCount;
  char gcnArchName[16];
};
constexpr int hipSuccess = 0;
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void*)1)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void*)2)
#define HIP_LAUNCH_PARAM_END ((void*)3)

struct Launched {
  char file[128], symbol[128];
  uint32_t grid[3], block[3], shared, bytes;
  unsigned char arguments[2048];
};
inline Launched launched;
inline int units;

inline const char* keep(const char* text) { return strdup(text); }  // a module outlives the text that named it
inline const char* hipGetErrorString(int) { return ""; }
inline int hipGetDevice(int* device) { return *device = 0; }
inline int hipGetDeviceCount(int* count) { return *count = 1, 0; }
inline int hipGetDeviceProperties(hipDeviceProp_t* found, int) { return found->multiProcessorCount = units, 0; }
inline int hipModuleLoad(hipModule_t* module, const char* path) { return *module = keep(path), 0; }
inline int hipModuleLoadData(hipModule_t* module, const void*) { return *module = "", 0; }
inline int hipModuleUnload(hipModule_t) { return 0; }
inline int hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  return *function = keep((std::string(module) + "\n" + name).c_str()), 0;
}
inline int hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, hipStream_t, void**, void** extra) {
  std::string both = function;
  auto cut = both.find('\n');
  strncpy(launched.file, both.substr(0, cut).c_str(), sizeof launched.file - 1);
  strncpy(launched.symbol, both.substr(cut + 1).c_str(), sizeof launched.symbol - 1);
  const uint32_t numbers[] = {gx, gy, gz, bx, by, bz};
  memcpy(launched.grid, numbers, sizeof numbers);
  launched.shared = shared;
  launched.bytes = *static_cast<size_t*>(extra[3]);
  memcpy(launched.arguments, extra[1], launched.bytes);
  return 0;
}
