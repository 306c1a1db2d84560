"""Confine a process that runs a stranger's program: it may compute, and talk through one socket.

Three layers, of which each is used where the system has it: limits of resources (POSIX), Landlock for files, ports and
signals (Linux 5.13 and later, documentation `userspace-api/landlock`), and a filter of system calls (seccomp, Linux on
x86-64 and 64-bit Arm). A user namespace without network comes on top where the system lets users make one.
"""

import ctypes
import os
import platform
import resource
import struct
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # Landlock's calls, the same on all architectures
READ = 1 | 1 << 2 | 1 << 3  # execute (map a library), read a file, list a folder
FILES = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 5: 0xFFFF}  # rights that a version of Landlock knows: all are refused
NETWORK_VERSION, SCOPE_VERSION = 4, 6  # of Landlock: from these on it also refuses TCP ports, and signals
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000  # flags of unshare
NO_NEW_PRIVILEGES, DEATH_SIGNAL, DUMPABLE, SECCOMP = 38, 1, 4, 22  # of prctl
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
REFUSE, ABSENT, ALLOW = 0x00050001, 0x00050026, 0x7FFF0000  # EPERM, ENOSYS, and what seccomp lets pass
THREAD = 0x00010000  # CLONE_THREAD: a thread is no process
OLD_NUMBERS = 0x40000000  # from here on x86-64 has the same calls a second time (x32)
# System calls by number on x86-64 and 64-bit Arm, -1 where there is none: processes, other processes, sockets,
# rights and limits, names of files, and ways around the filter.
REFUSED = (
    *((57, -1), (58, -1), (59, 221), (322, 281), (62, 129), (200, 130), (234, 131), (129, 138), (297, 240)),
    *((101, 117), (310, 270), (311, 271), (434, 434), (438, 438), (424, 424), (298, 241), (29, 194), (319, 279)),
    *((41, 198), (53, 199), (42, 203), (49, 200), (50, 201), (425, 425), (426, 426), (321, 280), (323, 282)),
    *((160, 164), (302, 261), (272, 97), (308, 268), (165, 40), (166, 39), (161, 51), (250, 219), (248, 217)),
    *((90, -1), (91, 52), (268, 53), (452, 452), (92, -1), (93, 55), (94, -1), (260, 54), (280, 88), (304, 265)),
    *((188, 5), (189, 6), (190, 7), (76, 45), (141, 140), (203, 122), (240, 180), (68, 186), (64, 190)),
)
CLONE, CLONE3 = (56, 220), 435


def readable_paths(root: Path) -> list[Path]:
    """Return the files that a program may read: Python's library, NumPy, SciPy and numba, and the types of views.

    The generator of workloads, tasks, records and data are none of them.

    Args:
        root: the folder of the project's packages.
    """
    standard = Path(sysconfig.get_path("stdlib"))
    packages = Path(sysconfig.get_path("purelib"))
    wanted = ("numpy", "numpy.libs", "scipy", "scipy.libs", "numba", "llvmlite")
    return [
        *(path for path in standard.iterdir() if path.name not in ("site-packages", "dist-packages")),
        *(packages / name for name in wanted),
        root / "envs" / "types",
        root / "envs" / "scheduling.py",
    ]


def open_ruleset(paths: Iterable[Path]) -> tuple[int, int]:
    """Return a ruleset of Landlock that lets these paths be read and nothing else, and its version; -1, 0 without."""
    if sys.platform != "linux":
        return -1, 0
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, 0, 1)
    if version < 1:
        return -1, 0
    rights = FILES[max(known for known in FILES if known <= version)]
    attributes = [rights, 3 if version >= NETWORK_VERSION else 0, 3 if version >= SCOPE_VERSION else 0]
    size = 8 * (1 + (version >= NETWORK_VERSION) + (version >= SCOPE_VERSION))
    ruleset = libc.syscall(CREATE_RULESET, struct.pack("QQQ", *attributes), size, 0)
    if ruleset < 0:
        return -1, 0
    for path in paths:
        if not path.exists():
            continue
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", READ if path.is_dir() else READ & ~(1 << 3), handle)
        libc.syscall(ADD_RULE, ruleset, 1, rule, 0)
        os.close(handle)
    return ruleset, version


def confine(ruleset: tuple[int, int], cpu_seconds: int, memory: int) -> list[str]:
    """Give up everything but computing and the open socket, for good; return what is in force, in words.

    Args:
        ruleset: of `open_ruleset`.
        cpu_seconds: after which the process is killed.
        memory: bytes that it may have beyond what it has now.
    """
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if _linux() else 0
    limits = {resource.RLIMIT_CPU: cpu_seconds, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    limits |= {resource.RLIMIT_NOFILE: 64, resource.RLIMIT_AS: held + memory}
    for limit, value in limits.items():
        most = resource.getrlimit(limit)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(limit, (value, value))
    done = [f"{cpu_seconds} CPU-s, {memory >> 20:,} MiB, no file written"]
    if not _linux():
        return done
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(DEATH_SIGNAL, 9, 0, 0, 0)
    libc.prctl(DUMPABLE, 0, 0, 0, 0)
    if libc.unshare(NEW_USER | NEW_NETWORK) == 0:
        done.append("a network of its own without connections")
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0:
        handle, version = ruleset
        if version and libc.syscall(RESTRICT_SELF, handle, 0) == 0:
            done.append(f"no files but Python's and NumPy's (Landlock {version})")
        if _filter_calls(libc):
            done.append("no processes and no sockets (seccomp)")
    return done


def _linux() -> bool:
    return sys.platform == "linux"


def _filter_calls(libc: ctypes.CDLL) -> bool:
    """Refuse `REFUSED` from now on; return whether that is possible here."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        return False
    column = list(ARCHITECTURES).index(machine)
    steps = [(0x20, 0, 0, 4), (0x15, 1, 0, ARCHITECTURES[machine]), (0x06, 0, 0, REFUSE), (0x20, 0, 0, 0)]
    if machine == "x86_64":
        steps += [(0x35, 0, 1, OLD_NUMBERS), (0x06, 0, 0, REFUSE)]
    for number in (each[column] for each in REFUSED):
        steps += [(0x15, 0, 1, number), (0x06, 0, 0, REFUSE)] if number >= 0 else []
    steps += [(0x15, 0, 1, CLONE3), (0x06, 0, 0, ABSENT)]  # the C library then takes clone, whose flags can be read
    steps += [(0x15, 0, 3, CLONE[column]), (0x20, 0, 0, 16), (0x45, 1, 0, THREAD), (0x06, 0, 0, REFUSE)]
    steps += [(0x06, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    return bool(libc.prctl(SECCOMP, 2, program, 0, 0) == 0)
