"""WebSockets (RFC 6455): inside CONNECT, inside SOCKS5, and as an upgrade that the HTTP proxy itself passes on."""

from tests.fakes.authority import Authority
from tests.fakes.chat import open_chat
from tests.fakes.product import PYTHON, Product, was_refused, went_out
from tests.fakes.site import ORIGIN, Site

# The package reads the environment: it tunnels ws:// through the proxy for https.
TUNNEL = """
import asyncio, ssl, sys
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidProxyStatus

async def talk(url):
    trust = ssl.create_default_context(cafile=sys.argv[1]) if url.startswith("wss:") else None
    try:
        async with connect(url, ssl=trust) as chat:
            for word in ("one", "two", "three " * 50_000):
                await chat.send(word)
                assert await chat.recv() == f"said: {word}"
            await chat.send(bytes(range(256)))
            print("talked", await chat.recv() == bytes(range(256)))
    except InvalidProxyStatus as error:
        print("refused", error.response.status_code, error.response.headers["X-Agent-Gateway"])

for url in sys.argv[2:]:
    asyncio.run(talk(url))
"""
SOCKS = """
import asyncio, os, ssl, sys, urllib.parse
import socks
from websockets.asyncio.client import connect
proxy = urllib.parse.urlsplit(os.environ["ALL_PROXY"])

async def talk(url):
    where = urllib.parse.urlsplit(url)
    trust = ssl.create_default_context(cafile=sys.argv[1]) if url.startswith("wss:") else None
    plain = socks.socksocket()
    plain.set_proxy(socks.SOCKS5, proxy.hostname, proxy.port, rdns=True)
    try:
        plain.connect((where.hostname, where.port))
        async with connect(url, sock=plain, ssl=trust, proxy=None) as chat:
            await chat.send("one")
            print(await chat.recv())
    except socks.ProxyError as error:
        print("refused", error)

for url in sys.argv[2:]:
    asyncio.run(talk(url))
"""
# The package's protocol without its connections: the request names the whole URL, as a proxy is asked.
UPGRADE = """
import os, socket, sys, urllib.parse
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri
proxy = urllib.parse.urlsplit(os.environ["HTTP_PROXY"])

def talk(url):
    chat = ClientProtocol(parse_uri(url))
    request = chat.connect()
    request.path = url.replace("ws://", "http://")
    chat.send_request(request)
    with socket.create_connection((proxy.hostname, proxy.port)) as connection:
        while True:
            connection.sendall(b"".join(chat.data_to_send()))
            data = connection.recv(65536)
            if not data:
                return
            chat.receive_data(data)
            for event in chat.events_received():
                if isinstance(event, Frame):
                    if event.opcode is Opcode.TEXT:
                        print(event.data.decode())
                        chat.send_close()
                elif event.status_code == 101:
                    chat.send_text(b"one")
                else:
                    print("refused", event.headers["X-Agent-Gateway"])
                    return

for url in sys.argv[1:]:
    talk(url)
"""


def test_inside_a_tunnel(product: Product, site: Site, authority: Authority) -> None:
    with open_chat() as plain, open_chat(authority.server(ORIGIN)) as secure:
        targets = [product.reach(ORIGIN, port) for port in (plain, secure)]
        urls = (f"ws://{targets[0]}/chat", f"wss://{targets[1]}/chat", f"ws://{site.refused_plain}/chat")
        done = product.run(PYTHON, "-c", TUNNEL, site.authority, *urls)
    assert done.lines == ["talked True", "talked True", "refused 403 deny; code=not_listed"]
    assert done.log == (
        went_out("connect", targets[0])
        + went_out("connect", targets[1])
        + was_refused("connect", site.refused_plain)
    )


def test_inside_socks(product: Product, site: Site, authority: Authority) -> None:
    with open_chat() as plain, open_chat(authority.server(ORIGIN)) as secure:
        targets = [product.reach(ORIGIN, port) for port in (plain, secure)]
        urls = (f"ws://{targets[0]}/chat", f"wss://{targets[1]}/chat", f"ws://{site.refused_plain}/chat")
        done = product.run(PYTHON, "-c", SOCKS, site.authority, *urls)
    assert done.lines == [
        "said: one",
        "said: one",
        "refused Socket error: 0x02: Connection not allowed by ruleset",
    ]
    assert done.log == (
        went_out("socks", targets[0])
        + went_out("socks", targets[1])
        + was_refused("socks", site.refused_plain)
    )


def test_upgrade_at_the_proxy(product: Product, site: Site) -> None:
    with open_chat() as chat:
        target = product.reach(ORIGIN, chat)
        done = product.run(PYTHON, "-c", UPGRADE, f"ws://{target}/chat", f"ws://{site.refused_plain}/chat")
    assert done.lines == ["said: one", "refused deny; code=not_listed"]
    assert done.log == went_out("http", target) + was_refused("http", site.refused_plain)
    assert [record["status"] for record in done.closed("http")] == [101]
