"""Programs of every day in a wrap with file rules at creation time: they work as anywhere, and what is denied fails in
the words that people know. As root and as an ordinary user; everything comes from files made here.
"""

import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.wrapping import PEOPLE, PYTHON, Place, place_of

GIT = (
    "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.test"
    " GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.test;"
)
CERTIFICATE = "-----BEGIN CERTIFICATE-----\n"


@pytest.fixture(params=PEOPLE)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A host in small for each of the people."""
    with place_of(request.param) as made:
        yield made


def works(place: Place, script: str, **options: object) -> str:
    """Runs a script of which every command has to work; its output."""
    done = place.sh(f"set -eu\n{script}", file_rules="create-time", **options)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "denied" not in done.stderr, done.stderr
    return done.stdout


# (what, a script, its output)
SCRIPTS: list[tuple[str, str, str]] = [
    (
        "shell redirections",
        "echo one > f; echo two >> f; cat f > g; : > h; cat <<X > i\nhere\nX\n"
        "(echo out > /dev/stdout; echo error > /dev/stderr) 2>&1 | cat; echo nothing > /dev/null; cat f g i",
        "out\nerror\none\ntwo\none\ntwo\nhere\n",
    ),
    ("sed -i", "echo one > f; sed -i s/one/two/ f; sed -i.bak s/two/three/ f; cat f f.bak", "three\ntwo\n"),
    (
        "copies and moves",
        "mkdir -p a/b; echo x > a/b/f; cp -a a c; mv c d; install -m 755 a/b/f e; ln a/b/f g; ln -s a/b/f h;"
        " cp --reflink=auto g i; rsync --version >/dev/null 2>&1 || true; stat -c '%a %h' e g; cat h d/b/f i",
        "755 1\n644 2\nx\nx\nx\n",
    ),
    (
        "modes and masks",
        "umask 077; echo x > f; mkdir d; umask 002; echo x > g; mkdir e; stat -c %a f d g e; chmod 4755 g;"
        " stat -c %a g; echo y >> g; stat -c %a g",
        "600\n700\n664\n775\n4755\n755\n",
    ),
    (
        "tar and gzip",
        "mkdir -p t/sub; for i in 1 2 3 4 5; do echo $i > t/sub/f$i; done; ln -s sub t/link; ln t/sub/f1 t/hard;"
        " mkfifo t/pipe; tar czf t.tgz t; mkdir u; tar xzf t.tgz -C u; diff -r --no-dereference --exclude=pipe t u/t;"
        " stat -c '%h %F' u/t/hard u/t/pipe; gzip -k t/sub/f2; ls t/sub | wc -l",
        "2 regular file\n1 fifo\n6\n",
    ),
    (
        "pipes with names",
        "mkfifo p; echo through > p & cat p; cat p > got & echo back > p; wait; cat got",
        "through\nback\n",
    ),
    (
        "make and gcc",
        "printf 'int f(void){return 40;}\\n' > f.c; printf 'int f(void);int main(void){return f()+2;}\\n' > m.c;"
        " printf 'all: p\\np: f.o m.o\\n\\t$(CC) -o $@ $^\\n' > Makefile; make -s -j2;"
        " ./p || echo $?; make -q all && echo done;"
        " ar rcs l.a f.o; gcc -g -O1 -o q m.c l.a; strip q; ./q || echo $?",
        "42\ndone\n42\n",
    ),
    (
        "sqlite with a write-ahead log",
        "sqlite3 d.db 'pragma journal_mode=wal; create table t(x); insert into t values(1),(2); select sum(x) from t;';"
        " sqlite3 d.db 'update t set x = x * 2; select sum(x) from t; pragma wal_checkpoint(truncate);'; ls d.db*",
        "wal\n3\n6\n0|0|0\nd.db\n",
    ),
    (
        "a program that was just written",
        "for i in 1 2 3; do cp /bin/true t$i; ./t$i; rm t$i; done; echo fine",
        "fine\n",
    ),
    (
        "find, xargs, sort and split",
        "for i in 3 1 2; do echo $i > f$i; done; find . -name 'f*' -print0 | xargs -0 cat | sort -o s; cat s;"
        " split -l 1 s part.; ls part.*; find . -name 'part.*' -delete; truncate -s 100 t; stat -c %s t",
        "1\n2\n3\npart.aa\npart.ab\npart.ac\n100\n",
    ),
    (
        "names that only look like denied ones",
        "for n in .envrc .env.example .env.sample keys a.pem.txt monkey key pem x.keys .environment; do"
        " echo x > $n; done;"
        " mkdir .git2 environments; mv .envrc envrc; mv envrc .envrc; ls -A | wc -l",
        "12\n",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("what", "script", "output"), SCRIPTS, ids=[what for what, _, _ in SCRIPTS])
def test_programs_of_the_system(place: Place, what: str, script: str, output: str) -> None:
    assert works(place, script) == output


BASH = """
diff <(echo same) <(echo same) && echo alike
while read -r line; do echo "got $line"; done < <(printf 'a\\nb\\n')
echo copied > >(cat); wait
tee one two < <(echo many) > /dev/null; cat one two
exec 5<> both; echo written >&5; exec 5>&-; cat both
coproc cat; echo round >&"${COPROC[1]}"; read -r line <&"${COPROC[0]}"; echo "$line"
"""


def test_bash_substitutes_processes(place: Place) -> None:
    place.write(place.worktree / "s.sh", BASH)
    output = works(place, "bash s.sh")
    assert sorted(output.split()) == [
        "a",
        "alike",
        "b",
        "copied",
        "got",
        "got",
        "many",
        "many",
        "round",
        "written",
    ]


# --- git ------------------------------------------------------------------------------------------

REPOSITORY = f"""{GIT}
git init -q -b main --bare origin.git; git init -q -b main repo; cd repo
echo one > a; git add a; git commit -qm one; git remote add origin ../origin.git; git push -q -u origin main
git checkout -q -b side; echo two > b; git add b; git commit -qm two; git push -q -u origin side
git checkout -q main; echo three > c; git add c; git commit -qm three; git merge -q -m merge side; git push -q
cd ..; git clone -q origin.git copy; cd copy; git checkout -q -b mine --track origin/side
git config branch.mine.merge; git worktree add -q ../linked; ls ../linked; cd ../linked; echo four > d; git add d
git commit -qm four; git stash list; git gc -q; git fsck
git rebase -q main 2>/dev/null || true; git log --oneline | wc -l
"""


def test_git_makes_and_clones_repositories(place: Place) -> None:
    """What is made inside is nobody's hooks and configuration but the agent's own."""
    output = works(place, REPOSITORY).split()
    assert output[0] == "refs/heads/side"
    assert "b" in output and int(output[-1]) >= 3


def test_git_in_the_repository_that_was_there(place: Place) -> None:
    """Its configuration is replaced where that is harmless, and in no other way."""
    work = str(place.worktree)
    place.write(place.worktree / "a", "one")
    prepare = (
        f"{GIT} git init -q -b main; git add a; git commit -qm one; git init -q -b main --bare origin.git;"
    )
    prepare += f" git remote add origin {work}/origin.git"
    done = place.sh(f"set -e; {prepare}", file_rules="create-time")
    assert done.returncode == 0, done.stderr
    output = works(
        place,
        f"{GIT} git push -q -u origin main; git checkout -q -b topic --track origin/main; echo two > b; git add b;"
        " git commit -qm two; git config branch.topic.merge; git config branch.main.remote; git checkout -q main;"
        " git merge -q topic; git branch -qD topic; git status --short --untracked-files=no; git stash list;"
        " git config branch.main.merge",
    )
    assert output.splitlines()[:2] == ["refs/heads/main", "origin"]
    assert output.splitlines()[-1] == "refs/heads/main"
    config = (place.worktree / ".git/config").read_text()
    refused = place.sh(
        "git config core.hooksPath evil; git config alias.x '!evil'; git config submodule.m.update '!evil';"
        " git config filter.f.clean evil; git remote set-url origin ext::evil; echo > .git/hooks/pre-commit;"
        " git config include.path evil; mv .git/hooks x; mv .git y; git config branch.main.description fine",
        file_rules="create-time",
    )
    assert refused.returncode == 0
    assert "evil" not in (place.worktree / ".git/config").read_text()
    assert config in (place.worktree / ".git/config").read_text()
    assert "description = fine" in (place.worktree / ".git/config").read_text()
    assert not (place.worktree / ".git/hooks/pre-commit").exists()


def test_git_says_what_it_may_not_check_out(place: Place) -> None:
    """git's own way: it complains, and goes on."""
    tree = f"{GIT} git init -q r; cd r; echo x > a; git add a; h=$(echo secret | git hash-object -w --stdin);"
    tree += " git update-index --add --cacheinfo 100644,$h,.env; git commit -qm x; rm a; git checkout -q -f HEAD; ls -A"
    done = place.sh(tree, file_rules="create-time")
    assert "unable to create file .env: Permission denied" in done.stderr
    assert done.stdout.split() == [".git", "a"]


