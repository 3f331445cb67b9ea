"""Whatever an extra installs may be used with a BSD-licensed package on its own terms."""

from __future__ import annotations

from importlib.metadata import Distribution, PackageNotFoundError, distribution

import pytest

packaging = pytest.importorskip("packaging.requirements")


def needs(owner: Distribution, extras: set[str]) -> list[tuple[str, set[str]]]:
    """Return the direct requirements of a distribution with these extras, and the extras that they ask for."""
    wanted = [packaging.Requirement(line) for line in owner.requires or []]
    chosen = [r for r in wanted if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in extras | {""})]
    return [(r.name, set(r.extras)) for r in chosen]


def test_no_extra_brings_in_a_package_under_the_gpl():
    """`condcs[all]` and everything below it, as far as it is installed here."""
    seen: set[str] = set()
    waiting = [("condcs", {"all"})]
    while waiting:
        name, extras = waiting.pop()
        key = f"{name.lower().replace('_', '-')}[{','.join(sorted(extras))}]"
        if key in seen:
            continue
        seen.add(key)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # an optional part that this machine does not have
        stated = [found.metadata.get("License-Expression"), found.metadata.get("License"), *licences(found)]
        # The first line alone: some packages put the whole text of their licence there, with the names of others in it.
        named = " ".join(text.strip().splitlines()[0] for text in stated if text and text.strip())
        assert "GPL" not in named.replace("LGPL", ""), f"{name}: {named}"
        waiting += needs(found, extras)
    assert {"numpy[]", "aeon[]"} <= seen


def licences(found: Distribution) -> list[str]:
    return [line for line in found.metadata.get_all("Classifier") or [] if line.startswith("License ::")]
