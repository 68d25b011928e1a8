"""git: clone and fetch over https from git's own server side, and over ssh from a real sshd."""

from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tests.fakes.git_forge import Repository, SshServer
from tests.fakes.product import REFUSED, Product, was_refused, went_out
from tests.fakes.site import ORIGIN, open_site

# What a clone and the fetch of the rest must bring.
LOOK = "git -C copy log --format=%H --reverse; cat copy/README; git -C copy status --short"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    folder = tmp_path / "forge"
    folder.mkdir()
    return Repository(folder)


def test_over_https(product: Product, authority: Authority, repository: Repository) -> None:
    with open_site(product, authority, {"git": repository.over_http}) as site:
        script = f"""
        set -e
        url={site.https}/git/project.git
        git -c http.sslCAInfo={site.authority} ls-remote $url main
        git -c http.sslCAInfo={site.authority} clone -q --depth 1 $url copy
        git -C copy -c http.sslCAInfo={site.authority} fetch -q --unshallow
        {LOOK}
        git ls-remote https://{site.refused_secure}/git/project.git || echo $?
        """
        done = product.run("sh", "-c", script)
    last = repository.commits[-1]
    assert done.lines == [f"{last}\trefs/heads/main", *repository.commits, "two", "128"]
    assert "CONNECT tunnel failed, response 403" in done.stderr
    assert done.log == went_out("connect", site.secure_target, 3) + was_refused(
        "connect", site.refused_secure
    )


def test_over_http(product: Product, authority: Authority, repository: Repository) -> None:
    with open_site(product, authority, {"git": repository.over_http}) as site:
        script = f"""
        set -e
        git clone -q {site.http}/git/project.git copy
        {LOOK}
        git ls-remote http://{site.refused_plain}/git/project.git || echo $?
        """
        done = product.run("sh", "-c", script)
    assert done.lines == [*repository.commits, "two", "128"]
    assert "The requested URL returned error: 403" in done.stderr
    requests = [(record["host"], record["path"]) for record in done.egress if record["state"] != "opened"]
    assert set(requests[:-1]) == {
        (ORIGIN, "/git/project.git/info/refs"), (ORIGIN, "/git/project.git/git-upload-pack"),
    }  # fmt: skip
    assert requests[-1] == (REFUSED, "/git/project.git/info/refs")
    assert {record["transport"] for record in done.egress} == {"http"}


def test_over_ssh(product: Product, repository: Repository) -> None:
    server = SshServer(repository.folder)
    with server.listening() as sshd:
        target = product.reach(ORIGIN, sshd.port, raw=True)
        (product.work / "known_hosts").write_text(f"[{ORIGIN}]:{sshd.port} {server.known}\n")
        product.give(server.identity)
        (product.work / "identity").chmod(0o600)
        script = f"""
        set -e
        export GIT_SSH_COMMAND="$GIT_SSH_COMMAND -F none -i $PWD/identity -o UserKnownHostsFile=$PWD/known_hosts"
        url=ssh://{server.user}@{target}{repository.path}
        git ls-remote $url main
        git clone -q --depth 1 $url copy
        git -C copy fetch -q --unshallow
        {LOOK}
        """
        done = product.run("sh", "-c", script)
    last = repository.commits[-1]
    assert done.status == 0, server.log()
    assert done.lines == [f"{last}\trefs/heads/main", *repository.commits, "two"]
    assert done.stderr == ""
    assert done.log == went_out("socks", target, 3)


def test_ssh_refusal_is_readable(product: Product, repository: Repository) -> None:
    with SshServer(repository.folder).listening() as sshd:
        product.reach(ORIGIN, sshd.port, raw=True)
        done = product.run("git", "ls-remote", f"ssh://git@{REFUSED}:{sshd.port}/project.git")
        assert sshd.accepted == 0
    assert done.status == 128
    assert f"agent-gateway: This sandbox's network policy refused {REFUSED} port {sshd.port}: " in done.stderr
    assert f"--allow {REFUSED}" in done.stderr
    # The helper asks a second time, at the proxy that has words for a refusal.
    target = f"{REFUSED}:{sshd.port}"
    assert done.log == was_refused("socks", target) + was_refused("connect", target)
