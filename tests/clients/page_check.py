"""The page of a router in a real browser: headless Chromium, driven by its WebDriver (W3C) with nothing but the standard library.

    page_check.py ROUTER_ADDRESS [--key KEY] [--screenshot FILE]

With --key the router asks for keys: the page must ask for one, say so of a wrong one, and chat with the right one.
"""

import argparse
import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

PATIENCE = 60  # seconds
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for an element's id
# Chromium's sandbox needs a user that is not root, or privileges that containers lack. The pages here are our own.
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,800"]


class Browser:
    def __init__(self, profile):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        port = None
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                port = line.rsplit(" ", 1)[1].strip().rstrip(".")
                break
        assert port, "chromedriver did not start"
        self.base = f"http://127.0.0.1:{port}/session"
        chrome = {"args": [*OPTIONS, f"--user-data-dir={profile}"]}
        capabilities = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": chrome}}}
        self.base += "/" + self.call("POST", "", capabilities)["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def text(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent).join('\\n')", selector)

    def shown(self, selector):
        return self.run("const e = document.querySelector(arguments[0]); return !!e && e.checkVisibility()", selector)

    def hover(self, selector):
        origin = {ELEMENT: self.find(selector)}
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin}
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def wait_for(self, what, holds):
        start = time.monotonic()
        while time.monotonic() - start < PATIENCE:
            if holds():
                return
        raise AssertionError(f"not within {PATIENCE} s: {what}\n{self.text('body')}")

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("GET", "/screenshot")))


def wait_for_answer(browser, count):
    browser.wait_for(f"answer {count}", lambda: browser.run(
        "return document.querySelectorAll('.assistant').length === arguments[0] && !document.getElementById('send').disabled", count))


def check_chat(browser):
    assert browser.text("#model"), "the model is not named"
    browser.run("document.getElementById('max_tokens').value = 12; document.getElementById('temperature').value = 0")
    browser.type("#question", "<script>document.title = 'taken'</script> & more")
    browser.click("#send")
    wait_for_answer(browser, 1)
    assert browser.text(".user") == "<script>document.title = 'taken'</script> & more", browser.text(".user")
    assert browser.run("return document.title") == "Lockstep", "text became a script"
    answer = browser.text(".assistant")
    assert "Cut off" in answer, answer
    assert browser.text("#speed").startswith("12 tokens"), browser.text("#speed")
    tokens = browser.run("return document.querySelectorAll('.assistant .token').length")
    assert tokens > 0, "no token has its probability"
    browser.hover(".assistant .token")
    browser.wait_for("probabilities", lambda: browser.shown("#tip") and "%" in browser.text("#tip"))


def check_stop(browser):
    browser.type("#question", "Once more")
    # In one go: whatever the model's speed, the answer has not ended by then.
    browser.run("document.getElementById('send').click(); document.getElementById('stop').click()")
    wait_for_answer(browser, 2)
    last = browser.run("return [...document.querySelectorAll('.assistant')].at(-1).textContent")
    assert last.endswith("Stopped."), last


def check_errors(browser):
    browser.run("document.getElementById('temperature').value = -1")
    browser.type("#question", "Hello")
    browser.click("#send")
    browser.wait_for("an error", lambda: browser.shown("#error"))
    assert "temperature" in browser.text("#error"), browser.text("#error")
    browser.run("document.getElementById('temperature').value = ''")
    browser.click("#new")
    assert browser.text("#messages") == "" and not browser.shown("#error")


def check_status(browser, is_fleet):
    browser.click("#show-status")
    browser.wait_for("a request", lambda: "done" in browser.text("#requests tbody"))
    assert browser.shown("#replicas") == is_fleet
    if is_fleet:
        browser.wait_for("a replica", lambda: "ready" in browser.text("#replicas tbody"))
        assert browser.run("return document.querySelectorAll('#charts svg path').length") == 6
    browser.click("#show-chat")


def check_key(browser, key):
    browser.wait_for("the question for a key", lambda: browser.shown("#key-form"))
    browser.type("#key", "wrong")
    browser.click("#key-form button")
    browser.wait_for("a message", lambda: "key" in browser.text("#error"))
    browser.type("#key", key)
    browser.click("#key-form button")
    browser.wait_for("the model", lambda: not browser.shown("#key-form"))
    assert browser.run("return localStorage.length") == 0, "the key outlives the tab"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--key")
    parser.add_argument("--screenshot")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(profile)
        try:
            browser.call("POST", "/url", {"url": f"http://{options.address}/"})
            if options.key:
                check_key(browser, options.key)
            browser.wait_for("the model", lambda: browser.text("#model") != "")
            check_chat(browser)
            check_stop(browser)
            if options.screenshot:
                browser.screenshot(options.screenshot)
            check_errors(browser)
            check_status(browser, is_fleet=not options.key)
        finally:
            browser.close()


if __name__ == "__main__":
    sys.exit(main())
