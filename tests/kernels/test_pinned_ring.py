"""Host buffers: never one that is still being copied."""

import numpy as np
import torch

from lorikeet.kernels.pinned_ring import PinnedRing
from lorikeet.kernels.step_tables import Field

FIELDS = {"numbers": Field(0, (4,), np.dtype(np.int32))}


class Event:
    def __init__(self, done: bool) -> None:
        self.done = done

    def query(self) -> bool:
        return self.done


def ring() -> PinnedRing:
    return PinnedRing(torch.zeros(16, dtype=torch.uint8), FIELDS)


def test_copy() -> None:
    buffers = ring()
    buffers.acquire()["numbers"][:] = [1, 2, 3, 4]
    buffers.copy()
    assert buffers.device_buffer.view(torch.int32).tolist() == [1, 2, 3, 4]


def test_a_buffer_in_flight_is_left_alone() -> None:
    buffers = ring()
    first = buffers.acquire()["numbers"]
    buffers._slots[0].copied = Event(done=False)  # type: ignore[assignment]
    second = buffers.acquire()["numbers"]
    assert second is not first
    assert buffers.num_buffers == 2


def test_a_copied_buffer_is_used_again() -> None:
    buffers = ring()
    first = buffers.acquire()["numbers"]
    buffers._slots[0].copied = Event(done=True)  # type: ignore[assignment]
    assert buffers.acquire()["numbers"] is first
    assert buffers.num_buffers == 1


def test_copy_takes_the_buffer_acquired_last() -> None:
    buffers = ring()
    buffers.acquire()["numbers"][:] = 1
    buffers._slots[0].copied = Event(done=False)  # type: ignore[assignment]
    buffers.acquire()["numbers"][:] = 2
    buffers.copy()
    assert buffers.device_buffer.view(torch.int32).tolist() == [2] * 4
