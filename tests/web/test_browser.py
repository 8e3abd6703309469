"""The dashboard in headless Chromium, over a database that the real store writes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

pytestmark = pytest.mark.browser

POINTS = "#pareto .main-svg .scatterlayer .point"
PAGES = (
    "/",
    "/study/cartpole",
    "/study/cartpole/trial/2",
    "/study/cartpole/compare?trials=1,2,3",
    "/hosts",
    "/query?sql=SELECT+1",
    "/api/docs",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        # Chromium's sandbox does not start as root, and shared memory is small in containers.
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class Visitor:
    """A reader's page that remembers what it asked for and what it complained of."""

    def __init__(self, browser: sync_api.Browser, address: str, **context: object) -> None:
        self.context = browser.new_context(base_url=address, **context)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console",
            lambda message: (
                self.complaints.append(message.text)
                if message.type in ("error", "warning")
                else None
            ),
        )

    def open(self, path: str) -> sync_api.Page:
        self.page.goto(path)
        for lines in self.page.locator("[data-parallel]").all():
            expect(lines.locator("path").first).to_be_attached(timeout=30_000)
        for figure in self.page.locator("[data-figure]").all():
            expect(figure.locator(".main-svg").first).to_be_visible(timeout=30_000)
        return self.page


@pytest.fixture
def visit(browser, filled) -> Iterator:
    visitors = []

    def make(**context):
        visitors.append(Visitor(browser, str(filled.base_url), **context))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.context.close()


def test_pages_ask_for_nothing_off_the_origin_and_complain_of_nothing(visit, filled):
    visitor = visit()
    for path in PAGES:
        visitor.open(path)
    assert len(visitor.requests) > 15
    assert [url for url in visitor.requests if not url.startswith(str(filled.base_url))] == []
    assert visitor.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_page_is_wider_than_the_screen(visit, width, scheme):
    visitor = visit(viewport={"width": width, "height": 844}, color_scheme=scheme)
    for path in PAGES:
        page = visitor.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_plot_draws_every_trial_and_names_it_on_hover(visit):
    visitor = visit()
    page = visitor.open("/study/cartpole")
    # Seven trials have ended; the baseline is drawn twice, as a point and as a ring.
    expect(page.locator(POINTS)).to_have_count(8)
    page.locator('tr[data-number="3"]').hover()
    label = page.locator("#pareto .hoverlayer .hovertext")
    expect(label).to_contain_text("trial 3")
    expect(label).to_contain_text("n_envs = 16")
    assert visitor.complaints == []


def test_click_on_a_point_opens_its_trial(visit):
    page = visit().open("/study/cartpole")
    position = page.evaluate(
        """() => {
          const plot = document.getElementById("pareto");
          const trace = plot.data.find((t) => t.name.startsWith("front"));
          const i = trace.customdata.findIndex(([number]) => number === 2);
          const { xaxis, yaxis } = plot._fullLayout;
          const box = plot.getBoundingClientRect();
          return [
            box.x + xaxis._offset + xaxis.d2p(trace.x[i]),
            box.y + yaxis._offset + yaxis.d2p(trace.y[i]),
          ];
        }"""
    )
    page.mouse.move(*position)
    expect(page.locator("#pareto .hoverlayer .hovertext")).to_contain_text("trial 2")
    page.mouse.click(*position)
    expect(page).to_have_url(re.compile(r"/study/cartpole/trial/2$"))
    expect(page.locator("h1")).to_have_text("Trial 2")


def test_brush_on_the_plot_filters_the_table_and_can_be_cleared(visit):
    visitor = visit()
    page = visitor.open("/study/cartpole")
    box = page.locator("#pareto .nsewdrag").first.bounding_box()
    # The upper left quarter: much return, little speed.
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5, steps=5)
    page.mouse.up()
    rows = page.locator("tr[data-number]")
    expect(rows).to_have_count(2)
    assert {row.get_attribute("data-number") for row in rows.all()} == {"1", "2"}
    assert "box=" in page.url
    # The address alone brings the selection back.
    again = visitor.open(page.url)
    expect(again.locator("tr[data-number]")).to_have_count(2)
    expect(again.locator("#pareto .selectionlayer path").first).to_be_attached()
    again.get_by_text("clear the brush").click()
    expect(rows).to_have_count(8)
    assert "box=" not in page.url
    assert visitor.complaints == []


