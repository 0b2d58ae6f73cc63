"""Which entries a program of the SM 9.0 scan walks, and how programs wait for each other.

Entries lie in places by depth: (flat start, length, parent's slot, own slot). Knows no recurrence.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

PLACES = gl.constexpr(4)  # that programs divide in a launch


@gluon.jit
def _share(range_ptr, place, stop_at, part, parts):
    """(first, count) of a program's entries among those of a place; none from place `stop_at`."""
    begin = gl.load(range_ptr + place, mask=place < stop_at, other=0)
    stop = gl.load(range_ptr + place + 1, mask=place < stop_at, other=0)
    each = (stop - begin + parts - 1) // parts
    first = begin + part * each
    return first, gl.maximum(gl.minimum(each, stop - first), 0)


@gluon.jit
def program_run(range_ptr, begin_at, split_at, stop_at, part, parts):
    """A program's entries in order, as (first, count) pairs: every entry before place `split_at`,
    then its share of each of the places up to `stop_at`; and the sum of their counts."""
    begin = gl.load(range_ptr + begin_at)
    turns = gl.load(range_ptr + split_at) - begin
    run = ((begin, turns),)
    for p in gl.static_range(PLACES):
        share = _share(range_ptr, split_at + p, stop_at, part, parts)
        turns += share[1]
        run = run + (share,)  # noqa: RUF005
    return run, turns


@gluon.jit
def _entry(run, turn):
    """The place in the list of a program's `turn`-th entry."""
    at = run[0][0] + turn
    left = turn - run[0][1]
    for p in gl.static_range(PLACES):
        at = gl.where(left >= 0, run[1 + p][0] + left, at)
        left -= run[1 + p][1]
    return at


@gluon.jit
def load_entry(entry_ptr, run, turn, turns):
    """(flat start, length, parent's slot, own slot); zeros beyond the last turn."""
    entry = entry_ptr + _entry(run, turn) * 4
    inside = turn < turns
    row = gl.load(entry, mask=inside, other=0)
    length = gl.load(entry + 1, mask=inside, other=0)
    parent = gl.load(entry + 2, mask=inside, other=0)
    own = gl.load(entry + 3, mask=inside, other=0)
    return row, length, parent, own


@gluon.jit
def await_flag(flag_ptr, needed):
    """Returns once another program has released the flag (at once unless `needed`): what that one
    stored before can be read.

    Programs that share a head are all resident, and every one goes through the depths in order, so
    the program waited for never waits for this one."""
    missing = needed
    while missing:
        missing = _acquire(flag_ptr.to(gl.int64)) == 0


@gluon.jit
def _acquire(address):
    return gl.inline_asm_elementwise(
        "ld.acquire.gpu.global.b32 $0, [$1];", "=r,l", [address], dtype=gl.int32, is_pure=False,
        pack=1,
    )  # fmt: skip


@gluon.jit
def release_flag(flag_ptr):
    """Sets a flag after everything the program's computing threads have stored; one thread does,
    after their barrier."""
    gl.inline_asm_elementwise(
        """{
        .reg .pred first;
        .reg .u32 thread;
        mov.u32 thread, %tid.x;
        setp.eq.u32 first, thread, 0;
        @first st.release.gpu.global.b32 [$1], 1;
        mov.u32 $0, thread;
        }""",
        "=r,l", [flag_ptr.to(gl.int64)], dtype=gl.int32, is_pure=False, pack=1,
    )  # fmt: skip
