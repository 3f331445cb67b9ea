"""Which options of a measure are bandwidths."""


def own_bandwidths(measure):
    """Return the bandwidths of a measure, one for each variable: plain `bandwidth` sets those of all at once."""
    bandwidths = sorted(option for option in measure.options if option.startswith("bandwidth"))
    return [option for option in bandwidths if option != "bandwidth"] or bandwidths
