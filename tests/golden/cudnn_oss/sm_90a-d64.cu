// cudnn_oss:fwd:sm_90a:dtype=bf16,dtype_out=bf16,hdim=64,hdim_v=64,mask=causal-tl,lse=any,gqa=any,deterministic=any:tile=128x128
// cudnn_generated_oss_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0
// d64_fprop_source of include/cudnn_frontend/generated/sdpa/sm90/prefill/full_seqlens/d64_fprop_kernel.h, form 1
#include "kernel.cuh"
static_assert(TILE_M_1 * 2 == 128, "arch_specs/_cudnn_oss.json");
static_assert(TILE_N_1 == 128, "arch_specs/_cudnn_oss.json");
static_assert(TILE_K_1 == 64, "arch_specs/_cudnn_oss.json");
static_assert(SMEM_OFFSET_O_1 + TILE_M_1 * 2 * TILE_O_1 * BYTES_PER_ELEMENT_1 <= 122880, "arch_specs/_cudnn_oss.json");
