"""pip: an installation from an index of the tests' own, and one from an index that is refused."""

from tests.fakes.authority import Authority
from tests.fakes.package_index import GREETING, PROJECT, VERSION, index_routes
from tests.fakes.product import PYTHON, Product, was_refused, went_out
from tests.fakes.site import open_site

# Nothing of this machine's own settings; pip says why it asks again, so it is let do so once.
PIP = "python -m pip --isolated --disable-pip-version-check --no-cache-dir --retries 1"
OPTIONS = ("--env", "PIP_CONFIG_FILE=/dev/null")


def test_install(product: Product, authority: Authority) -> None:
    with open_site(product, authority, index_routes()) as site:
        script = f"""
        {PIP} install -q --cert {site.authority} --index-url {site.https}/simple/ --target installed {PROJECT}
        (cd installed && python -m tiny_greeting && ls -d *.dist-info)
        {PIP} install --index-url https://{site.refused_secure}/simple/ --target refused {PROJECT} >output; echo $?
        """
        product.activate(PYTHON)
        done = product.run("sh", "-c", script, options=OPTIONS)
    assert done.lines == [GREETING, f"tiny_greeting-{VERSION}.dist-info", "1"]
    assert "403 Forbidden" in done.stderr
    assert not (product.work / "refused").exists()
    refused = was_refused("connect", site.refused_secure)
    assert set(done.log) == set(went_out("connect", site.secure_target) + refused)
    assert len(done.closed("connect")) == 1
