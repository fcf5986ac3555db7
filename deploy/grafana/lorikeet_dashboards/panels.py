"""The kinds of panel that our dashboards are made of, each with its title, meaning, unit and queries."""

from collections.abc import Sequence
from typing import Any, TypeVar

from grafana_foundation_sdk.builders import bargauge, heatmap, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ReduceDataOptions,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import ThresholdsConfig
from grafana_foundation_sdk.builders.heatmap import HeatmapColorOptions, YAxisConfig
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DataTransformerConfig,
    Panel,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode, HeatmapColorScale
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = DataSourceRef(type_val="prometheus", uid="lorikeet-prometheus")
GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"
Step = tuple[float, str]  # from this value on, this colour
AnyPanel = Builder[Panel]
P = TypeVar(
    "P", bargauge.Panel, heatmap.Panel, stat.Panel, statetimeline.Panel, table.Panel, timeseries.Panel
)


def query(expr: str, legend: str = "") -> Dataquery:
    """A query over the dashboard's time."""
    return Dataquery().expr(expr).legend_format(legend).range().datasource(DATASOURCE)


def latest(expr: str, legend: str = "") -> Dataquery:
    """A query at the end of the dashboard's time alone."""
    return Dataquery().expr(expr).legend_format(legend).instant().datasource(DATASOURCE)


def lines(
    title: str, meaning: str, unit: str, queries: Sequence[Dataquery], *steps: Step, width: int = 8
) -> timeseries.Panel:
    """Values over time; `steps` draw a dashed line where trouble begins."""
    style = common.GraphThresholdsStyleMode.DASHED if steps else common.GraphThresholdsStyleMode.OFF
    legend = VizLegendOptions().show_legend(True).placement(common.LegendPlacement.BOTTOM)
    tooltip = VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
    panel = (
        timeseries.Panel().thresholds_style(GraphThresholdsStyleConfig().mode(style)).fill_opacity(8).min(0)
    )
    panel.legend(legend.display_mode(common.LegendDisplayMode.LIST)).tooltip(tooltip)
    return _describe(panel, title, meaning, queries, steps, 8, width).unit(unit)


def areas(
    title: str, meaning: str, unit: str, queries: Sequence[Dataquery], width: int = 8
) -> timeseries.Panel:
    """Parts of a whole over time, one on top of the other."""
    stacking = StackingConfig().mode(common.StackingMode.NORMAL)
    return lines(title, meaning, unit, queries, width=width).stacking(stacking).fill_opacity(40)


def number(
    title: str, meaning: str, unit: str, queries: Sequence[Dataquery], *steps: Step, width: int = 4
) -> stat.Panel:
    """The latest value, large."""
    panel = stat.Panel().graph_mode(common.BigValueGraphMode.AREA).color_mode(common.BigValueColorMode.VALUE)
    panel.reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
    return _describe(panel, title, meaning, queries, steps, 4, width).unit(unit)


def bars(
    title: str, meaning: str, unit: str, queries: Sequence[Dataquery], *steps: Step, width: int = 8
) -> bargauge.Panel:
    """The latest values, side by side."""
    panel = bargauge.Panel().orientation(common.VizOrientation.HORIZONTAL).min(0)
    panel.display_mode(common.BarGaugeDisplayMode.BASIC).reduce_options(
        ReduceDataOptions().calcs(["lastNotNull"])
    )
    return _describe(panel, title, meaning, queries, steps, 10, width).unit(unit)


def heat(title: str, meaning: str, unit: str, buckets: str, width: int = 12) -> heatmap.Panel:
    """How many observations fell into each bucket of a histogram, over time."""
    observed = query(f"sum by (le) (increase({buckets}[$__rate_interval]))", "{{le}}")
    colors = HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Turbo").steps(64)
    panel = heatmap.Panel().calculate(False).y_axis(YAxisConfig().unit(unit)).hide_legend()
    panel.color(colors.scale(HeatmapColorScale.EXPONENTIAL).exponent(0.5).fill("dark-orange"))
    return _describe(panel, title, meaning, [observed.format(PromQueryFormat.HEATMAP)], (), 8, width)


def states(
    title: str, meaning: str, queries: Sequence[Dataquery], words: dict[int, tuple[str, str]], width: int = 24
) -> statetimeline.Panel:
    """Which state something was in, over time; `words` has for each value its word and colour."""
    panel = statetimeline.Panel().mappings([_mapping(words)]).merge_values(True).unit("none")
    panel.show_value(common.VisibilityMode.AUTO).legend(VizLegendOptions().show_legend(False))
    return _describe(panel, title, meaning, queries, (), 6, width)


def facts(title: str, meaning: str, unit: str, expr: str, *hidden: str, width: int = 8) -> table.Panel:
    """The latest series, a row each, their labels as columns; `hidden` columns are left out."""
    left_out: dict[str, Any] = dict.fromkeys(("Time", *hidden), True)
    panel = table.Panel().with_transformation(
        DataTransformerConfig(id_val="organize", options={"excludeByName": left_out})
    )
    return _describe(panel, title, meaning, [latest(expr).format(PromQueryFormat.TABLE)], (), 8, width).unit(
        unit
    )


def worded(panel: stat.Panel, words: dict[int, tuple[str, str]]) -> stat.Panel:
    """The panel with words and colours for numbers."""
    return panel.mappings([_mapping(words)]).graph_mode(common.BigValueGraphMode.NONE)


def _describe(
    panel: P,
    title: str,
    meaning: str,
    queries: Sequence[Dataquery],
    steps: Sequence[Step],
    height: int,
    width: int,
) -> P:
    panel.title(title).description(meaning).datasource(DATASOURCE).height(height).span(width)
    panel.thresholds(_thresholds(steps))
    for number, target in enumerate(queries):
        panel.with_target(target.ref_id(_letters(number)))
    return panel


def _thresholds(steps: Sequence[Step]) -> ThresholdsConfig:
    colors = [Threshold(value=None, color=GREEN), *(Threshold(value=at, color=color) for at, color in steps)]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(colors)


def _mapping(words: dict[int, tuple[str, str]]) -> ValueMap:
    return ValueMap(
        options={
            str(value): ValueMappingResult(text=text, color=color, index=index)
            for index, (value, (text, color)) in enumerate(words.items())
        }
    )


def _letters(number: int) -> str:
    return chr(ord("A") + number)
