"""Device helpers that the LoRA kernels share."""

import triton
import triton.language as tl

# Slices that one launch handles; a layer with more is split into several launches. Pointers are
# plain kernel arguments, so Triton knows which of them are aligned to 16 bytes.
MAX_SLICES = 3


@triton.jit
def pick(slice_id, first, second, third):
    """The argument that belongs to `slice_id`."""
    chosen = first
    if slice_id == 1:
        chosen = second
    if slice_id == 2:
        chosen = third
    return chosen


@triton.jit
def column_block(pid, N0, N1, N2, BLOCK: tl.constexpr):
    """Slice, block within it, its width and its first column of y, for the pid-th block of columns."""
    blocks0 = tl.cdiv(N0, BLOCK)
    blocks1 = tl.cdiv(N1, BLOCK)
    slice_id = 0
    block = pid
    width = N0
    first_column = 0
    if pid >= blocks0 + blocks1:
        slice_id = 2
        block = pid - blocks0 - blocks1
        width = N2
        first_column = N0 + N1
    elif pid >= blocks0:
        slice_id = 1
        block = pid - blocks0
        width = N1
        first_column = N0
    return slice_id, block, width, first_column


@triton.jit
def sum_splits(partial_ptrs, mask, R: tl.constexpr, SPLITS: tl.constexpr):
    """The chunks of K that shrink left apart, added up in a fixed order, in fp32."""
    total = tl.load(partial_ptrs, mask=mask, other=0.0)
    for split in tl.static_range(1, SPLITS):
        total += tl.load(partial_ptrs + split * R, mask=mask, other=0.0)
    return total


@triton.jit
def wait_for_previous_kernel(PDL: tl.constexpr):
    """Everything that earlier kernels wrote is visible after this. No-op without dependent launch."""
    if PDL:
        tl.extra.cuda.gdc_wait()


@triton.jit
def let_next_kernel_start(PDL: tl.constexpr):
    """Let the next kernel be launched early; it waits for this one before it reads our output."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
