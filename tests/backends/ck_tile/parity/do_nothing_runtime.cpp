// A HIP runtime that launches nothing: memory is zero-initialised host memory, every launch succeeds and takes half a
// millisecond. With it, the real upstream programs run to their end and print their output.
#include <hip/hip_runtime_api.h>

#include <cstdlib>
#include <cstring>

static struct {
    dim3 grid, block;
    size_t lds;
    hipStream_t stream;
} configured;

extern "C" {
hipError_t hipMalloc(void** to, size_t bytes) {
    *to = std::calloc(1, bytes ? bytes : 1);
    return hipSuccess;
}
hipError_t hipFree(void* memory) {
    std::free(memory);
    return hipSuccess;
}
hipError_t hipMemcpy(void* to, const void* from, size_t bytes, hipMemcpyKind) {
    std::memcpy(to, from, bytes);
    return hipSuccess;
}
hipError_t hipMemset(void* to, int value, size_t bytes) {
    std::memset(to, value, bytes);
    return hipSuccess;
}
hipError_t hipGetDevice(int* device) {
    *device = 0;
    return std::getenv("NO_GPU") ? hipErrorNoDevice : hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int) {
    std::memset(properties, 0, sizeof *properties);
    std::strcpy(properties->gcnArchName, "gfx942:sramecc+:xnack-");
    properties->multiProcessorCount = 304;
    return hipSuccess;
}
hipError_t hipGetLastError() { return hipSuccess; }
hipError_t hipPeekAtLastError() { return hipSuccess; }
const char* hipGetErrorString(hipError_t) { return "none"; }
hipError_t hipEventCreate(hipEvent_t* event) {
    *event = reinterpret_cast<hipEvent_t>(&configured);
    return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t) { return hipSuccess; }
hipError_t hipEventRecord(hipEvent_t, hipStream_t) { return hipSuccess; }
hipError_t hipEventSynchronize(hipEvent_t) { return hipSuccess; }
hipError_t hipEventElapsedTime(float* ms, hipEvent_t, hipEvent_t) {
    *ms = 0.5f;
    return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t) { return hipSuccess; }
hipError_t hipLaunchKernel(const void*, dim3, dim3, void**, size_t, hipStream_t) { return hipSuccess; }
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
    configured = {grid, block, lds, stream};
    return hipSuccess;
}
hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* lds, hipStream_t* stream) {
    *grid = configured.grid;
    *block = configured.block;
    *lds = configured.lds;
    *stream = configured.stream;
    return hipSuccess;
}
void** __hipRegisterFatBinary(const void*) {
    static void* one;
    return &one;
}
void __hipUnregisterFatBinary(void**) {}
void __hipRegisterFunction(void**, const void*, char*, const char*, unsigned, void*, void*, void*, void*, int*) {}
}
