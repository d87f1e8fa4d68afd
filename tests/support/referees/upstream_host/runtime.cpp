// CUDA's runtime and PyTorch's generator for one described device: queries are answered, launches are recorded.
#include <stdexcept>

#include "c10/cuda/CUDAException.h"
#include "flash.h"
#include "host/record.h"
#include "torch/python.h"

namespace {
struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configured;
}  // namespace

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

void host::call_failed(const char *call) { throw std::runtime_error(std::string("CUDA call failed: ") + call); }

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
    const auto name = host::name_of(kernel);
    const auto backward = name.find("flash_bwd_") != std::string::npos;
    const auto bytes = backward ? sizeof(flash::Flash_bwd_params) : sizeof(flash::Flash_fwd_params);
    const auto *params = static_cast<const unsigned char *>(arguments[0]);
    host::record().launches.push_back({
        .kernel = name,
        .grid = {grid.x, grid.y, grid.z},
        .block = {block.x, block.y, block.z},
        .shared = shared,
        .shared_allowed = host::take_allowed(kernel),
        .params = {params, params + bytes},
        .splits = name.find("flash_bwd_convert_dq_kernel") == std::string::npos ? -1 : *static_cast<int *>(arguments[1]),
    });
    return cudaSuccess;
}