def test_brush_on_a_parameters_axis_filters_table_and_lines(visit):
    visitor = visit(viewport={"width": 1280, "height": 1400})
    page = visitor.open("/study/cartpole")
    expect(page.locator("#parallel path.front")).to_have_count(2)
    axis = page.locator("#parallel .rail").first  # n_envs from 1 to 32, on a log axis
    expect(axis.locator(".name")).to_contain_text("n_envs")
    box = axis.locator(".reach").bounding_box()
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(middle, box["y"] + box["height"] * 0.5, steps=4)
    page.mouse.up()
    expect(page.get_by_role("searchbox")).to_have_value(
        re.compile(r"^parallelism\.n_envs>=5\.\d+$")
    )
    expect(page.locator("tr[data-number]")).to_have_count(5)
    expect(page.locator("#parallel path.rest")).to_have_count(2)
    assert "filter=parallelism.n_envs" in page.url
    axis.locator(".name").click()
    expect(page.locator("tr[data-number]")).to_have_count(8)
    assert visitor.complaints == []


def test_row_under_the_pointer_lights_its_line(visit):
    page = visit().open("/study/cartpole")
    page.locator('tr[data-number="4"]').hover()
    expect(page.locator('#parallel path[data-line="4"]')).to_have_class(re.compile("lit"))


def test_slider_tells_who_leads_with_less_time(visit):
    visitor = visit()
    page = visitor.open("/study/cartpole")
    slider = page.get_by_label("if I have")
    expect(page.locator("#then")).to_contain_text("10 s: trial 2 leads with a return of 500")
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#then")).to_contain_text("0.4 s: trial 3 leads")
    page.locator("#then a").click()
    expect(page.locator("h1")).to_have_text("Trial 3")
    assert visitor.complaints == []


def test_selected_trials_are_compared(visit):
    visitor = visit()
    page = visitor.open("/study/cartpole")
    for number in (3, 1):
        page.get_by_label(f"select trial {number}", exact=True).check()
    assert "selected=3%2C1" in page.url
    page.get_by_role("searchbox").fill("n_envs<=16")  # the table is replaced; the marks stay
    expect(page.locator("tr[data-number]")).to_have_count(6)
    expect(page.get_by_label("select trial 3", exact=True)).to_be_checked()
    page.get_by_role("button", name="compare selected").click()
    expect(page.locator("h1")).to_have_text("Trials 3, 1 compared")
    expect(page.locator("#curve .legendtext").first).to_have_text("trial 3")
    assert visitor.complaints == []


def test_columns_are_chosen_and_kept_in_the_address(visit):
    visitor = visit()
    page = visitor.open("/study/cartpole")
    page.locator("summary", has_text="columns").click()
    page.get_by_label("batch_size", exact=True).check()
    expect(page.locator("th", has_text="batch_size")).to_be_visible()
    page.reload()
    expect(page.locator("th", has_text="batch_size")).to_be_visible()
    page.locator("summary", has_text="columns").click()
    page.get_by_role("button", name="usual columns").click()
    expect(page.locator("th", has_text="batch_size")).to_have_count(0)
    assert visitor.complaints == []


def test_curve_shows_another_quantity(visit):
    page = visit().open("/study/cartpole/trial/2")
    page.get_by_label("quantity").select_option("learning_rate")
    expect(page.locator("#curve .ytitle")).to_have_text("learning rate")


def test_page_of_all_studies_is_live(browser, recorder, serve):
    recorder.study("first")
    with serve(recorder.url) as running:
        visitor = Visitor(browser, running.address)
        page = visitor.open("/")
        expect(page.locator("#live")).to_have_text("live")
        recorder.study("second")
        expect(page.get_by_role("link", name="second")).to_be_visible()
        assert visitor.complaints == []
        visitor.context.close()


