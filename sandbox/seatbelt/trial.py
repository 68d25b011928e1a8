"""A profile in which every kind of rule, filter and expression of ours stands once: whether the kernel takes it, says
whether it takes any. Pure.

What it is about does not exist. That a kernel takes it does not prove that it keeps to it.
"""

from sandbox.seatbelt.policy import FilePolicy, Names, Root
from sandbox.seatbelt.profile import STRING_BYTES, Network, seatbelt_profile

ROOT = "/private/var/empty/agent-gateway"
POLICY = FilePolicy(
    roots=(
        Root(ROOT, True),
        Root(f"{ROOT}/{'a' * STRING_BYTES}", False),  # a string of two parts
        Root("/private/var/empty/r", True),
    ),
    hidden=("/private/var/empty/b",),
    shown=("/private/var/empty/b/c",),
    hidden_names=("*.d",),
    bases=(ROOT,),
    names=Names(
        names=("*.key", "e"),
        paths=("*/f/g*/h",),
        more_names=("\u212a?",),  # more than one byte
        allowed=("i",),
        more_allowed=("[!j]",),
        allowed_paths=("*/k/*",),
        package_names=("*.key",),
        package_folders=frozenset({"l"}),
        package_places=(f"{ROOT}/m",),
    ),
    sealed=(f"{ROOT}/n\n[o]/p",),  # escapes
    runnable=(f"{ROOT}/q",),
    terminals=("/dev/ttys000",),
)
TAG = "agent-gateway-trial"


def trial_profile() -> str:
    """The text."""
    closed = seatbelt_profile(POLICY, Network(ports=(1,)), TAG)
    # Only what is said of the network differs.
    return closed + seatbelt_profile(POLICY, Network(is_open=True), TAG).partition("; Network.")[2]
