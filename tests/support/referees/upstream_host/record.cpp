// What every program that runs an upstream's host code keeps of a call.
#include "host/record.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <map>
#include <memory>

#include "cuda_runtime_api.h"
#include "host/tensor.h"

namespace {
std::map<const void *, int64_t> allowed;
uint64_t next_address = 0;
constexpr uint64_t FIRST_ADDRESS = uint64_t{1} << 50;
}  // namespace

namespace host {
Record &record() {
    static Record found;
    return found;
}

std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c == '\n' ? ' ' : c;
    }
    return out + '"';
}

uint64_t allocate(uint64_t bytes, const char *how, int dtype, const std::vector<int64_t> &sizes) {
    if (record().allocations.empty()) next_address = FIRST_ADDRESS;
    const uint64_t address = next_address;
    next_address += (bytes + 4095) / 4096 * 4096 + 4096;
    std::string shape;
    for (auto size : sizes) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    record().allocations.push_back(text_of("{\"address\": ", address, ", \"bytes\": ", bytes, ", \"how\": ", quoted(how),
                                           ", \"dtype\": ", dtype, ", \"sizes\": [", shape, "]}"));
    return address;
}

void note(const std::string &event) { record().events.push_back(event); }

std::string name_of(const void *kernel) {
    Dl_info found{};
    if (!dladdr(kernel, &found) || !found.dli_sname || found.dli_saddr != kernel) return "(unknown)";
    int status = 0;
    std::unique_ptr<char, void (*)(void *)> text(abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, &status), free);
    return status == 0 ? text.get() : found.dli_sname;
}

int64_t take_allowed(const void *kernel) {
    const auto found = allowed.find(kernel);
    const int64_t bytes = found == allowed.end() ? -1 : found->second;
    allowed.clear();
    return bytes;
}
}  // namespace host

cudaError_t host_func_attribute(const void *kernel, cudaFuncAttribute, int value) {
    allowed[kernel] = value;
    return value <= host::record().device.shared_per_block ? cudaSuccess : cudaErrorInvalidValue;
}
