// Upstream's engines on the host: execute() runs as it is, and what it would launch is recorded.
//
// The text of the stand-in's tensor_map.hpp and .cpp precedes this file.

#include <cuda_runtime.h>

#include <cstring>
#include <string>
#include <vector>

#include "cudnn_frontend/experimental/sm100_sdpa_prefill_engine.h"
#include "cudnn_frontend/experimental/sm90_sdpa_prefill_engine.h"

const char* compiled_text = nullptr;

namespace {

struct Record {
  unsigned grid[3], block[3];
  uint64_t shared, allowed_shared, cleared, cleared_bytes;
};

Record record;
std::string symbol;  // the engine that owns the name is gone when the record is read
int units = 0;
const uint64_t* sizes = nullptr;
uint64_t count = 0;
unsigned char* arguments = nullptr;

CUresult encode(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* shape,
                const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const std::string why = ptx::encode({type, rank, reinterpret_cast<uint64_t>(address), shape, strides, box, steps, interleave,
                                       swizzle, promotion, fill},
                                      *reinterpret_cast<ptx::TensorMap*>(out));
  return why.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int) { return out->multiProcessorCount = units, cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void* at, int, size_t size, cudaStream_t) {
  return record.cleared = reinterpret_cast<uint64_t>(at), record.cleared_bytes = size, cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned, cudaLibraryOption*, void**,
                                unsigned) {
  return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char* name) { return symbol = name, cudaSuccess; }
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return cudaSuccess; }
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int value, int) {
  return record.allowed_shared = uint64_t(value), cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void*, dim3 grid, dim3 block, void** given, size_t shared, cudaStream_t) {
  const unsigned g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
  std::memcpy(record.grid, g, sizeof g);
  std::memcpy(record.block, b, sizeof b);
  record.shared = shared;
  unsigned char* at = arguments;
  for (uint64_t i = 0; i < count; ++i) std::memcpy(at, given[i], sizes[i]), at += sizes[i];
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** out, unsigned, unsigned, cudaDriverEntryPointQueryResult* status) {
  *out = reinterpret_cast<void*>(&encode);
  return *status = cudaDriverEntryPointSuccess, cudaSuccess;
}

namespace {

namespace host = cudnn_frontend::experimental;

template <class Engine>
int execute(int version, const int32_t* n, const uint64_t* at, const int64_t* steps, float scale) {
  Engine engine;
  const auto head_dim = uint32_t(n[5]);
  if (!engine.check_support({0, 0, 0, 0, 0, 0, head_dim, head_dim}, version).is_good() || !engine.build().is_good()) return 1;
  const auto four = [steps](int i) { return std::vector<int64_t>(steps + 4 * i, steps + 4 * i + 4); };
  const auto pointer = [at](int i) { return reinterpret_cast<void*>(at[i]); };
  const auto status = engine.execute(n[0], n[1], n[2], n[3], n[4], n[5], pointer(0), four(0), pointer(1), four(1), pointer(2),
                                     four(2), pointer(3), four(3), pointer(4), four(4), pointer(5), four(5), pointer(6), 0,
                                     nullptr, scale);
  return status.is_good() ? 0 : 2;
}

}  // namespace

// n: batch, heads, key heads, rows, keys, head dim. at: q, k, v, o, max, sum, workspace. steps: four strides in elements of
// each of the first six (batch, head, row, 1). sizes: of the kernel's parameters, which are written to out one after another.
// Returns 0, 1 where the engine refuses the shape, 2 where execute() fails.
extern "C" int fmha_engine(int version, int multiprocessors, const int32_t* n, const uint64_t* at, const int64_t* steps,
                           float scale, const uint64_t* parameter_sizes, uint64_t parameters, unsigned char* out,
                           Record* told, const char** name, const char** text) {
  record = {};
  units = multiprocessors, sizes = parameter_sizes, count = parameters, arguments = out;
  const int status = version == 90 ? execute<host::Sm90SdpaPrefillEngine>(version, n, at, steps, scale)
                                   : execute<host::Sm100SdpaPrefillEngine>(version, n, at, steps, scale);
  *told = record, *name = symbol.c_str(), *text = compiled_text;
  return status;
}
