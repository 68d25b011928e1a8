"""The shipped lists: form, completeness, what they allow and deny, and what happens when a file is broken.

The sets are literal on purpose: a change of the lists that matters is a second edit. Those that would name a
registry stand in allowlists/expected.toml, since such names stand in that folder alone.
"""

import shutil
import tomllib
from collections import Counter
from collections.abc import Callable
from importlib.resources import as_file, files
from ipaddress import ip_address
from pathlib import Path

import pytest

from gateway.allowlists import BASELINE, DENY, GITHUB, ShippedLists, load_shipped
from gateway.errors import GatewayError
from gateway.policy.hosts import HostMatcher
from gateway.policy.lists import MAX_FILE, ListEntry, ParsedList
from tests.source_tree import ROOT

NAMES = (BASELINE, GITHUB, DENY)


def _expected() -> dict[str, list[str]]:
    return tomllib.loads((ROOT / "allowlists" / "expected.toml").read_text(encoding="utf-8"))


EXPECTED = _expected()

REQUIRED_GROUPS = {
    BASELINE: {
        "alpine",
        "arch-like",
        "browsers",
        "build-systems",
        "containers",
        "dart",
        "debian",
        "dotnet",
        "elixir",
        "elm",
        "embedded",
        "fedora-like",
        "git-hosting",
        "go",
        "haskell",
        "homebrew",
        "julia",
        "jvm",
        "latex",
        "lean",
        "linux-vendors",
        "llm",
        "lua",
        "models",
        "nix",
        "npm",
        "ocaml",
        "other-languages",
        "other-systems",
        "perl",
        "php",
        "python",
        "r",
        "ruby",
        "rust",
        "signing",
        "source-archives",
        "swift",
        "ubuntu",
        "windows-packages",
        "zig",
    },
    GITHUB: {"actions", "api", "attestation", "content", "copilot", "git", "lfs", "packages", "releases"},
    DENY: {
        "doh",
        "inside-names",
        "localhost",
        "metadata",
        "metadata-address",
        "telemetry-agents",
        "telemetry-build",
        "telemetry-intake",
        "telemetry-microsoft",
    },
}

# Zones below which strangers get names: no entry may cover a name there that is not written out.
SHARED_ZONES = (
    "amazonaws.com",
    "s3.amazonaws.com",
    "s3.us-east-1.amazonaws.com",
    "s3.dualstack.us-east-1.amazonaws.com",
    "s3-us-west-2.amazonaws.com",
    "s3-accelerate.amazonaws.com",
    "s3-website-us-east-1.amazonaws.com",
    "execute-api.us-east-1.amazonaws.com",
    "us-east-1.elb.amazonaws.com",
    "cloudfront.net",
    "awsapps.com",
    "blob.core.windows.net",
    "core.windows.net",
    "azurewebsites.net",
    "azureedge.net",
    "azurefd.net",
    "azurecr.io",
    "openai.azure.com",
    "cognitiveservices.azure.com",
    "services.ai.azure.com",
    "visualstudio.com",
    "vsassets.io",
    "googleapis.com",
    "storage.googleapis.com",
    "storage-download.googleapis.com",
    "appspot.com",
    "run.app",
    "web.app",
    "firebaseio.com",
    "pkg.dev",
    "gcr.io",
    "googleusercontent.com",
    "r2.dev",
    "r2.cloudflarestorage.com",
    "workers.dev",
    "pages.dev",
    "trycloudflare.com",
    "github.io",
    "ghe.com",
    "githubusercontent.com",
    "gitlab.io",
    "codeberg.page",
    "vercel.app",
    "netlify.app",
    "herokuapp.com",
    "onrender.com",
    "fly.dev",
    "deno.dev",
    "surge.sh",
    "readthedocs.io",
    "jfrog.io",
    "cachix.org",
    "cloudsmith.io",
    "hf.space",
    "databricks.com",
    "supabase.co",
    "digitaloceanspaces.com",
    "backblazeb2.com",
    "aliyuncs.com",
    "myqcloud.com",
    "ngrok.io",
    "ngrok-free.app",
    "nip.io",
    "internal",
    "local",
    "lan",
)

# Zones above in which one operator gives the names it lists: checked for strangers' names, not for tenants.
OPERATOR_NAMES_TOO = ("amazonaws.com", "googleapis.com", "aliyuncs.com", "githubusercontent.com")


