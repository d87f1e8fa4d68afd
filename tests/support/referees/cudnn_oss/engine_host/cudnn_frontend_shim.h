// What upstream's shim gives its engines, without a toolkit: the CUDA runtime's names, and calls that go to host.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda_runtime.h"

#define NV_FE_CALL_TO_CUDA(name, symbol, ...) return symbol(__VA_ARGS__)

namespace cudnn_frontend {

enum class error_code_t { OK, GRAPH_NOT_SUPPORTED, INVALID_VALUE, CUDA_API_FAILED };
struct error_t {
  error_code_t code;
  std::string text;
  bool is_good() const { return code == error_code_t::OK; }
};
inline bool isLoggingEnabled() { return false; }

namespace detail {
inline cudaError_t cuda_get_device(int* device) { return cudaGetDevice(device); }
inline cudaError_t cuda_get_device_properties(cudaDeviceProp* out, int device) { return cudaGetDeviceProperties(out, device); }
inline const char* cuda_get_error_string(cudaError_t) { return "an error"; }
inline cudaError_t cuda_mem_cpy_async(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) { return cudaErrorNotSupported; }
inline cudaError_t cuda_mem_set_async(void* at, int value, size_t size, cudaStream_t stream) {
  return cudaMemsetAsync(at, value, size, stream);
}
}  // namespace detail
}  // namespace cudnn_frontend

#define RETURN_CUDNN_FRONTEND_ERROR_IF(condition, failed, text) \
  do {                                                          \
    if (condition) return {failed, text};                       \
  } while (0)
#define CHECK_CUDNN_FRONTEND_ERROR(call)               \
  do {                                                 \
    if (auto status = call; !status.is_good()) return status; \
  } while (0)
#define CUDNN_FE_LOG_LABEL_ENDL(text)
