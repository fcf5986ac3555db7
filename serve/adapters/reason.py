"""Why an adapter is refused."""

from enum import StrEnum


class Reason(StrEnum):
    """Why an adapter is refused. A small closed set: it labels metrics."""

    NAME = "name"
    PATH = "path"
    SOURCE = "source"
    SIZE = "size"
    FORMAT = "format"
    CONFIG = "config"
    RANK = "rank"
    FEATURE = "feature"
    TENSORS = "tensors"
    SHAPES = "shapes"
    DTYPE = "dtype"
    VALUES = "values"
    BASE = "base"
    CAPACITY = "capacity"
    ENGINE = "engine"
    CONFLICT = "conflict"
