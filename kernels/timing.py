"""GPU time of short kernels, from replays of a CUDA graph."""

import statistics
from collections.abc import Callable, Sequence

import torch


def time_graph_us(launches: Sequence[Callable[[], None]], repeats: int = 15) -> float:
    """Median time of one launch, all of them captured in one graph.

    Give launches that touch different weights, more than the L2 cache holds in all: repeating one
    launch would measure the cache.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        launches[0]()  # compile and load
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for launch in launches:
                launch()
        graph.replay()
        times = [_replay_us(graph) for _ in range(repeats)]
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    return statistics.median(times) / len(launches)


def _replay_us(graph: torch.cuda.CUDAGraph) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e3
