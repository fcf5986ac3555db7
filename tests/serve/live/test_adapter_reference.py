"""The server's greedy text against transformers and PEFT, both in float32."""

import pytest

from lorikeet.serve.demo.adapter_paths import adapter_paths

PROMPTS = ["What is the capital of France?", "How do I boil an egg?", "Name three colours of the rainbow."]
NUM_TOKENS = 32
NO_TOKEN = -1  # an end that never comes: the text goes on for all tokens, as the server's with ignore_eos


@pytest.fixture(scope="module")
def reference(model_dir):
    """(adapter or None, prompt) → the greedy text of NUM_TOKENS tokens."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    for name, path in adapter_paths().items():
        if isinstance(model, PeftModel):
            model.load_adapter(path, adapter_name=name)
        else:
            model = PeftModel.from_pretrained(model, path, adapter_name=name)
    model.eval()

    def generate(adapter: str | None, prompt: str) -> str:
        chat = [{"role": "user", "content": prompt}]
        inputs = tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        options = {
            "max_new_tokens": NUM_TOKENS,
            "eos_token_id": NO_TOKEN,
            "do_sample": False,
            "pad_token_id": tokenizer.pad_token_id,
        }
        with torch.inference_mode():
            if adapter is None:
                with model.disable_adapter():
                    ids = model.generate(**inputs, **options)
            else:
                model.set_adapter(adapter)
                ids = model.generate(**inputs, **options)
        return tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=False)

    return generate


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("adapter", [None, "pirate", "json"])
def test_greedy_text_equals_the_reference(server, reference, adapter, prompt):
    answer = server.client.chat.completions.create(
        model=adapter or "smollm2-135m",
        messages=[{"role": "user", "content": prompt}],
        max_tokens=NUM_TOKENS,
        temperature=0,
        extra_body={"ignore_eos": True, "skip_special_tokens": False},
    )
    assert answer.choices[0].message.content == reference(adapter, prompt)
    assert answer.usage.completion_tokens == NUM_TOKENS
