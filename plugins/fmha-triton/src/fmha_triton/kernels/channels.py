"""Channels between the partitions of a Gluon kernel: a ring of buffers, and two mbarriers for each buffer.

A partition takes an end of a channel, the producer's or the consumer's. ``acquire`` waits until the next buffer is its own, and returns a
lease of it and the end as it is afterwards. A lease holds the buffer and the barrier that tells the other side, so it cannot signal for memory
that it did not acquire. The barriers are never invalidated: the other block of a cluster may still signal one when a block is done.
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
            tma.async_load(desc, place, self.signal, self.memory)

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

    @gluon.aggregate
    class Channel:
        memory: memory_type
        ready: gl.shared_memory_descriptor
        empty: gl.shared_memory_descriptor
        buffers: gl.constexpr

        @gluon.jit
        def create(dtype: gl.constexpr, shape: gl.constexpr, layout: gl.constexpr, buffers: gl.constexpr):  # noqa: N805 - static
            memory = allocate(dtype, [buffers] + shape, layout)
            ready = mbarrier.allocate_mbarrier(batch=buffers)
            empty = mbarrier.allocate_mbarrier(batch=buffers)
            for n in gl.static_range(buffers):
                mbarrier.init(ready.index(n), count=1)
                mbarrier.init(empty.index(n), count=1)
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
