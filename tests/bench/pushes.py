"""Pushes through `agent-gateway run` against the same pushes without it, to the same embedded forge.

Real git on both ways, in turns, and the forge as it was before each push.
"""

import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tests.bench.measures import MeasurementFailed, Results, Scale
from tests.bench.processes import last_words
from tests.bench.push_place import Commits, fast_folder, git_program, plain_git
from tests.bench.push_site import FORGE, MANY, WIDGET, Site, open_site
from tests.bench.subjects import Stage
from tests.bench.toolchain import Unavailable, output_of

GATEWAY, DIRECT = "gateway", "direct"
GIT = "git receive-pack"

PUSH_FIGURES = (
    "push-create",
    "push-update",
    "push-proven",
    "push-asked",
    "push-denied",
    "push-memory",
    "push-tokens",
    "refs",
    "inflating",
)

INFLATED = 1 << 30
RECEIVE = "git-receive-pack"


def measure_pushes(stage: Stage, scale: Scale, results: Results) -> None:
    """All of it, on one site; what fails costs its own figure."""
    try:
        with open_site(stage.folder) as site:
            results.notes.append(
                f"pushes: {output_of((git_program(), '--version'))}, the forge's files "
                f"{'in memory' if fast_folder() else 'on a disk'}, the gateway takes {site.rise.idle / 1e6:.0f} MB "
                "when idle"
            )
            takes = [
                (push.figure, partial(measure_push, site, push, scale, results))
                for push in pushes_of(site.commits)
            ]
            takes.append(("refs", partial(measure_refs, site, scale, results)))
            takes.append(("inflating", partial(measure_inflating, site, results)))
            for figure, take in takes:
                try:
                    take()
                except (MeasurementFailed, Unavailable) as error:
                    results.problems.append(f"{figure}, {GATEWAY}: {error}")
    except (MeasurementFailed, Unavailable) as error:
        results.problems.append(f"pushes, {GATEWAY}: {error}")


def note_highest(results: Results, figure: str, risen: int) -> None:
    """Keeps the highest, in MB, as the figure's only value."""
    if sys.platform == "linux":
        known = results.series.get(figure, {}).pop(GATEWAY, [0.0])
        results.add(figure, GATEWAY, max(*known, risen / 1e6))


# --- Pushes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Push:
    """One kind of push: of the large commit to `branch`, which is at `before` when it begins, "" for nowhere.
    `allowed` by the gateway; direct all of them are."""

    figure: str
    branch: str
    before: str
    allowed: bool = True


def pushes_of(commits: Commits) -> tuple[Push, ...]:
    """The pushes that are timed."""
    return (
        Push("push-create", "agent/new", ""),
        Push("push-update", "agent/old", commits.middle),
        Push("push-proven", "proven/old", commits.middle),
        Push("push-asked", "proven/older", commits.base),
        Push("push-denied", "main", commits.middle, allowed=False),
    )


def measure_push(site: Site, push: Push, scale: Scale, results: Results) -> None:
    """Pairs of one push, through the gateway and direct; which comes first changes with every pair."""
    before = site.forge(do="count")
    for number in range(-1, scale.pairs):
        order = (DIRECT, GATEWAY) if number % 2 else (GATEWAY, DIRECT)
        for subject in order if push.allowed else (GATEWAY,):  # the forge denies nothing
            seconds = push_once(site, push, subject, results)
            if number >= 0:  # the first pair warms up
                results.add(push.figure, subject, seconds)
    if not push.allowed:
        after = site.forge(do="count")
        results.add("push-tokens", GATEWAY, sum(after.values()) - sum(before.values()))


