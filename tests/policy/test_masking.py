"""What no record may hold is hidden, and what a reviewer has to see is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.masking import mask, mask_host, mask_path

A20, A40 = "a1B2c3D4e5F6g7H8i9J0", "a1B2c3D4e5F6g7H8i9J0" * 2
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"

# Name, token.
TOKENS = [
    ("GitHub, classic", f"ghp_{A40}"),
    ("GitHub, installation", f"ghs_{A40}"),
    ("GitHub, installation, stateless", f"ghs_1234567_{JWT}"),
    ("GitHub, installation, stateless, of a client id", f"ghs_Iv23liAbCdEfGhIjKlMn_{JWT}"),
    ("GitHub, installation, of a form to come", "ghs_" + "a1-B2_c3.D4" * 12),
    ("GitHub, OAuth", f"gho_{A20}"),
    ("GitHub, fine-grained", f"github_pat_{A20}_{A40}"),
    ("GitHub, in a host name", f"ghp_{A40}".lower()),
    ("GitLab", f"glpat-{A20}"),
    ("Anthropic", f"sk-ant-api03-{A40}"),
    ("OpenAI", f"sk-proj-{A40}"),
    ("Slack", f"xoxb-{A20}"),
    ("AWS key id", "AKIAIOSFODNN7EXAMPLE"),
    ("AWS key id, in a host name", "akiaiosfodnn7example"),
    ("AWS temporary key id", "ASIAIOSFODNN7EXAMPLE"),
    ("npm", f"npm_{A40}"),
    ("PyPI", f"pypi-AgEIcHlwaS5vcmc{A40}"),
    ("Google API key", f"AIza{A40}"),
    ("Google OAuth", f"ya29.{A40}"),
    ("Hugging Face", f"hf_{A40}"),
    ("Docker Hub", f"dckr_pat_{A40}"),
    ("Stripe", f"sk_live_{A20}"),
    ("JSON Web Token", JWT),
    ("JSON Web Token, unsigned", JWT.rpartition(".")[0] + "."),
    ("JSON Web Token, its head", JWT.partition(".")[0]),
]

# Text, what stands in the record.
HIDDEN = [
    ("https://user:pass@host.test/x", "https://***@host.test/x"),
    ("https://token@host.test/x", "https://***@host.test/x"),
    ("https://user:@host.test", "https://***@host.test"),
    ("a:b@host.test", "***@host.test"),
    ("user:p@ss:w@rd@host.test:443", "***@host.test:443"),
    ("https://user:p@ss@host.test", "https://***@host.test"),
    ("https://user:pa/ss@host.test", "https://***@host.test"),
    ("https://user:pa?ss#x@host.test", "https://***@host.test"),
    ("https://user:8080@host.test", "https://***@host.test"),
    ("//user:pass@host.test", "//***@host.test"),
    ("clone https://u:p@a.test to https://v:q@b.test", "clone https://***@a.test to https://***@b.test"),
    ("ssh://git:pw@github.com/o/r", "ssh://***@github.com/o/r"),
    ("https://host.test/a?token=b", "https://host.test/a?***"),
    ("https://host.test?b", "https://host.test?***"),
    ("see https://host.test/a?b=c and d", "see https://host.test/a?*** and d"),
    ("https://host.test/?mail=a@b.test", "https://host.test/?***"),
    ("/path/x?key=value&other=v", "/path/x?***"),
    ("Authorization: Bearer abcdef", "Authorization: ***"),
    ("proxy-authorization: Basic dXNlcjpwYXNz", "proxy-authorization: ***"),
    ('{"authorization": "secret words"}', '{"authorization": ***"}'),
    ("curl -H 'X-Api-Key: 123' x", "curl -H 'X-Api-Key: ***' x"),
    ("PRIVATE-TOKEN: abc def", "PRIVATE-TOKEN: ***"),
    ("Cookie: a=b; c=d", "Cookie: ***"),
    ("X-Agent-Gateway-Session: abc", "X-Agent-Gateway-Session: ***"),
    ("Bearer abcdefgh", "Bearer ***"),
    ("/x/bearer%20abcdefgh.ijk/y", "/x/bearer%20***"),
    ("%20Basic%20dXNlcjpwYXNz", "%20Basic%20***"),
    ("negotiate+YIIabcdef==", "negotiate+***"),
]

# Stays as it is.
SHOWN = [
    "",
    "api.anthropic.com",
    "a.b-c.example.test",
    "mail@example.test",
    "git@github.com:owner/repository.git",
    "registry.test/@scope/package",
    "/@scope/package/-/package-1.0.0.tgz",
    "http://host.test:8080/@vite/client",
    "localhost:3000/@vite/client",
    "package@1.2.3",
    "task-management-system.example.test",  # …sk-…
    "risk-assessment-tools-for-all.example.test",
    "moneyjournal-london-edition.whatever-else.test",  # …eyj….….
    "/api/monkeyJournalEntriesOfTheDay.all.of.them",
    "asiapacificbusinessnews.example.test",  # asia…
    "paizasomething-with-a-very-long-name-that-goes-on.test",  # …aiza…
    "/simple/pypi-attestations-and-more/",
    "/v1/high_resolution_images_of_everything",
    "is the disk full?",
    "what? nothing",
    "/home/dev/what?/x",
    "baseline.txt:12",
    "the authorization is missing",
    "basic rules",
    "0123456789abcdef0123456789abcdef01234567",
    "ünïcödé 名前 of any kind",
]


@pytest.mark.parametrize("token", [token for _, token in TOKENS], ids=[name for name, _ in TOKENS])
@pytest.mark.parametrize(
    "place", ["{}", "{}.evil.test", "/x/{}/y", "a={}", "\n{}", "%20{}", '"{}"', "x_{}", "é{}"]
)
def test_tokens_are_hidden(token: str, place: str) -> None:
    text = mask(place.format(token))
    assert "***" in text
    assert token not in text
    assert token[-12:] not in text


@pytest.mark.parametrize(
    "token", [f"ghs_{A40}"[:40], f"ghs_1234567_{JWT}", f"ghs_1234567_{JWT}{'-_x' * 150}", "ghs_" + "-._" * 12]
)
def test_an_installation_token_is_hidden_as_a_whole(token: str) -> None:
    assert mask(f"remote: {token} is no use") == "remote: *** is no use"


@pytest.mark.parametrize(("text", "masked"), HIDDEN)
def test_hidden(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize("text", SHOWN)
def test_shown(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("host.test", "host.test"),
        ("user:pa/ss wo?rd@host.test", "***@host.test"),
        ("token@host.test", "***@host.test"),
        ("a@b@c", "***@c"),
        ("@", "***@"),
        ("host.test?token", "host.test"),
        ("host.test/a?b?c", "host.test/a"),
        ("2001:db8::1", "2001:db8::1"),
        ("", ""),
    ],
)
def test_hosts(text: str, masked: str) -> None:
    assert mask_host(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [("/a/@b", "/a/@b"), ("/a?b", "/a"), ("/a?b#c", "/a"), ("/a#b?c", "/a"), ("/a%3Fb", "/a%3Fb"), ("?", "")],
)
def test_paths(text: str, masked: str) -> None:
    assert mask_path(text) == masked


_WORDS = st.text(st.characters(exclude_categories=("Z", "C"), exclude_characters="@"))


@given(st.text(), st.text())
def test_a_token_is_hidden_wherever_it_stands(before: str, after: str) -> None:
    token = f"ghp_{A40}"
    assert token not in mask(before + token + after)


@given(_WORDS.filter(lambda text: not text[:1].isdigit()), st.text())
def test_a_password_is_hidden_whatever_it_holds(around: str, after: str) -> None:
    """Digits first would be a port: "host:80/x@y" holds no userinfo."""
    text = f"https://user:{around}Qz7Xk{around}@host.test {after}"
    assert "Qz7Xk" not in mask(text).partition("@host.test")[0] or "Qz7Xk" in after


@given(_WORDS.filter(lambda text: "=" not in text and "?" not in text))
def test_a_query_is_hidden_whatever_it_holds(around: str) -> None:
    for text in (f"https://host.test/x?{around}Qz7Xk", f"/x?{around}=Qz7Xk"):
        assert "Qz7Xk" not in mask(text)


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ",
        "eyJeyJeyJeyJ.",
        "//",
        "//a:",
        "@",
        "@//a:",
        "?",
        "?a",
        "://",
        "sk-",
        "ghs_",
        "ghs_-.",
        "bearer ",
        "bearer %20",
        "cookie ",
        "+",
    ],
)
def test_hostile_text_takes_no_time(piece: str) -> None:
    """Many characters: with time that grows with the square, this test would not end."""
    text = piece * (200_000 // len(piece))
    for one in (text, "@" + text, text + "@", "x?" + text, "bearer " + text):
        mask(one)
