"""One line for whatever ended a start: what happened and, where we know, what to do."""

import re

from pydantic import ValidationError

from lorikeet.serve.errors import LorikeetError

MAX_CHARACTERS = 600
# What vLLM and its libraries say → what to do about it.
REMEDIES = (
    (
        r"out of memory|is less than desired|less than requested memory|No available memory for the cache",
        "free memory, lower --gpu-memory-utilization, or set --kv-cache-memory-bytes",
    ),
    (r"maximum number of tokens that can be stored in KV cache", "lower --max-model-len"),
    (r"does not support LoRA", "pass --no-enable-lora to serve it without adapters"),
    (
        r"Invalid repository ID or local directory|is not a local folder and is not a valid model",
        "name a folder, or a model hub's owner/name that this machine can reach",
    ),
    (
        r"libnuma|init_cpu_memory_env",
        "vLLM's CPU build needs the system library libnuma (Debian's package libnuma1)",
    ),
    (
        r"couldn't connect to|Failed to resolve|LocalEntryNotFound|offline mode",
        "the model hub can't be reached: name a local folder",
    ),
)


def describe_failure(error: BaseException, root_cause: str | None = None) -> str:
    """Describe a failed start in one line.

    Args:
        error: what was raised in this process.
        root_cause: the first error that a worker journalled, as "Type: message"; it says more than the
            engine client's "initialization failed".
    """
    if isinstance(error, LorikeetError):
        return str(error)
    text = root_cause or _message(error)
    line = re.sub(r"\s+", " ", text).strip()[:MAX_CHARACTERS].rstrip(". ")
    remedy = _remedy(text)
    return f"{line}; {remedy}" if remedy else line


def is_explained(error: BaseException, root_cause: str | None = None) -> bool:
    """Whether we know why a start failed, so that nobody has to suspect the caches."""
    known = isinstance(error, LorikeetError | ValidationError)
    return known or _remedy(root_cause or _message(error)) is not None


def _remedy(text: str) -> str | None:
    return next((remedy for pattern, remedy in REMEDIES if re.search(pattern, text, re.IGNORECASE)), None)


def _message(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(str(detail["msg"]).removeprefix("Value error, ") for detail in error.errors())
    return f"{type(error).__name__}: {error}"
