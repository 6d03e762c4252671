"""Check in headless Chromium that no page of the site is wider than a phone's screen or a desk's.

`site_check.py SITE` prints the pages that are too wide, and exits with 1 then. `--shots FOLDER` also takes screenshots,
light and dark.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

WIDTHS = {"phone": 390, "desk": 1280}
# As Chromium counts the colour schemes that a user may prefer.
SCHEMES = {"dark": 0, "light": 1}
SHOTS = (
    "index.html",
    "how-it-works.html",
    "reference/mpls.keras.html",
    "troubleshooting.html",
    "names/tf.keras.mixed_precision.experimental.LossScaleOptimizer.html",
)
# Wide tables and code have scroll bars of their own, which do not widen the page.
SCRIPT = """<!doctype html><title>running</title><iframe></iframe><script>
const pages = PAGES, widths = WIDTHS, frame = document.querySelector("iframe"), wide = [];
frame.height = 800;
(async () => {
  for (const width of widths) for (const page of pages) {
    frame.width = width;
    await new Promise(done => { frame.onload = done; frame.src = page; });
    const root = frame.contentDocument.documentElement;
    if (root.scrollWidth > root.clientWidth + 1) wide.push(page + " " + width + ": " + root.scrollWidth);
  }
  await fetch("/", {method: "POST", body: JSON.stringify(wide)});
})();
</script>"""


class Server(http.server.ThreadingHTTPServer):
    """A server of a folder, to which the browser sends what it has found."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        self.found: queue.Queue[list[str]] = queue.Queue()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.SimpleHTTPRequestHandler):
    """What the server does with requests."""

    def do_POST(self) -> None:
        """Keep what the browser has found."""
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        self.server.found.put(json.loads(text))  # type: ignore[attr-defined]

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


def main() -> int:
    """Check the site, and return the exit status."""
    parser = argparse.ArgumentParser(description="Check that no page is wider than its window.")
    parser.add_argument("site", type=pathlib.Path)
    parser.add_argument("--shots", type=pathlib.Path, help="a folder for screenshots")
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("Chromium is not installed: the width of the pages is not checked", file=sys.stderr)
        return 0
    # One page of a historical name is as wide as another.
    pages = sorted(path.relative_to(options.site).as_posix() for path in options.site.rglob("*.html"))
    pages = [page for page in pages if not page.startswith("names/") or page in SHOTS]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder, "root")
        shutil.copytree(options.site, root)
        text = SCRIPT.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(list(WIDTHS.values())))
        (root / "check.html").write_text(text)
        server = Server(root)
        address = f"http://127.0.0.1:{server.server_port}"
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile"]
        arguments = [*command, "--remote-debugging-port=0", f"{address}/check.html"]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wide = server.found.get(timeout=180)
        finally:
            process.terminate()
            process.wait()
        if options.shots is not None:
            options.shots.mkdir(parents=True, exist_ok=True)
        for page in SHOTS if options.shots else ():
            for name, width in WIDTHS.items():
                for scheme, number in SCHEMES.items():
                    stem = f"{pathlib.Path(page).stem.rpartition('.')[2]}-{name}-{scheme}"
                    look = [f"--window-size={width},1400", f"--blink-settings=preferredColorScheme={number}"]
                    target = f"--screenshot={options.shots.resolve() / stem}.png"
                    subprocess.run(
                        [*command, *look, target, f"{address}/{page}"], check=True, timeout=120, capture_output=True
                    )
        server.shutdown()
    print("\n".join(wide) or f"{len(pages)} pages fit {' and '.join(map(str, WIDTHS.values()))} pixels")
    return bool(wide)


if __name__ == "__main__":
    sys.exit(main())
