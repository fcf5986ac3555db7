"""Host buffers that are copied to one device buffer without making either side wait."""

from dataclasses import dataclass, field

import torch

from lorikeet.kernels.step_tables import Arrays, Field, views


@dataclass
class _Slot:
    host: torch.Tensor  # uint8, pinned where there is a GPU
    arrays: Arrays  # its contents
    copied: torch.cuda.Event | None = None


@dataclass
class PinnedRing:
    """Hands out a host buffer whose last copy has ended, and adds one when all are in flight.

    Two steps are in flight with asynchronous scheduling, so it stays at two or three buffers.
    """

    device_buffer: torch.Tensor  # uint8
    fields: dict[str, Field]
    _slots: list[_Slot] = field(default_factory=list)

    def acquire(self) -> Arrays:
        """The arrays to fill next; they may hold an older step."""
        slot = next((slot for slot in self._slots if slot.copied is None or slot.copied.query()), None)
        if slot is None:
            host = torch.zeros(self.device_buffer.shape, dtype=torch.uint8, pin_memory=self._on_gpu)
            slot = _Slot(host, views(host.numpy(), self.fields))
        else:
            self._slots.remove(slot)
        self._slots.append(slot)
        return slot.arrays

    def copy(self) -> None:
        """Start copying the buffer that `acquire` returned last, on the current stream."""
        slot = self._slots[-1]
        self.device_buffer.copy_(slot.host, non_blocking=True)
        if self._on_gpu:
            slot.copied = slot.copied or torch.cuda.Event()
            slot.copied.record()

    @property
    def num_buffers(self) -> int:
        return len(self._slots)

    @property
    def _on_gpu(self) -> bool:
        return bool(self.device_buffer.is_cuda)
