"""What can go wrong with an adapter, each with the HTTP status that it is answered with."""

from lorikeet.serve.adapters.reason import Reason
from lorikeet.serve.errors import LorikeetError


class AdapterError(LorikeetError):
    """Base. `reason` labels the metric."""

    status = 400
    kind = "invalid_request_error"

    def __init__(self, message: str, reason: Reason) -> None:
        super().__init__(message)
        self.reason = reason


class AdapterRefusedError(AdapterError):
    """The adapter, its name or where it lies is not acceptable."""


class AdapterNotFoundError(AdapterError):
    """No adapter has this name."""

    status = 404
    kind = "not_found_error"


class AdapterConflictError(AdapterError):
    """The request and what is there exclude each other."""

    status = 409


class AdaptersUnavailableError(AdapterError):
    """There is no engine to load adapters into, yet or at all."""

    status = 503
    kind = "service_unavailable"
