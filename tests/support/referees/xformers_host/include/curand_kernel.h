// Names in the bodies of device functions, which nothing here calls.
#pragma once
#include "cuda_runtime_api.h"
struct curandStatePhilox4_32_10_t {};
void curand_init(unsigned long long, unsigned long long, unsigned long long, curandStatePhilox4_32_10_t *);
float4 curand_uniform4(curandStatePhilox4_32_10_t *);
void skipahead(unsigned long long, curandStatePhilox4_32_10_t *);
