"""The report's page in a browser: no error, no sideways scrolling, the answer at once, and controls that work."""

import html
import json
import re
import shutil
import subprocess

import pytest

pytest.importorskip("scipy")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from experiments.compare.forms import page
from experiments.compare.report import make
from run_folders import curves, write_run

CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")]

# Opens the page in frames of three widths and writes what it finds; a frame has no address, so no run lies beside it.
HARNESS = """<body><script>
const text = %s, found = {};
for (const width of [400, 800, 1600]) {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:800px;border:0`;
  frame.srcdoc = text;
  frame.onload = () => {
    found[width] = look(frame.contentWindow);
    document.body.dataset.found = JSON.stringify(found);
  };
  document.body.append(frame);
}
function look(view) {
  const page = view.document, all = (selector, inside = page) => [...inside.querySelectorAll(selector)];
  const errors = [];
  view.onerror = (message) => errors.push(message);
  const toggles = all(".legend input").map((box) => {
    const lines = all(`[data-variant="${box.value}"]`, box.closest("section"));
    const seen = () => lines.map((line) => view.getComputedStyle(line).display !== "none");
    const states = [seen()];
    for (const click of [1, 2]) { box.click(); states.push(seen()); }
    return states;
  });
  const table = page.querySelector("#block-0 .sortable");
  const first = () => all("td:first-child", table).map((cell) => cell.textContent);
  const orders = [1, 2].map(() => { table.querySelector("th button").click(); return first(); });
  const chart = page.querySelector(".chart"), box = chart.getBoundingClientRect();
  const shown = chart.parentElement.querySelector(".values");
  const hidden = [shown.hidden];
  chart.dispatchEvent(new PointerEvent("pointermove", { clientX: box.right, clientY: box.top }));
  const last = shown.textContent;
  hidden.push(shown.hidden);
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
  const before = shown.textContent;
  const within = shown.getBoundingClientRect().right <= view.innerWidth;
  chart.dispatchEvent(new PointerEvent("pointerleave"));
  hidden.push(shown.hidden);
  const answer = page.querySelector(".answer").getBoundingClientRect().bottom;
  const sideways = page.documentElement.scrollWidth - page.documentElement.clientWidth;
  view.dispatchEvent(new Event("beforeprint"));
  const open = all("details").every((part) => part.open);
  const links = all("a[href^='.']").length;
  return { errors, toggles, orders, hidden, last, before, within, answer, sideways, open, links };
}
</script></body>"""


def dump(address, folder):
    """The page after its scripts ran, and what they wrote to the console."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={folder}"]
    done = subprocess.run([CHROMIUM, *flags, "--dump-dom", address], capture_output=True, text=True, timeout=60)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    root = tmp_path_factory.mktemp("sweep")
    for component, strategy, seed in [(c, s, n) for c in ("floor", "sign") for s in ("ste", "smooth") for n in (0, 1)]:
        level = 0.5 + seed / 10 + (strategy == "ste") / 5
        rows = [row | {"grad_norm/total": row["step"] * level} for row in curves(level)]
        write_run(
            root / "runs" / f"{component} {strategy} {seed}", strategy, seed, level, component=component, rows=rows
        )
    (root / "report").mkdir()
    path = root / "report" / "report.html"
    path.write_text(page.render(make([root / "runs"]), path.parent, "hardgrad compare runs --out report"))
    return root, path


def test_the_page_runs_its_script_and_links_the_runs_beside_it(written):
    root, path = written
    text, console = dump(path.as_uri(), root / "browser")
    assert console == []
    assert re.search(r'<html [^>]*class="live"', text)
    links = [html.unescape(link) for link in re.findall(r'<a href="(\./[^"]*)"', text)]
    assert len(links) == 8
    assert "./../runs/floor%20ste%200/" in links


def test_the_page_works_in_every_width(written):
    root, path = written
    harness = root / "harness.html"
    harness.write_text(HARNESS % json.dumps(path.read_text()).replace("</", "<\\/"))
    text, console = dump(harness.as_uri(), root / "browser")
    assert console == []
    found = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', text)[1]))
    assert set(found) == {"400", "800", "1600"}
    for width, seen in found.items():
        assert seen["errors"] == [], width
        assert seen["sideways"] <= 0, width
        assert seen["answer"] < 800, width
        assert len(seen["toggles"]) == 4
        for on, off, again in seen["toggles"]:
            assert (all(on), any(off), all(again)) == (True, False, True)
            assert len(on) >= 3
        rising, falling = seen["orders"]
        assert (rising, falling) == (sorted(rising), sorted(rising, reverse=True))
        assert seen["hidden"] == [True, False, True]
        # Training loss 2 / step at the last two logged steps; the two seeds agree.
        assert seen["last"] == "optimizer step 20ste0.10smooth0.10"
        assert seen["before"] == "optimizer step 15ste0.13smooth0.13"
        assert (seen["within"], seen["open"]) == (True, True)
        assert seen["links"] == 0  # plain text where the runs are not beside the page
