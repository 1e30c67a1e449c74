"""Chromium, driven through a pair of pipes by its own protocol: pages as people see them."""

import base64
import json
import os
import shutil
import subprocess
from contextlib import contextmanager

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--remote-debugging-pipe", "--allow-file-access-from-files"),
)
READ, WRITE = 3, 4
"""The descriptors on which Chromium reads messages and writes them."""
PIECE = 1 << 16
KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    " ": ("Space", 32, " "),
    **{f"Arrow{way}": (f"Arrow{way}", 37 + at, "") for at, way in enumerate(
        ("Left", "Up", "Right", "Down"))},
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    "Escape": ("Escape", 27, ""),
}  # fmt: skip


class Browser:
    """One tab. Messages end with a zero byte; answers have the number of their question.

    Attributes:
        errors: errors of scripts, and what was written to the console as one.
        loaded: pages that were loaded so far.
    """

    def __init__(self, process, reads, writes):
        self.process, self.reads, self.writes = process, reads, writes
        self.number, self.rest, self.session = 0, b"", None
        self.errors, self.loaded = [], 0
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        """What Chromium answers."""
        self.number += 1
        number, message = self.number, {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            self._notice(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _next(self):
        while b"\0" not in self.rest:
            piece = os.read(self.reads, PIECE)
            assert piece, "Chromium has ended"
            self.rest += piece
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def _notice(self, event):
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(
                    details.get("exception", details).get("description", str(details))
                )
            case "Runtime.consoleAPICalled" if params["type"] in {"error", "assert"}:
                self.errors.append(str([one.get("value") for one in params["args"]]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.errors.append(params["entry"]["text"])
            case "Page.loadEventFired":
                self.loaded += 1

    def resize(self, width, height=900, *, is_dark=False):
        """A window of that size, by day or by night."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path, fragment=""):
        """Loads a page, and forgets the errors of the last one."""
        self._load("about:blank")
        self.errors.clear()
        self._load(path.resolve().as_uri() + fragment)

    def _load(self, url):
        before = self.loaded
        self.ask("Page.navigate", url=url)
        while self.loaded == before:
            self._notice(self._next())

    def value(self, script):
        """What an expression, or what it promises, is worth."""
        done = self.ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def press(self, key, times=1):
        """A key, pressed and released."""
        code, number, text = KEYS.get(key, (f"Key{key.upper()}", ord(key.upper()[0]), key))
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                words = {"text": text} if text and kind == "keyDown" else {}
                self.ask(
                    "Input.dispatchKeyEvent",
                    type=kind, key=key, code=code, windowsVirtualKeyCode=number, **words,
                )  # fmt: skip

    def screenshot(self, path, *, is_whole=True):
        """The page as a picture: PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000)}
        more = {"clip": clip | {"scale": 1}, "captureBeyondViewport": True} if is_whole else {}
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", **more)["data"]))


@contextmanager
def browser(folder):
    """Chromium with a profile below `folder`; it ends with the block."""
    theirs, writes = os.pipe()
    reads, their_writes = os.pipe()
    shell, user = shutil.which("bash"), folder / "chromium"
    words = f'exec "$0" "$@" {READ}<&{theirs} {WRITE}>&{their_writes}'
    process = subprocess.Popen(
        [shell, "-c", words, CHROMIUM, *FLAGS, f"--user-data-dir={user}"],
        pass_fds=(theirs, their_writes), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for end in (theirs, their_writes):
        os.close(end)
    try:
        yield Browser(process, reads, writes)
    finally:
        process.terminate()
        process.wait(timeout=30)
        os.close(reads)
        os.close(writes)
