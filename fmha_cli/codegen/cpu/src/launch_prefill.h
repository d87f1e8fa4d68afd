// A launch: groups of (sequence, key/value head), as many at a time as the prepared copies of K and V have
// room for; in a group all heads and tiles, longest first. Threads draw work from counters.
// The tile loop reads K and V by strides and in its own types, so paged and other rows are copied first; so are rows that lie
// far apart, which share few sets of a cache and need a page each.
struct Job {
  Context x;
  bool copy_k, copy_v;
  i64 threads, room;  // floats of each thread's tiles
  i64 group;  // rows of the tiles that take turns
  float *tiles, *copies;
  i64* first_item;  // by group of the current round, and the end
  i64* first_copy;
  i64* next_item;  // by group
  i64 g0, g1, next;
  bool apart;  // a thread takes all tiles of a group before those of another
};

enum { CONVERT_ROWS = 128 };
enum { APART = 2048, COPY_QUERIES = 256 };  // bytes between rows, and queries, from which on a copy pays
enum { MOST_TURNS = 16, LEAST_ITEMS = 8 };  // tiles that take turns; items for each thread, so that all end together
const i64 COPY_FLOATS = (i64)1 << 21;  // bounds the scratch: 8 MiB, or one group
const i64 NEAR_FLOATS = (i64)1 << 19;  // for each thread: copies that are read before they leave its second-level cache
const i64 OWN_BYTES = 1 << 20;  // of K and V of a group, which the second-level cache of one core holds or almost holds

INLINE i64 key_copy_floats(const Job& job, i64 keys) {
  return job.copy_k ? ceil_div(keys * key_copy_stride(job.x.a->hdim) * (i64)sizeof(KEY), (i64)sizeof(float)) : 0;
}
INLINE i64 copy_floats(const Job& job, i64 keys) {
  const i64 values = job.copy_v ? ceil_div(keys, V_STEP) * value_copy_stride(job.x.a->hdim_v) : 0;
  return (key_copy_floats(job, keys) + values + 15) / 16 * 16;
}
INLINE i64 conversions(i64 keys) { return ceil_div(keys, CONVERT_ROWS); }

