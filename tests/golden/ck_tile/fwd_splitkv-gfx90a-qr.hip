// ck_tile:fwd_splitkv:gfx90a:dtype=bf16,dtype_out=bf16,hdim=256,hdim_v=256,mode=group,mask=any,bias=elementwise,lse=any,gqa=any,cache=paged,append=any,rotary=any,split=any,deterministic=any:pipeline=qr,tile=64x128x32x256x32x256,waves=4x1x1x4x1x1,warp=16x16x16x16x16x16,pad_s=yes,pad_sk=yes,pad_d=1,pad_dv=1

struct Types {
  using QDataType = ck_tile::bf16_t;
  using KDataType = ck_tile::bf16_t;
  using VDataType = ck_tile::bf16_t;
  using BiasDataType = ck_tile::bf16_t;
  using RandValOutputDataType = uint8_t;
  using LSEDataType = float;
  using SaccDataType = float;
  using SMPLComputeDataType = float;
  using PDataType = ck_tile::bf16_t;
  using OaccDataType = float;
  using ODataType = ck_tile::bf16_t;
};
using Tile = ck_tile::sequence<64, 128, 32, 256, 32, 256>;
using Shape = ck_tile::TileFmhaShape<
    Tile,
    ck_tile::sequence<4, 1, 1>,
    ck_tile::sequence<16, 16, 16>,
    ck_tile::sequence<4, 1, 1>,
    ck_tile::sequence<16, 16, 16>,
    true>;
using Variant = ck_tile::ComposedAttention<false * ck_tile::LOGITS_SOFT_CAP, CK_TILE_FMHA_FWD_FAST_EXP2>;
using Mask = ck_tile::SimplifiedGenericAttentionMask<true>;
using EpilogueProblem = ck_tile::Default2DEpilogueProblem<
    Types::OaccDataType,
    Types::OaccDataType,
    false,
    false>;
using Epilogue = ck_tile::Default2DEpilogue<EpilogueProblem>;
template <bool kHasUnevenSplits, bool kMergeNumHeadGroupsSeqLenQ>
struct Instance {
using Traits = ck_tile::TileFmhaFwdSplitKVTraits<
    true,
    true,
    true,
    true,
    false,
    ck_tile::BlockAttentionBiasEnum::ELEMENTWISE_BIAS,
    false,
    true,
    false,
    true,
    kHasUnevenSplits,
    kMergeNumHeadGroupsSeqLenQ,
    -1>;
using Problem = ck_tile::BlockFmhaFwdSplitKVPipelineProblem<
    Types::QDataType,
    Types::KDataType,
    Types::VDataType,
    Types::SaccDataType,
    Types::SMPLComputeDataType,
    Types::BiasDataType,
    Types::LSEDataType,
    Types::PDataType,
    Types::OaccDataType,
    Types::OaccDataType,
    Shape,
    true,
    Variant,
    Mask,
    Traits>;
using Pipeline = ck_tile::BlockFmhaFwdSplitKVPipelineQRKSVS<Problem>;
using Kernel = ck_tile::FmhaFwdSplitKVKernel<Pipeline, Epilogue>;
};
using Kernel = Instance<true, false>::Kernel;

static void check(const Args& a, Checks& checks) {
  REQUIRE(q_ptr, a.q_ptr != nullptr);
  REQUIRE(k_ptr, a.k_ptr != nullptr);
  REQUIRE(v_ptr, a.v_ptr != nullptr);
  REQUIRE(bias_ptr, a.bias_ptr != nullptr);
  REQUIRE(lse_acc_ptr, a.lse_acc_ptr != nullptr);
  REQUIRE(o_acc_ptr, a.o_acc_ptr != nullptr);
  REQUIRE(seqstart_q_ptr, a.seqstart_q_ptr != nullptr);
  REQUIRE(seqstart_k_ptr, a.seqstart_k_ptr != nullptr);
  REQUIRE(block_table_ptr, a.block_table_ptr != nullptr);
  REQUIRE(logits_soft_cap, a.logits_soft_cap == 0);
  REQUIRE(cache_batch_idx, a.cache_batch_idx == nullptr);
  EXTENT(batch, 1);
  EXTENT(nhead_q, 1);
  EXTENT(nhead_k, 1);
  EXTENT(max_seqlen_q, 1);
  EXTENT(hdim_q, 1);
  EXTENT(hdim_v, 1);
  EXTENT(seqlen_q, 0);
  EXTENT(seqlen_k, 0);
  EXTENT(num_splits, 1);
  EXTENT(page_block_size, 1);
  REQUIRE(nhead_q, a.nhead_k < 1 || a.nhead_q % a.nhead_k == 0);
  REQUIRE(mask_type, a.mask_type >= 0 && a.mask_type <= 3);
  REQUIRE(scale_p, a.scale_p == 1);
  REQUIRE(num_splits, a.num_splits <= 128);
  REQUIRE(hdim_q, a.hdim_q <= 256);
  REQUIRE(hdim_v, a.hdim_v <= 256);
  if (checks.status != STATUS_OK) return;
  PRODUCT(split_stride_lse_acc, a.num_splits - 1, a.split_stride_lse_acc);
  PRODUCT(split_stride_o_acc, a.num_splits - 1, a.split_stride_o_acc);
  PRODUCT(num_splits, a.num_splits, (a.max_seqlen_q / 64 + 1));
  PRODUCT(batch_stride_block_table, a.batch - 1, a.batch_stride_block_table);
}

template <typename Kernel>
struct Prepared {
  typename Kernel::Kargs kargs;
  dim3 grid;
};

template <typename Kernel>
Prepared<Kernel> prepare(const Args& a, Checks& checks) {
  return {Kernel::MakeKargs(
          a.q_ptr,
          a.k_ptr,
          a.v_ptr,
          a.bias_ptr,
          a.lse_acc_ptr,
          a.o_acc_ptr,
          IN(batch),
          a.seqstart_q_ptr,
          a.seqstart_k_ptr,
          a.seqlen_k_ptr,
          IN(hdim_q),
          IN(hdim_v),
          IN(nhead_q),
          Narrow{a.nhead_q / a.nhead_k, FIELD_nhead_q, checks},
          IN(num_splits),
          a.block_table_ptr,
          IN(batch_stride_block_table),
          IN(page_block_size),
          IN(is_gappy),
          a.scale_s,
          a.scale_p,
          a.logits_soft_cap,
          IN(stride_q),
          IN(stride_k),
          IN(stride_v),
          IN(stride_bias),
          IN(stride_o_acc),
          IN(nhead_stride_q),
          IN(nhead_stride_k),
          IN(nhead_stride_v),
          IN(nhead_stride_bias),
          IN(nhead_stride_lse_acc),
          IN(nhead_stride_o_acc),
          IN(batch_stride_k),
          IN(batch_stride_v),
          IN(split_stride_lse_acc),
          IN(split_stride_o_acc),
          IN(window_size_left),
          IN(window_size_right),
          IN(mask_type)),
      Kernel::GridSize(
          IN(batch),
          IN(nhead_q),
          IN(nhead_k),
          IN(max_seqlen_q),
          IN(hdim_v),
          IN(num_splits))};
}

template <typename Use>
int choose(const Args& a, Use use) {
  return use(std::type_identity<typename Instance<true, false>::Kernel>{});
}
