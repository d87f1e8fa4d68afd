// flash_attn:bwd_dq_dk_dv:sm_90:dtype=fp16,dtype_out=fp16,hdim=96,hdim_v=96,mask=causal,softcap=yes,lse=any,gqa=any,deterministic=any:tile=64x128,warps=8,even_mn=yes,even_k=yes,atoms=2x4x4,v_in_regs=yes
// flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<96, 64, 128, 8, 2, 4, 4, true, false, cutlass::half_t>, false, true, false, false, true, true, true>

#include <fmha_fa2.h>
#include <namespace_config.h>
#include <flash.h>
#include <flash_bwd_preprocess_kernel.h>
#include <flash_bwd_kernel.h>

using Traits = Flash_bwd_kernel_traits<96, 64, 128, 8, 2, 4, 4, true, false, cutlass::half_t>;
using Params = FLASH_NAMESPACE::Flash_bwd_params;

extern "C" __global__ void fmha_fa2(const __grid_constant__ Params params)
{
  FLASH_NAMESPACE::compute_dq_dk_dv_seqk_parallel<Traits, false, true, false, false, true, true, true>(params);
}

FMHA_EXPORT uint32_t fmha_fa2_facts[] = {(uint32_t)Traits::kBlockM, (uint32_t)Traits::kBlockN, (uint32_t)Traits::kHeadDim, (uint32_t)Traits::kNThreads, (uint32_t)Traits::kSmemSize1colblock};
