"""Pieces of queries: which series the choices at the top of a dashboard select, and how rates are taken."""

HERE = 'instance=~"$instance"'
ADAPTER = f'{HERE}, adapter=~"$adapter"'
MODEL = f'{HERE}, model_name=~"$model"'
# Other programs that the same Prometheus scrapes have such a series too.
STARTED = f'process_start_time_seconds{{{HERE}}} and on (job, instance) lorikeet_state{{state="ready"}}'
MAX_LINES = 10  # of a panel with a line for each adapter


def rate(series: str) -> str:
    """A counter's change a second."""
    return f"rate({series}[$__rate_interval])"


def quantile(of: float, buckets: str, *by: str) -> str:
    """A quantile of a histogram, for each value of the labels `by`."""
    return f"histogram_quantile({of}, sum by ({', '.join(('le', *by))}) ({rate(buckets)}))"


def top(expr: str) -> str:
    """The largest series alone."""
    return f"topk({MAX_LINES}, {expr})"