static KeysValues operands_of(const Job& job, const Sequence& s, i64 g, i64 b, i64 hk) {
  const FmhaCpuArgs& a = *job.x.a;
  KeysValues kv = {(const KEY*)k_rows(a, s, hk), a.k_row_stride, (const VALUE*)v_rows(a, s, hk), a.v_row_stride};
  float* copy = job.copies + job.first_copy[g - job.g0];
  if (job.copy_k) kv.k = (const KEY*)copy, kv.k_stride = key_copy_stride(a.hdim);
  if (job.copy_v) kv.v = (const VALUE*)(copy + key_copy_floats(job, s.nk)), kv.v_stride = value_copy_stride(a.hdim_v);
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

NOINLINE void convert_task(void* context, i64) {
  Job& job = *(Job*)context;
  const FmhaCpuArgs& a = *job.x.a;
  const i64 end = job.first_item[job.g1 - job.g0];
  for (i64 item; (item = __atomic_fetch_add(&job.next, 1, __ATOMIC_RELAXED)) < end;) {
    const i64 at = group_of(job, item), g = job.g0 + at, b = g / a.kv_heads, hk = g % a.kv_heads;
    const Sequence s = sequence_of(job.x, b);
    const i64 row = (item - job.first_item[at]) * CONVERT_ROWS, rows = min64(CONVERT_ROWS, s.nk - row);
    const KeysValues kv = operands_of(job, s, g, b, hk);
    if (job.copy_k) copy_keys(job.x, (KEY*)kv.k + row * kv.k_stride, key_rows(a, s, b, hk), row, rows, a.hdim);
    if (job.copy_v)
      copy_values(job.x, (VALUE*)kv.v + row / V_STEP * kv.v_stride, value_rows(a, s, b, hk), row, rows, s.nk - row, a.hdim_v);
  }
}

// The next item of a thread whose last one was of group `own`; all groups: none yet. Where one core's cache holds K and V of a
// group, each thread keeps to its group, so that K and V come from farther away once and not once for each thread. Threads that
// find no group left help with those that others have begun.
static i64 draw(Job& job, i64& own) {
  const i64 groups = job.g1 - job.g0;
  if (!job.apart) return __atomic_fetch_add(&job.next, 1, __ATOMIC_RELAXED);
  for (;;) {
    if (own < groups) {
      const i64 item = __atomic_fetch_add(job.next_item + own, 1, __ATOMIC_RELAXED);
      if (item < job.first_item[own + 1]) return item;
    }
    if ((own = __atomic_fetch_add(&job.next, 1, __ATOMIC_RELAXED)) < groups) continue;
    for (own = 0; own < groups; ++own)
      if (__atomic_load_n(job.next_item + own, __ATOMIC_RELAXED) < job.first_item[own + 1]) break;
    if (own == groups) return job.first_item[groups];
  }
}

// The rows of an item of this round.
struct Place {
  Sequence s;
  i64 g, b, hk, h, i0, i1;
};

INLINE Place place_of(const Job& job, i64 item) {
  const FmhaCpuArgs& a = *job.x.a;
  const i64 at = group_of(job, item), g = job.g0 + at, b = g / a.kv_heads, hk = g % a.kv_heads, ratio = a.heads / a.kv_heads;
  const Sequence s = sequence_of(job.x, b);
  const i64 n = item - job.first_item[at], i0 = (ceil_div(s.nq, job.group) - 1 - n / ratio) * job.group;
  const i64 h = FAULT_GQA_HEADS_SWAPPED ? hk + n % ratio * a.kv_heads : hk * ratio + n % ratio;
  return {s, g, b, hk, h, i0, min64(i0 + job.group, s.nq)};
}

// Q of later tiles, and the lines that its O will be written to, into the second-level cache: packing the one and storing the
// other would wait for memory.
static void ask_rows(const Job& job, i64 item) {
  const FmhaCpuArgs& a = *job.x.a;
  const Place p = place_of(job, item);
  const auto* q = q_row(a, p.s, p.b, p.h, p.i0);
  const auto* o = o_row(a, p.s, p.b, p.h, p.i0);
  for (i64 row = p.i0; row < p.i1; ++row, q += a.q_row_stride, o += a.o_row_stride) {
    for (i64 c = 0; c < a.hdim; c += 64 / (i64)sizeof *q) __builtin_prefetch(q + c, 0, 2);
    for (i64 c = 0; c < a.hdim_v; c += 64 / (i64)sizeof *o) __builtin_prefetch(o + c, 1, 2);
  }
}

NOINLINE void tile_task(void* context, i64 thread) {
  Job& job = *(Job*)context;
  const i64 groups = job.g1 - job.g0, end = job.first_item[groups], step = job.apart && groups >= job.threads ? 1 : job.threads;
  i64 own = groups, known = -1;
  configure_tiles();
  for (i64 item; (item = draw(job, own)) < end;) {
    if (item + step < end) ask_rows(job, item + step);
    const Place p = place_of(job, item);
    attend(job.x, operands_of(job, p.s, p.g, p.b, p.hk), p.b, p.h, p.i0, p.i1, job.tiles + thread * job.room, p.g != known);
    known = p.g;
  }
  release_tiles();
}

// Fills the tables for a round of work; conversions or tiles.
static void number_items(Job& job, bool tiles) {
  const FmhaCpuArgs& a = *job.x.a;
  i64 items = 0;
  for (i64 g = job.g0; g < job.g1; ++g) {
    const Sequence s = sequence_of(job.x, g / a.kv_heads);
    job.first_item[g - job.g0] = items;
    job.next_item[g - job.g0] = items;
    items += tiles ? ceil_div(s.nq, job.group) * (a.heads / a.kv_heads) : s.nq ? conversions(s.nk) : 0;
  }
  job.first_item[job.g1 - job.g0] = items;
  job.next = 0;
}

COLD int launch(const FmhaCpuArgs* args) {
  const FmhaCpuArgs& a = *args;
  if (!tiles_permitted()) return STATUS_NOT_PERMITTED;
  Job job;
  job.x = make_context(args);
  i64 longest_q = 0;
  for (i64 b = 0; b < a.batch; ++b) longest_q = max64(longest_q, sequence_of(job.x, b).nq);
  const bool many = longest_q >= COPY_QUERIES;
  job.copy_k = COPY_K || a.block_table || key_width(a.hdim) != a.hdim || (many && a.k_row_stride * (i64)sizeof(KT) >= APART);
  job.copy_v = COPY_V || a.block_table || (many && a.v_row_stride * (i64)sizeof(KT) >= APART);
  const bool copies = job.copy_k || job.copy_v;
  const i64 groups = a.batch * a.kv_heads;
  i64 room = 0, work = 0, tiles = 0, longest = 0, keys = 0;
  for (i64 b = 0; b < a.batch; ++b) {
    const Sequence s = sequence_of(job.x, b);
    const i64 copy = copy_floats(job, s.nk);
    longest = max64(longest, copy);
    keys = max64(keys, s.nk);
    room += copy * a.kv_heads;
    tiles += ceil_div(s.nq, BQ) * a.heads;
    work += s.nq * s.nk * a.heads * (a.hdim + a.hdim_v);
  }
  if (!tiles) return STATUS_OK;
  job.threads = clamp64(min64(a.threads, min64(tiles, 1 + (work >> 20))), 1, MAX_THREADS);
  room = min64(room, max64(longest, TILES ? min64(COPY_FLOATS, job.threads * NEAR_FLOATS) : COPY_FLOATS));
  const i64 turns = clamp64(tiles / (LEAST_ITEMS * job.threads), 1, clamp64(a.query_tiles, 1, MOST_TURNS));
  job.group = turns * BQ;
  job.apart = keys * (a.hdim + a.hdim_v) * (i64)sizeof(KEY) <= OWN_BYTES;
  job.room = shared_floats(a.hdim) + turns * tile_floats(a.hdim, a.hdim_v);
  const i64 floats = job.threads * job.room + room;
  Lease lease = lease_scratch((size_t)floats * sizeof(float) + (size_t)(groups + 1) * 3 * sizeof(i64));
  if (!lease.memory) {
    end_lease(lease);
    return STATUS_OUT_OF_MEMORY;
  }
  job.tiles = (float*)lease.memory;
  job.copies = job.tiles + job.threads * job.room;
  job.first_item = (i64*)(job.tiles + floats);
  job.first_copy = job.first_item + groups + 1;
  job.next_item = job.first_copy + groups + 1;
  for (job.g0 = 0; job.g0 < groups; job.g0 = job.g1) {
    i64 used = 0;
    for (job.g1 = job.g0; job.g1 < groups; ++job.g1) {
      const i64 copy = copy_floats(job, sequence_of(job.x, job.g1 / a.kv_heads).nk);
      if (job.g1 > job.g0 && used + copy > room) break;
      job.first_copy[job.g1 - job.g0] = used;
      used += copy;
    }
    if (copies) {
      number_items(job, false);
      run_on(job.threads, lease.pooled, convert_task, &job);
    }
    number_items(job, true);
    run_on(job.threads, lease.pooled, tile_task, &job);
  }
  end_lease(lease);
  return STATUS_OK;
}
