"""Python: urllib, requests and httpx by their own reading of the environment, and through the SOCKS proxy; TLS is the
client's own with the server, so a wrong certificate is the client's to refuse."""

import json
import ssl

import pytest

from tests.fakes.authority import Authority
from tests.fakes.product import PYTHON, Product, was_refused, went_out
from tests.fakes.site import ORIGIN, Site
from tests.fakes.web import Web

# Each takes the authority's file and URLs; it prints what came of each URL, one JSON object a line.
URLLIB = """
import json, ssl, sys, urllib.error, urllib.request
context = ssl.create_default_context(cafile=sys.argv[1])
for url in sys.argv[2:]:
    try:
        with urllib.request.urlopen(url, context=context) as answer:
            print(json.dumps({"status": answer.status, "text": answer.read().decode()}))
    except urllib.error.HTTPError as error:
        print(json.dumps({"status": error.code, "text": error.read().decode()}))
    except urllib.error.URLError as error:
        print(json.dumps({"error": str(error)}))
"""
REQUESTS = """
import json, os, sys, requests
session = requests.Session()
session.verify = sys.argv[1]
proxies = dict.fromkeys(("http", "https"), os.environ["ALL_PROXY"]) if "SOCKS" in os.environ else None
for url in sys.argv[2:]:
    try:
        answer = session.get(url, proxies=proxies)
        print(json.dumps({"status": answer.status_code, "text": answer.text}))
    except requests.RequestException as error:
        print(json.dumps({"error": str(error)}))
"""
HTTPX = """
import json, os, ssl, sys, httpx
proxy = os.environ["ALL_PROXY"] if "SOCKS" in os.environ else None
with httpx.Client(verify=ssl.create_default_context(cafile=sys.argv[1]), proxy=proxy) as client:
    for url in sys.argv[2:]:
        try:
            answer = client.get(url)
            print(json.dumps({"status": answer.status_code, "text": answer.text}))
        except httpx.TransportError as error:
            print(json.dumps({"error": str(error)}))
"""
HTTP_CLIENTS = {"urllib": URLLIB, "requests": REQUESTS, "httpx": HTTPX}
SOCKS_CLIENTS = {"requests": REQUESTS, "httpx": HTTPX}


def outcomes(lines: list[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("client", HTTP_CLIENTS.values(), ids=HTTP_CLIENTS.keys())
def test_http_proxy(product: Product, site: Site, client: str) -> None:
    urls = (
        f"{site.http}/hello?plain", f"{site.https}/hello?secure", f"{site.https}/hello?again",
        f"http://{site.refused_plain}/hello", f"https://{site.refused_secure}/hello",
    )  # fmt: skip
    done = product.run(PYTHON, "-c", client, site.authority, *urls)
    plain, secure, again, refused_plain, refused_secure = outcomes(done.lines)
    assert plain == {"status": 200, "text": "hello GET plain\n"}
    assert secure == {"status": 200, "text": "hello GET secure\n"}
    assert again == {"status": 200, "text": "hello GET again\n"}
    assert refused_plain["status"] == 403
    assert json.loads(str(refused_plain["text"]))["code"] == "not_listed"
    assert "403 Forbidden" in str(refused_secure["error"])
    connections = len(done.closed("connect"))
    assert connections == (2 if client is URLLIB else 1)  # urllib keeps no connection
    assert done.log == (
        went_out("http", site.plain_target)
        + went_out("connect", site.secure_target, connections)
        + was_refused("http", site.refused_plain)
        + was_refused("connect", site.refused_secure)
    )


@pytest.mark.parametrize("client", SOCKS_CLIENTS.values(), ids=SOCKS_CLIENTS.keys())
def test_socks_proxy(product: Product, site: Site, client: str) -> None:
    urls = (f"{site.http}/hello?plain", f"{site.https}/hello?secure", f"https://{site.refused_secure}/hello")
    done = product.run(PYTHON, "-c", client, site.authority, *urls, options=("--env", "SOCKS=1"))
    plain, secure, refused = outcomes(done.lines)
    assert plain == {"status": 200, "text": "hello GET plain\n"}
    assert secure == {"status": 200, "text": "hello GET secure\n"}
    assert "not allowed by ruleset" in str(refused["error"])
    assert done.log == (
        went_out("socks", site.plain_target, inside=1)
        + went_out("socks", site.secure_target)
        + was_refused("socks", site.refused_secure)
    )


CERTIFICATE = """
import os, socket, ssl, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
with socket.create_connection((proxy.hostname, proxy.port)) as plain:
    plain.sendall(f"CONNECT {sys.argv[2]} HTTP/1.1\\r\\nHost: {sys.argv[2]}\\r\\n\\r\\n".encode())
    assert plain.recv(1024).startswith(b"HTTP/1.1 200 ")
    context = ssl.create_default_context(cafile=sys.argv[1])
    with context.wrap_socket(plain, server_hostname=sys.argv[2].rpartition(":")[0]) as secure:
        print(ssl.DER_cert_to_PEM_cert(secure.getpeercert(True)), end="")
"""


def test_certificate_is_the_servers_own(
    product: Product, site: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The client sees the server's, and refuses one of an authority it does not trust or of another name."""
    other = Authority(tmp_path_factory.mktemp("other"), "nobody's authority")
    named = Authority(tmp_path_factory.mktemp("named"))
    with (
        Web({}, tls=other.server(ORIGIN)) as untrusted,
        Web({}, tls=named.server("another.test")) as misnamed,
    ):
        targets = [product.reach(ORIGIN, web.port) for web in (untrusted, misnamed)]
        (product.work / "named.pem").write_bytes(named.path.read_bytes())
        script = f"""
        python -c "$1" {site.authority} {site.secure_target} >seen
        python -c "$2" {site.authority} https://{targets[0]}/
        python -c "$2" named.pem https://{targets[1]}/
        """
        product.activate(PYTHON)
        done = product.run("sh", "-c", script, "sh", CERTIFICATE, URLLIB)
        assert (untrusted.requests, misnamed.requests) == ([], [])
    assert (product.work / "seen").read_text() == ssl.get_server_certificate(("127.0.0.1", site.secure.port))
    reasons = [str(outcome["error"]) for outcome in outcomes(done.lines)]
    assert "CERTIFICATE_VERIFY_FAILED" in reasons[0]
    assert "certificate is not valid for 'origin.test'" in reasons[1]
    assert done.log == (
        went_out("connect", site.secure_target)
        + went_out("connect", targets[0])
        + went_out("connect", targets[1])
    )
