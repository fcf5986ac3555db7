"""Which slots have LoRA weights for the logits.

vLLM computes the logits' LoRA in every step that has an adapter, also where none of them has such weights:
it then reads B of the whole vocabulary and adds zeros. Few adapters have any.
"""

from typing import Any

import numpy as np
import numpy.typing as npt


class LogitsSlots:
    """Follows what vLLM's logits layer is given for each slot."""

    def __init__(self, layer: Any, num_slots: int) -> None:
        """`layer` is vLLM's LogitsProcessorWithLoRA, before any adapter is loaded."""
        self._has_weights = np.zeros(num_slots, dtype=bool)
        set_lora, reset_lora = layer.set_lora, layer.reset_lora

        def set_and_note(index: int, *weights: Any) -> None:
            set_lora(index, *weights)  # calls reset_lora first
            self._has_weights[index] = True

        def reset_and_note(index: int) -> None:
            reset_lora(index)
            self._has_weights[index] = False

        layer.set_lora, layer.reset_lora = set_and_note, reset_and_note

    def any_has_weights(self, slots: npt.NDArray[np.int32]) -> bool:
        """Whether one of the slots, each at least 0, adds anything to the logits."""
        return bool(self._has_weights[slots].any())