def push_once(site: Site, push: Push, subject: str, results: Results) -> float:
    """Seconds of one push, the forge as it was before. `MeasurementFailed` where not what must come of it did."""
    site.widget.restore(push.branch, push.before)
    refspec = f"{site.commits.large}:refs/heads/{push.branch}"
    command = [git_program(), "push", "--quiet"]
    site.rise.begin()
    if subject == DIRECT:
        variables = {
            **plain_git(site.worktree),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: {site.authorization}",
        }
        done = site.outside(run=[*command, f"{site.url}/{WIDGET}.git", refspec], environment=variables)
    else:
        done = site.inside(run=[*command, f"https://github.com/{WIDGET}.git", refspec])
        note_highest(results, "push-memory", site.rise.highest())
    site.forge(do="settle")
    allowed = push.allowed or subject == DIRECT
    expected = site.commits.large if allowed else push.before
    as_told = (done["status"] == 0) if allowed else ("[remote rejected]" in done["tail"])
    if site.widget.tip(push.branch) != expected or not as_told:
        raise MeasurementFailed(f"git push ended with {done['status']}: {last_words(done['tail'])}")
    return float(done["seconds"])


# --- The list of refs -----------------------------------------------------------------------------


def measure_refs(site: Site, scale: Scale, results: Results) -> None:
    """What any push to a repository of 100,000 branches begins with, in turns: from the gateway, from git itself
    without HTTP, and from the forge."""
    query = f"info/refs?service={RECEIVE}"
    headers = {"Authorization": site.authorization}
    command = [git_program(), "receive-pack", "--stateless-rpc", "--advertise-refs", str(site.many)]
    for number in range(-1, scale.pairs):
        answers = {
            GATEWAY: site.inside(ask=f"/git/{FORGE}:{site.port}/{MANY}.git/{query}"),
            GIT: site.outside(run=command, environment=plain_git(site.worktree)),
            DIRECT: site.outside(ask=f"{site.url}/{MANY}.git/{query}", headers=headers),
        }
        for subject, answer in answers.items():
            same_size = abs(answer["size"] / answers[GIT]["size"] - 1) < 0.01  # capabilities differ
            if answer["status"] not in {0, 200} or not same_size:
                said = last_words(answer["tail"])
                raise MeasurementFailed(f"{answer['size']} bytes of refs from {subject}: {said}")
            if number >= 0:
                results.add("refs", subject, answer["seconds"])


# --- A body that inflates -------------------------------------------------------------------------


def measure_inflating(site: Site, results: Results) -> None:
    """How far it moves the gateway's memory, for a branch that may be pushed and for one that may not. The answer is
    no, and no branch comes of it."""
    body = site.worktree / "inflating.gz"
    headers = {"Content-Type": f"application/x-{RECEIVE}-request", "Content-Encoding": "gzip"}
    for branch in ("agent/inflating", "main"):
        body.write_bytes(b"".join(inflating_body(site.commits.large, branch)))
        before = site.widget.tip(branch)
        site.rise.begin()
        answer = site.inside(
            ask=f"/git/{FORGE}:{site.port}/{WIDGET}.git/{RECEIVE}", headers=headers, body=str(body)
        )
        note_highest(results, "inflating", site.rise.highest())
        refused = answer["status"] >= 400 or f"ng refs/heads/{branch} " in answer["tail"]
        if site.widget.tip(branch) != before or not refused:
            raise MeasurementFailed(f"it was not refused: {answer['status']}: {last_words(answer['tail'])}")
        results.notes.append(
            f"inflating: {body.stat().st_size / 1e6:.2f} MB for {branch} refused after {answer['seconds']:.2f} s"
        )


def inflating_body(commit: str, branch: str) -> Iterator[bytes]:
    """A push of one branch whose pack is zeros to the end of 1 GiB, deflated to about 1 MB."""
    line = f"{'0' * len(commit)} {commit} refs/heads/{branch}\0 report-status side-band-64k"
    deflate = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    yield deflate.compress(f"{len(line) + 4:04x}{line}0000PACK".encode())
    zeros = bytes(1 << 20)
    for _ in range(INFLATED // len(zeros)):
        yield deflate.compress(zeros)
    yield deflate.flush()
