// CUDA's runtime and PyTorch's generator for one described device: queries are answered, launches are recorded.
#include <cxxabi.h>
#include <dlfcn.h>

#include <map>
#include <memory>

#include "flash.h"
#include "host/record.h"
#include "torch/python.h"

namespace {
struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configured;

std::map<const void *, int64_t> allowed;
uint64_t next_address = 0;
constexpr uint64_t FIRST_ADDRESS = uint64_t{1} << 50;

std::string name_of(const void *kernel) {
    Dl_info found{};
    if (!dladdr(kernel, &found) || !found.dli_sname || found.dli_saddr != kernel) return "(unknown)";
    int status = 0;
    std::unique_ptr<char, void (*)(void *)> text(abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, &status), free);
    return status == 0 ? text.get() : found.dli_sname;
}
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
}  // namespace host

namespace at {
PhiloxCudaState CUDAGeneratorImpl::philox_cuda_state(uint64_t increment) {
    host::note(host::text_of("philox ", increment));
    return {host::record().seed, host::record().offset};
}

CUDAGeneratorImpl *cuda::detail::getDefaultCUDAGenerator() {
    static CUDAGeneratorImpl found;
    return &found;
}
}  // namespace at

cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    const auto &found = host::record().device;
    switch (attribute) {
        case cudaDevAttrMultiProcessorCount: *value = found.multiprocessors; break;
        case cudaDevAttrComputeCapabilityMajor: *value = found.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = found.minor; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = found.shared_per_multiprocessor; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = found.shared_per_block; break;
    }
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t) { return "an error of the described device"; }

cudaError_t host_func_attribute(const void *kernel, cudaFuncAttribute, int value) {
    allowed[kernel] = value;
    return value <= host::record().device.shared_per_block ? cudaSuccess : cudaErrorInvalidValue;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    configured = {grid, block, shared, stream};
    return 0;
}

unsigned __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = configured.grid;
    *block = configured.block;
    *shared = configured.shared;
    *static_cast<cudaStream_t *>(stream) = configured.stream;
    return 0;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t) {
    const auto name = name_of(kernel);
    const auto backward = name.find("flash_bwd_") != std::string::npos;
    const auto bytes = backward ? sizeof(flash::Flash_bwd_params) : sizeof(flash::Flash_fwd_params);
    const auto *params = static_cast<const unsigned char *>(arguments[0]);
    const auto found = allowed.find(kernel);
    host::record().launches.push_back({
        .kernel = name,
        .grid = {grid.x, grid.y, grid.z},
        .block = {block.x, block.y, block.z},
        .shared = shared,
        .shared_allowed = found == allowed.end() ? -1 : found->second,
        .params = {params, params + bytes},
        .splits = name.find("flash_bwd_convert_dq_kernel") == std::string::npos ? -1 : *static_cast<int *>(arguments[1]),
    });
    allowed.clear();
    return cudaSuccess;
}
