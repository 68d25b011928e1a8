"""The wrapped process has no way out but the session's listeners, whatever it is told."""

from tests.fakes.authority import Authority
from tests.fakes.product import PYTHON, Product
from tests.fakes.site import ORIGIN, open_site

# Tries to get out without the proxies, prints what came of it.
DIRECT = """
import errno, os, socket, sys
for name in list(os.environ):
    if name.upper().endswith("_PROXY"):
        del os.environ[name]
port = int(sys.argv[1])
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET, "192.0.2.1")):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as out:
            out.connect((address, port))
            print("connected")
    except OSError as error:
        print(errno.errorcode[error.errno])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    try:
        out.sendto(b"question", ("192.0.2.1", 53))
        print("sent")
    except OSError as error:
        print(errno.errorcode[error.errno])
for name in sys.argv[2:]:
    try:
        print(socket.getaddrinfo(name, port))
    except socket.gaierror as error:
        print("no address")
"""
# Nobody listens there; or the kernel has no IPv6.
WITHOUT_IPV6 = ("ECONNREFUSED", "EADDRNOTAVAIL", "EAFNOSUPPORT")


def test_nothing_is_reached_without_the_proxies(wrapped: Product, authority: Authority) -> None:
    with open_site(wrapped, authority) as site:
        script = f"""
        "$@"
        unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
        curl -sS http://{site.plain_target}/hello; echo "exit $?"
        curl -sS http://127.0.0.1:{site.plain.port}/hello; echo "exit $?"
        """
        wrapped.activate(PYTHON)
        arguments = ("python", "-c", DIRECT, str(site.plain.port), ORIGIN, "github.com")
        done = wrapped.run("sh", "-c", script, "sh", *arguments)
        assert (site.plain.connections, site.secure.connections) == (0, 0)
    local, local_v6, *rest = done.lines
    assert (local, local_v6 in WITHOUT_IPV6) == ("ECONNREFUSED", True)
    assert rest == ["ENETUNREACH", "ENETUNREACH", "no address", "no address", "exit 6", "exit 7"]
    assert done.egress == ()
    assert (done.allowed, done.denied) == (0, 0)
