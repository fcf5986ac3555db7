import pytest
from pydantic import BaseModel, Field, ValidationError

from lorikeet.serve.errors import StartError
from lorikeet.serve.failures import MAX_CHARACTERS, describe_failure


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("Free memory (3/80 GiB) is less than desired GPU memory utilization", "--gpu-memory-utilization"),
        ("CUDA out of memory. Tried to allocate 2 GiB", "--gpu-memory-utilization"),
        ("larger than the maximum number of tokens that can be stored in KV cache", "--max-model-len"),
        ("BertModel does not support LoRA yet.", "--no-enable-lora"),
        ("'_C' object has no attribute 'init_cpu_memory_env'", "libnuma1"),
        ("We couldn't connect to the hub to load the files", "local folder"),
    ],
)  # fmt: skip
def test_known_causes_come_with_a_remedy(text, remedy):
    line = describe_failure(ValueError(text))
    assert line.startswith("ValueError: ")
    assert remedy in line.rpartition(";")[2]


def test_our_own_errors_are_said_as_they_are():
    assert describe_failure(StartError("no model; name one")) == "no model; name one"


def test_a_workers_cause_is_said_instead_of_the_clients():
    assert describe_failure(RuntimeError("Engine core initialization failed"), "OSError: x").startswith(
        "OSError: x"
    )


def test_a_long_text_of_many_lines_becomes_one_short_line():
    line = describe_failure(ValueError("a\n  b\n" * 1000))
    assert "\n" not in line
    assert len(line) <= MAX_CHARACTERS


def test_of_a_validation_error_the_messages_are_said():
    class Model(BaseModel):
        x: int = Field(ge=0)

    with pytest.raises(ValidationError) as caught:
        Model(x=-1)
    assert describe_failure(caught.value) == "Input should be greater than or equal to 0"
