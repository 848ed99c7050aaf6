"""Headless Chromium over its DevTools pipe. It opens pages, records their requests and errors, and takes pictures."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60
# Chromium takes no picture of a page that is taller than some 100,000 pixels.
_TALLEST = 60_000


def find():
    """The path of the browser that CHROMIUM names, or of the first one that is installed. None if there is none."""
    return next(filter(None, map(shutil.which, [os.environ.get("CHROMIUM", ""), *NAMES])), None)


class Chromium:
    """One browser with one page."""

    def __init__(self, profile):
        their_in, self.out = os.pipe()
        self.into, their_out = os.pipe()

        # The browser reads commands from descriptor 3 and writes answers to 4.
        def descriptors():
            os.dup2(their_in, 13)
            os.dup2(their_out, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        self.process = subprocess.Popen(
            [find(), *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=descriptors,  # noqa: PLW1509 # no thread runs here
        )  # fmt: skip
        os.close(their_in)
        os.close(their_out)
        self.buffer, self.n, self.events = b"", 0, []
        pages = self.call("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(PATIENCE)
        os.close(self.into)
        os.close(self.out)

    def call(self, method, **parameters):
        self.n += 1
        message = {"id": self.n, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda said: said.get("id") == self.n)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _until(self, wanted):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            while b"\0" in self.buffer:
                message, self.buffer = self.buffer.split(b"\0", 1)
                said = json.loads(message)
                if "method" in said:
                    self.events.append(said)
                if wanted(said):
                    return said
            if select.select([self.into], [], [], 1)[0]:
                piece = os.read(self.into, 1 << 20)
                if not piece:
                    raise RuntimeError("the browser went away")
                self.buffer += piece
        raise TimeoutError("the browser does not answer")

    def open(self, path, *, width=1280, dark=False, media="screen"):
        """Open a file and wait until it is loaded. `events` has the browser's events since then."""
        self.events = []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media=media, features=scheme)
        self.call("Page.navigate", url=path.absolute().as_uri())
        if not self.happened("Page.loadEventFired"):
            self._until(lambda said: said.get("method") == "Page.loadEventFired")
        # Scripts of the page may run after it is loaded.
        self.call("Runtime.evaluate", expression="new Promise(done => setTimeout(done, 300))", awaitPromise=True)

    def happened(self, method):
        """The parameters of each event of a kind."""
        return [event["params"] for event in self.events if event["method"] == method]

    def complaints(self):
        """Errors and warnings of the console, exceptions of the page, and issues such as a violated policy."""
        logged = [entry["entry"] for entry in self.happened("Log.entryAdded")]
        said = [call for call in self.happened("Runtime.consoleAPICalled") if call["type"] in ("error", "warning")]
        return [*logged, *said, *self.happened("Runtime.exceptionThrown"), *self.happened("Audits.issueAdded")]

    def requests(self):
        """The addresses that the page requested, except data in the page itself."""
        asked = [request["request"]["url"] for request in self.happened("Network.requestWillBeSent")]
        return [url for url in asked if not url.startswith("data:")]

    def value(self, expression):
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def screenshot(self, path):
        """Save a picture of the page as PNG; of a very long page its beginning."""
        width, height = self.value("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, _TALLEST), "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path):
        """Print the page to a PDF file."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True)["data"]))
