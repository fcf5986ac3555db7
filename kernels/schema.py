"""The operator's signature. Compiled graphs call it by this, so it is part of our fingerprint."""

SCHEMA = (
    "lora_linear(Tensor(a!) y, Tensor x, Tensor[] lora_a, Tensor[] lora_b, "
    "Tensor[] tile_tables, Tensor rows, Tensor no_lora_flag_cpu, bool add_inputs) -> ()"
)