def test_axes_filter_and_sort_live_in_the_address(visit):
    page = visit().open("/study/cartpole")
    page.get_by_label("x axis", exact=True).select_option("core_seconds")
    expect(page.locator("#pareto .xtitle")).to_have_text("core time (core-seconds)")
    page.get_by_role("searchbox").fill("n_envs<=8")
    expect(page.locator("tr[data-number]")).to_have_count(5)
    page.locator("th a", has_text="trial").click()
    expect(page.locator("tr[data-number]").first).to_have_attribute("data-number", "1")
    assert "x=core_seconds" in page.url
    assert "filter=n_envs" in page.url
    assert "sort=number" in page.url
    expect(page.get_by_role("searchbox")).to_have_value("n_envs<=8")
    page.reload()
    expect(page.locator("tr[data-number]")).to_have_count(5)
    expect(page.locator("#pareto .xtitle")).to_have_text("core time (core-seconds)")


def test_page_can_be_used_by_keyboard(visit):
    page = visit().open("/study/cartpole")
    page.locator("th a", has_text="trial").focus()
    page.keyboard.press("Enter")
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("trial")
    # The table was replaced, and the reader is still where they were.
    expect(page.locator("th[aria-sort=ascending] a")).to_be_focused()


def test_curve_changes_from_seconds_to_steps(visit):
    visitor = visit()
    page = visitor.open("/study/cartpole/trial/2")
    expect(page.locator("#curve .xtitle")).to_have_text("training time (s)")
    page.locator("#curve .nsewdrag").first.hover()
    expect(
        page.locator("#curve .hoverlayer .hovertext, #curve .hoverlayer .legend")
    ).to_be_visible()
    page.get_by_role("button", name="env steps").click()
    expect(page.locator("#curve .xtitle")).to_have_text("env steps")
    assert visitor.complaints == []


def test_configuration_can_be_copied(visit):
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    page = visitor.open("/study/cartpole/trial/2")
    page.get_by_role("button", name="copy YAML").click()
    expect(page.get_by_role("button", name="copied")).to_be_visible()
    text = page.evaluate("navigator.clipboard.readText()")
    assert text.startswith("# study: cartpole\n# trial: 2 ")


def test_dark_system_has_dark_figures(visit):
    page = visit(color_scheme="dark").open("/study/cartpole")
    background = page.locator("#pareto .bg").first
    expect(background).to_have_css("fill", "rgb(20, 24, 28)")
    page.emulate_media(color_scheme="light")
    expect(background).to_have_css("fill", "rgb(255, 255, 255)")


def test_paper_gets_figures_of_its_own_width(visit):
    page = visit(viewport={"width": 1280, "height": 900}, color_scheme="dark").open(
        "/study/cartpole"
    )
    plot = page.locator("#pareto .main-svg").first
    wide = plot.bounding_box()["width"]
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert plot.bounding_box()["width"] < 700 < wide
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(plot).to_have_attribute("width", str(round(wide)))


def test_new_trial_appears_while_zoom_and_filter_stay(browser, recorder, serve):
    ref = recorder.study()
    recorder.trial(ref, 300.0, 9_000.0)
    recorder.trial(ref, 500.0, 8_000.0, n_envs=2)
    with serve(recorder.url) as running:
        visitor = Visitor(browser, running.address)
        page = visitor.open("/study/cartpole?filter=n_envs%3D8")
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("tr[data-number]")).to_have_count(1)
        page.evaluate("Plotly.relayout('pareto', {'yaxis.range': [0, 600]})")
        recorder.trial(ref, 400.0, 9_500.0)
        expect(page.locator("tr[data-number]")).to_have_count(2)
        expect(page.locator(".big")).to_contain_text("3")
        expect(page.locator(POINTS)).to_have_count(3)
        assert page.evaluate("document.getElementById('pareto').layout.yaxis.range") == [0, 600]
        assert visitor.complaints == []
        visitor.context.close()


def test_lost_server_is_said_and_found_again(browser, recorder, serve):
    ref = recorder.study()
    recorder.trial(ref)
    with serve(recorder.url) as running:
        visitor = Visitor(browser, running.address)
        page = visitor.open("/study/cartpole")
        expect(page.locator("#live")).to_have_text("live")
        port = int(running.address.rsplit(":", 1)[1])
    expect(page.locator("#live")).to_contain_text("reconnecting")
    recorder.trial(ref, n_envs=2)
    with serve(recorder.url, port=port):
        expect(page.locator("#live")).to_have_text("live", timeout=30_000)
        expect(page.locator("tr[data-number]")).to_have_count(2)
        visitor.context.close()
