"""The words for how block sizes are found, shared with what counts and shows them."""

from typing import Literal, get_args

Match = Literal["exact", "bucket", "capability", "default"]
MATCHES: tuple[Match, ...] = get_args(Match)  # the most exact first
OPERATORS = ("lora_shrink", "lora_expand")
CHOSEN = "lora_configs"  # the journal's phase of a worker's note on what it found
