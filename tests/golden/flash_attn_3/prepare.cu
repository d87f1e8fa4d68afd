// flash_attn_3:fwd_prepare:sm_90a:dtype=fp32,dtype_out=fp32,hdim=256,hdim_v=512,mode=any,mask=any,softcap=any,lse=any,gqa=any,cache=any,append=any,rotary=any,split=any,qscale=any,deterministic=any:tile=124,varlen=yes,sort=yes
// prepare_varlen_num_blocks_kernel<4, true>, form 1

#include <fmha_fa3.h>
#include <cutlass/fast_math.h>
#include <cuda/std/climits>
#include "fmha_prepare.cuh"

struct Fa3PrepareParams {
  int32_t seqlen_q;
  int32_t seqlen_k;
  int32_t seqlen_k_new;
  void* cu_seqlens_q;
  void* cu_seqlens_k;
  void* cu_seqlens_k_new;
  void* seqused_q;
  void* seqused_k;
  void* leftpad_k;
  int32_t num_batch;
  int32_t num_head;
  int32_t qhead_per_khead;
  int32_t num_sm;
  int32_t num_splits;
  cutlass::FastDivmod blockm_divmod;
  cutlass::FastDivmod blockn_divmod;
  void* tile_count_semaphore;
  void* num_m_blocks;
  void* num_splits_dynamic;
  void* varlen_batch_idx;
  void* num_nheads_in_l2;
  bool enable_pdl;
  bool is_causal;
  bool packgqa;
  int32_t max_kvblocks_in_l2;
};
using Params = Fa3PrepareParams;

extern "C" __global__ void __launch_bounds__(128)
fmha_fa3(const __grid_constant__ Params params)
{
  flash::prepare_varlen_num_blocks_kernel<4, true>(params.seqlen_q, params.seqlen_k, params.seqlen_k_new, (int*)params.cu_seqlens_q, (int*)params.cu_seqlens_k, (int*)params.cu_seqlens_k_new, (int*)params.seqused_q, (int*)params.seqused_k, (int*)params.leftpad_k, params.num_batch, params.num_head, params.qhead_per_khead, params.num_sm, params.num_splits, params.blockm_divmod, params.blockn_divmod, (int*)params.tile_count_semaphore, (int*)params.num_m_blocks, (int*)params.num_splits_dynamic, (int*)params.varlen_batch_idx, (int*)params.num_nheads_in_l2, params.enable_pdl, params.is_causal, params.packgqa, params.max_kvblocks_in_l2);
}

FMHA_EXPORT uint32_t fmha_fa3_facts[] = {(uint32_t)4, 0};
