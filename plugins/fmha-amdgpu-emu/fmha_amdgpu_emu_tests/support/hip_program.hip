// A program like a user's: host and device code in one file, linked with HIP's symbols unresolved.
#include <cstdio>
#include <cstring>
#include <hip/hip_runtime.h>

__constant__ int factor = 2;
__device__ int counted = 0;

template <class T> __global__ void scale(T* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = T(x[i] * factor);
  if (i == 0) atomicAdd(&counted, n);
}

__global__ void overrun(int* x) { x[threadIdx.x + 1] = 0; }

#define CHECK(call)                                                                \
  if (hipError_t e = (call)) {                                                     \
    std::printf("%s: %s (%s)\n", #call, hipGetErrorName(e), hipGetErrorString(e)); \
    return 3;                                                                      \
  }

int main(int count, char** words) {
  const char* what = count > 1 ? words[1] : "";
  constexpr int n = 1000;
  int host[n];
  double wide[n];
  for (int k = 0; k < n; ++k) host[k] = k, wide[k] = k * 0.5;
  int* x;
  double* y;
  CHECK(hipMalloc(&x, sizeof host));
  CHECK(hipMalloc(&y, sizeof wide));
  CHECK(hipMemcpy(x, host, sizeof host, hipMemcpyHostToDevice));
  CHECK(hipMemcpy(y, wide, sizeof wide, hipMemcpyHostToDevice));
  const int three = 3;
  CHECK(hipMemcpyToSymbol(HIP_SYMBOL(factor), &three, sizeof three));
  scale<<<(n + 255) / 256, 256>>>(x, n);
  scale<<<(n + 63) / 64, 64, 0, 0>>>(y, n);
  CHECK(hipGetLastError());
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(host, x, sizeof host, hipMemcpyDeviceToHost));
  CHECK(hipMemcpy(wide, y, sizeof wide, hipMemcpyDeviceToHost));
  int sum = 0;
  CHECK(hipMemcpyFromSymbol(&sum, HIP_SYMBOL(counted), sizeof sum));
  int wrong = sum != 2 * n;
  for (int k = 0; k < n; ++k) wrong += host[k] != 3 * k || wide[k] != 1.5 * k;
  int groups = 0;
  CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&groups, scale<int>, 256, 0));
  std::printf("wrong: %d, groups: %d\n", wrong, groups);
  if (!std::strcmp(what, "overrun")) {
    overrun<<<1, 1024>>>(x);
    CHECK(hipGetLastError());
  }
  if (!std::strcmp(what, "absent")) {
    hipGraph_t graph;
    std::printf("asking for a graph\n");
    std::fflush(stdout);
    CHECK(hipGraphCreate(&graph, 0));
  }
  CHECK(hipFree(x));
  CHECK(hipFree(y));
  return wrong != 0;
}