DENIED = (
    "metadata.google.internal",
    "metadata.goog",
    "metadata",
    "metadata.azure.internal",
    "instance-data",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
    "kubernetes.default.svc",
    "localhost",
    "ip6-localhost",
    "host.docker.internal",
    "host.containers.internal",
    "nip.io",
    "169-254-169-254.nip.io",
    "10.0.0.5.sslip.io",
    "localtest.me",
    "a.b.lvh.me",
    "cloudflare-dns.com",
    "mozilla.cloudflare-dns.com",
    "dns.google",
    "dns11.quad9.net",
    "abc123.dns.nextdns.io",
    # Inside zones that are allowed
    "telemetry.individual.githubcopilot.com",
    "telemetry.business.githubcopilot.com",
    "telemetry.enterprise.githubcopilot.com",
    "copilot-telemetry.githubusercontent.com",
    "collector.github.com",
    # Telemetry
    "statsig.anthropic.com",
    "api.statsig.com",
    "featuregates.org",
    "default.exp-tas.com",
    "play.googleapis.com",
    "o1.ingest.us.sentry.io",
    "http-intake.logs.datadoghq.com",
    "http-intake.logs.us5.datadoghq.com",
    "us.i.posthog.com",
    "api.segment.io",
    "www.google-analytics.com",
    "dc.services.visualstudio.com",
    "westus-0.in.applicationinsights.azure.com",
    "mobile.events.data.microsoft.com",
    "vortex.data.microsoft.com",
    "telemetry.nextjs.org",
    "telemetry.vercel.com",
    "checkpoint-api.hashicorp.com",
    "scans-in.gradle.com",
    "acme.gradle-enterprise.cloud",
    "static.scarf.sh",
)

# What an operator must be able to allow: a fixed denial could not be lifted.
NOT_DENIED = (
    "storage.googleapis.com",
    "vault.corp.internal",
    "printer.local",
    "nas.lan",
    "router.home.arpa",
    "forge.tools.svc.cluster.local",
    "sentry.io",
    "acme.sentry.io",
    "api.datadoghq.com",
    "us.posthog.com",
    "api.newrelic.com",
    "api.honeycomb.io",
    "eastus.monitor.azure.com",
    "collector.example.com",
)

DENIED_ADDRESSES = (
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "169.254.42.42",
    "169.254.0.23",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fe80::a9fe:a9fe",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:c1::a9fe:a9fe",
    "fd00:42::42",
    "fd00:a9fe:a9fe::1",
    "fd00:100::100:200",
)

# Inside addresses that an operator may open one by one, so no network of the file may hold them.
NOT_DENIED_ADDRESSES = (
    "127.0.0.1",
    "10.0.0.5",
    "192.168.1.10",
    "100.64.0.1",
    "::1",
    "fd12:3456::1",
    "140.82.112.3",
)


@pytest.fixture(scope="module")
def lists() -> ShippedLists:
    return load_shipped()


def _all(lists: ShippedLists) -> dict[str, ParsedList]:
    return {BASELINE: lists.baseline, GITHUB: lists.github, DENY: lists.deny}


def _allow_entries(lists: ShippedLists) -> tuple[ListEntry, ...]:
    return lists.baseline.entries + lists.github.entries


@pytest.fixture(scope="module")
def allow(lists: ShippedLists) -> HostMatcher:
    return HostMatcher(lists.baseline.patterns + lists.github.patterns)


@pytest.fixture(scope="module")
def deny(lists: ShippedLists) -> HostMatcher:
    return HostMatcher(lists.deny.patterns, storage_labels=True)


