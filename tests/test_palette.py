"""Every strategy can be told from every other, for each kind of colour vision, on paper, in grey and on dark pages."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from experiments.plotting import DASHES, MARKERS, PALETTE, looks

# Linear RGB as people without one kind of cone see it: Machado, Oliveira and Fernandes 2009, severity 1.
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
# Linear RGB to cones, and their cube roots to Oklab: Ottosson 2020.
CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
CONES += [[0.0883024619, 0.2817188376, 0.6299787005]]
OKLAB = [[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099]]
OKLAB += [[0.0259040371, 0.7827717662, -0.808675766]]
WHITE, DARK_PAGE = "#FFFFFF", "#16181d"


def linear(colour):
    values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def seen(colour, vision):
    return np.array(OKLAB) @ np.cbrt(np.array(CONES) @ np.clip(np.array(VISION[vision]) @ linear(colour), 0, 1))


def luminance(colour):
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_white_and_black_are_as_far_apart_as_colours_can_be():
    assert np.linalg.norm(seen("#FFFFFF", "normal") - seen("#000000", "normal")) == pytest.approx(1.0, abs=1e-4)
    assert contrast("#FFFFFF", "#000000") == pytest.approx(21.0)


@pytest.mark.parametrize("name", PALETTE)
def test_a_line_stands_out_from_its_page(name):
    colour, on_dark, _ = PALETTE[name]
    assert contrast(colour, WHITE) >= 3  # of graphics, by the Web Content Accessibility Guidelines
    assert contrast(on_dark, DARK_PAGE) >= 4.5


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(PALETTE, 2)))
def test_two_strategies_differ_in_dash_or_in_colour(first, second):
    (colour, on_dark, dash), (other, other_on_dark, other_dash) = PALETTE[first], PALETTE[second]
    assert colour != other
    if dash != other_dash:
        return
    for vision in VISION:
        assert np.linalg.norm(seen(colour, vision) - seen(other, vision)) > 0.1
        assert np.linalg.norm(seen(on_dark, vision) - seen(other_on_dark, vision)) > 0.1
    assert abs(np.cbrt(luminance(colour)) - np.cbrt(luminance(other))) > 0.12  # in grey


def test_every_strategy_of_the_program_has_a_place_in_the_palette():
    options = {path.stem for path in (Path(__file__).parents[1] / "conf" / "strategy").glob("*.yaml")}
    assert options == set(PALETTE)


def test_variants_of_a_strategy_share_its_colour_and_differ_in_dash_and_marker():
    names = [f"ste (carrier={index})" for index in range(min(len(DASHES), len(MARKERS)))]
    found = looks(("ste", name) for name in names)
    assert {look.colour for look in found.values()} == {PALETTE["ste"][0]}
    assert (
        len({str(look.dash) for look in found.values()}) == len({look.marker for look in found.values()}) == len(names)
    )
    assert found[names[0]] == looks([("ste", "ste")])["ste"]
