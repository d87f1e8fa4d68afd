// Kernels that request host services which the emulated device does not offer.
#include <cstdio>
#include <hip/hip_runtime.h>

extern "C" __global__ void says(int* x) {
  printf("%d\n", x[threadIdx.x]);
  x[threadIdx.x] = 1;
}
extern "C" __global__ void allocates(int* x) {
  int* own = static_cast<int*>(malloc(64));
  x[threadIdx.x] = own ? 1 : 2;
}
