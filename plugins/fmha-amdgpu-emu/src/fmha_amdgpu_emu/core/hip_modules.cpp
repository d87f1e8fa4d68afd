// Modules: code objects from a file or from memory, their kernels and variables, and attributes of kernels.
#include <cstdio>
#include <cstring>
#include <iterator>

#include "hip_host.hpp"

using namespace fmha::hip;

namespace fmha::hip {
namespace {

Error open_module(Module&& made, Module** out, const char* call) {
  if (no_device(call)) return NoDevice;
  Module& module = host().modules.emplace_back(std::move(made));
  const Error error = fail(sink().open(module, thread().device));
  if (error) host().modules.pop_back();
  *out = error ? nullptr : &module;
  return error;
}

bool read_file(const char* path, std::vector<char>& out) {
  std::FILE* file = std::fopen(path, "rb");
  if (!file) return false;
  char part[1 << 16];
  for (size_t got; (got = std::fread(part, 1, sizeof part, file)) > 0;) out.insert(out.end(), part, part + got);
  const bool whole = !std::ferror(file);
  std::fclose(file);
  return whole;
}

// FunctionAttributes of HIP's two calls, from what the sink knows.
Error attributes(const void* handle, FunctionAttributes& out, const char* call) {
  Function* function = function_of(handle);
  if (!function) return fail(InvalidDeviceFunction, std::string(call) + ": a function that nobody registered");
  KernelFacts facts;
  if (const Error error = fail(sink().facts(*function, thread().device, facts))) return error;
  const Properties& device = current();
  out = {};
  out.binary_version = out.ptx_version = device.major * 10 + device.minor;
  out.local_bytes = facts.scratch_bytes;
  out.most_dynamic_lds = int(device.lds_per_block - facts.lds_bytes);
  out.max_threads = facts.max_threads ? int(facts.max_threads) : device.max_threads;
  out.registers = int(facts.vgprs);
  out.lds_bytes = facts.lds_bytes;
  return Success;
}

// Groups of `threads` that one unit holds: what waves, VGPRs and LDS allow.
Error groups_on_unit(const void* handle, int threads, size_t dynamic_lds, int* out, const char* call) {
  Function* function = function_of(handle);
  if (!function) return fail(InvalidDeviceFunction, std::string(call) + ": a function that nobody registered");
  if (threads <= 0) return fail(InvalidValue, std::string(call) + ": a block of " + std::to_string(threads) + " threads");
  KernelFacts facts;
  if (const Error error = fail(sink().facts(*function, thread().device, facts))) return error;
  const Properties& device = current();
  const int most = facts.max_threads ? int(facts.max_threads) : device.max_threads;
  if (threads > most) return *out = 0, Success;
  const int wave = device.warp_size, waves = (threads + wave - 1) / wave;
  const int vgprs = int(facts.vgprs ? facts.vgprs : 1);
  const int per_unit = device.registers_per_unit / (vgprs * wave);  // waves that the registers allow
  const int slots = device.threads_per_unit / wave;
  int groups = (per_unit < slots ? per_unit : slots) / waves;
  const size_t lds = facts.lds_bytes + dynamic_lds;
  if (lds) groups = int(size_t(groups) < device.most_lds_per_unit / lds ? size_t(groups) : device.most_lds_per_unit / lds);
  return *out = groups < device.blocks_per_unit ? groups : device.blocks_per_unit, Success;
}

Error best_block(const void* handle, size_t dynamic_lds, int limit, int* grid, int* block, const char* call) {
  const Properties& device = current();
  const int most = limit > 0 && limit < device.max_threads ? limit : device.max_threads;
  int best = 0;
  for (int threads = most / device.warp_size * device.warp_size; threads > 0; threads -= device.warp_size) {
    int groups = 0;
    if (const Error error = groups_on_unit(handle, threads, dynamic_lds, &groups, call)) return error;
    if (groups * threads > best) best = groups * threads, *block = threads, *grid = groups * device.units;
  }
  return best ? Success : fail(InvalidValue, std::string(call) + ": no block fits");
}

}  // namespace
}  // namespace fmha::hip

