// flash_attn:bwd_dq_dk_dv:sm_80:dtype=fp16,dtype_out=fp16,hdim=256,hdim_v=256,mode=any,mask=causal,dropout=yes,lse=any,gqa=any,deterministic=any:tile=64x64,warps=8,even_k=yes,atoms=4x2x2,single_buffer=yes
// flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<256, 64, 64, 8, 4, 2, 2, false, true, cutlass::half_t>, true, true, false, false, false, true, false>

#include <fmha_fa2.h>
#include <namespace_config.h>
#include <flash.h>
#include <flash_bwd_preprocess_kernel.h>
#include <flash_bwd_kernel.h>

using Traits = Flash_bwd_kernel_traits<256, 64, 64, 8, 4, 2, 2, false, true, cutlass::half_t>;
using Params = FLASH_NAMESPACE::Flash_bwd_params;

extern "C" __global__ void fmha_fa2(const __grid_constant__ Params params)
{
  FLASH_NAMESPACE::compute_dq_dk_dv_seqk_parallel<Traits, true, true, false, false, false, true, false>(params);
}

FMHA_EXPORT uint32_t fmha_fa2_facts[] = {(uint32_t)Traits::kBlockM, (uint32_t)Traits::kBlockN, (uint32_t)Traits::kHeadDim, (uint32_t)Traits::kNThreads, (uint32_t)Traits::kSmemSize1colblock};