# --- Python ---------------------------------------------------------------------------------------


def wheel(folder: Path) -> None:
    """A package with a certificate of its own, as `requests` brings one."""
    metadata = "Metadata-Version: 2.1\nName: wanted\nVersion: 1.0\n"
    files = {
        "wanted/__init__.py": "import os\nwhere = os.path.join(os.path.dirname(__file__), 'cacert.pem')\n",
        "wanted/cacert.pem": CERTIFICATE,
        "wanted-1.0.dist-info/METADATA": metadata,
        "wanted-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "wanted-1.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(folder / "wanted-1.0-py3-none-any.whl", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def test_python_makes_an_environment_and_installs_into_it(place: Place) -> None:
    """Certificates among installed packages are no secrets."""
    wheel(place.worktree)
    output = works(
        place,
        f"{PYTHON} -m venv venv; venv/bin/pip install -q --no-index --disable-pip-version-check wanted-1.0*.whl;"
        " venv/bin/python -c 'import wanted; print(open(wanted.where).read())'; venv/bin/pip list --format=freeze"
        " --disable-pip-version-check; venv/bin/pip uninstall -q -y wanted",
    )
    assert CERTIFICATE in output and "wanted==1.0" in output


MULTIPROCESSING = """
import multiprocessing, multiprocessing.shared_memory, os, socket, sqlite3, tempfile, threading, concurrent.futures

def square(number):
    with tempfile.NamedTemporaryFile("w+", dir=".") as file:
        file.write(str(number * number))
        file.flush()
        file.seek(0)
        return int(file.read())

def serve(queue, event):
    queue.put(os.getpid() > 0)
    event.wait()

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            print(sum(pool.map(square, range(10))))
        queue, event = context.Queue(), context.Event()
        process = context.Process(target=serve, args=(queue, event))
        process.start()
        print(queue.get())
        event.set()
        process.join()
    with multiprocessing.Manager() as manager:
        shared = manager.dict(a=1)
        print(shared["a"])
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=100)
    memory.buf[0] = 7
    print(memory.buf[0])
    memory.close()
    memory.unlink()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        def write(number):
            with open(f"t{number}", "x") as file:
                file.write("x")
            os.replace(f"t{number}", f"u{number}")
        list(pool.map(write, range(200)))
    print(len([name for name in os.listdir(".") if name.startswith("u")]))
    one, other = socket.socketpair()
    one.send(b"hello")
    print(other.recv(5).decode())
    with tempfile.TemporaryDirectory() as folder:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(folder + "/socket")
        listener.listen()
        client = socket.socket(socket.AF_UNIX)
        client.connect(folder + "/socket")
        print(listener.accept()[0] is not None)
"""


def test_python_runs_many_processes(place: Place) -> None:
    place.write(place.worktree / "m.py", MULTIPROCESSING)
    assert works(place, f"{PYTHON} m.py").split() == [*["285", "True"] * 3, "1", "7", "200", "hello", "True"]


# --- Node -----------------------------------------------------------------------------------------

NODE = """
const fs = require('fs'), path = require('path'), child = require('child_process');
const net = require('net'), os = require('os');
fs.mkdirSync('a/b/c', {recursive: true});
fs.writeFileSync('a/f', 'one'); fs.appendFileSync('a/f', ' two'); fs.renameSync('a/f', 'a/b/g');
fs.copyFileSync('a/b/g', 'a/h'); fs.symlinkSync('h', 'a/l'); fs.linkSync('a/h', 'a/m'); fs.truncateSync('a/m', 3);
fs.cpSync('a', 'z', {recursive: true}); fs.chmodSync('a/h', 0o600); fs.mkdtempSync('tmp-');
console.log(fs.readFileSync('a/l', 'utf8'), fs.statSync('a/h').nlink, (fs.statSync('a/h').mode & 0o777).toString(8));
fs.rmSync('z', {recursive: true});
(async () => {
  await Promise.all([...Array(300).keys()].map(i => fs.promises.writeFile(`a/b/c/${i}`, String(i))));
  console.log((await fs.promises.readdir('a/b/c')).length);
  const stream = fs.createWriteStream('s'); stream.end('streamed');
  await new Promise(done => stream.on('close', done));
  const seen = new Promise(done => { const w = fs.watch('a', () => { w.close(); done('watched'); }); });
  fs.writeFileSync('a/new', 'x'); console.log(await seen, fs.readFileSync('s', 'utf8'));
  console.log(child.execFileSync('sh', ['-c', 'echo child > k; cat k']).toString().trim());
  const name = path.join(os.tmpdir(), 'node.sock');
  const server = net.createServer(one => one.end('socket')).listen(name, () => {
    net.connect(name).on('data', data => { console.log(String(data)); server.close(); });
  });
  for (const name of ['.env', 'x.key', 'a/.env.local']) {
    try { fs.writeFileSync(name, 'x'); console.log('made', name); } catch (error) { console.log(error.code); }
  }
})();
"""


def test_node_writes_files(place: Place) -> None:
    place.write(place.worktree / "n.js", NODE)
    said = works(place, "node n.js").splitlines()
    assert said[:4] == ["one 2 600", "300", "watched streamed", "child"]
    assert said[4:7] == ["EACCES"] * 3 and said[7] == "socket"


def test_npm_installs_packages(place: Place) -> None:
    """From archives, with scripts and with keys that only tests of the package use."""
    for name, depends in (("inner", {}), ("outer", {"inner": "1.0.0"})):
        about = {
            "name": name, "version": "1.0.0", "bin": {name: "run.js"}, "dependencies": depends,
            "scripts": {"postinstall": "touch built"},
        }  # fmt: skip
        files = {
            "package.json": json.dumps(about),
            "run.js": f"#!/usr/bin/env node\nconsole.log('{name} runs')\n",
            "test/server.key": "key", "test/ca.pem": CERTIFICATE, ".env.example": "x",
        }  # fmt: skip
        with tarfile.open(place.worktree / f"{name}.tgz", "w:gz") as archive:
            for file, content in files.items():
                entry = tarfile.TarInfo(f"package/{file}")
                entry.size, entry.mode = len(content), 0o755
                archive.addfile(entry, io.BytesIO(content.encode()))
    place.write(place.worktree / "package.json", json.dumps({"name": "mine", "version": "1.0.0"}))
    output = works(
        place,
        "npm install --offline --no-audit --no-fund --foreground-scripts=false ./inner.tgz ./outer.tgz >/dev/null;"
        " npx --offline outer; npx --offline inner; cat node_modules/inner/test/server.key; npm ls --depth=0 | tail -3;"
        " npm run 2>/dev/null; npm uninstall --offline inner >/dev/null; ls node_modules | wc -l",
    )
    assert "outer runs" in output and "inner runs" in output


# --- What is denied -------------------------------------------------------------------------------

DENIED: list[tuple[str, str]] = [
    ("touch .env", "touch: cannot touch '.env': Permission denied"),
    ("cp a server.key", "cp: cannot create regular file 'server.key': Permission denied"),
    ("mv a x.pem", "mv: cannot move 'a' to 'x.pem': Permission denied"),
    ("ln a x.pem", "ln: failed to create hard link 'x.pem'"),
    ("ln -s a x.pem", "ln: failed to create symbolic link 'x.pem': Permission denied"),
    ("mkdir .env", "mkdir: cannot create directory '.env': Permission denied"),
    ("echo x > .env.local", "cannot create .env.local: Permission denied"),
    ("tar xf t.tar", "tar: .env: Cannot open: Permission denied"),
    ("tee .ENV < a > /dev/null", "tee: .ENV: Permission denied"),
    ("dd if=a of=k.key status=none", "dd: failed to open 'k.key': Permission denied"),
    ("mkfifo p.key", "mkfifo: cannot create fifo 'p.key': Permission denied"),
    ("install a id.p12", "install: cannot create regular file 'id.p12': Permission denied"),
    ("unshare -Ur true", "unshare failed: Operation not permitted"),
    ("python3 -c \"open('x.key', 'w')\"", "PermissionError: [Errno 13] Permission denied: 'x.key'"),
]


def test_denials_are_told_in_words_people_know(place: Place) -> None:
    """In one wrap: each command fails, with the message of any file that may not be written, and makes nothing."""
    place.write(place.worktree / "a", "x")
    with tarfile.open(place.worktree / "t.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo(".env"))
    script = "".join(f"{command} && echo 'did {number}'\n" for number, (command, _) in enumerate(DENIED))
    done = place.sh(f"export LC_ALL=C\n{script}", file_rules="create-time")
    assert done.stdout == ""
    for _, message in DENIED:
        assert message in done.stderr
    assert sorted(path.name for path in place.worktree.iterdir()) == ["a", "t.tar"]
