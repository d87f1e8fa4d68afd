// ck_tile:fwd_pagedkv:gfx950:dtype=fp8_e4m3,dtype_out=fp8_e4m3,hdim=128,hdim_v=128,mode=group,mask=any,softcap=yes,gqa=any,cache=paged,append=any,rotary=any,qscale=tensor,deterministic=any:pipeline=qr_pagedkv,tile=128x128x32x128x32x128,waves=4x1x1x4x1x1,warp=32x32x32x32x32x32,pad_s=yes,pad_sk=yes

struct Types {
  using QDataType = ck_tile::fp8_t;
  using KDataType = ck_tile::fp8_t;
  using VDataType = ck_tile::fp8_t;
  using BiasDataType = float;
  using RandValOutputDataType = uint8_t;
  using LSEDataType = float;
  using SaccDataType = float;
  using SMPLComputeDataType = float;
  using PDataType = ck_tile::fp8_t;
  using OaccDataType = float;
  using ODataType = ck_tile::fp8_t;
};
using Tile = ck_tile::sequence<128, 128, 32, 128, 32, 128>;
using Shape = ck_tile::TileFmhaShape<
    Tile,
    ck_tile::sequence<4, 1, 1>,
    ck_tile::sequence<32, 32, 32>,
    ck_tile::sequence<4, 1, 1>,
    ck_tile::sequence<32, 32, 32>,
    true>;
using Traits = ck_tile::TileFmhaFwdPagedKVTraits<
    true,
    true,
    false,
    false,
    true,
    ck_tile::BlockAttentionBiasEnum::NO_BIAS,
    false,
    false,
    true,
    true,
    -1,
    false>;
using Variant = ck_tile::ComposedAttention<true * ck_tile::LOGITS_SOFT_CAP, CK_TILE_FMHA_FWD_FAST_EXP2>;
using Mask = ck_tile::SimplifiedGenericAttentionMask<true>;
using Problem = ck_tile::BlockFmhaFwdPagedKVPipelineProblem<
    Types::QDataType,
    Types::KDataType,
    Types::VDataType,
    Types::SaccDataType,
    Types::SMPLComputeDataType,
    Types::BiasDataType,
    Types::LSEDataType,
    Types::PDataType,
    Types::OaccDataType,
    Types::ODataType,
    Shape,
    true,
    Variant,
    Mask,
    Traits>;
using Pipeline = ck_tile::BlockFmhaFwdPagedKVPipelineQRKSVS<Problem>;
using EpilogueProblem = ck_tile::Default2DEpilogueProblem<
    Types::OaccDataType,
    Types::ODataType,
    true,
    false>;
using Epilogue = ck_tile::Default2DEpilogue<EpilogueProblem>;
using Kernel = ck_tile::FmhaFwdPagedKVKernel<Pipeline, Epilogue>;

static void check(const Args& a, Checks& checks) {
  REQUIRE(q_ptr, a.q_ptr != nullptr);
  REQUIRE(k_ptr, a.k_ptr != nullptr);
  REQUIRE(v_ptr, a.v_ptr != nullptr);
  REQUIRE(o_ptr, a.o_ptr != nullptr);
  REQUIRE(block_table_ptr, a.block_table_ptr != nullptr);
  REQUIRE(seqstart_q_ptr, a.seqstart_q_ptr != nullptr);
  REQUIRE(seqstart_k_ptr, a.seqstart_k_ptr != nullptr);
  REQUIRE(bias_ptr, a.bias_ptr == nullptr);
  REQUIRE(lse_ptr, a.lse_ptr == nullptr);
  REQUIRE(cache_batch_idx, a.cache_batch_idx == nullptr);
  REQUIRE(min_seqlen_q, a.min_seqlen_q == 0);
  EXTENT(batch, 1);
  EXTENT(nhead_q, 1);
  EXTENT(nhead_k, 1);
  EXTENT(max_seqlen_q, 1);
  EXTENT(hdim_q, 1);
  EXTENT(hdim_v, 1);
  EXTENT(seqlen_q, 0);
  EXTENT(seqlen_k, 0);
  EXTENT(page_block_size, 1);
  REQUIRE(nhead_q, a.nhead_k < 1 || a.nhead_q % a.nhead_k == 0);
  REQUIRE(logits_soft_cap, a.logits_soft_cap > 0);
  REQUIRE(mask_type, a.mask_type >= 0 && a.mask_type <= 3);
  REQUIRE(hdim_q, a.hdim_q <= 128 && a.hdim_q % 128 == 0);
  REQUIRE(hdim_v, a.hdim_v <= 128 && a.hdim_v % 128 == 0);
  if (checks.status != STATUS_OK) return;
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
          a.lse_ptr,
          a.o_ptr,
          a.seqstart_q_ptr,
          a.seqstart_k_ptr,
          a.seqlen_k_ptr,
          IN(hdim_q),
          IN(hdim_v),
          IN(nhead_q),
          Narrow{a.nhead_q / a.nhead_k, FIELD_nhead_q, checks},
          a.block_table_ptr,
          IN(batch_stride_block_table),
          IN(page_block_size),
          IN(is_gappy),
          a.scale_s,
          a.scale_p,
          a.scale_o,
          a.logits_soft_cap,
          IN(stride_q),
          IN(stride_k),
          IN(stride_v),
          IN(stride_bias),
          IN(stride_o),
          IN(nhead_stride_q),
          IN(nhead_stride_k),
          IN(nhead_stride_v),
          IN(nhead_stride_bias),
          IN(nhead_stride_lse),
          IN(nhead_stride_o),
          IN(batch_stride_k),
          IN(batch_stride_v),
          IN(window_size_left),
          IN(window_size_right),
          IN(mask_type),
          IN(min_seqlen_q)),
      Kernel::GridSize(
          IN(batch),
          IN(nhead_q),
          IN(max_seqlen_q),
          IN(hdim_v),
          a.seqlen_k_ptr != nullptr)};
}

template <typename Use>
int choose(const Args& a, Use use) {
  (void)a;
  return use(std::type_identity<Kernel>{});
}