class TestForm:
    @pytest.mark.parametrize("name", NAMES)
    def test_every_line_is_read_without_a_problem_or_warning(self, lists: ShippedLists, name: str) -> None:
        assert _all(lists)[name].problems == ()

    @pytest.mark.parametrize("name", NAMES)
    def test_every_entry_is_written_in_its_normal_form(self, lists: ShippedLists, name: str) -> None:
        lines = files("allowlists").joinpath(name).read_text(encoding="utf-8").split("\n")
        assert [
            entry
            for entry in _all(lists)[name].entries
            if lines[entry.line - 1].partition("  # ")[0] != entry.pattern
        ] == []

    @pytest.mark.parametrize("name", NAMES)
    def test_the_groups_are_the_required_ones_and_as_large_as_the_head_claims(
        self, lists: ShippedLists, name: str
    ) -> None:
        parsed = _all(lists)[name]
        assert set(parsed.counts) == REQUIRED_GROUPS[name]
        assert dict(Counter(entry.group for entry in parsed.entries)) == dict(parsed.counts)

    @pytest.mark.parametrize("name", NAMES)
    def test_every_entry_has_a_reason_of_its_own(self, lists: ShippedLists, name: str) -> None:
        entries = _all(lists)[name].entries
        assert [entry for entry in entries if len(entry.why) < 12 or " " not in entry.why] == []
        reasons = Counter((entry.group, entry.why) for entry in entries)
        assert [reason for reason, number in reasons.items() if number > 1] == []

    def test_no_entry_stands_in_both_allowlists(self, lists: ShippedLists) -> None:
        patterns = Counter(entry.pattern for entry in _allow_entries(lists))
        assert [pattern for pattern, number in patterns.items() if number > 1] == []

    def test_the_deny_list_marks_no_risk_and_nothing_is_raw(self, lists: ShippedLists) -> None:
        assert {entry.risk for entry in lists.deny.entries} == {""}
        assert not any(entry.raw for parsed in _all(lists).values() for entry in parsed.entries)


