"""Innermost loops found in listings: what belongs to a loop, and what only looks like one."""

from __future__ import annotations

import pytest

from fmha_cli.backends.cpu.inspection import innermost_loops, summarise

NEST = """
0000000000000100 <nest>:
 100:	xor    %eax,%eax
 104:	xor    %ecx,%ecx
 108:	vfmadd231ps (%rsi),%zmm0,%zmm1
 10c:	dec    %ecx
 110:	jne    108 <nest+0x8>
 114:	vmovaps %zmm1,0x40(%rsp)
 118:	jne    104 <nest+0x4>
 11c:	ret
"""
"""Two loops, one inside the other; the outer one spills."""

OUTLYING = """
0000000000000100 <far>:
 100:	vmulps %ymm0,%ymm1,%ymm2
 104:	je     114 <far+0x14>
 108:	dec    %ecx
 10c:	jne    100 <far>
 110:	ret
 114:	vmovaps %ymm2,0x20(%rsp)
 118:	jmp    108 <far+0x8>
"""
"""A block of the loop lies behind the function's end."""

NO_LOOP = """
0000000000000100 <cold>:
 100:	je     110 <cold+0x10>
 104:	vmulps %ymm0,%ymm1,%ymm2
 108:	vmovaps %ymm2,0x20(%rsp)
 10c:	ret
 110:	xor    %eax,%eax
 114:	jmp    104 <cold+0x4>
"""
"""A jump back that is taken once."""

TWO_WAYS_BACK = """
0000000000000100 <next>:
 100:	vmulps %ymm0,%ymm1,%ymm2
 104:	jne    100 <next>
 108:	vmovaps %ymm2,0x20(%rsp)
 10c:	jmp    100 <next>
"""
"""Two jumps back to one entry are one loop."""

ENTERED_BEHIND_PADDING = """
0000000000000100 <padded>:
 100:	vmovaps %zmm1,0x40(%rsp)
 104:	jmp    118 <padded+0x18>
 108:	cs nopw 0x0(%rax,%rax,1)
 110:	xchg   %ax,%ax
 114:	mov    (%rsi),%rdi
 118:	vfmadd231ps (%rsi),%zmm0,%zmm1
 11c:	jne    114 <padded+0x14>
 120:	jne    100 <padded>
 124:	ret
"""
"""What aligns an inner loop leads into its first instruction, but nothing comes that way."""

ARM = """
0000000000000730 <tile>:
 730:	mov	x3, #0x0                   	// #0
 734:	ldr	q0, [x0, x3]
 738:	fmla	v16.4s, v1.4s, v0.s[0]
 73c:	str	q2, [sp, #96]
 740:	b.ne	738 <tile+0x8>  // b.any
 744:	cbnz	x4, 734 <tile+0x4>
 748:	ret
"""


@pytest.mark.parametrize(
    ("text", "sizes", "moves"),
    [
        (NEST, [3], 0),
        (OUTLYING, [6], 1),
        (NO_LOOP, [], 0),
        (TWO_WAYS_BACK, [4], 1),
        (ENTERED_BEHIND_PADDING, [3], 0),
        (ARM, [3], 1),
    ],
    ids=["nest", "outlying", "no-loop", "two-ways-back", "padding", "arm"],
)
def test_innermost_loops(text: str, sizes: list[int], moves: int) -> None:
    loops = innermost_loops(text)
    assert [len(loop.body) for loop in loops] == sizes
    assert sum(loop.stack_moves for loop in loops) == moves
    assert all(loop.multiplies for loop in loops)


def test_a_spill_in_the_loop_is_seen_and_one_outside_is_not() -> None:
    quiet, loud = summarise(NEST), summarise(NEST.replace("(%rsi)", "0x40(%rsp)"))
    assert (quiet["innermost_loops"], quiet["multiplying_loops"], quiet["loop_stack_moves"]) == (1, 1, 0)
    assert (loud["loop_stack_moves"], loud["loop_stack_functions"]) == (1, {"nest": 1})
    assert quiet["spills"] == 1


def test_a_loop_that_multiplies_no_vectors_does_not_count() -> None:
    copying = summarise(NEST.replace("vfmadd231ps (%rsi),%zmm0,%zmm1", "vmovaps 0x40(%rsp),%zmm1"))
    assert (copying["innermost_loops"], copying["multiplying_loops"], copying["loop_stack_moves"]) == (1, 0, 0)
    scalar = summarise(ARM.replace("fmla	v16.4s, v1.4s, v0.s[0]", "fmul	s1, s1, s0"))
    assert scalar["multiplying_loops"] == 0
