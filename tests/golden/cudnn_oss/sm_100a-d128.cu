// cudnn_oss:fwd:sm_100a:dtype=bf16,dtype_out=bf16,hdim=128,hdim_v=128,mask=causal-tl,lse=any,gqa=any,deterministic=any:tile=256x128
// cudnn_generated_oss_sdpa_sm100_flash_fprop_f16_knob_7_128x128x128_4x1x1_cga1x1x1_kernel0_0
// sm100_d128_fprop_source of include/cudnn_frontend/generated/sdpa/sm100/prefill/full_seqlens/d128_fprop_kernel.h, form 1
#include "kernel.cuh"
static_assert(BMM1_TILE_M * Tiles_Q == 256, "arch_specs/_cudnn_oss.json");
static_assert(TILE_N_1 == 128, "arch_specs/_cudnn_oss.json");
static_assert(BMM1_TILE_K == 128, "arch_specs/_cudnn_oss.json");
static_assert(sizeof(SharedStorage) <= 232448, "arch_specs/_cudnn_oss.json");
