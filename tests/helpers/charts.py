"""Charts as data: what Altair makes of them, as text, and their records."""

import json


def records_of(chart):
    """All records in the data of a chart."""
    return [record for records in chart.to_dict(validate=False)["datasets"].values() for record in records]


def values_of(chart):
    """The records that are figures."""
    return [record for record in records_of(chart) if "value" in record]


def heading_of(chart):
    """The title and how to read the chart."""
    title = chart.to_dict(validate=False)["title"]
    return "\n".join([title["text"], *title.get("subtitle", [])])


def shown_by(chart):
    """A chart as text: its words, the marks of its panels with axes, colours and forms, and its data to six digits."""
    spec = chart.to_dict(validate=False)
    lines = [heading_of(chart), spec["description"]]
    for panel in spec.get("vconcat", [spec]):
        lines.append(f"- panel of {panel.get('width')} x {panel.get('height')}")
        lines += [_layer(layer) for layer in panel.get("layer", [panel])]
    for records in spec["datasets"].values():
        lines.append("- data")
        lines += [" ".join(f"{name}={_short(value)}" for name, value in record.items()) for record in records]
    return "\n".join(lines)


def _layer(layer):
    mark = layer["mark"]
    channels = [f"{name} {_channel(channel)}" for name, channel in layer["encoding"].items() if name != "tooltip"]
    filters = [each["filter"] for each in layer.get("transform", []) if "filter" in each]
    return "; ".join([f"{mark.pop('type')} {_short(mark)}", *channels, *filters])


def _channel(channel):
    """What a mark's place, colour or form hangs on, where it is not the same for all charts."""
    if not isinstance(channel, dict):
        return str(channel)
    scale, axis, legend = (channel.get(name) or {} for name in ("scale", "axis", "legend"))
    told = {name: channel[name] for name in ("field", "value", "sort") if channel.get(name) is not None}
    told |= {name: scale[name] for name in ("domain", "range") if name in scale}
    told |= {name: axis[name] for name in ("title", "format", "values", "orient") if axis.get(name)}
    told |= {"legend": legend["orient"]} if legend.get("orient") else {}
    return " ".join(f"{name}={_short(value)}" for name, value in told.items())


def _short(value):
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else f"{value:.6g}"
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    return value if isinstance(value, str) else json.dumps(value)
