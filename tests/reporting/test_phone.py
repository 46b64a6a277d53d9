"""Test the pages on a phone: no content is cut off; only tables and plots scroll horizontally."""

import pytest
from browser import new_page
from small_corpus import build_here

from zyda_flows.flows.dashboard.report_artifact import write_report
from zyda_flows.flows.reporting.look_page import look_page, sample_as_json
from zyda_flows.tasks.lookup.judgements import Review
from zyda_flows.tasks.lookup.samples import SampleOptions, sample_of

pytestmark = pytest.mark.slow

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 844}


def overflow(page):
    """Return the number of horizontal pixels of a page outside the screen."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_pages_are_not_wider_than_a_phone(corpus, browser, tmp_path):
    recipe = corpus.load(dedup={"scope": "global"})
    build_here(recipe)
    report = write_report(recipe)
    options = SampleOptions(items=5)
    review = Review(who="anna", began="2026-01-01T00:00:00", options=options)
    sample = sample_as_json(sample_of(recipe, options), review, is_served=False)
    look = tmp_path / "look.html"
    look.write_text(look_page(recipe.corpus, sample))
    for size in (PHONE, DESK):
        page = new_page(browser, viewport=size)
        for url in (look, report, report.replace("report.html", "about.html")):
            page.goto(f"file://{url}")
            page.locator("h1").first.wait_for()
            assert overflow(page) <= 0, (url, size)
            assert "initial-scale=1" in page.content()
        page.goto(f"file://{look}")
        buttons = [page.locator(f"#{name}") for name in ("yes", "no", "back", "on", "save")]
        for button in buttons:
            box = button.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= size["width"]
            assert box["y"] + box["height"] <= size["height"]
        buttons[0].click()
        page.get_by_text("2 of 5, 1 judged").wait_for()
        page.close()
