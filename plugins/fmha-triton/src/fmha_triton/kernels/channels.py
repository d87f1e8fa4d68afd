"""Channels between the partitions of a Gluon kernel: a ring of buffers, and two mbarriers for each buffer.

A partition takes an end of a channel, the producer's or the consumer's. ``acquire`` waits until the next buffer is its own, and returns a
lease of it and the end as it is afterwards. A lease holds the buffer and the barrier that tells the other side, so it cannot signal for memory
that it did not acquire. The barriers are never invalidated: the other block of a cluster may still signal one when a block is done.

In a cluster each CTA has its part of every buffer, and barriers of its own. Of the CTAs that compute a product together, two by two, the
first one issues it. So the end of a channel that belongs to the products "leads": its barriers lie in the first CTA of a pair, and both
CTAs of the pair arrive there.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    allocate_tensor_memory,
    mbarrier,
    tensor_memory_descriptor,
    tma,
)


def channel_of(memory_type, allocate):
    """The class of channels through one kind of memory."""

    @gluon.aggregate
    class Lease:
        memory: memory_type
        signal: gl.shared_memory_descriptor

        @gluon.jit
        def release(self):
            """Give the buffer to the other side, by an arrival of this partition."""
            mbarrier.arrive(self.signal, count=1)

        @gluon.jit
        def fill(self, desc, place):
            """Give the buffer to the other side when a copy of a box to it is done."""
            mbarrier.expect(self.signal, desc.nbytes_per_cta)
            tma.async_load(desc, place, self.signal, self.box(desc), multicast=True)

        @gluon.jit
        def box(self, desc):
            """The buffer as a descriptor's box lies in it: one ring holds boxes that CTAs split in different ways."""
            return self.memory.reinterpret(desc.dtype, desc.block_shape, desc.layout)

    @gluon.aggregate
    class End:
        memory: memory_type
        own: gl.shared_memory_descriptor
        other: gl.shared_memory_descriptor
        index: gl.tensor
        phase: gl.tensor
        buffers: gl.constexpr

        @gluon.must_use_result
        @gluon.jit
        def acquire(self):
            """(The lease of the next buffer, this end behind it)."""
            mbarrier.wait(self.own.index(self.index), self.phase)
            lease = Lease(self.memory.index(self.index), self.other.index(self.index))
            after = self.index + 1
            wraps = after == self.buffers
            index = gl.where(wraps, 0, after)
            return lease, End(self.memory, self.own, self.other, index, self.phase ^ wraps.to(gl.int32), self.buffers)

        @gluon.jit
        def drain(self):
            """Wait until the other side has given back every buffer, so that no arrival of it is on its way to a block that ends."""
            end = self
            for _ in gl.static_range(self.buffers):
                _lease, end = end.acquire()

    @gluon.aggregate
    class Channel:
        memory: memory_type
        ready: gl.shared_memory_descriptor
        empty: gl.shared_memory_descriptor
        buffers: gl.constexpr

        @gluon.jit
        def create(
            dtype: gl.constexpr,  # noqa: N805 - static
            shape: gl.constexpr,
            layout: gl.constexpr,
            buffers: gl.constexpr,
            producer_leads: gl.constexpr = False,
            consumer_leads: gl.constexpr = False,
            fills: gl.constexpr = 1,
            frees: gl.constexpr = 1,
        ):
            """``fills`` and ``frees``: arrivals that give a buffer to the consumer, and back."""
            memory = allocate(dtype, [buffers] + shape, layout)
            ready = mbarrier.allocate_mbarrier(batch=buffers, two_ctas=consumer_leads)
            empty = mbarrier.allocate_mbarrier(batch=buffers, two_ctas=producer_leads)
            for n in gl.static_range(buffers):
                mbarrier.init(ready.index(n), count=fills)
                mbarrier.init(empty.index(n), count=frees)
            return Channel(memory, ready, empty, buffers)

        @gluon.jit
        def producer(self):
            """The end that fills buffers; all are its own at first, as the phase before the first one counts as over."""
            return End(self.memory, self.empty, self.ready, gl.to_tensor(0), gl.to_tensor(1), self.buffers)

        @gluon.jit
        def consumer(self):
            return End(self.memory, self.ready, self.empty, gl.to_tensor(0), gl.to_tensor(0), self.buffers)

    return Channel


SharedChannel = channel_of(gl.shared_memory_descriptor, gl.allocate_shared_memory)
TensorChannel = channel_of(tensor_memory_descriptor, allocate_tensor_memory)