class TestPolicy:
    def test_no_allow_entry_is_refused_by_the_deny_list(self, lists: ShippedLists, deny: HostMatcher) -> None:
        refused = []
        for entry in _allow_entries(lists):
            hosts = [entry.pattern.replace("*", "sample")]
            if entry.pattern.startswith("*."):
                hosts += [entry.pattern.removeprefix("*."), entry.pattern.replace("*", "a.b")]
            refused += [(entry.pattern, found.text) for host in hosts if (found := deny.match(host))]
        assert refused == []

    def test_the_wildcards_are_the_reviewed_ones(self, lists: ShippedLists) -> None:
        assert {entry.pattern for entry in _allow_entries(lists) if "*" in entry.pattern} == set(
            EXPECTED["wildcards"]
        )

    def test_what_anybody_can_upload_to_is_reviewed(self, lists: ShippedLists) -> None:
        assert {entry.pattern for entry in _allow_entries(lists) if entry.risk == "X3"} == set(
            EXPECTED["anybody_uploads"]
        )

    @pytest.mark.parametrize("zone", SHARED_ZONES)
    def test_no_stranger_gets_an_allowed_name_in_a_shared_zone(
        self, lists: ShippedLists, allow: HostMatcher, zone: str
    ) -> None:
        heads = {pattern.partition(".*.")[0] for pattern in EXPECTED["wildcards"] if ".*." in pattern}
        strangers = [f"{label}.{zone}" for label in ("strangers-bucket", "a.b")]
        # A bucket may be called like the head of a one-label wildcard.
        storage = zone.startswith("s3") and zone.endswith(".amazonaws.com")
        strangers += [f"{head}.{zone}" for head in heads if storage]
        assert [host for host in strangers if allow.match(host)] == []

    def test_names_in_shared_zones_are_the_named_tenants(self, lists: ShippedLists) -> None:
        zones = tuple(f".{zone}" for zone in SHARED_ZONES if zone not in OPERATOR_NAMES_TOO)
        tenants = {entry.pattern for entry in _allow_entries(lists) if entry.pattern.endswith(zones)}
        assert tenants == set(EXPECTED["named_tenants"])

    @pytest.mark.parametrize("host", EXPECTED["allowed"])
    def test_allowed(self, allow: HostMatcher, deny: HostMatcher, host: str) -> None:
        assert allow.match(host) is not None
        assert deny.match(host) is None

    @pytest.mark.parametrize("host", EXPECTED["not_allowed"])
    def test_not_allowed(self, allow: HostMatcher, host: str) -> None:
        assert allow.match(host) is None

    @pytest.mark.parametrize("host", DENIED)
    def test_denied(self, deny: HostMatcher, host: str) -> None:
        assert deny.match(host) is not None

    @pytest.mark.parametrize("host", NOT_DENIED)
    def test_not_denied(self, deny: HostMatcher, host: str) -> None:
        assert deny.match(host) is None

    @pytest.mark.parametrize("text", DENIED_ADDRESSES)
    def test_denied_address(self, lists: ShippedLists, text: str) -> None:
        rules = [rule for network, rule in lists.deny.networks if ip_address(text) in network]
        assert [rule.startswith("deny.txt:") for rule in rules] == [True]

    @pytest.mark.parametrize("text", NOT_DENIED_ADDRESSES)
    def test_not_denied_address(self, lists: ShippedLists, text: str) -> None:
        assert [rule for network, rule in lists.deny.networks if ip_address(text) in network] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the shipped files, to be broken."""
    for name in NAMES:
        with as_file(files("allowlists").joinpath(name)) as path:
            shutil.copyfile(path, tmp_path / name)
    return tmp_path


def _remove(path: Path) -> None:
    path.unlink()


def _make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _make_unreadable(path: Path) -> None:
    # A file that opens and then fails to read, for root too: the address 0 of this process.
    path.unlink()
    path.symlink_to("/proc/self/mem")


def _write(data: bytes) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.write_bytes(data)

    return replace


def _append(data: bytes) -> Callable[[Path], None]:
    def append(path: Path) -> None:
        path.write_bytes(path.read_bytes() + data)

    return append


def _cut_in_half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"\n", len(data) // 2) + 1])


def _keep_head(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if line.startswith(b"#")))


def _lose_head(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if not line.startswith(b"#")))


def _lose_last_line(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (_remove, "missing"),
    "directory": (_make_directory, "no regular file"),
    "unreadable": (_make_unreadable, "cannot be read"),
    "empty": (_write(b""), "no entry"),
    "comments only": (_keep_head, "no entry"),
    "blank": (_write(b"\n\n"), "empty line"),
    "binary": (_append(b"\x7fELF\0\0"), "NUL"),
    "not UTF-8": (_append(b"caf\xe9.test  # a name  group=llm\n"), "not UTF-8"),
    "too long": (_append(b"#" * MAX_FILE), "bytes"),
    "cut in half": (_cut_in_half, "the head claims"),
    "one line lost": (_lose_last_line, "the head claims"),
    "head lost": (_lose_head, "the head claims"),
    "one line too many": (_append(b"one.more.test  # a line too many  group=llm\n"), "the head claims"),
    "no group": (_append(b"one.more.test  # a line without a group\n"), "group none"),
    "every host": (_append(b"*  # all of it  group=llm\n"), "every host"),
    "top-level domain": (_append(b"*.com  # much of it  group=llm\n"), "top-level domain"),
    "URL": (_append(b"https://one.more.test/x  # a link  group=llm\n"), "URL"),
}


class TestLoading:
    def test_the_package_is_read_by_default(self, folder: Path) -> None:
        assert load_shipped() == load_shipped(folder)

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("fault", BROKEN)
    def test_a_broken_file_is_an_error_that_names_it(self, folder: Path, name: str, fault: str) -> None:
        destroy, words = BROKEN[fault]
        destroy(folder / name)
        with pytest.raises(GatewayError) as caught:
            load_shipped(folder)
        (problem,) = caught.value.message.split("\n")[1:2]
        assert problem.startswith(f"{name}:")
        assert words in caught.value.message
        assert str(folder) in caught.value.hint

    @pytest.mark.parametrize("name", NAMES)
    def test_a_bad_line_is_named_with_its_number(self, folder: Path, name: str) -> None:
        line = len((folder / name).read_bytes().splitlines()) + 1
        _append(b"a*b.test  # a star inside a label  group=llm\n")(folder / name)
        with pytest.raises(GatewayError) as caught:
            load_shipped(folder)
        assert f"\n{name}:{line}: " in caught.value.message

    def test_every_file_is_named_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(GatewayError) as caught:
            load_shipped(tmp_path)
        assert [line.partition(":")[0] for line in caught.value.message.split("\n")[1:]] == list(NAMES)

    def test_a_long_report_is_cut(self, folder: Path) -> None:
        (folder / BASELINE).write_bytes(b"*\n" * 50)
        with pytest.raises(GatewayError) as caught:
            load_shipped(folder)
        assert caught.value.message.endswith("\nand 30 more")

    def test_an_address_in_an_allowlist_is_an_error(self, folder: Path) -> None:
        _append(b"140.82.112.3  # an address  group=git\n")(folder / GITHUB)
        with pytest.raises(GatewayError, match="an allowlist holds names"):
            load_shipped(folder)
