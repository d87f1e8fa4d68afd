// Modules and launches of the driver. An image is a PTX text, or a fatbin with some; where launches are recorded, also a cubin.
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

// An equal or lower target; with the suffix "a" only the device's own, with "f" also a lower one of its family (its major number).
bool runs(const std::string& target) {
  const DeviceRow& row = *driver().device;
  int number = 0;
  char suffix = 0;
  if (std::sscanf(target.c_str(), "sm_%d%c", &number, &suffix) < 1) return false;
  const int own = row.major * 10 + row.minor;
  // Triton compiles for sm_120a alone; an instruction of it that is not emulated stops the load.
  const bool also = own == 120 && number == own && suffix == 'a';
  if (suffix == 'f') return number / 10 == own / 10 && number <= own;
  return suffix ? also || target == row.name : number <= own;
}

namespace {

int refuse(const char* what, const std::string& why, int error) {
  std::fprintf(stderr, "fmha-emu: %s: %s\n", what, why.c_str());
  return fail(error, std::string(what) + ": " + why);
}

LoadedFunction function_from(LoadedModule& module, const Kernel& kernel, const std::map<std::string, int>& registers) {
  LoadedFunction out;
  out.module = &module, out.kernel = &kernel, out.name = kernel.name;
  for (const Variable& p : kernel.function->parameters) out.parameters.push_back({size_t(p.address), size_t(p.bytes)});
  out.parameter_bytes = kernel.function->parameter_bytes;
  out.static_shared = kernel.static_shared, out.local_bytes = kernel.local_bytes;
  const auto known = registers.find(kernel.name);
  out.registers = known != registers.end() ? known->second : int(kernel.function->max_registers);
  return out;
}

int module_load(void** out, const void* image) {
  REQUIRE_CONTEXT("cuModuleLoadData");
  const char* text = static_cast<const char*>(image);
  const bool cubin = !std::memcmp(text, "\x7f" "ELF", 4);
  if (cubin && !driver().recording.on) return refuse("cuModuleLoadData", "a cubin; the emulator executes PTX", NoBinaryForGpu);
  auto module = std::make_unique<LoadedModule>();
  std::string unpacked;
  std::map<std::string, int> registers;
  if (cubin) {
    if (const int error = read_cubin(text, *module); error) return error;
    driver().modules.insert(module.get());
    return *out = module.release(), Success;
  }
  try {
    if (is_fatbin(text)) registers = registers_in_fatbin(text), unpacked = ptx_in_fatbin(text), text = unpacked.c_str();
  } catch (const NoTextForDevice& none) {
    return refuse("cuModuleLoadData", none.why, NoBinaryForGpu);
  } catch (const Unusable& damage) {
    return refuse("cuModuleLoadData", damage.why, InvalidImage);
  }
  try {
    module->program = load(text, driver().options.hardware);
  } catch (const Unusable& fault) {
    return refuse("cuModuleLoadData", fault.why, InvalidPtx);
  }
  if (!runs(module->program->module->target))
    return refuse("cuModuleLoadData", "the PTX is for " + module->program->module->target + ", the device is " + driver().device->name, NoBinaryForGpu);
  for (const Kernel& kernel : module->program->kernels) module->functions.push_back(function_from(*module, kernel, registers));
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
    if (function.name == name) return *out = &function, Success;
  return fail(NotFound, std::string("cuModuleGetFunction: no kernel ") + name);
}
int module_global(uint64_t* address, size_t* bytes, void* handle, const char* name) {
  REQUIRE_CONTEXT("cuModuleGetGlobal");
  LoadedModule* module = known(handle);
  if (!module) return fail(InvalidHandle, "cuModuleGetGlobal: no such module");
  if (!module->program) return fail(NotFound, "cuModuleGetGlobal: the variables of a cubin are not read");
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
    case 0: *out = f->kernel && f->kernel->function->max_threads ? int(f->kernel->function->max_threads) : 1024; break;  // MAX_THREADS_PER_BLOCK
    case 1: *out = int(f->static_shared); break;   // SHARED_SIZE_BYTES
    case 3: *out = int(f->local_bytes); break;     // LOCAL_SIZE_BYTES
    case 4:                                        // NUM_REGS
      if (!f->registers) return fail(NotSupported, "cuFuncGetAttribute: ptxas assigns registers; there is no cubin beside the text, and no .maxnreg");
      *out = f->registers;
      break;
    case 8: *out = int(f->allowed_shared); break;  // MAX_DYNAMIC_SHARED_SIZE_BYTES
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
  if (value < 0 || value + int(f->static_shared) > driver().device->shared_optin)
    return fail(InvalidValue, "cuFuncSetAttribute: " + std::to_string(value) + " bytes of shared memory, and a block has at most " +
                                  std::to_string(driver().device->shared_optin));
  f->allowed_shared = size_t(value);
  return Success;
}
int function_cache(void*, int) { return Success; }

// Registers of a block, which warps get in units of 256. 0: unknown.
int registers_of(const LoadedFunction& f, int threads) { return (threads + 31) / 32 * ((f.registers * 32 + 255) / 256 * 256); }

int occupancy(int* out, void* handle, int threads, size_t shared) {
  REQUIRE_CONTEXT("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  const LoadedFunction* f = function_of(handle);
  if (!f || threads <= 0) return fail(InvalidValue, "cuOccupancyMaxActiveBlocksPerMultiprocessor: no such function, or no threads");
  return *out = resident_blocks(*f, threads, shared), Success;
}

// The parameters as one block: given so (`extra`), or one by one.
int pack(const LoadedFunction& f, void** parameters, void** extra, std::vector<uint8_t>& out) {
  const std::string& name = f.name;
  out.assign(f.parameter_bytes, 0);
  if (!extra) {
    if (!parameters && !f.parameters.empty()) return fail(InvalidValue, name + ": it takes parameters");
    size_t index = 0;
    for (const Parameter& p : f.parameters) {
      if (!parameters[index]) return fail(InvalidValue, name + ": parameter " + std::to_string(index) + " is not given");
      std::memcpy(out.data() + p.offset, parameters[index++], p.bytes);
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
  // A record must show a block that is too long, too.
  const bool fits = f.kernel ? bytes >= f.parameter_bytes : !f.parameter_bytes || bytes == f.parameter_bytes;
  if (!data || !fits)
    return fail(InvalidValue, name + ": " + std::to_string(bytes) + " bytes of parameters, it takes " + std::to_string(f.parameter_bytes));
  const auto* first = static_cast<const uint8_t*>(data);
  out.assign(first, first + (f.kernel ? f.parameter_bytes : bytes));
  return Success;
}

// The blocks of a cluster: the launch's, or else the kernel's own.
int choose_cluster(const LoadedFunction& f, const unsigned (&grid)[3], const uint32_t (&asked)[3], uint32_t (&out)[3]) {
  static const uint32_t none[3] = {0, 0, 0};  // a cubin's own cluster is not read
  const uint32_t* own = f.kernel ? f.kernel->function->cluster : none;
  const std::string& name = f.name;
  for (unsigned k = 0; k < 3; ++k) out[k] = asked[0] ? asked[k] : own[0] ? own[k] : 1;
  if (asked[0] && own[0] && std::memcmp(asked, own, sizeof asked)) return fail(InvalidValue, name + ": .reqnctapercluster requires another cluster");
  const uint64_t blocks = uint64_t(out[0]) * out[1] * out[2];
  if (blocks > 1 && driver().device->major < 9) return fail(NotSupported, name + ": the device has no clusters");
  if (!blocks || blocks > 8) return fail(InvalidValue, name + ": a cluster of " + std::to_string(blocks) + " blocks; 8 are portable");
  for (unsigned k = 0; k < 3; ++k)
    if (grid[k] % out[k]) return fail(InvalidValue, name + ": a grid that is not a multiple of its cluster");
  return Success;
}

int launch_cluster(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** parameters, void** extra, const uint32_t (&asked)[3]) {
  REQUIRE_CONTEXT("cuLaunchKernel");
  LoadedFunction* f = function_of(function);
  if (!f) return fail(InvalidHandle, "cuLaunchKernel: no such function");
  const std::string& name = f->name;
  if (driver().recording.refuse) return fail(driver().recording.refuse, name + ": refused, as was asked for");
  if (!gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535)
    return fail(InvalidValue, name + ": a grid of " + std::to_string(gx) + ", " + std::to_string(gy) + ", " + std::to_string(gz));
  if (uint64_t(gx) * gy * gz > 0xffffffff) return fail(NotSupported, name + ": a grid of more than 2^32 blocks");
  const uint64_t threads = uint64_t(bx) * by * bz;
  if (!threads || threads > 1024 || bz > 64) return fail(InvalidValue, name + ": a block of " + std::to_string(threads) + " threads");
  static const Function anything{};
  const Function& form = f->kernel ? *f->kernel->function : anything;
  if (form.max_threads && threads > form.max_threads)
    return fail(InvalidValue, name + ": a block of " + std::to_string(threads) + " threads, .maxntid allows " + std::to_string(form.max_threads));
  if (form.required[0] && (bx != form.required[0] || by != form.required[1] || bz != form.required[2]))
    return fail(InvalidValue, name + ": .reqntid requires another block");
  if (registers_of(*f, int(threads)) > driver().device->registers_unit)
    return fail(LaunchOutOfResources, name + ": " + std::to_string(f->registers) + " registers for each of " + std::to_string(threads) +
                                          " threads, a block has at most " + std::to_string(driver().device->registers_unit));
  if (shared > f->allowed_shared)
    return fail(InvalidValue, name + ": " + std::to_string(shared) + " bytes of dynamic shared memory, " + std::to_string(f->allowed_shared) + " are allowed");
  Node node{};
  node.kind = Node::Run;
  node.launch = {f, {gx, gy, gz}, {bx, by, bz}, {1, 1, 1}, shared, {}};
  if (const int error = choose_cluster(*f, {gx, gy, gz}, asked, node.launch.cluster); error) return error;
  if (const int error = pack(*f, parameters, extra, node.launch.parameters); error) return error;
  return queue(stream, std::move(node), "cuLaunchKernel");
}

int launch(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* stream,
           void** parameters, void** extra) {
  return launch_cluster(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra, {0, 0, 0});
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
  uint32_t cluster[3] = {0, 0, 0};
  for (unsigned k = 0; k < config->count; ++k) {
    const LaunchAttribute& a = config->attributes[k];
    const bool size = a.id == 4;  // the blocks of a cluster
    if (size) std::memcpy(cluster, a.value, sizeof cluster);
    const bool off = (a.id == 2 || a.id == 6) && a.value[0] == 0;                          // cooperative, serialization
    const bool order = a.id == 0 || a.id == 6;  // ignore; programmatic serialization: launches follow each other anyway
    if (!size && !off && !order) return fail(NotSupported, "cuLaunchKernelEx: attribute " + std::to_string(a.id) + " is not emulated");
  }
  const unsigned *g = config->grid, *b = config->block;
  return launch_cluster(function, g[0], g[1], g[2], b[0], b[1], b[2], config->shared, config->stream, parameters, extra, cluster);
}

const Entry modules_rows[] = {
    ENTRY("cuModuleLoadData", module_load),
    ENTRY("cuModuleLoadDataEx", module_load_options),
    ENTRY("cuModuleLoadFatBinary", module_load),
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

extern const Entries kModuleEntries{modules_rows, std::size(modules_rows)};

int resident_blocks(const LoadedFunction& f, int threads, size_t dynamic_shared) {
  const DeviceRow& row = *driver().device;
  const size_t used = f.static_shared + dynamic_shared + (row.major >= 8 ? 1024 : 0);
  const int by_shared = used ? int(size_t(row.shared_unit) / used) : row.blocks_unit;
  const int registers = registers_of(f, threads);
  const int by_registers = registers ? row.registers_unit / registers : row.blocks_unit;
  return std::min({row.blocks_unit, row.threads_unit / ((threads + 31) / 32 * 32), by_shared, by_registers});
}

}  // namespace ptx
