"""Opens pages in the Chromium of Qt and tells what it made of them; `tools.pages.browser` starts it.

It runs in the environment of `requirements-browser.lock`. Each line of its input is a request, each line of its output
the answer to one, both as JSON. The browser is asked by Chromium's DevTools protocol, but for printing, which is Qt's.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import json
import math
import os
import socket
import sys
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_SECONDS = 60
"""How long the browser may take for one thing that it is asked; a page that it opens at all takes less than one."""


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


PORT = _free_port()
os.environ |= {
    "QT_QPA_PLATFORM": "offscreen",
    "QTWEBENGINE_REMOTE_DEBUGGING": f"127.0.0.1:{PORT}",
    # Containers have no user namespaces for the sandbox, and the pages are our own.
    "QTWEBENGINE_DISABLE_SANDBOX": "1",
    "QTWEBENGINE_CHROMIUM_FLAGS": "--disable-gpu --remote-allow-origins=* --disable-background-networking",
}

from pypdf import PdfReader  # noqa: E402 # the environment comes first
from PySide6.QtCore import QEventLoop, QTimer, QUrl  # noqa: E402
from PySide6.QtNetwork import QNetworkAccessManager, QNetworkRequest  # noqa: E402
from PySide6.QtWebEngineCore import QWebEnginePage, QWebEngineProfile  # noqa: E402
from PySide6.QtWebEngineWidgets import QWebEngineView  # noqa: E402
from PySide6.QtWebSockets import QWebSocket  # noqa: E402
from PySide6.QtWidgets import QApplication  # noqa: E402

MARGIN = 16
"""Pixels below what a picture shows."""

PAINTED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"

MEASURED = f"""(async () => {{
    await {PAINTED};
    const loaded = performance.getEntriesByType('navigation')[0].loadEventEnd;
    const painted = performance.getEntriesByName('first-contentful-paint').map(each => each.startTime);
    return Math.max(loaded, ...painted);
}})()"""

LEAST_CONTRAST = """(() => {
    const parts = text => text.match(/[\\d.]+/g).map(Number);
    const linear = each => (each /= 255, each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    const light = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    const behind = element => {
        for (; element; element = element.parentElement) {
            const style = getComputedStyle(element);
            const drawn = style.backgroundImage.match(/rgb\\([^)]*\\)/g);
            if (drawn) return drawn.map(parts);
            const plain = parts(style.backgroundColor);
            if (plain.length < 4 || plain[3] > 0) return [plain];
        }
        return [[255, 255, 255]];
    };
    let least = 21;
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || element.closest('style')) continue;
        const own = light(parts(getComputedStyle(element).color));
        for (const each of behind(element)) {
            const [dark, bright] = [own, light(each)].sort((left, right) => left - right);
            least = Math.min(least, (bright + 0.05) / (dark + 0.05));
        }
    }
    return least;
})()"""


LEVELS = "[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map(each => Number(each.tagName[1]))"


class Page(QWebEnginePage):
    """A page whose scripts may not wait for anybody."""

    def __init__(self, profile: QWebEngineProfile, parent: QWebEngineView) -> None:
        super().__init__(profile, parent)
        self.alerts: list[str] = []

    def javaScriptAlert(self, securityOrigin: QUrl, msg: str) -> None:  # noqa: N802, N803 # Qt's names
        """Note what a script would show."""
        self.alerts.append(f"alert: {msg}")


class Chromium:
    """One page of the browser, and the connection to its DevTools."""

    def __init__(self) -> None:
        self._application = QApplication(sys.argv[:1])
        self._profile = QWebEngineProfile()
        self._view = QWebEngineView()
        self._page = Page(self._profile, self._view)
        self._view.setPage(self._page)
        self._view.show()
        self._answers: dict[int, dict[str, Any]] = {}
        self._events: list[dict[str, Any]] = []
        self._asked = 0
        self._open_blank()
        self._socket = self._connected()
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setScrollbarsHidden", hidden=True)
        self._call("Network.setCacheDisabled", cacheDisabled=True)

    def look(self, request: dict[str, Any]) -> dict[str, Any]:
        """Open a page and tell all that is known of it."""
        self._events.clear()
        self._page.alerts.clear()
        self._view.resize(request["width"], request["height"])
        self._call("Emulation.setEmulatedMedia", media=request["media"])
        refused = self._call("Page.navigate", url=request["url"]).get("errorText")
        if refused:
            return {"refused": refused}
        self._until(lambda: any(each["method"] == "Page.loadEventFired" for each in self._events))
        return {
            "milliseconds": self._evaluate(MEASURED),
            "text": self._evaluate("document.body.innerText"),
            "overflow": self._evaluate("document.documentElement.scrollWidth - innerWidth"),
            "contrast": self._evaluate(LEAST_CONTRAST),
            "tree": self._tree(),
            "levels": self._evaluate(LEVELS),
            "styled": self._evaluate("document.styleSheets.length > 0"),
            "faults": [*self._page.alerts, *(fault for each in self._events for fault in _faults(each))],
            "fetched": [
                each["params"]["request"]["url"]
                for each in self._events
                if each["method"] == "Network.requestWillBeSent"
            ],
            "picture": self._picture(request["selector"]) if request["selector"] else "",
            "printed": self._printed() if request["printed"] else "",
        }

    def _open_blank(self) -> None:
        loaded: list[bool] = []
        self._page.loadFinished.connect(loaded.append)
        self._page.setUrl(QUrl("about:blank"))
        self._until(lambda: loaded)
        self._page.loadFinished.disconnect(loaded.append)

    def _connected(self) -> QWebSocket:
        network = QNetworkAccessManager()
        reply = network.get(QNetworkRequest(QUrl(f"http://127.0.0.1:{PORT}/json")))
        self._until(reply.isFinished)
        (target,) = json.loads(bytes(reply.readAll().data()))
        connection = QWebSocket()
        connected: list[bool] = []
        connection.connected.connect(lambda: connected.append(True))
        connection.textMessageReceived.connect(self._received)
        connection.open(QUrl(target["webSocketDebuggerUrl"]))
        self._until(lambda: connected)
        return connection

    def _received(self, message: str) -> None:
        told = json.loads(message)
        if "id" in told:
            self._answers[told["id"]] = told
        else:
            self._events.append(told)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._asked += 1
        number = self._asked
        self._socket.sendTextMessage(json.dumps({"id": number, "method": method, "params": parameters}))
        self._until(lambda: number in self._answers)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _evaluate(self, script: str) -> Any:
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"]["value"]

    def _tree(self) -> list[tuple[str, str]]:
        """What a screen reader is told: roles and names, in the order of the page."""
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        by_number = {each["nodeId"]: each for each in nodes}
        seen: list[tuple[str, str]] = []

        def walk(node: dict[str, Any]) -> None:
            if not node["ignored"]:
                seen.append((node["role"]["value"], node.get("name", {}).get("value", "")))
            for child in node.get("childIds", ()):
                if child in by_number:
                    walk(by_number[child])

        walk(nodes[0])
        return [each for each in seen if each[0] != "InlineTextBox"]

    def _picture(self, selector: str) -> str:
        """The page from its top to the end of an element, as PNG in base 64."""
        end = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().bottom + scrollY"
        width, height = self._view.width(), math.ceil(self._evaluate(end)) + MARGIN
        self._view.resize(width, height)
        self._evaluate(PAINTED)
        box = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        return self._call("Page.captureScreenshot", format="png", clip=box)["data"]

    def _printed(self) -> str:
        """The text of the page as it is printed."""
        made: list[bytes] = []
        self._call("Emulation.setEmulatedMedia", media="")
        self._page.printToPdf(lambda content: made.append(bytes(content.data())))
        self._until(lambda: made)
        return _text_of(made[0])

    def _until(self, holds: Callable[[], Any]) -> None:
        """Let the browser work until something holds."""
        late: list[bool] = []
        timer = QTimer()
        timer.setSingleShot(True)
        timer.timeout.connect(lambda: late.append(True))
        timer.start(WAIT_SECONDS * 1000)
        while not holds():
            if late:
                raise TimeoutError(f"the browser gave no answer within {WAIT_SECONDS} seconds")
            self._application.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
        timer.stop()


def _faults(event: dict[str, Any]) -> list[str]:
    """Exceptions of scripts, and what the browser writes to its console."""
    told = event["params"]
    if event["method"] == "Runtime.exceptionThrown":
        details = told["exceptionDetails"]
        return [details.get("exception", {}).get("description") or details["text"]]
    if event["method"] == "Runtime.consoleAPICalled":
        return [f"console.{told['type']}"]
    if event["method"] == "Log.entryAdded":
        return [told["entry"]["text"]]
    return []


def _text_of(content: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(BytesIO(content)).pages)


def main() -> None:
    """Answer requests until there are no more."""
    browser = Chromium()
    for line in sys.stdin:
        try:
            answer = browser.look(json.loads(line))
        except Exception as failure:  # told to whoever asked, who ends this process
            answer = {"refused": f"{type(failure).__name__}: {failure}"}
        print(json.dumps(answer), flush=True)
    # Qt takes its objects apart in an order of its own; there is nothing to save.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
