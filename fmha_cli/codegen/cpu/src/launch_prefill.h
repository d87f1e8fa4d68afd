// A launch: groups of (sequence, key/value head), as many at a time as the prepared copies of K and V have
// room for; in a group all heads and tiles, longest first. Threads draw work from a counter.
struct Job {
  Context x;
  i64 threads, tile_stride;
  float *tiles, *copies;
  i64* first_item;  // by group of the current round, and the end
  i64* first_copy;
  i64 g0, g1, next;
};

enum { CONVERT_ROWS = 128, NO_COPY = !COPY_K && !COPY_V };
const i64 COPY_FLOATS = (i64)1 << 21;  // bounds the scratch: 8 MiB, or one group

INLINE i64 copy_rows(i64 keys) { return COPY_V ? (keys + V_STEP - 1) / V_STEP : 0; }
INLINE i64 copy_floats(const FmhaCpuArgs& a, i64 keys) {
  return ((COPY_K ? keys * a.hdim : 0) + copy_rows(keys) * a.hdim_v + 15) / 16 * 16;
}
INLINE i64 conversions(i64 keys) { return ceil_div(keys, CONVERT_ROWS); }

static KeysValues operands_of(const Job& job, const Sequence& s, i64 g, i64 b, i64 hk) {
  const FmhaCpuArgs& a = *job.x.a;
  KeysValues kv = {(const KEY*)k_rows(a, s, b, hk), a.k_row_stride, (const VALUE*)v_rows(a, s, b, hk), a.v_row_stride};
  float* copy = job.copies + job.first_copy[g - job.g0];
  if (COPY_K) kv.k = (const KEY*)copy, kv.k_stride = a.hdim, copy += s.nk * a.hdim;
  if (COPY_V) kv.v = (const VALUE*)copy, kv.v_stride = a.hdim_v;
  return kv;
}

// The group that an item of this round belongs to.
INLINE i64 group_of(const Job& job, i64 item) {
  i64 lo = 0, hi = job.g1 - job.g0;
  while (hi - lo > 1) {
    const i64 mid = (lo + hi) / 2;
    (job.first_item[mid] <= item ? lo : hi) = mid;
  }
  return lo;
}

static void convert_task(void* context, i64) {
  Job& job = *(Job*)context;
  const FmhaCpuArgs& a = *job.x.a;
  const i64 end = job.first_item[job.g1 - job.g0];
  for (i64 item; (item = __atomic_fetch_add(&job.next, 1, __ATOMIC_RELAXED)) < end;) {
    const i64 at = group_of(job, item), g = job.g0 + at, b = g / a.kv_heads, hk = g % a.kv_heads;
    const Sequence s = sequence_of(job.x, b);
    [[maybe_unused]] const i64 row = (item - job.first_item[at]) * CONVERT_ROWS, rows = min64(CONVERT_ROWS, s.nk - row);
    [[maybe_unused]] const KeysValues kv = operands_of(job, s, g, b, hk);
#if COPY_K
    convert_rows((float*)kv.k + row * a.hdim, k_rows(a, s, b, hk) + row * a.k_row_stride, a.k_row_stride, rows, a.hdim);
#endif
#if COPY_V
    prepare_values((VALUE*)kv.v + row / V_STEP * a.hdim_v, v_rows(a, s, b, hk) + row * a.v_row_stride, a.v_row_stride,
                   rows, s.nk - row, a.hdim_v);
#endif
  }
}

static void tile_task(void* context, i64 thread) {
  Job& job = *(Job*)context;
  const FmhaCpuArgs& a = *job.x.a;
  const i64 end = job.first_item[job.g1 - job.g0], ratio = a.heads / a.kv_heads;
  for (i64 item; (item = __atomic_fetch_add(&job.next, 1, __ATOMIC_RELAXED)) < end;) {
    const i64 at = group_of(job, item), g = job.g0 + at, b = g / a.kv_heads, hk = g % a.kv_heads;
    const Sequence s = sequence_of(job.x, b);
    const i64 n = item - job.first_item[at], tile = ceil_div(s.nq, BQ) - 1 - n / ratio;
    const i64 h = FAULT_GQA_HEADS_SWAPPED ? hk + n % ratio * a.kv_heads : hk * ratio + n % ratio;
    attend(job.x, operands_of(job, s, g, b, hk), b, h, tile * BQ, job.tiles + thread * job.tile_stride);
  }
}

// Fills the tables for a round of work; conversions or tiles.
static void number_items(Job& job, bool tiles) {
  const FmhaCpuArgs& a = *job.x.a;
  i64 items = 0;
  for (i64 g = job.g0; g < job.g1; ++g) {
    const Sequence s = sequence_of(job.x, g / a.kv_heads);
    job.first_item[g - job.g0] = items;
    items += tiles ? ceil_div(s.nq, BQ) * (a.heads / a.kv_heads) : s.nq ? conversions(s.nk) : 0;
  }
  job.first_item[job.g1 - job.g0] = items;
  job.next = 0;
}

static int launch(const FmhaCpuArgs* args) {
  const FmhaCpuArgs& a = *args;
  Job job;
  job.x = make_context(args);
  const i64 groups = a.batch * a.kv_heads;
  i64 room = 0, work = 0, tiles = 0, longest = 0;
  for (i64 b = 0; b < a.batch; ++b) {
    const Sequence s = sequence_of(job.x, b);
    const i64 copy = copy_floats(a, s.nk);
    longest = max64(longest, copy);
    room += copy * a.kv_heads;
    tiles += ceil_div(s.nq, BQ) * a.heads;
    work += s.nq * s.nk * a.heads * (a.hdim + a.hdim_v);
  }
  if (!tiles) return STATUS_OK;
  room = NO_COPY ? 0 : min64(room, max64(longest, COPY_FLOATS));
  job.threads = clamp64(min64(a.threads, min64(tiles, 1 + (work >> 20))), 1, MAX_THREADS);
  job.tile_stride = tile_floats(a.hdim, a.hdim_v);
  const i64 floats = job.threads * job.tile_stride + room;
  Lease lease = lease_scratch((size_t)floats * sizeof(float) + (size_t)(groups + 1) * 2 * sizeof(i64));
  if (!lease.memory) {
    end_lease(lease);
    return STATUS_OUT_OF_MEMORY;
  }
  job.tiles = (float*)lease.memory;
  job.copies = job.tiles + job.threads * job.tile_stride;
  job.first_item = (i64*)(job.tiles + floats);
  job.first_copy = job.first_item + groups + 1;
  for (job.g0 = 0; job.g0 < groups; job.g0 = job.g1) {
    i64 used = 0;
    for (job.g1 = job.g0; job.g1 < groups; ++job.g1) {
      const i64 copy = NO_COPY ? 0 : copy_floats(a, sequence_of(job.x, job.g1 / a.kv_heads).nk);
      if (job.g1 > job.g0 && used + copy > room) break;
      job.first_copy[job.g1 - job.g0] = used;
      used += copy;
    }
    if (!NO_COPY) {
      number_items(job, false);
      run_on(job.threads, lease.pooled, convert_task, &job);
    }
    number_items(job, true);
    run_on(job.threads, lease.pooled, tile_task, &job);
  }
  end_lease(lease);
  return STATUS_OK;
}