API int hipModuleLoad(Module** out, const char* path) {
  Guard guard(host().mutex);
  Module made;
  if (!read_file(path, made.owned)) return fail(FileNotFound, std::string("hipModuleLoad: ") + path + " cannot be read");
  made.image = made.owned.data(), made.bytes = made.owned.size();
  return open_module(std::move(made), out, "hipModuleLoad");
}
API int hipModuleLoadData(Module** out, const void* image) {
  Guard guard(host().mutex);
  if (!image) return fail(InvalidValue, "hipModuleLoadData: no image");
  Module made;
  made.image = image;
  return open_module(std::move(made), out, "hipModuleLoadData");
}
API int hipModuleLoadDataEx(Module** out, const void* image, unsigned, void*, void**) { return hipModuleLoadData(out, image); }
API int hipModuleLoadFatBinary(Module** out, const void* image) { return hipModuleLoadData(out, image); }
API int hipModuleUnload(Module* handle) {
  Guard guard(host().mutex);
  Module* module = module_of(handle);
  if (!module) return fail(InvalidHandle, "hipModuleUnload: no such module");
  auto& loaded = host().loaded;
  for (auto it = loaded.begin(); it != loaded.end();) it = it->first.first == module ? loaded.erase(it) : std::next(it);
  forget_variables(*module);
  host().modules.remove_if([&](const Module& m) { return &m == module; });
  return Success;
}
API int hipModuleGetFunction(Function** out, Module* handle, const char* name) {
  Guard guard(host().mutex);
  *out = nullptr;
  Module* module = module_of(handle);
  if (!module) return fail(InvalidHandle, "hipModuleGetFunction: no such module");
  Function wanted{name, module, nullptr};
  KernelFacts facts;
  const Outcome found = sink().facts(wanted, thread().device, facts);
  if (found.error) return fail(found);
  *out = &host().loaded.insert({{module, name}, wanted}).first->second;
  return Success;
}
API int hipModuleGetGlobal(void** address, size_t* bytes, Module* handle, const char* name) {
  Guard guard(host().mutex);
  Module* module = module_of(handle);
  if (!module) return fail(InvalidHandle, "hipModuleGetGlobal: no such module");
  void* place = nullptr;
  size_t size = 0;
  if (const Error error = variable(*module, name, &place, &size)) return error;
  if (address) *address = place;
  if (bytes) *bytes = size;
  return Success;
}
API int hipGetFuncBySymbol(Function** out, const void* stub) {
  Guard guard(host().mutex);
  *out = function_of(stub);
  return *out ? Success : fail(InvalidDeviceFunction, "hipGetFuncBySymbol: a function that nobody registered");
}
API const char* hipKernelNameRef(const Function* function) { return function ? function->name.c_str() : nullptr; }
API const char* hipKernelNameRefByPtr(const void* stub, void*) {
  Guard guard(host().mutex);
  const Function* function = function_of(stub);
  return function ? function->name.c_str() : nullptr;
}

API int hipFuncGetAttributes(FunctionAttributes* out, const void* function) {
  Guard guard(host().mutex);
  return attributes(function, *out, "hipFuncGetAttributes");
}
API int hipFuncGetAttribute(int* out, int attribute, const void* function) {
  Guard guard(host().mutex);
  FunctionAttributes all;
  if (const Error error = attributes(function, all, "hipFuncGetAttribute")) return error;
  const int values[] = {all.max_threads, int(all.lds_bytes), int(all.constant_bytes), int(all.local_bytes),
                        all.registers, all.ptx_version, all.binary_version, all.cache_mode, all.most_dynamic_lds,
                        all.carveout};  // in the order of hipFunction_attribute
  if (attribute < 0 || size_t(attribute) >= sizeof values / sizeof *values)
    return fail(InvalidValue, "hipFuncGetAttribute: no such attribute");
  return *out = values[attribute], Success;
}
// 8: the most dynamic LDS, which needs no leave on AMD; 9: the carveout, a hint.
API int hipFuncSetAttribute(const void* function, int attribute, int value) {
  Guard guard(host().mutex);
  if (!function_of(function)) return fail(InvalidDeviceFunction, "hipFuncSetAttribute: a function that nobody registered");
  if (attribute != 8 && attribute != 9) return fail(InvalidValue, "hipFuncSetAttribute: no such attribute");
  if (attribute == 8 && (value < 0 || size_t(value) > current().lds_per_block))
    return fail(InvalidValue, "hipFuncSetAttribute: more LDS than a block may have");
  return Success;
}

#define OCCUPANCY(NAME)                                                                              \
  API int NAME(int* groups, const void* function, int threads, size_t dynamic_lds) {                 \
    Guard guard(host().mutex);                                                                       \
    return groups_on_unit(function, threads, dynamic_lds, groups, #NAME);                            \
  }                                                                                                  \
  API int NAME##WithFlags(int* groups, const void* function, int threads, size_t dynamic_lds, unsigned) { \
    return NAME(groups, function, threads, dynamic_lds);                                             \
  }
OCCUPANCY(hipOccupancyMaxActiveBlocksPerMultiprocessor)
OCCUPANCY(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)
#undef OCCUPANCY
API int hipOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* function, size_t dynamic_lds, int limit) {
  Guard guard(host().mutex);
  return best_block(function, dynamic_lds, limit, grid, block, "hipOccupancyMaxPotentialBlockSize");
}
API int hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* function, size_t dynamic_lds, int limit) {
  return hipOccupancyMaxPotentialBlockSize(grid, block, function, dynamic_lds, limit);
}
API int hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, const void* function, size_t dynamic_lds,
                                                         int limit, unsigned) {
  return hipOccupancyMaxPotentialBlockSize(grid, block, function, dynamic_lds, limit);
}
