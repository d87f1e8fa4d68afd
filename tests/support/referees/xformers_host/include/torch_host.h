// PyTorch as upstream's two host functions use it, for one described device. Nothing is computed and nothing runs.
#pragma once
#include <cstdio>

#include "ATen/cuda/CUDAGeneratorImpl.h"
#include "cuda_runtime_api.h"
#include "host/record.h"
#include "host/tensor.h"

#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define TORCH_WARN_ONCE(...)
#define AT_CUDA_CHECK(CALL) TORCH_CHECK((CALL) == cudaSuccess)

struct cudaDeviceProp {
    int major, minor;
    size_t sharedMemPerBlockOptin;
};

struct cudaFuncAttributes {
    int binaryVersion;
};
template <typename Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *found, Kernel *) {
    found->binaryVersion = host::record().device.major * 10 + host::record().device.minor;
    return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

namespace host {
// Takes the place of kernel<<<grid, block, shared, stream>>>(params).
template <typename Params>
void launch(void (*kernel)(Params), dim3 grid, dim3 block, size_t shared, cudaStream_t, const Params &params) {
    const auto *code = reinterpret_cast<const void *>(kernel);
    const auto *bytes = reinterpret_cast<const unsigned char *>(&params);
    record().launches.push_back({
        .kernel = name_of(code),
        .grid = {grid.x, grid.y, grid.z},
        .block = {block.x, block.y, block.z},
        .shared = shared,
        .shared_allowed = take_allowed(code),
        .params = {bytes, bytes + sizeof(Params)},
        .splits = -1,
    });
}
}  // namespace host

namespace c10 {
using std::nullopt;
using SymInt = int64_t;
}  // namespace c10

namespace at {
constexpr ScalarType kLong = ScalarType::Long;
constexpr c10::DeviceType kCPU = c10::DeviceType::CPU, kCUDA = c10::DeviceType::CUDA;
using Scalar = int64_t;

inline c10::TensorOptions dtype(ScalarType type) { return {type}; }
inline Tensor scalar_tensor(Scalar, const c10::TensorOptions &options) { return empty({}, options); }

struct Context {
    bool deterministicAlgorithms() const { return deterministic; }
    bool deterministicAlgorithmsWarnOnly() const { return false; }
    bool deterministic = false;
};
inline Context &globalContext() {
    static Context found;
    return found;
}

namespace cuda {
enum class CaptureStatus { None };
inline CaptureStatus currentStreamCaptureStatus() { return CaptureStatus::None; }
inline cudaStream_t getCurrentCUDAStream() { return nullptr; }
inline cudaDeviceProp *getDeviceProperties(int) {
    static cudaDeviceProp found;
    const auto &device = host::record().device;
    found = {device.major, device.minor, static_cast<size_t>(device.shared_per_block)};
    return &found;
}
struct CUDAGuard {
    explicit CUDAGuard(c10::Device) {}
};
}  // namespace cuda
}  // namespace at
