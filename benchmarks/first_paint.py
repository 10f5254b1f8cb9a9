"""How long until a page of the studio shows a real result? From opening its address in a browser with nothing cached.

A real server over the shipped models, warm; headless Chromium through playwright; the clock is the page's own (performance.now) and
stops at the first frame after the page says that its first result is drawn.
    python benchmarks/first_paint.py [--rounds 5] [--page look …]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import urllib.request

from playwright.sync_api import sync_playwright

PAGES = ("home", "learn", "translate", "look", "steps", "write", "train", "regression", "cost")
STOPWATCH = """
new MutationObserver(() => {
  if (window.shownAt === undefined && document.querySelector("#page[data-ready]")) {
    window.shownAt = null;
    requestAnimationFrame(() => { window.shownAt = performance.now(); });
  }
}).observe(document, { subtree: true, childList: true, attributes: true });
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", choices=PAGES, action="append")
    parser.add_argument("--port", type=int, default=8598)
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "regard", "studio", "--no-open", "--port", str(arguments.port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address, _, token = server.stdout.readline().split()[4].partition("?token=")
        for page in ("translate", "look", "write"):  # the worker starts and opens the models these pages begin with
            request = urllib.request.Request(f"{address}api/first/{page}", headers={"Authorization": f"Bearer {token}"})
            urllib.request.urlopen(request, timeout=600).close()
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; milliseconds, median and worst of {arguments.rounds}")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
            for page in arguments.page or PAGES:
                times = []
                for _ in range(arguments.rounds):
                    context = browser.new_context(viewport={"width": 1360, "height": 900})
                    context.request.get(f"{address}?token={token}")  # the cookie
                    context.add_init_script(STOPWATCH)
                    tab = context.new_page()
                    tab.goto(f"{address}#{page}")
                    tab.wait_for_selector("#page[data-ready]", timeout=60_000)
                    times.append(tab.evaluate("() => new Promise((done) => setTimeout(() => done(window.shownAt), 100))"))
                    context.close()
                print(f"{page:12} {statistics.median(times):6.0f} {max(times):6.0f}", flush=True)
            browser.close()
    finally:
        server.terminate()
        server.wait(timeout=20)


if __name__ == "__main__":
    main()
