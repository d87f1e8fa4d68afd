// Code objects, kernels and variables, as clang's host code registers them.
#include <cstdlib>
#include <iterator>

#include "hip_host.hpp"

using namespace fmha::hip;

namespace fmha::hip {

Module* module_of(const void* handle) {
  for (Module& module : host().modules)
    if (&module == handle) return module.live ? &module : nullptr;
  return nullptr;
}

Error variable(Module& module, const std::string& name, void** address, size_t* bytes) {
  if (const Error error = fail(sink().global(module, thread().device, name, address, bytes))) return error;
  host().blocks[static_cast<char*>(*address)] = {*bytes, DeviceMemory, 0, thread().device, &module};
  return Success;
}

void forget_variables(const Module& module) {
  auto& blocks = host().blocks;
  for (auto it = blocks.begin(); it != blocks.end();) it = it->second.owner == &module ? blocks.erase(it) : std::next(it);
}

Function* function_of(const void* stub_or_handle) {
  Host& h = host();
  auto it = h.functions.find(stub_or_handle);
  if (it != h.functions.end()) return &it->second;
  for (auto& [stub, function] : h.functions)
    if (&function == stub_or_handle) return &function;
  for (auto& [key, function] : h.loaded)
    if (&function == stub_or_handle) return &function;
  return nullptr;
}

}  // namespace fmha::hip

API void** __hipRegisterFatBinary(const void* data) {
  Guard guard(host().mutex);
  const auto* wrapper = static_cast<const Wrapper*>(data);
  if (wrapper->magic != kFatMagic) {
    fail(InvalidValue, "__hipRegisterFatBinary: no HIPF wrapper");
    std::abort();
  }
  host().modules.emplace_back().image = wrapper->binary;
  return reinterpret_cast<void**>(&host().modules.back());
}

API void __hipUnregisterFatBinary(void** modules) {
  Guard guard(host().mutex);
  Module* module = reinterpret_cast<Module*>(modules);
  module->live = false;
  forget_variables(*module);
  module->code.reset();
}

API void __hipRegisterFunction(void** modules, const void* stub, char*, const char* name, unsigned, void*, void*, void*,
                               void*, int*) {
  Guard guard(host().mutex);
  Host& h = host();
  if (!h.functions.count(stub)) h.order.push_back(stub);
  h.functions[stub] = Function{name, reinterpret_cast<Module*>(modules), stub};
}

API void __hipRegisterVar(void** modules, void* shadow, char*, char* name, int, size_t, int, int) {
  Guard guard(host().mutex);
  host().variables[shadow] = {name, reinterpret_cast<Module*>(modules)};
}

API int __hipPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, void* stream) {
  thread().configurations.push_back({grid, block, shared, stream});
  return Success;
}

API int __hipPopCallConfiguration(Dim3* grid, Dim3* block, size_t* shared, void** stream) {
  auto& stack = thread().configurations;
  if (stack.empty()) return fail(InvalidValue, "__hipPopCallConfiguration: nothing was pushed");
  *grid = stack.back().grid, *block = stack.back().block;
  *shared = stack.back().shared, *stream = stack.back().stream;
  stack.pop_back();
  return Success;
}
