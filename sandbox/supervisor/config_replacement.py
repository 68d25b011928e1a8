"""The replacement of a repository's git configuration: judged by its content, and done with a file of our own.

git writes `config.lock` and renames it to `config`. The agent may keep a descriptor of the file it wrote, so that very
file never becomes the configuration: the bytes that were judged are written to a new one, and that is renamed. Nobody
inside can do anything to it meanwhile, since every call that could is answered by us, one after another.
"""

import errno
import os
import stat

from sandbox.git.config_change import judge
from sandbox.supervisor.call import Call
from sandbox.supervisor.configurations import READ, SIZE_LIMIT
from sandbox.supervisor.judgement import CREATE, Refused
from sandbox.supervisor.resolution import Place

# Beside the configuration, for a moment. Whatever is left by a supervisor that was killed is replaced.
OWN_NAME = b"config.agent-gateway"


def replace(call: Call, source: Place, target: Place, rule: str) -> None:
    """Answers a rename of `source` to the configuration `target`. Refused with the reason when it is not harmless."""
    lock, found = _read(source)
    call.resolver.hold(lock)
    status = os.fstat(lock)
    configurations = call.door.configurations
    try:
        present, before = _read(target)
        call.resolver.hold(present)
    except FileNotFoundError:
        before = configurations.last(
            target.path
        )  # it was removed: that changes nothing of what may be changed
    reason = judge(before, found)
    if reason:
        raise Refused(CREATE, target.path, f"{rule}: {reason}")
    _write(target, found, status.st_mode & 0o666)
    configurations.remember(target.path, found, status.st_mode & 0o666)
    _remove_lock(source, status)
    call.answer()


def _read(place: Place) -> tuple[int, bytes]:
    """A small regular file's descriptor and bytes; EACCES for anything else."""
    descriptor = os.open(place.spelled, READ, dir_fd=place.parent)
    try:
        status = os.fstat(descriptor)
        content = os.read(descriptor, SIZE_LIMIT + 1) if stat.S_ISREG(status.st_mode) else None
        if content is None or len(content) > SIZE_LIMIT or len(content) != status.st_size:
            raise PermissionError(errno.EACCES, "")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, content


def _write(target: Place, content: bytes, mode: int) -> None:
    """The bytes in a new file under the configuration's name; the old one stays whole until then."""
    folder = target.parent
    try:
        os.unlink(OWN_NAME, dir_fd=folder)
    except FileNotFoundError:
        pass
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(OWN_NAME, flags, 0o600, dir_fd=folder)
    try:
        written = os.write(descriptor, content)
        if written != len(content):
            raise OSError(errno.ENOSPC, "")
        os.fchmod(descriptor, mode)
        os.rename(OWN_NAME, target.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(OWN_NAME, dir_fd=folder)
        raise
    finally:
        os.close(descriptor)


def _remove_lock(source: Place, status: os.stat_result) -> None:
    """The file whose content it was, unless something else stands there by now."""
    try:
        found = os.stat(source.name, dir_fd=source.parent, follow_symlinks=False)
        if (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino):
            os.unlink(source.name, dir_fd=source.parent)
    except OSError:
        pass  # it was removed already
