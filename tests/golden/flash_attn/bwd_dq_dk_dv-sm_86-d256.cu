// flash_attn:bwd_dq_dk_dv:sm_86:dtype=fp16,dtype_out=fp16,hdim=256,hdim_v=256,mode=any,mask=causal,softcap=yes,lse=any,gqa=any,deterministic=any:tile=64x32,warps=8,even_k=yes,atoms=4x1x2,v_in_regs=yes,single_buffer=yes
// flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<256, 64, 32, 8, 4, 1, 2, true, true, cutlass::half_t>, false, true, false, false, false, true, true>

#include <fmha_fa2.h>
#include <namespace_config.h>
#include <flash.h>
#include <flash_bwd_preprocess_kernel.h>
#include <flash_bwd_kernel.h>

using Traits = Flash_bwd_kernel_traits<256, 64, 32, 8, 4, 1, 2, true, true, cutlass::half_t>;
using Params = FLASH_NAMESPACE::Flash_bwd_params;

extern "C" __global__ void fmha_fa2(const __grid_constant__ Params params)
{
  FLASH_NAMESPACE::compute_dq_dk_dv_seqk_parallel<Traits, false, true, false, false, false, true, true>(params);
}

FMHA_EXPORT uint32_t fmha_fa2_facts[] = {(uint32_t)Traits::kBlockM, (uint32_t)Traits::kBlockN, (uint32_t)Traits::kHeadDim, (uint32_t)Traits::kNThreads, (uint32_t)Traits::kSmemSize1colblock};
