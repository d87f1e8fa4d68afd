// Modules and launches of the driver. An image is a PTX text.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver.hpp"

namespace ptx {

LoadedFunction* function_of(void* handle) {
  for (LoadedModule* module : driver().modules)
    for (LoadedFunction& function : module->functions)
      if (&function == handle) return &function;
  return nullptr;
}

namespace {

// Whether the device runs code for a target: an equal or lower one, and with the suffix "a" only its own.
bool runs(const std::string& target) {
  const DeviceRow& row = *driver().device;
  int number = 0;
  char suffix = 0;
  if (std::sscanf(target.c_str(), "sm_%d%c", &number, &suffix) < 1) return false;
  const int own = row.major * 10 + row.minor;
  // Triton compiles for sm_120a alone; an instruction of it that is not emulated stops the load.
  const bool also = own == 120 && number == own && suffix == 'a';
  return suffix ? also || target == row.name : number <= own;
}

int refuse(const char* what, const std::string& why, int error) {
  std::fprintf(stderr, "fmha-emu: %s: %s\n", what, why.c_str());
  return fail(error, std::string(what) + ": " + why);
}

int module_load(void** out, const void* image) {
  REQUIRE_CONTEXT("cuModuleLoadData");
  const char* text = static_cast<const char*>(image);
  if (!std::memcmp(text, "\x7f" "ELF", 4)) return refuse("cuModuleLoadData", "a cubin; the emulator executes PTX", NoBinaryForGpu);
  if (!std::memcmp(text, "\x50\xed\x55\xba", 4)) return refuse("cuModuleLoadData", "fatbins are not implemented; pass the PTX", InvalidImage);
  auto module = std::make_unique<LoadedModule>();
  try {
    module->program = load(text);
  } catch (const Unusable& fault) {
    return refuse("cuModuleLoadData", fault.why, InvalidPtx);
  }
  if (!runs(module->program->module->target))
    return refuse("cuModuleLoadData", "the PTX is for " + module->program->module->target + ", the device is " + driver().device->name, NoBinaryForGpu);
  for (const Kernel& kernel : module->program->kernels) module->functions.push_back({module.get(), &kernel});
  driver().modules.insert(module.get());
  return *out = module.release(), Success;
}
int module_load_options(void** out, const void* image, unsigned, int*, void**) { return module_load(out, image); }
LoadedModule* known(void* handle) {
  auto* module = static_cast<LoadedModule*>(handle);
  return driver().modules.count(module) ? module : nullptr;
}
int module_unload(void* handle) {
  REQUIRE_CONTEXT("cuModuleUnload");
  LoadedModule* module = known(handle);
  if (!module) return fail(InvalidHandle, "cuModuleUnload: no such module");
  driver().modules.erase(module);
  delete module;
  return Success;
}
int module_function(void** out, void* handle, const char* name) {
  REQUIRE_CONTEXT("cuModuleGetFunction");
  LoadedModule* module = known(handle);
  if (!module) return fail(InvalidHandle, "cuModuleGetFunction: no such module");
  for (LoadedFunction& function : module->functions)
    if (function.kernel->name == name) return *out = &function, Success;
  return fail(NotFound, std::string("cuModuleGetFunction: no kernel ") + name);
}
int module_global(uint64_t* address, size_t* bytes, void* handle, const char* name) {
  REQUIRE_CONTEXT("cuModuleGetGlobal");
  LoadedModule* module = known(handle);
  if (!module) return fail(InvalidHandle, "cuModuleGetGlobal: no such module");
  const auto found = module->program->module->names.find(name);
  if (found == module->program->module->names.end() || found->second->space == Space::Shared)
    return fail(NotFound, std::string("cuModuleGetGlobal: no variable ") + name);
  if (address) *address = found->second->address;
  if (bytes) *bytes = found->second->bytes;
  return Success;
}
int function_get(int* out, int attribute, void* handle) {
  REQUIRE_CONTEXT("cuFuncGetAttribute");
  const LoadedFunction* f = function_of(handle);
  if (!f) return fail(InvalidHandle, "cuFuncGetAttribute: no such function");
  switch (attribute) {
    case 0: *out = f->kernel->function->max_threads ? int(f->kernel->function->max_threads) : 1024; break;  // MAX_THREADS_PER_BLOCK
    case 1: *out = int(f->kernel->static_shared); break;  // SHARED_SIZE_BYTES
    case 3: *out = int(f->kernel->local_bytes); break;    // LOCAL_SIZE_BYTES
    case 4:                                               // NUM_REGS: known from .maxnreg alone
      if (!f->kernel->function->max_registers) return fail(NotSupported, "cuFuncGetAttribute: ptxas assigns registers, and no .maxnreg limits them");
      *out = int(f->kernel->function->max_registers);
      break;
    case 8: *out = int(f->allowed_shared); break;         // MAX_DYNAMIC_SHARED_SIZE_BYTES
    default: return fail(InvalidValue, "cuFuncGetAttribute: attribute " + std::to_string(attribute) + " is not emulated");
  }
  return Success;
}
int function_set(void* handle, int attribute, int value) {
  REQUIRE_CONTEXT("cuFuncSetAttribute");
  LoadedFunction* f = function_of(handle);
  if (!f) return fail(InvalidHandle, "cuFuncSetAttribute: no such function");
  if (attribute == 9) return Success;  // PREFERRED_SHARED_MEMORY_CARVEOUT
  if (attribute != 8) return fail(InvalidValue, "cuFuncSetAttribute: attribute " + std::to_string(attribute) + " is not emulated");
  if (value < 0 || value + int(f->kernel->static_shared) > driver().device->shared_optin)
    return fail(InvalidValue, "cuFuncSetAttribute: " + std::to_string(value) + " bytes of shared memory, and a block has at most " +
                                  std::to_string(driver().device->shared_optin));
  f->allowed_shared = size_t(value);
  return Success;
}
int function_cache(void*, int) { return Success; }

// Blocks of a kernel that one multiprocessor holds by threads, blocks and shared memory; registers are unknown.
int occupancy(int* out, void* handle, int threads, size_t shared) {
  REQUIRE_CONTEXT("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  const LoadedFunction* f = function_of(handle);
  if (!f || threads <= 0) return fail(InvalidValue, "cuOccupancyMaxActiveBlocksPerMultiprocessor: no such function, or no threads");
  const DeviceRow& row = *driver().device;
  const size_t used = f->kernel->static_shared + shared + (row.major >= 8 ? 1024 : 0);
  const int by_shared = used ? int(size_t(row.shared_unit) / used) : row.blocks_unit;
  return *out = std::min({row.blocks_unit, row.threads_unit / ((threads + 31) / 32 * 32), by_shared}), Success;
}

// The parameters as one block: given so (`extra`), or one by one.
int pack(const LoadedFunction& f, void** parameters, void** extra, std::vector<uint8_t>& out) {
  const Function& form = *f.kernel->function;
  const std::string& name = f.kernel->name;
  out.assign(form.parameter_bytes, 0);
  if (!extra) {
    if (!parameters && !form.parameters.empty()) return fail(InvalidValue, name + ": it takes parameters");
    size_t index = 0;
    for (const Variable& p : form.parameters) {
      if (!parameters[index]) return fail(InvalidValue, name + ": parameter " + std::to_string(index) + " is not given");
      std::memcpy(out.data() + p.address, parameters[index++], p.bytes);
    }
    return Success;
  }
  const void* data = nullptr;
  size_t bytes = 0;
  for (void** at = extra; *at; at += 2) {
    if (*at == reinterpret_cast<void*>(1)) data = at[1];
    else if (*at == reinterpret_cast<void*>(2)) bytes = *static_cast<size_t*>(at[1]);
    else return fail(InvalidValue, name + ": an unknown entry in the launch's extra");
  }
  if (!data || bytes < form.parameter_bytes)
    return fail(InvalidValue, name + ": " + std::to_string(bytes) + " bytes of parameters, it takes " + std::to_string(form.parameter_bytes));
  std::memcpy(out.data(), data, form.parameter_bytes);
  return Success;
}

int launch(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
           void* stream, void** parameters, void** extra) {
  REQUIRE_CONTEXT("cuLaunchKernel");
  LoadedFunction* f = function_of(function);
  if (!f) return fail(InvalidHandle, "cuLaunchKernel: no such function");
  const Function& form = *f->kernel->function;
  const std::string& name = f->kernel->name;
  if (!gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535)
    return fail(InvalidValue, name + ": a grid of " + std::to_string(gx) + ", " + std::to_string(gy) + ", " + std::to_string(gz));
  if (uint64_t(gx) * gy * gz > 0xffffffff) return fail(NotSupported, name + ": a grid of more than 2^32 blocks");
  const uint64_t threads = uint64_t(bx) * by * bz;
  if (!threads || threads > 1024 || bz > 64) return fail(InvalidValue, name + ": a block of " + std::to_string(threads) + " threads");
  if (form.max_threads && threads > form.max_threads)
    return fail(InvalidValue, name + ": a block of " + std::to_string(threads) + " threads, .maxntid allows " + std::to_string(form.max_threads));
  if (form.required[0] && (bx != form.required[0] || by != form.required[1] || bz != form.required[2]))
    return fail(InvalidValue, name + ": .reqntid requires another block");
  if (shared > f->allowed_shared)
    return fail(InvalidValue, name + ": " + std::to_string(shared) + " bytes of dynamic shared memory, " + std::to_string(f->allowed_shared) + " are allowed");
  Node node{};
  node.kind = Node::Run;
  node.launch = {f, {gx, gy, gz}, {bx, by, bz}, shared, {}};
  if (const int error = pack(*f, parameters, extra, node.launch.parameters); error) return error;
  return queue(stream, std::move(node), "cuLaunchKernel");
}

struct LaunchAttribute {
  int id;
  char pad[4];
  uint32_t value[16];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void* stream;
  LaunchAttribute* attributes;
  unsigned count;
};
int launch_with(const LaunchConfig* config, void* function, void** parameters, void** extra) {
  Guard guard(driver().mutex);
  for (unsigned k = 0; k < config->count; ++k) {
    const LaunchAttribute& a = config->attributes[k];
    const bool alone = a.id == 4 && a.value[0] == 1 && a.value[1] == 1 && a.value[2] == 1;  // a cluster of one block
    const bool off = (a.id == 2 || a.id == 6) && a.value[0] == 0;                          // cooperative, serialization
    const bool order = a.id == 0 || a.id == 6;  // ignore; programmatic serialization: launches follow each other anyway
    if (!alone && !off && !order) return fail(NotSupported, "cuLaunchKernelEx: attribute " + std::to_string(a.id) + " is not emulated");
  }
  const unsigned *g = config->grid, *b = config->block;
  return launch(function, g[0], g[1], g[2], b[0], b[1], b[2], config->shared, config->stream, parameters, extra);
}

const Entry rows[] = {
    ENTRY("cuModuleLoadData", module_load),
    ENTRY("cuModuleLoadDataEx", module_load_options),
    ENTRY("cuModuleUnload", module_unload),
    ENTRY("cuModuleGetFunction", module_function),
    ENTRY("cuModuleGetGlobal", module_global),
    ENTRY("cuFuncGetAttribute", function_get),
    ENTRY("cuFuncSetAttribute", function_set),
    ENTRY("cuFuncSetCacheConfig", function_cache),
    ENTRY("cuOccupancyMaxActiveBlocksPerMultiprocessor", occupancy),
    ENTRY("cuLaunchKernel", launch),
    ENTRY("cuLaunchKernelEx", launch_with),
};

}  // namespace

extern const Entries kModuleEntries{rows, std::size(rows)};

}  // namespace ptx
