"""The key is ours alone, made once, and what it signed cannot be anything else."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.audit.signing import KEY_NAME, PUBLIC_NAME, Keys, Signed, Signer, key_id
from gateway.errors import AuditError
from tests.source_tree import ROOT


def test_a_key_is_made_at_first_use(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    signer = Signer(state)
    assert not state.exists()
    signer.prepare()
    assert sorted(path.name for path in state.iterdir()) == [KEY_NAME, PUBLIC_NAME]
    for path in state.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = (state / KEY_NAME).read_bytes()
    Signer(state).prepare()
    signer.prepare()
    assert (state / KEY_NAME).read_bytes() == before


def test_what_is_signed_is_checked_with_either_half(tmp_path: Path) -> None:
    line = Signer(tmp_path).sign('{"a":1')
    for name in (KEY_NAME, PUBLIC_NAME):
        keys = Keys.read([tmp_path / name])
        assert keys.check(line) is Signed.GOOD
    assert keys.ids == (key_id(keys.raw[0]),)
    assert line.startswith(f'{{"a":1,"key":"{keys.ids[0]}","signature":"'.encode())


@pytest.mark.parametrize(
    ("change", "worth"),
    [
        (lambda line: line, Signed.GOOD),
        (lambda line: line.replace(b'"a":1', b'"a":2'), Signed.BAD),
        (lambda line: line[:-3] + (b"0" if line[-3:-2] != b"0" else b"1") + line[-2:], Signed.BAD),
        (lambda line: line.replace(b'"key":"', b'"key":"0')[:-1], Signed.NONE),
        (lambda line: line + b" ", Signed.NONE),
        (lambda line: b'{"a":1}', Signed.NONE),
        (lambda line: b"", Signed.NONE),
        (lambda line: line.replace(line[14:30], b"0123456789abcdef"), Signed.FOREIGN),
    ],
)
def test_what_a_signature_is_worth(tmp_path: Path, change: Callable[[bytes], bytes], worth: Signed) -> None:
    line = Signer(tmp_path).sign('{"a":1')
    assert Keys.read([tmp_path / KEY_NAME]).check(change(line)) is worth


def test_several_keys(tmp_path: Path) -> None:
    lines = [Signer(tmp_path / name).sign("{") for name in ("a", "b")]
    both = Keys.read([tmp_path / name / KEY_NAME for name in ("a", "b")])
    assert [both.check(line) for line in lines] == [Signed.GOOD] * 2
    assert [Keys().check(line) for line in lines] == [Signed.FOREIGN] * 2


def _readable_by_others(path: Path) -> None:
    path.chmod(0o640)


def _rubbish(path: Path) -> None:
    path.write_text("rubbish")


def _empty(path: Path) -> None:
    path.write_text("")


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir(mode=0o700)


def _another_kind(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RSA], cwd=ROOT, capture_output=True, check=True
    )  # fmt: skip
    path.write_bytes(done.stdout)


_RSA = """
import sys
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
key = ec.generate_private_key(ec.SECP256R1())
sys.stdout.buffer.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
"""


@pytest.mark.parametrize("spoil", [_readable_by_others, _rubbish, _empty, _link, _folder, _another_kind])
def test_a_key_that_is_not_to_be_used(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """Never replaced in silence: somebody has to look."""
    Signer(tmp_path).prepare()
    spoil(tmp_path / KEY_NAME)
    with pytest.raises(AuditError, match="audit key"):
        Signer(tmp_path).sign("{")


def test_a_place_where_no_key_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditError, match="cannot be"):
        Signer(tmp_path / "file").prepare()
    with pytest.raises(AuditError, match="cannot be used"):
        Keys.read([tmp_path / "nowhere"])


_MAKE = """
import sys
from pathlib import Path
from gateway.audit.signing import Signer
signer = Signer(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(signer.keys.ids[0])
"""


def test_processes_that_start_at_once_have_one_key(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _MAKE, str(tmp_path)]
    makers = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for maker in makers:
        assert maker.stdout is not None
        assert maker.stdout.readline() == "ready\n"
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write("go\n")
        maker.stdin.flush()
    assert len({maker.communicate()[0] for maker in makers}) == 1
    assert sorted(os.listdir(tmp_path)) == [KEY_NAME, PUBLIC_NAME]


def test_cryptography_is_not_there_before_it_is_needed() -> None:
    script = "import sys, gateway.audit; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0
